"""What a step prints goes on to the terminal while Dagster keeps it in a file.

Dagster has two `tail` follow the files, and two Pythons look whether these were orphaned: four processes a
run, which take as long as most items. Here a thread follows each file; it ends with its process. A Dagster
that is built otherwise follows them as it does.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import IO

COMPUTE_LOGS = "dagster._core.execution.compute_logs"
"""Where Dagster's own way is, by the name `tail_to_stream`; private, so looked up and not relied on."""
POLL_SECONDS = 0.2
CHUNK = 1 << 16


def show_by_threads() -> None:
    """Have the output of this process's runs shown by threads."""
    with suppress(ImportError):
        names = vars(import_module(COMPUTE_LOGS))
        if "tail_to_stream" in names:
            names["tail_to_stream"] = shown


@contextmanager
def shown(path: str, stream: IO[str]) -> Iterator[tuple[int | None, int | None]]:
    """Write on to a stream what comes into a file, until the body ends.

    Args:
        path: The file.
        stream: Where what the body writes is led into the file; one without a descriptor is left alone.

    Yields:
        What Dagster's own would, the ids of its two processes: here there is none.
    """
    try:
        place = os.dup(stream.fileno())
    except (AttributeError, OSError, ValueError):  # of a test, or closed
        yield None, None
        return
    over = threading.Event()
    thread = threading.Thread(target=_follow, args=(path, place, over), name="step output", daemon=True)
    thread.start()
    try:
        yield None, None
    finally:
        over.set()
        thread.join()
        os.close(place)


def _follow(path: str, place: int, over: threading.Event) -> None:
    with suppress(OSError), Path(path).open("rb") as file:  # whoever read the output has seen enough
        while True:
            last = over.is_set()
            while chunk := file.read(CHUNK):
                while chunk:
                    chunk = chunk[os.write(place, chunk) :]
            if last:
                return
            over.wait(POLL_SECONDS)
