"""Who may import whom: rooms know no Dagster and no study, floors rest on lower ones, no circles."""

from __future__ import annotations

import pytest

from tests.docs.floors import FLOORS, FREE_OF_DAGSTER, ROOMS, UPWARD
from tests.docs.imports import circles, imports_of, modules, room_of

OF_DAGSTER: dict[tuple[str, str], str] = {}
"""Modules of `FREE_OF_DAGSTER` that import Dagster all the same, with the reason."""


def _named(module: str) -> str:
    return module.removeprefix("trace_assets.")


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_knows_no_study(room: str) -> None:
    own = [module for module in modules() if room_of(module) == room]
    assert own, f"there is no room {room}"
    for module in own:
        names = {one.module for one in imports_of(module)}
        assert "trace_assets.study" not in names, f"{module} knows the study"


@pytest.mark.parametrize("room", FREE_OF_DAGSTER)
def test_a_room_knows_no_dagster(room: str) -> None:
    for module in (module for module in modules() if room_of(module) == room):
        for one in imports_of(module):
            of_dagster = one.module.split(".")[0].startswith("dagster")
            assert not of_dagster or (_named(module), one.module) in OF_DAGSTER, f"{module}: {one.module}"


def test_every_folder_has_its_floor() -> None:
    placed = [room for floor in FLOORS for room in floor]
    assert sorted(placed) == sorted({room_of(module) for module in modules()} - {"__init__"})
    assert len(placed) == len(set(placed))


def test_a_floor_rests_on_lower_ones() -> None:
    floor_of = {room: number for number, floor in enumerate(FLOORS) for room in floor}
    upward = {
        (_named(module), _named(one.module))
        for module in modules()
        if room_of(module) != "__init__"
        for one in imports_of(module)
        if one.module in modules() and room_of(one.module) != "__init__"
        if floor_of[room_of(one.module)] > floor_of[room_of(module)]
    }
    assert upward == set(UPWARD)


def test_no_module_is_imported_in_a_circle() -> None:
    assert circles() == []


def test_the_program_does_without_its_tests() -> None:
    own = [module for module in modules() if module != "trace_assets.pytest_plugin"]  # pytest alone loads it
    borrowed = {one.module.split(".")[0] for module in own for one in imports_of(module)}
    assert not borrowed & {"tests", "conftest", "pytest"}
