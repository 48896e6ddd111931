"""What the writer is shown of the capability: transcripts that lack it beside transcripts that show it.

Only trajectories of discovery tasks, so that nothing held out can leak into training, and as blind as the
labeller saw them: without outcomes, rewards and verdicts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trace_assets.diagnosis.model.view import view
from trace_assets.records import Label, Message, Trajectory

POLICY_TEXT = "(the policy text)"
LONGEST_RATIONALE = 300


@dataclass(frozen=True)
class Pick:
    """A trajectory with its label."""

    trajectory: Trajectory
    label: Label


def excerpts(picks: Sequence[Pick], tokens: int) -> str:
    """Return transcripts as a prompt shows them, each under a heading that says what it is there for.

    Args:
        picks: In the order in which they are shown.
        tokens: Longest transcript.
    """
    parts = []
    for number, one in enumerate(picks, start=1):
        shown = view(_without_policy(one.trajectory), tokens)
        where = [str(index) for index in one.label.evidence if index in shown.indices]
        what = "lacks the capability" if one.label.label == "LACKING" else "shows the capability"
        heading = f"Transcript {number} {what}"
        heading += f", see messages {', '.join(where)}" if where else ", by what never happens in it"
        why = " ".join(one.label.rationale.split())[:LONGEST_RATIONALE]
        parts.append(f"{heading}{f' ({why})' if why else ''}:\n{shown.text}")
    return "\n\n".join(parts)


def pick(labels: Iterable[Label], trajectories: Sequence[Trajectory], each: int) -> list[Pick]:
    """Choose transcripts that contrast: the lack in failures, the presence in successes of the same tasks.

    Args:
        labels: Of one capability; those without a trajectory here are passed over.
        trajectories: Judged ones; others than discovery tasks are left out.
        each: How many of either kind at most.

    Returns:
        Lacking ones first; the same labels and trajectories in any order give the same choice.
    """
    known = {one.trajectory_id: one for one in trajectories if one.split == "discovery" and one.messages}
    lacking: dict[str, Pick] = {}
    present: dict[str, Pick] = {}
    for label in sorted(labels, key=lambda one: (one.trajectory_id, one.labelling_pass, one.labeller)):
        trajectory = known.get(label.trajectory_id)
        if trajectory is None:
            continue
        if label.label == "LACKING" and trajectory.success is False:
            lacking.setdefault(label.trajectory_id, Pick(trajectory, label))
        elif label.label == "PRESENT" and trajectory.success is True:
            present.setdefault(label.trajectory_id, Pick(trajectory, label))
    contrasted = {one.trajectory.task_id for one in present.values()}
    chosen = _of_different_tasks(lacking.values(), contrasted, each)
    tasks = {one.trajectory.task_id for one in chosen}
    return chosen + _of_different_tasks(present.values(), tasks, each)


def _of_different_tasks(picks: Iterable[Pick], preferred: set[str], most: int) -> list[Pick]:
    """Return picks of preferred tasks first, then those with evidence, one a task while there are others."""
    ordered = sorted(
        picks,
        key=lambda one: (
            one.trajectory.task_id not in preferred,
            not one.label.evidence,
            one.trajectory.trajectory_id,
        ),
    )
    first: dict[str, Pick] = {}
    for one in ordered:
        first.setdefault(one.trajectory.task_id, one)
    again = [one for one in ordered if first[one.trajectory.task_id] is not one]
    return [*first.values(), *again][:most]


def _without_policy(trajectory: Trajectory) -> Trajectory:
    """Return a trajectory whose system message, which the contract holds, is one line."""
    messages = tuple(
        Message(role="system", content=POLICY_TEXT) if one.role == "system" else one
        for one in trajectory.messages
    )
    return trajectory.model_copy(update={"messages": messages})
