"""The result in one sentence, and whose failures there were."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from trace_assets.diagnosis.overrides import OVERRIDE
from trace_assets.evaluation.arms import BASE, COMPOSED, ROUTED, SUM
from trace_assets.evaluation.choice import chosen_arm
from trace_assets.records import Contrast, Triage
from trace_assets.report import formatting
from trace_assets.report.data import ReportData

_FAULTS = {
    "agent": "failed by the agent",
    "user_simulator": "spoilt by the user simulator",
    "ground_truth": "spoilt by a wrong ground truth",
    "environment": "spoilt by environment or grader",
    "infrastructure": "broken by infrastructure",
    None: "not judged",
}
_WAYS = {
    ROUTED: "and routed to the right one",
    COMPOSED: "and added up those that a task calls for",
    SUM: "and added all of them up",
}
"""How what was taught is put together; every other arm that can be released is one adapter."""


def headline(data: ReportData) -> str:
    """Return the result in one sentence, as far as the study has come; it claims only what is shown.

    It is of the agent that validation released, which is what a user gets, and not always the routed one.
    """
    arm = chosen_arm(data.choices)
    base, agent = data.overall.get(BASE), data.overall.get(arm)
    if arm == BASE or agent is None:
        arm, agent = ROUTED, data.overall.get(ROUTED)
    if base and agent and agent.delta is not None and agent.delta_low is not None:
        n = formatting.count(agent.n_tasks, "task")
        gain = formatting.points(agent.delta, agent.delta_low, agent.delta_high)
        rates = (
            f"the agent passes {formatting.percent(agent.pass_rate)} on {n} it had never seen, "
            f"against {formatting.percent(base.pass_rate)} before: {gain} points"
        )
        adapters = sum(row.kind == "capability" for row in data.adapters)
        taught = formatting.count(adapters, "capability", "capabilities")
        if chosen_arm(data.choices) == BASE:
            return (
                f"No gain is shown: validation released the base model; taught {taught} and routed, {rates}."
            )
        if agent.delta_low > 0:
            return f"Taught {taught} {_WAYS.get(arm, f'in one adapter for all (`{arm}`)')}, {rates}."
        return f"No gain is shown: taught {taught} and {arm}, {rates}."
    if data.selected:
        failures = contrasted(data)
        candidates = formatting.count(len(data.selected), "candidate capability", "candidate capabilities")
        by_hand = sum(row.kept and bool(row.overridden_by) for row in data.selected)
        kept_by_hand = f" Kept by override: {by_hand}." if by_hand else ""
        if not data.kept:
            return (
                f"None of {candidates} is shown to separate the agent's failures from its successes: "
                f"{formatting.count(failures, 'failure')}, each candidate is shown with its reason."
                f"{kept_by_hand}"
            )
        verb = "separates" if len(data.kept) == 1 else "separate"
        return (
            f"{len(data.kept)} of {candidates} {verb} the agent's failures from its successes: "
            f"{explained(data):,} of {formatting.count(failures, 'failure')} lack one of them."
            f"{kept_by_hand}"
        )
    if data.nothing_found and data.triage:
        return nothing_found(data)
    if data.triage:
        n = formatting.count(len(data.triage), "trajectory", "trajectories")
        return f"{n} in the store, not diagnosed yet: run `trace diagnose`."
    return "Nothing has been run yet: run `trace sync`, or `trace ingest FILE...` for your own trajectories."


def nothing_found(data: ReportData) -> str:
    """Say that diagnosis proposed nothing, and of how much."""
    aside = {row.task_id for row in data.suspects if row.aside}
    passed = sum(row.outcome == "passed" and row.task_id not in aside for row in data.triage)
    failed = contrasted(data)
    return (
        f"No candidate capability was found in {formatting.count(failed, 'failure')} of the agent and "
        f"{formatting.count(passed, 'success', 'successes')}."
    )


WHAT_HELPS = (
    "A language model that reads the same runs may see more (`trace diagnose --analyst MODEL --base-url "
    "URL`); so may more trajectories of these tasks, or asking for less support (discovery.min_support)."
)
"""What to do where nothing was found."""


def fallen(data: ReportData) -> list[str]:
    """Say of each proposal that became no candidate how often it was seen, and why it fell."""
    told = []
    for one in sorted(data.findings, key=lambda row: (-row.n_lacking, row.capability_id)):
        if not one.picked:
            told.append(
                f"{one.name}: lacking in {one.n_lacking:,} of {one.n_lacking + one.n_present:,} relevant "
                f"trajectories; fell, as a norm must be shown by {100 * one.norm:.0f} % of at least 3 "
                "relevant successes."
            )
    for row in data.proposals:
        if row.merged_into is None:
            told.append(
                f"{row.name}: proposed by {row.analyst} from "
                f"{formatting.count(row.n_failures, 'failure')}; fell, as it was merged into nothing."
            )
    return told or [
        "Nothing was proposed that enough trajectories lack (discovery.min_support) and another shows."
    ]


def contrasted(data: ReportData, target: str = "") -> int:
    """Return how many of the agent's failures candidates are held against: those that coverage is a share of.

    Fewer than triage leaves to the agent where tasks are put aside, one policy alone is diagnosed, or half of
    the tasks proposed. Of a target without candidates they are those that some would have been held against.

    Args:
        data: What was diagnosed.
        target: Whose failures; all targets' unless given.
    """
    counted = {row.target: row.n_failed for row in data.contrasts}
    aside = {row.task_id for row in data.suspects if row.aside}
    failed = Counter(
        row.target
        for row in data.triage
        if row.outcome == "failed" and row.fault == "agent" and row.task_id not in aside
    )
    return sum(n for name, n in {**failed, **counted}.items() if target in ("", name))


def explained(data: ReportData) -> int:
    """Return how many of `contrasted` failures lack a kept capability, each failure counted once."""
    failures = {row.target: row.n_failed for row in data.contrasts}
    return sum(round((row.marginal_coverage or 0.0) * failures.get(row.target, 0)) for row in data.kept)


def _became(row: Triage) -> str:
    if row.outcome == "passed":
        return "passed"
    return _FAULTS[None if row.rule == "reward_missing" else row.fault]


def fault_shares(triage: Sequence[Triage]) -> dict[str, tuple[int, dict[str, int]]]:
    """Count outcomes: target to number of trajectories, and what became of them, in words."""
    counted: dict[str, tuple[int, dict[str, int]]] = {}
    for target in sorted({row.target for row in triage}):
        own = [row for row in triage if row.target == target]
        counts = Counter(_became(row) for row in own)
        order = ["passed", *_FAULTS.values()]
        counted[target] = (len(own), {name: counts[name] for name in order if counts[name]})
    return counted


def put_aside(data: ReportData, target: str) -> str:
    """Say how many of a target's runs enter no rate, as their task is put aside; empty where none are."""
    tasks = {row.task_id for row in data.suspects if row.aside}
    runs = [_became(row) for row in data.triage if row.target == target and row.task_id in tasks]
    parts = [f"{n} of those {name}" for name in ("passed", _FAULTS["agent"]) if (n := runs.count(name))]
    return f" Of tasks put aside, so in no rate below: {', '.join(parts)}." if parts else ""


def overridden(data: ReportData) -> str:
    """Say how much of what is shown a person decided; empty where nobody did."""
    counts = (
        (sum(row.rule == OVERRIDE for row in data.triage), "run", "runs"),
        (len({row.task_id for row in data.suspects if row.rule == OVERRIDE}), "task", "tasks"),
        (data.n_overridden_labels, "label", "labels"),
    )
    parts = [formatting.count(n, one, many) for n, one, many in counts if n]
    return f"Decided by override, and not by rules or labellers: {', '.join(parts)}." if parts else ""


def played(data: ReportData) -> dict[str, tuple[str, ...]]:
    """Return by target whose runs were diagnosed, where that is known."""
    return {row.target: row.policies for row in sorted(data.contrasts, key=_target) if row.policies}


def _target(row: Contrast) -> str:
    return row.target


def who_played(policies: Sequence[str]) -> str:
    """Say whose runs were diagnosed, and what that means where they are several policies'.

    >>> who_played(["small"])
    'played by small.'
    """
    if len(policies) == 1:
        return f"played by {policies[0]}."
    return (
        f"played by {len(policies)} policies ({', '.join(policies)}), diagnosed together: p and the "
        "gap within policies compare each with itself. `trace diagnose --policy NAME` diagnoses one."
    )
