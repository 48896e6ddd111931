"""Files that come into a folder later, whose files are one batch: none of what is held is lost or refused."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from trace_assets.records import TrajectoryHead
from trace_assets.resources.inbox import inbox
from trace_assets.store.locks import Holder, exclusive
from trace_assets.study import Study
from trace_assets.workflows.ingest import Ingested, ingest


def test_one_that_waits_for_another_says_for_whom(tmp_path: Path) -> None:
    put(tmp_path / "runs", "b", "c")
    study, told = Study.open(tmp_path / "home", None, []), list[str]()
    lock = study.home.path / "locks" / "ingest.lock"
    began = threading.Event()

    def waiting(other: Holder | None) -> None:
        told.append(str(other))
        began.set()

    with ThreadPoolExecutor(1) as thread:
        with exclusive(lock, "trace ingest"):
            found = thread.submit(ingest, study, [tmp_path / "runs"], "auto", False, waiting)
            assert began.wait(600)
        assert found.result(600).new == {"runs": 2}
    assert len(told) == 1 and told[0].startswith("trace ingest, process ")


def put(folder: Path, *names: str) -> None:
    folder.mkdir(exist_ok=True)
    for name in names:
        messages = [{"role": "user", "content": f"Cancel {name}."}, {"role": "assistant", "content": "Done."}]
        (folder / f"{name}.json").write_text(json.dumps({"messages": messages, "reward": 1.0}))


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    put(tmp_path / "runs", "b", "c", "d")
    take(tmp_path, tmp_path / "runs")
    return tmp_path / "runs"


def take(tmp_path: Path, *paths: Path, again: bool = False) -> Ingested:
    return ingest(Study.open(tmp_path / "home", None, []), paths, again=again)


def held(tmp_path: Path) -> list[str]:
    frame = inbox(Study.open(tmp_path / "home", None, []), "runs").frame(TrajectoryHead)
    return sorted(name.rpartition("/")[2] for name in frame["trajectory_id"])


def words(outcome: Ingested) -> Iterable[str]:
    return [str(one) for one in outcome.problems]


def test_one_that_is_named_alone_comes_in_beside_those_that_are_held(tmp_path: Path, runs: Path) -> None:
    put(runs, "e")
    found = take(tmp_path, runs / "e.json")
    assert held(tmp_path) == ["b", "c", "d", "e"] and found.new == {"runs": 4} and not found.errors
    assert any("the 3 that were ingested before are read with it" in one for one in words(found))
    put(runs, "a", "f")
    assert take(tmp_path, runs / "a.json").new == {"runs": 5}, "and what was not named stays out"
    assert held(tmp_path) == ["a", "b", "c", "d", "e"]
    assert take(tmp_path, runs).new == {"runs": 6}


@pytest.mark.parametrize("harm", ["gone", "cut"])
@pytest.mark.parametrize("named", ["file", "folder"])
def test_a_file_that_can_no_longer_be_read_is_named(
    harm: str, named: str, tmp_path: Path, runs: Path
) -> None:
    whole = (runs / "b.json").read_text()
    put(runs, "e")
    (runs / "b.json").write_text(whole[:30])
    if harm == "gone":
        (runs / "b.json").unlink()
    found = take(tmp_path, runs / "e.json" if named == "file" else runs)
    (told,) = [one for one in found.errors if "could not be read again" in one.message]
    assert "(of b.json)" in told.message and f"the folder {runs}" in told.message
    assert held(tmp_path) == ["b", "c", "d"], "what is held stays"
    (runs / "b.json").write_text(whole)
    assert take(tmp_path, runs).new == {"runs": 4}
    (runs / "c.json").unlink()
    assert take(tmp_path, runs, again=True).new == {"runs": 3}


def test_a_later_file_that_is_cut_keeps_nothing_else_out(tmp_path: Path, runs: Path) -> None:
    put(runs, "e")
    (runs / "z.json").write_text((runs / "e.json").read_text()[:30])
    found = take(tmp_path, runs)
    assert held(tmp_path) == ["b", "c", "d", "e"]
    assert [one.path for one in found.errors] == [str(runs / "z.json")]
