"""Numbers within what was looked at: their low digits tell nothing by right, unless a rule goes by them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from trace_assets.diagnosis.detectors.values import leaves
from trace_assets.environments.audit.decision_tree import Decided
from trace_assets.environments.audit.opening_words import NUMBER, Row
from trace_assets.environments.contract.written import written

MOST_NUMBERS, MIN_SPREAD = 6, 8
BY_SIZE = 0.7
"""Balanced share of decisions that a number's size tells, from which on the rule may well go by it."""


def numbers_in(one: Decided) -> dict[str, int]:
    """Return the numbers within the values of what was looked at, by place: a moment has several."""
    found: dict[str, int] = {}
    for path, value in leaves({tool: written(text) for tool, text in one.raw.items()}):
        if not isinstance(value, bool) and isinstance(value, str | int | float):
            numbers = NUMBER.findall(str(value))[:MOST_NUMBERS]
            found |= {f"{path}: number {place}": int(number[-15:]) for place, number in enumerate(numbers)}
    return found


def spread(numbers: Mapping[int, Mapping[str, int]], cases: Sequence[Decided]) -> list[str]:
    """Return the places of which either decision shows many numbers: there low digits say nothing by right.

    Where a rule goes by a number of few values, or by a date, its low digits go with the decision.
    """
    kinds: dict[str, list[int]] = defaultdict(list)
    for one in cases:
        kinds[one.kind].append(one.seed)
    common = set.intersection(*(set(numbers[one.seed]) for one in cases)) if cases else set()
    return sorted(
        place
        for place in common
        if all(is_spread([numbers[seed][place] for seed in seeds]) for seeds in kinds.values())
        if len(kinds) != 2
        or by_size(*([numbers[seed][place] for seed in seeds] for seeds in kinds.values())) < BY_SIZE
    )


def by_size(some: Sequence[int], others: Sequence[int]) -> float:
    """Return how well the size of a number tells two decisions apart, by the best limit.

    Where a rule goes by it, numbers stand near the limit, whose low digits then go with the decision too.

    >>> by_size([1, 2, 3, 9], [7, 8, 9, 10]), by_size([1, 3], [1, 3])
    (0.875, 0.5)
    """
    limits = sorted({*some, *others})
    below = [
        (sum(n <= at for n in some) / len(some), sum(n <= at for n in others) / len(others)) for at in limits
    ]
    return max(0.5 + abs(one - two) / 2 for one, two in below)


def is_spread(numbers: Sequence[int]) -> bool:
    """Whether numbers are many, and none stands for a large part: a limit is tried again and again."""
    counts = Counter(numbers)
    return len(counts) >= max(MIN_SPREAD, len(numbers) // 4) and max(counts.values()) <= len(numbers) // 4


def lowdigits(place: str, number: int) -> Row:
    """Return what the low digits of a number could tell.

    >>> lowdigits("n", 314)
    {'n % 2': 0, 'n % 3': 2, 'n sum % 2': 0}
    """
    return {
        f"{place} % 2": number % 2,
        f"{place} % 3": number % 3,
        f"{place} sum % 2": sum(map(int, str(number))) % 2,
    }
