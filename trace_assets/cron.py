"""Cron expressions: said to be right or wrong before anything is scheduled by them."""

from __future__ import annotations

import re

_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_FIELDS: tuple[tuple[str, int, int, list[str], int], ...] = (
    ("minute", 0, 59, [], 0),
    ("hour", 0, 23, [], 0),
    ("day of month", 1, 31, [], 0),
    ("month", 1, 12, _MONTHS, 1),
    ("day of week", 0, 7, _DAYS, 0),
)
"""Name, lowest, highest, names of values, value of the first name."""


def cron_error(text: str) -> str | None:
    """Return what is wrong with a cron expression, or None when it is right.

    Five fields are known: minute, hour, day of month, month, day of week, each `*`, a value, a range `a-b`,
    a step `*/n` or `a-b/n`, or a list of these with commas. Months and days may be named (`jan`, `mon`).

    >>> cron_error("30 2 * * mon-fri")
    >>> cron_error("61 2 * * *")
    "the minute '61' is not between 0 and 59"
    >>> cron_error("daily")
    'it has 1 field, not the five of minute, hour, day of month, month, day of week'
    """
    parts = text.split()
    if len(parts) != len(_FIELDS):
        plural = "" if len(parts) == 1 else "s"
        names = ", ".join(name for name, *_ in _FIELDS)
        return f"it has {len(parts)} field{plural}, not the five of {names}"
    for part, (name, low, high, names_, first) in zip(parts, _FIELDS, strict=True):
        for item in part.split(","):
            if (problem := _item_error(item, name, low, high, names_, first)) is not None:
                return problem
    if _never(parts[2], parts[3], parts[4]):
        return f"no such day ever comes (day {parts[2]} of month {parts[3]})"
    return None


def _item_error(item: str, name: str, low: int, high: int, names: list[str], first: int) -> str | None:
    body, slash, step = item.partition("/")
    if slash and (not step.isascii() or not step.isdigit() or not 1 <= int(step) <= high):
        return f"the step '{step}' of the {name} is not a number between 1 and {high}"
    if body == "*":
        return None
    ends = body.split("-")
    if slash and len(ends) == 1:
        return f"the {name} '{item}' has a step but no range: write '{body}-{high}/{step}'"
    if len(ends) > 2:
        return f"the {name} '{item}' is not a value or a range"
    values = []
    for end in ends:
        value = _value(end, names, first)
        if value is None:
            return f"the {name} '{end}' is not a number" + (f" or one of {', '.join(names)}" if names else "")
        if not low <= value <= high:
            return f"the {name} '{end}' is not between {low} and {high}"
        values.append(value)
    if values[-1] < values[0]:
        return f"the range '{body}' of the {name} runs backwards"
    return None


def _value(text: str, names: list[str], first: int) -> int | None:
    if text.lower() in names:
        return names.index(text.lower()) + first
    return int(text) if re.fullmatch(r"[0-9]{1,4}", text) else None


def _never(days: str, months: str, weekdays: str) -> bool:
    """Tell whether plain day and month numbers name a date such as 30 February."""
    if weekdays != "*" or not re.fullmatch(r"[0-9,]+", days) or not re.fullmatch(r"[0-9,]+", months):
        return False
    longest = {2: 29, 4: 30, 6: 30, 9: 30, 11: 30}
    earliest = min(int(day) for day in days.split(","))
    return all(earliest > longest.get(int(month), 31) for month in months.split(","))
