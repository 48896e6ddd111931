"""To whom a failure is put down, before anybody looks for what the agent lacks.

Rules in order, the first that applies decides; a failure that no rule claims is the agent's. A simulated
user, the ground truth, the environment and the infrastructure are accused only on evidence in the record, the
messages, or the task. Rules whose accusations were mostly false on agents that nobody had looked at accuse
nobody: what they see is told as a suspicion, beside what is decided without them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from trace_assets.diagnosis.attribution.case import Case, Known, Rule, Ruling
from trace_assets.diagnosis.attribution.decided import (
    agreed_and_left,
    asked_for_less,
    free_option,
    other_named,
    turned_down,
)
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
    missing_tool,
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
from trace_assets.diagnosis.detectors.transcript import Transcript
from trace_assets.diagnosis.expected.facts import Told
from trace_assets.records import ToolUse, Trajectory, Triage
from trace_assets.stats.intervals import wilson

RULES: tuple[Rule, ...] = (
    recorded_fault,
    broken_stop,
    outage,
    not_judged,
    tool_exception,
    missing_tool,
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
    agreed_and_left,
    turned_down,
    other_named,
    asked_for_less,
    free_option,
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
SUSPICIONS = frozenset({"simulator_stopped_first", "users_choice", "tool_error_on_value"})
"""Rules that only make suspicious. On runs that nobody had read before they accused, another party than the
agent was read as at fault in 3 of 9, 1 of 3 and 0 of 6 (`docs/truth/rounds.md`, the fifth round)."""
CHECKED = frozenset({"agreed_and_left", "turned_down", "other_named", "asked_for_less", "free_option"})
"""Rules that decide where nobody looks again, and over which a model's word goes: they were written for runs
of one desk, and no set of others has tried them yet."""
SecondLook = Callable[[Sequence[Trajectory]], Mapping[str, Ruling]]
"""Looks at failures that rules leave to the agent, or are not sure of; returns a ruling for those that it
answered."""
_Ruled = tuple[Ruling, Ruling | None]
"""What decides, and what only makes suspicious."""


def triage(
    trajectories: Iterable[Trajectory],
    second_look: SecondLook | None = None,
    *,
    tasks: Mapping[str, Told] | None = None,
    known: Known | None = None,
    rules: Sequence[Rule] = RULES,
    suspicions: Collection[str] = SUSPICIONS,
) -> list[Triage]:
    """Put each failure down to the agent, its simulated user, its task, the environment or infrastructure.

    Deterministic without a second look: the same trajectory gets the same ruling. A fault of infrastructure,
    or a missing reward, makes the outcome `unjudged`: it is nobody's failure to learn from.

    Args:
        trajectories: Of any targets, judged or not.
        second_look: Asked once, about all failures that the rules leave to the agent, or put down to others
            by rules that are `CHECKED`. What it says of one that it leaves to the agent too is kept where the
            rules have no more to say than that.
        tasks: By id: what the simulated user was told, and what is expected. Without them no contradiction,
            no broken script and no wrong ground truth is found.
        known: What all runs and tasks of the targets tell together; learned from these trajectories and tasks
            unless given.
        rules: In order; the last one must rule on everything.
        suspicions: Names of those that decide nothing: a failure that no other rule claims is the agent's,
            and what they saw is told beside it.

    Returns:
        One row a trajectory, in their order; the fault is None exactly for passed ones.
    """
    every = list(trajectories)
    if known is None:
        known = Known.of(every, tasks or {})
    ruled = [(one, None if one.success else _ruling(one, known, rules, suspicions)) for one in every]
    if second_look is not None:
        left = [one for one, found in ruled if found is not None and is_looked_at(found[0])]
        others = second_look(left) if left else {}
        ruled = [(one, _looked(found, others.get(one.trajectory_id))) for one, found in ruled]
    return [_row(one, found) for one, found in ruled]


def _ruling(
    trajectory: Trajectory, known: Known, rules: Sequence[Rule], suspicions: Collection[str]
) -> _Ruled:
    case = Case(trajectory, known)
    suspicion: Ruling | None = None
    for found in (found for rule in rules if (found := rule(case)) is not None):
        if found.rule not in suspicions:
            return found, suspicion if found.fault == "agent" else None
        suspicion = suspicion or found
    raise ValueError("the last rule has to rule on everything")


def is_looked_at(found: Ruling | Triage) -> bool:
    """Tell whether a second look is asked about what rules found of a failure.

    >>> [is_looked_at(Ruling("user_simulator", rule)) for rule in ("turned_down", "simulator_stuck")]
    [True, False]
    """
    return found.fault == "agent" or found.rule in CHECKED


def _told(suspicion: Ruling) -> str:
    """Return what made suspicious, with where it shows.

    >>> _told(Ruling("user_simulator", "users_choice", (4, 5), "the user chose otherwise"))
    'users_choice (messages 4, 5): the user chose otherwise'
    """
    where = ", ".join(map(str, suspicion.evidence))
    shown = f" (message{'s' * (len(suspicion.evidence) > 1)} {where})" if where else ""
    return f"{suspicion.rule}{shown}: {suspicion.detail}"


def _looked(found: _Ruled | None, look: Ruling | None) -> _Ruled | None:
    """Return the ruling after a second look; what the rules say of how an agent's run ended stays.

    Of whom a rule accused that the look does not accuse, the accusation is told as a suspicion.
    """
    if found is None or look is None or not is_looked_at(found[0]):
        return found
    if found[0].rule in CHECKED:
        return look, found[0] if look.fault == "agent" else None
    return (look, None) if look.fault != "agent" or found[0].rule == "agent" else found


def _row(trajectory: Trajectory, ruled: _Ruled | None) -> Triage:
    ruling, suspicion = ruled or (None, None)
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
        suspected=suspicion.fault if suspicion else None,
        suspicion=_told(suspicion) if suspicion else "",
        policy=player(trajectory.policy, trajectory.adapter),
    )


def player(policy: str, adapter: str | None) -> str:
    """Return who played, as tables name it.

    >>> player("m", None), player("m", "m-lookup")
    ('m', 'm + m-lookup')
    """
    return f"{policy} + {adapter}" if adapter else policy


FAULTS = ("agent", "user_simulator", "ground_truth", "environment", "infrastructure")


def fault_shares(rows: Sequence[Triage]) -> list[dict[str, Any]]:
    """Return for each fault its failures, their share of all, a 95 % Wilson interval, and the rules.

    A run that only lacks a verdict is no failure.
    """
    failures = [row for row in rows if row.outcome != "passed" and row.rule != "reward_missing"]
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


def tool_use(trajectories: Iterable[Trajectory]) -> list[ToolUse]:
    """Count the agent's calls and their errors, by target, policy, tool and batch."""
    counts: dict[tuple[str, str, str, str], list[int]] = defaultdict(lambda: [0] * 5)
    for one in trajectories:
        for tool, steps in Transcript(one).by_tool.items():
            own = [step for step in steps if not step.by_user]
            if not own:
                continue
            errors = sum(step.failed for step in own)
            unrecovered = own[-1].failed
            row = counts[one.target, one.policy, tool, one.task_batch]
            for place, more in enumerate(
                (1, len(own), errors, unrecovered, unrecovered and one.success is False)
            ):
                row[place] += more
    return [
        ToolUse(
            target=target,
            policy=policy,
            tool=tool,
            task_batch=batch,
            n_runs=runs,
            n_calls=calls,
            n_errors=errors,
            n_unrecovered=open_errors,
            n_unrecovered_failed=failed,
        )
        for (target, policy, tool, batch), (runs, calls, errors, open_errors, failed) in sorted(
            counts.items()
        )
    ]
