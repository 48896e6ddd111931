"""With which settings finished work was made, so that it can be told when others are in force."""

from __future__ import annotations

from typing import ClassVar

from trace_assets.records.base import Record


class MadeWith(Record):
    """Row of the table `made_with`: one setting that an item with finished work was made with."""

    table: ClassVar[str] = "made_with"
    key: ClassVar[tuple[str, ...]] = ("asset", "partition", "setting")

    asset: str
    """What was made, such as `trajectories`."""
    partition: str
    """Which of it: a task batch or capability; empty where the asset has no partitions."""
    setting: str
    """Its name, such as `rollouts.temperature`; `base_model` is the content of the base model."""
    value: str
    """Its value as JSON."""
