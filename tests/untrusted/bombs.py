"""Hostile files, made on the fly: small to write, dear to read for a reader that believes them.

Every one holds good rows beside what is hostile, wherever its format can: those must be kept. The modules
beside this one fill `BOMBS`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

MB = 1_000_000
Maker = Callable[[Path], object]


class Bomb(NamedTuple):
    """A hostile file.

    Attributes:
        make: Writes it to a path.
        suffix: Of its name.
        good: Rows in it that must be kept; None where any number may.
        words: Each must be in what is said about it; none where nothing need be said.
    """

    make: Maker
    suffix: str
    good: int | None
    words: tuple[str, ...] = ()


BOMBS: dict[str, Bomb] = {}
"""Every one by its name."""


def bomb(suffix: str, good: int | None, *words: str) -> Callable[[Maker], Maker]:
    """Enter what makes a file under its own name."""

    def enter(make: Maker) -> Maker:
        BOMBS[make.__name__] = Bomb(make, suffix, good, words)
        return make

    return enter
