"""`trace doctor`: what it finds, what that shuts, and what it exits with."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
from pathlib import Path

import pytest

from trace_assets.assets.report import write_page
from trace_assets.cli.checkup import files as homes
from trace_assets.cli.checkup import machine, services
from trace_assets.cli.checkup.machine import EVERY, TRAINING, Door, Finding, shut
from trace_assets.cli.main import main
from trace_assets.orchestration.instance import prepare_instance
from trace_assets.store import Home
from trace_assets.store.item_locks import mark_due
from trace_assets.store.locks import exclusive, sync_lock
from trace_assets.study import Study
from trace_assets.workflows.ingest import ingest, left_out_of


def trace(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["trace", *arguments])
    with pytest.raises(SystemExit) as exit:
        main()
    return exit.value.code if isinstance(exit.value.code, int) else 0


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home.open(tmp_path / "home")


def program(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_what_is_missing_shuts_the_doors_that_need_it() -> None:
    findings = [
        Finding("a", "ok", "", EVERY),
        Finding("b", "degraded", "", EVERY),
        Finding("c", "missing", "", TRAINING),
        Finding("d", "missing", ""),
    ]
    assert shut(findings) == {Door.diagnose: [], Door.loop: ["c"], Door.real: ["c"]}


def test_exit_code_follows_what_was_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    monkeypatch.setenv("PATH", str(tmp_path))  # neither nvidia-smi nor bwrap
    assert trace(monkeypatch, "doctor", "--quick", "--for", "diagnose", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["asked_for"] == ["diagnose"] and told["doors"]["diagnose"] == {"open": True, "missing": []}
    assert "docker" in told["doors"]["loop"]["missing"] and "gpu" in told["doors"]["real"]["missing"]
    for finding in told["findings"]:
        assert finding["state"] in ("ok", "degraded", "missing") and finding["detail"]
        assert bool(finding["fix"]) == (finding["state"] != "ok"), finding
    assert not any(finding["name"].startswith("sandbox:") for finding in told["findings"])
    assert trace(monkeypatch, "doctor", "--quick") == 3
    shown = capsys.readouterr().out
    assert "the embedded loop: no, for want of docker" in shown and "start_docker.sh up" in shown
    assert trace(monkeypatch, "doctor", "--quick", "--for", "diagnose", "--for", "real") == 3
    assert trace(monkeypatch, "doctor", "--for", "nothing") == 2


def test_a_sandbox_that_cannot_be_had_is_told_with_what_was_not_tried(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    assert trace(monkeypatch, "doctor", "--json", "--set", "sandbox.backend=docker") == 3
    findings = {one["name"]: one for one in json.loads(capsys.readouterr().out)["findings"]}
    assert findings["sandbox: backend"]["state"] == "missing"
    assert "no Docker daemon answers" in findings["sandbox: backend"]["detail"]
    assert findings["sandbox: timing"]["detail"] == "backend failed"


@pytest.mark.docker
def test_a_daemon_that_answers_is_described(docker_daemon: None, tmp_path: Path) -> None:
    study = Study.open(tmp_path, overrides=["sandbox.backend=docker"])
    daemon, image = services.docker_daemon(study)
    assert daemon.state in ("ok", "degraded") and "cgroup" in daemon.detail and daemon.needed_for == TRAINING
    assert image.name == "sandbox image"


def test_bubblewrap_is_needed_only_where_the_settings_take_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for backend, docker_works, needed in (
        ("docker", False, ()),
        ("auto", True, ()),
        ("auto", False, TRAINING),
        ("bubblewrap", True, TRAINING),
    ):
        study = Study.open(tmp_path, overrides=[f"sandbox.backend={backend}"])
        found = services.bubblewrap(study, docker_works)
        assert (found.state, found.needed_for) == ("missing", needed), backend
    program(tmp_path, "bwrap", "echo bubblewrap 0.8.0")
    assert services.bubblewrap(study, True).detail.startswith("bubblewrap 0.8.0")


def test_packages_are_held_against_their_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        "polars<3,>=1.30",
        "pydantic<1",
        "no-such-package-anywhere>=1",
        'no-such-trainer>=2; extra == "train"',
        'pytest>=8; extra == "dev"',
    ]
    monkeypatch.setattr(machine, "requires", lambda _: lines)
    base, bounds, train = machine.packages()
    assert (base.state, base.needed_for) == ("missing", EVERY) and "no-such-package-anywhere" in base.detail
    assert (
        bounds.name == "pydantic" and bounds.state == "degraded" and bounds.fix == "pip install 'pydantic<1'"
    )
    assert (train.state, train.needed_for) == ("missing", TRAINING) and "[train]" in train.fix
    monkeypatch.setattr(machine, "requires", lambda _: ["polars<3,>=1.30"])
    assert [one.state for one in machine.packages()] == ["ok"]


def test_the_installed_packages_are_those_that_were_tested() -> None:
    assert {one.state for one in machine.packages() if one.needed_for == EVERY} == {"ok"}


@pytest.mark.parametrize(
    ("answer", "states", "words"),
    [
        ("echo '0, NVIDIA H100, 81559, 550.54'; echo '1, Tesla T4, 15360, 550.54'", ["ok", "degraded"], "T4"),
        ("echo 'NVIDIA-SMI has failed'; exit 9", ["missing"], "has failed"),
    ],
)
def test_gpus_are_read_from_the_driver(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answer: str, states: list[str], words: str
) -> None:
    program(tmp_path, "nvidia-smi", answer)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(machine, "version", lambda _: "2.13.0+cpu")
    found = machine.gpus()
    assert [one.state for one in found if one.name != "torch on the gpu"] == states
    assert words in " ".join(one.detail for one in found)
    if len(states) == 2:
        assert found[-1].state == "missing" and found[-1].fix.endswith("'torch==2.13.0'")


def test_little_memory_and_disk_shut_every_door(home: Home) -> None:
    for free, state in ((8.0, "ok"), (2.0, "degraded"), (0.2, "missing")):
        found = machine._enough("disk", free, "some", wanted=4, least=0.5, fix="make room")
        assert found.state == state and bool(found.fix) == (state != "ok")
    assert machine.memory().detail.count("GiB") >= 1 and machine.disk(home.path).state in ("ok", "degraded")


def test_a_port_that_is_taken_is_told() -> None:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        one.listen(1)
        number = one.getsockname()[1]
        assert machine.port(number, "another").state == "degraded"
    assert machine.port(number, "another").state == "ok"


def test_a_home_that_cannot_be_written_is_missing(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    (good,) = homes.home(home)
    assert good.state in ("ok", "degraded") and list(home.path.iterdir()) == []
    (new,) = homes.home(Home(home.path / "not there"))
    assert new.state == "ok" and "can be made" in new.detail and not (home.path / "not there").exists()
    with monkeypatch.context() as nobody:
        nobody.setattr(os, "access", lambda *_: False)
        for place in (home, Home(home.path / "not there")):
            (bad,) = homes.home(place)
            assert bad.state == "missing" and bad.needed_for == EVERY and "TRACE_HOME" in bad.fix
    monkeypatch.setattr(homes, "exchange_works", lambda _: False)
    assert homes.home(home)[0].state == "degraded"


def test_the_dagster_home_is_opened_and_its_schema_compared(home: Home, tmp_path: Path) -> None:
    (new,) = homes.dagster_home(home)
    assert new.state == "ok" and not home.dagster.exists()
    prepare_instance(home).dispose()
    other, own = homes.dagster_home(home, str(tmp_path))
    assert other.fix == "unset DAGSTER_HOME" and own.state == "ok" and "schema" in own.detail
    import sqlite3

    with sqlite3.connect(home.dagster / "history" / "runs.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0'")
    (old,) = homes.dagster_home(home)
    assert old.state == "degraded" and "runs 0 instead of" in old.detail and "instance migrate" in old.fix
    (home.dagster / "dagster.yaml").write_text("storage: {sqlite: 7\n")
    (torn,) = homes.dagster_home(home)
    assert torn.state == "missing" and "dagster.yaml" in torn.fix


def test_who_is_at_work_and_what_was_interrupted(home: Home) -> None:
    assert homes.at_work(home).detail == "free; nobody is at work"
    assert [one.state for one in homes.leftovers(home)] == ["ok"]
    with exclusive(sync_lock(home), "trace sync"):
        assert f"held by trace sync, process {os.getpid()}" in homes.at_work(home).detail
    mark_due(home, "labels", "x", "new files")
    (home.tables / "labels").mkdir(parents=True)
    (home.tables / "labels" / ".x.0.partial").touch()
    work = home.models / "adapters" / ".one-1.work"
    work.mkdir(parents=True)
    (work / "curve.jsonl").write_text("x" * 1000)
    left, unfinished = homes.leftovers(home)
    assert left.state == "degraded" and left.fix == "trace sync"
    assert "half-made files: 1, items due for it: 1" in left.detail
    assert unfinished.state == "ok" and ".one-1.work" in unfinished.detail


def test_model_servers_are_asked_what_they_serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import httpx

    replies: dict[str, httpx.Response | Exception] = {}

    def get(url: str, **_: object) -> httpx.Response:
        reply = replies["now"]
        if isinstance(reply, Exception):
            raise reply
        return reply

    monkeypatch.setattr(httpx, "get", get)

    def look(*overrides: str) -> list[Finding]:
        return services.model_servers(Study.open(tmp_path, overrides=list(overrides)))

    acting = ("rollouts.engine=openai", "rollouts.model=qwen")
    assert look() == []
    assert look(*acting)[0].fix.startswith("--set rollouts.base_url=")
    acting = (*acting, "rollouts.base_url=http://127.0.0.1:1/v1")
    for reply, state, words in (
        (httpx.Response(200, json={"data": [{"id": "qwen"}]}), "ok", "serves qwen"),
        (httpx.Response(200, json={"data": [{"id": "llama"}]}), "missing", "not qwen"),
        (httpx.Response(401), "missing", "wants a key"),
        (httpx.Response(404), "degraded", "HTTP 404"),
        (httpx.Response(200, text="hello"), "degraded", "unknown way"),
        (httpx.ConnectError("refused"), "missing", "does not answer"),
    ):
        replies["now"] = reply
        (found,) = look(*acting)
        assert found.state == state and words in found.detail and found.needed_for == TRAINING
    replies["now"] = httpx.Response(200, json={"data": [{"id": "qwen"}]})
    both = look(*acting[:2], "rollouts.base_url=http://127.0.0.1:1/v1, http://127.0.0.1:2/v1")
    assert [one.state for one in both] == ["ok", "ok"]
    assert "http://127.0.0.1:1/v1 serves" in both[0].detail
    (analyst,) = look("labels.model=judge", "analyst.base_url=http://127.0.0.1:1/v1")
    assert analyst.state == "missing" and analyst.needed_for == (Door.diagnose,)
    reading, writing = look("analyst.model=qwen", "analyst.base_url=http://127.0.0.1:1/v1")
    assert (reading.name, reading.state) == ("analyst's server", "ok")
    assert (writing.name, writing.needed_for) == ("writer's server", TRAINING)
    (triage,) = look("triage.model=judge", "analyst.base_url=http://127.0.0.1:1/v1")
    assert "not judge" in triage.detail


def test_what_was_left_out_of_an_ingested_file_is_told_again(tmp_path: Path) -> None:
    study = Study.open(tmp_path / "home")
    said = [{"role": "user", "content": "Cancel W1."}, {"role": "assistant", "content": "No."}]
    good = json.dumps({"messages": said, "reward": 1, "id": "a"})
    (file := tmp_path / "runs.jsonl").write_text(f"{good}\n{{broken\n")
    ingest(study, [file])
    (one,) = (found for found in homes.files(study, deep=False) if found.name == "ingested files")
    assert one.state == "degraded" and "(1 left out)" in one.detail and "runs.jsonl: line 2" in one.detail
    page = write_page(study, tmp_path / "page.html").read_text()
    assert "1 left out" in page and "runs.jsonl: line 2" in page and str(tmp_path) not in page
    file.write_text(f"{good}\n")
    ingest(study, [file], again=True)
    assert "ingested files" not in {found.name for found in homes.files(study, deep=False)}
    assert "left out" not in write_page(study, tmp_path / "page.html").read_text()


def test_what_a_folder_lacks_and_what_is_held_is_told_again(tmp_path: Path) -> None:
    study = Study.open(tmp_path / "home")

    def row(name: str) -> str:
        said = [{"role": "user", "content": f"Cancel {name}."}, {"role": "assistant", "content": "No."}]
        return json.dumps({"messages": said, "reward": 1, "trajectory_id": f"run-{name}"})

    (folder := tmp_path / "runs").mkdir()
    for name in ("a", "b"):
        (folder / f"{name}.json").write_text(row(name))
    (folder / "notes.json").write_text('{"see": "elsewhere"}')
    for name in ("one.jsonl", "two.jsonl"):
        (tmp_path / name).write_text(row("own"))
    ingest(study, [folder])
    ingest(study, [tmp_path / "one.jsonl"])
    ingest(study, [tmp_path / "two.jsonl"])
    told = {(one.kind, Path(one.path).name) for one in left_out_of(study)}
    assert told == {("unknown_format", "runs"), ("held", "two.jsonl")}
    (tmp_path / "two.jsonl").unlink()
    shutil.rmtree(study.home.inbox / "runs")
    assert left_out_of(study) == []
