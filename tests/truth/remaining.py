"""What the pages say of rules on invented domains, and texts that are written by hand."""

from __future__ import annotations

from collections.abc import Sequence

from tests.truth.planted import DOMAINS, Domain
from tests.truth.planted.further import (
    AGAIN_FAULTS,
    AGAIN_LACKS,
    FURTHER_FAULTS,
    FURTHER_LACKS,
    LAST_FAULTS,
    LAST_LACKS,
)
from tests.truth.planted.lacks import LACK_DOMAINS, FoundLack, LackDomain, find_lacks
from tests.truth.planted.later import LATER
from tests.truth.planted.rounds import ROUND_FAULTS, ROUND_LACKS
from tests.truth.planted.score import PlantedScore, score_planted
from tests.truth.planted.shapes import SHAPES, reshaped
from tests.truth.planted.strangers import STRANGE_FAULTS, STRANGE_LACKS
from tests.truth.readings import TABLES
from tests.truth.scores import share


def text(name: str) -> str:
    """Return a part of the page that is written by hand."""
    return (TABLES / f"{name}.md").read_text("utf-8").strip()


def planted_words() -> list[str]:
    """Return the part of the page on invented domains."""
    rows = [(shape, score_planted([reshaped(one, shape) for one in DOMAINS])) for shape in SHAPES]
    shapes = _parties("records", "others' faults found", rows)
    return [text("invented"), _faults(DOMAINS), text("shapes"), shapes]


def _faults(domains: Sequence[Domain]) -> str:
    rows = [(domain.name, score_planted([domain])) for domain in domains]
    return _parties("domain", "others' failures found", [*rows, ("all", score_planted(domains))])


def _parties(first: str, found: str, rows: Sequence[tuple[str, PlantedScore]]) -> str:
    lines = [
        f"| {first} | party right | {found} | accusations that are true | passed runs accused |",
        "| --- | --- | --- | --- | --- |",
        *(f"| {name} | {one.right} | {one.found} | {one.true} | {one.accused} |" for name, one in rows),
    ]
    return "\n".join(lines)


def planted_lacks() -> list[str]:
    """Return the part of the page on capabilities in invented domains."""
    rows = [row for domain in (*LACK_DOMAINS, *LATER) for row in find_lacks(domain)]
    return [
        text("lacks"),
        _lacks(rows),
        f"Found: {share(one.found for one in rows)}.",
        *_both("strangers", STRANGE_LACKS, STRANGE_FAULTS),
        *_both("further", FURTHER_LACKS, FURTHER_FAULTS),
        *_both("again", AGAIN_LACKS, AGAIN_FAULTS),
        *_both("last", LAST_LACKS, LAST_FAULTS),
        *_both("four_rounds", ROUND_LACKS, ROUND_FAULTS),
    ]


def _both(name: str, lacks: Sequence[LackDomain], faults: Sequence[Domain]) -> list[str]:
    rows = [row for domain in lacks for row in find_lacks(domain)]
    return [
        text(name),
        _lacks(rows),
        f"Found: {share(one.found for one in rows)}. Faults of other parties in the same domains:",
        _faults(faults),
    ]


def _lacks(rows: Sequence[FoundLack]) -> str:
    lines = [
        "| domain | planted | found as | LACKING of planted | LACKING of others |",
        "| --- | --- | --- | --- | --- |",
        *(
            f"| {one.domain} | {one.lack} | {one.candidate if one.found else '–'} | {one.hits} of {one.n} "
            f"| {one.false} |"
            for one in rows
        ),
    ]
    return "\n".join(lines)
