"""What a model server or engine said last, for the sentence that a person is told."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

_SAYS_NOTHING = re.compile(r"[Ss]ee (the )?(root cause|stack trace) \(?above|HTTP/1\.1\" 5\d\d ")
"""Points to an error above it, or is the web server's line of a request that failed for it."""
START = "$ "
"""How the line with the command begins that a start writes to the log."""


def last_words(log: Path) -> str:
    """Return `: <the line that says most> (the whole log: <path>).`, or a full stop when nothing was said.

    The line is the last since the last start that names an error (and does not only point to one above
    it), else the last.
    """
    with suppress(OSError):
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        starts = [number for number, line in enumerate(lines) if line.startswith(START)]
        lines = lines[starts[-1] + 1 :] if starts else lines
        told = [line for line in lines if "Error" in line and not _SAYS_NOTHING.search(line)] or lines
        if told:
            return f": {told[-1].strip()[-300:]} (the whole log: {log})."
    return "."
