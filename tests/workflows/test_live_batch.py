"""The batch of a live target: a name that tables can carry, and nothing rolled out without tasks."""

from __future__ import annotations

from pathlib import Path

import pytest

from trace_assets.assets.trajectories import write_batch
from trace_assets.errors import InputError
from trace_assets.records import Task
from trace_assets.settings import Settings
from trace_assets.store import Home
from trace_assets.study import Study


def study(tmp_path: Path, name: str) -> Study:
    server = {"engine": "openai", "base_url": "http://127.0.0.1:9/v1", "model": "nobody"}
    settings = Settings.model_validate({"targets": {"name": name}, "rollouts": server})
    return Study(Home.open(tmp_path), settings)


@pytest.mark.parametrize(
    ("name", "batch"), [("embedded", "embedded"), ("tau2:airline", "tau2-airline"), ("my desk", "my-desk")]
)
def test_a_target_of_any_name_has_a_batch_that_tables_can_carry(
    name: str, batch: str, tmp_path: Path
) -> None:
    one = study(tmp_path, name)
    assert one.live_batch == batch
    one.store.write([], Task, one.live_batch)  # raises where a partition cannot be called so


def test_without_tasks_nothing_is_rolled_out_in_silence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--select tasks --select trajectories"):
        write_batch(study(tmp_path, "embedded"), "embedded")
