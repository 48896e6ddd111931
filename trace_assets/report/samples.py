"""Which transcripts a reader is shown for each candidate, and which are only named."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from trace_assets.records import Consensus, Label, MessageRow, SelectedCapability, Triage

Side = Literal["failed_lacking", "passed_present", "passed_lacking"]
"""A failure that lacks it, a success that shows it, and a success that lacks it: what speaks against it."""
SAMPLES_KEPT: dict[Side, int] = {"failed_lacking": 3, "passed_present": 1, "passed_lacking": 1}
"""Transcripts shown for a kept capability."""
SAMPLES_REJECTED: dict[Side, int] = {"failed_lacking": 1, "passed_present": 1, "passed_lacking": 1}
MOST_SAMPLES = 100
"""Transcripts on the page: kept capabilities have theirs first, then the rejected ones by rank."""
MOST_NAMED = 20
"""Further failures that lack it, named without their messages."""


@dataclass(frozen=True)
class Sample:
    """One trajectory that shows a capability lacking or present."""

    label: Label
    triage: Triage
    messages: tuple[MessageRow, ...]


@dataclass(frozen=True)
class Chosen:
    """Labels whose trajectories are shown, and by capability the further failures that lack it."""

    shown: tuple[Label, ...] = ()
    named: tuple[tuple[str, tuple[str, ...]], ...] = ()


def choose_samples(
    selected: Iterable[SelectedCapability],
    labels: Iterable[Label],
    triage: Iterable[Triage],
    consensus: Iterable[Consensus] = (),
) -> Chosen:
    """Pick the transcripts a reader is shown for each capability, from different tasks where there are.

    Labels with evidence come first. Only successes and failures put down to the agent are shown, as only
    these enter the contrast. Where several passes or labellers labelled an item, it stands under the label
    that they agree on, told by the first of those who gave it; without agreement it is not shown.
    """
    outcome = {row.trajectory_id: row for row in triage}
    agreed = {(row.capability_id, row.trajectory_id): row.label for row in consensus}
    told: dict[tuple[str, str], Label] = {}
    for label in sorted(labels, key=lambda label: (not label.evidence, label.labelling_pass, label.labeller)):
        item = label.capability_id, label.trajectory_id
        if agreed.get(item, label.label) == label.label:
            told.setdefault(item, label)
    pools: dict[tuple[str, Side], list[Label]] = defaultdict(list)
    for label in told.values():
        side = _side(label, outcome.get(label.trajectory_id))
        if side is not None:
            pools[label.capability_id, side].append(label)
    shown: list[Label] = []
    named: list[tuple[str, tuple[str, ...]]] = []
    for one in sorted(selected, key=lambda row: (not row.kept, row.rank, row.target, row.capability_id)):
        own: list[Label] = []
        for side, most in (SAMPLES_KEPT if one.kept else SAMPLES_REJECTED).items():
            own += _from_different_tasks(pools[one.capability_id, side], outcome, most)
        own = own[: MOST_SAMPLES - len(shown)]
        shown += own
        there = {label.trajectory_id for label in own}
        rest = {label.trajectory_id for label in pools[one.capability_id, "failed_lacking"]} - there
        named.append((one.capability_id, tuple(sorted(rest)[:MOST_NAMED])))
    return Chosen(tuple(shown), tuple(named))


def _side(label: Label, triage: Triage | None) -> Side | None:
    if triage is None or label.label == "NA":
        return None
    if triage.outcome == "passed":
        return "passed_lacking" if label.label == "LACKING" else "passed_present"
    if triage.outcome == "failed" and triage.fault == "agent" and label.label == "LACKING":
        return "failed_lacking"
    return None


def _from_different_tasks(pool: Sequence[Label], outcome: dict[str, Triage], most: int) -> list[Label]:
    chosen: dict[str, Label] = {}
    for label in sorted(pool, key=lambda label: (not label.evidence, label.trajectory_id)):
        chosen.setdefault(outcome[label.trajectory_id].task_id, label)
    return list(chosen.values())[:most]
