"""The figures of whole sets are what their rows and the judges' answers come to."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.truth.readings import TABLES
from tests.truth.runwise import read_rows, shares
from tests.truth.scores import Share, share

ROWS = list(read_rows(TABLES / "whole_sets.jsonl"))
SETS = ("gpt-4.1_telecom_solo", "gpt-4.1_telecom")
LATER = {
    "the weak agent": ("qwen2.5-7b_airline",),
    "the two agents": ("gpt-4.1_airline", "sft-gpt-4.1_airline"),
}
UNGRADED = ("LACKING", "the capability named is a deficiency")
"""Beginnings of figures that take somebody who reads labels, which nobody did of the later sets."""
WAYS = ("detectors, domain left out", "detectors alone", "as diagnosed")
PAGE = (TABLES / "whole_sets.md").read_text("utf-8")
OTHERS = (
    "the cause is among the candidates that another run shows too",
    "one of these says the cause and is labelled LACKING",
    "the same, had nobody read the run for candidates",
)
POOLED = (
    "party right",
    "decisive message, exact",
    "decisive message, within two",
    "the cause is among the candidates",
    "the capability named says the cause",
    *OTHERS,
)


def of(name: str, way: str) -> dict[str, Share]:
    names = LATER.get(name, (name,))
    return shares([one for one in ROWS if one["set"] in names], way)


@pytest.mark.parametrize("name", [*SETS, *LATER])
def test_each_sets_table_is_what_its_rows_come_to(name: str) -> None:
    columns = [of(name, way) for way in WAYS]
    for figure in columns[0]:
        if name in SETS or not figure.startswith(UNGRADED):
            assert f"| {figure} | {' | '.join(str(one[figure]) for one in columns)} |" in PAGE


@pytest.mark.parametrize("pair", [SETS, tuple(LATER)], ids=["telecom", "airline"])
def test_both_sets_together(pair: tuple[str, str]) -> None:
    for figure in POOLED:
        cells = [str(of(pair[0], way)[figure] + of(pair[1], way)[figure]) for way in WAYS]
        assert f"| {figure} | {' | '.join(cells)} |" in PAGE


def test_what_other_runs_proposed_over_all_sets() -> None:
    for figure in OTHERS:
        first, *more = (of(name, WAYS[-1])[figure] for name in (*SETS, *LATER))
        assert str(sum(more, first)) in PAGE


def test_what_is_named_where_the_model_was_asked_for_the_one_lack() -> None:
    sets = [[one for one in ROWS if one["set"] in LATER.get(name, (name,))] for name in (*SETS, *LATER)]
    named, unread = zip(*map(_asked_anew, sets), strict=True)
    for figure in (named, unread):
        assert str(sum(figure[1:], figure[0])) in PAGE
    assert "By set " + ", ".join(f"{one.hits} of {one.n}" for one in named) in PAGE
    pairs = [
        tuple(one["ways"][way]["match"] == "same" for way in ("as diagnosed", "causes asked anew"))
        for one in ROWS
        if one.get("capability")
    ]
    assert f"{pairs.count((False, True))} won and {pairs.count((True, False))} lost" in PAGE


def _asked_anew(rows: list[dict[str, Any]]) -> tuple[Share, Share]:
    """Return how often what is named says the cause: as it is, and had nobody read the run for candidates."""
    own = [one["ways"]["causes asked anew"] for one in rows if one.get("capability")]
    return share(one["match"] == "same" for one in own), share(one["unread"][2] for one in own)


def test_two_judges_answered_and_nearly_all_that_nobody_claimed_is_the_same_to_neither() -> None:
    for name, control in (("solo", 8), ("telecom", 8)):
        text = (TABLES / f"{name}_matched.jsonl").read_text("utf-8")
        first, second = (json.loads(line) for line in text.splitlines())
        assert (
            first["capabilities"] == second["capabilities"]
            and first["pairs"].keys() == second["pairs"].keys()
        )
        failed = sum("ways" in one and bool(one["capability"]) for one in ROWS if name in one["set"]) - (
            name == "telecom" and sum("ways" in one for one in ROWS if "solo" in one["set"])
        )
        assert len(first["pairs"]) == failed + control
