"""README stays short and says what it must; links lead somewhere; every page is in the index."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = sorted([README, *ROOT.glob("CONTRIBUTING.md"), *(ROOT / "docs").rglob("*.md")])


def _anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_readme_is_short_and_shows_the_report() -> None:
    assert len(README.read_bytes()) <= 8_000
    text = README.read_text(encoding="utf-8")
    assert "docs/images/report.png" in text and (ROOT / "docs/images/report.png").stat().st_size > 10_000
    assert text.index("## Status") < text.index("## Three doors")


def test_readme_names_the_commands_that_ci_runs() -> None:
    text, run = README.read_text(encoding="utf-8"), (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for command in re.findall(r"^ *part (make [a-z-]+)", run, re.MULTILINE):
        assert f"`{command}`" in text, command


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        goal = (page.parent / path).resolve() if path else page
        assert goal.exists(), f"{page.name}: {link} leads nowhere"
        if anchor and goal.suffix == ".md":
            assert anchor in _anchors(goal), f"{page.name}: {link} names no heading"


def test_every_page_is_in_an_index() -> None:
    for folder in (ROOT / "docs", ROOT / "docs" / "howto", ROOT / "docs" / "design"):
        index = (folder / "README.md").read_text(encoding="utf-8")
        for page in folder.glob("*.md"):
            assert page.name == "README.md" or f"]({page.name})" in index, f"{page} is in no index"
    for first in (ROOT / "docs").glob("*.md"):
        for page in first.with_suffix("").glob("*.md"):
            assert f"]({first.stem}/{page.name})" in first.read_text("utf-8"), (
                f"{page} is not on the page above"
            )
