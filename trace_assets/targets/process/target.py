"""A target in an interpreter of its own, behind the protocol of all targets."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

from trace_assets.errors import InputError, TraceError
from trace_assets.records import Message, Split, Task, ToolSpec, Verdict
from trace_assets.system.processes import whole_cores
from trace_assets.targets.process import serve
from trace_assets.targets.process.answers import (
    Description,
    ResetAnswer,
    StepAnswer,
    TargetFault,
    TaskAnswer,
    tool_specs,
    understood,
)
from trace_assets.targets.process.worker import TargetProcessPool, TargetWorker
from trace_assets.targets.protocol import Step
from trace_assets.targets.sandboxed import wire

START_SECONDS = 120.0
"""For the first answer: a benchmark's imports take seconds, on a busy machine many."""


@dataclass(frozen=True)
class ProcessConfig:
    """Where a target's module is and how it is run.

    Attributes:
        module: Its file.
        python: Interpreter that has its packages.
        options: Handed to `describe`; part of the target's version as the module sees fit.
        variables: Environment variables of the process.
        call_seconds: Deadline of one reset, step or verdict.
        processes: Workers at once; 0 takes one a core.
        limits: Most tasks of a split; a split that is not named is taken whole.
    """

    module: Path
    python: Path
    options: Mapping[str, Any] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    call_seconds: float = 60.0
    processes: int = 0
    limits: Mapping[Split, int] = field(default_factory=dict)


def module_file(named: Path) -> Path:
    """Return the file of a target's module: the one that is named, or the one in the folder that is."""
    return named / "target.py" if named.is_dir() else named


def of_module(file: Path) -> ProcessConfig:
    """Return how a target of one's own is run: by this interpreter, at the defaults.

    Raises:
        InputError: There is no such file.
    """
    if not file.is_file():
        raise InputError(f"there is no module {file}; `trace targets new NAME` writes one to begin from.")
    return ProcessConfig(module=file.absolute(), python=Path(sys.executable))


def check_module(file: Path) -> None:
    """Refuse a module that there is none of.

    Raises:
        InputError: There is no such file.
    """
    if not file.is_file():
        raise InputError(
            f"the target module {file} is not there; name a Python file in targets.path, or "
            "make one with `trace targets new NAME`."
        )


class ProcessTarget:
    """Tasks and episodes of a module that `serve` runs.

    Processes start when they are first needed and end with `close`, with this process, or when a call of
    theirs passes its deadline.

    Args:
        config: Where and how.

    Raises:
        InputError: There is no such module file.
    """

    def __init__(self, config: ProcessConfig) -> None:
        check_module(config.module)
        self.config = config
        self._described: Description | None = None
        self._pool = TargetProcessPool(self._start, config.processes or whole_cores())
        self._control: TargetWorker | None = None
        self._tasks: dict[Split, tuple[Task, ...]] | None = None

    def _start(self) -> TargetWorker:
        """Start a worker and greet it; one that is not what the first was is refused."""
        worker = TargetWorker(
            self.config.python,
            self.config.module,
            variables=self.config.variables,
            name=self._described.name if self._described else self.config.module.stem,
        )
        try:
            answer = worker.call("describe", START_SECONDS, options=dict(self.config.options))
            described = understood(Description, answer, f"the answer of {self.config.module} to describe()")
            if described.protocol != serve.PROTOCOL:
                raise TargetFault(
                    f"target '{described.name}' speaks version {described.protocol} of the protocol, this "
                    f"program version {serve.PROTOCOL}; install the target again."
                )
            if self._described is None:
                self._described = described
            elif described.version != self._described.version:
                raise TargetFault(
                    f"target '{described.name}' changed from version {self._described.version} to "
                    f"{described.version} while it was in use; run the same command again."
                )
        except BaseException:
            worker.kill()
            raise
        return worker

    @property
    def description(self) -> Description:
        """What the module says of itself.

        Raises:
            TraceError: It cannot be started, or says nothing usable.
        """
        if self._described is None:
            self._control = self._start()
        assert self._described is not None
        return self._described

    def ask(self, op: str, seconds: float | None = None, **fields: Any) -> Any:
        """Carry out an operation outside of episodes.

        Raises:
            TraceError: As `TargetWorker.call`.
        """
        if self._control is None or not self._control.alive:
            self._control = self._start()
        return self._control.call(op, seconds or START_SECONDS, **fields)

    @property
    def name(self) -> str:
        """As the module names itself."""
        return self.description.name

    @cached_property
    def version(self) -> str:
        """Hash of the module's own version and of how many tasks are taken."""
        limits = json.dumps(dict(sorted(self.config.limits.items())))
        return hashlib.sha256(f"{self.description.version}/{limits}".encode()).hexdigest()[:16]

    @property
    def provenance(self) -> Mapping[str, str]:
        """Where the module says that it comes from."""
        return self.description.provenance

    @property
    def policy(self) -> str:
        """The rules in words."""
        return self.description.policy

    @cached_property
    def tools(self) -> Sequence[ToolSpec]:
        """Every tool the agent can be offered."""
        return self.description.tool_specs()

    def tasks(self, split: Split) -> Sequence[Task]:
        """Return the tasks of one split.

        Raises:
            TargetFault: The module's tasks are malformed, or an id occurs twice.
        """
        if self._tasks is None:
            self._tasks = self._read_tasks()
        return self._tasks[split]

    def _read_tasks(self) -> dict[Split, tuple[Task, ...]]:
        name, found = self.name, self.ask("tasks")
        if not isinstance(found, dict) or set(found) - set(get_args(Split)):
            raise TargetFault(
                f"tasks() of target '{name}' must return an object of the splits "
                f"{', '.join(get_args(Split))}."
            )
        seen: dict[str, str] = {}
        splits: dict[Split, tuple[Task, ...]] = {}
        for split in get_args(Split):
            rows = []
            for value in found.get(split, ()):
                row = understood(TaskAnswer, value, f"a {split} task of target '{name}'")
                if row.id in seen:
                    raise TargetFault(
                        f"task '{row.id}' of target '{name}' stands twice ({seen[row.id]} and {split}); a "
                        "task belongs to one split, or what is trained on is tested on."
                    )
                seen[row.id] = split
                rows.append(
                    Task(
                        task_id=f"{name}/{row.id}",
                        target=name,
                        split=split,
                        task_batch=f"{name}-{split}",
                        instruction=row.instruction,
                        tags=row.tags,
                        payload={"id": row.id, **row.payload},
                    )
                )
            splits[split] = tuple(rows[: self.config.limits.get(split)])
        return splits

    def episode(self, task: Task, *, seed: int) -> ProcessEpisode:
        """Make an episode; its process is lent at `reset` and given back at `close`."""
        if task.target != self.name:
            raise InputError(f"task '{task.task_id}' is one of '{task.target}', not of '{self.name}'.")
        return ProcessEpisode(
            self._pool,
            task,
            seed,
            self.tools,
            self.config.call_seconds,
            self.name,
            fresh=self.description.fresh_process,
        )

    @property
    def not_replayable(self) -> str:
        """Empty where the module says that equal calls give equal episodes."""
        if self.description.replayable:
            return ""
        return f"target '{self.name}' does not say that equal calls give equal episodes at no price"

    def oracle(self, task: Task) -> list[Message]:
        """Return the module's own solution. For tests and audits, never shown to an agent.

        Raises:
            InputError: The module has none.
        """
        if not self.description.has_oracle:
            raise InputError(f"target '{self.name}' has no oracle(); define one to check the target with it.")
        found = self.ask("oracle", task=task.payload)
        if not isinstance(found, list):
            raise TargetFault(f"oracle() of target '{self.name}' must return a list of assistant messages.")
        return [understood(Message, value, f"a message of oracle() of '{self.name}'") for value in found]

    def close(self) -> None:
        """End all processes."""
        self._pool.close()
        if self._control is not None:
            self._control.kill()
            self._control = None


class ProcessEpisode:
    """One trial in a lent process.

    A process that hung, died or answered nonsense is never lent again, nor is one of a target that wants a
    fresh process for every episode.
    """

    def __init__(
        self,
        pool: TargetProcessPool,
        task: Task,
        seed: int,
        tools: Sequence[ToolSpec],
        seconds: float,
        name: str,
        *,
        fresh: bool = False,
    ) -> None:
        self._pool, self._task, self._seed, self._seconds = pool, task, seed, seconds
        self._tools, self._name, self._fresh = tools, name, fresh
        self._worker: TargetWorker | None = None
        self._clean = True

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """The tools of the task, once it was reset; all of the target's before."""
        return self._tools

    async def reset(self) -> Sequence[Message]:
        """Begin.

        Raises:
            TraceError: The target, its user or its process failed.
        """
        await self.close()
        self._worker, self._clean = await self._pool.lend(), True
        value = await self._call("reset", task=self._task.payload, seed=self._seed)
        answer = understood(ResetAnswer, value, f"the answer of '{self._name}' to reset()")
        if answer.tools is not None:
            self._tools = tool_specs(answer.tools, self._name)
        return answer.messages

    async def step(self, message: Message) -> Step:
        """Play one assistant message.

        Raises:
            TraceError: As `reset`.
        """
        value = await self._call("step", message=wire(message))
        answer = understood(StepAnswer, value, f"the answer of '{self._name}' to step()")
        return Step(messages=answer.messages, done=answer.done, truncated=answer.truncated)

    async def verdict(self) -> Verdict:
        """Judge the episode as it stands.

        Raises:
            TraceError: As `reset`.
        """
        value = await self._call("verdict")
        return understood(Verdict, value, f"the answer of '{self._name}' to verdict()")

    async def close(self) -> None:
        """Give the process back."""
        if self._worker is not None:
            self._pool.give_back(self._worker, clean=self._clean and not self._fresh)
            self._worker = None

    async def _call(self, op: str, **fields: Any) -> Any:
        if self._worker is None:
            raise InputError("this episode was not reset; call reset() before step() and verdict().")
        worker = self._worker
        self._clean = False
        try:
            value = await self._pool.run(lambda: worker.call(op, self._seconds, **fields))
        except TraceError:
            self._clean = worker.alive  # a worker that hung, died or talked nonsense was killed
            raise
        self._clean = True
        return value
