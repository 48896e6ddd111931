"""What adapters do to each other: by their gradients before training, and in the sums that are served."""

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


class SetEffect(Record):
    """Row of the table `set_effects`: what one adapter adds to a sum, on validation tasks sent to the sum.

    The difference is the sum's pass rate minus that of the same sum without the adapter, on the same tasks;
    the interval is a paired bootstrap over tasks, widened for all comparisons of the table.
    """

    table: ClassVar[str] = "set_effects"
    key: ClassVar[tuple[str, ...]] = ("choice", "adapter")

    choice: str
    """The set, such as `cancel+window`."""
    adapter: str
    """The member that is judged; empty for the whole set, which is compared with the base model."""
    without: str
    """What it is compared with: the set without the member, `none` for the base model."""
    alone: bool
    """Whether a router may choose the member alone; for the whole set, whether it may choose any of them."""
    n_tasks: int
    """Validation tasks that the router sends to the set and that were judged on both sides."""
    rate: float | None
    """Pass rate of the set on these tasks."""
    rate_without: float | None
    """Of what it is compared with, on the same tasks."""
    delta: float | None
    """What the member adds: `rate` minus `rate_without`."""
    delta_low: float | None
    delta_high: float | None
    confidence: float
    """Of the interval: 1 - .05 / the number of comparisons that were looked at."""
    verdict: Literal["helps", "unclear", "harms"]
    """Helps: the interval lies above 0. Harms: below 0."""
    served: bool
    """Whether the set may act: no row of it says harm, and what may not act alone is shown to help."""
    reason: str
    """In words, with the figures."""


class SetRule(Record):
    """Row of the table `set_rules`: a rule by which tasks are sent to sums, and what it comes to.

    The first is that of the settings, at full scale; figures are those of the sums that may act under a rule.
    """

    table: ClassVar[str] = "set_rules"
    key: ClassVar[tuple[str, ...]] = ("cost", "scale")

    cost: float
    """Of an unneeded adapter: the router calls for one whose share p is above cost * (1 - p)."""
    scale: float
    """What the weight changes of every sum are multiplied by; 1 is the exact sum."""
    chosen: bool
    """Whether sets are sent and served by it: the rule of the settings, unless another is ahead of it by more
    than one standard error."""
    several: int
    """Validation tasks that are sent to a sum."""
    n_tasks: int
    """Validation tasks that were judged."""
    n_trials: int
    pass_rate: float | None
    """On all validation tasks: of the best of several rules it is too high, see `composition_choices`."""
    pass_rate_low: float | None
    pass_rate_high: float | None
    ahead: float | None
    """Pass rate minus that of the settings' rule on the same tasks; null for that rule itself."""
    ahead_low: float | None
    ahead_high: float | None
    """Paired bootstrap over tasks, 95 %."""
