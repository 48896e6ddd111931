from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from trace_assets.records import (
    Capability,
    Consensus,
    Evaluation,
    Label,
    LedgerEntry,
    MessageRow,
    SelectedCapability,
    ToolCall,
    TrajectoryHead,
    Triage,
)
from trace_assets.report.data import MOST_NAMED, MOST_SAMPLES, ReportData, choose_samples, gather, stage_costs
from trace_assets.report.page import render
from trace_assets.report.views.evidence import MOST_CHARACTERS, MOST_EVIDENCE, MOST_TURNS, transcript
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


def test_samples_are_failures_with_evidence_from_different_tasks_and_successes() -> None:
    chosen = choose_samples([_selected(True)], LABELS, TRIAGE)
    assert [(one.trajectory_id, one.evidence) for one in chosen.shown] == [
        ("a2", (1,)),
        ("b1", (2,)),
        ("d1", (1,)),
    ]
    assert chosen.named == (("c", ("a1",)),)
    rejected = choose_samples([_selected(False)], LABELS, TRIAGE)
    assert [one.trajectory_id for one in rejected.shown] == ["a2", "d1"]
    assert rejected.named == (("c", ("a1", "b1")),)
    assert choose_samples([], LABELS, TRIAGE).shown == ()
    against = [*LABELS, _label("f1", "LACKING", (1,))]
    lucky = [*TRIAGE, _triage("f1", "passed", None, "f")]
    assert [one.trajectory_id for one in choose_samples([_selected(False)], against, lucky).shown] == [
        "a2",
        "d1",
        "f1",
    ]


def test_labels_of_several_passes_are_shown_as_agreed() -> None:
    labels = [
        _label("a1", "PRESENT", (1,), turn=1),
        _label("a1", "LACKING", (3,), turn=2),
        _label("a1", "LACKING", (4,), turn=3),
        _label("b1", "LACKING", (1,), turn=1),
        _label("b1", "PRESENT", (1,), turn=2),
    ]
    agreed = {"a1": "LACKING", "b1": None}
    consensus = [
        Consensus.model_validate(
            {
                "trajectory_id": name,
                "capability_id": "c",
                "target": "t",
                "label": label,
                "p_na": 0.0,
                "p_present": 0.3,
                "p_lacking": 0.7,
                "n_coders": 3,
                "unanimous": False,
            }
        )
        for name, label in agreed.items()
    ]
    chosen = choose_samples([_selected(True)], labels, TRIAGE, consensus)
    assert [(one.trajectory_id, one.labelling_pass, one.evidence) for one in chosen.shown] == [
        ("a1", 2, (3,))
    ]
    alone = choose_samples([_selected(True)], [_label("a1", "LACKING", (3,), turn=2)], TRIAGE)
    assert [one.trajectory_id for one in alone.shown] == ["a1"]


def test_the_page_has_room_for_so_many_transcripts_and_kept_ones_come_first() -> None:
    names = [f"c{n:03}" for n in range(MOST_SAMPLES)]
    selected = [
        SelectedCapability(
            capability_id=name, target="t", name=name, kept=n > 90, rank=n, reason="r", marginal_coverage=None
        )
        for n, name in enumerate(names)
    ]
    triage = [_triage(f"r{n:03}", "failed", "agent", str(n)) for n in range(100)]
    labels = [
        _label(row.trajectory_id, "LACKING", (1,)).model_copy(update={"capability_id": name})
        for row in triage
        for name in names
    ]
    chosen = choose_samples(selected, labels, triage)
    assert len(chosen.shown) == MOST_SAMPLES
    assert [one.capability_id for one in chosen.shown[:27:3]] == names[91:]
    named = dict(chosen.named)
    assert set(named) == set(names) and {len(some) for some in named.values()} == {MOST_NAMED}
    assert not set(named["c091"]) & {one.trajectory_id for one in chosen.shown if one.capability_id == "c091"}


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


def test_gather_tells_nothing_found_from_not_run_and_imported_money(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write(TRIAGE, Triage, "batch")
    assert not gather(store).nothing_found
    store.write([], SelectedCapability)
    heads = [
        TrajectoryHead(
            trajectory_id=name,
            task_id=name,
            target="t",
            task_batch="batch",
            policy="p",
            cost_usd=cost,
            source=source,
        )
        for name, cost, source in (
            ("a", 1.5, "tau2:a.json"),
            ("b", None, "tau2:a.json"),
            ("c", 4.0, "rollout"),
        )
    ]
    store.write(heads, TrajectoryHead, "batch")
    data = gather(store)
    assert data.nothing_found and data.imported_usd == 1.5


def test_long_transcripts_keep_the_evidence_and_count_the_rest() -> None:
    rows = [MessageRow(trajectory_id="a", index=i, role="user", content=str(i)) for i in range(200)]
    turns = transcript(rows, (100,))
    assert sum(turn.get("skipped", 1) for turn in turns) == 200
    assert [turn["index"] for turn in turns if turn.get("shows")] == [100]
    assert 98 in [turn.get("index") for turn in turns] and len(turns) <= MOST_TURNS
    everywhere = transcript(rows, tuple(range(0, 200, 3)))
    shown = sum("index" in turn and turn["shows"] for turn in everywhere)
    assert MOST_EVIDENCE <= shown < 2 * MOST_TURNS
    assert sum(turn.get("labelled", 0) for turn in everywhere) == 67 - shown
    assert len(transcript(rows[:MOST_TURNS], ())) == MOST_TURNS


def test_messages_and_calls_are_bounded_and_say_what_is_cut() -> None:
    calls = (ToolCall(id="1", name="n" * 1000, arguments={"a": "x" * 5000, "b": "y" * 700, "c": 1}),)
    rows = [
        MessageRow(trajectory_id="a", index=0, role="assistant", content=None, tool_calls=calls),
        MessageRow(trajectory_id="a", index=1, role="tool", content='{"id": 7, "deep": {"x": [1]}}'),
        MessageRow(trajectory_id="a", index=2, role="tool", content='{"z": "' + "q" * 9000 + '"}'),
        MessageRow(trajectory_id="a", index=3, role="tool", content="ok", requestor="user", tool_name="look"),
    ]
    call, laid_out, long, users = transcript(rows, (), "s")
    (shown,) = call["calls"]
    assert sum(len(one["value"]) for one in shown["arguments"]) == MOST_CHARACTERS
    assert [one["name"] for one in shown["arguments"]] == ["a"]
    assert shown["cut"] == 5002 - MOST_CHARACTERS + 700 + 1
    assert laid_out["text"] == 'id: 7\ndeep: {"x": [1]}'
    assert len(long["text"]) == MOST_CHARACTERS and long["cut"] == 9003 - MOST_CHARACTERS
    assert users["who"] == "tool look for the user" and users["anchor"] == ""


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
