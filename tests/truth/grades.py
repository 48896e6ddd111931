"""Three grades of a LACKING label on a failed run: it occurs, it is a deficiency, it is decisive.

- *occurs*: what the label says happened (or did not happen) in this run is so;
- *deficiency*: it was wrong of the agent; the reading names it, decisive or not;
- *decisive*: it sank the run: it is the reading's capability, or one that had to be there as well
  (`tables/fatal.json`).

Structure decides (`clusters`). A label that names nothing the reading names may still be true: readings name
what their reader saw. Such labels are graded by hand where somebody did (`tables/judgements.jsonl`, keyed by
hashes, so that it holds for any analyst that says the same of the same run) and are *ungraded* otherwise.
Ungraded is never right: every share has all labels below its line, and the ungraded are counted beside it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from tests.truth.clusters import About, about, names
from tests.truth.outcome import Outcome
from tests.truth.readings import TABLES, Reading, digest
from trace_assets.records import Capability, Label

ORIGIN = "one reader, a strong general model"


@dataclass(frozen=True)
class Grade:
    """What a label is worth; None where nobody can say.

    Attributes:
        label: The label.
        capability: Its capability.
        kept: Whether the capability was kept.
        occurs: See above.
        deficiency: See above.
        decisive: See above.
        first: Whether it is the reading's first capability.
        by_hand: Whether somebody read it.
    """

    label: Label
    capability: Capability
    kept: bool
    occurs: bool | None
    deficiency: bool | None
    decisive: bool | None
    first: bool
    by_hand: bool


def label_key(trajectory_id: str, capability: Capability) -> str:
    """Return the key of a judgement: the run and what is said of it, by structure where there is one."""
    said = (
        f"{capability.detector}/{json.dumps(capability.detector_args, sort_keys=True)}"
        if capability.detector
        else f"{capability.name}/{capability.description}"
    )
    return digest(f"{trajectory_id}/{said}")


@cache
def judgements(name: str = "judgements") -> Mapping[str, tuple[bool, bool, bool]]:
    """Return by key what was judged by hand in one of the tables; of several judges the least counts."""
    path = TABLES / f"{name}.jsonl"
    rows = (json.loads(line) for line in path.read_text("utf-8").splitlines()) if path.exists() else ()
    found: dict[str, tuple[bool, bool, bool]] = {}
    for row in rows:
        before = found.get(row["label"], (True, True, True))
        found[row["label"]] = (
            before[0] and row["occurs"],
            before[1] and row["deficiency"],
            before[2] and row["decisive"],
        )
    return found


def tools_of(outcome: Outcome) -> frozenset[str]:
    """Return the names of all tools that were called in a set."""
    return frozenset(
        call.name
        for one in outcome.diagnosed.trajectories
        for message in one.messages
        for call in message.tool_calls
    )


def grade_labels(
    outcome: Outcome,
    readings: Mapping[str, Reading],
    judged: Mapping[str, tuple[bool, bool, bool]] | None = None,
) -> list[Grade]:
    """Grade every LACKING label on a failed run that was read.

    Args:
        outcome: The diagnosis of a set.
        readings: By trajectory.
        judged: Judgements by hand; those of the table unless given.
    """
    hand = judgements() if judged is None else judged
    tools = tools_of(outcome)
    capabilities = {one.capability_id: (one, about(one, tools)) for one in outcome.diagnosed.capabilities}
    kept = {row.capability_id for row in outcome.diagnosed.selected if row.kept}
    return [
        _grade(label, *capabilities[label.capability_id], readings[label.trajectory_id], hand, kept)
        for label in outcome.diagnosed.labels
        if label.label == "LACKING" and label.trajectory_id in readings
    ]


def _grade(
    label: Label,
    capability: Capability,
    what: About,
    reading: Reading,
    hand: Mapping[str, tuple[bool, bool, bool]],
    kept: set[str],
) -> Grade:
    said = _said(what, label.evidence, reading)
    first, sinks, named = (
        not said.isdisjoint(one) for one in (reading.first, reading.sinking, reading.named)
    )
    agents = reading.fault == "agent"
    judged = hand.get(label_key(label.trajectory_id, capability))
    if judged is not None:
        occurs: bool | None = judged[0]
        deficiency: bool | None = judged[1]
        decisive: bool | None = judged[2]
    elif named:
        occurs, deficiency, decisive = True, True, sinks and agents
    else:
        # The reading says what decided, so a label that names something else did not; what it says may be so.
        occurs, deficiency, decisive = None, None, None
    return Grade(
        label=label,
        capability=capability,
        kept=label.capability_id in kept,
        occurs=occurs,
        deficiency=deficiency,
        decisive=decisive,
        first=first and decisive is True,
        by_hand=judged is not None,
    )


def _said(what: About, evidence: Sequence[int], reading: Reading) -> frozenset[str]:
    """Return which of the reading's clusters a label names."""
    return frozenset(
        key
        for key in reading.named
        if names(key, what, evidence=evidence, seen=reading.seen, decisive=reading.decisive)
    )
