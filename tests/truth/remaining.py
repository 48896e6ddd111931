"""What the page says of rules on invented domains, and of what is still wrong."""

from __future__ import annotations

from tests.truth.planted import DOMAINS
from tests.truth.planted.lacks import LACK_DOMAINS, find_lacks
from tests.truth.planted.later import LATER
from tests.truth.planted.score import score_planted
from tests.truth.planted.shapes import SHAPES, reshaped
from tests.truth.readings import TABLES
from tests.truth.scores import share


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
    return [text("once"), text("invented"), "\n".join(lines), *_shapes()]


def _shapes() -> list[str]:
    rows = [(shape, score_planted([reshaped(one, shape) for one in DOMAINS])) for shape in SHAPES]
    lines = [
        "| records | party right | others' faults found | accusations that are true | passed runs accused |",
        "| --- | --- | --- | --- | --- |",
        *(f"| {name} | {one.right} | {one.found} | {one.true} | {one.accused} |" for name, one in rows),
    ]
    return [text("shapes"), "\n".join(lines)]


def planted_lacks() -> list[str]:
    """Return the part of the page on capabilities in invented domains."""
    rows = [row for domain in (*LACK_DOMAINS, *LATER) for row in find_lacks(domain)]
    lines = [
        "| domain | planted | found as | LACKING of planted | LACKING of others |",
        "| --- | --- | --- | --- | --- |",
        *(
            f"| {one.domain} | {one.lack} | {one.candidate if one.found else '–'} | {one.hits} of {one.n} "
            f"| {one.false} |"
            for one in rows
        ),
    ]
    return [text("lacks"), "\n".join(lines), f"Found: {share(one.found for one in rows)}."]
