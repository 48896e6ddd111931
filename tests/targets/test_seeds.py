"""Seeds as an environment is given them: all different, all alike in every phase, and known to nobody."""

from __future__ import annotations

from collections import Counter
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trace_assets.targets.seeds import (
    AUDIT_SEEDS,
    COLUMNS,
    KEY_BYTES,
    ROWS,
    TRAINING_SEEDS,
    VALIDATION_SEEDS,
    SeedPermutation,
    audited,
)

KEYS = st.binary(min_size=KEY_BYTES, max_size=KEY_BYTES)
PHASES = {"training": TRAINING_SEEDS, "validation": VALIDATION_SEEDS, "audit": AUDIT_SEEDS[:512]}


@settings(max_examples=20, deadline=None)
@given(KEYS, st.integers(0, COLUMNS - 1))
def test_it_is_a_permutation(key: bytes, column: int) -> None:
    """Within a column of the table and between columns: so everywhere."""
    permutation = SeedPermutation(key)
    inside = [permutation(row * COLUMNS + column) for row in range(ROWS)]
    assert len(set(inside)) == ROWS and len({one % COLUMNS for one in inside}) == 1
    assert all(0 <= one < COLUMNS * ROWS for one in inside)
    assert len({permutation(one) % COLUMNS for one in range(COLUMNS)}) == COLUMNS


@settings(max_examples=25, deadline=None)
@given(KEYS, st.integers(1, 10), st.sampled_from(sorted(PHASES)), st.integers(0, 200))
def test_kinds_that_take_turns_still_do(key: bytes, kinds: int, phase: str, start: int) -> None:
    seeds = PHASES[phase][start : start + 2 * kinds]
    border = seeds[0] // COLUMNS != seeds[-1] // COLUMNS
    if not border:
        counts = Counter(one % kinds for one in SeedPermutation(key).inside(seeds))
        assert set(counts.values()) == {2} and len(counts) == kinds


@pytest.mark.parametrize("n", range(8))
def test_no_number_tells_its_phase(n: int) -> None:
    """Size, bits, remainders and digits of the numbers are distributed alike in all phases."""
    permutation = SeedPermutation(bytes([n]) * KEY_BYTES)
    whole = COLUMNS * ROWS
    for phase in PHASES.values():
        inside = permutation.inside(phase)
        error = 4 / len(inside) ** 0.5  # four standard deviations of a share, and more
        assert abs(fmean(one / whole for one in inside) - 0.5) < error
        for bit in range(20):
            expected = fmean(one >> bit & 1 for one in range(0, whole, 97))
            assert abs(fmean(one >> bit & 1 for one in inside) - expected) < error
        for modulus in (7, 11, 13, 64, 97, 1000):
            most = max(Counter(one % modulus for one in inside).values()) / len(inside)
            assert most < 1 / modulus + error


def test_another_key_is_another_permutation() -> None:
    one, other = SeedPermutation.draw(), SeedPermutation.draw()
    assert one.fingerprint != other.fingerprint and one.key.hex() not in one.fingerprint
    same = sum(one(seed) == other(seed) for seed in TRAINING_SEEDS)
    assert same < 20


@settings(max_examples=25, deadline=None)
@given(KEYS, st.sampled_from([8, 24, 64, 1000, 4000]))
def test_an_audit_plays_seeds_of_every_phase(key: bytes, n: int) -> None:
    seeds = audited(SeedPermutation(key), n)
    assert len(seeds) == len(set(seeds)) == n
    for size in (8, min(n, 24), min(n, 1000)):
        head = seeds[:size]
        assert sum(one in TRAINING_SEEDS for one in head) >= size // 5
        assert sum(one in VALIDATION_SEEDS[:300] for one in head) >= size // 5
        assert sum(one in AUDIT_SEEDS for one in head) >= size // 2
    assert seeds[:8] == audited(SeedPermutation(key), 8)


def test_halves_of_a_small_audit_are_equal() -> None:
    """Environments whose kinds take turns are audited on as many of each, also with few seeds."""
    for n in range(50):
        permutation = SeedPermutation(bytes([n]) * KEY_BYTES)
        for size in (8, 24, 64):
            kinds = Counter(one % 2 for one in permutation.inside(audited(permutation, size)))
            assert kinds[0] == kinds[1]


def test_what_is_no_key_or_no_seed_is_refused() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        SeedPermutation(b"short")
    with pytest.raises(ValueError, match="is not one of 0 to 2519999"):
        SeedPermutation.draw()(COLUMNS * ROWS)
