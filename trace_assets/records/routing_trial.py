"""What routers are fitted on."""

from __future__ import annotations

from typing import ClassVar

from trace_assets.records.base import Json, Record


class RoutingTrial(Record):
    """Row of the table `routing_trials`: what a discovery trial of the live target lacked.

    A firewall: trajectories of other targets, and labels of capabilities that are not taught, fit no router
    and play no adapter anew.
    """

    table: ClassVar[str] = "routing_trials"
    key: ClassVar[tuple[str, ...]] = ("trajectory_id",)

    trajectory_id: str
    """The trial; those that broke through no fault of the agent are left out."""
    task_id: str
    """Its task."""
    text: str
    """What the task is routed by: its first user message."""
    lacking: Json
    """Labelling pass -> ids of the taught capabilities that were labelled LACKING."""
