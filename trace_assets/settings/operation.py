"""When work is done, on which files, within how much memory and on which machines."""

from __future__ import annotations

import re
from datetime import date, timedelta
from itertools import pairwise
from typing import Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field, field_validator

from trace_assets.settings.section import Section

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

_START, _YEARS = date(2024, 1, 1).toordinal(), 366 + 8 * 365 + 2
"""Days that are looked at for pauses: long enough for a 29 February to come three times."""


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
        if "*" in part.split(",") and part != "*":
            return f"the {name} '{part}' lists '*' beside others: it stands for all of them alone"
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
    if len(values) == 2 and values[1] <= values[0]:
        return f"the range '{body}' of the {name} does not run upwards"
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


def pauses(text: str) -> tuple[timedelta, timedelta]:
    """Return the shortest and the longest time between two ticks of a right expression.

    Clocks that are put forward or back are left out of account.

    >>> [str(pause) for pause in pauses("0 2 * * mon-fri")]
    ['1 day, 0:00:00', '3 days, 0:00:00']
    """
    parts = text.split()
    minutes, hours, days, months, weekdays = (
        _values(part, low, high, names, first)
        for part, (_, low, high, names, first) in zip(parts, _FIELDS, strict=True)
    )
    weekdays = {day % 7 for day in weekdays}  # 0 and 7 are Sunday
    either = parts[2] != "*" and parts[4] != "*"

    def comes(day: date) -> bool:
        by_number, by_name = day.day in days, day.isoweekday() % 7 in weekdays
        return day.month in months and (by_number or by_name if either else by_number and by_name)

    times = [60 * hour + minute for hour in sorted(hours) for minute in sorted(minutes)]
    wanted = [day for day in range(_YEARS) if comes(date.fromordinal(_START + day))]
    found = [after - before for before, after in pairwise(times)]
    found += [(after - before) * 1440 - times[-1] + times[0] for before, after in pairwise(wanted)]
    return timedelta(minutes=min(found)), timedelta(minutes=max(found))


def _values(part: str, low: int, high: int, names: list[str], first: int) -> set[int]:
    """Return the values that a field stands for."""
    values: set[int] = set()
    for item in part.split(","):
        body, _, step = item.partition("/")
        ends = [low, high] if body == "*" else [_value(end, names, first) for end in body.split("-")]
        lowest, highest = ends[0], ends[-1]
        assert lowest is not None and highest is not None
        values |= set(range(lowest, highest + 1, int(step or 1)))
    return values


class Ingest(Section):
    """How files from outside are read. Changes no result, only what is too large to be read at all."""

    memory_gib: float = Field(0.0, ge=0)
    """Memory that reading may take beside the program itself; a row or file that needs more is left out, with
    the reason. 0: a quarter of the machine's, or of the container's."""


class Watch(Section):
    """Folders that are looked at for new files. Changes no result: it only says where they come from."""

    expert = frozenset({"settle_seconds"})

    tasks: str = ""
    """Folder of task files (JSON lines); empty: `watch/tasks` in the home. Relative to the home."""
    trajectories: str = ""
    """Folder of trajectory files in any known format; empty: `watch/trajectories` in the home."""
    interval_seconds: int = Field(30, ge=1)
    """Between two looks."""
    settle_seconds: float = Field(2.0, ge=0)
    """A file that was touched more recently may still be growing and is left for the next look."""


class Schedule(Section):
    """When diagnosis and evaluation are brought up to date by themselves. Changes no result."""

    cron: str = ""
    """Five fields, such as `0 2 * * *` for every night at two; empty: never."""
    timezone: str = "UTC"
    """In which `cron` is read, such as 'Europe/Berlin'."""

    @field_validator("cron")
    @classmethod
    def _cron_is_right(cls, value: str) -> str:
        if value.strip() and (problem := cron_error(value)) is not None:
            raise ValueError(f"this is not a cron expression: {problem}")
        return value.strip()

    @field_validator("timezone")
    @classmethod
    def _timezone_is_known(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise ValueError("no such time zone; give a name such as 'Europe/Berlin' or 'UTC'") from error
        return value


class Automation(Section):
    """What the Dagster daemon makes by itself. Changes no result, only when it is there."""

    gpu: bool = False
    """Also the layers that take a GPU or minutes of training; they wait for `trace sync` otherwise."""
    interval_seconds: int = Field(30, ge=1)
    """Between two looks at what changed."""


class Cluster(Section):
    """Where the items of a sync are made. Changes no result, only where and how fast."""

    engine: Literal["local", "ray"] = "local"
    """`local`: processes of this machine. `ray`: tasks on the nodes of a Ray cluster, on a home that all of
    them see under one path; needs the extra `cluster`."""
    address: str = ""
    """Of the cluster, such as `10.0.0.1:6379`; empty: `RAY_ADDRESS`, or that which this machine is in."""
    database: str = ""
    """Postgres that holds leases, due marks, the processes at work and the account of model calls, such as
    `postgresql://db:5432/trace` (user and password: PGUSER and PGPASSWORD, or `~/.pgpass`); empty: files of
    the home do. The home keeps the address: once given, it holds for every command. Needs the extra
    `cluster`."""
