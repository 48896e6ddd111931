"""All that the report shows, as plain records: it knows nothing of where they are stored."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import polars as pl

from trace_assets.diagnosis.overrides import OVERRIDDEN
from trace_assets.formats.problem import Problem
from trace_assets.records import (
    ActionDiff,
    Adapter,
    Agreement,
    ArmSummary,
    BaseCheckpoint,
    Capability,
    CompositionChoice,
    Consensus,
    Contrast,
    DecisiveShare,
    Environment,
    EnvironmentCheck,
    Evaluation,
    FailureCause,
    Interference,
    Label,
    LabelLeak,
    Learnability,
    LedgerEntry,
    MessageRow,
    NoHarm,
    Pilot,
    Proposal,
    ProposedFinding,
    Round,
    Route,
    RouterRegret,
    RouterScore,
    SelectedCapability,
    SetEffect,
    Stability,
    SuspectTask,
    ToolUse,
    TrainingPoint,
    TrajectoryHead,
    Triage,
)
from trace_assets.records.table import from_frame
from trace_assets.report.formatting import arm_name, marked
from trace_assets.settings import Selection
from trace_assets.store.tables import Store


def stage_costs(ledger: Sequence[LedgerEntry]) -> dict[str, dict[str, float]]:
    """Sum what each stage took.

    Time and quantities are those of the latest materialization of each asset and partition: what it takes to
    get what is in the store. Money is that of all materializations: what was paid.

    Returns:
        Stage to kind to quantity, stages in the order in which they were first recorded; the kind `usd`
        is money.
    """
    rows = sorted(ledger, key=lambda row: row.recorded_at)
    latest = {(row.asset, row.partition): row.recorded_at for row in rows}
    stages: dict[str, dict[str, float]] = {}
    for row in rows:
        spent = stages.setdefault(row.stage, defaultdict(float))
        spent["usd"] += row.cost_usd
        if row.recorded_at == latest[row.asset, row.partition]:
            spent[row.kind] += row.quantity
    return stages


# Which transcripts a reader is shown for each candidate, and which are only named.


Side = Literal["failed_lacking", "passed_present", "passed_lacking"]
"""A failure that lacks it, a success that shows it, and a success that lacks it: what speaks against it."""
SAMPLES_KEPT: dict[Side, int] = {"failed_lacking": 3, "passed_present": 1, "passed_lacking": 1}
"""Transcripts shown for a kept capability."""
SAMPLES_REJECTED: dict[Side, int] = {"failed_lacking": 1, "passed_present": 1, "passed_lacking": 1}
MOST_SAMPLES = 100
"""Transcripts on the page: kept capabilities have theirs first, then the rejected ones by rank."""
MOST_NAMED = 20
"""Further failures that lack it, named without their messages."""


@dataclass(frozen=True)
class Sample:
    """One trajectory that shows a capability lacking or present."""

    label: Label
    triage: Triage
    messages: tuple[MessageRow, ...]


@dataclass(frozen=True)
class Chosen:
    """Labels whose trajectories are shown, and by capability the further failures that lack it."""

    shown: tuple[Label, ...] = ()
    named: tuple[tuple[str, tuple[str, ...]], ...] = ()


def choose_samples(
    selected: Iterable[SelectedCapability],
    labels: Iterable[Label],
    triage: Iterable[Triage],
    consensus: Iterable[Consensus] = (),
) -> Chosen:
    """Pick the transcripts a reader is shown for each capability, from different tasks where there are.

    Labels with evidence come first. Only successes and failures put down to the agent are shown, as only
    these enter the contrast. Where several passes or labellers labelled an item, it stands under the label
    that they agree on, told by the first of those who gave it; without agreement it is not shown.
    """
    outcome = {row.trajectory_id: row for row in triage}
    agreed = {(row.capability_id, row.trajectory_id): row.label for row in consensus}
    told: dict[tuple[str, str], Label] = {}
    for label in sorted(labels, key=lambda label: (not label.evidence, label.labelling_pass, label.labeller)):
        item = label.capability_id, label.trajectory_id
        if agreed.get(item, label.label) == label.label:
            told.setdefault(item, label)
    pools: dict[tuple[str, Side], list[Label]] = defaultdict(list)
    for label in told.values():
        side = _side(label, outcome.get(label.trajectory_id))
        if side is not None:
            pools[label.capability_id, side].append(label)
    shown: list[Label] = []
    named: list[tuple[str, tuple[str, ...]]] = []
    for one in sorted(selected, key=lambda row: (not row.kept, row.rank, row.target, row.capability_id)):
        own: list[Label] = []
        for side, most in (SAMPLES_KEPT if one.kept else SAMPLES_REJECTED).items():
            own += _from_different_tasks(pools[one.capability_id, side], outcome, most)
        own = own[: MOST_SAMPLES - len(shown)]
        shown += own
        there = {label.trajectory_id for label in own}
        rest = {label.trajectory_id for label in pools[one.capability_id, "failed_lacking"]} - there
        named.append((one.capability_id, tuple(sorted(rest)[:MOST_NAMED])))
    return Chosen(tuple(shown), tuple(named))


def _side(label: Label, triage: Triage | None) -> Side | None:
    if triage is None or label.label == "NA":
        return None
    if triage.outcome == "passed":
        return "passed_lacking" if label.label == "LACKING" else "passed_present"
    if triage.outcome == "failed" and triage.fault == "agent" and label.label == "LACKING":
        return "failed_lacking"
    return None


def _from_different_tasks(pool: Sequence[Label], outcome: dict[str, Triage], most: int) -> list[Label]:
    chosen: dict[str, Label] = {}
    for label in sorted(pool, key=lambda label: (not label.evidence, label.trajectory_id)):
        chosen.setdefault(outcome[label.trajectory_id].task_id, label)
    return list(chosen.values())[:most]


@dataclass(frozen=True)
class ReportData:
    """Records by table; an empty list is a table that is not there yet."""

    triage: Sequence[Triage] = ()
    suspects: Sequence[SuspectTask] = ()
    causes: Sequence[FailureCause] = ()
    diffs: Sequence[ActionDiff] = ()
    tool_use: Sequence[ToolUse] = ()
    capabilities: Sequence[Capability] = ()
    contrasts: Sequence[Contrast] = ()
    selected: Sequence[SelectedCapability] = ()
    decisive: Sequence[DecisiveShare] = ()
    nothing_found: bool = False
    """Whether diagnosis ran to its end and proposed nothing."""
    findings: Sequence[ProposedFinding] = ()
    """What detectors proposed, where none of it became a candidate."""
    proposals: Sequence[Proposal] = ()
    """What a model proposed, likewise."""
    samples: Sequence[Sample] = ()
    also_lacking: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Capability id to further failures that lack it, whose messages are not on the page; not all of them."""
    n_overridden_labels: int = 0
    """Pairs of a run and a candidate that a person labelled."""
    agreement: Sequence[Agreement] = ()
    stability: Sequence[Stability] = ()
    leaks: Sequence[LabelLeak] = ()
    environments: Sequence[Environment] = ()
    checks: Sequence[EnvironmentCheck] = ()
    base_models: Sequence[BaseCheckpoint] = ()
    adapters: Sequence[Adapter] = ()
    curves: Sequence[TrainingPoint] = ()
    pilots: Sequence[Pilot] = ()
    learnability: Sequence[Learnability] = ()
    harm: Sequence[NoHarm] = ()
    set_effects: Sequence[SetEffect] = ()
    choices: Sequence[CompositionChoice] = ()
    interference: Sequence[Interference] = ()
    routes: Sequence[Route] = ()
    router_scores: Sequence[RouterScore] = ()
    regrets: Sequence[RouterRegret] = ()
    evaluations: Sequence[Evaluation] = ()
    summary: Sequence[ArmSummary] = ()
    rounds: Sequence[Round] = ()
    ledger: Sequence[LedgerEntry] = ()
    imported_usd: float = 0.0
    """What imported trajectories cost whoever made them, as their files say: part of the ledger's money."""
    elsewhere: bool = False
    """Whether all trajectories were made elsewhere and there is no agent here: nothing can be taught."""
    thresholds: Selection = field(default_factory=Selection)
    left_out: Sequence[Problem] = ()
    """What of the ingested files was left out, or needs a look."""

    @property
    def names(self) -> dict[str, str]:
        """Capability id to name; adapters carry the same ids, and some of them a mark."""
        return shown_names(self.capabilities, self.adapters)

    @property
    def overall(self) -> dict[str, ArmSummary]:
        """Arm to its summary over all test tasks."""
        return {row.arm: row for row in self.summary if row.skill == "all"}

    @property
    def kept(self) -> list[SelectedCapability]:
        """Kept capabilities, by target and rank."""
        return sorted(
            (row for row in self.selected if row.kept and not row.overridden_by),
            key=lambda row: (row.target, row.rank),
        )


def shown_names(capabilities: Sequence[Capability], adapters: Sequence[Adapter]) -> dict[str, str]:
    """Return capability id to name, marked where the adapter was trained on a rejected environment."""
    rejected = {row.name for row in adapters if row.rejected}
    return {
        row.capability_id: marked(row.name) if row.capability_id in rejected else row.name
        for row in capabilities
    } | {row.name: arm_name(row.kind) for row in adapters if row.kind == "joining"}


def gather(store: Store, thresholds: Selection | None = None) -> ReportData:
    """Read what the report shows; tables that were not written yet are empty.

    Args:
        store: The tables.
        thresholds: The section `selection` that was in force, for the plots; the defaults unless given.
    """
    triage = store.read(Triage)
    selected = store.read(SelectedCapability)
    chosen = choose_samples(selected, _telling_labels(store), triage, store.read(Consensus))
    wanted = sorted({label.trajectory_id for label in chosen.shown})
    said: dict[str, list[MessageRow]] = defaultdict(list)
    frame = store.frame(MessageRow).filter(pl.col("trajectory_id").is_in(wanted))
    for row in from_frame(frame.sort("trajectory_id", "index"), MessageRow):
        said[row.trajectory_id].append(row)
    outcome = {row.trajectory_id: row for row in triage}
    return ReportData(
        triage=triage,
        suspects=store.read(SuspectTask),
        causes=store.read(FailureCause),
        diffs=store.read(ActionDiff),
        tool_use=store.read(ToolUse),
        capabilities=store.read(Capability),
        contrasts=store.read(Contrast),
        selected=selected,
        decisive=store.read(DecisiveShare),
        nothing_found=not selected and store.has(SelectedCapability),
        findings=[] if selected else store.read(ProposedFinding),
        proposals=[] if selected else store.read(Proposal),
        samples=[
            Sample(label, outcome[label.trajectory_id], tuple(said[label.trajectory_id]))
            for label in chosen.shown
        ],
        also_lacking=dict(chosen.named),
        n_overridden_labels=_overridden_labels(store),
        agreement=store.read(Agreement),
        stability=store.read(Stability),
        leaks=store.read(LabelLeak),
        environments=store.read(Environment),
        checks=store.read(EnvironmentCheck),
        base_models=store.read(BaseCheckpoint),
        adapters=store.read(Adapter),
        curves=store.read(TrainingPoint),
        pilots=store.read(Pilot),
        learnability=store.read(Learnability),
        harm=store.read(NoHarm),
        set_effects=store.read(SetEffect),
        choices=store.read(CompositionChoice),
        interference=[row for row in store.read(Interference) if not row.condition],
        routes=store.read(Route),
        router_scores=store.read(RouterScore),
        regrets=store.read(RouterRegret),
        evaluations=[row for row in store.read(Evaluation) if row.split == "test"],
        summary=store.read(ArmSummary),
        rounds=sorted(store.read(Round), key=lambda row: row.round),
        ledger=store.read(LedgerEntry),
        imported_usd=_imported_usd(store),
        elsewhere=bool(triage) and not store.has(BaseCheckpoint) and not _rolled_out(store),
        thresholds=thresholds or Selection(),
    )


def _telling_labels(store: Store) -> list[Label]:
    """Return the labels that say something: most are NA, and a large study has millions."""
    return from_frame(store.frame(Label).filter(pl.col("label").is_in(["PRESENT", "LACKING"])), Label)


def _overridden_labels(store: Store) -> int:
    own = store.frame(Label).filter(pl.col("input_hash").str.ends_with(OVERRIDDEN))
    return own.unique(["capability_id", "trajectory_id"]).height


def _rolled_out(store: Store) -> int:
    return store.frame(TrajectoryHead).filter(pl.col("source") == "rollout").height


def _imported_usd(store: Store) -> float:
    heads = store.frame(TrajectoryHead).filter(pl.col("source") != "rollout")
    return float(heads["cost_usd"].sum() or 0.0)
