"""What an analyst is: it proposes capabilities and labels trajectories with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from trace_assets.records import Capability, Label, Trajectory


@runtime_checkable
class Analyst(Protocol):
    """Detectors and language models alike.

    `discover` may look at outcomes, since it contrasts successes with failures. `label` may not: it is
    handed blind trajectories (`Trajectory.blind`), and must give the same label whatever the outcome was.
    """

    @property
    def name(self) -> str:
        """Who this is, as stored in `Label.labeller`: `detectors`, `model:<name>`, or a name of your own."""
        ...

    @property
    def version(self) -> str:
        """Content hash of all that decides proposals and labels: code, prompts, model."""
        ...

    def discover(self, trajectories: Sequence[Trajectory]) -> list[Capability]:
        """Propose capabilities that failures lack.

        Args:
            trajectories: Judged trajectories of one target, failures among them put down to the agent.

        Returns:
            Candidates with ids unique within the target; empty when nothing was found.
        """
        ...

    def label(self, trajectories: Sequence[Trajectory], capabilities: Sequence[Capability]) -> list[Label]:
        """Label every trajectory with every capability, once for each labelling pass.

        Args:
            trajectories: Blind trajectories of one target.
            capabilities: Candidates of the same target.

        Returns:
            Exactly one label for each (trajectory, capability, pass), evidence as indices into the
            trajectory's messages.
        """
        ...

    def input_hashes(self, trajectory: Trajectory, capabilities: Sequence[Capability]) -> list[str]:
        """Return, for each capability, a hash of all that decides the trajectory's label besides the pass.

        It goes into `Label.input_hash`. Stored labels with the same hash are kept and not asked for again, so
        it has to cover what is shown, and the code, prompts, model and settings that make a label of it.
        """
        ...
