"""The sixth round's figures are what its readings, what was said at first sight and the judges come to."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.truth.readings import TABLES
from tests.truth.scores import Share
from tests.truth.test_unread import cause
from tests.truth.unread import figures, unread

ROWS = (
    "party right",
    "other parties' failures found",
    "decisive message, exact",
    "decisive message, within two",
)
SAID: dict[str, dict[str, Any]] = {
    one["run"]: one for one in map(json.loads, (TABLES / "sixth_said.jsonl").read_text("utf-8").splitlines())
}
READINGS = {
    reserve: [one for one in unread() if one["round"] == 6 and one.get("reserve", False) == reserve]
    for reserve in (False, True)
}
COLUMNS = [("rules", False, 2), ("model", False, 3), ("rules after", False, 4), ("rules", True, 5)]
COLUMNS += [("rules after", True, 6)]


def cell(name: str, column: int) -> str:
    lines = (TABLES / "round_6.md").read_text("utf-8").splitlines()
    (found,) = (line for line in lines if line.startswith(f"| {name} |"))
    return found.split("|")[column].strip().strip("*")


@pytest.mark.parametrize(("way", "reserve", "column"), COLUMNS)
def test_parties_and_messages_are_as_the_page_says(way: str, reserve: bool, column: int) -> None:
    readings = READINGS[reserve]
    causes = [
        cause(one["run"], SAID[one["run"]][way]["party"], SAID[one["run"]][way]["decisive_message"])
        for one in readings
    ]
    found = figures(causes, readings)
    assert cell("always *the agent*", 5 if reserve else 2) == str(found["always the agent"])
    assert [cell(name, column) for name in ROWS] == [str(found[name]) for name in ROWS]
    true = found["accusations of others that are true"]
    said = cell("accusations of others that are true", column)
    assert said == (f"{true.hits} of {true.n}" if true.n else "–")


def test_capabilities_are_as_the_judges_say() -> None:
    """Two judged what a model named; what rules named at first sight was of runs of the user's fault."""
    agents = [SAID[one["run"]] for one in READINGS[False] if one["fault"] == "agent"]
    right = sum(one.get("judges") == ["same", "same"] for one in agents)
    assert all((one["model"]["capability"] is None) == ("judges" not in one) for one in agents)
    assert cell("the capability named says the cause", 3) == str(Share(right, len(agents)))
    assert not any(one["rules"]["capability"] for one in agents)
    assert cell("the capability named says the cause", 2) == str(Share(0, len(agents)))


def test_what_was_suspected_was_true() -> None:
    faults = {one["run"]: one["fault"] for one in READINGS[False] + READINGS[True]}
    suspected = {run: one["rules"] for run, one in SAID.items() if one["rules"]["suspected"]}
    assert all(faults[run] == one["suspected"] for run, one in suspected.items())
    rules = [one["suspicion"].strip(":") for one in suspected.values()]
    assert rules.count("users_choice") == 5 and rules.count("simulator_stopped_first") == 3 == len(rules) - 5
