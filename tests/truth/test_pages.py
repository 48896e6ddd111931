"""The pages say what their texts say, and each figure on them is what its counts come to."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.truth.page import Results, Scored, front, round_names
from tests.truth.readings import TABLES, Readings
from trace_assets.stats.intervals import wilson

DOCS = Path(__file__).parents[2] / "docs"
BELOW = sorted((DOCS / "truth").glob("*.md"))
FIGURE = re.compile(r"(\d+) % \[(\d+), (\d+)\],\s+(\d+) of (\d+)")
NOTHING = Scored([], [])


@pytest.mark.parametrize("page", [DOCS / "truth.md", *BELOW], ids=lambda page: page.stem)
def test_each_figure_is_what_its_counts_come_to(page: Path) -> None:
    figures = FIGURE.findall(page.read_text("utf-8"))
    assert len(figures) > 10
    for share, low, high, hits, n in figures:
        bounds = wilson(int(hits), int(n))
        said = [int(hits) / int(n), *bounds]
        assert [f"{one:.0%}" for one in said] == [f"{share}%", f"{low}%", f"{high}%"], (hits, n)


def test_what_the_first_page_counts_stands_below() -> None:
    """But for the sums over rounds, of which the pages below have the parts."""
    below = "\n".join(page.read_text("utf-8") for page in BELOW)
    rows = [line for line in (DOCS / "truth.md").read_text("utf-8").splitlines() if line.startswith("|")]
    table = "\n".join(
        row for row in rows if "always" not in row and "of 17" not in row and "of 22" not in row
    )
    for share, low, high, hits, n in FIGURE.findall(table):
        assert f"{share} % [{low}, {high}], {hits} of {n}" in below


@pytest.mark.parametrize(
    ("page", "texts"),
    [
        ("rounds", ["intro_rounds", *round_names()]),
        ("rules", ["once", "remaining"]),
        ("invented", ["intro_invented", "lacks", "strangers", "further", "again", "last", "four_rounds"]),
        ("models", ["intro_models", "whole", "whole_sets"]),
    ],
)
def test_a_text_and_its_page_say_the_same(page: str, texts: list[str]) -> None:
    shown = (DOCS / "truth" / f"{page}.md").read_text("utf-8")
    for name in texts:
        assert (TABLES / f"{name}.md").read_text("utf-8").strip() in shown, name


def test_the_first_page_says_what_its_text_says() -> None:
    shown = (DOCS / "truth.md").read_text("utf-8")
    for part in re.split(r"\{\{.+?\}\}", (TABLES / "front.md").read_text("utf-8").strip()):
        assert part in shown


def test_a_figure_that_nobody_counts_is_refused() -> None:
    results = Results("make truth", Readings({}, []), NOTHING, NOTHING)
    assert front("{{model on record: party right}}", results) == "–\n"
    with pytest.raises(KeyError, match="no such"):
        front("{{left out: no such}}", results)
