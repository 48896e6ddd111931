from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from trace_assets.records import (
    Capability,
    Evaluation,
    Label,
    LedgerEntry,
    MessageRow,
    SelectedCapability,
    Triage,
)
from trace_assets.report.costs import stage_costs
from trace_assets.report.data import ReportData, choose_samples, gather
from trace_assets.report.page import render
from trace_assets.report.views.evidence import MOST_TURNS, transcript
from trace_assets.settings import Selection
from trace_assets.store.tables import Store


def _triage(name: str, outcome: str, fault: str | None, task: str) -> Triage:
    return Triage.model_validate(
        {
            "trajectory_id": name,
            "target": "t",
            "task_id": task,
            "outcome": outcome,
            "fault": fault,
            "rule": "r",
        }
    )


def _label(name: str, value: str, evidence: tuple[int, ...] = (), turn: int = 0) -> Label:
    return Label.model_validate(
        {
            "trajectory_id": name,
            "capability_id": "c",
            "labeller": "x",
            "label": value,
            "evidence": evidence,
            "labelling_pass": turn,
        }
    )


TRIAGE = [
    _triage("a1", "failed", "agent", "a"),
    _triage("a2", "failed", "agent", "a"),
    _triage("b1", "failed", "agent", "b"),
    _triage("c1", "failed", "user_simulator", "c"),
    _triage("d1", "passed", None, "d"),
    _triage("e1", "failed", "agent", "e"),
]
LABELS = [
    _label("a1", "LACKING"),
    _label("a2", "LACKING", (1,)),
    _label("b1", "LACKING", (2,)),
    _label("b1", "LACKING", (0,), turn=1),
    _label("c1", "LACKING", (1,)),
    _label("d1", "PRESENT", (1,)),
    _label("e1", "PRESENT", (1,)),
]


def _selected(kept: bool) -> SelectedCapability:
    return SelectedCapability(
        capability_id="c", target="t", name="C", kept=kept, rank=1, reason="r", marginal_coverage=None
    )


def test_samples_are_failures_with_evidence_from_different_tasks_and_a_success() -> None:
    chosen = choose_samples([_selected(True)], LABELS, TRIAGE)
    assert [(one.trajectory_id, one.evidence) for one in chosen] == [("a2", (1,)), ("b1", (2,)), ("d1", (1,))]
    assert [one.trajectory_id for one in choose_samples([_selected(False)], LABELS, TRIAGE)] == ["a2"]
    assert choose_samples([], LABELS, TRIAGE) == []


def test_gather_reads_what_is_there(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert render(gather(store)) == render(ReportData())
    store.write(TRIAGE, Triage, "batch")
    store.write(LABELS, Label, "batch")
    store.write([_selected(True)], SelectedCapability)
    store.write(
        [Capability(capability_id="c", target="t", name="C", description="", analyst="x")], Capability
    )
    messages = [
        MessageRow(trajectory_id=name, index=index, role="user", content=f"{name} says {index}")
        for name in ("a2", "b1", "d1", "e1")
        for index in (2, 0, 1)
    ]
    store.write(messages, MessageRow, "batch")
    trials = [
        Evaluation(task_id="x", trial=0, arm="base", adapter=None, success=True, reward=1.0, split=split)
        for split in ("test", "validation")
    ]
    store.write(trials[:1], Evaluation, "test")
    store.write(trials[1:], Evaluation, "validation")
    data = gather(store, Selection(min_gap=0.4))
    assert data.thresholds.min_gap == 0.4 and data.names == {"c": "C"}
    assert [sample.label.trajectory_id for sample in data.samples] == ["a2", "b1", "d1"]
    assert [message.index for message in data.samples[0].messages] == [0, 1, 2]
    assert [row.split for row in data.evaluations] == ["test"]
    assert "b1 says 2" in render(data) and "e1 says 1" not in render(data)


def test_long_transcripts_keep_the_evidence_and_count_the_rest() -> None:
    rows = [MessageRow(trajectory_id="a", index=i, role="user", content=str(i)) for i in range(200)]
    turns = transcript(rows, (100,))
    assert sum(turn.get("skipped", 1) for turn in turns) == 200
    assert [turn["index"] for turn in turns if turn.get("shows")] == [100]
    assert 98 in [turn.get("index") for turn in turns] and len(turns) <= MOST_TURNS
    everywhere = transcript(rows, tuple(range(0, 200, 3)))
    assert sum("index" in turn and turn["shows"] for turn in everywhere) == 67
    assert len(transcript(rows[:MOST_TURNS], ())) == MOST_TURNS


def test_costs_count_time_once_and_money_always() -> None:
    def entry(minute: int, asset: str, kind: str, quantity: float, usd: float = 0.0) -> LedgerEntry:
        return LedgerEntry(
            recorded_at=datetime(2026, 1, 1, 0, minute, tzinfo=UTC),
            stage="training",
            asset=asset,
            kind=kind,
            quantity=quantity,
            unit="s",
            cost_usd=usd,
            run_id=str(minute),
        )

    ledger = [
        entry(2, "a", "wall", 5, 0.25),
        entry(1, "a", "wall", 50, 1.0),
        entry(1, "a", "cpu", 40),
        entry(1, "b", "wall", 7),
    ]
    assert stage_costs(ledger) == {"training": {"usd": 1.25, "wall": 12.0}}
    assert stage_costs([]) == {}
