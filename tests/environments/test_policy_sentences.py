"""Sentences of a policy as rules over records: what is read, what is left open, and who is held to it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import product
from typing import Any

import pytest

from tests.audit_fixtures.runner import record
from tests.audit_fixtures.unforeseen.eleventh.cheats import CHEATS
from tests.audit_fixtures.unforeseen.runner import eleventh_set, second_set, subject_here, twelfth_set
from trace_assets.environments.audit.policy_sentences import NO_SENTENCE, follows_its_sentences
from trace_assets.environments.contract.case_sentences import read_cases, sentences
from trace_assets.environments.contract.policy_cases import Cases
from trace_assets.environments.contract.policy_words import bounds_in
from trace_assets.environments.contract.record_reading import Records

SOUND = {one.name: one for one in eleventh_set()}
ROWS: list[dict[str, Any]] = [
    {
        "look.days": days,
        "look.broken": broken,
        "look.tier": tier,
        "look.ends": ends,
        "look.parts": parts,
    }
    for days, broken, tier, ends, parts in product(
        range(12), ["yes", "no"], ["gold", "plain"], ["2030-05-09", "2030-05-10", "2030-05-11"], [0, 2]
    )
]
DEEDS = {name: re.compile(rf"\b{name}\b") for name in ("keep_it", "drop_it")}


def read(text: str) -> Cases:
    records = Records(ROWS, datetime(2030, 5, 10), frozenset({"keep", "drop", "look", "thing"}))
    return read_cases(text, DEEDS, records)


def row(**given: Any) -> Mapping[str, Any]:
    plain = {"days": 3, "broken": "no", "tier": "plain", "ends": "2030-05-20", "parts": 0, **given}
    return {f"look.{name}": value for name, value in plain.items()}


@pytest.mark.parametrize(
    ("text", "right", "wrong"),
    [
        # (the record, what is done) that may be right, and that is wrong for certain.
        (
            "A thing of at most 5 days is kept: keep_it. Otherwise drop_it.",
            [({"days": 5}, "keep_it"), ({"days": 6}, "drop_it")],
            [({"days": 6}, "keep_it"), ({"days": 5}, "drop_it")],
        ),
        (
            "Use keep_it if it has fewer than 5 days, and drop_it in all other cases.",
            [({"days": 4}, "keep_it"), ({"days": 5}, "drop_it")],
            [({"days": 5}, "keep_it"), ({"days": 4}, "drop_it")],
        ),
        (
            "Use keep_it within 5 days. Otherwise drop_it.",
            [({"days": 5}, "keep_it"), ({"days": 5}, "drop_it")],
            [({"days": 6}, "keep_it"), ({"days": 4}, "drop_it")],
        ),
        (
            "Use drop_it if it is broken, unless its tier is gold. Otherwise keep_it.",
            [({"broken": "yes"}, "drop_it"), ({"broken": "yes", "tier": "gold"}, "keep_it")],
            [({"broken": "yes", "tier": "gold"}, "drop_it"), ({"broken": "yes"}, "keep_it")],
        ),
        (
            "Use keep_it if it is not broken and has no parts. Otherwise drop_it.",
            [({}, "keep_it"), ({"parts": 2}, "drop_it")],
            [({"parts": 2}, "keep_it"), ({"broken": "yes"}, "keep_it"), ({}, "drop_it")],
        ),
        (
            "Use keep_it if it has ended, today included. Otherwise drop_it.",
            [({"ends": "2030-05-01"}, "keep_it"), ({"ends": "2030-05-11"}, "drop_it")],
            [({"ends": "2030-05-11"}, "keep_it"), ({"ends": "2030-05-10"}, "drop_it")],
        ),
        (
            "Use keep_it if its tier is gold. Never use keep_it if it is broken. Otherwise drop_it.",
            [({"tier": "gold"}, "keep_it"), ({"tier": "gold", "broken": "yes"}, "drop_it")],
            [({"tier": "gold", "broken": "yes"}, "keep_it")],
        ),
        (
            "Gold things: keep_it, even if broken. Use drop_it if it is broken.",
            [({"tier": "gold", "broken": "yes"}, "keep_it"), ({"broken": "yes"}, "drop_it")],
            [({"tier": "gold", "broken": "yes"}, "drop_it")],
        ),
        (
            "Use keep_it if it is broken and the caller whispers. Otherwise drop_it.",
            [({"broken": "yes"}, "keep_it"), ({"broken": "yes"}, "drop_it"), ({}, "drop_it")],
            [({}, "keep_it")],
        ),
        (
            "Use keep_it if it is gold and broken or has parts. Otherwise drop_it.",
            [({"parts": 2}, "drop_it"), ({"parts": 2}, "keep_it"), ({}, "drop_it")],
            [({}, "keep_it"), ({"tier": "gold", "broken": "yes"}, "drop_it")],
        ),
    ],
)
def test_what_is_wrong_for_certain_is_said_and_nothing_else(
    text: str, right: list[tuple[dict[str, Any], str]], wrong: list[tuple[dict[str, Any], str]]
) -> None:
    cases = read(text)
    assert {str(one): cases.wrong(deed, row(**one)) for one, deed in right} == dict.fromkeys(
        [str(one) for one, _ in right]
    ), cases.rules
    assert all(cases.wrong(deed, row(**one)) is not None for one, deed in wrong), cases.rules


@pytest.mark.parametrize(
    "text",
    [
        "Use keep_it or drop_it, whichever you like.",
        "Use keep_it where the moon is full. Otherwise drop_it.",
        "Look before you use keep_it, and use it once.",
        "Things that the caller loves: keep_it, or drop_it, as they say.",
    ],
)
def test_what_cannot_be_read_holds_nothing_against_anybody(text: str) -> None:
    cases = read(text)
    assert not any(cases.wrong(deed, one) for deed in DEEDS for one in ROWS), cases.rules


def test_what_says_how_and_not_when_counts_as_no_rule() -> None:
    assert read("Look before you use keep_it, and use it once.").spoken == []
    found = read("Use keep_it if it is broken. Use drop_it where the moon is full.")
    assert (len(found.read), len(found.spoken), found.open) == (1, 2, {"drop_it"})


def test_a_word_of_a_bound_is_no_condition_of_its_own() -> None:
    assert [one.words for one in bounds_in("2 days or more and under 9")] == ["2 days or more", "under 9"]
    assert bounds_in("room 12, on 3 floors") == []


def test_sentences_go_on_over_lines_and_end_with_an_item() -> None:
    assert sentences("# D\nKeep it\nif new.\n\n1. Drop it.\n2. Or not") == [
        "Keep it if new.",
        "Drop it.",
        "Or not",
    ]


def some(all_: Iterable[Any], quick: int = 2) -> list[Any]:
    """The first ones on every change, the others where there is time: a second of CPU each."""
    return [
        pytest.param(one, id=str(getattr(one, "name", one)), marks=[pytest.mark.ci] if n >= quick else [])
        for n, one in enumerate(all_)
    ]


@pytest.mark.parametrize("name", some(sorted(SOUND), 3))
def test_a_sound_one_is_read_and_follows_its_sentences(name: str) -> None:
    found = follows_its_sentences(SOUND[name].subject())
    assert (found.status, found.value) == ("pass", 0.0), found.evidence
    assert re.match(r"[1-9]\d* of \d+ sentences", found.evidence), "a check that reads nothing is no pass"


MISSED = {
    *("parents are held to the income of others", "days are counted from the order"),
    "who is long a member may have broken things",
}
"""An exception of two sentences, a rule that too few decisions follow, a sentence on two deeds."""


@pytest.mark.parametrize("one", some(CHEATS, 3))
def test_a_rule_that_is_broken_in_a_corner_is_named_with_its_sentence(one: Any) -> None:
    spec = SOUND[one.base].spec
    found = follows_its_sentences(subject_here(record(one.source(), spec.target), spec))
    assert (found.status == "fail") == (one.name not in MISSED), found.evidence
    if found.status == "fail":
        assert re.search(r" on seed \d+ .*is not what '.+' says; \d+ of \d+ sentences", found.evidence)


@pytest.mark.parametrize("one", some(twelfth_set()))
def test_what_another_sentence_may_say_is_held_against_nobody(one: Any) -> None:
    """Two of these were wrongly said to break a sentence at first sight: by one that was not read."""
    assert follows_its_sentences(one.subject()).status != "fail"


def test_a_policy_of_which_nothing_can_be_read_is_no_pass() -> None:
    other = next(one for one in second_set() if one.name == "tarif_electricite")
    found = follows_its_sentences(other.subject())
    assert found.status == "skip" and (NO_SENTENCE in found.evidence or "does not decide" in found.evidence)
