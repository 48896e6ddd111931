"""What the router tells of itself by `/v1/models` and `/health`, whatever the server behind it says."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest

from tests.serving.router.conftest import MODELS, Start

SERVED = {"data": [{"id": name} for name in MODELS.values()]}


class Models(ThreadingHTTPServer):
    """Answers GET with one status and body, and keeps the headers that it was asked with."""

    daemon_threads = True

    def __init__(self) -> None:
        self.status, self.body, self.asked = 200, json.dumps(SERVED).encode(), list[dict[str, str]]()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                outer.asked.append({name.lower(): value for name, value in self.headers.items()})
                self.send_response(outer.status)
                self.send_header("Content-Type", "application/json")
                self.send_header("X-Request-Id", "abc")
                self.send_header("Content-Length", str(len(outer.body)))
                self.end_headers()
                self.wfile.write(outer.body)

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                self.do_GET()

            def log_message(self, *arguments: object) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1"

    def says(self, status: int, body: Any) -> None:
        self.status = status
        self.body = body if isinstance(body, bytes) else json.dumps(body).encode()


@pytest.fixture
def models() -> Iterator[Models]:
    with Models() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def health(url: str, **headers: str) -> httpx.Response:
    return httpx.get(f"{url.removesuffix('/v1')}/health", headers=headers, timeout=900)


def test_a_well_router_says_what_it_chooses_among(models: Models, start: Start) -> None:
    answer = health(start(models.url))
    assert (answer.status_code, answer.json()) == (
        200,
        {"status": "ok", "router": "by_word", "version": "v1", "choices": ["cancel", "multi", "none"]},
    )


@pytest.mark.parametrize("status", [401, 403])
def test_a_server_that_wants_a_key_lives(models: Models, start: Start, status: int) -> None:
    models.says(status, {"error": {"message": "a key, please"}})
    answer = health(start(models.url))
    assert answer.status_code == 200 and answer.json()["status"] == "ok"


@pytest.mark.parametrize("status", [400, 402, 404, 429, 500, 503])
def test_any_other_status_is_named(models: Models, start: Start, status: int) -> None:
    models.says(status, SERVED)
    answer = health(start(models.url))
    assert (answer.status_code, answer.json()["status"]) == (503, "unwell")
    assert answer.json()["problem"] == f"the model server answers with status {status}."
    assert answer.json()["choices"] == ["cancel", "multi", "none"]


@pytest.mark.parametrize(
    ("served", "missing"),
    [
        ({"data": [{"id": "base"}]}, "cancel@0f3a9b2c, multi@1c2d3e4f"),
        ({"data": [*SERVED["data"][1:], {"name": "cancel@0f3a9b2c"}, "cancel@0f3a9b2c"]}, "cancel@0f3a9b2c"),
        ({"data": []}, "base, cancel@0f3a9b2c, multi@1c2d3e4f"),
        ({"data": None}, "base, cancel@0f3a9b2c, multi@1c2d3e4f"),
        ({}, "base, cancel@0f3a9b2c, multi@1c2d3e4f"),
        ([], "base, cancel@0f3a9b2c, multi@1c2d3e4f"),
        (b"<html>", "base, cancel@0f3a9b2c, multi@1c2d3e4f"),
    ],
)
def test_a_choice_whose_model_is_not_served_is_named(
    models: Models, start: Start, served: Any, missing: str
) -> None:
    models.says(200, served)
    answer = health(start(models.url))
    assert answer.status_code == 503
    assert answer.json()["problem"] == f"the model server does not serve {missing}."


def test_more_than_is_needed_may_be_served(models: Models, start: Start) -> None:
    models.says(200, {"data": [*SERVED["data"], {"id": "another"}]})
    assert health(start(models.url)).status_code == 200


def test_questions_hand_the_key_on_and_nothing_else(models: Models, start: Start) -> None:
    url = start(models.url)
    given = {"Authorization": "Bearer k", "Accept-Encoding": "gzip", "Cookie": "a=b", "X-Own": "1"}
    httpx.get(f"{url}/models", headers=given)
    health(url, **given)
    assert len(models.asked) == 2
    for asked in models.asked:
        assert asked["authorization"] == "Bearer k" and asked["accept-encoding"] == "identity"
        assert not {"cookie", "x-own"} & asked.keys()
    httpx.get(f"{url}/models")
    assert "authorization" not in models.asked[-1]


def test_the_list_of_models_begins_with_the_router(models: Models, start: Start) -> None:
    models.says(200, {**SERVED, "object": "odd", "more": 1})
    answer = httpx.get(f"{start(models.url)}/models")
    own = {"id": "routed", "object": "model", "created": 0, "owned_by": "trace"}
    assert answer.json() == {"object": "list", "more": 1, "data": [own, *SERVED["data"]]}


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (401, {"error": "a key, please"}),
        (201, SERVED),
        (200, {"data": {"id": "base"}}),
        (200, {"data": None}),
        (200, ["base"]),
        (200, b"not JSON"),
        (200, b"[" * 100_000),
    ],
)
def test_what_is_no_list_of_models_passes_as_it_is(
    models: Models, start: Start, status: int, body: Any
) -> None:
    models.says(status, body)
    answer = httpx.get(f"{start(models.url)}/models")
    assert (answer.status_code, answer.content) == (status, models.body)
    assert answer.headers["x-request-id"] == "abc"


@pytest.mark.parametrize(
    "body",
    [b"not JSON", b"[]", b'"routed"', b"[" * 100_000, b'{"model": "other"}', b'{"model": ["routed"]}', b"{}"],
)
def test_a_body_that_names_no_routed_model_passes_as_it_is(models: Models, start: Start, body: bytes) -> None:
    models.says(418, b"the server's business")
    answer = httpx.post(f"{start(models.url)}/chat/completions", content=body)
    assert (answer.status_code, answer.content) == (418, b"the server's business")
    assert not [name for name in answer.headers if name.startswith("x-trace")]


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/v1/chat/completions"), ("POST", "/v1/models"), ("PUT", "/health"), ("GET", "/")],
)
def test_other_ways_are_told_where_to_go(models: Models, start: Start, method: str, path: str) -> None:
    answer = httpx.request(method, start(models.url).removesuffix("/v1") + path)
    assert answer.status_code == (404 if path == "/" else 405)
    error = answer.json()["error"]
    assert error["type"] == "invalid_request_error" and error["code"] == answer.status_code
    assert error["message"].startswith(f"{method} {path} is not served here")
    assert models.asked == []
