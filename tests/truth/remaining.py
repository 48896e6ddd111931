"""What the page says of rules on invented domains, and of what is still wrong."""

from __future__ import annotations

from tests.truth.planted import DOMAINS
from tests.truth.planted.score import score_planted
from tests.truth.readings import TABLES


def text(name: str) -> str:
    """Return a part of the page that is written by hand."""
    return (TABLES / f"{name}.md").read_text("utf-8").strip()


def planted_words() -> list[str]:
    """Return the part of the page on invented domains."""
    rows = [(domain.name, score_planted([domain])) for domain in DOMAINS]
    rows.append(("all", score_planted(DOMAINS)))
    lines = [
        "| domain | party right | others' failures found | accusations that are true | passed runs accused |",
        "| --- | --- | --- | --- | --- |",
        *(f"| {name} | {one.right} | {one.found} | {one.true} | {one.accused} |" for name, one in rows),
    ]
    return [text("once"), text("invented"), "\n".join(lines)]
