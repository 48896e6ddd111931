"""Values as they are written: by tools without JSON, and by people in words.

Answers that are no JSON hold what JSON would: tags, Python's own writing, an object a line. People say
counts, dates, weekdays, parts of the day and times.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import lru_cache
from html import unescape
from typing import Any, Literal

from pydantic_core import from_json

from trace_assets.diagnosis.detectors.values import time_of

DEEPEST = 12
"""How deep tags may hold each other."""
_LONGEST = 50_000
"""Characters that are read in another notation than JSON."""
_PYTHON = re.compile(r"\s*(?:\{|\[\s*\{)\s*'")
_FENCED = re.compile(r"\s*```\w*\n(.*?)\n?```\s*\Z", re.DOTALL)
_FAILED = re.compile(r"<(error|errors|exception|fault)\b", re.IGNORECASE)
_TAG = re.compile(
    r"<(?P<end>/?)(?P<name>[A-Za-z_][\w.:-]*)(?P<given>(?:\s+[\w.:-]+\s*=\s*(?:\"[^\"<]*\"|'[^'<]*'))*)\s*(?P<alone>/?)>"
)
_GIVEN = re.compile(r"([\w.:-]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")
_HEAD = re.compile(r"\A\s*(?:<\?xml[^<>]*\?>\s*|<!--(?:(?!-->).)*-->\s*)*", re.DOTALL)
"""What may stand before the first element."""
Said = Literal["so", "otherwise", "no"]
"""Whether a text says a value so, says another one of its kind, or is silent."""

COUNTS = {
    word: number
    for number, word in enumerate(
        "one two three four five six seven eight nine ten eleven twelve".split(),  # noqa: SIM905 - as in `verbs`
        1,
    )
} | {"a couple of": 2, "a dozen": 12, "both": 2, "fifteen": 15, "twenty": 20, "thirty": 30}
_COUNT = re.compile(
    r"(?<![\w.,:/#$€£@+-])(?P<digits>\d{1,3})(?=\s?x\b|\s|[.,!?;)]|\Z)(?![.,:/]\d)|"
    rf"\b(?P<word>{'|'.join(sorted(COUNTS, key=len, reverse=True))})\b"
)
_NO_COUNT = re.compile(
    r"\s?(?:[ap]\.?m\b|o'clock|(?:st|nd|rd|th)\b|%|euros?\b|eur\b|dollars?\b|usd\b|pounds?\b|years? old\b|"
    r"(?:of )?(?:january|february|march|april|may|june|july|august|september|october|november|december)\b|"
    r"[A-Za-z]* ?(?:street|road|lane|avenue|way|row|square|drive|court|place|walk|close|hill|park)\b|"
    r"of (?:them|my|the|our|your|these|those)\b|(?:second|minute|moment|more thing|question|last|other)s?\b)",
    re.IGNORECASE,
)
_DATED_BEFORE = re.compile(
    r"\b(?:january|february|march|april|may|june|july|august|september|october|november|december|"
    r"at|room|flat|number|no\.?|nr\.?|gate|table|apartment|the|this|that|which|any|no|some|every)\s?\Z",
    re.IGNORECASE,
)
MONTHS = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)
_MONTH = r"(?:jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)[a-z]*\.?"
_DATE = re.compile(
    rf"\b(?P<year>\d{{4}})-(?P<month>\d\d)-(?P<day>\d\d)\b|"
    rf"\b(?P<named>{_MONTH})\s+(?:the\s+)?(?P<day_behind>\d{{1,2}})(?:st|nd|rd|th)?\b(?![:.]\d)|"
    rf"\b(?P<day_before>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?(?P<month_behind>{_MONTH})\b|"
    rf"\bthe\s+(?P<day_alone>\d{{1,2}})(?:st|nd|rd|th)\b(?!\s+(?:of\s+)?{_MONTH})|"
    r"\b(?P<day_point>\d{1,2})\.(?P<month_point>\d{1,2})\.(?!\d{1,2}\b)",
    re.IGNORECASE,
)
WEEKDAYS = (
    "monday montag lunes lundi lunedì segunda",
    "tuesday dienstag martes mardi martedì terça",
    "wednesday mittwoch miércoles mercredi mercoledì quarta",
    "thursday donnerstag jueves jeudi giovedì quinta",
    "friday freitag viernes vendredi venerdì sexta",
    "saturday samstag sábado samedi sabato",
    "sunday sonntag domingo dimanche domenica",
)
"""What a day of the week is called, from Monday on."""
_DAY_OF = {word: day for day, words in enumerate(WEEKDAYS) for word in words.split()}
_WEEKDAY = re.compile(rf"\b({'|'.join(_DAY_OF)})s?\b", re.IGNORECASE)
_RELATIVE = re.compile(
    r"\b(?:today|tomorrow|tonight|yesterday|next|this|following|day after|in (?:a|\w+) (?:days?|weeks?))\b",
    re.IGNORECASE,
)
_TIME = re.compile(
    r"(?<![\d.:-])(?P<hour>[01]?\d|2[0-3])[:.h](?P<minute>[0-5]\d)(?!\d|\.\d)\s?(?P<half>[ap])?(?:\.?m\b)?|"
    r"(?<![\d.:-])(?P<only>1[0-2]|0?[1-9])\s?(?P<part>[ap])\.?m\b|"
    r"(?<![\d.:-])(?P<clock>1?\d|2[0-3])\s?(?:o'clock|uhr)(?: in the (?P<when>morning|afternoon|evening))?|"
    r"(?<![\d.:-])(?P<told>1?\d|2[0-3]) in the (?P<day_part>morning|afternoon|evening)|"
    r"\b(?P<noon>noon|midday|midnight)\b",
    re.IGNORECASE,
)
_CLOCK = re.compile(r"(?:\A|[T ])([01]?\d|2[0-3]):([0-5]\d)")


def as_json(text: str) -> str:
    r"""Return an answer in another notation as JSON; any other text as it is.

    >>> as_json("{'id': 'L1', 'free': True, 'note': None}"), as_json('{"a": 1}\n{"a": 2}\n')
    ('{"id": "L1", "free": true, "note": null}', '[{"a": 1}, {"a": 2}]')
    >>> as_json("<lot no='7'/>"), as_json("<error>no such lot</error>"), as_json('```json\n{"a": 1}\n```')
    ('{"no": "7"}', '{"error": "no such lot"}', '{"a": 1}')
    >>> as_json('{"a": 1}'), as_json("{'a': now()}"), as_json("{one}\n{two}"), as_json("done")
    ('{"a": 1}', "{'a': now()}", '{one}\n{two}', 'done')
    """
    if fenced := _FENCED.match(text):
        text = fenced[1]
    start = text.lstrip()[:1]
    if start not in ("<", "{", "[") or len(text) > _LONGEST:
        return text
    if start == "<":
        value = tagged(text)
        if value is not None and _FAILED.match(text, _HEAD.match(text).end()):  # type: ignore[union-attr]
            value = {"error": next(iter(value.values())) if len(value) == 1 else value}
    elif _PYTHON.match(text):
        value = _python(text)
    elif start == "{" and "}\n" in text:
        value = _lines(text)
    else:
        return text
    return text if value is None else json.dumps(value, ensure_ascii=False)


def _python(text: str) -> Any:
    try:
        value = ast.literal_eval(text.strip())
        return json.loads(json.dumps(value))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _lines(text: str) -> Any:
    """Return the objects of a text that has one on each line; None where a line is something else."""
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) < 2 or not all(line.lstrip().startswith("{") for line in lines):
        return None
    try:
        return [from_json(line) for line in lines]
    except ValueError:
        return None


def tagged(text: str, plain: Callable[[str], Any] = str) -> Any:
    r"""Return what a text in tags holds as a JSON value; None where it is none, or one that does not close.

    An element with attributes or others in it is an object, one of text alone that text; elements of one
    name are a list. The outermost one that holds objects is left out.

    Args:
        text: what a tool answered.
        plain: reads the text of an element or an attribute, as a number for example.

    >>> tagged('<lot no="7"><state>free &amp; clean</state><day n="3"/></lot>')
    {'no': '7', 'state': 'free & clean', 'day': {'n': '3'}}
    >>> tagged("<?xml version='1.0'?><lots><lot no='1'/><lot no='2'/></lots>")
    {'lot': [{'no': '1'}, {'no': '2'}]}
    >>> tagged("<lot>free"), tagged("a < b"), tagged("<br>")
    (None, None, None)
    """
    text = text[_HEAD.match(text).end() :]  # type: ignore[union-attr]
    if not text.startswith("<"):
        return None

    def read(said: str) -> Any:
        return plain(unescape(said).strip())

    root: dict[str, Any] = {}
    open_: list[tuple[str, dict[str, Any]]] = [("", root)]
    at = 0
    for tag in _TAG.finditer(text):
        _add_text(open_[-1][1], text[at : tag.start()])
        at = tag.end()
        if tag["end"]:
            if len(open_) < 2 or open_[-1][0] != tag["name"]:
                return None
            name, held = open_.pop()
            _add(open_[-1][1], name, _closed(held, read))
            continue
        held = {key: read(one or two) for key, one, two in _GIVEN.findall(tag["given"])}
        if tag["alone"]:
            _add(open_[-1][1], tag["name"], held or True)
        elif len(open_) > DEEPEST:
            return None
        else:
            open_.append((tag["name"], held))
    if len(open_) > 1 or not root or text[at:].strip():
        return None
    alone = next(iter(root.values()))
    return alone if len(root) == 1 and isinstance(alone, dict | list) else root


def _add_text(held: dict[str, Any], text: str) -> None:
    if text.strip():
        held[""] = f"{held.get('', '')} {text.strip()}".strip()


def _add(held: dict[str, Any], name: str, value: Any) -> None:
    if name not in held:
        held[name] = value
    elif isinstance(held[name], list):
        held[name].append(value)
    else:
        held[name] = [held[name], value]


def _closed(held: dict[str, Any], read: Callable[[str], Any]) -> Any:
    """Return what an element holds: its text where that is all."""
    said = held.pop("", "")
    if not held:
        return read(said)
    return {**held, "text": read(said)} if said else held


@lru_cache(maxsize=1 << 14)
def counts_in(text: str) -> frozenset[int]:
    """Return the counts that a text says; dates, times, sums and house numbers are none.

    >>> sorted(counts_in("three mugs and 2 x P-301, on May 4 at 5 pm to 12 Dock Road for 30 euros"))
    [2, 3]
    """
    found = set[int]()
    for match in _COUNT.finditer(text.lower()):
        end = match.end()
        if _NO_COUNT.match(text, end) or _DATED_BEFORE.search(
            text[max(0, match.start() - 12) : match.start()]
        ):
            continue
        if _street(text, end):
            continue
        found.add(int(match["digits"]) if match["digits"] else COUNTS[match["word"]])
    return frozenset(found)


def _street(text: str, at: int) -> bool:
    """Tell whether what follows a number is a name with a capital, as a street has it."""
    return re.match(r"\s[A-Z][a-z]+ (?:[A-Z][a-z]+)", text[at:]) is not None


@lru_cache(maxsize=1 << 14)
def dates_in(text: str) -> tuple[tuple[int, int, int], ...]:
    """Return (year, month, day) of the dates that a text says, 0 for what it leaves open.

    >>> dates_in("on May 12, the 3rd of June, 2031-07-01 or the 9th"), dates_in("may I? In June.")
    (((0, 5, 12), (0, 6, 3), (2031, 7, 1), (0, 0, 9)), ())
    """
    found = []
    for one in _DATE.finditer(text):
        if one["year"]:
            date = int(one["year"]), int(one["month"]), int(one["day"])
        elif one["day_point"]:
            date = 0, int(one["month_point"]), int(one["day_point"])
        elif one["day_alone"]:
            date = 0, 0, int(one["day_alone"])
        else:
            name = (one["named"] or one["month_behind"]).lower()[:3]
            month = next(n for n, month in enumerate(MONTHS, 1) if month.startswith(name))
            date = 0, month, int(one["day_behind"] or one["day_before"])
        if 1 <= date[2] <= 31 and date[1] <= 12:
            found.append(date)
    return tuple(found)


@lru_cache(maxsize=1 << 14)
def times_in(text: str) -> frozenset[tuple[int, int]]:
    """Return the hours and minutes that a text says; an hour that may be of either half is both.

    >>> sorted(times_in("at 2 pm, 14:30 or noon")), sorted(times_in("4 o'clock")), times_in("for 2 people")
    ([(12, 0), (14, 0), (14, 30)], [(4, 0), (16, 0)], frozenset())
    """
    found = set[tuple[int, int]]()
    for one in _TIME.finditer(text):
        if one["noon"]:
            found.add((0 if one["noon"].lower() == "midnight" else 12, 0))
            continue
        hour = int(one["hour"] or one["only"] or one["clock"] or one["told"])
        half = (one["half"] or one["part"] or "").lower()
        part = (one["when"] or one["day_part"] or "").lower()
        late = half == "p" or part in ("afternoon", "evening")
        if half or part:
            found.add((hour % 12 + 12 * late, int(one["minute"] or 0)))
        else:
            found.add((hour, int(one["minute"] or 0)))
            if not one["hour"] and hour < 12:
                found.add((hour + 12, 0))
    return frozenset(found)


def says_moment(text: str, value: str) -> Said:
    """Tell whether a text says a date or time so: each part of it that the text speaks of must fit.

    >>> slot = "2031-05-15T14:00:00"  # a Thursday
    >>> [says_moment(one, slot) for one in ("Thursday at 2 pm", "May 15", "on Friday", "2 pm", "soon")]
    ['so', 'so', 'otherwise', 'so', 'no']
    >>> says_moment("Thursday at 4 pm", slot), says_moment("next week at 2 pm", "2031-05-16")
    ('otherwise', 'no')
    """
    moment, clock = time_of(value), _CLOCK.search(value)
    told: list[Said] = []
    if moment is not None:
        told.append(_says_date(text, moment))
    if clock is not None:
        times = times_in(text)
        told.append("no" if not times else "so" if (int(clock[1]), int(clock[2])) in times else "otherwise")
    return "otherwise" if "otherwise" in told else "so" if "so" in told else "no"


def _says_date(text: str, moment: datetime) -> Said:
    wanted = moment.year, moment.month, moment.day
    dates = dates_in(text)
    if any(all(part in (0, own) for part, own in zip(one, wanted, strict=True)) for one in dates):
        return "so"
    days = {_DAY_OF[one.lower()] for one in _WEEKDAY.findall(text)}
    if moment.weekday() in days:
        return "so"
    if _RELATIVE.search(text) and not dates:
        return "no"  # a day told by its distance cannot be held against a calendar
    return "otherwise" if dates or days else "no"


def is_moment(value: str) -> bool:
    """Tell whether a value is a date or a time of day.

    >>> is_moment("2031-05-15"), is_moment("14:00"), is_moment("soon")
    (True, True, False)
    """
    return (
        time_of(value) is not None
        or re.fullmatch(r"([01]?\d|2[0-3]):[0-5]\d(?::[0-5]\d)?", value) is not None
    )


def together(texts: Iterable[str]) -> str:
    """Return texts as one, a line each."""
    return "\n".join(texts)
