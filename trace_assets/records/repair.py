"""What became of failed runs that were replayed with what a capability prescribes put right."""

from __future__ import annotations

from typing import ClassVar, Literal

from trace_assets.records.base import Record

RepairStatus = Literal["decisive", "not decisive", "not repairable", "not replayable"]
RepairKind = Literal["insert", "remove", "replace", "go on"]


class Repair(Record):
    """Row of the table `repairs`: one failed run and one capability that it lacks.

    From the ground truth, where the target has one: never shown to anybody who labels.
    """

    table: ClassVar[str] = "repairs"
    key: ClassVar[tuple[str, ...]] = ("capability_id", "trajectory_id")

    trajectory_id: str
    capability_id: str
    target: str
    task_id: str
    status: RepairStatus
    """`decisive`: the repaired run passes; `not decisive`: it fails all the same; `not repairable`: nobody
    can say what to put in its place, or only the agent's own turn could; `not replayable`: its calls, played
    again unchanged, do not give the recorded reward. The last two count in no share."""
    detail: str = ""
    """Why it could not be tried; empty where it was."""
    kind: RepairKind | None = None
    """The greatest thing that was changed; null where nothing was. `go on`: the agent itself went on from the
    repair, or from its turn taken again."""
    change: str = ""
    """What was changed, in words."""
    partial: bool = False
    """Whether more would follow than was replayed: the agent was only shown something, or its last words stay
    as they were. A run that fails all the same says little then."""
    reward_before: float | None = None
    """As recorded, and as the plain replay gave it once more."""
    reward_after: float | None = None
    """Of the repaired run; null where it was not tried."""
    placebo_change: str = ""
    """What was changed instead in the placebos, in words."""
    placebo_rewards: tuple[float, ...] = ()
    """Of runs with a change of the same kind and size that has nothing to do with the capability."""
    placebo_passed: bool | None = None
    """Whether one of these passes; null where no such change was to be had."""


class DecisiveShare(Record):
    """Row of the table `decisive_shares`: how often repairing a capability alone lets a failed run pass."""

    table: ClassVar[str] = "decisive_shares"
    key: ClassVar[tuple[str, ...]] = ("target", "capability_id")

    capability_id: str
    target: str
    share: float | None
    """Decisive repairs among the replayed ones; null where it is not measured."""
    share_low: float | None
    share_high: float | None
    n_replayed: int
    """Failed runs that lack it, were repaired and replayed."""
    n_decisive: int
    """Those of them that pass once repaired."""
    n_tasks: int
    """Tasks behind the intervals: the bootstrap resamples these."""
    placebo: float | None
    """Share of placebo repairs after which the run passes; null where there was none."""
    placebo_low: float | None
    placebo_high: float | None
    n_placebo: int
    """Runs behind `placebo`."""
    n_lacking: int
    """Failed runs that lack it: all that could have been tried."""
    n_not_repairable: int
    n_not_replayable: int
    lower_bound: bool = False
    """Whether repairs of runs that fail all the same were partial: whole ones might let more of them pass."""
    not_measured: str = ""
    """Why there is no share; empty where there is one."""
