"""Which seeds are for what: in journals, tasks and tables a seed is a number of one of these ranges.

An environment is given another number, by a permutation of all of them that is drawn when its text is fixed
and kept secret from it: every number that it is given is as likely in one phase as in another.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from trace_assets.targets.seed_permutation import SeedPermutation

TRAINING_SEEDS = range(0, 4096)
VALIDATION_SEEDS = range(1_000_000, 1_000_512)
AUDIT_SEEDS = range(2_000_000, 2_100_000)
"""Three ranges that share no seed: nothing is validated on what was trained or audited."""

_TURNS = len(VALIDATION_SEEDS) // 2


def audited(permutation: SeedPermutation, n: int) -> tuple[int, ...]:
    """Return seeds for an audit of an environment: half of them of the audit's own range.

    The others are of those that are trained and validated on, a run of each from a secret start, so that
    whatever holds for the audit's episodes is known to hold for theirs.

    Args:
        permutation: The environment's.
        n: How many.
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
