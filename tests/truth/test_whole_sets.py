"""The figures of whole sets are what their rows and the judges' answers come to."""

from __future__ import annotations

import json

import pytest

from tests.truth.readings import TABLES
from tests.truth.runwise import read_rows, shares
from tests.truth.scores import Share

ROWS = list(read_rows(TABLES / "whole_sets.jsonl"))
SETS = ("gpt-4.1_telecom_solo", "gpt-4.1_telecom")
WAYS = ("detectors, domain left out", "detectors alone", "as diagnosed")
PAGE = (TABLES / "whole_sets.md").read_text("utf-8")
POOLED = (
    "party right",
    "decisive message, exact",
    "decisive message, within two",
    "the cause is among the candidates",
    "the capability named says the cause",
)


def of(name: str, way: str) -> dict[str, Share]:
    return shares([one for one in ROWS if one["set"] == name], way)


@pytest.mark.parametrize("name", SETS)
def test_each_sets_table_is_what_its_rows_come_to(name: str) -> None:
    columns = [of(name, way) for way in WAYS]
    for figure in columns[0]:
        assert f"| {figure} | {' | '.join(str(one[figure]) for one in columns)} |" in PAGE


def test_both_sets_together() -> None:
    for figure in POOLED:
        cells = [str(of(SETS[0], way)[figure] + of(SETS[1], way)[figure]) for way in WAYS]
        assert f"| {figure} | {' | '.join(cells)} |" in PAGE


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
