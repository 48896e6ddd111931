"""How much of a long list `make test` tries; `make test-ci` or `make test-slow` has the rest."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pytest


def one_of_each(
    cases: Iterable[Any], kind: Callable[[Any], object] = lambda _: None, then: int | None = None
) -> list[Any]:
    """Mark all but the first case of each kind; by default all are of one kind.

    Args:
        cases: What `parametrize` is given: tuples for several names, else one value.
        kind: What tells the cases apart.
        then: How many more of a kind `make test-ci` has, the rest being slow; by default all.

    >>> [len(one.marks) for one in one_of_each(["a", "b", "aa"], len)]
    [0, 1, 0]
    >>> [[mark.name for mark in one.marks] for one in one_of_each("abc", then=1)]
    [[], ['ci'], ['slow']]
    """
    seen = Counter[object]()
    found: list[Any] = []
    for case in cases:
        before = seen[kind(case)]
        seen[kind(case)] += 1
        later = pytest.mark.ci if then is None or before <= then else pytest.mark.slow
        marks = [later] if before else []
        found.append(pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=marks))
    return found


def examples(count: int) -> int:
    """Return how many of a property's random examples are tried: all of them in `make test-slow`.

    They are the same in every other run, where what the first third does not meet the rest seldom does.

    Args:
        count: All of them.
    """
    return count if os.environ.get("HYPOTHESIS_PROFILE") == "explore" else max(count // 3, 15)
