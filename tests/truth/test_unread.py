"""Readings of runs that nobody had looked at: whether they are whole, and how they are scored."""

from __future__ import annotations

import pytest

from tests.truth.readings import PARTIES
from tests.truth.scores import Share
from tests.truth.unread import figures, unread
from trace_assets.records import FailureCause


def cause(run: str, party: str, message: int | None) -> FailureCause:
    return FailureCause.model_validate(
        {
            "trajectory_id": run,
            "target": "x",
            "task_id": "x/1",
            "party": party,
            "decisive_message": message,
            "words": "",
            "confidence": "low",
            "source": "rule",
            "rule": "agent",
        }
    )


def test_the_readings_are_whole() -> None:
    readings = unread()
    assert len({one["run"] for one in readings}) == len(readings) == 93 + 75 + 60 + 36 + 24 + 43
    assert sum(one.get("reserve", False) for one in readings) == 20 + 12 + 16
    sets = {number: {one["set"] for one in readings if one["round"] == number} for number in range(1, 7)}
    assert sets[1] == {"gpt-4o", "gemini-2.5-flash", "gemma-3-27b"}
    assert [len(sets[number]) for number in range(2, 7)] == [6, 3, 2, 3, 2]
    assert sum(map(len, sets.values())) == len(set().union(*sets.values())), "each set is of one round"
    for one in readings:
        assert one["fault"] in PARTIES and bool(one["capability"]) == (one["fault"] == "agent"), one["run"]
        assert one["decisive_message"] >= 0 and one["cause"]


@pytest.mark.parametrize(
    ("causes", "expected"),
    [
        ([], (Share(0, 0),) * 6),  # no run was given
        (
            [cause("a", "agent", 5), cause("b", "agent", 9), cause("c", "user_simulator", None)],
            (Share(1, 3), Share(1, 3), Share(1, 2), Share(1, 1), Share(1, 3), Share(2, 3)),
        ),
    ],
)
def test_what_is_counted(causes: list[FailureCause], expected: tuple[Share, ...]) -> None:
    readings = [
        {"run": "a", "fault": "agent", "decisive_message": 5},
        {"run": "b", "fault": "ground_truth", "decisive_message": 7},
        {"run": "c", "fault": "infrastructure", "decisive_message": 1},
        {"run": "elsewhere", "fault": "agent", "decisive_message": 1},
    ]
    assert tuple(figures(causes, readings).values()) == expected
