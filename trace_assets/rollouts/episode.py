"""One trial from its first message to its verdict."""

from __future__ import annotations

import hashlib
import json
import math
import time
from contextlib import suppress
from dataclasses import dataclass

from trace_assets.errors import CheckFailed, InputError, Unavailable, UserFault
from trace_assets.policies.protocol import Conversation, Policy, Reply, TokenTrace
from trace_assets.records import Check, Fault, Message, Stop, Task, Trajectory, Verdict
from trace_assets.targets.protocol import Episode, Step, Target, provenance_of


@dataclass(frozen=True)
class Trial:
    """One attempt at a task.

    Attributes:
        task: What is attempted.
        trial: Which attempt it is, from 0.
        seed: Goes to the target's episode as it is; the policy samples by task, trial and seed together,
            whatever the adapter, so that arms of a comparison share their luck.
        adapter: Name of the adapter to act with, None for the base model.
    """

    task: Task
    trial: int = 0
    seed: int = 0
    adapter: str | None = None


@dataclass(frozen=True)
class Rollout:
    """What came of a trial.

    Attributes:
        trajectory: The record.
        tokens: The conversation token by token, for policies that know it and trials played in this run.
    """

    trajectory: Trajectory
    tokens: TokenTrace | None = None


def run_identity(target: Target, policy: Policy, max_turns: int) -> tuple[object, ...]:
    """Return what all trials of a run share of their identities."""
    return (target.name, target.version, policy.name, policy.version, max_turns)


def trajectory_id(run: tuple[object, ...], trial: Trial) -> str:
    """Return the trial's identity: equal exactly when nothing that decides its outcome differs.

    Args:
        run: The `run_identity`.
        trial: The trial.
    """
    return _digest((*run, trial.task.task_id, trial.trial, trial.seed, trial.adapter)).hex()[:24]


def sampling_seed(trial: Trial) -> int:
    """Return the seed of a trial's conversation, below 2**63."""
    return int.from_bytes(_digest((trial.task.task_id, trial.trial, trial.seed))[:8], "big") >> 1


def _digest(parts: tuple[object, ...]) -> bytes:
    return hashlib.sha256(json.dumps(parts).encode()).digest()


async def play(target: Target, trial: Trial, policy: Policy, *, max_turns: int, identity: str) -> Rollout:
    """Play one trial and judge it.

    A reply that cannot be used (malformed, or cut off by a limit) ends the episode and forfeits it: the
    checks are those of the state as it stands, success is False and the reward at most 0. Whatever breaks
    that is not the agent's doing is recorded as a fault, without success and reward.

    Raises:
        InputError: The policy was asked for something it cannot do for any trial, such as an unknown adapter.
        CheckFailed: The target found that none of its verdicts may be relied on.
    """
    started = time.monotonic()
    conversation = Conversation(
        conversation_id=identity, tools=(), seed=sampling_seed(trial), adapter=trial.adapter
    )
    played = _Played(conversation)
    episode: Episode | None = None
    fault: Fault | None = None
    error: str | None = None
    verdict = Verdict(reward=None, success=None)
    try:
        episode = target.episode(trial.task, seed=trial.seed)
        conversation.tools = episode.tools
        await played.run(episode, policy, max_turns)
        verdict = await episode.verdict()
        if verdict.reward is not None and not math.isfinite(verdict.reward):
            raise ValueError(f"the verdict's reward is {verdict.reward}")
    except _PolicyFault as broken:
        if isinstance(broken.cause, InputError):
            raise broken.cause from None
        fault, error = "infrastructure", _sentence(broken.cause)
    except CheckFailed:
        raise  # a guard of the whole run: no trial of it counts
    except Unavailable as broken:
        fault, error = "infrastructure", _sentence(broken)
    except UserFault as broken:
        fault, error = "user_simulator", _sentence(broken)
    except Exception as broken:
        fault, error = "environment", _sentence(broken)
    finally:
        # What is already known of the trial must not be lost to a failing clean-up.
        with suppress(Exception):
            await policy.forget(conversation)
        if episode is not None:
            with suppress(Exception):
                await episode.close()
    if fault is not None:
        verdict = Verdict(reward=None, success=None)
        played.stop = _STOPS[fault]
    elif played.forfeit is not None:
        verdict = _forfeited(verdict, played.forfeit)
    trajectory = Trajectory(
        trajectory_id=identity,
        task_id=trial.task.task_id,
        target=target.name,
        split=trial.task.split,
        task_batch=trial.task.task_batch,
        trial=trial.trial,
        seed=trial.seed,
        policy=policy.name,
        adapter=trial.adapter,
        success=verdict.success,
        reward=verdict.reward,
        stop=played.stop,
        fault=fault,
        error=error,
        n_messages=len(conversation.messages),
        prompt_tokens=played.prompt_tokens,
        completion_tokens=played.completion_tokens,
        cost_usd=played.cost_usd,
        seconds=time.monotonic() - started,
        metadata=dict(provenance_of(target)),
        messages=tuple(conversation.messages),
        checks=verdict.checks,
    )
    return Rollout(trajectory, conversation.tokens)


_STOPS: dict[Fault, Stop] = {
    "environment": "environment_error",
    "user_simulator": "user_error",
    "infrastructure": "infrastructure_error",
}


class _PolicyFault(Exception):
    """The policy gave no answer."""

    def __init__(self, cause: Exception) -> None:
        self.cause = cause


@dataclass
class _Played:
    """The state of a running episode."""

    conversation: Conversation
    stop: Stop = "max_turns"
    forfeit: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost_usd: float | None = None

    async def run(self, episode: Episode, policy: Policy, max_turns: int) -> None:
        messages = self.conversation.messages
        messages.extend(await episode.reset())
        for _ in range(max_turns):
            try:
                reply = await policy.act(self.conversation)
            except Exception as error:
                raise _PolicyFault(error) from error
            messages.append(reply.message)
            self._count(reply)
            if reply.overflow:
                self.stop, self.forfeit = "context_overflow", "the reply was cut off by a length limit"
                return
            if reply.malformed:
                self.stop, self.forfeit = "agent_error", "the reply could not be read"
                return
            step = await episode.step(reply.message)
            messages.extend(step.messages)
            if step.done or step.truncated:
                self.stop = _stop(reply.message, step)
                return

    def _count(self, reply: Reply) -> None:
        if reply.prompt_tokens is not None:
            self.prompt_tokens = (self.prompt_tokens or 0) + reply.prompt_tokens
        if reply.completion_tokens is not None:
            self.completion_tokens = (self.completion_tokens or 0) + reply.completion_tokens
        if reply.cost_usd is not None:
            self.cost_usd = (self.cost_usd or 0.0) + reply.cost_usd


def _stop(message: Message, step: Step) -> Stop:
    """Name the end of an episode: a hand-over is told by the tool that the last message called."""
    if not step.done:
        return "max_turns"
    return (
        "transferred" if any(call.name.startswith("transfer") for call in message.tool_calls) else "completed"
    )


def _forfeited(verdict: Verdict, why: str) -> Verdict:
    check = Check(name="usable_reply", kind="protocol", passed=False, score=0.0, detail=why)
    reward = None if verdict.reward is None else min(verdict.reward, 0.0)
    return Verdict(reward=reward, success=False, checks=(*verdict.checks, check))


def _sentence(error: BaseException) -> str:
    text = " ".join(str(error).split())[:500]
    return text if isinstance(error, Unavailable) and text else f"{type(error).__name__}: {text}"
