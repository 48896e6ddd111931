"""What a detector family is, and what it says about one trajectory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.transcript import Transcript
from trace_assets.records import LabelValue


class Finding(NamedTuple):
    """A label with what shows it."""

    label: LabelValue
    evidence: tuple[int, ...] = ()
    rationale: str = ""


NOT_NEEDED = Finding("NA")


def present(rationale: str, *evidence: int) -> Finding:
    """Return that the capability was needed and exercised."""
    return Finding("PRESENT", tuple(sorted(set(evidence))), rationale)


def lacking(rationale: str, *evidence: int) -> Finding:
    """Return that the capability was needed and not exercised."""
    return Finding("LACKING", tuple(sorted(set(evidence))), rationale)


@dataclass(frozen=True)
class Proposal:
    """An instance of a family that is worth labelling.

    Attributes:
        args: All that `label` needs, as plain JSON: the norm is frozen here.
        name: A short imperative sentence.
        description: What it means, in a sentence or two, general enough for other tasks.
        subject: What tells instances of a family apart, for the capability's id.
    """

    args: Mapping[str, Any]
    name: str
    description: str
    subject: tuple[str, ...] = ()


class Detector(Protocol):
    """A family of predicates over tool-call trajectories."""

    @property
    def name(self) -> str:
        """The family, as in `Capability.detector`."""
        ...

    @property
    def norm(self) -> float:
        """Share of relevant successful trajectories that must show the capability for it to be a norm."""
        ...

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Name the instances that occur in the trajectories of one target.

        Proposals need not be good ones: whether successful runs follow the norm, and how many trajectories
        lack it, is counted afterwards, for all families in the same way.
        """
        ...

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory: a pure function of what was said and done in it."""
        ...
