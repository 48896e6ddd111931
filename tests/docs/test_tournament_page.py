"""The study that the docs quote is said again from its raw tables, with no world played."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from trace_assets.tournament.budgets import curves
from trace_assets.tournament.page import over_budgets, page, sentence
from trace_assets.tournament.score import score

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    ("name", "primary", "arms"),
    [
        ("desk-a", 2, "oracle_routed routed composed base random_routing swapped_routing"),
        ("desk-a-rounds-again", 1, "round:2 routed joint rft mixed_grpo base"),
        ("desk-a-few", 2, "rft mixed_grpo oracle_routed released routed random_routing base"),
        ("desk-b", 3, "mixed_grpo composed joint routed sum base"),
        (
            "desk-b-again",
            3,
            "rft composed released mixed_grpo together joint routed sum base "
            "placebo_environment generic_desk",
        ),
        ("desk-c", 3, "oracle_routed joint routed mixed_grpo composed base"),
        ("desk-d", 3, "mixed_grpo composed base"),
        ("desk-d-again", 3, "oracle_routed composed routed released joint mixed_grpo base"),
    ],
)
def test_the_sentences_and_the_table_are_those_of_the_tables(
    tmp_path: Path, name: str, primary: int, arms: str
) -> None:
    folder = tmp_path / "study"
    shutil.copytree(DOCS / f"tournament-{name}", folder)
    scored = score(folder)
    said = (DOCS / "tournament.md").read_text("utf-8")
    assert len(scored.primary) == primary
    for one in scored.primary:
        assert f"> {sentence(one, scored.plan)}" in said
    rows: dict[str, str] = {}
    for line in page(scored).splitlines():  # the first table is that of pass rates
        if line.startswith("| `"):
            rows.setdefault(line.split("|")[1].strip(), line)
    for arm in arms.split():
        assert rows[f"`{arm}`"].split("|")[2].strip() in said, arm


def test_the_curve_is_that_of_the_tables(tmp_path: Path) -> None:
    """One copy of each study: what is read leaves locks behind."""
    folders = [
        Path(shutil.copytree(DOCS / name, tmp_path / name))
        for name in ("tournament-desk-a", "tournament-desk-a-third", "tournament-desk-a-ninth")
    ]
    said = (DOCS / "tournament.md").read_text("utf-8")
    direct = over_budgets(curves(folders)[:1]).splitlines()
    rows = [line for line in direct if line.startswith("| ")]
    assert len(rows) == 4 and all(line in said for line in rows)
    assert "the difference is -2.3 [-7.0, +2.4]" in said and "-2.3 [-7.0, +2.4]" in direct[-1]
    assert "gains +5.5 [-6.1, +17.1]" in said and "gains +5.5 [-6.1, +17.1]" in direct[-1]
