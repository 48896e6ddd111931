"""To whom a failure is put down, before anybody looks for what the agent lacks.

Rules in order, the first that applies decides; a failure that no rule claims is the agent's. A simulated
user, the ground truth, the environment and the infrastructure are accused only on evidence in the record, the
messages, or the task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from trace_assets.diagnosis.attribution.case import Case, Known, Rule, Ruling
from trace_assets.diagnosis.attribution.ending import (
    agents_end,
    broken_stop,
    lost_call,
    no_answer,
    outage,
    recorded_fault,
)
from trace_assets.diagnosis.attribution.grading import (
    lost_write,
    not_judged,
    superseded_step,
    tool_exception,
    wrong_demand,
)
from trace_assets.diagnosis.attribution.ground_truth import (
    another_look,
    demanded_look,
    literal_demand,
    other_order,
    unsaid_option,
    written_before,
)
from trace_assets.diagnosis.attribution.script import contradiction, denied_state, users_choice
from trace_assets.diagnosis.attribution.simulator import never_stopped, out_of_part, stopped_first, stuck
from trace_assets.diagnosis.attribution.told import told_otherwise, untold
from trace_assets.diagnosis.expected.facts import Told
from trace_assets.records import Trajectory, Triage
from trace_assets.stats.intervals import wilson

RULES: tuple[Rule, ...] = (
    recorded_fault,
    broken_stop,
    outage,
    not_judged,
    tool_exception,
    lost_call,
    contradiction,
    stopped_first,
    stuck,
    out_of_part,
    wrong_demand,
    superseded_step,
    literal_demand,
    another_look,
    demanded_look,
    other_order,
    written_before,
    never_stopped,
    users_choice,
    told_otherwise,
    untold,
    unsaid_option,
    denied_state,
    lost_write,
    no_answer,
    agents_end,
)

SECOND_LOOK = "model_second_look"
"""The rule that a model's ruling is kept under."""
DOUBTED = frozenset({"simulator_stopped_first"})
"""Rules that judge by words why a user left: a model that looks again is asked about what they accuse too."""
SecondLook = Callable[[Sequence[Trajectory]], Mapping[str, Ruling]]
"""Looks at failures that rules leave to the agent, or doubt; returns a ruling for those that it answered."""


def triage(
    trajectories: Iterable[Trajectory],
    second_look: SecondLook | None = None,
    *,
    tasks: Mapping[str, Told] | None = None,
    known: Known | None = None,
    rules: Sequence[Rule] = RULES,
) -> list[Triage]:
    """Put each failure down to the agent, its simulated user, its task, the environment or infrastructure.

    Deterministic without a second look: the same trajectory gets the same ruling. A fault of infrastructure,
    or a missing reward, makes the outcome `unjudged`: it is nobody's failure to learn from.

    Args:
        trajectories: Of any targets, judged or not.
        second_look: Asked once, about all failures that the rules leave to the agent and those that a rule of
            `DOUBTED` puts down otherwise. What it says of one that it leaves to the agent too is kept where
            the rules have no more to say than that.
        tasks: By id: what the simulated user was told, and what is expected. Without them no contradiction,
            no broken script and no wrong ground truth is found.
        known: What all runs and tasks of the targets tell together; learned from these trajectories and tasks
            unless given.
        rules: In order; the last one must rule on everything.

    Returns:
        One row a trajectory, in their order; the fault is None exactly for passed ones.
    """
    every = list(trajectories)
    if known is None:
        known = Known.of(every, tasks or {})
    ruled = [(one, None if one.success else _ruling(one, known, rules)) for one in every]
    if second_look is not None:
        left = [one for one, found in ruled if found is not None and looks_again(found.fault, found.rule)]
        others = second_look(left) if left else {}
        ruled = [(one, _looked(found, others.get(one.trajectory_id))) for one, found in ruled]
    return [_row(one, found) for one, found in ruled]


def looks_again(fault: str | None, rule: str) -> bool:
    """Say whether a model, where one is set, is asked about a failure after the rules."""
    return fault == "agent" or rule in DOUBTED


def _ruling(trajectory: Trajectory, known: Known, rules: Sequence[Rule]) -> Ruling:
    case = Case(trajectory, known)
    return next(found for rule in rules if (found := rule(case)) is not None)


def _looked(found: Ruling | None, look: Ruling | None) -> Ruling | None:
    """Return the ruling after a second look; what the rules say of how an agent's run ended stays."""
    if found is None or look is None or not looks_again(found.fault, found.rule):
        return found
    return look if look.fault != "agent" or found.rule == "agent" or found.fault != "agent" else found


def _row(trajectory: Trajectory, ruling: Ruling | None) -> Triage:
    unjudged = ruling is not None and (trajectory.success is None or ruling.fault == "infrastructure")
    return Triage(
        trajectory_id=trajectory.trajectory_id,
        target=trajectory.target,
        task_id=trajectory.task_id,
        outcome="passed" if ruling is None else "unjudged" if unjudged else "failed",
        fault=ruling.fault if ruling else None,
        rule=ruling.rule if ruling else "passed",
        evidence=ruling.evidence if ruling else (),
        detail=ruling.detail if ruling else "",
        policy=player(trajectory.policy, trajectory.adapter),
    )


def player(policy: str, adapter: str | None) -> str:
    """Return who played, as tables name it.

    >>> player("m", None), player("m", "m-lookup")
    ('m', 'm + m-lookup')
    """
    return f"{policy} + {adapter}" if adapter else policy


__all__ = ["RULES", "SECOND_LOOK", "Known", "Ruling", "SecondLook", "looks_again", "triage"]


FAULTS = ("agent", "user_simulator", "ground_truth", "environment", "infrastructure")


def fault_shares(rows: Sequence[Triage]) -> list[dict[str, Any]]:
    """Return for each fault its failures, their share of all, a 95 % Wilson interval, and the rules."""
    failures = [row for row in rows if row.outcome != "passed"]
    shares = []
    for fault in FAULTS:
        own = [row for row in failures if row.fault == fault]
        low, high = wilson(len(own), len(failures))
        shares.append(
            {
                "fault": fault,
                "n": len(own),
                "of": len(failures),
                "share": len(own) / len(failures) if failures else None,
                "share_low": low,
                "share_high": high,
                "rules": dict(Counter(row.rule for row in own).most_common()),
            }
        )
    return shares
