"""After a power cut at any moment a home says what is due, and goes on to equal tables."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.durability.crash_layer import VARIANTS, CrashLayer, Tree, fingerprint, lay
from tests.durability.small_home import TOLD, Small, quick_models, simulation_file
from trace_assets.errors import InputError
from trace_assets.formats.problem import Problem
from trace_assets.orchestration import recovery
from trace_assets.records import TABLES
from trace_assets.store.content import frame_version
from trace_assets.store.manifest import manifest_of
from trace_assets.workflows.ingested_files import keep_notes_on, notes_on_files


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Small, CrashLayer, dict[str, str]]]:
    """A small home, all that was done to it, and what came of it."""
    folder = tmp_path_factory.mktemp("power")
    small = Small(folder / "home", simulation_file(folder / "desk.json"))
    layer = CrashLayer(folder / "home")
    with quick_models(), pytest.MonkeyPatch.context() as patch:
        # A machine takes longer to start again than these states do: no half-made file is young after a cut.
        patch.setattr(recovery, "_SPARED_SECONDS", 0.0)
        with layer.listening():
            small.work()
        yield small, layer, small.versions()


def states(layer: CrashLayer) -> dict[str, tuple[str, Tree]]:
    """Return every state that a cut may leave, each once."""
    found: dict[str, tuple[str, Tree]] = {}
    for number, step in enumerate(layer.steps):
        for variant in VARIANTS:
            tree = layer.tree(number, variant)
            found.setdefault(fingerprint(tree), (f"after {number} ({step.call}), {variant}", tree))
    return found


def readable(small: Small) -> dict[str, str]:
    """Return the content version of every table that can be read as it lies."""
    study, found = small.study(), dict[str, str]()
    for record in TABLES:
        for part in [] if record.table in TOLD else study.store.partitions(record):
            with suppress(InputError):
                found[f"{record.table}/{part}"] = frame_version(study.store.frame(record, part), record)
    return found


def goes_on(small: Small, layer: CrashLayer, name: str, tree: Tree, wanted: dict[str, str]) -> None:
    """Lay a state, look at it, work on, and compare."""
    lay(layer.root, tree)
    for table, version in readable(small).items():
        assert version == wanted[table], f"{name}: {table} reads as other rows"
    due = {str(step.item) for step in small.due()}
    made = {str(outcome.item) for outcome in small.work().outcomes}
    assert due <= made, f"{name}: {due - made} were due and not made"
    assert small.versions() == wanted, name
    assert small.due() == [], name
    manifest = manifest_of(layer.root)
    assert manifest.problems(manifest.entries()) == {}, name


def test_what_is_relied_on_was_synced_first(recorded: tuple[Small, CrashLayer, dict[str, str]]) -> None:
    _, layer, _ = recorded
    assert len(layer.steps) > 200
    for number, step in enumerate(layer.steps):
        call, _, path = step.call.partition(" ")
        if call != "replace" or not path.startswith("/tables/"):
            continue
        before = layer.steps[number - 1]
        assert before.call.startswith("fsync ") and ".partial" in before.call, (
            f"{before.call}, then {step.call}"
        )
        after = layer.steps[number + 1]
        assert after.call == f"fsync {path.rpartition('/')[0]}", f"{step.call}, then {after.call}"


def test_a_finished_command_is_on_the_disk(recorded: tuple[Small, CrashLayer, dict[str, str]]) -> None:
    small, layer, wanted = recorded
    lay(layer.root, layer.tree(len(layer.steps) - 1, "synced"))
    assert small.due() == []
    assert small.versions() == wanted


@pytest.mark.ci
def test_a_home_goes_on_after_a_power_cut(recorded: tuple[Small, CrashLayer, dict[str, str]]) -> None:
    small, layer, wanted = recorded
    found = list(states(layer).values())
    for name, tree in random.Random(0).sample(found, 5):
        goes_on(small, layer, name, tree, wanted)


PARTS = 16


@pytest.mark.slow
@pytest.mark.timeout(6 * 3600)
@pytest.mark.parametrize("part", range(PARTS))
def test_a_home_goes_on_after_a_power_cut_at_any_moment(
    recorded: tuple[Small, CrashLayer, dict[str, str]], part: int
) -> None:
    """In parts, each with states of the whole sequence, so that an interruption loses one part."""
    small, layer, wanted = recorded
    found = list(states(layer).values())
    print(f"{len(layer.steps)} steps, {len(found)} states, of which {len(found[part::PARTS])} here")
    for name, tree in found[part::PARTS]:
        goes_on(small, layer, name, tree, wanted)


def test_what_was_said_of_files_is_kept_whole_at_every_cut(tmp_path: Path) -> None:
    layer, inbox = CrashLayer(tmp_path / "home"), tmp_path / "home" / "inbox"
    laid, after = {"a": "1", "b": "1"}, list[int]()
    with layer.listening():
        for said in ("a", "b"):
            problem = Problem(path=f"/{said}.jsonl", message=said, severity="notice")
            keep_notes_on(inbox, [problem], {f"/{said}.jsonl": [said]}, laid)
            after.append(len(layer.steps))
    wanted: list[list[str]] = [[], ["a"], ["a", "b"]]
    for number, step in enumerate(layer.steps):
        done = sum(number >= one - 1 for one in after)
        for variant in VARIANTS:
            lay(layer.root, layer.tree(number, variant))
            found = sorted(one.message for one in notes_on_files(inbox, laid))
            assert found in wanted[done : done + 2], f"after {number} ({step.call}), {variant}"
