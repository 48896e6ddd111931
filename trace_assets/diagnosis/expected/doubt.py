"""What a rule says against a task's ground truth."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from trace_assets.diagnosis.detectors.identity import looks_like_id
from trace_assets.diagnosis.detectors.values import leaves
from trace_assets.diagnosis.expected.facts import Facts, Thing
from trace_assets.records import ExpectedAction
from trace_assets.records.triage import Grade


class Doubt(NamedTuple):
    """What one rule says against a task.

    Attributes:
        grade: `wrong` or `suspected`.
        rule: The rule's name.
        detail: One sentence for a person.
        places: Which expected writes it concerns, counted among the expected writes; empty: all.
        arguments: Which of their arguments; empty: the whole call.
        reading: The tool and the policy's words that were held against it; empty where it rests on none.
    """

    grade: Grade
    rule: str
    detail: str
    places: tuple[int, ...] = ()
    arguments: tuple[str, ...] = ()
    reading: tuple[str, ...] = ()


Doubter = Callable[[Facts, str], Iterator[Doubt]]
"""Looks at one task (by id) beside all facts."""


def record_of(facts: Facts, task_id: str, action: ExpectedAction) -> Thing | None:
    """Return the record of the object that a call acts on: the first argument that names one."""
    for _, value in leaves(action.arguments):
        if looks_like_id(value):
            record = facts.record(task_id, str(value))
            if record is not None:
                return record
    return None
