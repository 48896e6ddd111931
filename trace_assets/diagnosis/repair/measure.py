"""Replays the failed runs of one target, plain, repaired and with placebos, and says what became of each."""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from trace_assets.diagnosis.detectors.mutation import mutating_tools
from trace_assets.diagnosis.detectors.transcript import Transcript
from trace_assets.diagnosis.repair.going_on import Open
from trace_assets.diagnosis.repair.recipes import OWN_TURN, Donors, placebos, recipe
from trace_assets.diagnosis.repair.run import Plan, Run, expected_of
from trace_assets.errors import CheckFailed, Unavailable
from trace_assets.records import BatchCapability, Capability, Label, Message, Repair, Task, Trajectory
from trace_assets.system.progress import Bar, progress
from trace_assets.targets.protocol import Replayable, Target

CLOSE = 1e-9
"""Rewards that differ by less are the same."""


@dataclass(frozen=True)
class Replayed:
    """What came of a replay.

    Attributes:
        reward: What it earned; None where it was not judged.
        success: Whether it passed.
        unheard: Turns that came after the episode had ended.
        error: What broke, empty where nothing did: then nothing is judged.
    """

    reward: float | None
    success: bool | None
    unheard: int = 0
    error: str = ""


def why_not(target: Target) -> str:
    """Say why runs of a target cannot be replayed; empty where they can."""
    if isinstance(target, Replayable):
        return target.not_replayable
    return f"target '{target.name}' does not say that equal calls give equal episodes"


async def replay(
    target: Target, task: Task, seed: int, turns: Sequence[Message], *, forfeited: bool = False
) -> Replayed:
    """Play an agent's turns in a fresh episode and judge it.

    Args:
        target: Where.
        task: What was attempted.
        seed: Of the episode, as the run had it.
        turns: Assistant messages, in order; those after the end of the episode are not heard.
        forfeited: Whether the run ended in a message that could not be used: then it cannot pass.

    Raises:
        Unavailable: Something that the target needs is down; nothing is known of the run then.
        CheckFailed: None of the target's verdicts may be relied on.
    """
    episode = None
    try:
        episode = target.episode(task, seed=seed)
        await episode.reset()
        heard = 0
        for turn in turns:
            step = await episode.step(turn)
            heard += 1
            if step.done or step.truncated:
                break
        verdict = await episode.verdict()
        if verdict.reward is not None and not math.isfinite(verdict.reward):
            raise ValueError(f"the verdict's reward is {verdict.reward}")
    except (Unavailable, CheckFailed):
        raise
    except Exception as error:  # the target's, or its user's: nobody's answer
        return Replayed(None, None, error=f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")
    finally:
        if episode is not None:
            with suppress(Exception):
                await episode.close()
    reward, success = verdict.reward, verdict.success
    if forfeited:
        reward, success = None if reward is None else min(reward, 0.0), False
    return Replayed(reward, success, len(turns) - heard)


def differs(played: Replayed, reward: float | None, success: bool | None) -> str:
    """Say how a plain replay differs from what was recorded; empty where it does not.

    >>> differs(Replayed(0.5, False), 0.5, False), differs(Replayed(1.0, True), 0.5, False)
    ('', 'played again unchanged it gives reward 1 in place of 0.5')
    """
    if played.error:
        return f"played again unchanged it breaks: {played.error}"
    if played.unheard:
        return f"played again unchanged it ends {played.unheard} of the agent's messages too early"
    if played.reward is None or reward is None:
        same = played.reward is reward
    else:
        same = abs(played.reward - reward) < CLOSE
    if not same:
        return f"played again unchanged it gives reward {_said(played.reward)} in place of {_said(reward)}"
    if played.success != success:
        return f"played again unchanged it {'passes' if played.success else 'does not pass'}"
    return ""


def _said(reward: float | None) -> str:
    return "none" if reward is None else f"{reward:g}"


AT_ONCE = 8
"""Runs that are replayed side by side."""


@dataclass(frozen=True)
class Measured:
    """What came of some runs.

    Attributes:
        rows: One a failed run and capability that it lacks.
        replays: Episodes that were played.
        left_open: Lacks of which only the agent's own going on could tell more.
    """

    rows: list[Repair]
    replays: int
    left_open: Sequence[Open] = ()

    def with_rows(self, better: Iterable[Repair]) -> Measured:
        """Return the same with some rows replaced by what is known better."""
        new = {_place(row): row for row in better}
        return replace(self, rows=[new.get(_place(row), row) for row in self.rows])


def lacks_of(
    trajectories: Iterable[Trajectory], labels: Iterable[Label], known: Iterable[str]
) -> dict[str, list[Label]]:
    """Return by failed run what it lacks, one label a capability: the first that says so.

    Args:
        trajectories: Any runs; those that passed, broke or were not judged are left out.
        labels: Of any labellers and passes.
        known: Ids of the capabilities to look at.
    """
    failed = {one.trajectory_id for one in trajectories if one.success is False and one.fault is None}
    wanted, found = set(known), dict[tuple[str, str], Label]()
    for label in sorted(labels, key=lambda one: (not one.evidence, one.labelling_pass, one.labeller)):
        if label.label == "LACKING" and label.trajectory_id in failed and label.capability_id in wanted:
            found.setdefault((label.trajectory_id, label.capability_id), label)
    lacks: dict[str, list[Label]] = defaultdict(list)
    for (trajectory, _), label in sorted(found.items()):
        lacks[trajectory].append(label)
    return lacks


async def measure(
    target: Target,
    tasks: Mapping[str, Task],
    trajectories: Sequence[Trajectory],
    capabilities: Sequence[Capability | BatchCapability],
    labels: Iterable[Label],
) -> Measured:
    """Replay every failed run with each of its lacks repaired, and with placebos.

    Args:
        target: Live; its episodes are played, and no model is asked.
        tasks: By id, as they were played.
        trajectories: Runs on that target, passed ones too: they tell what is done instead of a wrong call.
        capabilities: Candidates of that target.
        labels: Of these runs.

    Raises:
        Unavailable: Something that the target needs is down.
    """
    by_id = {one.capability_id: one for one in capabilities}
    lacks = lacks_of(trajectories, labels, by_id)
    failed = [one for one in trajectories if one.trajectory_id in lacks]
    refused = why_not(target) if failed else ""
    transcripts = [Transcript(one) for one in trajectories]
    writes = mutating_tools(transcripts, target.tools if failed else ())
    work = _Work(
        target,
        tasks,
        writes,
        Donors.of(one for one in trajectories if one.success),
        {name: _capability(one) for name, one in by_id.items()},
    )
    room = asyncio.Semaphore(AT_ONCE)
    rows: list[Repair] = []
    with progress("replays", len(failed)) as bar:

        async def one_run(one: Trajectory) -> list[Repair]:
            async with room:
                return await work.run(one, lacks[one.trajectory_id], refused, bar)

        for found in await asyncio.gather(*map(one_run, failed)):
            rows += found
    return Measured(rows, work.replays, work.left_open)


def _place(row: Repair) -> tuple[str, str]:
    return row.capability_id, row.trajectory_id


def _capability(one: Capability | BatchCapability) -> Capability:
    if isinstance(one, Capability):
        return one
    shared = {name: getattr(one, name) for name in BatchCapability.model_fields if name != "task_batch"}
    return Capability(**shared)


class _Work:
    def __init__(
        self,
        target: Target,
        tasks: Mapping[str, Task],
        writes: frozenset[str],
        donors: Donors,
        capabilities: Mapping[str, Capability],
    ) -> None:
        self.target, self.tasks, self.writes, self.donors = target, tasks, writes, donors
        self.capabilities = capabilities
        self.replays = 0
        self.left_open: list[Open] = []

    async def run(self, one: Trajectory, lacks: Sequence[Label], refused: str, bar: Bar) -> list[Repair]:
        task = self.tasks.get(one.task_id)
        why = refused or ("" if task is not None else "its task is not in the store any more")
        rows: list[Repair] = []
        if not why:
            assert task is not None
            run = Run(one, expected_of(self.target, task), self.writes, self.target.tools)
            plain = await self._play(task, run)
            why = differs(plain, one.reward, one.success)
            if not why:
                rows = [await self._repair(task, run, label) for label in lacks]
        if why:
            rows = [self._row(one, label, status="not replayable", detail=why) for label in lacks]
        bar.advance(1)
        return rows

    async def _repair(self, task: Task, run: Run, label: Label) -> Repair:
        one = run.trajectory
        capability = self.capabilities[label.capability_id]
        plan = recipe(run, capability, label, self.donors)
        if isinstance(plan, str):
            row = self._row(one, label, status="not repairable", detail=plan)
            if plan in OWN_TURN:
                self.left_open.append(Open(task, run, capability, label, None, row))
            return row
        after = await self._play(task, run, plan)
        if after.error:
            detail = f"the repaired run breaks: {after.error}"
            return self._row(one, label, status="not repairable", detail=detail, change=plan.words)
        controls = [(other, await self._play(task, run, other)) for other in placebos(run, plan)]
        judged = [(other, played) for other, played in controls if played.reward is not None]
        row = self._row(
            one,
            label,
            status="decisive" if after.success else "not decisive",
            kind=plan.kind,
            change=plan.words,
            partial=run.is_partial(plan),
            reward_after=after.reward,
            placebo_change="; or ".join(other.words for other, _ in judged),
            placebo_rewards=tuple(played.reward for _, played in judged if played.reward is not None),
            placebo_passed=any(played.success for _, played in judged) if judged else None,
        )
        if row.partial and not after.success:
            self.left_open.append(Open(task, run, capability, label, plan, row))
        return row

    async def _play(self, task: Task, run: Run, plan: Plan | None = None) -> Replayed:
        self.replays += 1
        one = run.trajectory
        return await replay(self.target, task, one.seed or 0, run.turns(plan), forfeited=run.forfeited)

    def _row(self, one: Trajectory, label: Label, **said: Any) -> Repair:
        return Repair(
            trajectory_id=one.trajectory_id,
            capability_id=label.capability_id,
            target=one.target,
            task_id=one.task_id,
            reward_before=one.reward,
            **said,
        )
