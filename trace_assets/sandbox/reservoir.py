"""A few of many, each as likely as any other, without keeping the many."""

from __future__ import annotations

import random
from typing import Generic, TypeVar

T = TypeVar("T")


class Reservoir(Generic[T]):
    """Keeps a sample of fixed size of what it is shown (Vitter, Random Sampling with a Reservoir, 1985).

    Drawn from the system's randomness, so that nobody can foretell what is kept.

    Args:
        size: The most that are kept.

    >>> few = Reservoir[int](3)
    >>> for number in range(100):
    ...     few.see(number)
    >>> len(few.kept), few.seen
    (3, 100)
    """

    def __init__(self, size: int) -> None:
        self.size, self.seen = size, 0
        self.kept: list[T] = []
        self._chance = random.SystemRandom()

    def see(self, one: T) -> None:
        """Look at one more."""
        self.seen += 1
        if len(self.kept) < self.size:
            self.kept.append(one)
        elif (place := self._chance.randrange(self.seen)) < self.size:
            self.kept[place] = one
