"""Does the reward matter? The same environments and rollouts, with a reward that a coin decides."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from trace_assets.records import Message, Split, Task, ToolSpec, Verdict
from trace_assets.store.content import text_version
from trace_assets.targets.mixture import Mixture
from trace_assets.targets.protocol import Episode, Step, Target
from trace_assets.targets.timing import Prepares
from trace_assets.tournament.arms import one_adapter
from trace_assets.tournament.arms.protocol import Made, PlayedWorld


class PlaceboEnvironment:
    """One adapter trained as `joint` is, in the world's environments, whose rewards say nothing.

    Whatever the agent does, an episode is paid by a fair coin, in training and where checkpoints are
    compared. What such an adapter gains comes of being trained there at all (form, entropy), not of reward.
    """

    name = "placebo_environment"
    about = "One LoRA trained in the environments at our rollouts, with a reward that a coin decides."
    needs = "environments"

    def refusal(self, world: PlayedWorld) -> str:
        """Nothing was trained: then there are neither environments nor a budget to be equal to."""
        return one_adapter.refusal(world)

    def play(self, world: PlayedWorld, folder: Path) -> Made:
        """Train, and play the test tasks."""
        return one_adapter.play(world, self.name, folder, lambda: _paid_by_a_coin(world))


@contextmanager
def _paid_by_a_coin(world: PlayedWorld) -> Iterator[Target]:
    """Open the world's environments as one target."""
    from trace_assets.assets.curriculum import taught
    from trace_assets.resources.sandbox import read_environment, training_target

    study = world.study
    with ExitStack() as stack:
        parts = [
            CoinPaid(stack.enter_context(training_target(study, read_environment(study, name))))
            for name in sorted(taught(study))
        ]
        yield Mixture(PlaceboEnvironment.name, parts)


class CoinPaid:
    """A target whose verdicts are drawn by lot; what an agent sees of it stays as it is.

    Args:
        target: The target; it stays the caller's to close.
    """

    def __init__(self, target: Target) -> None:
        self._target = target

    @property
    def name(self) -> str:
        """The target's."""
        return self._target.name

    @property
    def version(self) -> str:
        """Another than the target's own, for its verdicts are."""
        return text_version("paid by a coin", self._target.version)

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
        """Make an episode of the target that a coin pays, the same one for the same task and seed."""
        return _CoinPaidEpisode(self._target.episode(task, seed=seed), f"{task.task_id}/{seed}")

    def prepare(self, tasks: Sequence[Task]) -> None:
        """Have the target begin episodes in the background, where it can."""
        if isinstance(self._target, Prepares):
            self._target.prepare(tasks)


class _CoinPaidEpisode:
    def __init__(self, episode: Episode, lot: str) -> None:
        self._episode, self._lot = episode, lot

    @property
    def tools(self) -> Sequence[ToolSpec]:
        return self._episode.tools

    async def reset(self) -> Sequence[Message]:
        return await self._episode.reset()

    async def step(self, message: Message) -> Step:
        return await self._episode.step(message)

    async def verdict(self) -> Verdict:
        """Draw; an episode of which nothing may be said stays one."""
        true = await self._episode.verdict()
        if true.reward is None:
            return true
        paid = random.Random(self._lot).random() < 0.5
        return Verdict(reward=float(paid), success=paid)

    async def close(self) -> None:
        await self._episode.close()
