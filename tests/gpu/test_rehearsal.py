"""`make gpu` is run where there is a GPU, which is seldom: here it is rehearsed, so that it still runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("trl")

from tests.gpu.__main__ import PARTS, ROOT
from tests.gpu.results import Asked, Skip, read_lines
from tests.gpu.table import page, summary

pytestmark = pytest.mark.train
FIGURES = {
    "device": ("bf16 product of",),
    "memory": ("experts: layer 0, gate_up_proj", "qwen3-4b, 2 x", "loss and gradient are numbers"),
    "nccl": ("FSDP2 over NCCL, one process", "DDP over NCCL, one process"),
}


def call(out: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.gpu", "--out", str(out), *arguments],
        cwd=ROOT,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=800,
    )


def rows(out: Path, part: str) -> dict[str, Any]:
    return {
        line["what"]: line["value"]
        for line in read_lines(out)
        if line["kind"] == "row" and line["part"] == part
    }


@pytest.mark.slow
def test_cheap_parts_are_rehearsed_and_make_one_table(tmp_path: Path) -> None:
    first = call(tmp_path, "--rehearse", "--parts", "device,memory")
    assert first.returncode == 0, first.stdout + (tmp_path / "gpu.log").read_text()
    for part in ("device", "memory"):
        for wanted in FIGURES[part]:
            assert any(wanted in what for what in rows(tmp_path, part)), (part, wanted)
    shown = (tmp_path / "gpu.md").read_text()
    assert "2 ok" in shown and "no figure here says anything about a GPU" in shown
    assert f"{len(PARTS) - 2} not run: parity" in shown


@pytest.mark.slow
@pytest.mark.parametrize("part", ["parity", "throughput", "nccl"])
def test_dear_parts_are_rehearsed(part: str, tmp_path: Path) -> None:
    done = call(tmp_path, "--rehearse", "--parts", part)
    assert done.returncode == 0, done.stdout + (tmp_path / "gpu.log").read_text()
    for wanted in FIGURES.get(part, ("qwen3-4b",)):
        assert any(wanted in what for what in rows(tmp_path, part)), (part, wanted)


@pytest.mark.ci
def test_without_a_gpu_a_part_is_skipped_by_name_and_counted(tmp_path: Path) -> None:
    done = call(tmp_path, "--parts", "device")
    assert done.returncode == 0, done.stderr
    assert "1 skipped: device" in done.stdout
    assert "torch sees no GPU" in (tmp_path / "gpu.md").read_text()


def test_a_part_that_fails_or_hangs_is_in_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.gpu import __main__ as command

    asked = Asked("device", tmp_path / "gpu.jsonl", "1", True, tmp_path, 60.0)
    monkeypatch.setattr(command.sys, "executable", "/bin/false")
    status, reason = command._in_another(asked, tmp_path / "gpu.log")
    assert status == "FAILED" and "exit code 1" in reason
    sleeper = tmp_path / "sleeper"
    sleeper.write_text("#!/bin/sh\nsleep 60\n")
    sleeper.chmod(0o755)
    monkeypatch.setattr(command.sys, "executable", str(sleeper))
    asked.seconds = 0.5
    assert command._in_another(asked, tmp_path / "gpu.log")[0] == "out of time"


def test_a_figure_that_cannot_be_had_does_not_end_its_part(tmp_path: Path) -> None:
    asked = Asked("parity", tmp_path / "gpu.jsonl", "1", True, tmp_path, 60.0)
    with asked.trying("one"):
        raise ValueError("no such kernel")
    with asked.trying("two"):
        raise Skip("one device")
    lines = [json.loads(line) for line in asked.file.read_text().splitlines()]
    assert [(line["kind"], line.get("value")) for line in lines] == [
        ("row", "FAILED"),
        ("failed", None),
        ("row", "skipped"),
    ]
    assert lines[0]["note"] == "ValueError: no such kernel"


def test_later_runs_take_the_place_of_earlier_ones() -> None:
    def line(run: str, kind: str, **more: Any) -> dict[str, Any]:
        return {"part": "nccl", "run": run, "kind": kind, **more}

    end = {"status": "FAILED", "seconds": 1.0, "reason": "broke"}
    row = {"what": "x", "value": 1, "unit": "", "note": ""}
    lines = [line("1", "row", **row), line("1", "end", **end), line("2", "row", **{**row, "value": 2})]
    lines.append(line("2", "end", **{**end, "status": "ok", "reason": ""}))
    assert summary(lines, ["nccl"]) == "1 ok"
    assert "| x | 2 |" in page(lines, ["nccl"]) and "broke" not in page(lines, ["nccl"])
    assert "1 FAILED: nccl" in page(lines[:2], ["nccl"]) and "broke" in page(lines[:2], ["nccl"])
