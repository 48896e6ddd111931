"""What a step prints is kept and shown, and nothing is started for it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from dagster._core.execution.compute_logs import mirror_stream_to_file

from trace_assets.definitions import build
from trace_assets.orchestration.cheaper_dagster import show_by_threads
from trace_assets.orchestration.instance import prepare_instance
from trace_assets.orchestration.materialization import materialize_here
from trace_assets.orchestration.planner import Item
from trace_assets.settings import Settings
from trace_assets.store import Home
from trace_assets.study import Study


def test_output_is_kept_in_the_file_and_shown_while_the_step_goes_on(tmp_path: Path) -> None:
    show_by_threads()
    file, (reading, writing) = tmp_path / "step.out", os.pipe()
    with os.fdopen(writing, "w") as stream:
        with mirror_stream_to_file(stream, str(file)):
            os.write(writing, b"begun\n")
            assert os.read(reading, 100) == b"begun\n"  # waits for it, and the step still goes on
            os.write(writing, b"x" * 20_000 + b"\nended\n")
        assert file.read_bytes() == b"begun\n" + b"x" * 20_000 + b"\nended\n"
        os.write(writing, b"after\n")
        assert os.read(reading, 100_000).endswith(b"\nended\nafter\n")
    os.close(reading)
    assert file.read_bytes().endswith(b"ended\n")


def test_a_reader_who_leaves_stops_nothing(tmp_path: Path) -> None:
    show_by_threads()
    file, (reading, writing) = tmp_path / "step.out", os.pipe()
    with os.fdopen(writing, "w") as stream:
        os.close(reading)
        with mirror_stream_to_file(stream, str(file)):
            os.write(writing, b"one\n")
            os.write(writing, b"two\n")
    assert file.read_bytes() == b"one\ntwo\n"


def test_a_run_starts_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = Study(Home.open(tmp_path), Settings())
    definitions = build(study)
    with prepare_instance(study.home) as instance:
        monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("a process was started"))
        (outcome,) = materialize_here(definitions, study, instance, [Item("config/discovery", "")], True)
    assert outcome.made
