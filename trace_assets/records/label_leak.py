"""How much of the outcome shows through what labellers see beside the agent's own behaviour."""

from __future__ import annotations

from typing import ClassVar

from trace_assets.records.base import Record


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
