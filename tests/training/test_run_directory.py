from __future__ import annotations

from pathlib import Path

from trace_assets.store.unfinished import COMPLETE
from trace_assets.training.checkpoints import RunDirectory
from trace_assets.training.validation import Rate


def checkpoint(run_directory: RunDirectory, iteration: int, complete: bool) -> Path:
    folder = run_directory.checkpoints / f"checkpoint-{iteration}"
    folder.mkdir(parents=True)
    if complete:
        (folder / COMPLETE).touch()
    return folder


def test_the_latest_complete_checkpoint_is_found(tmp_path: Path) -> None:
    run_directory = RunDirectory(tmp_path / "a", {"seed": 0})
    assert run_directory.last_checkpoint() is None
    checkpoint(run_directory, 6, True)
    twelfth = checkpoint(run_directory, 12, True)
    checkpoint(run_directory, 18, False)
    assert run_directory.last_checkpoint() == (twelfth, 12)


def test_what_was_measured_is_kept_for_the_same_run_only(tmp_path: Path) -> None:
    rate = Rate(successes=3, n=8, reward=0.5)
    RunDirectory(tmp_path / "a", {"seed": 0}).store_rate("before", rate)
    assert RunDirectory(tmp_path / "a", {"seed": 0}).stored_rate("before") == rate
    assert RunDirectory(tmp_path / "a", {"seed": 1}).stored_rate("before") is None
    assert RunDirectory(tmp_path / "a", {"seed": 0}).stored_rate("before") is None


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    RunDirectory(tmp_path / "a", {}).clear()
    assert list(tmp_path.iterdir()) == []
