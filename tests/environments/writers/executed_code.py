"""Whether a piece of code is ever executed in this process."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

SEEN = {"armed": False, "sentinel": "", "runs": 0}


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "exec" and SEEN["armed"] and _holds(arguments[0], str(SEEN["sentinel"])):
        SEEN["runs"] = int(SEEN["runs"]) + 1


def _holds(code: Any, sentinel: str) -> bool:
    return sentinel in repr(getattr(code, "co_consts", ""))


@contextmanager
def watched(sentinel: str) -> Iterator[Callable[[], int]]:
    """Count how often code that holds a text is executed in this process."""
    if not SEEN.get("hooked"):
        sys.addaudithook(_hook)  # cannot be taken out again, only disarmed
        SEEN["hooked"] = True
    SEEN.update(armed=True, sentinel=sentinel, runs=0)
    try:
        yield lambda: int(SEEN["runs"])
    finally:
        SEEN["armed"] = False
