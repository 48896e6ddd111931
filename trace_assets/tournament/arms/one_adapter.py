"""Arms that train one LoRA by GRPO at our rollouts, each on a target of its own.

Does GRPO on the target need graded rewards, does the reward of our environments matter, and would any
environment do? Beside the adapters of the diagnosis, these say what training alone is worth.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import ClassVar

from trace_assets.errors import require_extra
from trace_assets.records import Message, Task, ToolSpec, Verdict
from trace_assets.resources.policy import base_checkpoint, base_folder
from trace_assets.settings import Targets, Training
from trace_assets.store.content import text_version
from trace_assets.targets.embedded.generator import DeskName
from trace_assets.targets.embedded.target import EmbeddedTarget
from trace_assets.targets.protocol import Episode, Step, Target
from trace_assets.targets.timing import Mixture, Prepares
from trace_assets.tournament.arms.protocol import VERDICTS, Made, PlayedWorld, metered
from trace_assets.training.plan import Job

GENERIC: DeskName = "d"
"""Its skill, a rule of values, is asked for on no other desk."""
INSTEAD: DeskName = "a"
"""For a world that is that desk itself."""

Pay = Callable[[Verdict, str], Verdict]
"""Takes a judged episode's verdict and a name that is the episode's own, and says what it is paid."""


class OneAdapter(ABC):
    """What these arms share; each says what is trained on, whose validation tasks choose the checkpoint."""

    name: str
    at_target: ClassVar[bool] = False
    """Whether the target judges what is trained on."""

    @abstractmethod
    def trained_on(self, world: PlayedWorld) -> AbstractContextManager[Target]:
        """Open what is trained on."""

    def refusal(self, world: PlayedWorld) -> str:
        """Nothing was trained: then there are neither environments nor a budget to be equal to."""
        return world.unfunded or self.undivided(world.study.settings.training)

    def undivided(self, section: Training) -> str:
        """Say why it cannot be trained as these settings have it: it takes one process."""
        if section.processes > 1:
            return "training takes several processes (training.processes), and this arm takes one"
        return ""

    def play(self, world: PlayedWorld, folder: Path) -> Made:
        """Train the adapter, once, and play the test tasks; an interrupted training goes on."""
        require_extra("torch", "train", f"the arm {self.name}")
        from trace_assets.training.checkpoints import adapter_id

        path = folder / "adapter"
        meter = metered(folder, lambda: self.train(world, path))
        rows = world.on_test(self.name, folder, adapter_id(path), adapter=path)
        return Made(rows, meter.spent(len(rows)))

    def train(self, world: PlayedWorld, folder: Path) -> dict[str, float]:
        """Train the adapter into its folder by GRPO, and return the rollouts that it took."""
        from trace_assets.training.grpo import train_adapter

        study = world.study
        with self.trained_on(world) as target:
            job = Job(
                base_dir=base_folder(study),
                base_id=base_checkpoint(study).base_id,
                section=study.settings.training.unaided(),
                folder=folder,
                rollout_budget=world.budget,
            )
            adapter, curve = train_adapter(self.name, "joint", target, job)
        looked = sum(point.validation_n or 0 for point in curve)
        return self.booked(adapter.rollouts, 2 * adapter.validation_n + looked)

    def booked(self, training: int, looks: int) -> dict[str, float]:
        """Return rollouts by kind, and how many of them the target judged."""
        verdicts = training + looks if self.at_target else 0
        return {"training": float(training), "checkpoint looks": float(looks), VERDICTS: float(verdicts)}


class DirectBinary(OneAdapter):
    """GRPO on the target's own tasks as `mixed_grpo`, whose reward is 1 for a success and 0 for a failure."""

    name = "direct_binary"
    about = (
        "One LoRA trained by GRPO on the target at our rollouts, paid 1 for a success and 0 for a failure."
    )
    needs = "verdicts of the target"
    at_target = True

    def trained_on(self, world: PlayedWorld) -> AbstractContextManager[Target]:
        """Return the target, paid by success."""
        return nullcontext(Repaid(world.study.target, "paid by success", by_success))


class PlaceboEnvironment(OneAdapter):
    """One adapter trained as `joint` is, in the world's environments, whose rewards say nothing.

    Whatever the agent does, an episode is paid by a fair coin, in training and where checkpoints are
    compared. What such an adapter gains comes of being trained there at all (form, entropy), not of reward.
    """

    name = "placebo_environment"
    about = "One LoRA trained in the environments at our rollouts, with a reward that a coin decides."
    needs = "environments"

    def trained_on(self, world: PlayedWorld) -> AbstractContextManager[Target]:
        """Open the environments, paid by a coin."""
        return environments(world, self.name, coin_paid)


class GenericDesk(OneAdapter):
    """One adapter trained on a procedural order desk that is not the target, at the adapters' rollouts.

    It stands for generic environments (as AWM and ADP offer them): a verifiable tool-use task that was made
    without a look at what this agent lacks. Discovery, diagnosis and audits are not needed for it.
    """

    name = "generic_desk"
    about = "One LoRA trained by GRPO at our rollouts on an order desk that is not the target."
    needs = "a model that can play an order desk"

    def trained_on(self, world: PlayedWorld) -> AbstractContextManager[Target]:
        """Return the other desk."""
        return nullcontext(other_desk(world))

    def play(self, world: PlayedWorld, folder: Path) -> Made:
        """Train, and play the test tasks."""
        made = super().play(world, folder)
        return Made(made.rows, made.spent, f"trained on desk {other_desk(world).desk}")


def other_desk(world: PlayedWorld) -> EmbeddedTarget:
    """Return the order desk that is trained on: another one than the world's, with as many tasks."""
    section, target = world.study.settings.targets, world.study.target
    is_own = isinstance(target, EmbeddedTarget) and target.desk == GENERIC
    return EmbeddedTarget(
        Targets(
            options={"desk": INSTEAD if is_own else GENERIC},
            seed=section.seed,
            discovery_tasks=section.discovery_tasks,
            validation_tasks=section.validation_tasks,
        )
    )


def by_success(true: Verdict, episode: str) -> Verdict:
    """Pay success alone.

    >>> by_success(Verdict(reward=0.5, success=False), "t/0").reward
    0.0
    """
    return true.model_copy(update={"reward": float(bool(true.success))})


def coin_paid(target: Target) -> Repaid:
    """Pay each episode by a fair coin, whatever the agent does; the same one for the same task and seed.

    Args:
        target: The target; it stays the caller's to close.
    """
    return Repaid(target, "paid by a coin", _by_a_coin)


def _by_a_coin(true: Verdict, episode: str) -> Verdict:
    paid = random.Random(episode).random() < 0.5
    return Verdict(reward=float(paid), success=paid)


@contextmanager
def environments(
    world: PlayedWorld, name: str, each: Callable[[Target], Target] = lambda one: one
) -> Iterator[Target]:
    """Open them in their sandboxes.

    Args:
        world: At least one adapter was trained in it.
        name: Of the whole.
        each: What becomes of each of them first.
    """
    from trace_assets.assets.environment_audit import taught
    from trace_assets.resources.sandbox import read_environment, training_target

    study = world.study
    with ExitStack() as stack:
        opened = [
            stack.enter_context(training_target(study, read_environment(study, capability)))
            for capability in sorted(taught(study))
        ]
        yield Mixture(name, [each(one) for one in opened])


class Repaid(Mixture):
    """A target with other verdicts. An episode of which nothing may be said stays one.

    Args:
        target: The target; it stays the caller's to close.
        how: In words, for the version.
        pay: Gives what an episode is paid.
    """

    def __init__(self, target: Target, how: str, pay: Pay) -> None:
        super().__init__(target.name, [target])
        self._target, self._how, self._pay = target, how, pay

    @property
    def version(self) -> str:
        """Another than the target's own, for its verdicts are."""
        return text_version(self._how, self._target.version)

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
