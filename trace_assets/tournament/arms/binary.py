"""Does GRPO on the target need graded rewards? The same with nothing but success or failure."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

from trace_assets.records import Verdict
from trace_assets.tournament.arms import one_adapter
from trace_assets.tournament.arms.protocol import Made, PlayedWorld
from trace_assets.tournament.arms.repaid import Repaid


class DirectBinary:
    """GRPO on the target's own tasks as `mixed_grpo`, whose reward is 1 for a success and 0 for a failure."""

    name = "direct_binary"
    about = (
        "One LoRA trained by GRPO on the target at our rollouts, paid 1 for a success and 0 for a failure."
    )
    needs = "verdicts of the target"

    def refusal(self, world: PlayedWorld) -> str:
        """Nothing was trained: then there is no budget to be equal to."""
        return one_adapter.refusal(world)

    def play(self, world: PlayedWorld, folder: Path) -> Made:
        """Train, and play the test tasks."""
        target = Repaid(world.study.target, "paid by success", by_success)
        return one_adapter.play(world, self.name, folder, lambda: nullcontext(target))


def by_success(true: Verdict, episode: str) -> Verdict:
    """Pay success alone.

    >>> by_success(Verdict(reward=0.5, success=False), "t/0").reward
    0.0
    """
    return true.model_copy(update={"reward": float(bool(true.success))})
