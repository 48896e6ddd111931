"""A task whose ground truth is doubtful, with the evidence."""

from __future__ import annotations

from typing import ClassVar, Literal

from trace_assets.records.base import Record

Grade = Literal["wrong", "suspected"]


class SuspectTask(Record):
    """Row of the table `suspect_tasks`: one thing that speaks against a task's ground truth."""

    table: ClassVar[str] = "suspect_tasks"
    key: ClassVar[tuple[str, ...]] = ("task_id", "number")

    task_id: str
    number: int
    """Counts what speaks against one task, from 0."""
    target: str
    grade: Grade
    """`wrong`: records or policy say that it asks for what cannot or must not be. `suspected`: nobody passes
    it, or it asks for what it does not grant; it may as well be hard."""
    rule: str
    """The rule that says so."""
    detail: str
    """The evidence in one sentence."""
    places: tuple[int, ...] = ()
    """Which of the expected writes it concerns, counted from 0; empty: all."""
    aside: bool = False
    """Whether its runs are left out of discovery and contrast."""
    n_passed: int = 0
    """Runs of the task that passed: they did what should not be done, or were not asked for it."""
    n_failed: int = 0
    """Runs that failed."""
