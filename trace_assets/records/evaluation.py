"""What each arm achieved on tasks that nothing was tuned on."""

from __future__ import annotations

from typing import ClassVar

from trace_assets.records.base import Record, Split


class Evaluation(Record):
    """Row of the table `evaluations`: one trial of one task under one arm."""

    table: ClassVar[str] = "evaluations"
    key: ClassVar[tuple[str, ...]] = ("arm", "task_id", "trial")

    task_id: str
    trial: int
    arm: str
    """`base`, `routed`, `oracle_routed`, `mixed_grpo`, `merged:<way>`, or `adapter:<name>`."""
    adapter: str | None
    """Adapter name that acted, None for the base model."""
    success: bool | None
    """None when a fault kept the trial from being judged."""
    reward: float | None
    fault: str | None = None
    skill: str = ""
    """The generator's own tag, for the per-skill table."""
    split: Split = "test"
    """`validation` rows chose the oracle's adapters and the no-harm figures; `test` rows are the result."""


class ArmSummary(Record):
    """Row of the table `evaluation_summary`: an arm over a group of tasks, against the base arm."""

    table: ClassVar[str] = "evaluation_summary"
    key: ClassVar[tuple[str, ...]] = ("skill", "arm")

    arm: str
    skill: str
    """`all`, or one skill."""
    n_tasks: int
    n_trials: int
    n_faults: int
    pass_rate: float | None
    pass_rate_low: float | None
    pass_rate_high: float | None
    delta: float | None
    """Pass rate minus the base arm's on the same tasks."""
    delta_low: float | None
    delta_high: float | None
    """Paired bootstrap over tasks."""
    mcnemar_p: float | None
    """Exact McNemar on per-task majority outcomes against base; null for base itself."""
    pass_hat_k: float | None
    """Probability that all k trials pass, k = trials a task."""
