"""Does the diagnosis matter, or would any environment do? Training on tasks that nobody chose for it."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

from trace_assets.settings import Targets
from trace_assets.targets.embedded.generator import DeskName
from trace_assets.targets.embedded.target import EmbeddedTarget
from trace_assets.tournament.arms import one_adapter
from trace_assets.tournament.arms.protocol import Made, PlayedWorld

GENERIC: DeskName = "d"
"""Its skill, a rule of values, is asked for on no other desk."""
INSTEAD: DeskName = "a"
"""For a world that is that desk itself."""


class GenericDesk:
    """One adapter trained on a procedural order desk that is not the target, at the adapters' rollouts.

    It stands for generic environments (as AWM and ADP offer them): a verifiable tool-use task that was made
    without a look at what this agent lacks. Discovery, diagnosis and audits are not needed for it.
    """

    name = "generic_desk"
    about = "One LoRA trained by GRPO at our rollouts on an order desk that is not the target."
    needs = "a model that can play an order desk"

    def refusal(self, world: PlayedWorld) -> str:
        """Nothing was trained: then there is no budget to be equal to."""
        return one_adapter.refusal(world)

    def play(self, world: PlayedWorld, folder: Path) -> Made:
        """Train, and play the test tasks."""
        made = one_adapter.play(world, self.name, folder, lambda: nullcontext(other_desk(world)))
        return Made(made.rows, made.spent, f"trained on desk {other_desk(world).desk}")


def other_desk(world: PlayedWorld) -> EmbeddedTarget:
    """Return the order desk that is trained on: another one than the world's, with as many tasks.

    Args:
        world: Its target may be anything.
    """
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
