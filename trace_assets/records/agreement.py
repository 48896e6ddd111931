"""What several labellers agree on: how far, and the label that follows."""

from __future__ import annotations

from typing import ClassVar, Literal

from trace_assets.records.base import Record
from trace_assets.records.capability import LabelValue


class Agreement(Record):
    """Row of the table `agreement`: Krippendorff's alpha of one capability between some of its labellers.

    There are rows only where an item was labelled more than once.
    """

    table: ClassVar[str] = "agreement"
    key: ClassVar[tuple[str, ...]] = ("capability_id", "between", "coders")

    capability_id: str
    target: str
    between: Literal["all", "passes", "labellers"]
    """All labels; the passes of one labeller; or two labellers, each by what most of its passes say."""
    coders: str
    """Who, such as `model` for passes, or `detectors, model` for labellers."""
    alpha: float | None
    """Null where only one label occurs, so that agreement cannot be told from chance."""
    alpha_low: float | None
    alpha_high: float | None
    n_items: int
    """Trajectories with two labels or more of these."""
    n_coders: int


class Consensus(Record):
    """Row of the table `consensus`: the label of an item that several labellers or passes labelled.

    Probabilities are those of Dawid and Skene's model. The label is the most probable one; null where none
    is probable enough, and then the item enters no rate: it is no evidence either way.
    """

    table: ClassVar[str] = "consensus"
    key: ClassVar[tuple[str, ...]] = ("capability_id", "trajectory_id")

    trajectory_id: str
    capability_id: str
    target: str
    label: LabelValue | None
    p_na: float
    p_present: float
    p_lacking: float
    n_coders: int
    """Labels behind it."""
    unanimous: bool
