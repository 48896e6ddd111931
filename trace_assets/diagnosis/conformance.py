"""What every analyst must hold to, as one function: for tests here and for analysts made elsewhere.

from trace_assets.diagnosis.conformance import check_analyst

def test_my_analyst(trajectories):
    check_analyst(MyAnalyst(...), trajectories)
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from trace_assets.diagnosis.analyst import Analyst
from trace_assets.errors import CheckFailed
from trace_assets.records import Capability, Label, Trajectory

_SLUG = re.compile(r"[a-z0-9_-]{1,80}\Z")


def check_analyst(analyst: Analyst, trajectories: Sequence[Trajectory]) -> list[Capability]:
    """Run an analyst on judged trajectories of one target and check everything the protocol promises.

    Args:
        analyst: The analyst.
        trajectories: Some of them successes and some failures.

    Returns:
        The capabilities it proposed, for further checks of one's own.

    Raises:
        CheckFailed: A promise is broken; the message says which, and where.
    """
    _demand(isinstance(analyst, Analyst), "it lacks a method or property of the Analyst protocol")
    _demand(bool(analyst.name) and bool(analyst.version), "its name or version is empty")
    capabilities = analyst.discover(trajectories)
    _check_capabilities(analyst, capabilities, trajectories)
    blind = [trajectory.blind() for trajectory in trajectories]
    labels = analyst.label(blind, capabilities)
    _check_labels(labels, capabilities, blind)
    flipped = [
        one.model_copy(update={"success": not one.success, "reward": 0.0, "stop": "agent_error"})
        for one in trajectories
    ]
    _demand(analyst.label(flipped, capabilities) == labels, "its labels depend on the outcome")
    backwards = analyst.label(blind[::-1], capabilities[::-1])
    _demand(_by_pair(backwards) == _by_pair(labels), "its labels depend on the order of what it is given")
    _demand(analyst.label([], capabilities) == [], "it labels trajectories that it was not given")
    return capabilities


def _demand(holds: bool, fault: str) -> None:
    if not holds:
        raise CheckFailed(f"this analyst does not conform: {fault}; see trace_assets.diagnosis.analyst.")


def _check_capabilities(
    analyst: Analyst, capabilities: Sequence[Capability], trajectories: Sequence[Trajectory]
) -> None:
    ids = [capability.capability_id for capability in capabilities]
    _demand(len(ids) == len(set(ids)), "two of its capabilities have one id")
    known = {trajectory.trajectory_id for trajectory in trajectories}
    targets = {trajectory.target for trajectory in trajectories}
    for one in capabilities:
        where = f"capability '{one.capability_id}'"
        _demand(bool(_SLUG.match(one.capability_id)), f"{where}: the id is no slug of at most 80 characters")
        _demand(bool(one.name) and bool(one.description), f"{where}: the name or description is empty")
        _demand({one.target} == targets, f"{where}: the target is not that of the trajectories")
        _demand(one.analyst == analyst.name, f"{where}: the analyst is not named as such")
        sample = set(one.proposed_by)
        if one.detector is not None:
            _demand(sample <= known, f"{where}: it was proposed by trajectories that were not given")
        _demand(len(sample) <= one.n_proposals, f"{where}: more proposals are named than counted")


def _check_labels(
    labels: Sequence[Label], capabilities: Sequence[Capability], trajectories: Sequence[Trajectory]
) -> None:
    passes = {label.labelling_pass for label in labels} or {0}
    wanted = {
        (trajectory.trajectory_id, capability.capability_id, number)
        for trajectory in trajectories
        for capability in capabilities
        for number in passes
    }
    given = Counter((one.trajectory_id, one.capability_id, one.labelling_pass) for one in labels)
    _demand(set(given) == wanted, "a pair of trajectory and capability has no label, or was not asked for")
    _demand(max(given.values(), default=1) == 1, "a pair of trajectory and capability has two labels")
    lengths = {trajectory.trajectory_id: len(trajectory.messages) for trajectory in trajectories}
    for label in labels:
        where = f"label of '{label.trajectory_id}' for '{label.capability_id}'"
        inside = all(0 <= index < lengths[label.trajectory_id] for index in label.evidence)
        _demand(inside, f"{where}: its evidence is outside of the transcript")
        _demand(label.label == "NA" or bool(label.rationale), f"{where}: it has no rationale")
        _demand(bool(label.input_hash), f"{where}: it does not say by a hash what was shown")


def _by_pair(labels: Sequence[Label]) -> dict[tuple[str, str, int], Label]:
    return {(one.trajectory_id, one.capability_id, one.labelling_pass): one for one in labels}
