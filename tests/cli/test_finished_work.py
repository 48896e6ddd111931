"""Finished rollouts stay what they are, whichever command is given next and whatever its settings are."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import typer

from tests.quick import one_of_each
from tests.rollouts.library_server import MODEL, LibraryServer
from trace_assets.cli import progress
from trace_assets.cli.main import main
from trace_assets.cli.options import console
from trace_assets.definitions import build
from trace_assets.orchestration.instance import prepare_instance
from trace_assets.orchestration.materialization import materialize_here
from trace_assets.orchestration.planner import Item
from trace_assets.orchestration.sync_run import AtRisk, Synced
from trace_assets.records import Label, TrajectoryHead
from trace_assets.resources.analysts import open_detectors
from trace_assets.store.item_locks import INTERRUPTED, mark_due
from trace_assets.study import CONFIG_VARIABLE, OVERRIDES_VARIABLE, Study
from trace_assets.targets.template import write_template

TASKS, TRIALS = 12, 2
ROLLED_OUT = ("sync", "--select", "tasks", "--select", "trajectories", "--jobs", "0")


@dataclass
class Played:
    """A home with rollouts of a target of one's own, and the agent's server.

    Attributes:
        folder: Holds the target and the home; commands are given there.
        server: Counts what it is asked.
        settings: With which the rollouts were made.
        run: Gives a command; returns its exit code.
        told: What the last command printed, both streams.
    """

    folder: Path
    server: LibraryServer
    settings: list[str]
    run: Callable[..., int]
    told: Callable[[], str]

    @property
    def asked(self) -> int:
        """Requests so far."""
        return sum(self.server.asked.values())

    def study(self, *overrides: str, plain: bool = False) -> Study:
        """Return the study under the settings of the rollouts and others; `plain`: under these alone."""
        return Study.open(self.folder / "home", None, [*([] if plain else self.settings), *overrides])

    def rows(self) -> pl.DataFrame:
        """Return the stored heads."""
        return self.study().store.frame(TrajectoryHead)

    def sync(self, *edits: str, options: tuple[str, ...] = ()) -> int:
        """Roll out with the settings and some edits."""
        return self.run(*ROLLED_OUT, *options, edits=[*self.settings, *edits])


@pytest.fixture(scope="module")
def server() -> Iterator[LibraryServer]:
    with LibraryServer() as made:
        yield made


@pytest.fixture(scope="module")
def made(server: LibraryServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a target and a home in which it was rolled out; copied for every test."""
    folder = tmp_path_factory.mktemp("made")
    write_template("library", folder / "library")
    before = {name: os.environ.get(name) for name in (*_TOLD, "TRACE_HOME")}
    with pytest.MonkeyPatch.context() as patch:
        played = _played(folder, server, patch, lambda: "")
        assert played.sync() == 0
    assert played.rows().height == TASKS * TRIALS and played.rows()["fault"].null_count() == TASKS * TRIALS
    for name, value in before.items():
        if value is not None:
            os.environ[name] = value
    return folder


_TOLD = (CONFIG_VARIABLE, OVERRIDES_VARIABLE, "DAGSTER_HOME")
"""Variables that a command leaves behind in this process."""


def _played(
    folder: Path, server: LibraryServer, patch: pytest.MonkeyPatch, told: Callable[[], str]
) -> Played:
    settings = [
        "targets.name=library",
        f"targets.path={folder}/library/target.py",
        f"targets.discovery_tasks={TASKS}",
        "targets.processes=2",
        "rollouts.engine=openai",
        f"rollouts.model={MODEL}",
        f"rollouts.base_url={server.url}",
        "rollouts.retries=0",
    ]

    sync = progress.run_sync

    def here(*arguments: Any, **named: Any) -> Synced:
        """Make everything in this process: one of workers would import the program for every command."""
        return sync(*arguments, **{**named, "jobs": 0})

    def run(*arguments: str, edits: list[str] | None = None) -> int:
        patch.setattr(progress, "run_sync", here)
        for name in _TOLD:
            patch.delenv(name, raising=False)
        patch.chdir(folder)
        patch.setenv("TRACE_HOME", str(folder / "home"))
        overrides = [part for edit in edits or [] for part in ("--set", edit)]
        patch.setattr(sys, "argv", ["trace", *arguments, *overrides])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code if isinstance(ended.value.code, int) else 0

    return Played(folder, server, settings, run, told)


@pytest.fixture
def played(
    made: Path,
    server: LibraryServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Played:
    folder = Path(shutil.copytree(made, tmp_path / "made"))

    def told() -> str:
        captured = capsys.readouterr()
        return " ".join((captured.out + captured.err).split())

    return _played(folder, server, monkeypatch, told)


@pytest.mark.ci
def test_a_plain_diagnose_after_a_sync_with_settings_diagnoses_what_was_rolled_out(played: Played) -> None:
    before, asked = played.rows(), played.asked
    assert played.run("diagnose") == 0
    said = played.told()
    assert "library: 24 trajectories: 24 passed" in said
    assert f"library: these {TASKS * TRIALS} rollouts were made with other settings" in said
    assert 'targets.name was "library", is "embedded"' in said
    assert 'rollouts.engine was "openai", is "transformers"' in said
    assert played.rows().equals(before) and played.asked == asked
    plain = played.study(plain=True)
    assert {row.task_batch for row in plain.store.read(TrajectoryHead)} == {"library"}
    # The same diagnosis as with the settings: the target's tools are known also where it is not named.
    as_told, as_kept = (open_detectors(study, "library").version for study in (played.study(), plain))
    assert as_kept == as_told != open_detectors(plain, "nowhere").version
    labels = plain.store.version(Label, "library")
    assert played.run("diagnose", edits=played.settings) == 0
    assert "other settings" not in played.told()
    assert plain.store.version(Label, "library") == labels and played.asked == asked


@pytest.mark.ci
def test_no_other_command_plays_either(played: Played) -> None:
    before, asked = played.rows(), played.asked
    for command in (("report",), ("compare",), ("watch", "--once"), ("sync", "--dry-run")):
        for edits in ([], [*played.settings, "rollouts.temperature=0.2"]):
            assert played.run(*command, edits=edits) == 0
            assert played.rows().equals(before) and played.asked == asked
            said = played.told()
            if command[0] in ("report", "compare"):
                assert "were made with other settings" in said
            elif edits and command[0] == "sync":
                assert "would replace 24 episodes" in said


EDITS = {  # of those that decide an episode; tests/workflows/test_finished.py has the others
    "rollouts.temperature=0.2": "rollouts.temperature was 1.0, is 0.2",
    "targets.discovery_tasks=6": "targets.discovery_tasks was 12, is 6",
    "targets.options.user=another": 'targets.options.user was not set, is "another"',
}


@pytest.mark.parametrize("edit", one_of_each(EDITS))
def test_a_sync_with_another_setting_is_refused_and_says_which(played: Played, edit: str) -> None:
    before, asked = played.rows(), played.asked
    assert played.sync(edit) == 2
    said = played.told()
    assert EDITS[edit] in said and "24 episodes" in said
    assert "--again" in said and "--yes" in said and "--keep" in said
    assert played.rows().equals(before) and played.asked == asked
    assert played.sync(edit, options=("--keep",)) == 0
    assert played.rows().equals(before) and played.asked == asked
    # With the first settings all is as it was: nothing is due.
    assert played.sync() == 0
    assert played.rows().equals(before) and played.asked == asked


@pytest.mark.ci
def test_a_diagnosis_under_another_setting_says_which(played: Played) -> None:
    before, asked, edit = played.rows(), played.asked, "rollouts.temperature=0.2"
    assert played.run("diagnose", edits=[*played.settings, edit]) == 0
    assert EDITS[edit] in played.told()
    assert played.rows().equals(before) and played.asked == asked
    assert played.sync() == 0
    assert played.rows().equals(before) and played.asked == asked


def test_the_json_document_names_what_is_kept(played: Played) -> None:
    assert played.sync("rollouts.temperature=0.2", options=("--json",)) == 2
    said = played.told()
    document = json.loads(said[said.index("{") : said.rindex("}") + 1])
    kept = document["kept"]["trajectories[library]"]
    assert kept == {"work": "24 episodes", "why": "rollouts.temperature was 1.0, is 0.2", "asked": True}
    assert document["made"] == []


@pytest.mark.ci
def test_more_trials_are_played_beside_those_that_are_there(played: Played) -> None:
    before, asked = played.rows(), played.asked
    assert played.sync("rollouts.trials=3") == 0
    after = played.rows()
    assert after.height == TASKS * 3
    assert after.filter(pl.col("trial") < 2).equals(before), "what was finished is what it was"
    assert played.asked - asked == requests(after.filter(pl.col("trial") == 2))
    assert played.sync() == 2, "and fewer of them would lose some"
    assert played.rows().equals(after)


def requests(rows: pl.DataFrame) -> int:
    """Return how many requests some episodes took: the server counts three tokens for each."""
    return int(rows["completion_tokens"].sum()) // 3


def test_what_decides_nothing_makes_nothing_due(played: Played) -> None:
    before, asked = played.rows(), played.asked
    assert played.sync("rollouts.concurrency=3", "rollouts.timeout_seconds=9", "rollouts.retries=2") == 0
    assert "Everything is up to date" in played.told()
    assert played.rows().equals(before) and played.asked == asked


@pytest.mark.parametrize("options", [("--again", "trajectories[library]"), ("--yes",)])
@pytest.mark.ci
def test_asked_to_a_sync_replaces(played: Played, options: tuple[str, ...]) -> None:
    before, asked = played.rows(), played.asked
    assert played.sync("rollouts.temperature=0.2", options=options) == 0
    after = played.rows()
    assert after.height == before.height and played.asked > asked
    assert not set(after["trajectory_id"]) & set(before["trajectory_id"])
    assert played.sync("rollouts.temperature=0.2") == 0
    assert played.rows().equals(after)


@pytest.mark.ci
def test_again_with_nothing_changed_plays_all_anew_and_the_default_plays_nothing(played: Played) -> None:
    before, asked = played.rows(), played.asked
    assert played.sync() == 0 and played.asked == asked
    assert played.sync(options=("--again", "trajectories")) == 0
    assert played.asked > asked
    assert played.rows().drop("seconds").equals(before.drop("seconds")), "the same agent, the same episodes"
    assert not played.rows()["seconds"].equals(before["seconds"])


@pytest.mark.ci
def test_only_what_broke_is_played_again(played: Played) -> None:
    played.server.fault, played.server.afflicted = "half_json", frozenset({1, 4})
    try:
        assert played.sync("rollouts.seed=1", options=("--yes",)) == 0
    finally:
        played.server.fault = ""
    before = played.rows()
    broken = before.filter(pl.col("fault").is_not_null())
    assert broken.height == 2 * TRIALS
    played.server.asked.clear()
    assert played.sync("rollouts.seed=1", options=("--again", "trajectories")) == 0
    assert set(played.server.asked) == {1, 4}
    after = played.rows()
    assert after["fault"].null_count() == after.height == TASKS * TRIALS
    kept = set(before["trajectory_id"]) - set(broken["trajectory_id"])
    times = [rows.filter(pl.col("trajectory_id").is_in(sorted(kept))) for rows in (before, after)]
    assert times[0].equals(times[1])


@pytest.mark.ci
def test_a_half_played_replacement_leaves_the_old_and_goes_on_when_asked(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trace_assets.rollouts import runner
    from trace_assets.rollouts.runner import Journal

    before, real, n = played.rows(), runner.play, 0

    async def dies(*arguments: object, **named: object) -> object:
        nonlocal n
        n += 1
        if n > 10:
            raise KeyboardInterrupt
        return await real(*arguments, **named)  # type: ignore[arg-type]

    edit = "rollouts.temperature=0.2"
    with monkeypatch.context() as patch:
        patch.setattr(runner, "play", dies)
        assert played.sync(edit, "rollouts.concurrency=1", options=("--yes",)) == 3
    # Half of the new is in the journal, all of the old in the store, and nobody goes on unasked.
    assert played.rows().equals(before)
    (journal,) = (played.folder / "home" / "journals" / "rollouts").iterdir()
    kept = Journal(journal).load().values()
    journalled = sum(one.completion_tokens or 0 for one in kept) // 3
    assert len(kept) == 10
    asked = played.asked
    assert played.run("diagnose") == 0
    assert "library: 24 trajectories" in played.told()
    assert played.sync(edit) == 2 and played.sync() == 0
    assert played.rows().equals(before) and played.asked == asked and journal.is_dir()
    assert played.sync(edit, options=("--again", "trajectories")) == 0
    after = played.rows()
    assert after.height == before.height
    assert not set(after["trajectory_id"]) & set(before["trajectory_id"])
    assert played.asked - asked == requests(after) - journalled
    assert not journal.exists()


@pytest.mark.ci
def test_a_process_that_dies_between_two_tables_leaves_the_old_batch(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trace_assets.store import trajectories
    from trace_assets.store.tables import Store

    before, real = played.rows(), Store.write

    def dies(self: Store, rows: object, record: type, partition: str = "all") -> str:
        if record is TrajectoryHead:
            raise SystemExit(9)  # with nothing put back, as a killed process
        return real(self, rows, record, partition)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(Store, "write", dies)
        patch.setattr(trajectories, "_put_back", lambda *_: [])
        assert played.sync("rollouts.temperature=0.2", options=("--yes",)) != 0
    mark_due(played.study().home, "trajectories", "library", INTERRUPTED)
    assert played.run("diagnose") == 0
    assert "24 trajectories: 24 passed" in played.told()
    assert played.rows().equals(before)
    messages = played.study().store.folder / "messages" / "library.parquet"
    assert set(pl.read_parquet(messages)["trajectory_id"]) == set(before["trajectory_id"])
    assert not any((played.study().store.folder / trajectories.ASIDE).iterdir())


@pytest.mark.ci
def test_a_lost_history_of_dagster_plays_nothing_again(played: Played) -> None:
    before, asked = played.rows(), played.asked
    shutil.rmtree(played.folder / "home" / "dagster")
    assert played.sync() == 0
    assert played.rows().equals(before) and played.asked == asked
    shutil.rmtree(played.folder / "home" / "dagster")
    assert played.sync("rollouts.temperature=0.2") == 2
    assert played.rows().equals(before) and played.asked == asked


def _as_the_page(played: Played, *edits: str, again: bool | None = None) -> tuple[bool, str]:
    """Materialize the trajectories as a run of the page, a sensor or a backfill does."""
    study = played.study(*edits)
    with prepare_instance(study.home) as instance:
        (outcome,) = materialize_here(build(study), study, instance, [Item("trajectories", "library")], again)
    return outcome.made, outcome.error


@pytest.mark.ci
def test_a_run_of_the_dagster_page_fails_with_a_sentence_and_its_tag_replaces(played: Played) -> None:
    before, asked = played.rows(), played.asked
    made, error = _as_the_page(played, "rollouts.temperature=0.2")
    assert not made and "rollouts.temperature was 1.0, is 0.2" in error and "trace/again = true" in error
    assert played.rows().equals(before) and played.asked == asked
    made, _ = _as_the_page(played)
    assert made and played.asked == asked, "with the same settings there is nothing to play"
    assert played.rows().equals(before)
    made, _ = _as_the_page(played, "rollouts.temperature=0.2", again=True)
    assert made and played.asked > asked


@pytest.mark.ci
def test_a_stage_called_from_python_loses_nothing_either(played: Played) -> None:
    from trace_assets.assets.trajectories import write_batch, write_tasks
    from trace_assets.errors import InputError

    before, asked = played.rows(), played.asked
    with pytest.raises(InputError, match=r"24 episodes.*rollouts.seed was 0, is 3"):
        write_batch(played.study("rollouts.seed=3"), "library")
    with pytest.raises(InputError, match="6 of 12 tasks that were played would be other ones"):
        write_tasks(played.study("targets.discovery_tasks=6"), "library")
    again = write_batch(played.study(), "library")
    assert again.spent == {("rollouts", "episodes"): 0.0} and again.cost_usd == 0.0
    assert played.rows().equals(before) and played.asked == asked


@pytest.mark.ci
def test_another_target_is_left_as_it_is(played: Played) -> None:
    before, asked = played.rows(), played.asked
    assert played.run("sync", "--dry-run", "--json") == 0
    document = json.loads(played.told())
    due = {step["item"].partition("[")[0] for step in document["due"]}
    assert not due & {"tasks", "trajectories", "base_model", "mixed_adapter", "evaluation", "routing"}
    assert any("rolled out on another target" in words for words in document["left_out"])
    assert played.run("sync", "--again", "trajectories[library]") == 2
    assert "rolled out on another target" in played.told()
    assert played.rows().equals(before) and played.asked == asked


@pytest.mark.ci
def test_a_file_called_like_a_batch_that_was_played_takes_nothing_from_it(played: Played) -> None:
    from tests.orchestration.simulations import simulation_file

    before = played.rows()
    file = simulation_file(played.folder / "library.json", "desk", n=3, lacking=1)
    assert played.run("ingest", str(file)) == 1
    assert "rolled out here; rename the file" in played.told()
    assert played.rows().equals(before)
    file.rename(played.folder / "desk.json")
    assert played.run("ingest", str(played.folder / "desk.json")) == 0
    assert played.rows().filter(pl.col("target") == "library").height == before.height


def test_a_person_at_a_terminal_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [AtRisk(Item("trajectories", "library"), "24 episodes", "rollouts.seed was 0, is 7")]

    class Terminal:
        def isatty(self) -> bool:
            return True

    said: list[str] = []
    monkeypatch.setattr(progress.sys, "stdin", Terminal())
    monkeypatch.setattr(progress.sys, "stderr", Terminal())
    for answer in ("replace", "keep", "stop"):
        monkeypatch.setattr(typer, "prompt", lambda *_, answer=answer, **__: answer)
        assert progress.ask_about(console())(found) == answer
    monkeypatch.setattr(typer, "prompt", lambda *_, **__: said.append("asked") or "stop")
    assert progress.ask_about(console(), yes=True)(found) == "replace"
    assert progress.ask_about(console(), keep=True)(found) == "keep"
    assert not said
