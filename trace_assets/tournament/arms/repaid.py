"""A target whose episodes are paid in another way; what an agent sees of it stays as it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trace_assets.records import Message, Split, Task, ToolSpec, Verdict
from trace_assets.store.content import text_version
from trace_assets.targets.protocol import Episode, Step, Target
from trace_assets.targets.timing import Prepares

Pay = Callable[[Verdict, str], Verdict]
"""Takes a judged episode's verdict and a name that is the episode's own, and says what it is paid."""


class Repaid:
    """A target with other verdicts. An episode of which nothing may be said stays one.

    Args:
        target: The target; it stays the caller's to close.
        how: In words, for the version.
        pay: Gives what an episode is paid.
    """

    def __init__(self, target: Target, how: str, pay: Pay) -> None:
        self._target, self._how, self._pay = target, how, pay

    @property
    def name(self) -> str:
        """The target's."""
        return self._target.name

    @property
    def version(self) -> str:
        """Another than the target's own, for its verdicts are."""
        return text_version(self._how, self._target.version)

    @property
    def policy(self) -> str:
        """The target's."""
        return self._target.policy

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """The target's."""
        return self._target.tools

    @property
    def isolation_level(self) -> str:
        """What holds the target's code, where it says so."""
        return str(getattr(self._target, "isolation_level", ""))

    @property
    def sandbox_version(self) -> str:
        """The version of its sandbox, likewise."""
        return str(getattr(self._target, "sandbox_version", ""))

    def tasks(self, split: Split) -> Sequence[Task]:
        """The target's."""
        return self._target.tasks(split)

    def episode(self, task: Task, *, seed: int) -> Episode:
        """Make an episode of the target that is paid in the other way."""
        return _RepaidEpisode(self._target.episode(task, seed=seed), f"{task.task_id}/{seed}", self._pay)

    def prepare(self, tasks: Sequence[Task]) -> None:
        """Have the target begin episodes in the background, where it can."""
        if isinstance(self._target, Prepares):
            self._target.prepare(tasks)


class _RepaidEpisode:
    def __init__(self, episode: Episode, name: str, pay: Pay) -> None:
        self._episode, self._name, self._pay = episode, name, pay

    @property
    def tools(self) -> Sequence[ToolSpec]:
        return self._episode.tools

    async def reset(self) -> Sequence[Message]:
        return await self._episode.reset()

    async def step(self, message: Message) -> Step:
        return await self._episode.step(message)

    async def verdict(self) -> Verdict:
        true = await self._episode.verdict()
        return true if true.reward is None else self._pay(true, self._name)

    async def close(self) -> None:
        await self._episode.close()
