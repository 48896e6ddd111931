"""What a terminal shows of triage."""

from __future__ import annotations

import io

from rich.console import Console

from trace_assets.cli.tables import print_faults
from trace_assets.diagnosis.triage import fault_shares
from trace_assets.records import Fault, Triage


def row(number: int, fault: Fault | None, rule: str, **changes: object) -> Triage:
    values = {"trajectory_id": f"t{number}", "target": "x", "task_id": "x/1", "rule": rule, **changes}
    outcome = "failed" if fault else "passed"
    return Triage.model_validate({**values, "fault": fault, "outcome": outcome})


def test_shares_intervals_and_evidence_are_shown() -> None:
    rows = [row(n, "agent", "agent") for n in range(15)] + [row(99, None, "passed")]
    rows += [
        row(20 + n, "user_simulator", "stuck", evidence=(3, 7), detail="said [it] again") for n in range(5)
    ]
    agent, simulator, *rest = fault_shares(rows)
    assert (agent["n"], agent["of"], agent["share"]) == (15, 20, 0.75)
    assert agent["share_low"] < 0.75 < agent["share_high"]
    assert simulator["rules"] == {"stuck": 5} and not any(one["n"] for one in rest)
    out = io.StringIO()
    print_faults([*rows, row(50, "environment", "reward_missing")], Console(file=out, width=200))
    text = out.getvalue()
    assert "t20: stuck (message 3, 7): said [it] again" in text and " more:" not in text
    assert "t50" not in text and "75.0%" in text and "1 run has no verdict" in text


def test_what_is_suspected_is_told_beside_what_is_decided() -> None:
    seen = {"suspected": "user_simulator", "suspicion": "users_choice (message 4): chose [red]"}
    out = io.StringIO()
    print_faults([row(1, "agent", "agent", **seen), row(2, "agent", "agent")], Console(file=out, width=200))
    assert "1 failure left to the agent may be another's" in out.getvalue()
    assert "t1: user_simulator, by users_choice (message 4): chose [red]" in out.getvalue()
    assert "t2" not in out.getvalue()


def test_nothing_failed_says_nothing() -> None:
    out = io.StringIO()
    print_faults([row(1, None, "passed")], Console(file=out))
    assert out.getvalue() == ""


def test_runs_without_any_verdict_are_told_of_and_have_no_shares() -> None:
    out = io.StringIO()
    print_faults([row(n, "environment", "reward_missing") for n in range(3)], Console(file=out, width=200))
    assert "3 runs have no verdict" in out.getvalue() and "Whose fault" not in out.getvalue()
