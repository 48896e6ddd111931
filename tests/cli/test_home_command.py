"""`trace home` and `trace doctor --store`: what they print, what they refuse, and their exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.durability.small_home import simulation_file
from tests.store.objects.homes import make_home, words_of, write
from tests.store.objects.s3_server import SECRET, S3Server, first, serving
from trace_assets.cli import budget
from trace_assets.cli.diagnosis import plan
from trace_assets.cli.doctor import doctor
from trace_assets.cli.home import home as command
from trace_assets.errors import InputError, Unavailable
from trace_assets.records import Trajectory, Triage
from trace_assets.store import Home, Store, frame_version
from trace_assets.store.objects.bucket import Bucket
from trace_assets.store.objects.remote import RemoteHome
from trace_assets.study import Study
from trace_assets.system.object_address import parse_address

URL = "s3://bucket/study"


@pytest.fixture
def server() -> Iterator[S3Server]:
    with serving() as one:
        yield one


def run(*arguments: object) -> str:
    done = CliRunner().invoke(command, [str(one) for one in arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_there_and_back(server: S3Server, tmp_path: Path) -> None:
    home = make_home(tmp_path / "home")
    said = json.loads(run("copy", home.path, URL, "--json"))
    assert said["changed"] and said["moved"] == said["files"]
    assert "held" in run("copy", home.path, URL) and "0 contents of 0 bytes sent" in run(
        "copy", home.path, URL
    )
    assert "contents of" in run("copy", URL, tmp_path / "back")
    assert words_of(tmp_path / "back") == "first"
    write(home, "shop", "second")
    run("copy", home.path, URL)
    assert json.loads(run("clean", URL, "--json")) == {"address": URL, "removed": 3}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("copy", "a", "b"), "one of the two is a folder"),
        (("copy", URL, "s3://bucket/other"), "one of the two is a folder"),
        (("copy", "nowhere", URL), "is no home"),
        (("copy", URL, "back", "--again"), "--again is for a copy to a store"),
        (("copy", f"s3://me:{SECRET}@bucket/study", "back"), "neither user, password"),
        (("clean", "study"), "neither a folder nor an object store"),
    ],
)
def test_wrong_use_is_one_sentence(arguments: tuple[str, ...], said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        run(*arguments)
    assert SECRET not in str(caught.value)


def test_the_doctor_says_whether_a_store_can_hold_a_home(
    server: S3Server, capsys: pytest.CaptureFixture[str]
) -> None:
    doctor(store=URL, as_json=True)
    assert json.loads(capsys.readouterr().out) == {"store": URL, "ok": True}
    server.fault = lambda request: "unconditional"
    with pytest.raises(Unavailable, match="cannot hold a home"):
        doctor(store=URL)


def trace(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    code = "import sys; from trace_assets.cli import main; sys.argv = ['trace', *sys.argv[1:]]; main()"
    environment = {**os.environ, **variables}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


@pytest.mark.ci
def test_commands_hold_a_home_in_a_store_and_send_it_when_they_end(server: S3Server, tmp_path: Path) -> None:
    here = {"TRACE_HOME": URL, "TRACE_CACHE": str(tmp_path / "a")}
    home = make_home(tmp_path / "home")
    run("copy", home.path, URL)
    store = RemoteHome(Bucket.open(parse_address(URL)))
    before = store.state().pointer
    done = trace("targets", "list", **here)  # it may write, so it holds the home
    assert done.returncode == 0, done.stderr
    after = store.state().pointer
    assert after.commit != before.commit and not after.worker


@pytest.mark.ci
def test_a_plan_counts_what_was_spent_and_the_doctor_may_write(
    server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = make_home(tmp_path / "home")
    home.answers.mkdir()
    (home.answers / "spent.jsonl").write_text("")
    run("copy", home.path, URL)
    cache = str(tmp_path / "cache")
    done = trace("doctor", "--accept-losses", "--quick", TRACE_HOME=URL, TRACE_CACHE=cache)
    assert done.returncode in (0, 3) and "not writable" not in done.stderr, done.stderr
    assert not RemoteHome(Bucket.open(parse_address(URL))).state().pointer.worker
    for name, value in {"TRACE_HOME": URL, "TRACE_CACHE": cache, "DAGSTER_HOME": ""}.items():
        monkeypatch.setenv(name, value)
    seen: list[Study] = []
    monkeypatch.setattr(budget, "print_budget", lambda study, **options: seen.append(study))
    plan()
    assert (seen[0].home.answers / "spent.jsonl").is_file() and not seen[0].home.is_writable


@pytest.mark.slow
def test_what_could_not_be_sent_is_sent_by_the_next_command(server: S3Server, tmp_path: Path) -> None:
    here = {"TRACE_HOME": URL, "TRACE_CACHE": str(tmp_path / "a")}
    run("copy", make_home(tmp_path / "home").path, URL)
    assert trace("targets", "list", **here).returncode == 0
    (work,) = (tmp_path / "a").glob("*/work")
    write(Home(work), "shop", "of this machine")
    server.fault = first("409", "PUT", "/blobs/", times=99)
    done = trace("targets", "list", **here)
    assert done.returncode == 3 and "does not have what was made" in done.stderr
    server.fault = lambda request: ""
    done = trace("sql", "SELECT instruction FROM tasks", TRACE_HOME=URL, TRACE_CACHE=str(tmp_path / "b"))
    assert "first" in done.stdout and "of this machine" not in done.stdout
    done = trace("targets", "list", TRACE_HOME=URL, TRACE_CACHE=str(tmp_path / "b"))
    assert done.returncode == 3 and "is being worked on" in done.stderr
    assert trace("targets", "list", **here).returncode == 0
    done = trace("sql", "SELECT instruction FROM tasks", TRACE_HOME=URL, TRACE_CACHE=str(tmp_path / "b"))
    assert "of this machine" in done.stdout
    assert "was free" in run("release", URL)


@pytest.mark.slow
def test_a_study_goes_on_from_machine_to_machine(server: S3Server, tmp_path: Path) -> None:
    machine = [{"TRACE_HOME": URL, "TRACE_CACHE": str(tmp_path / name)} for name in "abc"]
    source = simulation_file(tmp_path / "simulations.json")
    done = trace("ingest", str(source), **machine[0])
    assert done.returncode == 0, done.stderr
    done = trace("sync", "--select", "triage", **machine[1])
    assert done.returncode == 0, done.stderr
    done = trace("sync", "--dry-run", "--select", "triage", **machine[2])
    assert "Everything is up to date" in done.stdout
    done = trace("report", "--output", str(tmp_path / "page.html"), **machine[2])
    assert done.returncode == 0 and (tmp_path / "page.html").is_file()
    folder = tmp_path / "folder"
    assert trace("ingest", str(source), TRACE_HOME=str(folder)).returncode == 0
    assert trace("sync", "--select", "triage", TRACE_HOME=str(folder)).returncode == 0
    run("copy", URL, tmp_path / "back")
    for record in (Trajectory, Triage):
        frames = [Store.of(Home(one)).frame(record) for one in (folder, tmp_path / "back")]
        assert frame_version(frames[0], record) == frame_version(frames[1], record)
