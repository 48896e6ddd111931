"""What fields of logs hold, as programs write it: objects, lists, numbers, and words for nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def dict_of(value: Any) -> dict[str, Any]:
    """Return a value that is an object, an empty one in the place of anything else."""
    return dict(value) if isinstance(value, Mapping) else {}


_NOTHING = frozenset({"", "none", "null", "nan", "false", "0"})
"""What programs write as text in the place of no value, or of no."""


def said_so(value: Any) -> bool:
    """Tell whether a field says that something is so, as text too; an object says it by any of its values.

    >>> said_so("false"), said_so("boom"), said_so({"type": None, "message": None}), said_so(float("nan"))
    (False, True, False, False)
    """
    if isinstance(value, str):
        return value.strip().lower() not in _NOTHING
    if isinstance(value, Mapping):
        return any(said_so(one) for one in value.values())
    return bool(value) and value == value  # NaN stands for nothing in tables


def list_of(value: Any) -> list[Any]:
    """Return a list, empty where there is none."""
    return value if isinstance(value, list) else []


def objects_in(value: Any) -> list[Mapping[str, Any]]:
    """Return the objects of a list."""
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def first_of(one: Mapping[str, Any], *names: str) -> Any:
    """Return the first of some fields that holds something."""
    return next((one[name] for name in names if one.get(name) is not None), None)


def not_too_many(n: int, most: int, what: str) -> None:
    """Refuse a trajectory that is made of more parts than any real one.

    Raises:
        ValueError: `n` is more than `most`.
    """
    if n > most:
        raise ValueError(f"it holds {n:,} {what}, and a trajectory may have {most:,}")


def amount(value: Any) -> float | None:
    """Return a quantity such as a cost or a time; None for what can be none.

    >>> amount(2), amount(-1), amount("2"), amount(True), amount(float("inf"))
    (2.0, None, None, None, None)
    """
    good = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e15
    return float(value) if good else None


def token_count(value: Any) -> int | None:
    """Return a number of tokens; None for what can be none.

    >>> token_count(7), token_count(7.0), token_count(-7), token_count("7"), token_count(10**30)
    (7, 7, None, None, None)
    """
    number = amount(value)
    return None if number is None else int(number)
