"""Large files in parts: the same tables as by records, whatever the file looks like, in little memory."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.formats.reading import read_trajectories
from tests.formats.test_tau2 import content, simulation, write
from trace_assets.formats import tau2_parts
from trace_assets.formats.json_array import find_array, settle
from trace_assets.formats.load import load
from trace_assets.formats.problem import Problem
from trace_assets.formats.tau2 import open_tau2
from trace_assets.formats.tau2_helper import Helper
from trace_assets.records import CheckRow, MessageRow, Task, TrajectoryHead
from trace_assets.store import Store
from trace_assets.store.trajectories import read_trajectories as read_stored
from trace_assets.store.trajectories import write_trajectories


def by_parts(folder: Path, *paths: Path, held: dict[str, str] | None = None) -> tuple[dict[str, Store], Any]:
    with ExitStack() as stack:
        read = load(paths, folder, stack, "auto", held or {})
        for spool in read.batches.values():
            spool.finish()
    return {batch: spool.store for batch, spool in read.batches.items()}, read


words = st.text(st.characters(codec="utf-8"), max_size=8)
messages = st.lists(
    st.one_of(
        st.builds(dict, role=st.sampled_from(["user", "system"]), content=words | st.none()),
        st.builds(
            dict,
            role=st.just("assistant"),
            content=words | st.none(),
            tool_calls=st.none()
            | st.lists(
                st.builds(
                    dict,
                    id=st.sampled_from(["a", "b", ""]),
                    name=words,
                    arguments=st.none()
                    | st.just('{"x": 1}')
                    | st.just("{")
                    | st.dictionaries(words, st.floats()),
                    requestor=st.just("assistant"),
                ),
                max_size=2,
            ),
            usage=st.none() | st.builds(dict, prompt_tokens=st.integers(0, 99), completion_tokens=st.none()),
            reasoning=st.none() | words,
        ),
        st.builds(
            dict,
            role=st.just("tool"),
            id=st.sampled_from(["a", "b"]) | st.integers(0, 3),
            content=words | st.none(),
            error=st.booleans() | st.none(),
            requestor=st.sampled_from(["user", "assistant"]),
        ),
    ),
    max_size=6,
)
simulations = st.builds(
    dict,
    id=st.sampled_from(["s1", "s2", 's"3', "s4", "é", 7]),
    task_id=st.sampled_from(["0", "1", 2]),
    messages=messages,
    reward_info=st.none()
    | st.builds(
        dict,
        reward=st.sampled_from([0.0, 1, None, "x"]),
        reward_basis=st.just(["DB"]),
        db_check=st.builds(dict, db_match=st.booleans(), db_reward=st.just(1.0)),
        nl_assertions=st.lists(st.builds(dict, nl_assertion=words, met=st.booleans()), max_size=2),
    ),
    termination_reason=st.sampled_from(["user_stop", "max_steps", "infrastructure_error", None]),
    trial=st.integers(0, 3) | st.none(),
    seed=st.none() | st.integers(0, 9) | st.just("bad"),
    duration=st.none() | st.floats(0, 9),
)


@given(
    rows=st.lists(simulations, max_size=5, unique_by=lambda row: str(row["id"])),
    indent=st.sampled_from([None, 1, 4]),
    solo=st.booleans(),
)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_both_ways_give_the_same_tables(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]], indent: int | None, solo: bool
) -> None:
    folder = tmp_path_factory.mktemp("both")
    path = folder / "file.json"
    good = [simulation(0, id="always")]
    path.write_text(json.dumps(content(*good, *rows, solo=solo), indent=indent, ensure_ascii=False))
    stores, read = by_parts(folder / "parts", path)
    imported = read_trajectories([path])
    whole = Store(folder / "whole")
    versions = [whole.write(imported.tasks, Task), write_trajectories(whole, imported.trajectories, "all")]
    parts = stores["file"]
    for record in (MessageRow, CheckRow, TrajectoryHead, Task):
        assert parts.frame(record).equals(whole.frame(record)), record
        assert parts.version(record) == whole.version(record), record
    assert versions[0] == parts.version(Task)
    assert [one.messages for one in read_stored(parts)] == [
        one.messages for one in sorted(imported.trajectories, key=lambda one: one.trajectory_id)
    ]
    told = sorted(
        (problem.position, problem.kind) for problem in read.problems if problem.kind != "duplicate"
    )
    assert told == sorted((one.position, one.kind) for one in imported.problems if one.kind != "duplicate")


def test_an_unsorted_batch_is_sorted_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trace_assets.formats.load.MESSAGES", 2)
    chat = [{"role": "user", "content": "é"}, {"role": "assistant", "content": "x"}]
    path = tmp_path / "a.jsonl"
    names = [f"trajectory-number-{n}" for n in (5, 3, 9, 1)]
    path.write_text("\n".join(json.dumps({"id": name, "messages": chat, "reward": 1}) for name in names))
    stores, read = by_parts(tmp_path / "parts", path)
    frame = stores["a"].frame(MessageRow)
    assert frame.equals(frame.sort("trajectory_id", "index")) and frame.height == 8
    whole = Store(tmp_path / "whole")
    write_trajectories(whole, read_trajectories([path]).trajectories, "all")
    for record in (MessageRow, CheckRow, TrajectoryHead):
        assert stores["a"].version(record) == whole.version(record)
        assert stores["a"].frame(record).equals(whole.frame(record))
    assert read.batches["a"].n_messages == 8


def test_held_and_repeated_trajectories_are_left_out(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", content(*(simulation(n % 3) for n in range(5))))
    stores, read = by_parts(tmp_path / "parts", path, held={"sim-0": "other"})
    assert stores["a"].frame(TrajectoryHead)["trajectory_id"].to_list() == ["sim-1", "sim-2"]
    assert sorted(problem.kind for problem in read.problems) == ["duplicate", "held", "held"]
    assert read.problems.errors == 0


def test_thousands_of_problems_are_one_line(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", content(*(simulation(n, reward_info=None) for n in range(1500))))
    _, read = by_parts(tmp_path / "parts", path)
    assert len(read.problems) == 1500 and len(list(read.problems)) == 1000
    (line,) = read.problems.lines()
    assert line[0] == "notice" and "1,499 more like it (not judged)" in line[1]


@pytest.mark.parametrize("indent", [None, 2])
def test_damage_in_the_middle_costs_one_simulation(tmp_path: Path, indent: int | None) -> None:
    text = json.dumps(content(*(simulation(n) for n in range(6))), indent=indent)
    at = text.index('"Where is W1?"', text.index('"sim-3"'))
    path = write(tmp_path / "a.json", text[:at] + "oops" + text[at:])
    stores, read = by_parts(tmp_path / "parts", path)
    assert stores["a"].frame(TrajectoryHead)["trajectory_id"].to_list() == [
        f"sim-{n}" for n in (0, 1, 2, 4, 5)
    ]
    (problem,) = read.problems
    assert problem.kind == "left_out" and problem.position == "simulations[3]"


def test_elements_that_begin_otherwise_are_found_and_counted(tmp_path: Path) -> None:
    """The guess at where simulations begin is wrong on purpose: other key orders, and a decoy inside one."""
    decoy = simulation(1, note=[{"id": "decoy", "task_id": "1"}, {"id": "decoy", "task_id": "2"}])
    turned = dict(reversed(simulation(2).items()))
    rows = [simulation(0), decoy, turned, {"x": 1}, simulation(3), simulation(4, reward_info=None)]
    path = write(tmp_path / "a.json", content(*rows))
    array = find_array(path, "simulations")
    assert array is not None and "decoy" in array.ids and "sim-2" not in array.ids
    assert [one.value for one in settle(path, array.spans)] == rows
    stores, read = by_parts(tmp_path / "parts", path)
    assert stores["a"].frame(TrajectoryHead)["trajectory_id"].to_list() == [f"sim-{n}" for n in range(5)]
    assert sorted((one.kind, one.position) for one in read.problems) == [
        ("left_out", "simulations[3]"),
        ("not_judged", "simulations[5]"),
    ]


def test_windows_may_cut_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trace_assets.formats.json_array._REACH", 128)
    rows = [simulation(n) for n in range(12)]
    path = write(tmp_path / "a.json", json.dumps(content(*rows), indent=2))
    for window in (700, 1001, 4096):
        monkeypatch.setattr("trace_assets.formats.json_array.WINDOW", window)
        array = find_array(path, "simulations")
        assert array is not None and list(array.ids) == [f"sim-{n}" for n in range(12)]


def test_a_second_process_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.json", content(*(simulation(n) for n in range(40))))
    alone, _ = by_parts(tmp_path / "one", path)
    monkeypatch.setattr(tau2_parts, "PARALLEL", 1)
    monkeypatch.setattr(tau2_parts, "CHUNK", 5000)
    monkeypatch.setattr(Helper, "free", property(_free_once_up))
    given: list[int] = []
    give = Helper.give
    monkeypatch.setattr(Helper, "give", lambda self, n, chunk: (given.append(n), give(self, n, chunk)))
    helped, read = by_parts(tmp_path / "two", path)
    assert read.batches["a"].n_trajectories == 40
    assert given
    for record in (MessageRow, CheckRow, TrajectoryHead):
        assert helped["a"].frame(record).equals(alone["a"].frame(record))
        assert helped["a"].version(record) == alone["a"].version(record)


_MEASURE = """
import resource, sys
from contextlib import ExitStack
from pathlib import Path
from trace_assets.formats.load import load
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with ExitStack() as stack:
    read = load([Path(sys.argv[1])], Path(sys.argv[2]), stack)
    for spool in read.batches.values():
        spool.finish()
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print((after - before) * 1024)
"""


@pytest.mark.ci
def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    """A file of 80 MB is read in far less than its own size (in one process, so that all of it is seen)."""
    pad = "lorem ipsum dolor sit amet " * 300
    path = tmp_path / "big.json"
    document = content()
    with path.open("w") as file:
        file.write(json.dumps(document)[: -len("]}")])
        for number in range(9000):
            raw = {"raw_data": {"text": f"{pad}{number}"}}
            row = simulation(number, messages=[{"role": "user", "content": f"hi {number}", **raw}])
            file.write((", " if number else "") + json.dumps(row))
        file.write("]}")
    size = path.stat().st_size
    assert size > 70e6
    run = [sys.executable, "-c", _MEASURE, str(path), str(tmp_path / "parts")]
    grown = int(subprocess.run(run, check=True, capture_output=True, text=True).stdout)
    assert grown < size, f"{grown / 1e6:.0f} MB for a file of {size / 1e6:.0f} MB"
    assert pl.read_parquet(tmp_path / "parts/big/trajectories/all.parquet").height == 9000


KNOWN = {
    "messages": "40ac67403fb9b492",
    "checks": "0bdb679290f94e1a",
    "trajectories": "639f7501c62f8bd1",
}


def test_the_versions_of_known_simulations_stay(tmp_path: Path) -> None:
    """Tables that were ingested before this version must not look changed."""
    path = write(tmp_path / "a.json", content(*(simulation(n) for n in range(40)), solo=True))
    stores, _ = by_parts(tmp_path / "parts", path)
    versions = {
        record.table: stores["a"].version(record) for record in (MessageRow, CheckRow, TrajectoryHead)
    }
    assert versions == KNOWN


def test_a_helper_that_dies_costs_time_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.json", content(*(simulation(n) for n in range(40))))
    alone, _ = by_parts(tmp_path / "one", path)
    monkeypatch.setattr(tau2_parts, "PARALLEL", 1)
    monkeypatch.setattr(tau2_parts, "CHUNK", 2000)
    give, given = Helper.give, []

    def fatal(self: Helper, number: int, chunk: Any) -> None:
        give(self, number, chunk)
        given.append(number)
        if len(given) == 3:
            self._process.kill()

    monkeypatch.setattr(Helper, "free", property(_free_once_up))
    monkeypatch.setattr(Helper, "give", fatal)
    helped, _ = by_parts(tmp_path / "two", path)
    assert len(given) >= 3
    for record in (MessageRow, CheckRow, TrajectoryHead):
        assert helped["a"].frame(record).equals(alone["a"].frame(record))


@pytest.mark.skipif(sys.platform != "linux", reason="looks at what is mapped in /proc")
def test_heads_that_wait_hold_no_messages(tmp_path: Path) -> None:
    """Heads of a large file wait for a row group of their own; the messages beside them must not wait too."""
    path = write(tmp_path / "a.json", content(*(simulation(n) for n in range(4))))
    opened = open_tau2(path)
    assert not isinstance(opened, Problem)
    file, array = opened

    def mapped(table: str) -> bool:
        return f"0-{table}.arrow" in Path("/proc/self/maps").read_text()

    with Helper() as helper:
        helper.open(file)
        helper.give(0, array.spans)
        found = {}
        while not found:
            found = helper.take(wait=True)
    part = found.pop(0).part
    assert part is not None
    tables = dict(part.tables)
    del part
    assert mapped("messages") and mapped("trajectories")
    del tables["messages"]
    assert not mapped("messages") and mapped("trajectories")
    assert tables["trajectories"].num_rows == 4


def test_a_helper_whose_program_is_gone_ends_and_cleans_up() -> None:
    helper = Helper()
    folder = Path(helper._folder.name)
    assert _free_once_up(helper) and folder.is_dir()
    helper._wire.close()  # as the death of this process would
    assert helper._process.wait(timeout=900) == 0
    assert not folder.exists()


def test_without_a_helper_it_is_read_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.json", content(*(simulation(n) for n in range(4))))
    monkeypatch.setattr(tau2_parts, "PARALLEL", 1)
    monkeypatch.setattr("subprocess.Popen.__init__", _refused)
    stores, _ = by_parts(tmp_path / "one", path)
    assert stores["a"].frame(TrajectoryHead).height == 4


def _refused(*arguments: Any, **more: Any) -> None:
    raise OSError("resource temporarily unavailable")


def _free_once_up(helper: Helper) -> bool:
    """Wait until the helper has come up, so that small files reach it too."""
    while not helper._ready and helper._process.poll() is None:
        helper.take()
        time.sleep(0.01)
    return helper._ready and len(helper.given) < 4
