"""Does the reward matter? The same environments and rollouts, with a reward that a coin decides."""

from __future__ import annotations

import random
from pathlib import Path

from trace_assets.records import Verdict
from trace_assets.targets.protocol import Target
from trace_assets.tournament.arms import one_adapter
from trace_assets.tournament.arms.environments import environments
from trace_assets.tournament.arms.protocol import Made, PlayedWorld
from trace_assets.tournament.arms.repaid import Repaid


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
        return one_adapter.play(world, self.name, folder, lambda: environments(world, self.name, coin_paid))


def coin_paid(target: Target) -> Repaid:
    """Pay each episode by a fair coin, whatever the agent does; the same one for the same task and seed.

    Args:
        target: The target; it stays the caller's to close.
    """
    return Repaid(target, "paid by a coin", _by_a_coin)


def _by_a_coin(true: Verdict, episode: str) -> Verdict:
    paid = random.Random(episode).random() < 0.5
    return Verdict(reward=float(paid), success=paid)
