"""What a model proposed in one discovery pass, and what became of it."""

from __future__ import annotations

from typing import ClassVar, Literal

from trace_assets.records.base import Record

Recognised = Literal["none", "name", "model", "wording"]
"""Who found that a capability is one that the dictionary held before; `none`: it is new."""


class Proposal(Record):
    """Row of the table `proposals`: one proposal of one pass; merging loses none of them."""

    table: ClassVar[str] = "proposals"
    key: ClassVar[tuple[str, ...]] = ("target", "analyst", "proposal_id")

    target: str
    analyst: str
    """Who proposed it, as in `Capability.analyst`."""
    proposal_id: str
    """`p<pass>-<number>`, unique within target and analyst."""
    discovery_pass: int
    """The pass whose batch led to it, from 1."""
    name: str
    description: str
    trajectories: tuple[str, ...] = ()
    """Failures of the batch that were named as showing the lack."""
    n_failures: int = 0
    """Failures in the batch."""
    n_successes: int = 0
    """Successes in the batch."""
    merged_into: str | None = None
    """Capability that it became, alone or with others; null when it was left out."""
    merged_by: Literal["model", "name", "none"] = "none"
    """Who put it there: the merging model, equal names where that gave no usable answer, or nobody."""
    recognised_by: Recognised = "none"
    """How that capability was found to be one of the dictionary before this discovery, whose id it keeps: by
    an equal name, by the model, or by nearly equal words where the model gave no usable answer."""
