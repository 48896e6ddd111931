"""One progress bar for all long work, also when the work runs in another process than the terminal."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

PROGRESS_DIR = "TRACE_PROGRESS_DIR"
"""Where a worker process reports, for the process that owns the terminal to draw."""


class Bar:
    """A running count. `advance` is cheap: it draws at most ten times a second."""

    def __init__(self, title: str, total: int | None, sink: Path | Progress | None) -> None:
        self.title, self.total, self.done, self.note = title, total, 0, ""
        self._sink = sink
        self._drawn = 0.0
        self._task = sink.add_task(title, total=total, note="") if isinstance(sink, Progress) else None

    def advance(self, steps: int = 1, note: str | None = None) -> None:
        """Count `steps` more, and show `note` behind the bar when given."""
        self.done += steps
        self.note = self.note if note is None else note
        now = time.monotonic()
        if now - self._drawn >= 0.1:
            self._drawn = now
            self._draw()

    def _draw(self) -> None:
        if isinstance(self._sink, Progress) and self._task is not None:
            self._sink.update(self._task, completed=self.done, note=self.note)
        elif isinstance(self._sink, Path):
            state = {"title": self.title, "total": self.total, "done": self.done, "note": self.note}
            partial = self._sink.with_suffix(".tmp")
            partial.write_text(json.dumps(state), encoding="utf-8")
            os.replace(partial, self._sink)


@contextmanager
def progress(title: str, total: int | None = None) -> Iterator[Bar]:
    """Show a bar while the body runs.

    Draws on standard error when that is a terminal, reports to `TRACE_PROGRESS_DIR` when it is set, and is
    silent otherwise.

    Args:
        title: What is being done, a few words.
        total: How many steps there are; None when not known.

    Yields:
        The bar, to be advanced.
    """
    folder = os.environ.get(PROGRESS_DIR)
    if folder:
        path = Path(folder) / f"{os.getpid()}-{time.monotonic_ns()}.json"
        bar = Bar(title, total, path)
        bar._draw()
        try:
            yield bar
        finally:
            path.unlink(missing_ok=True)
    elif sys.stderr.isatty():
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}"),
        )
        with Progress(*columns, console=Console(stderr=True), transient=True) as display:
            bar = Bar(title, total, display)
            yield bar
            bar._draw()
    else:
        yield Bar(title, total, None)


def first_to_say(what: str) -> bool:
    """Whether no other worker of this command has said so: dozens of them meet the same lack.

    Where workers report a file is left; it goes with the command. Without such a folder all may speak.
    """
    folder = os.environ.get(PROGRESS_DIR)
    try:
        if folder:
            Path(folder, f"{what}.said").touch(exist_ok=False)
    except FileExistsError:
        return False
    except OSError:  # better twice than not at all
        return True
    return True
