"""Arms of their own in the worlds of a tournament: made once a world, kept apart, or said not to apply."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from trace_assets.errors import InputError
from trace_assets.records import Evaluation
from trace_assets.settings.settings import load_settings
from trace_assets.store import Home
from trace_assets.store.files import make_folder, write_text
from trace_assets.study import Study
from trace_assets.tournament.arms import arm_named
from trace_assets.tournament.arms.protocol import PlayedWorld
from trace_assets.tournament.plan import Plan, World, read_plan, write_plan
from trace_assets.tournament.process import own_settings
from trace_assets.tournament.results import RESULTS, SPENDING, Spent, TaskResult, result_file, write_rows

ENTRIES = "entries"
State = Literal["played", "does not apply"]


@dataclass(frozen=True)
class Entry:
    """One arm of its own in one world.

    Attributes:
        world: Its number.
        arm: Its name.
        state: Whether it was played.
        why: Why it does not apply; empty where it was played.
        note: What is to be known of how it was made.
    """

    world: int
    arm: str
    state: State
    why: str = ""
    note: str = ""


def play_entry(folder: Path, plan: Plan, world: World, arm: str, home: Path, items: list[str]) -> Entry:
    """Make one arm in a world whose loop is finished, unless it is there already.

    Killed meanwhile, the same call makes it again, or takes up what lies there.

    Args:
        folder: Of the tournament.
        plan: In force.
        world: Which.
        arm: Name of the arm.
        home: Folder of the world.
        items: Settings of the world, `section.key=value`.
    """
    if (found := read_entry(folder, world.number, arm)) is not None:
        return found
    settings = load_settings(own_settings(home), items, environment={})
    study = Study.of(Home.open(home / "home"), settings)
    played = PlayedWorld(world.number, study, tuple(items), ours=plan.primary[0].arm)
    chosen = arm_named(arm)
    if why := chosen.refusal(played):
        return _note(folder, Entry(world.number, arm, "does not apply", why))
    place = home / "arms" / arm
    make_folder(place)
    made = chosen.play(played, place)
    if not made.rows:
        raise InputError(f"arm '{arm}' has no trial of a test task in world {world.number}.")
    spent = [Spent(world=world.number, arm=arm, **row) for row in made.spent]
    results = task_results(plan, world.number, made.rows)
    write_rows(result_file(folder, SPENDING, world.number, arm), Spent, spent)
    write_rows(result_file(folder, RESULTS, world.number, arm), TaskResult, results)
    return _note(folder, Entry(world.number, arm, "played", note=made.note))


def task_results(plan: Plan, world: int, rows: Iterable[Evaluation]) -> list[TaskResult]:
    """Count trials by arm and task."""
    judged: Counter[tuple[str, str, str]] = Counter()
    passed: Counter[tuple[str, str, str]] = Counter()
    for row in rows:
        cell = row.arm, row.task_id, row.skill
        judged[cell] += row.success is not None
        passed[cell] += bool(row.success)
    shared: dict[str, Any] = {"plan": plan.loop_fingerprint, "world": world}
    return [
        TaskResult(
            **shared, arm=arm, task_id=task, skill=skill, passed=passed[arm, task, skill], judged=count
        )
        for (arm, task, skill), count in sorted(judged.items())
    ]


def read_entry(folder: Path, world: int, arm: str) -> Entry | None:
    """Return what became of an arm in a world; None where it is still to be played.

    Raises:
        InputError: Its file is not what was written there.
    """
    file = _file(folder, world, arm)
    if not file.is_file():
        return None
    try:
        entry = Entry(**json.loads(file.read_bytes()))
    except (OSError, ValueError, TypeError) as error:
        raise InputError(
            f"{file} is not what was written there ({error}); delete it and run again."
        ) from error
    there = result_file(folder, RESULTS, world, arm).is_file()
    return entry if entry.state != "played" or there else None


def read_entries(folder: Path, plan: Plan) -> list[Entry]:
    """Return what became of the plan's own arms, by arm and world; those still to be played are left out."""
    every = [read_entry(folder, world.number, arm) for arm in plan.arms for world in plan.worlds]
    return [entry for entry in every if entry is not None]


def add_arm(folder: Path, arm: str, finished: Callable[[int], bool], why: str = "") -> Plan:
    """Register a further arm, as an amendment that says how many worlds had been seen.

    Args:
        folder: Of the tournament.
        arm: Its name.
        finished: Whether a world's loop is finished.
        why: The reason, in words.

    Returns:
        The plan as it is now.

    Raises:
        InputError: There is no such arm, or no registered plan.
    """
    plan = read_plan(folder)
    try:
        arm_named(arm)
    except ValueError as error:
        raise InputError(f"{error}.") from error
    if arm in plan.arms:
        return plan
    amended = plan.model_copy(update={"arms": (*plan.arms, arm)})
    reason = f"arm {arm} added" + (f", {why}" if why else "")
    write_plan(folder, amended, why=reason, worlds_seen=sum(finished(one.number) for one in plan.worlds))
    return amended


def _note(folder: Path, entry: Entry) -> Entry:
    file = _file(folder, entry.world, entry.arm)
    make_folder(file.parent)
    write_text(file, json.dumps(vars(entry)) + "\n")
    return entry


def _file(folder: Path, world: int, arm: str) -> Path:
    return folder / ENTRIES / f"world-{world:03d}-{arm}.json"
