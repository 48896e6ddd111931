"""Recorded simulations judged again by the benchmark that is installed: does it still say the same?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trace_assets.errors import InputError, TraceError
from trace_assets.progress import progress
from trace_assets.study import Study
from trace_assets.targets.process.target import ProcessTarget
from trace_assets.targets.registry import open_named


@dataclass(frozen=True)
class Regraded:
    """What came of one file.

    Attributes:
        file: Its name.
        n: Simulations in it.
        equal: Rewards that came out as recorded.
        differing: Task, reward now and reward recorded of the others; a fault's words in place of the reward.
    """

    file: str
    n: int
    equal: int
    differing: list[tuple[str, Any, Any]] = field(default_factory=list)

    @property
    def words(self) -> str:
        """The first difference in words, empty without one."""
        if not self.differing:
            return ""
        task, now, then = self.differing[0]
        return f"; task {task}: {now} now, {then} recorded"


def regrade_files(study: Study, domain: str, files: Sequence[Path]) -> list[Regraded]:
    """Judge files of simulations again, each on the tasks that were recorded with it.

    Args:
        study: Where the benchmark is installed.
        domain: Their target.
        files: Simulation files of tau2-bench.

    Raises:
        InputError: A file is not one.
        Unavailable: The benchmark is not installed.
    """
    target = open_named(study.settings.targets, domain, study.home.targets, serverless=True)
    assert isinstance(target, ProcessTarget)
    try:
        return [_regrade(target, file) for file in files]
    finally:
        target.close()


def _regrade(target: ProcessTarget, file: Path) -> Regraded:
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        tasks = {task["id"]: task for task in document["tasks"]}
        simulations = document["simulations"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{file} is not a simulation file of tau2-bench ({type(error).__name__}: {error}); name one with "
            "'tasks' and 'simulations'."
        ) from error
    equal, differing = 0, []
    with progress(f"regrade {file.name}", len(simulations)) as bar:
        for simulation in simulations:
            name = simulation.get("task_id", "")
            fields = {"simulation": simulation, "task": tasks.get(name)}
            try:
                answer = target.ask("regrade", arguments=fields)
                now, then = answer["reward"], answer["recorded"]
            except TraceError as fault:
                now, then = str(fault), None
            if now == then and now is not None:
                equal += 1
            else:
                differing.append((name, now, then))
            bar.advance(1)
    return Regraded(file.name, len(simulations), equal, differing)
