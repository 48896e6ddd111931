"""`kill -9` of a training and a tournament at random moments: they go on and end as if nothing had been."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def killed(kind: str, folder: Path, kills: int, root: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return what came of the work that nobody disturbed, and of the one that was killed."""
    program = [sys.executable, "-m", "tests.crash.killed_work", kind, str(folder), str(kills), str(kills)]
    done = subprocess.run(program, capture_output=True, text=True, cwd=root)
    assert done.returncode == 0, done.stderr[-3000:]
    undisturbed, *others = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(others) == kills
    for one in others:
        print(f"{kind}: before {one['before']}, then {one.get('first', one.get('played'))}")
        assert one["result"] == undisturbed["result"]
    return undisturbed, others


NUMBERS = [pytest.param(1, marks=pytest.mark.ci), pytest.param(6, marks=pytest.mark.slow)]


@pytest.mark.train
@pytest.mark.parametrize("kills", NUMBERS)
def test_a_training_goes_on_from_its_last_whole_checkpoint(
    kills: int, tmp_path: Path, project_root: Path
) -> None:
    pytest.importorskip("trl")
    for one in killed("training", tmp_path, kills, project_root)[1]:
        before = one["before"]
        assert not before["half_made"], "a folder appears whole or not at all"
        last = before["done"] or before["saved"] == 12
        assert one["first"] == ([] if last else [before["saved"] + 1])


@pytest.mark.parametrize("kills", NUMBERS)
def test_a_tournament_plays_no_world_again_that_was_finished(
    kills: int, tmp_path: Path, project_root: Path
) -> None:
    for one in killed("tournament", tmp_path, kills, project_root)[1]:
        assert sorted([*one["before"]["finished"], *one["played"]]) == [1, 2, 3, 4]
