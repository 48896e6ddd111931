"""A generated environment as a target: its tasks are seeds, its episodes run in the sandbox."""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from pydantic import ValidationError

from trace_assets.errors import InputError
from trace_assets.records import Environment, Message, Split, Task, ToolSpec, Verdict
from trace_assets.sandbox import EnvironmentFault, SandboxPool, Session
from trace_assets.sandbox.controls import IDLE, TALKER, Control
from trace_assets.sandbox.reward_verification import Recomputation
from trace_assets.targets.protocol import Step
from trace_assets.targets.seeds import TRAINING_SEEDS, VALIDATION_SEEDS, SeedPermutation
from trace_assets.targets.timing import HeadStart, Meter

TURNS = 6
"""Turns of the event loop between a request and the wait for its answer: a fixed number, so that a batched
policy sees the same batches in every run; enough for it to write a token for others meanwhile."""


def wire(message: Message) -> dict[str, Any]:
    """Return a message as environments read and write it: the record's fields, empty ones left out.

    >>> wire(Message(role="assistant", content="Done."))
    {'role': 'assistant', 'content': 'Done.'}
    """
    plain: dict[str, Any] = {"role": message.role}
    if message.content is not None:
        plain["content"] = message.content
    if message.tool_calls:
        plain["tool_calls"] = [
            {"id": call.id, "name": call.name, "arguments": call.arguments} for call in message.tool_calls
        ]
    return plain


def _messages(values: Sequence[dict[str, Any]], where: str) -> tuple[Message, ...]:
    fields = Message.model_fields
    try:
        return tuple(
            Message.model_validate({name: v for name, v in value.items() if name in fields and v is not None})
            for value in values
        )
    except ValidationError as error:
        first = error.errors()[0]
        raise EnvironmentFault(
            f"a message of the environment's {where}() is not usable at "
            f"'{'.'.join(str(part) for part in first['loc'])}': {first['msg']}; write the environment again."
        ) from error


class SandboxedEpisode:
    """One seed of a generated environment. Every fault of the sandbox is raised, none becomes a reward.

    Args:
        head_start: Gives begun episodes.
        meter: Adds up the time of its calls.
        recomputation: Is shown each verdict.
        tools: The environment's.
        seed: The number that the environment is given.

    A step sends its request, lets the other episodes of the event loop send theirs, and then waits: the
    sandbox works on all of them at once, while the order in which episodes go on stays the same in every run.
    """

    def __init__(
        self,
        head_start: HeadStart,
        meter: Meter,
        recomputation: Recomputation,
        tools: Sequence[ToolSpec],
        seed: int,
    ) -> None:
        self._head_start, self._meter, self._tools, self._seed = head_start, meter, tools, seed
        self._recomputation = recomputation
        self._session: Session | None = None

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """The environment's tools."""
        return self._tools

    async def reset(self) -> Sequence[Message]:
        """Begin.

        Raises:
            SandboxError: The sandbox or the environment failed.
        """
        await self.close()
        with self._meter:
            self._session = self._head_start.take(self._seed)
        return _messages(self._session.messages, "reset")

    async def step(self, message: Message) -> Step:
        """Play one assistant message.

        Raises:
            SandboxError: The sandbox or the environment failed.
        """
        session = self._open()
        with self._meter:
            session.begin_step(wire(message))
        await _let_others()
        with self._meter:
            answer = session.finish_step()
        return Step(
            messages=_messages(answer["messages"], "step"),
            done=answer["done"],
            truncated=answer["truncated"],
        )

    async def verdict(self) -> Verdict:
        """Judge the episode.

        Raises:
            SandboxError: The sandbox or the environment failed, or the reward is not a number in [0, 1].
            RewardMismatch: An earlier episode's verdict was not confirmed in a fresh sandbox.
        """
        session = self._open()
        with self._meter:
            session.begin_verdict()
        await _let_others()
        with self._meter:
            value = session.finish_verdict()
            verdict = checked_verdict(value)
            self._recomputation.see(session, value)
        return verdict

    async def close(self) -> None:
        """End the episode's process in the sandbox."""
        if self._session is not None:
            with self._meter:
                self._session.close()
            self._session = None

    def _open(self) -> Session:
        if self._session is None:
            raise InputError("this episode was not reset; call reset() before step() and verdict().")
        return self._session


async def _let_others() -> None:
    """Let every other episode of the event loop go on to where it waits."""
    for _ in range(TURNS):
        await asyncio.sleep(0)


def checked_verdict(value: dict[str, Any]) -> Verdict:
    """Return a verdict that came out of a sandbox as a record.

    Raises:
        EnvironmentFault: The reward is not a finite number in [0, 1], or success and checks contradict.
    """
    try:
        verdict = Verdict.model_validate(value)
    except ValidationError as error:
        raise EnvironmentFault(
            f"the environment's verdict is malformed: {error.errors()[0]['msg']}"
        ) from error
    reward = verdict.reward
    if reward is None or not math.isfinite(reward) or not 0.0 <= reward <= 1.0:
        raise EnvironmentFault(
            f"the environment's reward is {reward!r}, not a number in [0, 1]; write it again."
        )
    failed = [check.name for check in verdict.checks if check.gates and not check.passed]
    if verdict.success and failed:
        raise EnvironmentFault(
            f"the environment claims success although its check '{failed[0]}' did not pass; write it again."
        )
    return verdict


class SandboxedTarget:
    """A generated environment behind the protocol of targets.

    Args:
        environment: The record that holds the source.
        pool: Where it runs; stays the caller's to close, after this target's own `close`.
        permutation: What the environment is given for the seeds of tasks; it was drawn for its text.
        training_seeds: The `discovery` split; a number takes that many of `TRAINING_SEEDS`.
        validation_seeds: The `validation` split, likewise; must be disjoint. There is no `test` split:
            generated environments are judged by the target.
        controls: Episodes that must not be paid, made of those whose rewards are recomputed.

    Raises:
        InputError: The two share a seed.
    """

    def __init__(
        self,
        environment: Environment,
        pool: SandboxPool,
        permutation: SeedPermutation,
        *,
        training_seeds: Sequence[int] | int = TRAINING_SEEDS,
        validation_seeds: Sequence[int] | int = VALIDATION_SEEDS,
        controls: Sequence[Control] = (IDLE, TALKER),
    ) -> None:
        if isinstance(training_seeds, int):
            training_seeds = range(TRAINING_SEEDS.start, TRAINING_SEEDS.start + training_seeds)
        if isinstance(validation_seeds, int):
            validation_seeds = range(VALIDATION_SEEDS.start, VALIDATION_SEEDS.start + validation_seeds)
        shared = set(training_seeds) & set(validation_seeds)
        if shared:
            raise InputError(
                f"seed {min(shared)} is both a training and a validation seed; the two must be disjoint."
            )
        self.environment = environment
        self.permutation = permutation
        self.meter = Meter()
        self._pool = pool
        self._sandboxed = pool.environment(environment.source)
        self._head_start = HeadStart(self._sandboxed)
        self.recomputation = Recomputation(
            pool,
            environment.source,
            name=f"the environment of '{environment.capability_id}'",
            share=pool.config.recompute_share,
            controls=controls,
        )
        self._seeds: dict[Split, Sequence[int]] = {
            "discovery": training_seeds,
            "validation": validation_seeds,
            "test": (),
        }
        self._tasks: dict[Split, tuple[Task, ...]] = {}

    @property
    def name(self) -> str:
        """`env:<capability>`."""
        return f"env:{self.environment.capability_id}"

    @cached_property
    def version(self) -> str:
        """Hash of the source, the sandbox, the seeds and what the environment is given for them."""
        parts = [self.environment.environment_id, self._pool.version, self.permutation.fingerprint]
        parts += [",".join(map(str, self._seeds[split])) for split in ("discovery", "validation")]
        return hashlib.sha256("/".join(parts).encode()).hexdigest()[:16]

    @property
    def isolation_level(self) -> str:
        """What holds its code: `docker`, `bubblewrap` or `none`."""
        return self._pool.isolation_level

    @property
    def sandbox_version(self) -> str:
        """The version of the sandbox that it runs in."""
        return self._pool.version

    @cached_property
    def policy(self) -> str:
        """The rules in words, as the first seed's system message gives them."""
        seeds = self._seeds["discovery"] or self._seeds["validation"]
        with self._sandboxed.reset(self.permutation(seeds[0])) as session:
            first = session.messages[0]
        return str(first.get("content") or "") if first["role"] == "system" else ""

    @cached_property
    def tools(self) -> Sequence[ToolSpec]:
        """The environment's tools."""
        return tuple(
            ToolSpec(
                name=tool["function"]["name"],
                description=tool["function"].get("description", ""),
                parameters=tool["function"]["parameters"],
            )
            for tool in self._sandboxed.tools()
        )

    def tasks(self, split: Split) -> Sequence[Task]:
        """Return one task a seed."""
        if split not in self._tasks:
            self._tasks[split] = tuple(self.task(seed, split) for seed in self._seeds[split])
        return self._tasks[split]

    def task(self, seed: int, split: Split = "discovery") -> Task:
        """Return the task of any seed."""
        return Task(
            task_id=f"{self.name}/{seed}",
            target=self.name,
            split=split,
            task_batch=f"{self.name}-{split}",
            payload={"seed": int(seed)},
        )

    def episode(self, task: Task, *, seed: int) -> SandboxedEpisode:
        """Make an episode of a task's seed; `seed` changes nothing, all is in the task.

        Raises:
            InputError: The task has no seed in its payload.
        """
        return SandboxedEpisode(
            self._head_start, self.meter, self.recomputation, self.tools, self._inside(task)
        )

    def _inside(self, task: Task) -> int:
        """Return the number that the environment is given for a task's seed."""
        number = task.payload.get("seed")
        if task.target != self.name or isinstance(number, bool) or not isinstance(number, int):
            raise InputError(
                f"task '{task.task_id}' is not one of '{self.name}': its payload must hold an integer 'seed'."
            )
        try:
            return self.permutation(number)
        except ValueError as error:
            raise InputError(f"task '{task.task_id}' cannot be played: {error}.") from None

    def prepare(self, tasks: Sequence[Task]) -> None:
        """Begin an episode of each of these tasks in the background; what was begun before is ended."""
        self._head_start.begin([self._inside(task) for task in tasks])

    def close(self) -> None:
        """End what was begun in the background; the pool stays open."""
        self._head_start.close()
        self.recomputation.close()

    def oracle(self, task: Task) -> list[Message]:
        """Return the environment's own solution. For tests and audits, never shown to an agent."""
        return list(_messages(self._sandboxed.oracle(self._inside(task)), "oracle"))
