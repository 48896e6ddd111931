"""Servers and models of every kind: streams, limits, refusals, reasoning, parts of an answer, prices."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tests.answering import Answer as Reply
from tests.answering import InTurn, completion, failure
from trace_assets.diagnosis.llm.budget import Call, bytes_per_token, open_account
from trace_assets.diagnosis.llm.client import ModelServer, Unanswered
from trace_assets.diagnosis.llm.labelling import LabelAnswer, label_question
from trace_assets.diagnosis.llm.prices import with_prices
from trace_assets.diagnosis.llm.recording import Answers
from trace_assets.diagnosis.llm.request import Question
from trace_assets.diagnosis.llm.transcript import view
from trace_assets.errors import Unavailable
from trace_assets.policies.openai_answers import ChatAnswer, read_answer
from trace_assets.policies.openai_stream import joined_pieces
from trace_assets.records import Capability, Message, Trajectory
from trace_assets.settings import Analyst, Labels
from trace_assets.store import Store

MESSAGES = tuple(Message(role=("user", "assistant")[n % 2], content=f"say {n}") for n in range(6))  # type: ignore[arg-type]
RUN = Trajectory(trajectory_id="t", task_id="x/1", target="x", task_batch="b", policy="p", messages=MESSAGES)
CAPABILITIES = [
    Capability(capability_id=name, target="x", name=name, description="d", analyst="m")
    for name in ("aa", "bb", "cc")
]
ROWS = [{"id": f"C{n}", "rationale": "r", "evidence": [1], "label": "PRESENT"} for n in (1, 2, 3)]
WHOLE = json.dumps({"labels": ROWS})
Ask = Callable[..., tuple[Any, InTurn, ModelServer]]


def question() -> Question[LabelAnswer]:
    return label_question(Labels(model="m"), view(RUN, 1000), CAPABILITIES, 1)


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    def asked(*answers: Reply, **settings: Any) -> tuple[Any, InTurn, ModelServer]:
        with InTurn(*answers) as server:
            section = Analyst(**{"base_url": server.v1, "pause_seconds": 0.0, "retries": 1, **settings})
            with open_account(Store(tmp_path / "t"), tmp_path / "a", section, "labels", "b") as account:
                opened = ModelServer(section, Answers(tmp_path / "a"), account)
                try:
                    found: Any = opened.ask_alone(question())
                except Unanswered as fault:
                    found = fault
                return found, server, opened

    return asked


def test_one_bad_item_is_asked_for_alone_and_the_rest_is_kept(ask: Ask) -> None:
    bad = json.dumps({"labels": [ROWS[0], {**ROWS[1], "label": "perhaps"}, ROWS[2]]})
    found, server, _ = ask(
        completion(bad), completion(json.dumps({"labels": [{**ROWS[1], "label": "LACKING"}]}))
    )
    assert [one.label for one in found.labels] == ["PRESENT", "LACKING", "PRESENT"]
    told = server.requests[1]["messages"][-1]["content"]
    assert "the label for C2 is missing" in told and "C1" not in told and "with only these entries" in told


def test_what_stays_bad_leaves_the_rest_which_is_not_remembered(ask: Ask) -> None:
    bad = completion(json.dumps({"labels": [ROWS[0], {**ROWS[1], "label": "perhaps"}, ROWS[2]]}))
    found, server, opened = ask(bad, repairs=1)
    assert isinstance(found, Unanswered) and [one.id for one in found.answer.labels] == ["C1", "C3"]  # type: ignore[attr-defined]
    assert len(server.requests) == 2 and opened.account.faults["incomplete_answer"] == 1
    assert not opened.answers.has(question())


def test_of_a_list_that_was_cut_off_only_the_rest_is_asked_for(ask: Ask) -> None:
    cut = WHOLE[: WHOLE.index('"C3"') + 4]
    found, server, _ = ask(completion(cut, "length"), completion(json.dumps({"labels": ROWS[2:]})))
    assert len(found.labels) == 3 and len(server.requests) == 2
    assert "C3" in server.requests[1]["messages"][-1]["content"]


@pytest.mark.parametrize(
    "reply",
    [
        completion(None, message={"role": "assistant", "content": None, "refusal": "I will not"}),
        completion("", "content_filter"),
    ],
    ids=["refusal", "filter"],
)
def test_a_refusal_of_the_server_is_told_as_one_and_not_argued_with(ask: Ask, reply: Reply) -> None:
    status, headers, body = reply
    if "message" in body:
        body["choices"][0]["message"] = body.pop("message")
    found, server, opened = ask((status, headers, body))
    assert isinstance(found, Unanswered) and found.reason.startswith("the model refused: ")
    assert len(server.requests) == 1 and opened.account.faults["refusal"] == 1


def test_a_refusal_in_words_is_asked_once_more(ask: Ask) -> None:
    sorry = completion("I'm sorry, but I can't help with that.")
    found, server, _ = ask(sorry, completion(WHOLE))
    assert len(found.labels) == 3 and len(server.requests) == 2
    found, server, _ = ask(sorry, repairs=4, extra_body={"other": 1})
    assert len(found.labels) == 3, "it is remembered"


def test_an_empty_answer_is_not_echoed(ask: Ask) -> None:
    _, server, _ = ask(completion(""), completion("  \n"), completion(WHOLE))
    assert [len(body["messages"]) for body in server.requests] == [2, 3, 3]
    assert all(one["content"].strip() for body in server.requests for one in body["messages"])


def test_a_server_that_refuses_a_later_request_still_gets_the_schema(ask: Ask) -> None:
    found, _, opened = ask(completion("hm"), failure(400, "messages: bad role"), repairs=1)
    assert isinstance(found, Unanswered) and "bad role" in found.reason, "the others go on"
    assert opened.refused == set(), "a schema that worked is not what it refuses"


@pytest.mark.parametrize(
    ("words", "most"),
    [
        ("max_tokens is too large: 8192. This model supports at most 4096 completion tokens", 4096),
        ("max_tokens: 8192 > 4000, which is the maximum allowed number of output tokens", 4000),
        (
            "This model's maximum context length is 8192 tokens. However, you requested 9192 tokens (1000 in "
            "the messages, 8192 in the completion).",
            7128,
        ),
        ("max_tokens is too large", 4096),
    ],
)
def test_a_reply_that_is_too_long_for_the_server_is_asked_for_shorter(
    ask: Ask, words: str, most: int
) -> None:
    found, server, opened = ask(failure(400, words), completion(WHOLE))
    assert len(found.labels) == 3
    assert [body["max_tokens"] for body in server.requests] == [8192, most]
    assert opened.refused == set()


def test_reasoning_models_are_told_the_effort_and_say_where_their_tokens_went(ask: Ask) -> None:
    spent = completion(
        "", "length", message={"role": "assistant", "content": "", "reasoning_content": "hm " * 50}
    )
    spent[2]["choices"][0]["message"] = spent[2].pop("message")
    found, server, _ = ask(spent, effort="low", extra_body={"top_k": 20})
    assert isinstance(found, Unanswered) and "raise analyst.reply_tokens" in found.reason
    assert server.requests[0]["reasoning_effort"] == "low" and server.requests[0]["top_k"] == 20
    with pytest.raises(ValidationError, match="said by the program itself"):
        Analyst(extra_body={"n": 5})


def test_effort_and_completion_tokens_are_given_as_the_server_wants_them(ask: Ask) -> None:
    found, server, opened = ask(
        failure(400, "Unsupported parameter: 'max_tokens' is not supported; use 'max_completion_tokens'"),
        failure(400, "Unsupported parameter: 'reasoning_effort'"),
        completion(WHOLE),
        effort="high",
    )
    assert len(found.labels) == 3 and opened.refused == {"reasoning_effort"}
    assert "max_completion_tokens" in server.requests[-1] and "max_tokens" not in server.requests[-1]


def test_an_answer_in_a_tool_call_is_read(ask: Ask) -> None:
    reply = completion(None)
    call = {"id": "1", "type": "function", "function": {"name": "label", "arguments": WHOLE}}
    reply[2]["choices"][0]["message"]["tool_calls"] = [call]
    found, server, _ = ask(reply)
    assert len(found.labels) == 3 and len(server.requests) == 1


def streamed(*pieces: dict[str, Any], end: str = "data: [DONE]\n\n") -> Reply:
    text = "".join(f"data: {json.dumps(piece)}\n\n" for piece in pieces)
    return 200, {"Content-Type": "text/event-stream"}, ": hello\n\n" + text + end


def piece(text: str, finish: str | None = None) -> dict[str, Any]:
    return {"model": "m", "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]}


USAGE = {"choices": [], "usage": {"prompt_tokens": 700, "completion_tokens": 60}}


def test_an_answer_in_pieces_is_put_together_and_paid(ask: Ask) -> None:
    found, server, opened = ask(
        streamed(piece(WHOLE[:40]), piece(WHOLE[40:]), piece("", "stop"), USAGE), stream=True
    )
    assert len(found.labels) == 3 and server.requests[0]["stream_options"] == {"include_usage": True}
    assert (opened.account.spent.prompt_tokens, opened.account.spent.completion_tokens) == (700, 60)
    assert opened.account.spent.at_most == 0


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\x85"])
@pytest.mark.parametrize("end", ["\n\n", "\r\n\r\n", "\r\r"])
def test_a_line_of_a_stream_ends_where_servers_end_it(mark: str, end: str) -> None:
    words = f"a{mark}b"
    pieces = [json.dumps(piece(words), ensure_ascii=False), json.dumps(piece("c", "stop")), "[DONE]"]
    body = "".join(f"data: {one}{end}" for one in pieces).encode()
    answer = read_answer(joined_pieces(body), ChatAnswer)
    assert answer.choices[0].message.text == words + "c" and answer.choices[0].finish_reason == "stop"


@pytest.mark.parametrize(
    "broken",
    [
        streamed(piece(WHOLE[:40]), end=""),
        streamed(piece(WHOLE), end=""),
        streamed(piece(WHOLE)),
        streamed(piece(WHOLE), USAGE),
        streamed(piece(WHOLE), piece("", "abort")),
        streamed(piece(WHOLE), {"error": {"message": "out of memory"}}),
        streamed(piece(WHOLE), end=f"data: {json.dumps(piece('', 'stop'))[:-9]}"),
        streamed(),
        streamed(end=""),
    ],
    ids=["half", "unended", "done", "usage", "aborted", "error", "half a piece", "nothing", "silence"],
)
def test_a_stream_that_breaks_off_is_booked_and_asked_for_again(broken: Reply, ask: Ask) -> None:
    found, server, opened = ask(broken, streamed(piece(WHOLE, "stop"), USAGE), stream=True)
    assert len(found.labels) == 3 and len(server.requests) == 2
    assert opened.account.spent.calls == 2 and opened.account.spent.at_most == 1


def test_an_answer_of_another_model_is_paid_and_not_believed(ask: Ask) -> None:
    stranger = completion(WHOLE, model="m-mini")
    found, server, opened = ask(stranger, completion(WHOLE, model="vendor/m-2026-01-01"))
    assert len(found.labels) == 3 and len(server.requests) == 2
    assert opened.account.spent.calls == 2 and opened.account.faults["other_model"] == 1


def test_a_server_that_has_another_model_ends_the_stage_unless_names_are_not_compared(ask: Ask) -> None:
    stranger = completion(WHOLE, model="m-mini")
    with pytest.raises(Unavailable, match=r"answered as 'm-mini' where 'm' .* set analyst\.check_model"):
        ask(stranger)
    found, server, _ = ask(stranger, check_model=False)
    assert len(found.labels) == 3 and len(server.requests) == 1


def test_a_server_that_knows_no_streams_may_answer_whole(ask: Ask) -> None:
    found, _, _ = ask(completion(WHOLE), stream=True)
    assert len(found.labels) == 3


def test_bytes_a_token_are_learned_from_what_servers_say() -> None:
    def call(text: int, tokens: int, at_most: bool = False) -> Call:
        return Call("a", "", "label", tokens, 0, 1, 0.0, at_most=at_most, text_bytes=text)

    few = [call(300, 100)] * 4
    assert bytes_per_token(few) == bytes_per_token([]) == 3.4
    assert bytes_per_token([*few, call(300, 100), call(10**6, 1, at_most=True)]) == pytest.approx(3.0)


def test_prices_of_known_models_are_filled_in_by_the_servers_address() -> None:
    pytest.importorskip("genai_prices")
    known = Analyst(base_url="https://api.openai.com/v1")
    section = with_prices(known, ["gpt-4.1", "gpt-4.1-mini", ""])
    assert section.prompt_usd == pytest.approx(2.0) and section.completion_usd == pytest.approx(8.0)
    assert section.cached_usd == pytest.approx(0.5)
    own = known.model_copy(update={"prompt_usd": 1.0})
    assert with_prices(own, ["gpt-4.1"]) == own, "the settings come first"
    assert with_prices(known, ["gpt-4.1", "no-such-model-anywhere"]) == known
    local = Analyst(base_url="http://127.0.0.1:8000/v1")
    assert with_prices(local, ["gpt-4.1"]) == local, "a model of one's own has no price"
