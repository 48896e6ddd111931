"""A machine that trains on a home in a bucket is lost: another one goes on from the last checkpoint there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")
pytest.importorskip("obstore", reason="the extra `objects` (obstore) is not installed")

from tests.store.objects.s3_server import serving  # noqa: E402
from tests.training import word_target  # noqa: E402
from trace_assets.records import TrainingPoint  # noqa: E402
from trace_assets.store.objects.bucket import Bucket  # noqa: E402
from trace_assets.store.objects.remote import RemoteHome  # noqa: E402
from trace_assets.store.objects.work import Work, release  # noqa: E402
from trace_assets.system.object_address import parse_address  # noqa: E402

pytestmark = [pytest.mark.train, pytest.mark.ci]
ADAPTER = Path("models", "adapters", "words")
SECTION = word_target.SECTION.model_copy(update={"iterations": 6, "save_every": 2, "validate_every": 2})


def remote_home() -> RemoteHome:
    return RemoteHome(Bucket.open(parse_address("s3://bucket/study")))


def train_and_be_lost(base: Path, place: Path) -> None:
    """Train on a home in the bucket; die as by `kill -9` when the fourth iteration's checkpoint is there."""
    remote = remote_home()
    work = Work(remote, place)
    work.begin()
    work.keep_sending(0.05)

    def on_point(point: TrainingPoint) -> None:
        if point.iteration != 5:
            return
        while not any("checkpoint-4/complete" in name for name in remote.under_way(remote.state())):
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGKILL)

    word_target.train(base, work.folder / ADAPTER, section=SECTION, on_point=on_point)


def test_another_machine_goes_on_from_the_checkpoint_in_the_bucket(
    words: ModuleType, base: Path, tmp_path: Path
) -> None:
    undisturbed, points = words.train(base, tmp_path / "alone" / "words", section=SECTION)
    with serving():
        code = "import sys; from pathlib import Path; from tests.training.test_lost_machine import "
        code += "train_and_be_lost as lost; lost(Path(sys.argv[1]), Path(sys.argv[2]))"
        died = subprocess.run(
            [sys.executable, "-c", code, str(base), str(tmp_path / "first")],
            capture_output=True,
            cwd=Path(__file__).parents[2],
            timeout=600,
        )
        assert died.returncode == -signal.SIGKILL, died.stderr.decode()
        assert "process" in release(remote_home())
        work = Work(remote_home(), tmp_path / "second")
        work.begin()
        told: list[TrainingPoint] = []
        found: Any = words.train(base, work.folder / ADAPTER, section=SECTION, on_point=told.append)
        assert [point.iteration for point in told] == [5, 6], "it did not go on from the checkpoint"
        assert found[0].adapter_id == undisturbed.adapter_id
        assert [point.iteration for point in found[1]] == [point.iteration for point in points]
        assert work.end() == ""
