"""What an answer says, however it is written: JSON, tags, a table, lines of names and values, or sentences.

Nothing is understood: tags and columns name what they hold, and of sentences the figures and the wording
without them are told apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Any

from trace_assets.diagnosis.detectors.notation import tagged
from trace_assets.diagnosis.detectors.values import table
from trace_assets.environments.contract.answers import parsed

LONGEST, MOST_SENTENCES = 20_000, 40
"""Characters that are read, and sentences that are told apart."""
SAYS = "says"
"""Under what name the sentences of a text stand, figures and names left out."""
_NUMBER = re.compile(r"[+-]?(?:0|[1-9]\d{0,14})(?:\.\d{1,9})?\Z")
_PAIR = re.compile(r"[ \t*-]*([^\W\d][\w .-]{0,30}?)[ \t]*(?:=|:(?=[ \t]))[ \t]*([^=]{0,120}?)[ \t]*\Z")
_RULE = re.compile(r"\|(?: *:?-{2,}:? *\|){1,40}\Z")
_SECTION = re.compile(r"^\s*\[([^\[\]\n]{1,60})\]\s*$", re.MULTILINE)
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")
_NAMED = re.compile(
    r"\[[^\[\]\n]{1,60}\]|(?<!\w)(?:\w{0,60}\d(?:[\w.:/-]{0,80}\w)?|\w{1,60}(?:[-_/]\w{1,60}){1,8})"
)
"""What is no wording: figures, names with figures or joints, and what stands in brackets."""
_FIGURE = re.compile(r"(?<![\w.:/-])(\d{1,12}(?:\.\d{1,6})?)(?![\w:/-]|\.\d)[ \t]*([^\W\d_]+)?")
_BEFORE = re.compile(r"([^\W\d_]+)\W*\Z")


def written(text: str) -> Any:
    r"""Return what a text says as a JSON value, or the text itself where it is one wording without a figure.

    >>> written('<lot no="7"><state>free</state><day n="3"/></lot>')
    {'no': 7, 'state': 'free', 'day': {'n': 3}}
    >>> written("<lots><lot no='1'/><lot no='2'/></lots>")
    {'lot': [{'no': 1}, {'no': 2}]}
    >>> written("code,rate\n17,4.5"), written("| a | b |\n|---|---|\n| x | 1 |\n| y | 2 |")
    ({'code': '17', 'rate': 4.5}, [{'a': 'x', 'b': 1}, {'a': 'y', 'b': 2}])
    >>> written("| stay | taken on that very day |\n|---|---|\n| R1 | no |")
    {'stay': 'R1', 'taken on that very day': 'no'}
    >>> written("state: free\nday=3"), written("item=oven; age=3\nitem=door; age=7")
    ({'state': 'free', 'day': 3}, [{'item': 'oven', 'age': 3}, {'item': 'door', 'age': 7}])
    >>> written("03:17 [pay-db] deployed 42 min ago\nheap full")
    {'says': ['# # deployed # min ago', 'heap full'], 'min': 42}
    >>> written('{"a": 1}'), written("done"), written("")
    ({'a': 1}, 'done', '')
    """
    value = parsed(text)
    if not isinstance(value, str):
        return value
    plain = value.strip()[:LONGEST]
    if not plain:
        return value
    for read in (partial(tagged, plain=_plain), _rows, _sections, _pairs):
        found = read(plain)
        if found is not None:
            return found
    return _sentences(plain, value)


def _plain(text: str) -> Any:
    """Return a number for what is written as one; names with zeros before them stay texts."""
    text = text.strip()
    if not _NUMBER.match(text):
        return text
    return float(text) if "." in text else int(text)


# Tables, and lines of names and values.


def _rows(text: str) -> Any:
    rows = [_typed(row) for row in table(text) or _ruled(text)]
    return rows[0] if len(rows) == 1 else rows or None


def _ruled(text: str) -> list[dict[str, str]]:
    """Return the rows of a table with a line under its first row: columns may be called by several words."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) < 3 or not _RULE.match(lines[1]):
        return []
    names, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in (lines[0], *lines[2:]))
    if len(names) < 2 or not all(names) or len(set(names)) < len(names):
        return []
    return [dict(zip(names, row, strict=True)) for row in rows] if {*map(len, rows)} == {len(names)} else []


def _typed(row: dict[str, str]) -> dict[str, Any]:
    """Return a row with its numbers; the first cell names it, as a rule."""
    first = next(iter(row), "")
    return {name: cell if name == first else _plain(cell) for name, cell in row.items()}


def _sections(text: str) -> Any:
    parts = _SECTION.split(text)
    if len(parts) < 3 or parts[0].strip():
        return None
    found: list[dict[str, Any]] = []
    for name, body in zip(parts[1::2], parts[2::2], strict=True):
        own = _lines(body)
        if own is None or any(len(one) != 1 for one in own):
            return None
        found.append({"section": name, **{key: value for one in own for key, value in one.items()}})
    return found[0] if len(found) == 1 else found


def _pairs(text: str) -> Any:
    """Return lines of `name: value` or `name=value`: one record, or one a line where a line has several."""
    lines = _lines(text)
    if lines is None:
        return None
    if all(len(one) == 1 for one in lines):
        names = [next(iter(one)) for one in lines]
        if len(set(names)) == len(names):
            return {key: value for one in lines for key, value in one.items()}
        return None
    return lines[0] if len(lines) == 1 else lines


def _lines(text: str) -> list[dict[str, Any]] | None:
    """Return the pairs of each line; None where a line has anything else."""
    found = []
    for line in text.splitlines():
        if not line.strip():
            continue
        parts = [_PAIR.match(part) for part in re.split(r"[;|]|,(?=\s*[\w .-]{1,30}=)", line.rstrip(";, "))]
        own = {one[1].strip(): _plain(one[2]) for one in parts if one}
        if len(own) != len(parts):
            return None
        found.append(own)
    return found or None


# Sentences.


def _sentences(text: str, whole: str) -> Any:
    """Return the wordings of a text and its figures, each under the word that it stands beside."""
    found: dict[str, Any] = {}
    wordings: list[str] = []
    for one in [part.strip() for part in _SENTENCE.split(text) if part.strip()][:MOST_SENTENCES]:
        wordings.append(_NAMED.sub("#", one).rstrip(".!;"))
        for name, value in _figures(one):
            found.setdefault(name, value)
    if len(wordings) == 1 and not found and wordings[0] == text.rstrip(".!;"):
        return whole
    return {SAYS: wordings, **found}


def _figures(sentence: str) -> Iterator[tuple[str, int | float]]:
    for one in _FIGURE.finditer(sentence):
        before = _BEFORE.search(sentence[max(0, one.start() - 60) : one.start()])
        name = one[2] or (before[1] if before else "")
        if name:
            yield name.lower(), float(one[1]) if "." in one[1] else int(one[1])
