"""What an episode finds of the world beside its seed and its actions: the same in every phase.

An environment that could tell an audit from a training could be honest in the one alone. So the clock of
every episode stands still at the same moment, its process has the same number, its requests are counted from
1, and there is nothing else that it could ask for (see `sandboxes/worker`). The audit alone varies these, to
find out who would have looked: see `synthesis.audit.conditions`.
"""

from __future__ import annotations

from dataclasses import dataclass

CLOCK = 1_735_732_800
"""1 January 2025, noon, in UTC: when every episode takes place."""


@dataclass(frozen=True)
class Conditions:
    """What is varied by nobody but the audit and the sandbox's own battery.

    Attributes:
        clock: Seconds since 1970 that every wall clock shows, and goes on showing.
        process: Number that an episode takes for that of its process.
        first_request: Number of an episode's first request.
        sealed: Whether an episode gives up the kernel before its code runs. The battery alone leaves it out,
            to attack the walls behind that one.
    """

    clock: int = CLOCK
    process: int = 2
    first_request: int = 1
    sealed: bool = True


EVERYWHERE = Conditions()
"""The conditions of every episode that is played in earnest."""
BARE = Conditions(process=0, sealed=False)
"""Of an episode that is held by its container alone."""
