"""Plays the worlds of a tournament, each in a home of its own; a world is the unit that is kept or not."""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from trace_assets.errors import InputError
from trace_assets.evaluation.choice import chosen_arm
from trace_assets.records import CompositionChoice, Evaluation, LedgerEntry
from trace_assets.settings.settings import load_settings
from trace_assets.store import Home
from trace_assets.store.files import make_folder, write_text
from trace_assets.study import Study
from trace_assets.tournament.arms import arm_named
from trace_assets.tournament.arms.protocol import PlayedWorld
from trace_assets.tournament.plan import Plan, World, read_plan, write_plan
from trace_assets.tournament.process import own_settings, play_home, toml
from trace_assets.tournament.results import (
    COSTS,
    RESULTS,
    SPENDING,
    Cost,
    Spent,
    TaskResult,
    released_rows,
    result_file,
    routing_controls,
    spent_in,
    write_rows,
)

HOMES, ENTRIES = "worlds", "entries"
REGISTRATION = "registration.json"
"""In a world's home before anything is made in it: the plan that its test tasks are opened for."""

Play = Callable[[Plan, World, Path], None]
"""Brings a world's home up to date, test tasks included."""
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


def run(
    folder: Path,
    *,
    most_hours: float | None = None,
    play: Play | None = None,
    is_decided: Callable[[], bool] = lambda: False,
    tell: Callable[[str], None] = lambda words: None,
) -> list[int]:
    """Play the worlds that are not finished, in their order.

    Interrupted at any moment, the same call goes on: a home is brought up to date by what it lacks. A bound
    ends the run between two worlds, never inside of one.

    Args:
        folder: Of the tournament.
        most_hours: Begin no further world after so many hours, or when the longest world so far would not
            fit; None for no bound.
        play: What plays a world; None for `trace demo` on its home.
        is_decided: Whether the plan's look has ended the study, asked before each further world.
        tell: Is given a line at the beginning and end of each world.

    Returns:
        The worlds that were finished by this call.

    Raises:
        InputError: There is no registered plan.
        Unavailable: A world could not be finished; what it has made is kept.
    """
    plan, done, longest, began = read_plan(folder), list[int](), 0.0, time.monotonic()
    for world in plan.worlds:
        if is_finished(folder, world.number):
            play_arms(folder, plan, world, tell)
            continue
        if is_decided():
            tell(f"stopped before world {world.number}: the look after {plan.look} worlds has decided")
            break
        spent = time.monotonic() - began
        if most_hours is not None and spent + longest > 3600 * most_hours:
            tell(f"stopped before world {world.number}: {spent / 3600:.2f} of {most_hours:g} h are spent")
            break
        tell(f"world {world.number} of {len(plan.worlds)}")
        home = world_home(folder, world.number)
        _bind(home, plan)
        started = time.monotonic()
        (play or play_demo)(plan, world, home)
        longest = max(longest, time.monotonic() - started)
        collect(folder, plan, world.number)
        done.append(world.number)
        play_arms(folder, plan, world, tell)
    return done


def play_arms(
    folder: Path, plan: Plan, world: World, tell: Callable[[str], None] = lambda words: None
) -> list[Entry]:
    """Play the plan's own arms in a world whose loop is finished; what is there is not made again.

    Args:
        folder: Of the tournament.
        plan: In force.
        world: Which.
        tell: Is given a line on each arm that is not there yet.
    """
    found = []
    for arm in plan.arms:
        entry = read_entry(folder, world.number, arm)
        if entry is None:
            tell(f"world {world.number} of {len(plan.worlds)}: {arm}")
            entry = play_entry(folder, plan, world, arm)
            if entry.why:
                tell(f"{arm} does not apply: {entry.why}")
        found.append(entry)
    return found


def is_finished(folder: Path, world: int) -> bool:
    """Whether a world's results are there."""
    return result_file(folder, RESULTS, world).is_file() and result_file(folder, COSTS, world).is_file()


def worlds_seen(folder: Path, plan: Plan) -> int:
    """Return of how many worlds of a plan results are there."""
    return sum(is_finished(folder, one.number) for one in plan.worlds)


def world_home(folder: Path, world: int) -> Path:
    """Return where a world lies."""
    return folder / HOMES / str(world)


def _bind(home: Path, plan: Plan) -> None:
    """Note the plan in a world's home; one that was begun for another plan is refused."""
    file = home / REGISTRATION
    if file.is_file():
        said = json.loads(file.read_bytes())
        found = said.get("loop", said.get("plan"))
        if found != plan.loop_fingerprint:
            raise InputError(
                f"{home} was begun under another plan ({str(found)[:12]}); move it away to play this world "
                "under the plan as it is now."
            )
        return
    make_folder(home)
    bound = {"plan": plan.fingerprint} | ({"loop": plan.loop_fingerprint} if plan.arms else {})
    write_text(file, json.dumps(bound) + "\n")


MOVED = ("training.warm_start",)
"""Settings that came as `never` when plans were registered that do not name them: there they stay so. Plans
made since name them."""


def play_demo(plan: Plan, world: World, home: Path) -> None:
    """Run the whole loop in a world's home, in a process of its own.

    Raises:
        Unavailable: It did not end well.
    """
    play_home(home, overrides_of(plan, world), f"world {world.number}")


def overrides_of(plan: Plan, world: World) -> list[str]:
    """Return the settings of a world as items `section.key=value`."""
    values: Mapping[str, Any] = {
        "training.mixed_always": True,
        **dict.fromkeys(MOVED, "never"),
        **plan.settings,
        **world.overrides(),
    }
    return [f"{name}={toml(value)}" for name, value in values.items()]


def check_settings(plan: Plan) -> None:
    """See that its worlds have settings that there are: a plan is registered long before some are begun.

    Raises:
        InputError: A setting is not known, or its value is not usable.
    """
    with TemporaryDirectory() as folder:
        load_settings(own_settings(Path(folder)), overrides_of(plan, plan.worlds[0]), environment={})


def collect(folder: Path, plan: Plan, world: int) -> None:
    """Take a world's results and its spending out of its home.

    Raises:
        InputError: Its test tasks were not played.
    """
    home = Home.open(world_home(folder, world) / "home", writable=False)
    store = Study(home).store
    rows = [row for row in store.read(Evaluation) if row.split == "test"]
    if not rows:
        raise InputError(f"world {world} has no trial of a test task in {home.path}.")
    rows += [
        *routing_controls(rows, world),
        *released_rows(rows, chosen_arm(store.read(CompositionChoice))),
    ]
    spent: dict[tuple[str, str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for entry in store.read(LedgerEntry):
        own = spent[entry.asset, entry.kind, entry.unit]
        own[0] += entry.quantity
        own[1] += entry.cost_usd
    shared: dict[str, Any] = {"plan": plan.loop_fingerprint, "world": world}
    costs = [
        Cost(**shared, asset=asset, kind=kind, unit=unit, quantity=quantity, cost_usd=usd)
        for (asset, kind, unit), (quantity, usd) in sorted(spent.items())
    ]
    write_rows(result_file(folder, SPENDING, world), Spent, spent_in(home, world))
    write_rows(result_file(folder, COSTS, world), Cost, costs)
    write_rows(result_file(folder, RESULTS, world), TaskResult, task_results(plan, world, rows))


def play_entry(folder: Path, plan: Plan, world: World, arm: str) -> Entry:
    """Make one arm in a world whose loop is finished.

    Killed meanwhile, the same call makes it again, or takes up what lies there.
    """
    home, items = world_home(folder, world.number), overrides_of(plan, world)
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


def add_arm(folder: Path, arm: str, why: str = "") -> Plan:
    """Register a further arm, as an amendment that says how many worlds had been seen.

    Args:
        folder: Of the tournament.
        arm: Its name.
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
    write_plan(folder, amended, why=reason, worlds_seen=worlds_seen(folder, plan))
    return amended


def _note(folder: Path, entry: Entry) -> Entry:
    file = _file(folder, entry.world, entry.arm)
    make_folder(file.parent)
    write_text(file, json.dumps(vars(entry)) + "\n")
    return entry


def _file(folder: Path, world: int, arm: str) -> Path:
    return folder / ENTRIES / f"world-{world:03d}-{arm}.json"
