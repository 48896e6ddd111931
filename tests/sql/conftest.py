"""A small home in records, every figure of which can be counted by hand."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from trace_assets.records import (
    ArmSummary,
    Capability,
    Contrast,
    EnvironmentCheck,
    Label,
    LedgerEntry,
    Message,
    RouterRegret,
    RouterScore,
    SelectedCapability,
    Task,
    ToolCall,
    TrainingPoint,
    Trajectory,
    Triage,
)
from trace_assets.store import Home, Store
from trace_assets.store.trajectories import write_trajectories

OUTCOMES: dict[str, tuple[str, list[bool | None]]] = {
    "desk/1": ("cancel", [True, False, True, None]),
    "desk/2": ("cancel", [False, False]),
    "desk/3": ("refund", [True, True]),
}
"""Task -> its skill and the outcomes of its trials: 7 judged, 4 passed, 1 unjudged."""


def names() -> list[tuple[str, str, bool | None]]:
    """Return (trajectory id, task id, outcome) of every trajectory: t0 to t7."""
    rows = [(task, outcome) for task, (_, outcomes) in OUTCOMES.items() for outcome in outcomes]
    return [(f"t{number}", task, outcome) for number, (task, outcome) in enumerate(rows)]


def trajectory(name: str, task: str, success: bool | None) -> Trajectory:
    """One call of `get_order`, which fails exactly in failed trajectories; two calls share one message."""
    first = ToolCall(id="c1", name="get_order", arguments={"order": name})
    second = ToolCall(id="c2", name="cancel_order", arguments={"order": name})
    messages = (
        Message(role="user", content=f"cancel {name}"),
        Message(role="assistant", tool_calls=(first, second)),
        Message(
            role="tool",
            content="no such order" if success is False else "{}",
            tool_call_id="c1",
            tool_name="get_order",
            is_error=success is False,
        ),
        Message(role="assistant", content="Done."),
    )
    return Trajectory(
        trajectory_id=name,
        task_id=task,
        target="desk",
        task_batch="b1",
        policy="agent",
        success=success,
        reward=None if success is None else float(success),
        stop="infrastructure_error" if success is None else "completed",
        fault="infrastructure" if success is None else None,
        n_messages=len(messages),
        messages=messages,
    )


def contrast(capability: str, gap: float | None) -> Contrast:
    """A contrast row whose figures are those of `labels` where they matter to a query."""
    return Contrast.model_validate(
        {
            "capability_id": capability,
            "target": "desk",
            "er_failed": gap,
            "er_failed_low": 0.3,
            "er_failed_high": 1.0,
            "er_passed": 0.0,
            "er_passed_low": 0.0,
            "er_passed_high": 0.4,
            "gap": gap,
            "gap_low": 0.2,
            "gap_high": 1.0,
            "coverage": 0.66666,
            "coverage_low": 0.3,
            "coverage_high": 0.9,
            "p_value": 0.01,
            "q_value": 0.02,
            "n_failed": 3,
            "n_passed": 4,
            "n_failed_relevant": 2,
            "n_passed_relevant": 1,
            "n_failed_lacking": 2,
            "n_passed_lacking": 0,
            "n_tasks": 3,
            "alpha": None,
        }
    )


def label(name: str, capability: str, value: str, evidence: tuple[int, ...] = ()) -> Label:
    """A label of the detectors."""
    return Label.model_validate(
        {
            "trajectory_id": name,
            "capability_id": capability,
            "labeller": "detectors",
            "label": value,
            "evidence": evidence,
            "rationale": "cancelled without looking" if value == "LACKING" else "",
        }
    )


LABELS = {
    "look": {"t0": "PRESENT", "t1": "LACKING", "t4": "LACKING", "t5": "NA"},
    "greet": {"t1": "LACKING", "t6": "PRESENT"},
}
"""Capability -> labels that are not NA by default; `look` is kept, `greet` rejected."""


@pytest.fixture
def empty_home(tmp_path: Path) -> Home:
    return Home.open(tmp_path / "empty")


@pytest.fixture
def home(small: Path, tmp_path: Path) -> Home:
    """The small home, each test's own."""
    return Home.open(shutil.copytree(small, tmp_path / "home"))


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small home, to be copied."""
    home = Home.open(tmp_path_factory.mktemp("small") / "home")
    store = Store(home.tables)
    every = names()
    store.write(
        [
            Task(task_id=task, target="desk", task_batch="b1", tags=(tag,))
            for task, (tag, _) in OUTCOMES.items()
        ],
        Task,
        "b1",
    )
    write_trajectories(store, [trajectory(*one) for one in every], "b1")
    store.write([_triage(*one) for one in every], Triage, "b1")
    store.write(
        [
            Capability(
                capability_id=one, target="desk", name=f"{one} first", description="", analyst="detectors"
            )
            for one in LABELS
        ],
        Capability,
    )
    store.write(
        [
            label(name, capability, own.get(name, "NA"), (1, 2) if own.get(name) == "LACKING" else ())
            for capability, own in LABELS.items()
            for name, _, _ in every
        ],
        Label,
        "b1",
    )
    store.write([contrast("look", 0.98765), contrast("greet", None)], Contrast)
    store.write(
        [
            SelectedCapability(
                capability_id=one,
                target="desk",
                name=f"{one} first",
                kept=kept,
                rank=rank,
                reason="because",
                marginal_coverage=None,
            )
            for rank, (one, kept) in enumerate([("look", True), ("greet", False)], start=1)
        ],
        SelectedCapability,
    )
    _later_stages(store)
    return home.path


def _triage(name: str, task: str, success: bool | None) -> Triage:
    failed_by = {
        "t1": ("agent", "agent"),
        "t4": ("agent", "agent"),
        "t5": ("user_simulator", "stopped_first"),
    }
    fault, rule = failed_by.get(name, ("infrastructure", "fault") if success is None else (None, "passed"))
    outcome = "unjudged" if success is None else "passed" if success else "failed"
    return Triage.model_validate(
        {
            "trajectory_id": name,
            "target": "desk",
            "task_id": task,
            "outcome": outcome,
            "fault": fault,
            "rule": rule,
        }
    )


def _later_stages(store: Store) -> None:
    point = {
        "name": "look",
        "reward_mean": 0.5,
        "reward_std": 0.4,
        "success_rate": 0.5,
        "n": 16,
        "dead_groups": 0.25,
    }
    store.write(
        [
            TrainingPoint.model_validate(point | {"iteration": 1}),
            TrainingPoint.model_validate(
                point | {"iteration": 2, "success_rate": 0.75, "validation_rate": 0.8, "validation_n": 50}
            ),
        ],
        TrainingPoint,
        "look",
    )
    check = {"environment_id": "e1", "capability_id": "look", "level": "runtime"}
    store.write(
        [
            EnvironmentCheck.model_validate(check | {"check_id": "a", "status": "pass", "severity": "error"}),
            EnvironmentCheck.model_validate(
                check | {"check_id": "b", "status": "fail", "severity": "warning", "value": 0.3, "n": 10}
            ),
            EnvironmentCheck.model_validate(check | {"check_id": "c", "status": "fail", "severity": "error"}),
            EnvironmentCheck.model_validate(check | {"check_id": "d", "status": "skip", "severity": "info"}),
        ],
        EnvironmentCheck,
        "look",
    )
    arm = {"skill": "all", "n_tasks": 3, "n_trials": 6, "n_faults": 0, "pass_hat_k": 0.5}
    rates = {"pass_rate_low": 0.2, "pass_rate_high": 0.9, "delta_low": None, "delta_high": None}
    store.write(
        [
            ArmSummary.model_validate(
                arm | rates | {"arm": "base", "pass_rate": 0.5, "delta": None, "mcnemar_p": None}
            ),
            ArmSummary.model_validate(
                arm | rates | {"arm": "routed", "pass_rate": 0.75, "delta": 0.25, "mcnemar_p": 0.5}
            ),
            ArmSummary.model_validate(
                arm
                | rates
                | {"arm": "routed", "skill": "cancel", "pass_rate": 1.0, "delta": 0.5, "mcnemar_p": 0.5}
            ),
        ],
        ArmSummary,
    )
    store.write(
        [
            RouterScore(
                router="classifier",
                split=split,
                n=10,
                accuracy=0.8,
                accuracy_low=0.5,
                accuracy_high=0.9,
                calibration_error=0.1,
                majority_share=0.4,
            )
            for split in ("test", "discovery (held out)")
        ],
        RouterScore,
    )
    store.write(
        [
            RouterRegret(
                router="classifier",
                split="test",
                reference=reference,
                choice="",
                n_tasks=3,
                router_rate=0.7,
                reference_rate=0.8,
                regret=0.1,
                regret_low=0.0,
                regret_high=0.2,
            )
            for reference in ("oracle", "random")
        ],
        RouterRegret,
    )
    _spent(store, 1, "rollouts", "trajectories", {"wall": 10.0, "cpu": 8.0, "rollouts": 8.0}, 0.5)
    _spent(store, 2, "rollouts", "trajectories", {"wall": 2.0, "cpu": 1.0, "rollouts": 2.0}, 0.25)
    _spent(store, 3, "training", "adapter", {"wall": 5.0, "cpu": 20.0}, 0.0)


def _spent(
    store: Store, hour: int, stage: str, asset: str, quantities: dict[str, float], money: float
) -> None:
    entries = [
        LedgerEntry(
            recorded_at=datetime(2026, 1, 1, hour, tzinfo=UTC),
            stage=stage,
            asset=asset,
            partition="b1",
            kind=kind,
            quantity=quantity,
            unit="s",
            cost_usd=money if number == 0 else 0.0,
        )
        for number, (kind, quantity) in enumerate(quantities.items())
    ]
    store.write(entries, LedgerEntry, f"entry{hour}")
