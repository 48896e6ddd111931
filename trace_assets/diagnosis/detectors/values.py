"""Arguments and results as detectors read them: scalars, states, errors."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

from pydantic_core import from_json

from trace_assets.diagnosis.detectors.identity import looks_like_id

_ENVELOPE = frozenset(
    {
        "code",
        "count",
        "duration",
        "error",
        "errors",
        "message",
        "msg",
        "ok",
        "request_id",
        "requestid",
        "status",
    }
    | {"status_code", "statuscode", "success", "timestamp", "took", "total", "type", "version"}
)
"""What answers say beside what was asked for."""
_LINE = re.compile(r"^[ \t*-]*([A-Za-z][\w ]{1,30}?)[ \t]*:[ \t]+(\S[^\n]{0,79})$", re.MULTILINE)
_TITLE = re.compile(r"\A[ \t]*([A-Za-z][A-Za-z ]{1,20}) (#?[\w-]{3,40})[ \t]*$", re.MULTILINE)
"""The first line of a record in plain text: what it is, and its name."""
_COLUMN = re.compile(r"[^\W\d][\w.#%()/-]*(?: [\w.#%()/-]+)?\Z")
"""What a column of a table may be called."""
_QUOTED = re.compile(r'"[^"]*"')
_WHOLE = 20_000
"""Characters of a text that are read as a table."""
_META = frozenset({"_links", "headers", "links", "meta", "metadata", "paging", "pagination", "request"})
"""What tells of the answer itself where another part holds what was asked for."""
_HOLDS = frozenset(
    {"body", "content", "data", "item", "items", "payload", "record", "records", "response", "result"}
)
"""Under what names answers hold what was asked for; under another name it must have an identifier."""
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}")
_DAY_FIRST = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})(?:,?[ T]+(\d{1,2})[:.](\d{2}))?(?![\d.])")
"""A date with points has its day first."""


def json_of(text: str) -> Any:
    """Return the object or the list that a text is in JSON; None where it is neither.

    >>> json_of('{"a": [1]}'), json_of("3"), json_of("[not so]")
    ({'a': [1]}, None, None)
    """
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return from_json(text)
    except ValueError:
        return None


def strings(value: object) -> list[str]:
    """Return a list of strings from a JSON list, empty for anything else."""
    return [str(item) for item in value] if isinstance(value, list | tuple) else []


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every scalar in a JSON value with its dotted path; lists add nothing to the path.

    >>> list(leaves({"a": 1, "b": [{"c": "x"}, {"c": "y"}]}))
    [('a', 1), ('b.c', 'x'), ('b.c', 'y')]
    """
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from leaves(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from leaves(item, path)
    else:
        yield path, value


def flat(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return arguments with those that stand in objects beside the others, by the last part of their path.

    Where two have the same last part the path tells them apart. Lists stay as they are.

    >>> flat({"payment": {"claim": {"ref": "K1"}, "amount": {"value": 5}}, "note": "x"})
    {'ref': 'K1', 'value': 5, 'note': 'x'}
    >>> flat({"from": {"id": "A1"}, "to": {"id": "B2"}})
    {'from.id': 'A1', 'to.id': 'B2'}
    """
    if not any(isinstance(value, Mapping) for value in arguments.values()):
        return arguments
    found = list(_pairs(arguments))
    last = Counter(path.rpartition(".")[2] for path, _ in found)
    return {
        path if last[path.rpartition(".")[2]] > 1 else path.rpartition(".")[2]: value for path, value in found
    }


def _pairs(value: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for key, item in value.items():
        if isinstance(item, Mapping):
            yield from _pairs(item, f"{path}{key}.")
        else:
            yield f"{path}{key}", item


def scalars(text: str) -> dict[str, str] | None:
    """Return the scalar fields of a JSON object outside its lists; None when the text is no JSON object.

    >>> scalars('{"status": "open", "who": {"name": "Ann"}, "items": [1]}')
    {'status': 'open', 'who.name': 'Ann'}
    >>> scalars("Transfer successful") is None
    True
    """
    if not text.lstrip().startswith("{"):
        return None
    try:
        value = from_json(text)
    except ValueError:
        return None
    bare = unwrapped(value)
    return scalars_of(bare if isinstance(bare, Mapping) else value)


def unwrapped(value: Any) -> Any:
    """Return what an answer's envelope holds: one record or list, beside nothing but how the call went.

    >>> unwrapped({"ok": True, "data": {"id": "L1", "who": {"name": "Ann"}}})
    {'id': 'L1', 'who': {'name': 'Ann'}}
    >>> unwrapped({"loan": {"id": "L21"}}), unwrapped({"id": "K4821", "to": {"city": "Rome"}})
    ({'id': 'L21'}, {'id': 'K4821', 'to': {'city': 'Rome'}})
    >>> unwrapped({"meta": {"trace": "c0ffee"}, "data": {"loan": {"id": "L21"}}})
    {'id': 'L21'}
    """
    for _ in range(2):
        if not isinstance(value, Mapping):
            break
        held = [(key, item) for key, item in value.items() if isinstance(item, Mapping | list)]
        rest = [
            key for key, item in value.items() if not isinstance(item, Mapping | list) and item is not None
        ]
        if any(str(key).lower() in _HOLDS for key, _ in held):
            held = [(key, item) for key, item in held if str(key).lower() not in _META]
        if len(held) != 1 or not all(str(key).lower() in _ENVELOPE for key in rest):
            break
        key, inner = held[0]
        one = inner[0] if isinstance(inner, list) and inner else inner
        named = isinstance(one, Mapping) and any(looks_like_id(item) for item in one.values())
        if not (named or (isinstance(one, Mapping) and str(key).lower() in _HOLDS)):
            break
        value = inner
    return value


def records_in(text: str) -> list[dict[str, str]]:
    r"""Return the scalar fields of each record of a list; of one record when it stands alone.

    Lines of plain text that read `name: value` are a record too.

    >>> records_in('[{"no": "P1"}, {"no": "P2"}]'), records_in('{"count": 1, "loans": [{"id": "L21"}]}')
    ([{'no': 'P1'}, {'no': 'P2'}], [{'id': 'L21'}])
    >>> records_in("Ticket K1\nStatus: void\nHolder: Ann")
    [{'Status': 'void', 'Holder': 'Ann'}]
    >>> records_in("month | state\n----------\n2041-04 | open\n(1 row)")
    [{'month': '2041-04', 'state': 'open'}]
    >>> records_in("- name: Noor\n  room: 7\n- name: Ulla\n  room: 9")
    [{'name': 'Noor', 'room': '7'}, {'name': 'Ulla', 'room': '9'}]
    >>> records_in('{"order": "K4821", "items": [{"id": "I1"}]}'), records_in("done")
    ([{'order': 'K4821'}], [])
    """
    if not text.lstrip().startswith(("{", "[")):
        if rows := table(text) or _listed(text):
            return rows
        told = dict(_LINE.findall(text[:2000]))
        title = _TITLE.match(text)
        if title and told and looks_like_id(title[2]):
            told = {title[1]: title[2], **told}
        return [told] if len(told) >= 2 else []
    try:
        value = from_json(text)
    except ValueError:
        return []
    return [scalars_of(one) for one in outermost(value)]


def table(text: str) -> list[dict[str, str]]:
    r"""Return the rows of a text that is a table: cells parted by bars, tabs, semicolons or commas.

    The first row names the columns; every row has as many cells.

    >>> table("| no | state |\n| --- | --- |\n| P1 | open |")
    [{'no': 'P1', 'state': 'open'}]
    >>> table("no,state\nP1,open\nP2,void"), table("Yes, sure\nWell, fine")
    ([{'no': 'P1', 'state': 'open'}, {'no': 'P2', 'state': 'void'}], [])
    >>> table('no,who,state\nP1,"Ray, Ann",open\n# 1 row')
    [{'no': 'P1', 'who': 'Ray, Ann', 'state': 'open'}]
    >>> table("NAME    STATUS\nnode-1  Ready")
    [{'NAME': 'node-1', 'STATUS': 'Ready'}]
    """
    lines = [line for line in text[:_WHOLE].splitlines() if re.search(r"\w", line)]
    for mark in ("|", "\t", ";", ",", "  "):
        rows = [_cells(line.strip().strip(mark), mark) for line in lines]
        rows = [row for row in rows if len(row) > 1]
        if mark in ";," and any(f"{mark} " in _QUOTED.sub("", line) for line in lines):
            continue  # prose
        if len(rows) < 2 or len(rows) < len(lines) - 2 or not all(map(_COLUMN.match, rows[0])):
            continue
        if len({len(row) for row in rows}) == 1 and len(set(rows[0])) == len(rows[0]):
            return [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]
    return []


def _cells(line: str, mark: str) -> list[str]:
    """Split a row at its marks; what stands in quotation marks is one cell."""
    if mark == "  ":
        parts = re.split(r"\s{2,}", line)
    elif '"' in line:
        (parts,) = csv.reader([line], delimiter=mark, skipinitialspace=True)
    else:
        parts = line.split(mark)
    return [part.strip() for part in parts]


def _listed(text: str) -> list[dict[str, str]]:
    """Return the records of a list whose items have lines of `name: value`."""
    items = re.split(r"^\s*[-*] (?=\w[\w ]*:)", text[:_WHOLE], flags=re.MULTILINE)
    return [dict(found) for one in items[1:] if (found := _LINE.findall(one))]


def outermost(value: Any) -> list[Mapping[str, Any]]:
    """Return the records of a JSON value that stand in no other, envelopes left out."""
    bare = unwrapped(value)
    return [one for one in (bare if isinstance(bare, list) else [bare]) if isinstance(one, Mapping)]


def scalars_of(value: Mapping[str, Any]) -> dict[str, str]:
    """Return the scalar fields of an object outside its lists, nested ones by dotted path.

    >>> scalars_of({"status": "open", "paid": True, "items": [1]})
    {'status': 'open', 'paid': 'true'}
    """
    found: dict[str, str] = {}

    def walk(part: Mapping[str, Any], path: str) -> None:
        for key, item in part.items():
            if isinstance(item, Mapping):
                walk(item, f"{path}{key}.")
            elif isinstance(item, bool):
                found[f"{path}{key}"] = str(item).lower()
            elif isinstance(item, str | int | float):
                found[f"{path}{key}"] = str(item)

    walk(value, "")
    return found


def time_of(value: object) -> datetime | None:
    """Return the moment that a value names, None when it names none; zones are left out.

    >>> time_of("2024-05-15T15:00:00"), time_of("2025-01-31"), time_of("20250131"), time_of("soon")
    (datetime.datetime(2024, 5, 15, 15, 0), datetime.datetime(2025, 1, 31, 0, 0), None, None)
    >>> time_of("31.01.2025"), time_of("31.01.2025, 9:30 Uhr")
    (datetime.datetime(2025, 1, 31, 0, 0), datetime.datetime(2025, 1, 31, 9, 30))
    """
    if not isinstance(value, str):
        return None
    if (found := _DAY_FIRST.match(value)) is not None:
        day, month, year, hour, minute = (int(part or 0) for part in found.groups())
    elif not _TIME.match(value):
        return None
    try:
        if found is not None:
            return datetime(year, month, day, hour, minute)
        return datetime.fromisoformat(value).replace(tzinfo=None)
    except ValueError:
        return None


def categorical(value: str) -> bool:
    """Tell whether a value could be one of a few states: short, and no number, date or identifier."""
    return 0 < len(value) <= 24 and not any(character.isdigit() for character in value)


_ERRORS = frozenset(
    {"error", "errors", "erreur", "erro", "errore", "exception", "fault", "fehler", "fehlermeldung"}
)
_STATUS = frozenset({"code", "status", "statuscode", "status_code", "http_status"})
_EXIT = frozenset({"exit_code", "exitcode", "returncode", "return_code", "exit_status"})
_SAYS_ERROR = re.compile(
    r"(?:obs(?:ervation)?: ?)?(?:nothing (?:happens|happened|changed)\b|invalid (?:action|command)\b)|"
    r"mcp error\b|"
    r"<(?:error|failure|fault|refus\w+|reject\w+)\b|"
    r"[45]\d\d (?:[45]\.\d\.\d |[a-z ]*(?:error|unavailable|not available))|"
    r"no \w+ (?:was|were|has been|have been) (?:\w+ )?(?:applied|changed|made|performed|saved|updated)|"
    r"[\w\[\]'\" ]{0,30}\b50[0234] (?:bad gateway|gateway|internal|service)|\w+(?:[._]\w+)+error: |"
    r"(?:http |status(?: code)?: ?)[45]\d\d\b|(?:not found|refused|rejected|permission denied)\b|"
    r"(?:error|exception|traceback|fatal\b|fehler\b|erreur\b|panic:|"
    r"[a-z_.]+(?:error|exception)\b ?[:\[(])"
)


def tells_error(text: str) -> bool:
    r"""Tell whether a result is an error although it was not marked as one.

    >>> tells_error("FATAL:  terminating connection"), tells_error("OSError: [Errno 28] No space left")
    (True, True)
    >>> tells_error("<refused><reason>full</reason></refused>"), tells_error("status: 502\nBad Gateway")
    (True, True)
    >>> tells_error('{"meta": {"status": 503}, "error": {"detail": "down"}}'), tells_error('{"error": null}')
    (True, False)
    """
    start = text[:80].lstrip().lower()
    if start.startswith("{"):
        return _is_refusal(text)
    return _SAYS_ERROR.match(start) is not None


@lru_cache(maxsize=1 << 14)
def _is_refusal(text: str) -> bool:
    """Tell whether a JSON object says that something went wrong rather than anything else."""
    try:
        value = from_json(text)
    except ValueError:
        return text.lstrip()[:12].lower().startswith('{"error')
    for part in (value, *(one for one in value.values() if isinstance(one, Mapping))):
        for key, item in part.items():
            name = str(key).lower()
            if name in _ERRORS and isinstance(item, str | Mapping | list) and item:
                return True
            if name in _EXIT and isinstance(item, int) and item:
                return True
            # A record may have a figure called `code`: beside nothing but words it tells how the call went.
            beside = part is not value or all(isinstance(one, str) for one in part.values() if one != item)
            if name in _STATUS and isinstance(item, int) and 400 <= item < 600 and beside:
                return True
    return False


SHOWN = 300
_NUMBER = re.compile(r"(?<![\w.,])[-+]?\d+(?:[.,]\d+)*(?![\w])")


def readings(number: str) -> frozenset[float]:
    """Return what a number can mean: points and commas part thousands or decimals.

    >>> [sorted(readings(one)) for one in ("1.250,10", "1,250", "12,50", "7")]
    [[1250.1], [1.25, 1250.0], [12.5], [7.0]]
    """
    marks = [mark for mark in number if mark in ".,"]
    if not marks:
        return frozenset({float(number)})
    found = set()
    for decimal in {*marks, ""}:
        whole, _, rest = number.rpartition(decimal) if decimal else (number, "", "")
        groups = re.split(r"[.,]", whole.lstrip("+-"))
        parted = len(groups) == 1 or (all(len(one) == 3 for one in groups[1:]) and 0 < len(groups[0]) < 4)
        if (
            parted
            and (rest.isdigit() or not decimal)
            and (not decimal or decimal not in whole)
            and len({*whole} & {".", ","}) < 2
        ):
            found.add(float(f"{whole.replace('.', '').replace(',', '')}.{rest or 0}"))
    return frozenset(found)


def numbers_in(text: str) -> Iterator[float]:
    """Yield what the numbers in a text can mean."""
    for found in _NUMBER.findall(text):
        yield from readings(found)


def sums(text: str) -> list[float]:
    r"""Return the sums of the columns of a result: of the numbers that its records have under one name.

    >>> sums('[{"price": 3, "no": 1}, {"price": 4.5, "no": 2}]'), sums("shop | visits\nA | 3\nB | 4")
    ([7.5, 3.0], [7.0])
    """
    columns: dict[str, list[float]] = {}
    if text.lstrip().startswith(("{", "[")):
        try:
            pairs: Iterable[tuple[str, Any]] = leaves(from_json(text))
        except ValueError:
            return []
    else:
        pairs = [pair for row in table(text) for pair in row.items()]
    for name, value in pairs:
        if isinstance(value, str) and _NUMBER.fullmatch(value) and len(readings(value)) == 1:
            columns.setdefault(name, []).extend(readings(value))
        elif isinstance(value, int | float) and not isinstance(value, bool):
            columns.setdefault(name, []).append(float(value))
    return [sum(own) for own in columns.values() if len(own) > 1]
