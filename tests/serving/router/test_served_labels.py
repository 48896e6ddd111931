"""The served base model answers the routing question by its labels' log-probabilities."""

from __future__ import annotations

import httpx
import pytest

from tests.serving.router.conftest import Start
from tests.serving.router.pretend_server import KEY, LABELS, PretendServer
from trace_assets.routing.label_logits import label_prompt
from trace_assets.serving.router.decisions import ServedLabels
from trace_assets.serving.router.upstream import Upstream

OPTIONS = {"cancel": "looks first", "multi": "finishes all", "none": "no skill"}


def ask(url: str, text: str = "Cancel K1.") -> httpx.Response:
    body = {"model": "routed", "messages": [{"role": "user", "content": text}]}
    return httpx.post(f"{url}/chat/completions", json=body, headers={"Authorization": f"Bearer {KEY}"})


def labels(server: PretendServer) -> ServedLabels:
    return ServedLabels(Upstream(server.url), "base", OPTIONS)


@pytest.mark.parametrize(("favourite", "model"), [("A", "cancel@0f3a9b2c"), ("C", "base")])
def test_the_favourite_label_decides(favourite: str, model: str, server: PretendServer, start: Start) -> None:
    server.favourite, server.fault = favourite, "key"
    answer = ask(start(server.url, labels(server)))
    assert answer.json()["choices"][0]["message"]["content"] == model
    assert float(answer.headers["x-trace-probability"]) == pytest.approx(3 / 5)
    question, conversation = server.chats()
    assert question["messages"] == [{"role": "user", "content": label_prompt("Cancel K1.", OPTIONS)}]
    assert question["model"] == "base" and question["max_tokens"] == 1
    assert question["logprob_token_ids"] == [LABELS[label] for label in "ABC"]
    assert conversation["model"] == model


def test_labels_are_looked_up_once(server: PretendServer, start: Start) -> None:
    url = start(server.url, labels(server))
    for text in ("one", "two", "one"):
        assert ask(url, text).status_code == 200
    paths = [path for path, _, _ in server.asked]
    assert paths.count("/tokenize") == 3 and paths.count("/v1/chat/completions") == 2 + 3


def test_a_server_without_label_logits_is_said(server: PretendServer, start: Start) -> None:
    server.fault = "no_labels"
    answer = ask(start(server.url, labels(server)))
    assert answer.status_code == 502 and "--router classifier" in answer.json()["error"]["message"]


def test_a_refused_question_is_the_clients_to_see(server: PretendServer, start: Start) -> None:
    server.fault = "overloaded"
    answer = ask(start(server.url, labels(server)))
    assert answer.status_code == 429 and answer.json()["error"]["message"] == "no slot is free"


def test_the_version_follows_the_question(server: PretendServer) -> None:
    other = ServedLabels(Upstream(server.url), "base", {**OPTIONS, "cancel": "asks first"})
    assert labels(server).version == labels(server).version != other.version
