"""Folders that are named instead of files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.formats import test_swe_agent, test_tau2_layouts
from tests.formats.forms import CHAT, lines
from trace_assets.errors import InputError
from trace_assets.formats import read_trajectories
from trace_assets.formats.registry import expand


def test_what_a_folder_holds_is_read_and_the_rest_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / ".hidden").mkdir()
    lines(tmp_path / ".hidden" / "a.jsonl", {"messages": CHAT, "reward": 1})
    lines(tmp_path / "deep" / "b.jsonl", {"messages": CHAT, "reward": 1})
    lines(tmp_path / "c.jsonl", {"messages": CHAT, "reward": 0})
    (tmp_path / "preds.json").write_text('{"x": 1}')
    (tmp_path / "notes.txt").write_text("no trajectory")
    read = read_trajectories([tmp_path])
    assert [one.task_batch for one in read.trajectories] == ["c", "b"]
    (problem,) = read.problems
    assert (problem.severity, problem.path) == ("notice", str(tmp_path))
    assert "1 of its 3 files" in problem.message and "preds.json" in problem.message


def test_a_file_that_is_named_beside_its_folder_is_read_once(tmp_path: Path) -> None:
    path = lines(tmp_path / "c.jsonl", {"messages": CHAT, "reward": 1})
    assert expand([path, tmp_path]) == ([path], [])


def test_only_files_of_the_format_that_was_asked_for(tmp_path: Path) -> None:
    lines(tmp_path / "c.jsonl", {"messages": CHAT, "reward": 1})
    with pytest.raises(InputError, match=r"holds no trajectories.*1 files.*'messages'"):
        expand([tmp_path], "atif")
    with pytest.raises(InputError, match="there is no format 'none'"):
        expand([tmp_path], "none")
    (nothing := tmp_path / "nothing").mkdir()
    with pytest.raises(InputError, match="holds no trajectories"):
        expand([nothing])


def test_a_run_of_swe_agent_is_one_batch(tmp_path: Path) -> None:
    run = tmp_path / "default__m-1"
    for number in range(3):
        test_swe_agent.laid(run, f"repo__a-{number}")
    (run / "results.json").write_text(
        json.dumps({"resolved_ids": ["repo__a-1"], "submitted_ids": ["repo__a-0"]})
    )
    read = read_trajectories([run])
    assert {one.task_batch for one in read.trajectories} == {"default__m-1"}
    assert [one.success for one in read.trajectories] == [False, True, None]
    assert sorted(problem.kind for problem in read.problems) == ["not_judged", "unknown_format"]


def test_a_run_of_tau2_is_read_by_its_head(tmp_path: Path) -> None:
    head = {"timestamp": "t", "info": test_tau2_layouts.INFO, "tasks": [test_tau2_layouts.TASK]}
    test_tau2_layouts.laid(
        tmp_path / "run", head, test_tau2_layouts.simulation(), test_tau2_layouts.simulation(1)
    )
    files, problems = expand([tmp_path])
    assert files == [tmp_path / "run" / "results.json"] and problems == []
    assert len(read_trajectories([tmp_path]).trajectories) == 2
