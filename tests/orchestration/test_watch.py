"""What a watched folder makes of good, bad, partly bad, growing and repeated files."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from datetime import UTC, datetime, tzinfo
from pathlib import Path

import pytest
from simulations import simulation_file

import trace_assets
from trace_assets.assets.trajectories import write_batch, write_tasks
from trace_assets.errors import Unavailable
from trace_assets.records import Arrival, BaseCheckpoint, Quarantined, Task, TrajectoryHead
from trace_assets.resources.inbox import batches, inbox, lay_tasks, task_batches, task_inbox
from trace_assets.settings import Targets
from trace_assets.study import Study
from trace_assets.targets.embedded.target import EmbeddedTarget
from trace_assets.workflows import watch, watched_folder
from trace_assets.workflows.watch import look, pending
from trace_assets.workflows.watched_folder import WatchedFolder

SETTINGS = [
    "watch.settle_seconds=0",
    "targets.discovery_tasks=6",
    "targets.validation_tasks=3",
    "targets.test_tasks=3",
]


@pytest.fixture
def study(tmp_path: Path) -> Study:
    made = Study.open(tmp_path / "home", None, SETTINGS)
    for kind in watch.KINDS:
        WatchedFolder(made, kind).path.mkdir(parents=True)
    return made


def folder(study: Study, kind: str = "trajectories") -> Path:
    return study.home.path / "watch" / kind


def rows(seed: int = 7, n: int = 3) -> list[dict[str, object]]:
    target = EmbeddedTarget(Targets(seed=seed, discovery_tasks=n))
    return [
        {
            "task_id": f"embedded/new-{seed}-{number}",
            "instruction": task.instruction,
            "payload": task.payload,
        }
        for number, task in enumerate(target.tasks("discovery"))
    ]


def write_lines(path: Path, lines: list[object]) -> Path:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return path


def test_a_new_trajectory_file_is_a_batch_of_its_own_and_the_same_again_is_nothing(study: Study) -> None:
    simulation_file(folder(study) / "nightly.json", "a", n=4, lacking=1)
    first = look(study, "trajectories")
    (arrival,) = first.taken
    assert (arrival.file, arrival.n_taken, arrival.n_refused) == ("nightly.json", 4, 0)
    assert batches(study) == [arrival.task_batch] and arrival.task_batch.startswith("nightly-")
    assert [one.batch for one in pending(study)] == [arrival.task_batch]

    (folder(study) / "copy under another name.json").write_bytes(
        (folder(study) / "nightly.json").read_bytes()
    )
    again = look(study, "trajectories")
    assert (again.taken, again.refused, again.waiting) == ([], [], [])
    assert batches(study) == [arrival.task_batch]

    write_tasks(study, arrival.task_batch)
    write_batch(study, arrival.task_batch)
    assert pending(study) == []


def test_another_file_under_the_same_name_leaves_the_first_batch_alone(study: Study) -> None:
    simulation_file(folder(study) / "nightly.json", "a", n=4, lacking=1)
    (old,) = look(study, "trajectories").taken
    simulation_file(folder(study) / "nightly.json", "b", n=3, lacking=1)
    (new,) = look(study, "trajectories").taken
    assert sorted(batches(study)) == sorted([old.task_batch, new.task_batch])
    assert inbox(study, old.task_batch).frame(TrajectoryHead).height == 4
    assert inbox(study, new.task_batch).frame(TrajectoryHead).height == 3


def test_a_longer_file_brings_only_what_is_new_in_it(study: Study) -> None:
    simulation_file(folder(study) / "run.json", "a", n=4, lacking=1)
    look(study, "trajectories")
    simulation_file(folder(study) / "run.json", "a", n=6, lacking=1)
    result = look(study, "trajectories")
    assert [arrival.n_taken for arrival in result.taken] == [2]
    assert len(result.notices) == watch.FEW + 1  # four are held already: told briefly


def conversations(first: int, last: int) -> list[str]:
    """Lines without ids, as programs of one's own write them."""
    return [
        json.dumps(
            {
                "messages": [
                    {"role": "user", "content": f"Cancel order K{number}."},
                    {"role": "assistant", "content": "Done."},
                ],
                "reward": float(number % 2),
            }
        )
        for number in range(first, last)
    ]


def held(study: Study) -> int:
    return sum(inbox(study, batch).frame(TrajectoryHead).height for batch in batches(study))


def test_lines_without_ids_are_not_counted_twice_when_their_file_grows(study: Study) -> None:
    file, lines = folder(study) / "run.jsonl", conversations(0, 8)
    file.write_text("\n".join(lines[:3]))
    assert [one.n_taken for one in look(study, "trajectories").taken] == [3]
    file.write_text("\n".join(lines[:3]) + "\n")  # an editor ends the last line
    assert [(one.n_taken, one.task_batch) for one in look(study, "trajectories").taken] == [(0, "")]
    file.write_text("\n".join(lines[:5]) + "\n" + lines[5][:40])  # looked at while it is written
    (arrival,) = look(study, "trajectories").taken
    assert (arrival.n_taken, arrival.n_refused) == (2, 1)
    file.write_text("\n".join(lines) + "\n")
    result = look(study, "trajectories")
    assert [one.n_taken for one in result.taken] == [3] and "it has grown" in result.notices[0]
    assert held(study) == 8
    (folder(study) / "other.jsonl").write_text("\n".join(lines[:2]))
    result = look(study, "trajectories")
    assert [(one.n_taken, one.task_batch) for one in result.taken] == [(0, "")], "nor from a file of its own"
    assert "2 of 2 trajectories" in result.notices[0] and held(study) == 8


def test_a_growing_file_whose_new_lines_are_of_no_use_stays_and_goes_on(study: Study) -> None:
    file, lines = folder(study) / "run.jsonl", conversations(0, 4)
    file.write_text("\n".join(lines[:3]) + "\n")
    look(study, "trajectories")
    with file.open("a") as end:
        end.write(lines[3][:40])
    result = look(study, "trajectories")
    assert [(one.n_taken, one.n_refused) for one in result.taken] == [(0, 1)] and file.is_file()
    with file.open("a") as end:
        end.write(lines[3][40:] + "\n")
    assert [one.n_taken for one in look(study, "trajectories").taken] == [1] and held(study) == 4


def test_another_beginning_and_a_batch_that_is_gone_are_taken_whole(study: Study) -> None:
    file, lines = folder(study) / "run.jsonl", conversations(0, 4)
    file.write_text("\n".join(lines[:3]) + "\n")
    (first,) = look(study, "trajectories").taken
    file.write_text("\n".join([*lines[1:], lines[0]]) + "\n")
    assert [one.n_taken for one in look(study, "trajectories").taken] == [1], "but for what is held"
    shutil.rmtree(study.home.inbox / first.task_batch)
    file.write_text("\n".join(lines) + "\n")
    assert [one.n_taken for one in look(study, "trajectories").taken] == [3] and held(study) == 4


def test_what_comes_later_is_newer_though_the_clock_was_set_back(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Clock(datetime):
        today = datetime(2026, 11, 26, tzinfo=UTC)

        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            return cls.today

    monkeypatch.setattr(watch, "datetime", Clock)
    times = []
    for name, day in (("a", 26), ("b", 3), ("c", 27)):
        Clock.today = datetime(2026, 11, day, tzinfo=UTC)
        simulation_file(folder(study) / f"{name}.json", name, n=3, lacking=1)
        times += [one.taken_at for one in look(study, "trajectories").taken]
    assert times == [
        datetime(2026, 11, 26, tzinfo=UTC),
        datetime(2026, 11, 26, 0, 0, 0, 1, tzinfo=UTC),
        datetime(2026, 11, 27, tzinfo=UTC),
    ]


def test_bad_files_are_moved_aside_with_the_reason_and_block_nothing(study: Study) -> None:
    (folder(study) / "a-bad.json").write_text("{ this is no JSON")
    (folder(study) / "b-empty.json").write_text("")
    (folder(study) / "c-other.json").write_text('{"hello": 1}')
    simulation_file(folder(study) / "d-good.json", "a", n=3, lacking=1)
    result = look(study, "trajectories")
    assert [arrival.file for arrival in result.taken] == ["d-good.json"]
    assert sorted(path.name for path in folder(study).iterdir()) == ["d-good.json"]
    kept = {row.file: row for row in result.refused}
    assert set(kept) == {"a-bad.json", "b-empty.json", "c-other.json"}
    for row in kept.values():
        assert (study.home.path / row.kept_at).is_file()
        beside = study.home.path / (row.kept_at + ".reason.txt")
        assert row.reason and beside.read_text().startswith(row.reason)
        assert str(study.home.path) not in row.reason and row.file in row.reason
    with trace_assets.warehouse(study.home.path) as warehouse:
        seen = warehouse.query("SELECT file, reason, quarantined_at FROM quarantine ORDER BY file")
    assert seen["file"].to_list() == sorted(kept) and seen["quarantined_at"].null_count() == 0
    assert look(study, "trajectories").refused == []


def test_no_name_keeps_the_others_waiting(study: Study) -> None:
    names = (b"a." + b"x" * 240, b"b" * 60 + b"." + b"y" * 190, b"\xff\xfe.json", b"c.\xff\xfe", b"--help")
    for name in names:
        made = simulation_file(study.home.path / "made.json", name[:1].hex(), n=2, lacking=1)
        made.rename(folder(study) / os.fsdecode(name))
    simulation_file(folder(study) / "z.json", "z", n=3, lacking=1)
    result = look(study, "trajectories")
    assert "z.json" in {arrival.file for arrival in result.taken}
    assert len(result.taken) + len(result.refused) == 6 and not result.notices
    assert not [row.reason for row in result.refused if "report it" in row.reason]


def test_a_bad_file_that_comes_back_is_refused_again_in_one_row(study: Study) -> None:
    for _ in range(2):
        (folder(study) / "bad.json").write_text("{ this is no JSON")
        assert len(look(study, "trajectories").refused) == 1
    assert len(study.store.read(Quarantined)) == 1 and study.store.read(Arrival) == []


def test_broken_simulations_are_named_and_the_others_taken(study: Study) -> None:
    path = simulation_file(folder(study) / "part.json", "a", n=3, lacking=1)
    document = json.loads(path.read_text())
    del document["simulations"][1]["task_id"]
    path.write_text(json.dumps(document))
    result = look(study, "trajectories")
    assert [(one.n_taken, one.n_refused) for one in result.taken] == [(2, 1)]
    (refused,) = result.refused
    assert refused.position == "simulations[1]" and "task_id" in refused.reason
    assert path.is_file()


def test_a_growing_file_is_left_for_the_next_look(tmp_path: Path) -> None:
    study = Study.open(tmp_path / "home", None, ["watch.settle_seconds=3600"])
    folder(study).mkdir(parents=True)
    simulation_file(folder(study) / "now.json", "a", n=3, lacking=1)
    os.utime(folder(study) / "now.json", (0, 0))  # an old modification time does not make it finished
    (folder(study) / "download.json.part").write_text("{")
    (folder(study) / ".hidden.json").write_text("{")
    result = look(study, "trajectories")
    assert (result.taken, result.refused, result.waiting) == ([], [], ["now.json"])


@pytest.mark.parametrize("grows", [False, True])
def test_a_file_of_the_future_is_taken_once_it_stays_as_it_is(
    grows: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = Study.open(tmp_path / "home", None, ["watch.settle_seconds=2"])
    look(study, "trajectories")
    file = folder(study) / "new.json"
    simulation_file(file, "a", n=3, lacking=1)
    now, slept, real = time.time(), list[float](), time.sleep

    def sleep(seconds: float) -> None:
        if threading.current_thread() is not threading.main_thread():  # the one that says that we live
            real(seconds)
            return
        slept.append(seconds)
        if grows:
            file.write_text(file.read_text() + " ")

    monkeypatch.setattr(time, "time", lambda: now - 86_400)
    monkeypatch.setattr(watched_folder.time, "sleep", sleep)
    seen = look(study, "trajectories")
    assert ([one.file for one in seen.taken], seen.waiting) == (
        ([], ["new.json"]) if grows else (["new.json"], [])
    )
    look(study, "trajectories")
    assert slept == [2.0] * (2 if grows else 1), "what was taken is not waited for"


def test_the_homes_own_folder_is_made_and_a_named_one_that_is_missing_is_told(tmp_path: Path) -> None:
    own = Study.open(tmp_path / "home", None, [])
    assert look(own, "tasks").notices == [] and folder(own, "tasks").is_dir()
    named = Study.open(tmp_path / "home", None, [f"watch.tasks={tmp_path / 'drop'}"])
    assert "is not there" in look(named, "tasks").notices[0] and not (tmp_path / "drop").exists()


def test_one_process_looks_at_a_time(study: Study) -> None:
    simulation_file(folder(study) / "a.json", "a", n=3, lacking=1)
    with watch._alone(study):
        assert look(study, "trajectories").busy
    assert len(look(study, "trajectories").taken) == 1


def test_a_missing_service_puts_nothing_aside(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise Unavailable("the package 'x' is not installed.")

    simulation_file(folder(study) / "a.json", "a", n=3, lacking=1)
    monkeypatch.setattr(watch, "ingest", missing)
    with pytest.raises(Unavailable):
        look(study, "trajectories")
    assert (folder(study) / "a.json").is_file() and study.store.read(Quarantined) == []


def test_a_reader_that_breaks_does_not_block_the_next_file(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = watch.ingest

    def breaks(study: Study, paths: list[Path], format: str) -> object:
        if paths[0].name.startswith("a-"):
            raise KeyError("surprise")
        return real(study, paths, format)

    monkeypatch.setattr(watch, "ingest", breaks)
    simulation_file(folder(study) / "a.json", "a", n=3, lacking=1)
    simulation_file(folder(study) / "b.json", "b", n=3, lacking=1)
    result = look(study, "trajectories")
    assert [one.file for one in result.taken] == ["b.json"]
    assert "KeyError" in result.refused[0].reason


def test_tasks_become_a_batch_that_the_live_target_can_open(study: Study) -> None:
    write_lines(folder(study, "tasks") / "new.jsonl", rows())
    (arrival,) = look(study, "tasks").taken
    assert task_batches(study) == [arrival.task_batch]
    assert pending(study)[0].waits_for == "base_model"
    checkpoint = BaseCheckpoint(
        base_id="b",
        path="p",
        parameters=1,
        steps=1,
        pass_rate=None,
        pass_rate_low=None,
        pass_rate_high=None,
        n=0,
    )
    study.store.write([checkpoint], BaseCheckpoint)
    assert pending(study)[0].waits_for == ""
    assert write_tasks(study, arrival.task_batch).rows == 3
    stored = study.store.read(Task, arrival.task_batch)
    assert {task.task_batch for task in stored} == {arrival.task_batch}
    assert {task.split for task in stored} == {"discovery"}


def test_what_sql_prints_is_a_task_file(study: Study, tmp_path: Path) -> None:
    study.store.write(study.target.tasks("discovery"), Task, "embedded")
    with trace_assets.warehouse(study.home.path) as warehouse:
        printed = json.dumps(warehouse.query("SELECT * FROM tasks WHERE split = 'discovery'").to_dicts())
    other = Study.open(tmp_path / "other", None, SETTINGS)
    folder(other, "tasks").mkdir(parents=True)
    (folder(other, "tasks") / "from-sql.json").write_text(printed)
    assert look(other, "tasks").taken[0].n_taken == 6
    folder(study, "tasks").joinpath("again.json").write_text(printed)
    result = look(study, "tasks")
    assert [(one.n_taken, one.task_batch) for one in result.taken] == [(0, "")]
    assert "held by another batch" in result.notices[0]


def bad_rows(study: Study) -> list[tuple[object, str]]:
    good = rows(n=1)[0]
    test = study.target.tasks("test")[0]
    return [
        ("{ no JSON", "not JSON"),
        ([1, 2], "not a list"),
        ({**good, "task_id": "x/1", "target": "tau2:airline"}, "cannot be rolled out here"),
        ({**good, "task_id": "x/2", "instruction": "  "}, "no instruction"),
        ({"task_id": "x/3", "instruction": "Hello"}, "payload"),
        ({**good, "task_id": "x/4", "payload": {"orders": 3}}, "payload"),
        ({**good, "task_id": "x/5", "payload": "{"}, "payload is a text that is not JSON"),
        ({**good, "task_id": "x/6", "split": "test"}, "only 'discovery'"),
        ({**good, "task_id": "x/7", "instruction": test.instruction}, "must stay unseen"),
        ({**good, "task_id": "x/11", "instruction": f"{test.instruction.upper()} \n"}, "must stay unseen"),
        ({**good, "task_id": "x/8", "surprise": 1}, "surprise"),
        ({"instruction": "Hello"}, "task_id"),
        (good, "is that of line 1 too"),
        ({**good, "task_id": "known"}, "holds another task"),
        ('{"task_id": "x/9", "instruction": "\\ud800", "payload": {}}', "surrogate"),
        (
            {**good, "task_id": "x/10", "payload": {**dict(good["payload"]), "orders": []}},  # type: ignore[call-overload]
            "cannot open",
        ),
    ]


def test_every_bad_row_is_put_aside_with_its_line_and_the_good_one_is_taken(study: Study) -> None:
    lay_tasks(study, "earlier", [Task(task_id="known", target="embedded", task_batch="", instruction="Hi")])
    cases = bad_rows(study)
    write_lines(folder(study, "tasks") / "mixed.jsonl", [rows(n=1)[0], *(row for row, _ in cases)])
    result = look(study, "tasks")
    assert [(one.n_taken, one.n_refused) for one in result.taken] == [(1, len(cases))]
    reasons = {row.position: row.reason for row in result.refused}
    assert list(reasons) == [f"line {number}" for number in range(2, len(cases) + 2)]
    for (_, words), reason in zip(cases, reasons.values(), strict=True):
        assert words in reason and reason.endswith(".")
    refused = study.home.path / result.refused[0].kept_at
    assert len(refused.read_text().splitlines()) == len(cases)
    assert (folder(study, "tasks") / "mixed.jsonl").is_file()


def test_a_task_file_without_one_usable_row_is_moved_whole(study: Study) -> None:
    write_lines(folder(study, "tasks") / "bad.jsonl", [{"hello": 1}, {"task_id": 3}])
    result = look(study, "tasks")
    assert result.taken == [] and not (folder(study, "tasks") / "bad.jsonl").exists()
    assert [row.position for row in result.refused] == ["", "line 1", "line 2"]
    assert "none of its 2 rows" in result.refused[0].reason
    for name, content in (("none.jsonl", b"\n\n"), ("binary.jsonl", b"\xff\xfe\x00"), ("list.json", b"[1,")):
        (folder(study, "tasks") / name).write_bytes(content)
        assert len(look(study, "tasks").refused) == 1


def test_refused_rows_that_were_mended_leave_the_quarantine(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_lines(folder(study, "tasks") / "new.jsonl", [{**rows(n=1)[0], "target": "later"}])
    text = path.read_bytes()
    assert len(look(study, "tasks").refused) == 2
    monkeypatch.setattr(EmbeddedTarget, "name", "later")
    path.write_bytes(text)
    assert [one.n_taken for one in look(study, "tasks").taken] == [1]
    assert study.store.read(Quarantined) == []
    assert task_inbox(study).read(Task)[0].target == "later"
