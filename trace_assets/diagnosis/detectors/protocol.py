"""What a detector family is, what it says about one trajectory, and the parents of its proposals.

A parent is the same lesson over all tools or fields in which it shows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.transcript import Transcript
from trace_assets.diagnosis.label_matrix import LACKING, NA, NO_EVIDENCE, PRESENT, Codes
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
CHILDREN = "children"
GENERAL: Mapping[str, tuple[str, str]] = {
    "write_without_read": (
        "Look an object up before changing it",
        "Before any change, look at the object that it is about: what is done has to rest on how it stands.",
    ),
    "write_against_policy": (
        "Refrain from changes of which no condition of the policy holds",
        "Hold an object's record against the conditions that the policy lists before changing it; when none "
        "holds, refuse, whatever the user says.",
    ),
    "write_past_date": (
        "Refrain from changes of what has ended",
        "Compare the dates of an object with today before changing it; when its end has passed, say so.",
    ),
    "write_against_rule": (
        "Refrain from what a sentence of the policy forbids",
        "Hold an object's record and the arguments of a change against what the policy forbids before making "
        "it; where it is forbidden, refuse, whatever the user says.",
    ),
    "unsupported_argument": (
        "Use only values that were said or seen",
        "Every value given to a tool must come from the user or from an earlier result; ask or look it up "
        "rather than guess.",
    ),
    "write_without_consent": (
        "Ask the user before any change",
        "Say what is about to be done and wait for the user's answer before any change, whichever it is.",
    ),
    "untold_figure": (
        "Tell the user what a change costs before it is made",
        "What the policy wants to be told before a change (a fee, a total) has to be said before the call.",
    ),
    "other_than_asked": (
        "Do what the user asked for, with the values that were named",
        "Every count, day, time, address and object that the user named has to be what the tool is given.",
    ),
    "listed_unopened": (
        "Open what is listed until the one meant is found",
        "When a record lists several objects and the one that is meant is not known, open them one by one.",
    ),
    "limit_exceeded": (
        "Compare what is used with its limit, and act when it is reached",
        "Two figures that only mean something together have to be held against each other.",
    ),
    "unanswered_state": (
        "Act on what a result shows",
        "When a result shows something that calls for a step, take the step or have it taken before the end.",
    ),
    "unasked_condition": (
        "Ask what only the user can tell",
        "Where the policy makes a step depend on the user's situation and no tool shows it, ask.",
    ),
}
"""Name and description of the parent, by family; other families have none: what they say differs by tool."""
SHOWN = 0.5
"""Share of its relevant runs that must show a child, whatever their outcome: less is no lesson yet."""
WIDER = 1.5
"""By how much more runs a parent must lack than its largest child to say more than that."""


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


def is_needed(detector: Detector, corpus: Corpus) -> bool:
    """Tell whether some run of a corpus needs the one instance of a family without arguments."""
    return any(detector.label(one, {}).label != "NA" for one in corpus.transcripts)


def speaks_of_all(args: Mapping[str, Any]) -> bool:
    """Tell whether an instance is about all tools: another of its family says it more exactly."""
    return CHILDREN in args or args == {"tool": ""}


def label_with(detector: Detector, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
    """Label one trajectory with a proposal of a family, a parent or not."""
    children = args.get(CHILDREN)
    if not children:
        return detector.label(transcript, args)
    found = [detector.label(transcript, child) for child in children]
    for label in ("LACKING", "PRESENT"):
        first = next((one for one in found if one.label == label), None)
        if first is not None:
            return first
    return NOT_NEEDED


def part_lacking(detector: Detector, transcript: Transcript, args: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments of the child that a trajectory lacks first; of a proposal without any, its own."""
    for child in args.get(CHILDREN) or ():
        if detector.label(transcript, child).label == "LACKING":
            return dict(child)
    return args


def parents(
    found: Sequence[tuple[Detector, Proposal]], codes: Codes
) -> list[tuple[Detector, Proposal, tuple[int, ...]]]:
    """Return the parents of proposals, each with the rows of its children.

    Known without a look at outcomes. A parent that lacks hardly more runs than its largest child is left out:
    the child says the same more exactly.

    Args:
        found: Families and their proposals: the rows.
        codes: Their labels, shape `(rows, trajectories)`.
    """
    families: dict[str, list[int]] = defaultdict(list)
    for row, (detector, proposal) in enumerate(found):
        lacking, shown = int((codes[row] == LACKING).sum()), int((codes[row] == PRESENT).sum())
        # Alone for one tool is what the proposal over all tools says as well.
        again = detector.name == "unsupported_argument" and proposal.args["tool"]
        if detector.name in GENERAL and lacking and shown >= SHOWN * (shown + lacking) and not again:
            families[detector.name].append(row)
    made = []
    for family, rows in families.items():
        own = (codes[rows] == LACKING).sum(axis=1)
        together = int((codes[rows] == LACKING).any(axis=0).sum())
        if len(rows) < 2 or together < WIDER * int(own.max()):
            continue
        largest = rows[int(np.argmax(own))]
        name, description = GENERAL[family]
        proposal = Proposal(
            args={**found[largest][1].args, CHILDREN: [dict(found[row][1].args) for row in rows]},
            name=name,
            description=description,
            subject=("all",),
        )
        made.append((found[largest][0], proposal, tuple(rows)))
    return made


def joined(codes: Codes, evidence: np.ndarray[Any, Any], rows: Sequence[int]) -> tuple[Any, Any]:
    """Return labels and first evidence of a parent from those of its children.

    The evidence is that of the first child that is lacking, as `label_with` has it.
    """
    own = codes[list(rows)]
    lacking, shown = own == LACKING, own == PRESENT
    code = np.where(lacking.any(axis=0), LACKING, np.where(shown.any(axis=0), PRESENT, NA)).astype(np.int8)
    first = np.argmax(lacking, axis=0)
    places = evidence[list(rows)][first, np.arange(codes.shape[1])]
    return code, np.where(lacking.any(axis=0), places, NO_EVIDENCE).astype(np.int32)
