"""Which cases of a long list are tried by `make test`: the first ones; the marker ci has the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def one_of_each(cases: Iterable[Any], kind: Callable[[Any], object] = lambda _: None) -> list[Any]:
    """Mark all but the first case of each kind; by default all are of one kind.

    Args:
        cases: What `parametrize` is given: tuples for several names, else one value.
        kind: What tells the cases apart.

    >>> [len(one.marks) for one in one_of_each(["a", "b", "aa"], len)]
    [0, 1, 0]
    """
    seen: set[object] = set()
    found: list[Any] = []
    for case in cases:
        marks = [pytest.mark.ci] if kind(case) in seen else []
        seen.add(kind(case))
        found.append(pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=marks))
    return found
