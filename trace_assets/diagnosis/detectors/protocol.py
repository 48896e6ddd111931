"""What a detector family is, and what it says about one trajectory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.transcript import Transcript
from trace_assets.records import LabelValue

Mistake = Literal[
    "forbidden_call",  # a call was made that should not have been made
    "missing_call",  # a call was needed and never made, or too late
    "wrong_value",  # a call was made with a wrong argument
    "missing_question",  # the user should have been asked or told before
    "wrong_statement",  # the agent told the user what is not so, or offered what cannot be
    "unverified_result",  # nobody looked whether a change helped
    "unhandled_error",  # a tool refused, and what it refused was left at that
    "repetition",  # the same call again, with the same result
    "malformed_turn",  # an empty turn, several calls in one, a call written as text
    "early_end",  # ended or handed over with work left
]
"""What kind of mistake a lack is. It says how a run would be repaired (take the call out, put it in, replace
the value, go on), and by it labels are compared with what a person found in the same run."""


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
        never: Whether a rule or the ground truth asks for what no run does: no success can show it, so none
            has to.
    """

    args: Mapping[str, Any]
    name: str
    description: str
    subject: tuple[str, ...] = ()
    never: bool = False


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

    @property
    def mistake(self) -> Mistake:
        """What kind of mistake a trajectory makes that lacks the capability."""
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


def is_lacked(detector: Detector, corpus: Corpus) -> bool:
    """Tell whether some run of a corpus lacks the one instance of a family without arguments."""
    return any(detector.label(one, {}).label == "LACKING" for one in corpus.transcripts)
