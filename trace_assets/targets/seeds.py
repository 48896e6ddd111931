"""Which seeds are for what: in journals, tasks and tables a seed is a number of one of these ranges.

An environment is given another number, by a permutation of all of them that is drawn when its text is fixed
and kept secret from it: every number that it is given is as likely in one phase as in another.
"""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Iterable, Iterator
from itertools import islice

TRAINING_SEEDS = range(0, 4096)
VALIDATION_SEEDS = range(1_000_000, 1_000_512)
AUDIT_SEEDS = range(2_000_000, 2_100_000)
"""Three ranges that share no seed: nothing is validated on what was trained or audited."""

_TURNS = len(VALIDATION_SEEDS) // 2


def audited(permutation: SeedPermutation, n: int) -> tuple[int, ...]:
    """Return seeds for an audit of an environment: half of them of the audit's own range.

    The others are of those that are trained and validated on, a run of each from a secret start, so that
    whatever holds for the audit's episodes is known to hold for theirs.
    """
    training = permutation.number("training") % (len(TRAINING_SEEDS) - _TURNS)
    validation = permutation.number("validation") % 16
    return tuple(islice(_mixed(training, validation), n))


def _mixed(training: int, validation: int) -> Iterator[int]:
    for turn in range(_TURNS):
        yield AUDIT_SEEDS[2 * turn]
        yield TRAINING_SEEDS[training + turn]
        yield AUDIT_SEEDS[2 * turn + 1]
        yield VALIDATION_SEEDS[validation + turn]
    yield from AUDIT_SEEDS[2 * _TURNS :]


# What an environment is given for a seed. Standard library only: exports carry this file along.


COLUMNS = 2520
"""The least number that 1 to 10 divide."""
ROWS = 1000
KEY_BYTES = 32
_HALF_BITS = 5
_ROUNDS = 6


class SeedPermutation:
    """A secret permutation of the numbers below `COLUMNS * ROWS`.

    Seeds that follow each other outside are spread evenly over every class of remainders of 1 to 10 within,
    as they are outside: an environment that lets its kinds of tasks take turns (`seed % 3`) still does.
    Beyond that nothing can be foretold of one from another without the key: the remainder by `COLUMNS` is
    moved by an affine map, and what is left, for each remainder, by a Feistel network of six rounds of keyed
    BLAKE2b with cycle walking (Black and Rogaway, Ciphers with Arbitrary Finite Domains, CT-RSA 2002).

    Args:
        key: `KEY_BYTES` bytes that nobody knows who writes environments.

    >>> inner = SeedPermutation(bytes(KEY_BYTES))
    >>> sorted(inner(seed) % 3 for seed in range(6))
    [0, 0, 1, 1, 2, 2]
    >>> inner(7) == SeedPermutation(bytes(KEY_BYTES))(7) != SeedPermutation(b"k" * KEY_BYTES)(7)
    True
    """

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"the key of a seed permutation has {KEY_BYTES} bytes, not {len(key)}")
        self.key = key
        self._offset = self.number("offset") % COLUMNS
        self._step = next(
            step
            for step in (self.number(f"step/{n}") % COLUMNS for n in range(10_000))
            if math.gcd(step, COLUMNS) == 1
        )

    @classmethod
    def draw(cls) -> SeedPermutation:
        """Return one that nobody can foretell."""
        return cls(secrets.token_bytes(KEY_BYTES))

    @property
    def fingerprint(self) -> str:
        """Names the permutation without telling it."""
        return hashlib.blake2b(b"fingerprint", key=self.key, digest_size=8).hexdigest()

    def __call__(self, seed: int) -> int:
        """Return the number that the environment is given for a seed.

        Raises:
            ValueError: The seed is out of range.
        """
        if not 0 <= seed < COLUMNS * ROWS:
            raise ValueError(f"seed {seed} is not one of 0 to {COLUMNS * ROWS - 1}")
        row, column = divmod(seed, COLUMNS)
        return self._row(row, column) * COLUMNS + (self._step * column + self._offset) % COLUMNS

    def inside(self, seeds: Iterable[int]) -> tuple[int, ...]:
        """Return the numbers that the environment is given for some seeds."""
        return tuple(map(self, seeds))

    def number(self, purpose: str) -> int:
        """Return a number of 64 bits that the key decides."""
        digest = hashlib.blake2b(purpose.encode(), key=self.key, digest_size=8).digest()
        return int.from_bytes(digest, "big")

    def _row(self, row: int, column: int) -> int:
        """Permute the rows of one column."""
        low = (1 << _HALF_BITS) - 1
        while True:
            left, right = row >> _HALF_BITS, row & low
            for turn in range(_ROUNDS):
                left, right = right, left ^ self.number(f"{column}/{turn}/{right}") & low
            row = left << _HALF_BITS | right
            if row < ROWS:
                return row
