"""Tasks that tau2-bench itself corrected later: a check of suspects that rests on nobody's reading.

The simulation files hold the tasks as they were; `../domains` beside them holds a later release. Where the
expected actions, or what is to be told, read otherwise there, somebody upstream found something to correct:
not always that the old ground truth was wrong, and not every wrong one was found.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.formats.reading import Imported
from tests.truth.readings import DATA
from tests.truth.scores import Share, share
from trace_assets.diagnosis.expected.suspects import suspect_tasks


@dataclass(frozen=True)
class Corrected:
    """Suspected tasks of one target beside those that were corrected.

    Attributes:
        target: Where the tasks live.
        changed: Of the tasks that stand in both releases, those corrected.
        true: Of the tasks that are said to be wrong, those corrected.
        found: Of the corrected tasks, those that are said to be wrong.
        suspected: Of the merely suspected tasks, those corrected.
    """

    target: str
    changed: Share
    true: Share
    found: Share
    suspected: Share


def score_corrected(imported: Imported) -> list[Corrected]:
    """Return it for each target with a later release beside the files."""
    wrong: dict[str, set[str]] = {"wrong": set(), "suspected": set()}
    for row in suspect_tasks(imported.trajectories, {one.task_id: one for one in imported.tasks}):
        wrong[row.grade].add(row.task_id)
    rows = []
    for target in sorted({one.target for one in imported.tasks}):
        later = _released(target.removeprefix("tau2:"))
        changed = {
            one.task_id: _judged(one.payload["task"]) != _judged(later[str(one.payload["id"])])
            for one in imported.tasks
            if one.target == target and str(one.payload["id"]) in later
        }
        if not any(changed.values()):
            continue
        said, merely = (
            [task for task in changed if task in wrong["wrong"]],
            [task for task in changed if task in wrong["suspected"] - wrong["wrong"]],
        )
        rows.append(
            Corrected(
                target,
                share(changed.values()),
                share(changed[task] for task in said),
                share(task in wrong["wrong"] for task in changed if changed[task]),
                share(changed[task] for task in merely),
            )
        )
    return rows


def _released(domain: str) -> Mapping[str, Any]:
    path = Path(os.environ[DATA]).absolute().parent / "domains" / domain / "tasks.json"
    if not path.is_file():
        return {}
    return {str(task["id"]): task for task in json.loads(path.read_text(encoding="utf-8"))}


def _judged(task: Mapping[str, Any]) -> object:
    """Return what decides whether a run passes: the calls, and what is to be told."""
    criteria = task.get("evaluation_criteria") or {}
    actions = [(one["name"], one.get("arguments")) for one in criteria.get("actions") or ()]
    return actions, criteria.get("communicate_info") or []
