"""The study that the docs quote is said again from its raw tables, with no world played."""

from __future__ import annotations

import shutil
from pathlib import Path

from trace_assets.tournament.page import page, sentence
from trace_assets.tournament.score import score

DOCS = Path(__file__).parents[2] / "docs"


def test_the_sentences_and_the_table_are_those_of_the_tables(tmp_path: Path) -> None:
    folder = tmp_path / "study"
    shutil.copytree(DOCS / "tournament-desk-a", folder)
    scored = score(folder)
    said = (DOCS / "tournament.md").read_text("utf-8")
    assert len(scored.primary) == 2
    for one in scored.primary:
        assert f"> {sentence(one, scored.plan)}" in said
    rows = {line.split("|")[1].strip(): line for line in page(scored).splitlines() if line.startswith("| `")}
    for arm in ("oracle_routed", "routed", "composed", "base", "random_routing", "swapped_routing"):
        assert rows[f"`{arm}`"].split("|")[2].strip() in said, arm
