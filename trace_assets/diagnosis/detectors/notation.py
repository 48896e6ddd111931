"""Answers that are no JSON and hold what JSON would: tags, Python's own writing, an object a line."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable
from html import unescape
from typing import Any

from pydantic_core import from_json

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
