"""All that the report shows, as plain records: it knows nothing of where they are stored."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import polars as pl

from trace_assets.records import (
    Adapter,
    ArmSummary,
    BaseCheckpoint,
    Capability,
    Contrast,
    Environment,
    EnvironmentCheck,
    Evaluation,
    Label,
    LedgerEntry,
    MessageRow,
    NoHarm,
    Route,
    RouterRegret,
    RouterScore,
    SelectedCapability,
    TrainingPoint,
    Triage,
)
from trace_assets.records.table import from_frame
from trace_assets.settings import Selection
from trace_assets.store.tables import Store

SAMPLES_KEPT = {"failed": 3, "passed": 1}
"""Transcripts shown for a kept capability: failures that lack it, and a success that has it."""
SAMPLES_REJECTED = {"failed": 1, "passed": 0}


@dataclass(frozen=True)
class Sample:
    """One trajectory that shows a capability lacking or present."""

    label: Label
    triage: Triage
    messages: tuple[MessageRow, ...]


@dataclass(frozen=True)
class ReportData:
    """Records by table; an empty list is a table that is not there yet."""

    triage: Sequence[Triage] = ()
    capabilities: Sequence[Capability] = ()
    contrasts: Sequence[Contrast] = ()
    selected: Sequence[SelectedCapability] = ()
    samples: Sequence[Sample] = ()
    environments: Sequence[Environment] = ()
    checks: Sequence[EnvironmentCheck] = ()
    base_models: Sequence[BaseCheckpoint] = ()
    adapters: Sequence[Adapter] = ()
    curves: Sequence[TrainingPoint] = ()
    harm: Sequence[NoHarm] = ()
    routes: Sequence[Route] = ()
    router_scores: Sequence[RouterScore] = ()
    regrets: Sequence[RouterRegret] = ()
    evaluations: Sequence[Evaluation] = ()
    summary: Sequence[ArmSummary] = ()
    ledger: Sequence[LedgerEntry] = ()
    thresholds: Selection = field(default_factory=Selection)

    @property
    def names(self) -> dict[str, str]:
        """Capability id to name; adapters carry the same ids."""
        return {row.capability_id: row.name for row in self.capabilities}

    @property
    def overall(self) -> dict[str, ArmSummary]:
        """Arm to its summary over all test tasks."""
        return {row.arm: row for row in self.summary if row.skill == "all"}

    @property
    def kept(self) -> list[SelectedCapability]:
        """Kept capabilities, by target and rank."""
        return sorted((row for row in self.selected if row.kept), key=lambda row: (row.target, row.rank))


def gather(store: Store, thresholds: Selection | None = None) -> ReportData:
    """Read what the report shows; tables that were not written yet are empty.

    Args:
        store: The tables.
        thresholds: The section `selection` that was in force, for the plots; the defaults unless given.
    """
    triage = store.read(Triage)
    selected = store.read(SelectedCapability)
    chosen = choose_samples(selected, store.read(Label), triage)
    wanted = sorted({label.trajectory_id for label in chosen})
    said: dict[str, list[MessageRow]] = defaultdict(list)
    frame = store.frame(MessageRow).filter(pl.col("trajectory_id").is_in(wanted))
    for row in from_frame(frame.sort("trajectory_id", "index"), MessageRow):
        said[row.trajectory_id].append(row)
    outcome = {row.trajectory_id: row for row in triage}
    return ReportData(
        triage=triage,
        capabilities=store.read(Capability),
        contrasts=store.read(Contrast),
        selected=selected,
        samples=[
            Sample(label, outcome[label.trajectory_id], tuple(said[label.trajectory_id])) for label in chosen
        ],
        environments=store.read(Environment),
        checks=store.read(EnvironmentCheck),
        base_models=store.read(BaseCheckpoint),
        adapters=store.read(Adapter),
        curves=store.read(TrainingPoint),
        harm=store.read(NoHarm),
        routes=store.read(Route),
        router_scores=store.read(RouterScore),
        regrets=store.read(RouterRegret),
        evaluations=[row for row in store.read(Evaluation) if row.split == "test"],
        summary=store.read(ArmSummary),
        ledger=store.read(LedgerEntry),
        thresholds=thresholds or Selection(),
    )


def choose_samples(
    selected: Iterable[SelectedCapability], labels: Iterable[Label], triage: Iterable[Triage]
) -> list[Label]:
    """Pick the transcripts a reader is shown for each capability, from different tasks where there are.

    Failures put down to the agent that lack it, with evidence first; for kept ones also a success that has
    it. The first labelling pass speaks for all.
    """
    outcome = {row.trajectory_id: row for row in triage}
    pools: dict[tuple[str, str], list[Label]] = defaultdict(list)
    for label in labels:
        row = outcome.get(label.trajectory_id)
        if row is None or label.labelling_pass != 0:
            continue
        if label.label == "LACKING" and row.outcome == "failed" and row.fault == "agent":
            pools[label.capability_id, "failed"].append(label)
        elif label.label == "PRESENT" and row.outcome == "passed":
            pools[label.capability_id, "passed"].append(label)
    chosen: list[Label] = []
    for one in sorted(selected, key=lambda row: (row.target, row.rank)):
        for side, most in (SAMPLES_KEPT if one.kept else SAMPLES_REJECTED).items():
            pool = sorted(
                pools[one.capability_id, side], key=lambda label: (not label.evidence, label.trajectory_id)
            )
            seen: set[str] = set()
            fresh = [
                label
                for label in pool
                if outcome[label.trajectory_id].task_id not in seen
                and not seen.add(outcome[label.trajectory_id].task_id)  # type: ignore[func-returns-value]
            ]
            chosen += fresh[:most]
    return chosen
