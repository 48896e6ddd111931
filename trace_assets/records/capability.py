"""A capability: actions necessary to solve a subset of the tasks, found in the data and named."""

from __future__ import annotations

from typing import ClassVar, Literal

from trace_assets.records.base import Json, Record

LabelValue = Literal["NA", "PRESENT", "LACKING", "CANNOT_TELL"]
"""`CANNOT_TELL`: the labeller abstains; it counts as no label, which is not the same as NA."""


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
    """The instance: tools, argument, field, value. Of a case that a model proposed what it rests on: the
    `rule` as it stands in the policy, the `tool`, its `argument`; all three were looked up."""
    proposed_by: tuple[str, ...] = ()
    """Trajectories (or passes) whose reading led to the proposal; a bounded sample."""
    n_proposals: int = 0
    """How many proposed it, before the sample was bounded."""
    n_considered: int | None = None
    """Findings, made blind to the outcome, among which this one was picked; null where nobody counted."""
    discovered_on: Literal["all", "half"] = "all"
    """`half`: proposed from one half of the tasks, so the contrast is estimated on the other half alone."""
    parent: str | None = None
    """Capability id of a broader one of which this is a case; a parent's labels follow from its cases'."""
    reading: int = 1
    """In which reading of failures it was named: 1 in the first, later ones were of failures that nothing
    named before explains (`discovery.further`)."""


class ProposedFinding(Record):
    """Row of the table `findings`: all that detectors proposed and enough trajectories lack, picked or not.

    It is known without a look at outcomes, so candidates can be picked anew on shuffled ones.
    """

    table: ClassVar[str] = "findings"
    key: ClassVar[tuple[str, ...]] = ("target", "capability_id")

    target: str
    capability_id: str
    """As the candidate is called that it became, or would have become."""
    name: str
    detector: str
    picked: bool
    """Whether it became a candidate: successes mostly show it, and it is among those that cover most."""
    norm: float
    """Share of relevant successes that must show it."""
    n_lacking: int
    """Trajectories that lack it."""
    n_present: int
    """Trajectories that needed it and show it."""
    labels: str
    """One character a trajectory, in the order of their ids: 0 for NA, 1 for PRESENT, 2 for LACKING."""
    trajectories_hash: str
    """Of the ids of these trajectories."""


class SingleLack(Record):
    """Row of the table `single_lacks`: what a failed run lacks, and too few others for it to be a candidate.

    No success lacks it, and several show it. It explains a run that no candidate explains, and nothing more:
    it is neither tested nor taught.
    """

    table: ClassVar[str] = "single_lacks"
    key: ClassVar[tuple[str, ...]] = ("trajectory_id", "number")

    trajectory_id: str
    number: int
    """What the policy says before what runs mostly do, from 0."""
    target: str
    capability_id: str
    """As the candidate would be called; the table `capabilities` has none of this id."""
    name: str
    detector: str
    detector_args: Json = {}
    """The instance: tools, argument, field, value."""
    n_lacking: int
    """Failures of the agent that lack it."""
    n_present: int
    """Successes that needed it and show it."""
    evidence: tuple[int, ...] = ()
    """Message indices that show it."""
    rationale: str = ""


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
    """NA: not needed; PRESENT: needed and exercised; LACKING: needed and not exercised; CANNOT_TELL."""
    evidence: tuple[int, ...] = ()
    """Message indices that show it; empty only for NA, or when the evidence is an absence."""
    rationale: str = ""
    input_hash: str = ""
    """Hash of all that decides this label: the blind transcript as shown, the capability's definition, the
    labeller's code, prompt and model. A stored label with the same hash is not asked for again."""


class LackCause(Record):
    """Row of the table `lack_causes`: whether what one failed run lacked made it fail, as a model says."""

    table: ClassVar[str] = "lack_causes"
    key: ClassVar[tuple[str, ...]] = ("capability_id", "trajectory_id")

    trajectory_id: str
    capability_id: str
    target: str
    decisive: Literal["yes", "no", "cannot_tell"]
    """Whether exercising the capability would have kept the agent from a mistake that was enough to fail."""
    main: bool = False
    """Whether the model names it as what explains this failure in one sentence; one of a run at most."""
    evidence: tuple[int, ...] = ()
    """Message indices that show it."""
    rationale: str = ""
    """What would have happened instead, in a sentence."""
    judge: str
    """Who said so: `model:<name>`."""


# What a model proposed in one discovery pass, and what became of it.


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
    """`p<pass>-<number>`, from the second reading on `r<reading>-p<pass>-<number>`; unique within target and
    analyst."""
    discovery_pass: int
    """The pass whose batch led to it, from 1; 0 for a case that the policy gives, whatever failed."""
    reading: int = 1
    """As in `Capability.reading`: passes count anew in each."""
    name: str
    description: str
    grounds: Json = {}
    """What a case rests on, as in `Capability.detector_args`; empty where habits are proposed."""
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


class BatchCapability(Record):
    """Row of the table `batch_capabilities`: a candidate of one of the batch's targets.

    This is a cut-off: it holds what decides a label and nothing else, so that a new batch, another target's
    candidates or a changed count of proposals do not have old batches labelled again.
    """

    table: ClassVar[str] = "batch_capabilities"
    key: ClassVar[tuple[str, ...]] = ("task_batch", "capability_id")

    task_batch: str
    capability_id: str
    target: str
    name: str
    description: str
    analyst: str
    detector: str | None = None
    detector_args: Json = {}
    parent: str | None = None
    """Capability id of a broader one of which this is a case."""


class ShownTranscript(Record):
    """Row of the table `shown_transcripts`: nothing is cut from a transcript without being counted here."""

    table: ClassVar[str] = "shown_transcripts"
    key: ClassVar[tuple[str, ...]] = ("trajectory_id",)

    trajectory_id: str
    rule: str
    """Compaction rule that was applied; `whole` when nothing was shortened."""
    n_messages: int
    """Messages in the trajectory."""
    n_shown: int
    """Messages that were shown, shortened ones among them; evidence may cite only these."""
    n_shortened: int
    """Messages shown with their middle left out."""
    n_withheld: int
    """Messages withheld, or with words struck out, because they may give the outcome away."""
    n_left_out: int
    """Messages left out because the transcript was too long."""
    tokens: int
    """Estimated tokens of what was shown."""
    view_hash: str
    """Hash of the text that was shown."""


# How much of the outcome shows through what labellers see beside the agent's own behaviour.


class LabelLeak(Record):
    """Row of the table `label_leak`: how well one channel of the blind transcripts predicts the outcome."""

    table: ClassVar[str] = "label_leak"
    key: ClassVar[tuple[str, ...]] = ("target", "channel")

    target: str
    channel: str
    """`opening`, `replies`, `results`, `shape`, or `withheld`: what the redaction took away."""
    auc: float | None
    """Out-of-fold area under the ROC curve; 0.5 tells nothing, 1 tells all. Null without both outcomes."""
    auc_low: float | None
    auc_high: float | None
    within_task: bool
    """Whether only pairs of trials of one task were compared, which sets the tasks' difficulty aside."""
    n_pairs: int
    """Pairs of a success and a failure behind the figure."""
    n_passed: int
    """Successes behind it."""
    n_failed: int
    """Failures behind it."""
    n_tasks: int
    """Tasks behind it: folds and the bootstrap keep a task together."""
    judged: bool
    """Whether this channel decides the check `labels_blind`; the others are shown for comparison."""
    leaks: bool
    """Whether the interval lies above 0.5, and above `opening` where trials of one task were not compared."""


class FurtherReading(Record):
    """Row of the table `further_readings`: failures that no candidate explained were read again."""

    table: ClassVar[str] = "further_readings"
    key: ClassVar[tuple[str, ...]] = ("target", "reading")

    target: str
    reading: int
    """As in `Capability.reading`, from 2."""
    asked_as: str
    """Hash of who was asked and how: with other settings the same failures may be read once more."""
    trajectories: tuple[str, ...]
    """The failures."""
    n_new: int
    """Candidates that came of it. None: these failures are not read again."""
    n_again: int = 0
    """Failures of which it was said that a known candidate decided them, though labels say otherwise."""
