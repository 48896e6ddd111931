"""What is proposed of requests, refusals and empty results, and what of them is left alone."""

from __future__ import annotations

import pytest

from tests.diagnosis.detectors.dialogues import agent, call, transcript, user
from trace_assets.diagnosis.detectors import FAMILIES, Corpus, Detector, Transcript
from trace_assets.records import Message

CANCELLED = call("cancel_order", order="K4821")
ASKED = user("cancel K4821")


def family(name: str) -> Detector:
    return next(one for one in FAMILIES if one.name == name)


def runs(*said: list[list[Message] | Message]) -> Corpus:
    return Corpus([transcript(*one, task=f"x/{number}") for number, one in enumerate(said)])


def proposed(name: str, corpus: Corpus) -> list[dict[str, object]]:
    return [dict(one.args) for one in family(name).propose(corpus)]


def test_a_tool_is_asked_for_by_words_that_no_other_tool_has() -> None:
    both = runs([ASKED, CANCELLED, call("submit_claim", order="K4821")], [ASKED, call("refund_order", "ok")])
    (cancel, refund, claim) = proposed("request_left_unmentioned", both)
    assert (cancel["words"], claim["words"], refund["words"]) == (["cancel"], ["claim"], ["refund"])


def test_by_a_tool_that_sends_words_nothing_is_changed() -> None:
    asked = user("For review only: how is K4821?")
    assert proposed("change_against_request", runs([asked, call("notify", "ok", to="ann")])) == []
    assert proposed("change_against_request", runs([asked, CANCELLED])) == [{"writes": ["cancel_order"]}]
    assert proposed("change_against_request", runs([ASKED, CANCELLED])) == []


def test_looks_that_find_nothing_are_told_by_several_runs() -> None:
    empty = [ASKED, call("find", "(0 rows)")]
    assert proposed("empty_result_believed", runs(empty)) == []
    assert proposed("empty_result_believed", runs(empty, empty)) == [{}]


def test_a_change_must_have_been_refused() -> None:
    refused = call("cancel_order", "refused", error=True, order="K4821")
    assert proposed("refusal_untold", runs([ASKED, CANCELLED])) == []
    assert proposed("refusal_untold", runs([ASKED, CANCELLED], [ASKED, refused])) == [
        {"writes": ["cancel_order"]}
    ]


MORE, REST = '{"next_page": 2, "results": [1]}', '{"next_page": null, "results": [2]}'


def test_another_search_does_not_read_on() -> None:
    paged = {"tool": "find", "paged": ["page"]}
    label = family("unread_pages").label

    def found(*calls: list[Message]) -> str:
        return label(of_calls(*calls), paged).label

    first = call("find", MORE, of="open")
    assert found(first, call("find", REST, of="open", page=2)) == "PRESENT"
    assert found(first, call("find", REST, of="held")) == "LACKING"
    assert found(first, call("find", REST, of="held"), call("find", REST, of="open", page=2)) == "PRESENT"


def of_calls(*calls: list[Message]) -> Transcript:
    return transcript(ASKED, *calls, task="x/1")


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("The buyer has been notified.", False),
        ("You will get no notice.", None),
    ],
)
def test_a_tool_without_a_thing_is_promised_by_a_verb_that_is_no_noun(said: str, kept: bool | None) -> None:
    told = [[ASKED, call("notify", "ok", to=f"ann{number}"), agent("Done.")] for number in range(3)]
    (args,) = proposed("promise_unkept", runs(*told))
    label = family("promise_unkept").label(transcript(ASKED, agent(said), task="x/1"), args).label
    assert label == {False: "LACKING", None: "NA"}[kept]


def test_whoever_lifts_a_hold_holds_nothing() -> None:
    label = family("promise_unkept").label
    args = {"tool": "hold_invoice"}
    said = transcript(ASKED, agent("The hold has been released, the invoice is paid."), task="x/1")
    assert label(said, args).label == "NA"


@pytest.mark.parametrize("said", ["I've just texted the link.", "We've passed it on to the vet."])
def test_what_is_said_in_short_form_is_a_claim_too(said: str) -> None:
    args = {"writes": ["send_link"]}
    label = family("claim_without_write").label
    assert label(transcript(ASKED, agent(said), task="x/1"), args).label == "LACKING"
    assert label(transcript(ASKED, call("send_link"), agent(said), task="x/1"), args).label == "PRESENT"


def test_a_guess_that_the_same_turn_bears_out_was_no_invention() -> None:
    args = {"argument": "vendor", "tool": ""}
    label = family("unsupported_argument").label
    one, other = call("get_invoice", '{"vendor": "V-112"}', invoice="I-1"), call("find", "[]", vendor="V-112")
    together = [
        one[0].model_copy(update={"tool_calls": (*one[0].tool_calls, other[0].tool_calls[0])}),
        one[1],
        other[1],
    ]
    assert label(transcript(user("work I-1"), together, task="x/1"), args).label == "PRESENT"
    assert label(transcript(user("work I-1"), other, task="x/1"), args).label == "LACKING"
