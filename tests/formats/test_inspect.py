"""Inspect logs in both of their forms: what they become, and what is said about broken ones."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.formats.forms import CHAT, lines, one
from tests.formats.reading import read_trajectories

SAMPLE = {
    "id": "a",
    "epoch": 2,
    "input": "Add 7 and 1.",
    "target": "8",
    "messages": [
        {"id": "m1", "role": "user", "content": "attachment://h1"},
        {
            "id": "m2",
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "c1", "function": "add", "arguments": {"x": 7}, "type": "function"}],
        },
        {
            "id": "m3",
            "role": "tool",
            "content": "",
            "tool_call_id": "c1",
            "function": "add",
            "error": {"type": "unknown", "message": "seven is refused"},
        },
    ],
    "attachments": {"h1": "Add 7 and 1."},
    "scores": {"match": {"value": "I"}, "includes": {"value": "C", "explanation": "is in it"}},
    "output": {"choices": [{"stop_reason": "max_tokens"}]},
    "model_usage": {"m": {"input_tokens": 5, "output_tokens": 2, "input_tokens_cache_read": 10}},
    "uuid": "u-a",
    "events": [{"huge": True}],
}
RUN = {
    "version": 2,
    "status": "success",
    "eval": {
        "eval_id": "e1",
        "run_id": "r1",
        "task": "calc",
        "model": "mock/m",
        "scorers": [{"name": "includes"}, {"name": "match"}],
        "model_generate_config": {"temperature": 0.5},
    },
    "plan": {},
}


def archive(path: Path, samples: list[dict[str, Any]], *, header: str = "header.json") -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("_journal/start.json", json.dumps(RUN))
        for number, sample in enumerate(samples):
            file.writestr(f"samples/{number}_epoch_1.json", json.dumps(sample))
        if header == "header.json":
            file.writestr(header, json.dumps(RUN))
    return path


@pytest.mark.parametrize("form", ["eval", "json"])
def test_inspect_logs(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"log.{form}"
    if form == "eval":
        archive(path, [SAMPLE])
    else:
        path.write_text(json.dumps({**RUN, "samples": [SAMPLE]}, indent=2))
    got = one(path)
    assert (got.trajectory_id, got.task_id, got.trial, got.policy) == ("u-a", "inspect:calc/a", 1, "mock/m")
    assert (got.success, got.reward, got.limit) == (True, 1.0, "tokens")
    assert [(check.name, check.passed, check.gates) for check in got.checks] == [
        ("includes", True, True),
        ("match", False, False),
    ]
    assert (got.prompt_tokens, got.completion_tokens, got.source_id) == (15, 2, "e1")
    assert got.model_options == {"temperature": 0.5}
    asked, _, refused = got.messages
    assert asked.content == "Add 7 and 1."
    assert (refused.content, refused.is_error, refused.tool_name) == ("seven is refused", True, "add")


def test_a_broken_sample_is_not_judged_and_a_broken_run_is_told_of(tmp_path: Path) -> None:
    broken = {**SAMPLE, "id": "b", "uuid": "u-b", "error": {"message": "ValueError('boom')"}}
    path = archive(tmp_path / "log.eval", [SAMPLE, broken, {"id": {}}], header="none")
    imported = read_trajectories([path])
    assert [(one.success, one.fault) for one in imported.trajectories] == [
        (True, None),
        (None, "infrastructure"),
    ]
    assert [(problem.kind, problem.position) for problem in imported.problems] == [
        ("incomplete", ""),
        ("not_judged", "samples/1_epoch_1.json"),
        ("left_out", "samples/2_epoch_1.json"),
    ]


def test_entries_packed_with_zstandard(tmp_path: Path) -> None:
    """As Inspect writes them: `zipfile` cannot, so the method in a stored archive is put right by hand."""
    data = json.dumps(SAMPLE).encode()
    packed = pa.compress(data, codec="zstd", asbytes=True)
    path = tmp_path / "log.eval"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("header.json", json.dumps(RUN))
        file.writestr("samples/a_epoch_1.json", packed)
        info = file.getinfo("samples/a_epoch_1.json")
        info.compress_type, info.file_size = 93, len(data)
    assert one(path).trajectory_id == "u-a"
    raw = path.read_bytes()
    path.write_bytes(raw.replace(packed[:60], b"x" * 60))
    imported = read_trajectories([path, lines(tmp_path / "a.jsonl", {"messages": CHAT, "reward": 1})])
    assert "cannot be read from the archive" in str(imported.problems[0])
