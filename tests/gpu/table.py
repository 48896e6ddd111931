"""The lines of all runs as one page of Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

ORDER = ("ok", "FAILED", "out of time", "skipped")


def page(lines: Sequence[dict[str, Any]], parts: Sequence[str]) -> str:
    """Return the table: of every part the latest run that was begun.

    Args:
        lines: What all runs have written, oldest first.
        parts: All parts there are, in order.

    >>> said = [
    ...     {"part": "all", "run": "1", "kind": "machine", "facts": {"device": "A GPU"}},
    ...     {"part": "parity", "run": "1", "kind": "row", "what": "x", "value": 0.00012, "unit": "nats",
    ...      "note": ""},
    ...     {"part": "parity", "run": "1", "kind": "end", "status": "ok", "seconds": 3.2, "reason": ""},
    ... ]
    >>> "| x | 0.00012 nats |  |" in page(said, ("parity", "nccl")), summary(said, ("parity", "nccl"))
    (True, '1 ok; 1 not run: nccl')
    """
    text = ["# What only a GPU shows", ""]
    for facts in _machines(lines):
        text += ["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in facts.items()), ""]
    text += [f"Parts: {summary(lines, parts)}.", ""]
    for part in parts:
        own = latest(lines, part)
        if not own:
            continue
        end = next((line for line in own if line["kind"] == "end"), None)
        text.append(f"## {part}")
        text.append("")
        if end is None:
            text += ["Began, and nothing was heard of its end.", ""]
        elif end["status"] == "ok":
            text += [f"{end['seconds']:.0f} s.", ""]
        else:
            text += [f"**{end['status']}** after {end['seconds']:.0f} s: {end['reason']}", ""]
        rows = [line for line in own if line["kind"] == "row"]
        if rows:
            text += ["| what | figure | note |", "|---|---|---|"]
            text += [
                f"| {row['what']} | {figure(row['value'])}{' ' if row['unit'] else ''}{row['unit']} | "
                f"{str(row['note']).replace('|', '/')} |"
                for row in rows
            ]
            text.append("")
    return "\n".join(text)


def _machines(lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the machines that were measured on, each once."""
    found: list[dict[str, Any]] = []
    for line in lines:
        if line["kind"] == "machine" and line["facts"] not in found:
            found.append(line["facts"])
    return found


def latest(lines: Sequence[dict[str, Any]], part: str) -> list[dict[str, Any]]:
    """Return a part's lines of its latest run."""
    own = [line for line in lines if line["part"] == part]
    return [line for line in own if line["run"] == own[-1]["run"]]


def summary(lines: Sequence[dict[str, Any]], parts: Sequence[str]) -> str:
    """Return how many parts came out how, and which."""
    ends: dict[str, list[str]] = {}
    for part in parts:
        status = [line["status"] for line in latest(lines, part) if line["kind"] == "end"] if lines else []
        ends.setdefault(status[-1] if status else "not run", []).append(part)
    return "; ".join(
        f"{len(ends[status])} {status}" + ("" if status == "ok" else f": {', '.join(ends[status])}")
        for status in (*ORDER, "not run")
        if status in ends
    )


def figure(value: Any) -> str:
    """Return a figure in few digits.

    >>> figure(1234567), figure(0.000123456), figure(123.456), figure(True), figure("x"), figure(4)
    ('1,234,567', '0.00012', '123', 'yes', 'x', '4')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2g}" if abs(value) < 1 else f"{value:.1f}"
    return str(value)
