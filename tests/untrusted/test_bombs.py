"""Hostile files take little memory, say why in a sentence, and cost no good row."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.untrusted import agent_log_bombs, archive_bombs, json_line_bombs, parquet_bombs, simulation_bombs
from tests.untrusted.bombs import BOMBS

_HELPER = 130 << 20
"""What the process that unfolds Parquet takes before it has read anything."""
MODULES = (json_line_bombs, parquet_bombs, archive_bombs, simulation_bombs, agent_log_bombs)

Measured = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory, project_root: Path) -> Callable[[str], Measured]:
    """Read all bombs of a module in one process, the first time that one of them is asked for."""
    done: dict[str, Measured] = {}

    def measure(module: str) -> Measured:
        if module not in done:
            folder = tmp_path_factory.mktemp("bombs")
            asked = []
            for name, bomb in BOMBS.items():
                if bomb.make.__module__ == module:
                    path = folder / f"{name}.{bomb.suffix}"
                    bomb.make(path)
                    asked += [str(bomb.allowed), str(path)]
            program = [sys.executable, str(Path(__file__).with_name("measured.py")), *asked]
            environment = {**os.environ, "PYTHONPATH": str(project_root)}
            run = subprocess.run(program, capture_output=True, text=True, env=environment, timeout=600)
            told = [json.loads(line) for line in run.stdout.splitlines()]
            done[module] = {one["file"].partition(".")[0]: one for one in told}
            done[module]["run"] = {"code": run.returncode, "said": run.stderr[-3000:]}
        return done[module]

    return measure


def _bombs() -> list[object]:
    """Return all: archives are quick, Parquet is `ci`, lines, simulations and logs slow."""
    marks = {archive_bombs: [], parquet_bombs: [pytest.mark.ci]}
    when = {module.__name__: marks.get(module, [pytest.mark.slow]) for module in MODULES}
    return [pytest.param(name, marks=when[bomb.make.__module__]) for name, bomb in BOMBS.items()]


@pytest.mark.parametrize("name", _bombs())
def test_a_hostile_file_costs_little_and_no_good_row(name: str, measured: Callable[[str], Measured]) -> None:
    bomb = BOMBS[name]
    found = measured(bomb.make.__module__)
    assert name in found, found["run"]
    one = found[name]
    allowed = bomb.allowed
    assert one["grown"] <= allowed, f"{one['grown'] / 1e6:.0f} MB, and {allowed / 1e6:.0f} were allowed"
    assert one["helper"] <= allowed // 4 + _HELPER
    if bomb.good is not None:
        assert one["n"] == bomb.good, one["problems"]
    for words in bomb.words:
        assert any(words in said for said in one["problems"]), one["problems"]
    print(f"{name}: {one['grown'] / 1e6:.0f} MB, helper {one['helper'] / 1e6:.0f} MB, {one['cpu']:.1f} s")
    for said in one["problems"]:
        assert len(said) < 2500 and "\n" not in said


def test_every_bomb_is_in_the_battery() -> None:
    assert {bomb.make.__module__ for bomb in BOMBS.values()} == {module.__name__ for module in MODULES}
    assert len(BOMBS) > 75
