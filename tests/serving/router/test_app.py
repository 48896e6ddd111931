"""A plain OpenAI client speaks to the proxy; a pretended server says which model it was asked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from tests.serving.router.conftest import MODELS, ByWord, Start
from tests.serving.router.pretend_server import KEY, PretendServer, events
from trace_assets.errors import InputError
from trace_assets.serving.router.decisions import Decisions
from trace_assets.serving.router.upstream import Upstream
from trace_assets.system.machine import free_port


def client(url: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=url, api_key=KEY, max_retries=0)


def said(url: str, *messages: str, model: str = "routed") -> str | None:
    roles = ("user", "assistant")
    rows: list[Any] = [{"role": roles[n % 2], "content": text} for n, text in enumerate(messages)]
    return client(url).chat.completions.create(model=model, messages=rows).choices[0].message.content


def records(tmp_path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (tmp_path / "decisions.jsonl").read_text().splitlines()]


def test_each_conversation_goes_to_its_adapter(server: PretendServer, start: Start) -> None:
    url = start(server.url)
    assert said(url, "Please CANCEL order K1.") == "cancel@0f3a9b2c"
    assert said(url, "multi, please") == "multi@1c2d3e4f"
    assert said(url, "Where is K1?") == "base"


def test_it_is_held_while_the_conversation_grows(server: PretendServer, start: Start, tmp_path: Path) -> None:
    decider = ByWord()
    url = start(server.url, decider)
    for messages in (["Where is K1?"], ["Where is K1?", "There.", "Then cancel it."]):
        assert said(url, *messages) == "base"
    assert decider.asked == ["Where is K1?"]
    first, second = records(tmp_path)
    assert (first["turn"], second["turn"]) == (0, 1)
    assert (first["remembered"], second["remembered"]) == (False, True)
    assert first["choice"] == second["choice"] == "none" and first["model"] == "base"
    assert first["router"] == "by_word" and first["version"] == "v1"
    assert first["probabilities"] == {"cancel": 0.1, "multi": 0.1, "none": 0.8}


def test_what_is_forgotten_is_decided_again(server: PretendServer, start: Start) -> None:
    decider = ByWord()
    url = start(server.url, decider, remembered=1)
    for text in ("a", "b", "b", "a"):
        said(url, text)
    assert decider.asked == ["a", "b", "a"]


def test_another_model_passes_as_it_is(server: PretendServer, start: Start, tmp_path: Path) -> None:
    url = start(server.url)
    body = b'{ "model":"multi@1c2d3e4f",  "messages":[{"role":"user","content":"cancel"}] }'
    answer = httpx.post(f"{url}/chat/completions", content=body)
    assert answer.json()["choices"][0]["message"]["content"] == "multi@1c2d3e4f"
    assert server.asked[-1][2] == body
    assert answer.headers["x-request-id"] == "abc" and "x-trace-choice" not in answer.headers
    assert records(tmp_path) == []


def test_everything_but_the_model_reaches_the_server(server: PretendServer, start: Start) -> None:
    url = start(server.url)
    rows: list[Any] = [
        {"role": "system", "content": "multi"},
        {"role": "user", "content": [{"type": "text", "text": "cancel K1"}]},
    ]
    client(url).chat.completions.create(
        model="routed", messages=rows, temperature=0.3, extra_body={"top_k": 7}, seed=5
    )
    (asked,) = server.chats()
    wanted = {"model": "cancel@0f3a9b2c", "messages": rows, "temperature": 0.3, "seed": 5, "top_k": 7}
    assert asked == wanted


def test_a_stream_comes_byte_for_byte(server: PretendServer, start: Start) -> None:
    url = start(server.url)
    body = {"model": "routed", "stream": True, "messages": [{"role": "user", "content": "cancel"}]}
    answer = httpx.post(f"{url}/chat/completions", json=body)
    assert answer.content == b"".join(events("cancel@0f3a9b2c"))
    assert answer.headers["x-trace-choice"] == "cancel"
    rows: list[Any] = body["messages"]
    stream = client(url).chat.completions.create(model="routed", stream=True, messages=rows)
    assert "".join(part.choices[0].delta.content or "" for part in stream) == "I am cancel@0f3a9b2c é"


def test_the_decision_is_told_in_headers(server: PretendServer, start: Start) -> None:
    body = {"model": "routed", "messages": [{"role": "user", "content": "cancel"}]}
    headers = httpx.post(f"{start(server.url)}/chat/completions", json=body).headers
    assert headers["x-trace-choice"] == "cancel" and headers["x-trace-model"] == "cancel@0f3a9b2c"
    assert headers["x-trace-router"] == "by_word@v1" and headers["x-trace-probability"] == "0.800000"


def test_the_key_passes_and_stays_nowhere(
    server: PretendServer, start: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.fault = "key"
    url = start(server.url)
    secret = "my order number is 9912"
    assert said(url, secret) == "base"
    with pytest.raises(openai.AuthenticationError, match="wrong key"):
        openai.OpenAI(base_url=url, api_key="other", max_retries=0).models.list()
    kept = (tmp_path / "decisions.jsonl").read_text() + caplog.text
    assert KEY not in kept and secret not in kept


def test_the_servers_errors_are_the_clients(server: PretendServer, start: Start) -> None:
    url, server.fault = start(server.url), "overloaded"
    with pytest.raises(openai.RateLimitError, match="no slot is free"):
        said(url, "cancel")
    with pytest.raises(openai.RateLimitError):
        client(url).models.list()


def test_a_server_that_is_down_is_one_clear_sentence(start: Start) -> None:
    url = start(f"http://127.0.0.1:{free_port()}")
    with pytest.raises(openai.InternalServerError, match="is not to be reached") as caught:
        said(url, "cancel")
    assert caught.value.status_code == 502
    assert httpx.get(f"{url}/models").status_code == 502
    health = httpx.get(f"{url.removesuffix('/v1')}/health")
    assert health.status_code == 503 and "is not to be reached" in health.json()["problem"]


def test_an_answer_that_breaks_off_is_never_whole(server: PretendServer, start: Start) -> None:
    url, server.fault = start(server.url), "cut_body"
    with pytest.raises(openai.InternalServerError, match="broke the connection off"):
        said(url, "cancel")
    server.fault = "cut_stream"
    rows: list[Any] = [{"role": "user", "content": "cancel"}]
    stream = client(url).chat.completions.create(model="routed", stream=True, messages=rows)
    with pytest.raises(openai.APIError, match="broke the stream off"):
        list(stream)


def test_a_client_that_leaves_ends_the_servers_work(server: PretendServer, start: Start) -> None:
    url, server.fault = start(server.url), "endless"
    rows: list[Any] = [{"role": "user", "content": "cancel"}]
    stream = client(url).chat.completions.create(model="routed", stream=True, messages=rows)
    assert next(iter(stream)).choices[0].delta.content == "I "
    assert not server.left.is_set()
    stream.close()
    assert server.left.wait(600)


def test_a_router_that_fails_says_so_in_the_clients_form(
    server: PretendServer, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(ByWord):
        async def decide(self, text: str, headers: object) -> dict[str, float]:
            raise ZeroDivisionError

    url = start(server.url, Broken())
    with pytest.raises(openai.InternalServerError, match="the router failed") as caught:
        said(url, "cancel")
    assert caught.value.status_code == 500 and KEY not in caplog.text
    assert server.asked == []


@pytest.mark.parametrize(
    "messages", [[], [{"role": "system", "content": "x"}], [{"role": "user", "content": "  "}], "no", None]
)
def test_nothing_to_route_by_is_the_clients_mistake(
    messages: object, server: PretendServer, start: Start
) -> None:
    body = {"model": "routed", "messages": messages}
    answer = httpx.post(f"{start(server.url)}/chat/completions", json=body)
    assert answer.status_code == 400 and "nothing to route it by" in answer.json()["error"]["message"]
    assert server.asked == []


def test_models_and_health(server: PretendServer, start: Start) -> None:
    url = start(server.url)
    assert [row.id for row in client(url).models.list().data] == ["routed", *sorted(MODELS.values())]
    health = httpx.get(f"{url.removesuffix('/v1')}/health")
    assert health.status_code == 200 and health.json()["choices"] == ["cancel", "multi", "none"]
    missing = httpx.get(f"{url.removesuffix('/v1')}/nothing")
    assert missing.status_code == 404 and "is not served here" in missing.json()["error"]["message"]


def test_a_choice_without_a_model_is_refused_at_the_start() -> None:
    with pytest.raises(InputError, match="may choose 'multi'"):
        Decisions(ByWord(), {"cancel": "c", "none": "base"})


@pytest.mark.parametrize(
    "url",
    [
        *("", "127.0.0.1:8000", "ftp://host/v1", "http://me:secret@host/v1", "me:secret@host:8000"),
        *("http://one:8000/v1,http://two:8000/v1", "http://host:http/v1", "http://host:99999/v1"),
        *("http://[::1/v1", "http://a host/v1", "http://host/v1?token=secret", "http://host/v1#secret"),
    ],
)
def test_addresses_that_cannot_be(url: str) -> None:
    with pytest.raises(InputError) as caught:
        Upstream(url)
    assert "secret" not in str(caught.value)
