"""All that the report shows, as plain records: it knows nothing of where they are stored."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from trace_assets.records import (
    ActionDiff,
    Adapter,
    Agreement,
    ArmSummary,
    BaseCheckpoint,
    Capability,
    Consensus,
    Contrast,
    Environment,
    EnvironmentCheck,
    Evaluation,
    Label,
    LabelLeak,
    Learnability,
    LedgerEntry,
    MessageRow,
    NoHarm,
    Pilot,
    Route,
    RouterRegret,
    RouterScore,
    SelectedCapability,
    Stability,
    SuspectTask,
    ToolUse,
    TrainingPoint,
    TrajectoryHead,
    Triage,
)
from trace_assets.records.table import from_frame
from trace_assets.report.figures import marked
from trace_assets.report.samples import Sample, choose_samples
from trace_assets.settings import Selection
from trace_assets.store.tables import Store


@dataclass(frozen=True)
class ReportData:
    """Records by table; an empty list is a table that is not there yet."""

    triage: Sequence[Triage] = ()
    suspects: Sequence[SuspectTask] = ()
    diffs: Sequence[ActionDiff] = ()
    tool_use: Sequence[ToolUse] = ()
    capabilities: Sequence[Capability] = ()
    contrasts: Sequence[Contrast] = ()
    selected: Sequence[SelectedCapability] = ()
    nothing_found: bool = False
    """Whether diagnosis ran to its end and proposed nothing."""
    samples: Sequence[Sample] = ()
    also_lacking: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Capability id to further failures that lack it, whose messages are not on the page; not all of them."""
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
    routes: Sequence[Route] = ()
    router_scores: Sequence[RouterScore] = ()
    regrets: Sequence[RouterRegret] = ()
    evaluations: Sequence[Evaluation] = ()
    summary: Sequence[ArmSummary] = ()
    ledger: Sequence[LedgerEntry] = ()
    imported_usd: float = 0.0
    """What imported trajectories cost whoever made them, as their files say: part of the ledger's money."""
    elsewhere: bool = False
    """Whether all trajectories were made elsewhere and there is no agent here: nothing can be taught."""
    thresholds: Selection = field(default_factory=Selection)

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
        return sorted((row for row in self.selected if row.kept), key=lambda row: (row.target, row.rank))


def shown_names(capabilities: Sequence[Capability], adapters: Sequence[Adapter]) -> dict[str, str]:
    """Return capability id to name, marked where the adapter was trained on a rejected environment."""
    rejected = {row.name for row in adapters if row.rejected}
    return {
        row.capability_id: marked(row.name) if row.capability_id in rejected else row.name
        for row in capabilities
    }


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
        diffs=store.read(ActionDiff),
        tool_use=store.read(ToolUse),
        capabilities=store.read(Capability),
        contrasts=store.read(Contrast),
        selected=selected,
        nothing_found=not selected and store.has(SelectedCapability),
        samples=[
            Sample(label, outcome[label.trajectory_id], tuple(said[label.trajectory_id]))
            for label in chosen.shown
        ],
        also_lacking=dict(chosen.named),
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
        routes=store.read(Route),
        router_scores=store.read(RouterScore),
        regrets=store.read(RouterRegret),
        evaluations=[row for row in store.read(Evaluation) if row.split == "test"],
        summary=store.read(ArmSummary),
        ledger=store.read(LedgerEntry),
        imported_usd=_imported_usd(store),
        elsewhere=bool(triage) and not store.has(BaseCheckpoint) and not _rolled_out(store),
        thresholds=thresholds or Selection(),
    )


def _telling_labels(store: Store) -> list[Label]:
    """Return the labels that say something: most are NA, and a large study has millions."""
    return from_frame(store.frame(Label).filter(pl.col("label") != "NA"), Label)


def _rolled_out(store: Store) -> int:
    return store.frame(TrajectoryHead).filter(pl.col("source") == "rollout").height


def _imported_usd(store: Store) -> float:
    heads = store.frame(TrajectoryHead).filter(pl.col("source") != "rollout")
    return float(heads["cost_usd"].sum() or 0.0)
