"""Plays calls that were made before once more, in a fresh episode: no model is asked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from trace_assets.errors import CheckFailed, Unavailable
from trace_assets.records import Message, Task
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
