"""No proposal accuses the very calls that tasks demand."""

from __future__ import annotations

import numpy as np
import pytest

from tests.diagnosis.detectors.dialogues import agent, call, transcript, user
from trace_assets.diagnosis.candidates import demanded
from trace_assets.diagnosis.detectors import FAMILIES, Detector, Proposal, Transcript
from trace_assets.diagnosis.label_matrix import CODES
from trace_assets.records import ExpectedAction

BAN: dict[str, object] = {
    "tool": "move_trip",
    "field": "kind",
    "value": "single",
    "argument": "trip_id",
    "cues": ["move"],
    "instead": "",
}


def family(name: str) -> Detector:
    return next(one for one in FAMILIES if one.name == name)


def moved(number: int) -> Transcript:
    """A trip is looked at and moved: on every task another one."""
    trip = f"T-10{number}"
    return transcript(
        user(f"Please move my trip {trip}."),
        call("get_trip", f'{{"trip_id": "{trip}", "kind": "single"}}', trip_id=trip),
        call("move_trip", "{}", trip_id=trip, day="2031-05-01"),
        agent("Done."),
        task=f"x/{number}",
    )


def wants(number: int, tool: str = "move_trip") -> ExpectedAction:
    return ExpectedAction(name=tool, arguments={"trip_id": f"T-10{number}", "day": "2031-05-02"})


def refuted(demands: dict[str, list[ExpectedAction]], runs: int = 5) -> bool:
    detector, proposal = family("write_against_state"), Proposal(BAN, "Refrain", "", ("move_trip",))
    made = [moved(number) for number in range(runs)]
    codes = [[CODES[detector.label(one, BAN).label] for one in made]]
    assert set(codes[0]) == {CODES["LACKING"]}
    return demanded([(detector, proposal)], np.array(codes, dtype=np.int8), made, demands)[0]


def test_a_ban_on_what_tasks_demand_is_refuted() -> None:
    assert refuted({f"x/{number}": [wants(number)] for number in range(5)})
    assert refuted({f"x/{number}": [wants(number)] if number < 2 else [] for number in range(5)})


@pytest.mark.parametrize(
    "demands",
    [
        {},  # nothing is known of what is demanded
        {f"x/{number}": [] for number in range(5)},  # nothing is demanded
        {f"x/{number}": [wants(number, "get_trip")] for number in range(5)},  # another call is
        {f"x/{number}": [wants(number + 1)] for number in range(5)},  # on another object
        {"x/0": [wants(0)]},  # one ground truth may be wrong
    ],
)
def test_a_ban_that_no_task_contradicts_stands(demands: dict[str, list[ExpectedAction]]) -> None:
    assert not refuted(demands)


def left_alone(number: int) -> Transcript:
    trip = f"T-10{number}"
    seen = call("get_trip", f'{{"trip_id": "{trip}", "kind": "single"}}', trip_id=trip)
    other = call("move_trip", "{}", trip_id="T-99", day="2031-05-01")
    return transcript(user(f"Please move my trip {trip}."), seen, other, agent("No."), task=f"x/{number}")


@pytest.mark.parametrize(
    ("wanted", "field", "refutes"),
    [(5, "kind", True), (2, "kind", True), (1, "kind", False), (5, "fare", False)],
)
def test_a_state_that_runs_leave_alone_is_no_ban_where_tasks_demand_the_call_in_it(
    wanted: int, field: str, refutes: bool
) -> None:
    detector, proposal = (
        family("write_against_state"),
        Proposal({**BAN, "field": field}, "Refrain", "", ("move",)),
    )
    made = [left_alone(number) for number in range(5)]
    codes = np.array([[CODES[detector.label(one, proposal.args).label] for one in made]], dtype=np.int8)
    assert CODES["LACKING"] not in codes
    demands = {f"x/{number}": [wants(number)] if number < wanted else [] for number in range(5)}
    assert demanded([(detector, proposal)], codes, made, demands) == [refutes]


def test_few_demands_among_many_refute_nothing() -> None:
    demands = {f"x/{number}": [wants(number)] if number < 2 else [] for number in range(10)}
    assert not refuted(demands, runs=10), "two of ten: ground truths are wrong here and there"
    assert refuted(demands, runs=9)
