"""A capability: actions necessary to solve a subset of the tasks, found in the data and named."""

from __future__ import annotations

from typing import ClassVar, Literal

from trace_assets.records.base import Json, Record

LabelValue = Literal["NA", "PRESENT", "LACKING"]


class Capability(Record):
    """Row of the table `capabilities`: a candidate that an analyst proposed."""

    table: ClassVar[str] = "capabilities"
    key: ClassVar[tuple[str, ...]] = ("capability_id",)
    volatile: ClassVar[frozenset[str]] = frozenset({"proposed_by", "n_proposals"})

    capability_id: str
    """Slug without commas or slashes, stable for the same finding; a Dagster partition key."""
    target: str
    name: str
    description: str
    analyst: str
    """Who proposed it: `detectors`, or `model:<name>`."""
    detector: str | None = None
    """Detector family, for capabilities that a predicate labels; recipes are keyed by it."""
    detector_args: Json = {}
    """The instance: tools, argument, field, value."""
    proposed_by: tuple[str, ...] = ()
    """Trajectories (or passes) whose reading led to the proposal; a bounded sample."""
    n_proposals: int = 0
    """How many proposed it, before the sample was bounded."""
    n_considered: int | None = None
    """Findings, made blind to the outcome, among which this one was picked; null where nobody counted."""
    discovered_on: Literal["all", "half"] = "all"
    """`half`: proposed from one half of the tasks, so the contrast is estimated on the other half alone."""


class Label(Record):
    """Row of the table `labels`: does this trajectory's task need the capability, and was it exercised."""

    table: ClassVar[str] = "labels"
    key: ClassVar[tuple[str, ...]] = ("capability_id", "trajectory_id", "labelling_pass")

    trajectory_id: str
    capability_id: str
    labelling_pass: int = 0
    """0 for detectors; a model's passes count from 1."""
    labeller: str
    """`detectors`, or `model:<name>`."""
    label: LabelValue
    """NA: not needed; PRESENT: needed and exercised; LACKING: needed and not exercised."""
    evidence: tuple[int, ...] = ()
    """Message indices that show it; empty only for NA, or when the evidence is an absence."""
    rationale: str = ""
    input_hash: str = ""
    """Hash of all that decides this label: the blind transcript as shown, the capability's definition, the
    labeller's code, prompt and model. A stored label with the same hash is not asked for again."""
