"""All that the store says of one trajectory (messages, labels, why it failed), and its HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import takewhile
from typing import Any, TypeVar

import polars as pl

from trace_assets.diagnosis.expected.diffs import in_words
from trace_assets.diagnosis.overrides import OVERRIDE
from trace_assets.errors import InputError
from trace_assets.records import (
    ActionDiff,
    Capability,
    FailureCause,
    Label,
    LuckyPass,
    MessageRow,
    Record,
    SelectedCapability,
    SuspectTask,
    Task,
    TrajectoryHead,
    Triage,
)
from trace_assets.records.table import from_frame
from trace_assets.report.page import styles, templates, with_labels
from trace_assets.report.views.evidence import whole_turn
from trace_assets.store.tables import Store
from trace_assets.untrusted.printable import printable

R = TypeVar("R", bound=Record)

MOST_NAMED = 5
"""Ids that a refusal names."""


@dataclass(frozen=True)
class OneTrajectory:
    """One trajectory with all that was found out about it; what was not made yet is empty.

    Attributes:
        head: Target, task, policy, reward.
        messages: In order.
        triage: To whom a failure is put down.
        cause: Why it failed.
        labels: PRESENT and LACKING, lacks first; those of NA are left out.
        names: Capability id to name.
        same_as: Capability id of what is said twice to the one that stands for it.
        diffs: How a failed run differs from what is expected of it.
        suspects: What speaks against its task.
        lucky: Why a pass says little.
        instruction: What its task asks for, where that is kept.
    """

    head: TrajectoryHead
    messages: Sequence[MessageRow] = ()
    triage: Triage | None = None
    cause: FailureCause | None = None
    labels: Sequence[Label] = ()
    names: dict[str, str] = field(default_factory=dict)
    same_as: dict[str, str] = field(default_factory=dict)
    diffs: Sequence[ActionDiff] = ()
    suspects: Sequence[SuspectTask] = ()
    lucky: Sequence[LuckyPass] = ()
    instruction: str = ""

    @property
    def lacks_at(self) -> dict[int, list[str]]:
        """Message index to the capabilities that it shows lacking."""
        found: dict[int, list[str]] = {}
        for label in self.labels:
            for index in label.evidence if label.label == "LACKING" else ():
                if label.capability_id not in found.setdefault(index, []):
                    found[index].append(label.capability_id)
        return found

    @property
    def overridden(self) -> str:
        """What a person said of its failure, and what was said before; empty where nobody did."""
        return self.triage.detail if self.triage and self.triage.rule == OVERRIDE else ""

    def document(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "trajectory": self.head.model_dump(mode="json"),
            "instruction": self.instruction,
            "messages": [row.model_dump(mode="json") for row in self.messages],
            "triage": self.triage.model_dump(mode="json") if self.triage else None,
            "failure_cause": self.cause.model_dump(mode="json") if self.cause else None,
            "labels": [
                {**row.model_dump(mode="json"), "name": self.names.get(row.capability_id)}
                for row in self.labels
            ],
            "action_diffs": [row.model_dump(mode="json") for row in self.diffs],
            "lucky_passes": [row.model_dump(mode="json") for row in self.lucky],
            "suspect_tasks": [row.model_dump(mode="json") for row in self.suspects],
        }


def gather_trajectory(store: Store, name: str) -> OneTrajectory:
    """Return what the store says of one trajectory.

    Args:
        store: The tables.
        name: Its id, or so much of the beginning that no other begins so.

    Raises:
        InputError: There is none, or there are several.
    """
    heads = store.frame(TrajectoryHead)
    key = chosen_id(heads["trajectory_id"].to_list(), name)
    (head,) = from_frame(heads.filter(pl.col("trajectory_id") == key), TrajectoryHead)
    labels = [row for row in _of(store, Label, key) if row.label != "NA"]
    names = {row.capability_id: row.name for row in store.read(Capability)}
    labels.sort(key=lambda row: (row.label != "LACKING", row.capability_id, row.labelling_pass))
    tasks = from_frame(store.frame(Task).filter(pl.col("task_id") == head.task_id), Task)
    suspects = store.frame(SuspectTask).filter(pl.col("task_id") == head.task_id)
    return OneTrajectory(
        head=head,
        messages=sorted(_of(store, MessageRow, key), key=lambda row: row.index),
        triage=next(iter(_of(store, Triage, key)), None),
        cause=next(iter(_of(store, FailureCause, key)), None),
        labels=[row for row in labels if row.capability_id in names],
        names=names,
        same_as={row.capability_id: row.same_as for row in store.read(SelectedCapability) if row.same_as},
        diffs=sorted(_of(store, ActionDiff, key), key=lambda row: row.number),
        suspects=from_frame(suspects.sort("number"), SuspectTask),
        lucky=sorted(_of(store, LuckyPass, key), key=lambda row: row.kind),
        instruction=next((task.instruction for task in tasks if task.instruction), ""),
    )


def _of(store: Store, record: type[R], key: str) -> list[R]:
    return from_frame(store.frame(record).filter(pl.col("trajectory_id") == key), record)


def chosen_id(ids: Sequence[str], name: str) -> str:
    """Return the one id that a name stands for: the very id, or the only one that begins so.

    What stands behind the batch (`runs/vet-1`) is what users call a run, so it will do as well.

    Raises:
        InputError: There is none, or there are several.

    >>> chosen_id(["ab12", "ab34", "ab"], "ab"), chosen_id(["ab12", "ab34"], "ab3")
    ('ab', 'ab34')
    >>> chosen_id(["runs/vet-1", "runs/vet-10"], "vet-1")
    'runs/vet-1'
    """
    if name in ids:
        return name
    called = {one for one in ids if name and one.rsplit("/", 1)[-1] == name}
    if len(called) == 1:
        return called.pop()
    begins = sorted(
        {one for one in ids if name and (one.startswith(name) or one.rsplit("/", 1)[-1].startswith(name))}
    )
    if len(begins) == 1:
        return begins[0]
    if begins:
        raise InputError(
            f"'{name}' is the beginning of {len(begins):,} ids; write more of one: {_some(begins)}."
        )
    if not ids:
        raise InputError("there are no trajectories yet; run `trace ingest FILE...` or `trace sync` first.")
    near = sorted({one for one in ids if name and name in one})
    if not near:  # what was mistyped may be a whole id, or the beginning of one
        starts = {one[: max(1, len(name))]: one for one in sorted(ids, reverse=True)}
        close = {*get_close_matches(name, ids, MOST_NAMED)}
        close |= {starts[one] for one in get_close_matches(name, starts, MOST_NAMED)}
        near = sorted(close, key=lambda one: (-_shared(one, name), one))
    meant = f"did you mean {_some(near)}?" if near else f"there are {_some(sorted(ids))}."
    raise InputError(
        f"no trajectory's id is or begins with '{name}'; {meant} "
        "`trace sql failure_causes` lists the failed ones."
    )


def _shared(one: str, other: str) -> int:
    """Return with how many characters both begin."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _some(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - MOST_NAMED:,} more" if len(ids) > MOST_NAMED else ""
    return ", ".join(ids[:MOST_NAMED]) + more


def render_trajectory(one: OneTrajectory) -> str:
    """Return the page as one HTML document without a script; data are escaped."""
    head, decisive = one.head, one.cause.decisive_message if one.cause else None
    outcome = "not judged" if head.success is None else "passed" if head.success else "failed"
    page = (
        templates()
        .get_template("trajectory.html.jinja")
        .render(
            styles=styles(),
            head=head,
            outcome=outcome,
            tone={"passed": "good", "failed": "bad"}.get(outcome, "warn"),
            failed=outcome == "failed",
            instruction=one.instruction,
            cause=one.cause,
            overridden=one.overridden,
            decisive=decisive,
            lucky=one.lucky,
            suspects=one.suspects,
            diffs=[{"kind": row.kind, "words": in_words(row), "message": row.message} for row in one.diffs],
            labels=[_label(one, number) for number in range(len(one.labels))],
            turns=_turns(one, decisive),
        )
    )
    return printable(with_labels(page))


def _label(one: OneTrajectory, number: int) -> dict[str, Any]:
    row = one.labels[number]
    return {**row.model_dump(mode="json"), "name": one.names.get(row.capability_id, row.capability_id)}


def _turns(one: OneTrajectory, decisive: int | None) -> list[dict[str, Any]]:
    turns = []
    for message in one.messages:
        lacks = [one.names.get(name, name) for name in one.lacks_at.get(message.index, ())]
        why = [*(["decisive"] if message.index == decisive else []), *(f"lacks: {name}" for name in lacks)]
        turns.append(whole_turn(message, " · ".join(why)))
    return turns
