"""What is little is taken in by the command itself: a worker would import the program anew for it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from trace_assets.cli import data
from trace_assets.study import Study
from trace_assets.workflows.ingest import Ingested


@pytest.mark.parametrize(
    ("batches", "messages", "jobs"),
    [
        (1, 1_000, 0),
        (9, 12_000, 0),
        (data.FEW_BATCHES + 1, 12_000, None),
        (2, data.IN_THIS_PROCESS, None),
    ],
)
def test_workers_are_started_for_many_files_or_many_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batches: int, messages: int, jobs: int | None
) -> None:
    new = {f"batch-{number}": 1 for number in range(batches)}
    came = Ingested(new, {}, {name: messages // batches + 1 for name in new})
    asked: list[Any] = []
    monkeypatch.setattr("trace_assets.workflows.ingest.ingest", lambda *_: came)
    monkeypatch.setattr(
        "trace_assets.cli.progress.run_sync",
        lambda *_, **options: asked.append(options["jobs"]) or SimpleNamespace(exit_code=0),  # type: ignore[func-returns-value]
    )
    monkeypatch.setenv("TRACE_HOME", str(tmp_path / "home"))
    assert data.take_in(Study.open(), [tmp_path], "auto", False) == (came, 0)
    assert asked == [jobs]
