"""Who may import whom: rooms know no Dagster and no study, floors rest on lower ones, nothing goes in a circle."""

from __future__ import annotations

import pytest

from tests.docs.imports import circles, imports_of, modules, room_of

ROOMS = (
    *("stats", "records", "formats", "diagnosis", "environments", "sandbox", "rollouts", "training"),
    *("routing", "targets", "policies", "store", "evaluation", "system", "untrusted"),
)
"""Folders that take records and give records."""

FREE_OF_DAGSTER = (*ROOMS, "assets", "report", "resources", "serving", "settings", "study", "workflows")

FLOORS = (
    ("errors", "system", "untrusted", "conformance", "code_graph", "code_versions", "stats"),
    ("records", "settings"),
    ("store",),
    ("sandbox", "targets", "formats", "policies"),
    ("rollouts", "diagnosis", "routing", "environments", "training"),
    ("evaluation", "serving", "report"),
    ("study",),
    ("resources",),
    ("assets", "workflows"),
    ("orchestration", "definitions"),
    ("cli", "__main__"),
)
"""From the ground up: a room imports of its own floor and of lower ones."""

UPWARD = {
    ("policies.vllm_engine", "serving.server"): "ends a process group as the server's is ended",
    ("policies.vllm_engine", "training.checkpoints"): "reads which files make up an adapter's folder",
    ("policies.vllm_host", "serving.server"): "ends a process group as the server's is ended",
    ("training.sampler", "serving.server"): "starts a vLLM server for the time of a training",
    ("settings.loop", "orchestration.cron"): "a wrong cron expression is refused when settings are read",
    ("resources.analysts", "assets.result"): "the type of a figure",
    ("resources.analysts", "assets.suspect_tasks"): "tasks whose ground truth is doubtful are put aside",
    ("resources.sandbox", "assets.result"): "the type of a check",
    ("resources.contract", "workflows.ingest"): "where ingested batches lie",
    ("resources.sandbox", "workflows.permutations"): "the seeds that an environment is given",
}
"""Imports of a higher floor that there are today, each with its reason. None of them closes a circle."""

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
