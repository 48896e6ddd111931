"""What many proposals, sentences and batches ask of one transcript or policy is found out once."""

from __future__ import annotations

import random
import re
from collections import Counter
from typing import Any

import pytest

from tests.diagnosis.detectors.dialogues import CANCEL_IT, PENDING, agent, call, transcript, user
from trace_assets.diagnosis.detectors import Transcript, consent, missing_looks, situations, unmet_requests
from trace_assets.diagnosis.detectors.consent import WriteAfterRefusal
from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.identity import stands_in
from trace_assets.diagnosis.detectors.missing_looks import goes_on
from trace_assets.diagnosis.detectors.policy_limits import given_bans
from trace_assets.diagnosis.detectors.policy_text import PolicyText, read_policy
from trace_assets.diagnosis.detectors.refrained_writes import WriteAgainstState
from trace_assets.diagnosis.detectors.situational_steps import SituationalStep
from trace_assets.diagnosis.detectors.situations import Judged
from trace_assets.diagnosis.detectors.unmet_requests import RequestLeftUnmentioned
from trace_assets.diagnosis.detectors.untold import UnaskedFact


def counted(monkeypatch: pytest.MonkeyPatch, place: Any, name: str) -> Counter[str]:
    """Count the calls of a function from now on."""
    calls, real = Counter[str](), getattr(place, name)

    def call(*arguments: Any, **named: Any) -> Any:
        calls[name] += 1
        return real(*arguments, **named)

    monkeypatch.setattr(place, name, call)
    return calls


BOATS = call("get_boat", '{"boat": "B-1", "kind": "sailing", "open": true}', boat="B-1")
LICENCE = call("show_licence", member="M-1")
SAILS = [*user("a sailing boat"), *BOATS, *LICENCE, *call("rent_boat", boat="B-1")]
ROWS = [*user("a rowing boat"), *call("rent_boat", boat="B-2")]


def runs(n: int = 6) -> list[Transcript]:
    return [transcript(SAILS if number % 2 else ROWS, task=f"x/{number}") for number in range(n)]


def test_what_a_sentence_may_name_is_read_once_for_all_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    shown, held = (counted(monkeypatch, situations, name) for name in ("_shown", "holds"))
    calls = [(one, step) for one in runs() for step in one.own_calls("rent_boat", ok=True)]
    judged = Judged(calls, lambda one, _: bool(one.calls("show_licence")), "rent_boat")
    first = judged.situation("for sailing boats a licence must be shown.")
    assert first == {"field": "kind", "values": ["sailing"]} or first == {"word": "sailin"}
    read, tried = shown["_shown"], held["holds"]
    assert judged.situation("a licence must be shown for sailing boats.") == first
    assert held["holds"] == tried, "the same situations were tried again"
    assert 0 < shown["_shown"] == read


def test_a_pair_of_tools_is_judged_once_however_many_sentences_speak_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from trace_assets.diagnosis.detectors import situational_steps

    judged = counted(monkeypatch, situational_steps, "_judged")
    said = " ".join(
        f"For sailing boats number {n} the licence must be shown before renting." for n in "12345"
    )
    corpus = Corpus([*runs(8)], policy=said)
    tools = {one for one in corpus.agent_tools if corpus.agent_tools[one] >= 3}
    SituationalStep().propose(corpus)
    assert 0 < judged["_judged"] <= len(corpus.mutating) * len(tools) < 5 * len(corpus.policy.sentences)


def test_who_is_meant_is_found_once_for_all_states(monkeypatch: pytest.MonkeyPatch) -> None:
    meant, states = (counted(monkeypatch, Transcript, name) for name in ("is_meant", "state"))
    one = transcript(user("cancel K4821"), call("get_order", PENDING, order="K4821"), agent("no"))
    base = {"tool": "cancel_order", "argument": "order", "cues": ["cancel"], "field": "status", "instead": ""}
    labels = [
        WriteAgainstState().label(one, base | {"value": value}).label
        for value in ("pending", "shipped", "lost", "open")
    ]
    assert labels == ["PRESENT", "NA", "NA", "NA"]
    assert meant["is_meant"] == states["state"] == len(one.observations) == 1
    written = transcript(call("get_order", PENDING, order="K4821"), CANCEL_IT, CANCEL_IT)
    states.clear()
    labels = [WriteAgainstState().label(written, base | {"value": one}).label for one in ("pending", "lost")]
    assert labels == ["LACKING", "NA"] and states["state"] == 2, "once a call"


def test_refusals_and_wishes_are_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    refusals = counted(monkeypatch, consent, "_refusals")
    wishes = counted(monkeypatch, unmet_requests, "_wishes")
    one = transcript(user("please cancel and refund it"), agent("i cannot cancel it."), CANCEL_IT)
    found = [
        WriteAfterRefusal().label(one, {"tool": "cancel_order", "words": [word]}).label
        for word in ("cancel", "refund", "move")
    ]
    assert found == ["LACKING", "NA", "NA"] and refusals["_refusals"] == 1
    asked = [
        RequestLeftUnmentioned().label(one, {"tool": "pay", "words": [word]}).label
        for word in ("refund", "move", "cancel")
    ]
    assert asked == ["LACKING", "NA", "PRESENT"] and wishes["_wishes"] == 1


def test_words_of_a_message_are_told_apart_once(monkeypatch: pytest.MonkeyPatch) -> None:
    one = transcript(user("my date of birth is in May"), CANCEL_IT)
    for words in (["date", "birth"], ["birth"], ["number"]):
        UnaskedFact().label(one, {"words": words, "writes": ["cancel_order"]})
    read = [key for key in one._known if key[0] == "words in"]
    assert read == [("words in", 0)]


def test_a_policy_is_read_once_for_all_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "Drafts go to `review`. Never send one to `all`."
    assert read_policy(said) is read_policy(said) is Corpus([], policy=said).policy
    policy, searched = PolicyText(said), Counter[str]()
    real = policy._find_any_of
    monkeypatch.setattr(policy, "_find_any_of", lambda *a: searched.update(["any"]) or real(*a))
    for _ in range(3):
        assert policy.any_of("send_draft", ["send_draft"]) == []
        assert [one.values for one in given_bans(policy, "send_draft", {"list": ["all", "review"]})] == [
            ("all",)
        ]
    assert searched["any"] == 1 and ("forbidding", "send_draft") in policy._known


def test_calls_of_a_tool_are_picked_out_once() -> None:
    one = runs(2)[1]
    assert one.own_calls("rent_boat", ok=True) is one.own_calls("rent_boat", ok=True)
    assert one.calls("rent_boat") is one.calls("rent_boat") is not one.calls("get_boat")


PARTS = ("a1", "A1", "_", " ", "#", "ö", "9", ".", "ß", "\n")


def test_a_name_stands_in_a_text_where_a_regular_expression_says_so() -> None:
    draw = random.Random(5)
    found = Counter[bool]()
    for _ in range(5000):
        text = "".join(draw.choices(PARTS, k=draw.randrange(8)))
        name = "".join(draw.choices(PARTS, k=draw.randrange(1, 3)))
        expected = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None
        assert stands_in(name, text) == expected, (name, text)
        found[expected] += 1
    assert min(found.values()) > 200


TELLING: tuple[str, ...] = (
    *('"next": "c5"', '"NEXT_CURSOR" : "x/y"', "end_cursor=abc,", "continuation_token: t1", "Has_More: TRUE"),
    *("... 40 more", "and 3 More", "more results", "7 more lines", '"rel": "next"', "is_truncated: yes"),
    *("hasNextPage=true", "continuatİontoken: t", "continuatıon_token: t1", "endcurſor: 5", "page 1 of 3"),
    *("Page 3 / 3", "rows 1-12 of 31", "ſhowing 1 to 3 of 9", "recordſ 1-2 of 2", "nothing", '"text": null'),
)


def test_nothing_that_goes_on_is_missed_by_the_first_look() -> None:
    """Regular expressions that do not heed capitals know more forms of `s` and `i` than `lower` does."""

    def without_a_first_look(text: str) -> bool:
        if found := missing_looks._PAGE_OF.search(text) or missing_looks._ROWS_OF.search(text):
            return int(found[1]) < int(found[2])
        return missing_looks._GOES_ON.search(text) is not None

    for text in (*TELLING, *(one.upper() for one in TELLING), *(f"x {one}, y" for one in TELLING)):
        assert goes_on(text) == without_a_first_look(text), text
    assert sum(map(goes_on, TELLING)) > 12


def test_states_are_counted_once_where_nobody_knows_what_asks_for_a_tool(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each state is held against all others: the counts are the same for each."""
    refrained = counted(monkeypatch, WriteAgainstState, "_refrained")
    states = ("open", "shut", "lost")
    every = [
        transcript(
            user("well"), call("get_order", f'{{"order": "K482{n}", "status": "{one}"}}', order=f"K482{n}")
        )
        for n, one in enumerate(states * 2)
    ]
    base = {"tool": "cancel_order", "argument": "order", "field": "status", "cues": [], "writes": []}
    assert WriteAgainstState()._special(Corpus(every), base, states) == []
    assert refrained["_refrained"] == len(states) * len(every)
