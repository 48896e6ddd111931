"""The page of rounds says what its worlds come to."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

from tests.bench.rounds import RIVAL, differences
from trace_assets.tournament.worlds import across

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "results" / "rounds.md").read_text(encoding="utf-8")
WORLDS = pl.read_parquet(ROOT / "docs" / "rounds-desk-a" / "worlds.parquet")
NUMBER = re.compile(r"[+-]?\d*\.\d+")
ROWS = {
    cells[1].strip(): [[float(one) for one in NUMBER.findall(cell)] for cell in cells[2:-1]]
    for cells in (line.split("|") for line in PAGE.splitlines() if line.startswith(("| seed ", "| over ")))
}
COLUMNS = {3: ("round:2", "round:1"), 5: ("round:2", RIVAL)}


@pytest.mark.parametrize("column", COLUMNS)
def test_worlds_that_are_kept_are_in_the_table_as_they_are(column: int) -> None:
    found = differences(WORLDS, *COLUMNS[column])
    assert [name for name, *_ in found] == ["seed 2", "seed 3", "seed 4"]
    for name, *figures in found:
        assert ROWS[name][column] == pytest.approx(figures, abs=0.051)


@pytest.mark.parametrize("column", COLUMNS)
def test_the_last_line_is_what_the_worlds_come_to(column: int) -> None:
    values = [row[column][0] for name, row in ROWS.items() if name.startswith("seed")]
    over = across(values)
    assert over.n == 5
    assert ROWS["over worlds"][column] == pytest.approx([over.mean, over.low, over.high], abs=0.051)


def test_rates_are_the_tasks_means() -> None:
    rates = WORLDS.group_by("world", "arm").agg(rate=(100 * pl.col("passed") / pl.col("trials")).mean())
    for place, arm in enumerate(("base", "round:1", "round:2")):
        for world, rate in rates.filter(arm=arm).select("world", "rate").iter_rows():
            assert ROWS[world][place][0] == pytest.approx(rate, abs=0.051)
