"""Arguments and results as detectors read them: scalars, states, errors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
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
_HOLDS = frozenset(
    {"body", "content", "data", "item", "items", "payload", "record", "records", "response", "result"}
)
"""Under what names answers hold what was asked for; under another name it must have an identifier."""
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}")


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
    """
    for _ in range(2):
        if not isinstance(value, Mapping):
            break
        held = [(key, item) for key, item in value.items() if isinstance(item, Mapping | list)]
        rest = [
            key for key, item in value.items() if not isinstance(item, Mapping | list) and item is not None
        ]
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
    >>> records_in('{"order": "K4821", "items": [{"id": "I1"}]}'), records_in("done")
    ([{'order': 'K4821'}], [])
    """
    if not text.lstrip().startswith(("{", "[")):
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
    """
    if not isinstance(value, str) or not _TIME.match(value):
        return None
    try:
        return datetime.fromisoformat(value).replace(tzinfo=None)
    except ValueError:
        return None


def categorical(value: str) -> bool:
    """Tell whether a value could be one of a few states: short, and no number, date or identifier."""
    return 0 < len(value) <= 24 and not any(character.isdigit() for character in value)


def tells_error(text: str) -> bool:
    """Tell whether a result is an error although it was not marked as one."""
    start = text[:40].lstrip().lower()
    return start.startswith(("error", '{"error"', "exception", "traceback"))
