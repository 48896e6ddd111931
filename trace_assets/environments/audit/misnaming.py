"""Names of the same build that nothing is called by."""

from __future__ import annotations

import re
from typing import Any


def misspelt(value: Any, by: int) -> Any:
    """Return a value of the same kind and build that nothing is called by.

    >>> misspelt("A19", 1), misspelt("north", 1), misspelt(["B2"], 2), misspelt(7, 1), misspelt(True, 1)
    ('A20', 'htronq', ['B4'], 8, True)
    """
    if isinstance(value, list):
        return [misspelt(one, by) for one in value]
    if isinstance(value, str) and (found := re.search(r"\d+(?!.*\d)", value)):
        number = str(int(found[0]) + by)[-len(found[0]) :].zfill(len(found[0]))
        return f"{value[: found.start()]}{number}{value[found.end() :]}"
    if isinstance(value, str):
        return f"{value[::-1]}q" if value else "q"
    return value + by if isinstance(value, int | float) and not isinstance(value, bool) else value
