"""Hostile files, made on the fly: small to write, dear to read for a reader that believes them.

Every one holds good rows beside what is hostile, wherever its format can: those must be kept. The modules
beside this one fill `BOMBS`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

MB = 1_000_000
ALLOWED = 512 << 20
"""What reading may take: a quarter of a small machine."""
LITTLE = ALLOWED // 4
"""What it may take where only the number of rows fills it, which takes a while."""
LEAST = ALLOWED // 8
"""The same where a row leaves nothing behind but its name."""
Maker = Callable[[Path], object]


class Bomb(NamedTuple):
    """A hostile file.

    Attributes:
        make: Writes it to a path.
        suffix: Of its name.
        good: Rows in it that must be kept; None where any number may.
        words: Each must be in what is said about it; none where nothing need be said.
        allowed: Bytes of memory that reading it may take.
    """

    make: Maker
    suffix: str
    good: int | None
    words: tuple[str, ...] = ()
    allowed: int = ALLOWED


BOMBS: dict[str, Bomb] = {}
"""Every one by its name."""


def bomb(suffix: str, good: int | None, *words: str, allowed: int = ALLOWED) -> Callable[[Maker], Maker]:
    """Enter what makes a file under its own name."""

    def enter(make: Maker) -> Maker:
        BOMBS[make.__name__] = Bomb(make, suffix, good, words, allowed)
        return make

    return enter
