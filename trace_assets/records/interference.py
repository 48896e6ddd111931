"""What training one capability would do to another, measured before either is trained."""

from __future__ import annotations

from typing import ClassVar, Literal

from trace_assets.records.base import Record


class InterferencePart(Record):
    """Row of the table `interference_parts`: a capability's policy gradient under one condition."""

    table: ClassVar[str] = "interference_parts"
    key: ClassVar[tuple[str, ...]] = ("capability_id", "condition")

    capability_id: str
    condition: str
    """The tools that the solution calls there, in order."""
    n_groups: int
    """Groups of rollouts of the base policy, one task each."""
    live_groups: int
    """Of them with a gradient: their rewards differ."""
    n_rollouts: int
    """Episodes that were judged."""
    pass_rate: float | None
    """Of the base policy there."""
    norm: float
    """Length of the mean gradient."""
    split_half: float | None
    """Mean cosine between random halves of the groups; null below four groups or without a gradient."""
    reliability: float | None
    """What that says of all groups: 2 h / (1 + h), not below 0."""


class Interference(Record):
    """Row of the table `interference`: two capabilities' policy gradients at the base policy.

    Rows with conditions compare parts; the row without any carries the verdict on two capabilities.
    """

    table: ClassVar[str] = "interference"
    key: ClassVar[tuple[str, ...]] = ("capability_id", "condition", "other_id", "other_condition")

    capability_id: str
    condition: str
    """Empty for the mean over all conditions."""
    other_id: str
    """The other capability, or the same one where two of its conditions are compared."""
    other_condition: str
    """Empty likewise."""
    cosine: float | None
    """Null where one of the two has no gradient."""
    cosine_low: float | None
    cosine_high: float | None
    """95 % bootstrap over groups."""
    corrected: float | None
    """The cosine over the root of both reliabilities: noise makes cosines smaller than they are."""
    reliability: float
    """The lower one of the two."""
    verdict: Literal["orthogonal", "aligned", "opposed", "unclear"]
    """`opposed`: adding their adapters up is refused."""
    reason: str = ""
    """Of a verdict on two capabilities, in words with the figures."""
