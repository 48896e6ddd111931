"""Half a capability that is always paid, and records that contradict each other, reject an environment."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.audit_fixtures.purpose.here import findings
from tests.environments.judge.scripted import ScriptedJudge, episodes_of, review, steps_of, subject_of
from trace_assets.diagnosis.llm.request import Question
from trace_assets.environments.audit.check import Finding
from trace_assets.environments.judge.asking import NO_VERDICT, elsewhere, shown_of
from trace_assets.environments.judge.looks import differences, further_looks, looks_of, shown_look
from trace_assets.environments.judge.material import Episode

BOOKINGS = "hotel_right_booking"
PRICES = "retail_cheapest_variant"
TOWN = "town_deadline"
ASKED_FOR = "Look up today's date instead of guessing it"
REFUSAL = [{"tool": "", "arguments": "{}", "say": "I am sorry, no."}]
Steps = list[dict[str, Any]]
Ways = Callable[[Sequence[Episode]], list[Steps | None]]


def way(rule: str, plays: Sequence[Steps | None]) -> dict[str, Any]:
    """Return a way as a model writes it; no steps are the oracle's."""
    rows = [
        {"episode": n, "as_oracle": steps is None, "steps": steps or []} for n, steps in enumerate(plays, 1)
    ]
    return {"way": rule, "plays": rows}


def ran(
    name: str,
    tried: Ways,
    has: str = "no",
    follows: str = "yes",
    quote: str = "",
    accuse: str = "",
    again: Callable[[int], Steps | None] = lambda n: None,
) -> tuple[Finding, list[str]]:
    """Let a way be tried among two that are refused at once; return the finding, and what was asked."""
    shown = episodes_of(name)

    def answer(question: Question[Any]) -> Any:
        if question.kind == "review":
            claim = {"answer": "no", "why": "it is so", "policy": shown_of(subject).name}
            line = shown[0].text.splitlines()[0]
            return review(8, **({accuse: {**claim, "quote": line, "signs": [line]}} if accuse else {}))
        if question.kind == "partly":
            refused = way("says no", [REFUSAL] * 8)
            return {"ways": [refused, way("half of it", tried(shown)), refused]}
        if question.kind == "elsewhere":
            return {"ways": [way("half of it", [again(n) for n in range(8)])]}
        assert question.kind == "shortfall" and "half of it" in question.user
        return {"why": "it looks at another one", "follows": follows, "has": has, "quote": quote}

    judge = ScriptedJudge(answer)
    subject = subject_of(name, judge)
    return findings(subject, ["trace.judge.partly"])["trace.judge.partly"], judge.kinds


def another_booking(shown: Sequence[Episode]) -> list[Steps | None]:
    """Open not the booking that is meant but another one of the guest, which a further look shows."""
    subject = subject_of(BOOKINGS)
    plays: list[Steps | None] = []
    for one in shown:
        looks = further_looks(subject.probe, one.best, [each.best for each in shown])
        other = next(arguments["booking_id"] for tool, arguments, _ in looks if tool == "get_booking")
        steps = copy.deepcopy(steps_of(one.best.actions))
        steps[0]["arguments"] = f'{{"booking_id": "{other}"}}'
        plays.append(steps)
    return plays


def test_a_look_at_the_wrong_thing_that_is_always_paid_rejects() -> None:
    found, asked = ran(BOOKINGS, another_booking, quote="open the one meant before it is changed")
    assert found.status == "fail" and found.n == 8 and "half of it" in found.evidence
    assert asked == ["review", "partly", "shortfall"]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"has": "yes"}, "paid, and no lack"),
        ({"follows": "no", "quote": "open the one meant"}, "not by the rule alone"),
        ({"quote": "Guests often have several."}, "a lack of something else"),
    ],
)
def test_a_way_that_is_paid_and_no_lack_of_the_capability_is_told_and_rejects_nothing(
    said: dict[str, str], told: str
) -> None:
    found, _ = ran(BOOKINGS, another_booking, **said)  # type: ignore[arg-type]
    assert found.status == "pass" and told in found.evidence


def test_what_a_model_cannot_tell_of_a_way_is_no_verdict() -> None:
    found, _ = ran(BOOKINGS, another_booking, has="cannot_tell")
    assert found.status == "skip" and found.evidence.startswith(f"{NO_VERDICT}: a way that is paid")
    made_up, _ = ran(BOOKINGS, another_booking, quote="always open all of them")
    assert made_up.status == "skip" and "not copied letter by letter" in made_up.evidence


def as_oracle(shown: Sequence[Episode]) -> list[Steps | None]:
    return [None] * len(shown)


def test_a_rule_that_leads_to_the_oracles_deeds_counts_only_where_a_reviewer_accuses_unasked() -> None:
    found, asked = ran(TOWN, as_oracle, quote=ASKED_FOR)
    assert found.status == "pass" and "a rule that leads to the oracle's own deeds" in found.evidence
    assert asked == ["review", "partly"], "nothing more is paid for"
    accused, asked = ran(TOWN, as_oracle, quote=ASKED_FOR, accuse="lack_unpaid")
    assert accused.status == "fail" and accused.n == 16
    assert asked == ["review", "partly", "shortfall", "elsewhere"]


def test_and_only_where_it_is_paid_in_other_episodes_too() -> None:
    found, _ = ran(
        TOWN, as_oracle, quote=ASKED_FOR, accuse="untold", again=lambda n: REFUSAL if n == 5 else None
    )
    assert found.status == "pass" and "elsewhere in 88% alone" in found.evidence


def test_other_words_for_the_same_deeds_and_facts_never_count() -> None:
    def other_words(shown: Sequence[Episode]) -> list[Steps | None]:
        plays = [copy.deepcopy(steps_of(one.best.actions)) for one in shown]
        for steps in plays:
            steps[-1]["say"] = f"{steps[-1]['say'].lower()} have a good day."
        return list(plays)

    found, asked = ran(TOWN, other_words, quote=ASKED_FOR, accuse="lack_unpaid")
    assert found.status == "pass" and "shortfall" not in asked

    def without_a_fact(shown: Sequence[Episode]) -> list[Steps | None]:
        plays = other_words(shown)
        for steps in plays:
            assert steps is not None
            steps[-1]["say"] = steps[-1]["say"].replace("30 days", "time")
        return plays

    _, asked = ran(TOWN, without_a_fact, quote=ASKED_FOR, accuse="lack_unpaid")
    assert "shortfall" in asked, "the number of days is left out"


def test_ways_that_nobody_can_play_are_no_pass() -> None:
    odd = [{"tool": "no_such_tool", "arguments": "{}", "say": ""}]
    plays = {"ways": [way("odd", [odd] * 8)] * 3}
    judge = ScriptedJudge(lambda q: review(8) if q.kind == "review" else plays)
    found = findings(subject_of(TOWN, judge), ["trace.judge.partly"])["trace.judge.partly"]
    assert found.status == "skip" and "none of the ways could be played" in found.evidence


def test_other_episodes_are_none_of_those_that_are_shown() -> None:
    subject = subject_of(TOWN)
    others = elsewhere(subject)
    assert others is not None and len(others.episodes) == 8
    assert {one.seed for one in others.episodes}.isdisjoint(one.seed for one in shown_of(subject).episodes)
    subject.section = subject.section.model_copy(update={"audit_seeds": 8})
    del subject.__dict__["seeds"]
    subject.kept.clear()
    assert elsewhere(subject) is None, "there are too few"


# Looks that the oracle does not take, and what they show.


def test_further_looks_find_what_the_oracle_does_not_open() -> None:
    subject = subject_of(BOOKINGS)
    shown = shown_of(subject).episodes
    looks = further_looks(subject.probe, shown[0].best, [one.best for one in shown])
    assert [tool for tool, *_ in looks] == ["get_guest", "get_booking", "get_booking"]
    opened = {arguments.get("booking_id") for _, arguments, _ in looks}
    assert looks_of(subject.probe, shown[0].best)[0][1]["booking_id"] not in opened
    assert shown_look(("get", {"id": 1}, "x" * 700)).endswith("x [...]")


@pytest.mark.parametrize(("answer", "status"), [("yes", "fail"), ("no", "pass"), ("cannot_tell", "skip")])
def test_records_that_differ_are_shown_to_a_model_which_says_whether_it_matters(
    answer: str, status: str
) -> None:
    judge = ScriptedJudge(lambda _: {"why": "two prices", "contradiction": answer})
    found = findings(subject_of(PRICES, judge), ["trace.judge.coherent"])["trace.judge.coherent"]
    assert found.status == status and "price is" in found.evidence and "get_item_details" in found.evidence
    assert judge.kinds == ["differing"]


def test_where_records_agree_nobody_is_asked() -> None:
    judge = ScriptedJudge(lambda _: "")
    found = findings(subject_of(BOOKINGS, judge), ["trace.judge.coherent"])["trace.judge.coherent"]
    assert found.status == "pass" and not judge.kinds


def test_records_of_two_things_never_differ() -> None:
    probe = subject_of(BOOKINGS).probe
    one = '{"booking_id": "BK1", "guest_id": "G1", "room": 4}'
    assert not differences(probe, [("get_booking", {}, one), ("get_booking", {}, one.replace("BK1", "BK2"))])
    found = differences(probe, [("get_booking", {}, one), ("get_guest", {}, one.replace("4", "5"))])
    assert [str(row) for row in found] == [
        "booking_id=BK1, guest_id=G1: room is 4 in get_booking, and 5 in get_guest"
    ]
    assert not differences(probe, [("get_booking", {}, "no JSON"), ("get_guest", {}, "[1, {}]")])
