"""Environment variables for the processes that are started inside a block."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

GROUP_OF_A_TRAINING = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""Variables of processes that train together: a server or engine started by one of them is none of them."""


@contextmanager
def variables(**values: str | None) -> Iterator[None]:
    """Set environment variables (None takes one away), and put back what was there.

    >>> with variables(TRACE_DOCTEST="1"):
    ...     os.environ["TRACE_DOCTEST"]
    '1'
    >>> "TRACE_DOCTEST" in os.environ
    False
    """
    before = {name: os.environ.get(name) for name in values}
    _set(values)
    try:
        yield
    finally:
        _set(before)


def _set(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
