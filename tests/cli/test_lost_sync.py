"""A machine is lost in the middle of a sync on a home in a bucket: another plays what is missing alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.answering import Answer, AnsweringServer, completion
from tests.store.objects.s3_server import serving
from trace_assets.records import Trajectory
from trace_assets.store import Home, Store, frame_version
from trace_assets.store.objects.bucket import Bucket
from trace_assets.store.objects.download import copy_down
from trace_assets.store.objects.remote import RemoteHome
from trace_assets.system.object_address import parse_address

pytestmark = pytest.mark.slow
URL, ENOUGH = "s3://bucket/study", 20
SYNC = ("sync", "--select", "tasks", "--select", "trajectories")


class Hesitant(AnsweringServer):
    """Says goodbye at once to some, and to the others when it may."""

    def __init__(self) -> None:
        super().__init__()
        self._http.socket.listen(256)
        self.may, self.counted = threading.Event(), threading.Semaphore(ENOUGH)

    def answer(self, path: str, body: dict[str, Any]) -> Answer:
        """Say goodbye."""
        if not self.counted.acquire(blocking=False):
            self.may.wait()
        return completion("Goodbye.")


def trace(*arguments: str, **variables: str) -> subprocess.Popen[str]:
    code = "import sys; from trace_assets.cli import main; from trace_assets.store.objects import work; "
    code += "work.UNDER_WAY_SECONDS = 0.2; sys.argv = ['trace', *sys.argv[1:]]; main()"
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def said(process: subprocess.Popen[str]) -> str:
    return process.communicate(timeout=600)[0]


def sent_episodes(remote: RemoteHome) -> int:
    """Return how many episodes of the work under way are in the bucket."""
    return sum(
        b"".join(b"".join(remote.read(part, "")) for part in piece.parts).count(b"\n")
        for name, piece in remote.under_way(remote.state()).items()
        if name.startswith("journals/rollouts/")
    )


def test_what_was_played_before_the_machine_was_lost_is_not_played_again(tmp_path: Path) -> None:
    with serving(), Hesitant() as server:
        settings = server.as_policy(tasks=12)
        first, second = (
            {"TRACE_HOME": URL, "TRACE_CACHE": str(tmp_path / name), **settings} for name in ("a", "b")
        )
        remote = RemoteHome(Bucket.open(parse_address(URL)))
        process = trace(*SYNC, **first)
        while sent_episodes(remote) < ENOUGH:
            assert process.poll() is None, said(process)
            time.sleep(0.1)
        refused = trace(*SYNC, **second)
        assert "is being worked on by process" in said(refused) and refused.returncode == 3
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        given = trace("home", "release", URL, **second)
        assert "process" in said(given) and given.returncode == 0
        kept, server.requests = sent_episodes(remote), []
        server.may.set()
        going_on = trace(*SYNC, **second)
        assert said(going_on) and going_on.returncode == 0
        copy_down(remote, tmp_path / "back")
        rows = Store.of(Home(tmp_path / "back")).frame(Trajectory)
        assert len(server.requests) == rows.height - kept < rows.height
        alone = trace(*SYNC, TRACE_HOME=str(tmp_path / "alone"), **settings)
        assert said(alone) and alone.returncode == 0
        of_one = Store.of(Home(tmp_path / "alone")).frame(Trajectory)
        assert frame_version(rows, Trajectory) == frame_version(of_one, Trajectory)
        assert remote.state().pointer.under_way is None
