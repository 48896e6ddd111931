"""The diagnosis of a set of trajectories, as the stages make it, by an analyst of one's choice."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

from tests.truth.readings import TABLES
from trace_assets.diagnosis.attribution.case import Known
from trace_assets.diagnosis.candidates import Expected
from trace_assets.diagnosis.chance import Findings, Null, chance_null
from trace_assets.diagnosis.contrast import considered_tests, contrast_matrix
from trace_assets.diagnosis.decisive import RULES as DECISIVE
from trace_assets.diagnosis.detector_analyst import Analyst, DetectorAnalyst
from trace_assets.diagnosis.detectors import FAMILIES
from trace_assets.diagnosis.expected.facts import Facts
from trace_assets.diagnosis.expected.suspects import DOUBTERS
from trace_assets.diagnosis.failure_causes import Diagnosed, explain
from trace_assets.diagnosis.label_matrix import LabelMatrix
from trace_assets.diagnosis.selection import select
from trace_assets.diagnosis.triage import RULES, triage
from trace_assets.records import (
    Capability,
    FailureCause,
    ProposedFinding,
    SingleLack,
    Task,
    Trajectory,
)
from trace_assets.settings import ContrastSection, Discovery, Selection

Explainer = Callable[[Diagnosed], list[FailureCause]]
"""Explains failures, one row for each that did not pass; `explain` is the product's."""
DOMAINS = ("airline", "retail", "telecom")
ALWAYS = frozenset({"agents_end"})
"""Rules that accuse nobody: they are never left out."""


def domain_of(target: str) -> str:
    """Return the domain of a target: tools and policy are the same with and without a user.

    >>> domain_of("tau2:telecom_solo")
    'telecom'
    """
    return target.rpartition(":")[2].removesuffix("_solo")


@cache
def developed_on(kind: str) -> dict[str, tuple[str, ...]]:
    """Return by name on which domains' readings `families`, `rules` or `decisive` were developed."""
    return {name: tuple(on) for name, on in _declared()[kind].items()}


@cache
def _declared() -> dict[str, dict[str, list[str]]]:
    return tomllib.loads((TABLES / "developed_on.toml").read_text("utf-8"))


def held_out(name: str, kind: str, domain: str) -> bool:
    """Tell whether a rule or family may be scored on a domain as on one it has not seen."""
    return name in ALWAYS or domain not in developed_on(kind).get(name, DOMAINS)


@dataclass(frozen=True)
class Tried:
    """What is scored: an analyst, the rules of triage, and who explains.

    Attributes:
        analyst: Makes the analyst of a target; told the domain whose readings it must not have seen, or None,
            the target's policy as it is recorded, and what its tasks demand.
        explainer: Explains failures.
        leave_out: Whether what was developed on a domain's readings is left out there.
    """

    analyst: Callable[[str | None, str, Expected], Analyst]
    explainer: Explainer = explain
    leave_out: bool = False


def by_detectors(domain: str | None, policy: str = "", expected: Expected | None = None) -> Analyst:
    """Return the detectors, those that were not developed on a domain alone where one is named."""
    families = [one for one in FAMILIES if domain is None or held_out(one.name, "families", domain)]
    if domain is not None and not held_out("demanded", "rules", domain):
        expected = None
    return DetectorAnalyst(Discovery(), families=families, policy=policy, expected=expected)


@dataclass(frozen=True)
class Outcome:
    """The diagnosis of one set.

    Attributes:
        name: The set's.
        target: Its trajectories' target.
        diagnosed: Triage, candidates, labels, contrasts, decisions.
        causes: One a failure.
        accused: Causes of the passed runs, each looked at as if it alone had failed.
    """

    name: str
    target: str
    diagnosed: Diagnosed
    causes: Sequence[FailureCause]
    accused: Sequence[FailureCause]


def diagnose(name: str, trajectories: Sequence[Trajectory], tasks: Sequence[Task], tried: Tried) -> Outcome:
    """Diagnose the trajectories of one target as the stages do.

    `causes` are what the asset `failure_causes` writes of them: both are `explain` on the same evidence, runs
    of tasks that are put aside left out of discovery and contrast and explained all the same.
    """
    target = trajectories[0].target
    domain = domain_of(target) if tried.leave_out else None
    rules = [rule for rule in RULES if domain is None or held_out(rule.__name__, "rules", domain)]
    doubters = [one for one in DOUBTERS if domain is None or held_out(one.__name__, "rules", domain)]
    known = Known.of(trajectories, {task.task_id: task for task in tasks}, doubters)
    rows = triage(trajectories, rules=rules, known=known)
    aside = {task for task, own in known.doubts.items() if any(one.grade == "wrong" for one in own)}
    counted = [row for row in rows if row.task_id not in aside]
    usable = {
        row.trajectory_id
        for row in counted
        if row.outcome == "passed" or (row.outcome == "failed" and row.fault == "agent")
    }
    demands = {name: task.expected_actions for name, task in known.tasks.items() if task.has_expected}
    analyst = tried.analyst(domain, Facts(trajectories, known.tasks).policy.text, demands)
    own = [one for one in trajectories if one.trajectory_id in usable]
    capabilities, rows_of_null, singles, as_if_single = _discovered(analyst, own)
    labels = analyst.label([one.blind() for one in trajectories], capabilities)
    matrix = LabelMatrix.build(labels, counted, target)
    contrasts = contrast_matrix(matrix, ContrastSection(), target, considered=considered_tests(capabilities))
    nulls = {target: partial(_null, rows_of_null, matrix, capabilities)}
    selected = select(contrasts, capabilities, labels, counted, Selection(), nulls=nulls)
    by_id = {task.task_id: task for task in tasks}
    diagnosed = Diagnosed(
        trajectories, rows, capabilities, labels, contrasts, selected, by_id, singles=singles
    )
    as_if = [triage([as_failed(one)], rules=rules, known=known)[0] for one in trajectories if one.success]
    accused = replace(diagnosed, triage=as_if, singles=as_if_single)
    explainer = _without(domain) if domain and tried.explainer is explain else tried.explainer
    return Outcome(name, target, diagnosed, explainer(diagnosed), explainer(accused))


def _discovered(
    analyst: Analyst, runs: Sequence[Trajectory]
) -> tuple[list[Capability], list[ProposedFinding], list[SingleLack], list[SingleLack]]:
    """Return candidates, what they were picked among, and lacks of single failures, then of successes.

    The last are those of each success as if it alone had failed. Of a model there are candidates alone.
    """
    if not isinstance(analyst, DetectorAnalyst) or len({one.success for one in runs} - {None}) < 2:
        return analyst.discover(runs), [], [], []
    pool = analyst.pool(runs)
    found = analyst.picked(pool, runs)
    return found.capabilities, found.findings, found.singles, analyst.singles(pool, runs, as_if=True)


def _null(
    rows: Sequence[ProposedFinding], matrix: LabelMatrix, capabilities: Sequence[Capability], upto: float
) -> Null:
    """Return what shuffled outcomes come to, as the stage has it; of a model's candidates as they stand."""
    findings = Findings.of_candidates(matrix)
    if rows:
        findings = Findings.of_tables(matrix, rows, capabilities, Discovery())
    return chance_null(matrix, findings, ContrastSection(), Selection(), upto)


def _without(domain: str) -> Explainer:
    """Return the explanation by rules without those that were developed on a domain."""
    return partial(explain, rules={one for one in DECISIVE if held_out(one, "decisive", domain)})


def as_failed(one: Trajectory) -> Trajectory:
    """Return a passed run as if it had failed for no reason that anybody can see: its state check fails."""
    checks = tuple(
        check.model_copy(update={"passed": False, "score": 0.0})
        if check.gates and check.kind != "action"
        else check
        for check in one.checks
    )
    return one.model_copy(update={"success": False, "reward": 0.0, "checks": checks})
