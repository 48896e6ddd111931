"""The fifth round's figures are what its readings, what was said at first sight and the judges come to."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.truth.readings import TABLES
from tests.truth.scores import Share
from tests.truth.test_unread import cause
from tests.truth.unread import figures, unread

ROWS = {
    "party right": "party right",
    "other parties' failures found": "other parties' failures found",
    "decisive message, exact": "decisive message, exact",
    "decisive message, within two": "decisive message, within two",
}
"""Names of figures, and of the page's rows."""


def table(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (TABLES / f"{name}.jsonl").read_text("utf-8").splitlines()]


READINGS = [one for one in unread() if one["round"] == 5]
SAID = {one["run"]: one for one in table("fifth_said")}
AGENTS = [one["run"] for one in READINGS if one["fault"] == "agent"]


def row(name: str) -> str:
    (found,) = (
        line
        for line in (TABLES / "round_5.md").read_text("utf-8").splitlines()
        if line.startswith(f"| {name} |")
    )
    return found


@pytest.mark.parametrize("way", ["rules", "model"])
def test_parties_and_messages_are_as_the_page_says(way: str) -> None:
    causes = [cause(run, one[way]["party"], one[way]["decisive_message"]) for run, one in SAID.items()]
    found = figures(causes, READINGS)
    assert found["always the agent"] == Share(len(AGENTS), 24)
    for figure, name in ROWS.items():
        cell = row(name).split("|")[2 if way == "rules" else 3]
        assert cell.strip().strip("*") == str(found[figure]), name
    true = found["accusations of others that are true"]
    cell = row("accusations of others that are true").split("|")[2 if way == "rules" else 3]
    assert cell.strip() == f"{true.hits} of {true.n}"


def judged_same(run: str, key: str) -> bool:
    """Tell whether both judges say that a capability means what a reading means."""
    said = [
        key in one["pairs"][run]["same"]
        for one in table("fifth_matched")
        if run in one["pairs"] and key in one["capabilities"]
    ]
    assert len(said) == 2, "two judges were asked"
    return all(said)


def test_capabilities_are_as_the_page_says() -> None:
    named = [SAID[run]["model"]["capability"] for run in AGENTS]
    right = sum(key is not None and judged_same(run, key) for run, key in zip(AGENTS, named, strict=True))
    assert f"**{Share(right, len(AGENTS))!s}**" in row("the capability named says the cause")
    assert str(Share(sum(key is None for key in named), len(AGENTS))) in row(
        "agent's failures without a capability"
    )
    sets = {one["run"]: one["set"] for one in READINGS}
    among = 0
    for run in AGENTS:
        keys = {
            key
            for one in table("fifth_matched")
            if f", {sets[run]}, " in one["judge"]
            for key in one["capabilities"]
        }
        among += any(judged_same(run, key) for key in keys)
    assert str(Share(among, len(AGENTS))) in row("the cause is among the candidates")


def test_what_the_rules_accused_was_the_agents() -> None:
    """Five more of the runs that one rule accused were read, apart from those that were drawn."""
    drawn = [one for one in SAID.values() if one["rules"]["rule"] == "tool_exception"]
    read = [next(one for one in READINGS if one["run"] == own["run"]) for own in drawn]
    read += table("fifth_accused")
    true = sum(one["fault"] != "agent" for one in read)
    assert f"| `tool_exception` | round 5 | {true} of {len(read)} " in (TABLES / "round_5.md").read_text(
        "utf-8"
    )
