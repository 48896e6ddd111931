"""That an environment's reward was not the same when its episode was played again."""

from __future__ import annotations

from typing import ClassVar

from trace_assets.records.base import Record


class UnconfirmedReward(Record):
    """Row of the table `unconfirmed_rewards`: this text of an environment is trained on no more, unasked."""

    table: ClassVar[str] = "unconfirmed_rewards"
    key: ClassVar[tuple[str, ...]] = ("environment_id",)
    restored_by: ClassVar[str] = ""

    environment_id: str
    capability_id: str
    """What the environment was to teach."""
    isolation_level: str
    """Where the episodes ran."""
    detail: str
    """Seed, number of actions, and how the two verdicts differ."""
