"""What many proposals and detectors ask of one transcript or policy, found out once."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class AskedOnce:
    """What is read from a text that does not change, and is asked for again and again: made once."""

    def __init__(self) -> None:
        self._known: dict[tuple[Hashable, ...], Any] = {}

    def once(self, key: tuple[Hashable, ...], make: Callable[[], T]) -> T:
        """Return what was made under a key, and make it the first time: many proposals ask for the same.

        Args:
            key: What is asked for, and all that it depends on beside the text.
            make: Makes it.
        """
        if key not in self._known:
            self._known[key] = make()
        found: T = self._known[key]
        return found
