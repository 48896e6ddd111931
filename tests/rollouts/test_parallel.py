from __future__ import annotations

from pathlib import Path

import pytest
from counting_target import CountingTarget, obeying, open_and_die, open_both, open_broken

from trace_assets.errors import InputError, Unavailable
from trace_assets.rollouts.episode import Trial
from trace_assets.rollouts.parallel import run_parallel
from trace_assets.rollouts.runner import Journal, run_rollouts


def test_processes_play_what_one_would(tmp_path: Path) -> None:
    target = CountingTarget()
    asked = [Trial(task) for task in target.tasks("test")]
    journal = Journal(tmp_path)
    spread = run_parallel(open_both, asked, processes=2, max_turns=5, journal=journal)
    alone = run_rollouts(target, asked, obeying(), max_turns=5)
    assert [t.model_copy(update={"seconds": None}) for t in spread] == [
        t.model_copy(update={"seconds": None}) for t in alone
    ]
    assert len(list(tmp_path.glob("*.jsonl"))) == 2
    before = {path: path.read_bytes() for path in tmp_path.glob("*.jsonl")}
    assert run_parallel(open_both, asked, processes=1, max_turns=5, journal=journal) == spread
    assert {path: path.read_bytes() for path in tmp_path.glob("*.jsonl")} == before


def test_a_worker_that_cannot_start_says_why() -> None:
    asked = [Trial(task) for task in CountingTarget().tasks("test")]
    with pytest.raises(InputError, match="there is no model here"):
        run_parallel(open_broken, asked, processes=2, max_turns=5)


def test_a_worker_that_dies_is_noticed() -> None:
    asked = [Trial(task) for task in CountingTarget().tasks("test")]
    with pytest.raises(Unavailable, match="code 9"):
        run_parallel(open_and_die, asked, processes=1, max_turns=5)
