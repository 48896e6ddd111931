"""What a model server or engine said last, for the sentence that a person is told."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

_POINTS_BACK = re.compile(r"[Ss]ee (the )?(root cause|stack trace) \(?above")


def last_words(log: Path) -> str:
    """Return `: <the line that says most> (the whole log: <path>).`, or a full stop when nothing was said.

    The line is the last that names an error (and does not only point to one above it), else the last.
    """
    with suppress(OSError):
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        told = [line for line in lines if "Error" in line and not _POINTS_BACK.search(line)] or lines
        if told:
            return f": {told[-1].strip()[-300:]} (the whole log: {log})."
    return "."
