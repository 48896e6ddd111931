"""The analyst that needs no language model: it proposes and labels with the detector families."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from trace_assets.code_versions import code_version
from trace_assets.diagnosis.candidates import Expected, Pool
from trace_assets.diagnosis.detectors import FAMILIES, Corpus, Detector, Finding, Proposal, Transcript
from trace_assets.diagnosis.detectors.policy_text import shown_policy
from trace_assets.diagnosis.detectors.protocol import label_with
from trace_assets.diagnosis.label_matrix import LACKING, PRESENT
from trace_assets.diagnosis.single_lacks import single_lacks
from trace_assets.errors import InputError
from trace_assets.records import (
    Capability,
    Label,
    Message,
    ProposedFinding,
    SingleLack,
    ToolSpec,
    Trajectory,
)
from trace_assets.settings import Discovery

DETECTORS = "detectors"
"""How they are called as analyst and labeller."""
SAMPLE = 8
"""How many of the trajectories behind a proposal are named in `Capability.proposed_by`."""

_MESSAGES = TypeAdapter(tuple[Message, ...])
_BY_NAME: Mapping[str, Detector] = {detector.name: detector for detector in FAMILIES}


class Discovered(NamedTuple):
    """What discovery comes to.

    Attributes:
        capabilities: Candidates, the best first.
        findings: All that they were picked among.
        singles: What single failures lack beside them.
    """

    capabilities: list[Capability]
    findings: list[ProposedFinding]
    singles: list[SingleLack]


class DetectorAnalyst:
    """Proposes what successful runs do and others do not, and labels by rule: the same input, the same label.

    Args:
        section: How much support a candidate needs, and how many are kept.
        tools: The target's tools where they are known: says which of them write. Otherwise it is inferred.
        families: Who proposes; a part of the families shows what the others add.
        policy: What the agent was told to obey, where it is known: some families take their rules from it.
        expected: What tasks demand, where it may be known: only for who proposes, never for who labels.
    """

    def __init__(
        self,
        section: Discovery,
        tools: Sequence[ToolSpec] = (),
        families: Sequence[Detector] = FAMILIES,
        policy: str = "",
        expected: Expected | None = None,
    ) -> None:
        self._section = section
        self._expected = expected or {}
        self._policy = policy
        self._tools = tuple(tools)
        self._families = tuple(families)

    @property
    def name(self) -> str:
        """`detectors`."""
        return DETECTORS

    @property
    def version(self) -> str:
        """Hash of the detectors' sources, the section and what is known of the tools."""
        known = sorted((tool.name, str(tool.mutates)) for tool in self._tools)
        names = [family.name for family in self._families]
        text = f"{_sources_hash()}/{self._section.fingerprint()}/{known}/{names}/{_hash(self._policy)}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def discover(self, trajectories: Sequence[Trajectory]) -> list[Capability]:
        """Propose capabilities that some trajectories lack and that successful ones show.

        A candidate is kept when enough trajectories lack it, and successful ones for whose task it is
        relevant mostly show it (the family's norm). Outcomes enter nowhere else but the order: candidates
        that cover more failures and fewer successes come first.

        Args:
            trajectories: Of one target. Those that were not judged are read but count on neither side.

        Returns:
            At most `max_candidates` candidates, the best first; none without successes or without failures.

        Raises:
            InputError: The trajectories are of several targets.
        """
        return self.discover_among(trajectories).capabilities

    def discover_among(self, trajectories: Sequence[Trajectory]) -> Discovered:
        """Return candidates as `discover` does, what they were picked among, and lacks of single failures."""
        target = _target(trajectories)
        passed = [trajectory.success for trajectory in trajectories]
        if target is None or not (True in passed and False in passed):
            return Discovered([], [], [])
        return self.picked(self.pool(trajectories), trajectories)

    def picked(self, pool: Pool, trajectories: Sequence[Trajectory]) -> Discovered:
        """Return what `discover_among` does, from a pool of these trajectories."""
        target = trajectories[0].target
        outcome = _outcomes(trajectories)
        chosen = pool.pick(outcome == 1, outcome == 0, self._section)
        considered = pool.considered(outcome == 1, outcome == 0, self._section)
        order = sorted(range(len(trajectories)), key=lambda place: trajectories[place].trajectory_id)
        hashed = trajectories_hash(trajectories[place].trajectory_id for place in order)
        findings = pool.findings(self._section.support(int((outcome == 0).sum())))
        return Discovered(
            [_capability(pool, row, target, trajectories, self.name, considered) for row in chosen],
            [
                ProposedFinding(
                    target=target,
                    capability_id=capability_id(target, pool.detectors[row].name, pool.proposals[row]),
                    name=pool.proposals[row].name,
                    detector=pool.detectors[row].name,
                    picked=int(row) in chosen,
                    norm=pool.norm(row),
                    n_lacking=int((pool.codes[row] == LACKING).sum()),
                    n_present=int((pool.codes[row] == PRESENT).sum()),
                    labels="".join(map(str, pool.codes[row][order].tolist())),
                    trajectories_hash=hashed,
                )
                for row in findings
            ],
            self.singles(pool, trajectories),
        )

    def singles(
        self, pool: Pool, trajectories: Sequence[Trajectory], *, as_if: bool = False
    ) -> list[SingleLack]:
        """Return what single failures lack beside candidates; see `single_lacks`, also for `as_if`."""
        outcome = _outcomes(trajectories)
        chosen = pool.pick(outcome == 1, outcome == 0, self._section)
        found = single_lacks(pool, outcome == 1, outcome == 0, chosen, as_if=as_if)
        return [
            _single(pool, row, number, trajectories[column], counts) for column, number, row, counts in found
        ]

    def pool(self, trajectories: Sequence[Trajectory]) -> Pool:
        """Return all proposals with their labels on trajectories of one target, made without outcomes."""
        return Pool.build(self.corpus(trajectories), self._families, self._expected)

    def corpus(self, trajectories: Sequence[Trajectory]) -> Corpus:
        """Return trajectories of one target as families see them: blind, beside tools and policy.

        A policy that nobody records apart from the runs is the one that their system messages show.
        """
        policy = self._policy or shown_policy(trajectories)
        demanded = {task: {one.name for one in actions} for task, actions in self._expected.items()}
        return Corpus([Transcript(one.blind()) for one in trajectories], self._tools, policy, demanded)

    def label(self, trajectories: Sequence[Trajectory], capabilities: Sequence[Capability]) -> list[Label]:
        """Label every trajectory with every capability, in one pass.

        Args:
            trajectories: Blind or not: only their messages are read.
            capabilities: Candidates that this analyst proposed.

        Returns:
            One label a pair, in the order of the trajectories and then of the capabilities.

        Raises:
            InputError: A capability names no known detector family.
        """
        detectors = [_detector(capability) for capability in capabilities]
        labels: list[Label] = []
        for trajectory in trajectories:
            transcript = Transcript(trajectory)
            hashes = self.input_hashes(trajectory, capabilities)
            for capability, detector, input_hash in zip(capabilities, detectors, hashes, strict=True):
                finding = label_with(detector, transcript, capability.detector_args)
                labels.append(_label(trajectory, capability, finding, self.name, input_hash))
        return labels

    def input_hashes(self, trajectory: Trajectory, capabilities: Sequence[Capability]) -> list[str]:
        """Return a hash of the messages, the instance and the detectors' code, one a capability."""
        messages = _hash(_MESSAGES.dump_json(trajectory.messages)) + _sources_hash()
        return [
            _hash(messages + json.dumps([one.detector, one.detector_args], sort_keys=True))[:16]
            for one in capabilities
        ]


def _outcomes(trajectories: Sequence[Trajectory]) -> NDArray[np.int64]:
    """Return 1 for what passed, 0 for what failed, -1 for what was not judged."""
    return np.array([-1 if one.success is None else int(one.success) for one in trajectories])


def _target(trajectories: Sequence[Trajectory]) -> str | None:
    targets = sorted({trajectory.target for trajectory in trajectories})
    if len(targets) > 1:
        raise InputError(
            "capabilities are discovered within one target, but these trajectories are of "
            f"{', '.join(targets)}; discover in each of them alone."
        )
    return targets[0] if targets else None


def _detector(capability: Capability) -> Detector:
    detector = _BY_NAME.get(capability.detector or "")
    if detector is None:
        raise InputError(
            f"the capability '{capability.capability_id}' names the detector {capability.detector!r}, which "
            f"this program does not have (it has {', '.join(sorted(_BY_NAME))}); discover again."
        )
    return detector


def _capability(
    pool: Pool, row: int, target: str, trajectories: Sequence[Trajectory], analyst: str, considered: int
) -> Capability:
    proposal, detector = pool.proposals[row], pool.detectors[row]
    lacking = [
        trajectory.trajectory_id
        for trajectory, code in zip(trajectories, pool.codes[row], strict=True)
        if code == LACKING and trajectory.success is False
    ]
    return Capability(
        capability_id=capability_id(target, detector.name, proposal),
        target=target,
        name=proposal.name,
        description=proposal.description,
        analyst=analyst,
        detector=detector.name,
        detector_args=dict(proposal.args),
        proposed_by=tuple(lacking[:SAMPLE]),
        n_proposals=len(lacking),
        n_considered=considered,
    )


def _single(pool: Pool, row: int, number: int, run: Trajectory, counts: tuple[int, int]) -> SingleLack:
    proposal, detector = pool.proposals[row], pool.detectors[row]
    finding = label_with(detector, Transcript(run.blind()), proposal.args)
    return SingleLack(
        trajectory_id=run.trajectory_id,
        number=number,
        target=run.target,
        capability_id=capability_id(run.target, detector.name, proposal),
        name=proposal.name,
        detector=detector.name,
        detector_args=dict(proposal.args),
        n_lacking=counts[0],
        n_present=counts[1],
        evidence=finding.evidence,
        rationale=finding.rationale,
    )


def capability_id(target: str, detector: str, proposal: Proposal) -> str:
    """Return the slug of a proposal: the same finding in the same target has the same one.

    Args:
        target: The target's name.
        detector: The family.
        proposal: The instance; its `subject` is spelt out, and hashed where that is not enough.
    """
    plain = "-".join((target, detector, *proposal.subject))
    slug = re.sub(r"[^a-z0-9_]+", "-", plain.lower()).strip("-")
    exact = "-".join((target.replace(":", "-"), detector, *proposal.subject)).lower()
    if slug != exact or len(slug) > 80:
        slug = f"{slug[:71].strip('-')}-{_hash(plain)[:8]}"
    return slug


def trajectories_hash(ids: Iterable[str]) -> str:
    """Return a hash of trajectory ids, which are in order."""
    return _hash("\n".join(ids))[:16]


def _label(
    trajectory: Trajectory, capability: Capability, finding: Finding, labeller: str, shown: str
) -> Label:
    return Label(
        trajectory_id=trajectory.trajectory_id,
        capability_id=capability.capability_id,
        labeller=labeller,
        label=finding.label,
        evidence=finding.evidence,
        rationale=finding.rationale,
        input_hash=shown,
    )


def _hash(value: str | bytes) -> str:
    return hashlib.sha256(value.encode() if isinstance(value, str) else value).hexdigest()


@cache
def _sources_hash() -> str:
    return code_version("detectors")


# What an analyst is: it proposes capabilities and labels trajectories with them.


@runtime_checkable
class Analyst(Protocol):
    """Detectors and language models alike.

    `discover` may look at outcomes, since it contrasts successes with failures. `label` may not: it is
    handed blind trajectories (`Trajectory.blind`), and must give the same label whatever the outcome was.
    """

    @property
    def name(self) -> str:
        """Who this is, as stored in `Label.labeller`: `detectors`, `model:<name>`, or a name of your own."""
        ...

    @property
    def version(self) -> str:
        """Content hash of all that decides proposals and labels: code, prompts, model."""
        ...

    def discover(self, trajectories: Sequence[Trajectory]) -> list[Capability]:
        """Propose capabilities that failures lack.

        Args:
            trajectories: Judged trajectories of one target, failures among them put down to the agent.

        Returns:
            Candidates with ids unique within the target; empty when nothing was found.
        """
        ...

    def label(self, trajectories: Sequence[Trajectory], capabilities: Sequence[Capability]) -> list[Label]:
        """Label every trajectory with every capability, once for each labelling pass.

        Args:
            trajectories: Blind trajectories of one target.
            capabilities: Candidates of the same target.

        Returns:
            Exactly one label for each (trajectory, capability, pass), evidence as indices into the
            trajectory's messages.
        """
        ...

    def input_hashes(self, trajectory: Trajectory, capabilities: Sequence[Capability]) -> list[str]:
        """Return, for each capability, a hash of all that decides the trajectory's label besides the pass.

        It goes into `Label.input_hash`. Stored labels with the same hash are kept and not asked for again, so
        it has to cover what is shown, and the code, prompts, model and settings that make a label of it.
        """
        ...
