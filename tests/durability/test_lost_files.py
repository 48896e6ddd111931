"""What is lost or altered is due, with the reason; no command answers from it, and each says the way back."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.durability.small_home import Small, quick_models, simulation_file
from tests.quick import one_of_each
from trace_assets.assets.report import write_page
from trace_assets.cli.checkup.files import accept_losses, files
from trace_assets.cli.main import main
from trace_assets.errors import InputError
from trace_assets.orchestration.asset_files import ItemFiles
from trace_assets.records import (
    Adapter,
    BaseCheckpoint,
    LedgerEntry,
    LineageEdge,
    Task,
    TrajectoryHead,
    Triage,
)
from trace_assets.report.data import gather
from trace_assets.resources.policy import base_folder, whole_adapter
from trace_assets.store.manifest import MANIFEST, manifest_of
from trace_assets.store.presence import withdraw
from trace_assets.store.warehouse import Warehouse
from trace_assets.workflows.ingest import ingest


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Small]:
    folder = tmp_path_factory.mktemp("made")
    small = Small(folder / "home", simulation_file(folder / "desk.json"))
    with quick_models():
        small.work()
        yield small


@pytest.fixture
def small(made: Small, tmp_path: Path) -> Iterator[Small]:
    """The finished home, to be damaged: it lies where it was made, and is put back afterwards."""
    shutil.copytree(made.folder, tmp_path / "kept")
    yield made
    withdraw()  # its announcement goes with the folder; in the copy it would be a dead process's
    shutil.rmtree(made.folder)
    shutil.copytree(tmp_path / "kept", made.folder)


def gone(file: Path) -> None:
    file.unlink()


def empty(file: Path) -> None:
    os.truncate(file, 0)


def folder_instead(file: Path) -> None:
    file.unlink()
    file.mkdir()


def cut(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def flipped(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 4
    found = file.stat()
    file.write_bytes(content)
    os.utime(file, ns=(found.st_atime_ns, found.st_mtime_ns))  # as if nobody had written


def of_another(file: Path) -> None:
    """Put the same table of another home there: it is whole, and not this one."""
    import polars as pl

    pl.read_parquet(file).head(1).write_parquet(file)


DAMAGES: list[Callable[[Path], None]] = [gone, empty, cut, flipped, of_another]


@pytest.mark.parametrize("damage", one_of_each(DAMAGES, then=2))
def test_a_damaged_table_is_due_and_answers_nothing(small: Small, damage: Callable[[Path], None]) -> None:
    wanted, file = small.versions(), small.folder / "tables" / "triage" / "desk.parquet"
    damage(file)
    (step,) = small.due()
    assert str(step.item) == "triage[desk]" and "tables/triage/desk.parquet" in step.reason
    study = small.study()
    for read in (
        lambda: study.store.read(Triage),
        lambda: study.store.read(Triage, "desk"),
        lambda: gather(study.store),
    ):
        with pytest.raises(InputError, match=r"'triage'.*desk\.parquet.*`trace sync`"):
            read()
    with Warehouse(study.home) as warehouse:
        for query in (
            "SELECT count(*) FROM triage",
            "FROM Failures",
            "SELECT 1 FROM query_table(['tri' || 'age'])",
            f"SELECT count(*) FROM read_parquet('{study.home.tables}/tri*/*.parquet')",
        ):
            with pytest.raises(InputError, match=r"'triage'.*`trace sync`"):
                warehouse.query(query)
        assert warehouse.query("SELECT count(*) AS n FROM trajectories")["n"].to_list() == [6]
        assert "triage" in warehouse.lost() and "triage" not in warehouse.row_counts()
    (found,) = [one for one in files(study, deep=False) if one.state == "missing"]
    assert "triage/desk.parquet" in found.detail and found.fix == "trace sync" and found.needed_for
    done = small.sync()
    assert [str(outcome.item) for outcome in done.outcomes] == ["triage[desk]"]
    assert small.versions() == wanted and small.due() == []


@pytest.mark.parametrize(
    "name",
    [
        *("triage", "trajectories", "base_models"),
        *(pytest.param(one, marks=pytest.mark.slow) for one in ("messages", "tasks", "lineage_nodes")),
    ],
)
@pytest.mark.ci
def test_a_table_that_is_removed_whole_comes_back(small: Small, name: str) -> None:
    wanted = small.versions()
    shutil.rmtree(small.folder / "tables" / name)
    with Warehouse(small.study().home) as warehouse, pytest.raises(InputError, match=f"'{name}'.*is gone"):
        warehouse.query(f"SELECT count(*) FROM {name}")
    small.sync()
    assert small.versions() == wanted and small.due() == []


@pytest.mark.ci
def test_every_command_says_so(
    small: Small, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gone(small.folder / "tables" / "triage" / "desk.parquet")
    monkeypatch.setenv("TRACE_HOME", str(small.folder))
    for words, code in (
        (["sql", "SELECT count(*) FROM triage"], 2),
        (["sql"], 1),
        (["report"], 2),
        (["doctor", "--quick", "--for", "diagnose"], 3),
        (["warehouse", "build", str(small.folder.parent / "x.duckdb")], 2),
        (["sync", "--dry-run", "--select", "triage[desk]"], 0),
    ):
        monkeypatch.setattr(sys, "argv", ["trace", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        told = capsys.readouterr()
        assert (ended.value.code or 0) == code, f"{words}: {told}"
        assert "triage/desk.parquet" in told.out + told.err, words
        assert "Traceback" not in told.err


def test_a_page_that_is_gone_is_due(small: Small) -> None:
    study = small.study()
    page = write_page(study)
    looked = ItemFiles(study)
    looked.look()
    assert looked.said("report", "", None) == ""
    gone(page)
    looked.look()
    assert "reports/report.html is gone" in looked.said("report", "", None)


@pytest.mark.ci
def test_all_tables_come_back(small: Small) -> None:
    wanted = small.versions()
    shutil.rmtree(small.folder / "tables")
    with Warehouse(small.study().home) as warehouse, pytest.raises(InputError, match="is gone"):
        warehouse.query("SELECT count(*) FROM tasks")
    assert len(small.due()) == 5
    small.sync()
    assert small.versions() == wanted and small.due() == []


def test_two_files_that_changed_places_are_seen(small: Small) -> None:
    tables = small.folder / "tables"
    one, other = tables / "tasks" / "desk.parquet", tables / "triage" / "desk.parquet"
    os.rename(one, tables / "x")
    os.rename(other, one)
    os.rename(tables / "x", other)
    assert {str(step.item) for step in small.due()} >= {"tasks[desk]", "triage[desk]"}
    small.sync()
    assert len(small.study().store.read(Task)) == 6


@pytest.mark.parametrize(
    "damage", [gone, flipped, *(pytest.param(one, marks=pytest.mark.slow) for one in (empty, cut))]
)
@pytest.mark.parametrize("name", ["base/abc/model.safetensors", "adapters/mixed-1/adapter_model.safetensors"])
@pytest.mark.ci
def test_a_damaged_model_is_due_and_is_not_used(
    small: Small, name: str, damage: Callable[[Path], None]
) -> None:
    wanted = small.versions()
    damage(small.folder / "models" / name)
    study = small.study()
    (step,) = small.due()
    assert f"models/{name}" in step.reason
    with pytest.raises(InputError, match=r"`trace sync`, which makes it again"):
        base_folder(study)
        whole_adapter(study, study.store.read(Adapter)[0])
    small.sync()
    assert small.versions() == wanted and small.due() == []
    assert base_folder(small.study()).is_dir()


def test_a_model_without_its_folder_is_due_also_where_no_hashes_were_kept(small: Small) -> None:
    (small.folder / MANIFEST).unlink()
    (small.folder / f"{MANIFEST}.lock").unlink()
    shutil.rmtree(small.folder / "models" / "base" / "abc")
    assert [str(step.item) for step in small.due()] == ["base_model"]


def test_what_is_laid_beside_a_model_is_left_alone(small: Small) -> None:
    for folder in ("base/abc", "adapters/mixed-1"):
        (small.folder / "models" / folder / "notes.txt").write_text("mine")
    assert small.due() == [] and base_folder(small.study()).is_dir()
    assert small.sync().outcomes == [] and small.due() == []


def test_lost_history_is_told_and_can_be_gone_on_without(small: Small) -> None:
    ledger = sorted((small.folder / "tables" / "ledger").glob("*.parquet"))
    gone(ledger[0])
    flipped(ledger[1])
    study = small.study()
    assert small.due() == [], "nothing makes it again"
    with pytest.raises(InputError, match=r"'ledger'.*nothing makes again.*--accept-losses"):
        study.store.read(LedgerEntry)
    with Warehouse(study.home) as warehouse, pytest.raises(InputError, match="--accept-losses"):
        warehouse.ready("cost")
    (found,) = [one for one in files(study, deep=False) if one.state == "missing"]
    assert "--accept-losses" in found.fix
    assert len(accept_losses(study)) == 2
    rows = small.study().store.read(LedgerEntry)
    assert rows and (small.folder / "damaged" / "tables" / "ledger" / ledger[1].name).is_file()
    assert all(one.state == "ok" for one in files(small.study(), deep=True))


@pytest.mark.ci
def test_lost_lineage_is_recorded_again(small: Small) -> None:
    before = {row.model_dump_json(exclude={"recorded_at"}) for row in small.study().store.read(LineageEdge)}
    for file in (small.folder / "tables" / "lineage").glob("*.parquet"):
        flipped(file)
    with pytest.raises(InputError, match="'lineage'"):
        small.study().store.read(LineageEdge)
    assert small.sync().outcomes == []
    after = {row.model_dump_json(exclude={"recorded_at"}) for row in small.study().store.read(LineageEdge)}
    assert after == before and before


def test_a_table_without_its_parts_is_no_shorter_table(small: Small, tmp_path: Path) -> None:
    study = small.study()
    ingest(study, [simulation_file(tmp_path / "other.json", 1)])
    small.sync()
    gone(small.folder / "tables" / "trajectories" / "desk.parquet")
    with pytest.raises(InputError, match=r"desk\.parquet is gone"):
        small.study().store.read(TrajectoryHead)


def test_a_damaged_inbox_is_told_and_the_same_file_mends_it(small: Small) -> None:
    wanted = small.versions()
    for file in (small.folder / "inbox" / "desk").glob("*/*.parquet"):  # the tables are links to these
        empty(file)
    (found,) = [one for one in files(small.study(), deep=False) if one.name == "inbox"]
    assert found.state == "missing" and "trace ingest" in found.fix
    again = ingest(small.study(), [small.source])
    assert again.new == {"desk": 6} and not again.skipped, "it was taken for unchanged"
    small.sync()
    assert small.versions() == wanted and small.due() == []


def test_an_emptied_inbox_of_an_earlier_version_is_read_again(small: Small) -> None:
    (small.folder / "inbox" / "desk" / MANIFEST).unlink()
    assert ingest(small.study(), [small.source]).skipped == [str(small.source)]
    empty(small.folder / "inbox" / "desk" / "messages" / "all.parquet")
    assert ingest(small.study(), [small.source]).new == {"desk": 6}


def test_a_home_of_an_earlier_version_is_taken_as_it_is(small: Small) -> None:
    (small.folder / MANIFEST).unlink()
    (small.folder / f"{MANIFEST}.lock").unlink()
    assert small.due() == [], "the upgrade alone makes something due"
    (told,) = [one for one in files(small.study(), deep=False) if one.state != "ok"]
    assert told.name == "content hashes" and told.state == "degraded"
    flipped(small.folder / "models" / "base" / "abc" / "model.safetensors")
    with pytest.raises(InputError, match="is not the one that was recorded"):
        base_folder(small.study())  # its name is its hash
    flipped(small.folder / "models" / "base" / "abc" / "model.safetensors")
    assert small.sync().outcomes == []
    assert manifest_of(small.folder).entries().keys() >= {"tables/triage/desk.parquet"}
    assert all(one.state == "ok" for one in files(small.study(), deep=True))


@pytest.mark.ci
def test_a_table_that_was_lost_before_the_upgrade_is_due(small: Small) -> None:
    (small.folder / MANIFEST).unlink()
    (small.folder / f"{MANIFEST}.lock").unlink()
    empty(small.folder / "tables" / "triage" / "desk.parquet")
    assert [str(step.item) for step in small.due()] == ["triage[desk]"]
    small.sync()
    assert small.due() == [] and len(small.study().store.read(Triage)) == 6


@pytest.mark.parametrize("left", [gone, folder_instead])
def test_a_manifest_that_is_lost_is_told_and_nothing_is_taken_for_empty(
    small: Small, left: Callable[[Path], None]
) -> None:
    gone(small.folder / "tables" / "triage" / "desk.parquet")
    left(small.folder / MANIFEST)
    with pytest.raises(InputError, match=r"manifest\.jsonl is .*--accept-losses"):
        small.study().store.read(Triage)
    with pytest.raises(InputError, match=r"manifest\.jsonl is "):
        small.study().store.write([], Triage, "desk")
    (told,) = [one for one in files(small.study(), deep=False) if one.state != "ok"]
    assert told.state == "missing" and told.fix == "trace doctor --accept-losses"
    assert accept_losses(small.study()) == [MANIFEST]
    small.sync()
    assert small.due() == [] and len(small.study().store.read(Triage)) == 6
    assert all(one.state == "ok" for one in files(small.study(), deep=True))


def test_an_altered_line_of_the_manifest_loses_nothing(small: Small) -> None:
    wanted, file = small.versions(), small.folder / MANIFEST
    lines = file.read_bytes().split(b"\n")
    number = next(n for n, line in enumerate(lines) if b"triage/desk" in line)
    lines[number] = lines[number].replace(b"triage", b"triagf")
    file.write_bytes(b"\n".join(lines))
    assert manifest_of(small.folder).altered_lines() == 1
    small.sync()
    assert small.versions() == wanted and small.due() == []


def test_rows_that_were_put_there_by_hand_are_not_taken_for_the_item(small: Small) -> None:
    study = small.study()
    study.store.write(study.store.read(BaseCheckpoint), BaseCheckpoint)
    assert small.due() == [], "the same rows are the same table"
    rows = [row.model_copy(update={"pass_rate": 0.9}) for row in study.store.read(BaseCheckpoint)]
    study.store.write(rows, BaseCheckpoint)
    (step,) = small.due()
    assert str(step.item) == "base_model" and "not those that were recorded" in step.reason


@pytest.mark.parametrize("kind", ["file", "link to itself"])
def test_tables_in_whose_place_something_else_lies_are_told(small: Small, tmp_path: Path, kind: str) -> None:
    home = tmp_path / "home"
    shutil.copytree(small.folder, home)
    shutil.rmtree(home / "tables")
    if kind == "file":
        (home / "tables").write_text("")
    else:
        (home / "tables").symlink_to("tables")
    study = Small(home, small.source, small.selection).study()
    with pytest.raises(InputError, match=r"table 'trajectories'.*trace "):
        study.store.frame(TrajectoryHead)
    with Warehouse(study.home) as warehouse, pytest.raises(InputError, match="table 'trajectories'"):
        warehouse.query("SELECT count(*) FROM trajectories")


@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_what_is_no_file_in_a_table_is_told_and_not_waited_for(
    small: Small, tmp_path: Path, kind: str
) -> None:
    home = tmp_path / "home"
    shutil.copytree(small.folder, home)
    place = home / "tables" / "trajectories" / "other.parquet"
    if kind == "pipe":
        os.mkfifo(place)
    else:
        place.mkdir()
    with pytest.raises(InputError, match=r"other\.parquet is no file"):
        Small(home, small.source, small.selection).study().store.frame(TrajectoryHead)
