"""Judged trajectories made by a script on the embedded target: known deficits, no model, for rehearsals.

Analysts are tried on these before they are trusted with real ones: what is lacking in which trajectory is
known, because it was put there.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from trace_assets.blocking import finish
from trace_assets.records import Message, Trajectory
from trace_assets.targets.embedded.case import Skill
from trace_assets.targets.embedded.demonstrations import WRONG_SHARE, mistaken
from trace_assets.targets.embedded.episode import DeskEpisode
from trace_assets.targets.embedded.generator import Drawn, stream
from trace_assets.targets.embedded.rules import solve

SLIPS = 0.05
"""Share of conversations that end after their first call, whatever the skill."""


@dataclass(frozen=True)
class Rehearsal:
    """Scripted trajectories.

    Attributes:
        trajectories: Judged, of the target `embedded`.
        skills: What each one's task asks for, by trajectory.
    """

    trajectories: list[Trajectory]
    skills: dict[str, Skill]


def rehearse(tasks: int, trials: int = 2, seed: int = 0) -> Rehearsal:
    """Return what a scripted agent with the planted deficits does on the first discovery tasks.

    Args:
        tasks: How many tasks.
        trials: Trials a task.
        seed: Of the tasks and of which trials go wrong.
    """
    rng = random.Random(seed)
    made = Rehearsal([], {})
    for number, drawn in enumerate(islice(stream(seed, "discovery"), tasks)):
        for trial in range(trials):
            flawed = rng.random() < WRONG_SHARE.get(drawn.skill, 0.0)
            turns = mistaken(drawn) if flawed else solve(drawn.case())
            if rng.random() < SLIPS:
                turns = [turns[0], turns[-1]]
            messages, success = finish(_play(drawn, turns))
            made.trajectories.append(
                Trajectory(
                    trajectory_id=f"{number}-{trial}",
                    task_id=f"embedded/{number}",
                    target="embedded",
                    task_batch="rehearsal",
                    trial=trial,
                    policy="scripted",
                    success=success,
                    reward=float(bool(success)),
                    stop="completed",
                    n_messages=len(messages),
                    messages=tuple(messages),
                    source="rehearsal",
                )
            )
            made.skills[made.trajectories[-1].trajectory_id] = drawn.skill
    return made


async def _play(drawn: Drawn, turns: Sequence[Message]) -> tuple[list[Message], bool | None]:
    episode = DeskEpisode(drawn.case(), drawn.text, "policy")
    messages = list(await episode.reset())
    for turn in turns:
        messages.append(turn)
        step = await episode.step(turn)
        messages += step.messages
        if step.done or step.truncated:
            break
    return messages, (await episode.verdict()).success
