"""A disk that is full or read-only, and a history that is damaged: one sentence, and the way back works."""

from __future__ import annotations

import os
import shlex
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.durability.small_home import Small, forget_process, quick_models, simulation_file
from trace_assets.assets.report import write_page
from trace_assets.cli.checkup.files import files
from trace_assets.errors import InputError, Unavailable
from trace_assets.orchestration.asset_files import damaged_database, explain
from trace_assets.store import Home

DIAGNOSED = tuple(
    word for name in ("tasks", "trajectories", "triage") for word in ("--select", f"{name}[desk]")
)
SELECTED = shlex.join(DIAGNOSED)
FORKED = Path(__file__).parents[1] / "forked.py"
LOOKED_AT = f"""
        trace sync --dry-run {SELECTED} --set triage.transcript_tokens=300 >due.txt
        grep -q 'config/triage' due.txt && echo due
"""
"""What an edit would make due is rehearsed, which takes files of its own."""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Small]:
    folder = tmp_path_factory.mktemp("disks")
    made = Small(folder / "home", simulation_file(folder / "desk.json"), ("tasks", "trajectories", "triage"))
    with quick_models():
        made.work()
        forget_process()
        yield made


@pytest.fixture(scope="module")
def can_mount(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Skip where this process may not mount, as in most containers."""
    folder = tmp_path_factory.mktemp("mount")
    if (
        shutil.which("unshare") is None
        or subprocess.run(
            ["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", str(folder)], capture_output=True
        ).returncode
    ):
        pytest.skip("this process may not mount a file system of its own")


def alone(script: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Run a script where it can mount; `trace` is the program, on the home."""
    environment = {**os.environ, "TRACE_HOME": str(home), "HF_HUB_OFFLINE": "1"}
    with tempfile.TemporaryDirectory(prefix="trace-forked-") as folder:
        # The process that commands are forked from has to see what the script mounts.
        start = f"""
        '{sys.executable}' -P '{FORKED}' serve '{folder}/socket' >'{folder}/said' 2>&1 &
        trap "kill $!" EXIT
        trace() {{ '{sys.executable}' -E -S '{FORKED}' '{folder}/socket' "$@"; }}
        """
        return subprocess.run(
            ["unshare", "-m", "sh", "-c", start + script],
            env=environment,
            cwd=home.parent,
            capture_output=True,
            text=True,
            timeout=600,
        )


@pytest.mark.ci
def test_a_read_only_home_can_be_looked_at(small: Small, can_mount: None, tmp_path: Path) -> None:
    home = small.folder
    done = alone(
        f"""
        set -e
        mount --bind '{home}' '{home}'
        mount -o remount,ro,bind '{home}'
        cd '{tmp_path}'
        trace sql "SELECT count(*) AS n FROM trajectories" --format csv
        trace report
        trace sync --dry-run {SELECTED}
        {LOOKED_AT}
        trace doctor --quick --for diagnose >doctor.txt || echo "doctor $?"
        trace sync {SELECTED} || echo "sync $?"
        """,
        home,
    )
    assert done.stdout.split() == [
        *("n", "6", "trace-report.html", "Everything", "is", "up", "to", "date."),
        *("due", "doctor", "3", "sync", "2"),
    ], done.stdout + done.stderr
    assert "is not writable" in done.stderr and "Traceback" not in done.stderr
    assert "Whose fault" in (tmp_path / "trace-report.html").read_text()
    assert "can be looked at" in (tmp_path / "doctor.txt").read_text()


@pytest.mark.ci
def test_a_page_goes_where_it_is_asked_for(small: Small, tmp_path: Path) -> None:
    study = small.study()
    assert write_page(study, tmp_path / "page.html") == tmp_path / "page.html"
    with pytest.raises(InputError, match="cannot be written"):
        write_page(study, tmp_path / "nowhere" / "page.html")
    assert not (study.home.reports / "report.html").exists()


@pytest.mark.ci
def test_a_full_disk_ends_in_one_sentence_and_the_command_goes_on(
    small: Small, can_mount: None, tmp_path: Path
) -> None:
    home, disk = small.folder, tmp_path / "disk"
    disk.mkdir()
    simulation_file(tmp_path / "more.json", 400)
    done = alone(
        f"""
        mount -t tmpfs -o size=64m tmpfs '{disk}'
        cp -a '{home}' '{disk}/home'
        export TRACE_HOME='{disk}/home'
        dd if=/dev/zero of='{disk}/filler' bs=4k 2>/dev/null
        trace ingest '{tmp_path}/more.json'; echo "ingest $?"
        trace sync --again 'triage[desk]' {SELECTED}; echo "sync $?"
        trace sql "SELECT count(*) AS n FROM trajectories" --format csv
        cd '{tmp_path}'
        {LOOKED_AT}
        rm '{disk}/filler'
        trace ingest '{tmp_path}/more.json' >/dev/null; echo "ingest $?"
        trace sync {SELECTED} >/dev/null; echo "sync $?"
        trace sql "SELECT count(*) AS n FROM trajectories" --format csv
        trace sync --dry-run {SELECTED}
        """,
        home,
    )
    said = [line for line in done.stdout.splitlines() if not line.startswith(" ")]
    assert [line for line in said if line.split()[0] in ("ingest", "sync")] == [
        *("ingest 3", "sync 3", "ingest 0", "sync 0"),
    ], done.stdout + done.stderr
    assert said.count("due") == 1
    # The ingest on the full disk brought nothing, the one after it all that desk does not hold.
    assert [line for line in said if line.isdigit()] == ["6", "400"]
    assert said[-1] == "Everything is up to date."
    assert "Traceback" not in done.stderr and done.stderr.count("the disk is full") == 2


@pytest.mark.ci
def test_a_damaged_history_ends_in_one_sentence_and_the_way_back_works(small: Small, tmp_path: Path) -> None:
    home, wanted = tmp_path / "home", small.versions()
    shutil.copytree(small.folder, home)
    database = home / "dagster" / "history" / "runs" / "index.db"
    content = bytearray(database.read_bytes())
    content[: 3 * 4096] = os.urandom(3 * 4096)
    database.write_bytes(content)
    assert damaged_database(home / "dagster") == database
    done = subprocess.run(
        [sys.executable, "-m", "trace_assets", "sync", "--dry-run", *DIAGNOSED],
        env={**os.environ, "TRACE_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 3, done.stderr
    assert "Traceback" not in done.stderr and "is damaged" in done.stderr and "`mv " in done.stderr
    moved = Small(home, small.source, small.selection)
    assert any(one.name == "history" for one in files(moved.study(), deep=True))
    (home / "dagster").rename(home / "dagster.damaged")
    moved.work()
    assert moved.versions() == wanted and moved.due() == []


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (OSError(28, "No space left on device", "/h/x"), Unavailable, "disk is full (/h/x)"),
        (RuntimeError("IO Error: No space left on device"), Unavailable, "disk is full (/h)"),
        (OSError(5, "Input/output error", "/h/x"), Unavailable, "disk fails"),
        (OSError(30, "Read-only file system", "/h/x"), InputError, "make the home writable"),
        (FileExistsError(17, "File exists", "/h/reports"), InputError, "/h/reports is not what should lie"),
        (NotADirectoryError(20, "Not a directory", "/h/inbox/x"), InputError, "move it away"),
        (OSError(36, "File name too long", "/other/" + "x" * 300), InputError, "give a shorter one"),
        (
            sqlite3.OperationalError("attempt to write a readonly database"),
            InputError,
            "/h/dagster cannot be",
        ),
        (sqlite3.OperationalError("unable to open database file"), InputError, "make the home writable"),
        (sqlite3.OperationalError("disk I/O error"), Unavailable, "`ulimit -f`"),
        (sqlite3.OperationalError("no such table: runs"), Unavailable, "lacks tables"),
        (ValueError("Add this table by running `dagster instance migrate`."), Unavailable, "dagster.damaged"),
        (OSError(24, "Too many open files", "/h/x"), Unavailable, "`ulimit -n"),
        (FileNotFoundError(2, "No usable temporary directory found in ['/tmp']"), Unavailable, "TMPDIR"),
    ],
)
def test_what_lies_beneath_is_explained(error: Exception, kind: type[Exception], words: str) -> None:
    outer = ValueError("something failed")
    outer.__cause__ = error
    told = explain(outer, Path("/h"))
    assert isinstance(told, kind) and words in str(told)


def test_other_errors_are_left_as_they_are(tmp_path: Path) -> None:
    for error in (
        ValueError("x"),
        OSError(2, "No such file", "/h/x"),
        OSError(17, "x", "/o/x"),
        PermissionError(13, "no", "/other/x"),
    ):
        assert explain(error, Path("/h")) is None
    assert damaged_database(tmp_path) is None


def test_the_home_that_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(InputError, match=r"not writable.*`trace sql`"):
        Home.open(tmp_path)
    assert not Home.open(tmp_path, writable=False).is_writable
