"""The contrast between failures and successes, and what was selected from it."""

from __future__ import annotations

from typing import ClassVar, Literal

from trace_assets.records.base import Json, Record
from trace_assets.records.capability import LabelValue


class Contrast(Record):
    """Row of the table `contrast`: one capability's error rates and gap, with their uncertainty.

    Rates are null where their denominator is empty. Intervals are 95 % unless settings say otherwise.
    """

    table: ClassVar[str] = "contrast"
    key: ClassVar[tuple[str, ...]] = ("capability_id",)

    capability_id: str
    target: str
    er_failed: float | None
    """ER-: LACKING / (LACKING + PRESENT) over failed trajectories."""
    er_failed_low: float | None
    er_failed_high: float | None
    er_passed: float | None
    """ER+: the same over passed trajectories."""
    er_passed_low: float | None
    er_passed_high: float | None
    gap: float | None
    """Contrastive gap, ER- minus ER+."""
    gap_low: float | None
    gap_high: float | None
    coverage: float | None
    """LACKING among failed / all failed (NA stays in the denominator)."""
    coverage_low: float | None
    coverage_high: float | None
    p_value: float | None
    q_value: float | None
    """Null too where fewer than eight trajectories of a side are relevant: then no test is made."""
    n_failed: int
    n_passed: int
    n_failed_relevant: int
    n_passed_relevant: int
    n_failed_lacking: int
    n_passed_lacking: int
    n_tasks: int
    """Tasks behind the intervals: the bootstrap resamples these."""
    alpha: float | None
    """Krippendorff's alpha over all labellers and passes; null with one of them."""
    alpha_low: float | None = None
    alpha_high: float | None = None
    matched_gap: float | None = None
    """The gap between failed and passed trials of the same task, which difficulty cannot explain."""
    matched_gap_low: float | None = None
    matched_gap_high: float | None = None
    n_pairs: int = 0
    """Disjoint pairs of a failed and a passed relevant trial of one task behind `matched_gap`."""
    n_pair_tasks: int = 0
    varying_gap: float | None = None
    """The matched gap in tasks whose trials differ in the label as well as in the outcome: whether the lack
    matters where nothing else differs. Positive when it is the lacking trials that fail."""
    varying_gap_low: float | None = None
    varying_gap_high: float | None = None
    n_varying_tasks: int = 0
    policies: tuple[str, ...] = ()
    """Who played. With several, p compares each policy's runs among themselves."""
    policy_gap: float | None = None
    """The gap within policies, over all of them together; null where one policy played all."""
    policy_gap_low: float | None = None
    policy_gap_high: float | None = None
    n_considered: int | None = None
    """Tests that q values are corrected for: findings of this target that were looked at, kept or not."""
    n_passed_aside: int = 0
    """Lucky passes that are relevant and left out of ER+ (`triage.lucky_passes`)."""


Decision = Literal[
    "kept", "override", "promising", "undecided", "seen once", "cases kept", "said twice", "rejected"
]


class SelectedCapability(Record):
    """Row of the table `selected_capabilities`: the decision on every candidate, with its reason."""

    table: ClassVar[str] = "selected_capabilities"
    key: ClassVar[tuple[str, ...]] = ("target", "rank", "capability_id")

    capability_id: str
    target: str
    name: str
    kept: bool
    rank: int
    """Order in which greedy coverage took it, from 1; rejected ones come after, 0 is not used."""
    reason: str
    """Why it was kept or rejected, in words with the figures."""
    marginal_coverage: float | None
    """Share of failed trajectories that this one covers and no earlier one did."""
    verdict: Decision | None = None
    """`promising`: gap and coverage are what is asked for, and chance shows as much seldom, over all policies
    or else in the runs of one policy alone. `undecided`: the same, but chance shows as much. `seen once`: the
    same, but the failures of one task alone lack it. `cases kept`: narrower ones that are cases of it are
    kept instead. `said twice`: another candidate stands for it, see `same_as`. `override`: it is kept because
    `selection.overrides` names it, and was not found."""
    same_as: str = ""
    """The candidate that stands for it where both say one thing; empty where it stands for itself."""
    overridden_by: str = ""
    """The reason that `selection.overrides` gives; empty where it stands on its own."""
    chance: float | None = None
    """Share of studies with shuffled outcomes in which something at least as clear is found: of what passes
    the thresholds by p, of what is promising or undecided by its standard score. Null where nobody asked."""
    more_tasks: int | None = None
    """Where it is promising or undecided: about how many more tasks like these would decide; null where
    nobody can say."""
    more_trials: int | None = None
    """The same by more trials of each of these tasks; null where no number of them would decide."""
    expected_cost: float | None = None
    """What teaching it is expected to cost, in units of one training; null where it was not weighed."""


class CapabilitySpec(Record):
    """Row of the table `capability_specs`: all that per-capability work may depend on.

    This is the cut-off: an edit of thresholds that leaves a capability's spec equal re-trains nothing.
    """

    table: ClassVar[str] = "capability_specs"
    key: ClassVar[tuple[str, ...]] = ("capability_id",)

    capability_id: str
    target: str
    name: str
    description: str
    detector: str | None = None
    detector_args: Json = {}


# What several labellers agree on: how far, and the label that follows.


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

    Passes of one labeller are settled by their majority: probabilities are the shares of its passes, and with
    several labellers those of Dawid and Skene's model over what each of them says. The label is the most
    probable one; null where none is probable enough, and then the item enters no rate: it is no evidence
    either way.
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


# Two policies on the same tasks: what one lacks and the other does not.


class PolicyContrast(Record):
    """Row of the table `policy_contrast`: one capability under a weaker and a stronger policy.

    The stronger one is that with the higher pass rate on the tasks both were tried on. A row with an empty
    `capability_id` compares the pass rates: `rate` is then the share of failures put down to the agent.
    Rates are null where no shared task needs the capability under both.
    """

    table: ClassVar[str] = "policy_contrast"
    key: ClassVar[tuple[str, ...]] = ("target", "weak", "strong", "capability_id")

    target: str
    weak: str
    strong: str
    capability_id: str
    name: str
    weak_rate: float | None
    """LACKING / (LACKING + PRESENT) under the weaker policy: mean over shared tasks."""
    weak_low: float | None
    weak_high: float | None
    strong_rate: float | None
    strong_low: float | None
    strong_high: float | None
    difference: float | None
    """Weak minus strong: how much less the stronger one lacks it; paired by task."""
    difference_low: float | None
    difference_high: float | None
    p_value: float | None
    """Two-sided, from swapping the policies within tasks."""
    q_value: float | None
    """Benjamini-Hochberg over the capabilities of this pair."""
    n_tasks: int
    """Tasks that need it under both policies."""
    n_weak: int
    """Trials behind it under the weaker policy."""
    n_strong: int
    n_mended: int
    """Tasks in which it is lacking less under the stronger policy."""
    n_broken: int
    """Tasks in which it is lacking more."""
    n_gained: int
    """Tasks that the stronger policy passes more often (those mended among them, for a capability)."""
    n_lost: int
    """Tasks that it passes less often (those broken among them, for a capability)."""


# How far a capability moved between what was known and what came new.


class Drift(Record):
    """Row of the table `drift`: one figure of one capability, in a new batch against all earlier ones.

    Intervals are simultaneous over all rows of the batch and target: see `diagnosis/drift.py`.
    """

    table: ClassVar[str] = "drift"
    key: ClassVar[tuple[str, ...]] = ("task_batch", "capability_id", "measure")

    task_batch: str
    """The newest batch of the target."""
    target: str
    capability_id: str
    measure: Literal["gap", "coverage"]
    """`gap` is ER- minus ER+, `coverage` the share of the agent's failures that lack the capability."""
    before: float | None
    """In the batches that came earlier; null where it is undefined, as everywhere."""
    before_low: float | None
    before_high: float | None
    now: float | None
    """In the new batch."""
    now_low: float | None
    now_high: float | None
    change: float | None
    """`now` minus `before`."""
    change_low: float | None
    change_high: float | None
    n_before: int
    """Trajectories behind `before`: relevant ones for a gap, failures for a coverage."""
    n_now: int
    confidence: float
    """Of each interval, so that all of them hold together at the confidence of the section `contrast`."""
    drifted: bool
    """The interval of the change leaves out 0."""


# Would another study of the same size have found and kept the same?


class Stability(Record):
    """Row of the table `stability`: what becomes of a candidate on resampled tasks.

    Beside each row stands the null: the same procedure on outcomes shuffled within the target. All shares
    have Wilson intervals at the confidence of the contrast.
    """

    table: ClassVar[str] = "stability"
    key: ClassVar[tuple[str, ...]] = ("target", "capability_id")

    capability_id: str
    target: str
    name: str
    rediscovers: bool
    """Whether discovery was repeated too (detectors); otherwise only contrast and selection were."""
    n_resamples: int
    discovered: float
    """Share of resamples in which it, or a twin that labels alike, was among the candidates."""
    discovered_low: float
    discovered_high: float
    kept: float
    """Share of resamples in which it, or such a twin, was selected."""
    kept_low: float
    kept_high: float
    gap_mean: float | None
    """Over the resamples in which its gap was defined."""
    gap_sd: float | None
    n_shuffles: int
    null_kept: float
    """Share of shuffles in which it, or such a twin, was selected: by chance alone."""
    null_kept_high: float
    """Upper bound of that share."""
    null_any: float
    """Share of shuffles in which anything of this target was selected."""
    null_any_low: float
    null_any_high: float
    null_mean: float
    """Capabilities selected in a shuffle, on average, over the target."""
