"""A private Docker daemon for the time of a command: shared by those who need it, gone after the last."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

pytestmark = [
    pytest.mark.docker,
    pytest.mark.skipif(
        os.geteuid() != 0 or not shutil.which("dockerd"),
        reason="starting a Docker daemon needs root and dockerd",
    ),
]


class Place:
    """A folder for a daemon, and the scripts that use it."""

    def __init__(self, folder: Path, scripts: Path) -> None:
        self.folder, self.scripts = folder, scripts
        # A daemon that does not answer, so that a private one is needed.
        self.variables = {
            **os.environ,
            "DOCKER_HOST": f"unix://{folder}/none",
            "TRACE_DOCKER_DIR": str(folder),
        }

    def begin(self, script: str) -> subprocess.Popen[str]:
        """Run a line of shell with a sandbox; it says a word once it runs."""
        process = subprocess.Popen(
            ["sh", str(self.scripts / "with_sandbox.sh"), "sh", "-c", script],
            env=self.variables,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert process.stdout is not None and process.stdout.readline(), process.wait(300)
        return process

    def by_hand(self, action: str) -> None:
        script = str(self.scripts / "start_docker.sh")
        subprocess.run(["sh", script, action, str(self.folder)], check=True, capture_output=True, timeout=900)

    def answers(self) -> bool:
        address = f"unix://{self.folder}/docker.sock"
        asked = subprocess.run(["docker", "--host", address, "version"], capture_output=True, timeout=900)
        return asked.returncode == 0


@pytest.fixture
def place(project_root: Path) -> Iterator[Place]:
    with TemporaryDirectory(prefix="trace-docker.") as folder:  # the path of a socket has to be short
        made = Place(Path(folder), project_root / "sandboxes")
        yield made
        made.by_hand("down")


USE = "docker version --format {{.Server.Version}} && %s && docker version >/dev/null"
UNTIL = "until [ -e {0} ]; do sleep 0.1; done".format


def test_the_last_of_several_stops_the_daemon(place: Place) -> None:
    first = place.begin(USE % "sleep 0.2")
    second = place.begin(USE % UNTIL(place.folder / "go"))
    assert first.wait(300) == 0
    assert second.poll() is None and place.answers()
    (place.folder / "go").touch()
    assert second.wait(300) == 0  # it still had its daemon
    assert not place.answers() and not (place.folder / "docker.pid").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_command_leaves_no_daemon(number: signal.Signals, place: Place) -> None:
    process = place.begin(USE % "sleep 600")
    assert place.answers()
    os.killpg(process.pid, number)
    assert process.wait(300) == 128 + number
    assert not place.answers()


def test_a_daemon_that_was_started_by_hand_stays(place: Place) -> None:
    place.by_hand("up")
    assert place.begin(USE % "true").wait(300) == 0
    assert place.answers()


def test_a_daemon_that_is_kept_by_hand_stays(place: Place) -> None:
    """`up` while a command runs on a daemon of its own: from then on it is somebody's."""
    process = place.begin(USE % UNTIL(place.folder / "go"))
    place.by_hand("up")
    (place.folder / "go").touch()
    assert process.wait(300) == 0
    time.sleep(0.2)
    assert place.answers()


def test_the_commands_own_exit_code_comes_back(place: Place) -> None:
    assert place.begin("echo here; exit 3").wait(300) == 3
    assert not place.answers()
