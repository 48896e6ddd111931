"""JSON as models write it: among words, in fences, with comments, trailing commas and raw line breaks.

What is read leniently is the form alone. A value that was cut off is left out (`CUT`), one that is named
twice with different contents counts as neither (`CONFLICT`): what was meant is never guessed.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from typing import Any, Final

DEEPEST = 60
"""Levels of nesting; no answer has more than six."""
MOST_READ = 4
"""How often a text is read through at the most, in search of the place where a value begins."""
LONGEST_NUMBER = 400
"""Digits; Python refuses to read an integer of more than 4,300."""


class _Mark:
    """A value that is none."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


CUT: Final = _Mark("CUT")
CONFLICT: Final = _Mark("CONFLICT")

_THOUGHTS = re.compile(
    r"</(?:think(?:ing)?|thought|reasoning|reflection|scratchpad)>|\[/THINK\]"
    r"|<\|channel\|>final<\|message\|>|◁/think▷",
    re.IGNORECASE,
)
_SPACE = re.compile(r"(?:\s|[\ufeff\u200b\u200c\u200d]|//[^\n]*|#[^\n]*|/\*.*?(?:\*/|\Z))*", re.DOTALL)
_OPENING = re.compile(r"[{\[]")
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_WORD = re.compile(r"[^\W\d][\w.$-]*")
_QUOTES = {'"': '"', "'": "'", "“": "”", "‘": "’", "„": "”", "`": "`"}
_ENDS = {one: re.compile(rf"[\\{one}]") for one in ('"', "'", "”", "’", '”"', "`")}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_WORDS: dict[str, Any] = {
    "true": True,
    "false": False,
    "null": None,
    "none": None,
    "nan": None,
    "undefined": None,
}
# What follows the quote that ends a string; any other quote is one that the string itself holds.
_NAMED = re.compile(r"\s*(?:[:=：]|\Z)")
_CLOSED = re.compile(
    r"""\s*(?:[}\]]|\Z|(?://|/\*|\#)|,\s*(?:[{\[}\]\d-]|(?:true|false|null|None|True|False)\b|\Z|//|/\*|\#"""
    r"""|["'“][^"'“”\n]{0,200}["'”]\s*[:,}\]]|["'“]|[A-Za-z_]\w*\s*:)|\n\s*["'“{\[])"""
)


def values_in(text: str) -> list[Any]:
    r"""Return the objects and lists in a reply, in order; thoughts before the answer do not count.

    >>> values_in('<think>{"a": 0}</think> Here it is: ```json {"a": {"b": 1,},} ```')
    [{'a': {'b': 1}}]
    >>> values_in("no"), values_in("{'a': True, b: [1 2] // so\n}")
    ([], [{'a': True, 'b': [1, 2]}])
    """
    if "&quot;" in text and '"' not in text:
        text = html.unescape(text)
    spoken = text[list(_THOUGHTS.finditer(text))[-1].end() :] if _THOUGHTS.search(text) else text
    found = list(_values(spoken))
    if not found and spoken is not text:
        found = list(_values(text))
    return found


def _values(text: str) -> Iterator[Any]:
    stripped = text.strip()
    try:
        whole = json.loads(stripped, strict=False, object_pairs_hook=_pairs)
    except (ValueError, RecursionError):
        whole = None
    if isinstance(whole, str) and whole != text:  # JSON as a string within JSON
        yield from _values(whole)
        return
    if isinstance(whole, dict | list):
        yield whole
        return
    at, left = 0, MOST_READ * len(text)
    while left > 0 and (opening := _OPENING.search(text, at)) is not None:
        reader = _Reader(text, opening.start())
        try:
            value = reader.value(0)
        except _NotJson:
            at = opening.start() + 1
        else:
            at = reader.at
            yield value
        left -= reader.at - opening.start()


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name, value in pairs:
        row[name] = CONFLICT if name in row and row[name] != value else value
    return row


class _NotJson(Exception):
    """What stands here is no value."""


class _Reader:
    """Reads one value from a place in a text."""

    def __init__(self, text: str, at: int) -> None:
        self.text, self.at = text, at

    def value(self, depth: int, closed: re.Pattern[str] = _CLOSED) -> Any:
        """Return the value at this place; `CUT` where the text ends before it does.

        Args:
            depth: How deep it is nested.
            closed: What follows a string here.
        """
        if depth > DEEPEST:
            raise _NotJson
        self._skip()
        sign = self._peek()
        if not sign:
            return CUT
        if sign == "{":
            return self._object(depth)
        if sign == "[":
            return self._list(depth)
        if sign in _QUOTES:
            return self._string(closed)
        if number := _NUMBER.match(self.text, self.at):
            self.at = number.end()
            if self.at == len(self.text):
                return CUT
            said = number.group()
            if len(said) > LONGEST_NUMBER:
                raise _NotJson
            return float(said) if re.search(r"[.eE]", said) else int(said)
        if word := _WORD.match(self.text, self.at):
            self.at = word.end()
            if self.at == len(self.text):
                return CUT
            if word.group().lower() in _WORDS:
                return _WORDS[word.group().lower()]
            return word.group()  # a name without quotes
        raise _NotJson

    def _skip(self) -> None:
        found = _SPACE.match(self.text, self.at)
        self.at = found.end() if found else self.at

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def _object(self, depth: int) -> dict[str, Any]:
        self.at += 1
        pairs: list[tuple[str, Any]] = []
        while True:
            self._skip()
            sign = self._peek()
            if sign in ("}", ""):
                self.at += 1
                return _pairs(pairs)
            if sign in ",;":
                self.at += 1
                continue
            if sign == "]":  # a brace was forgotten
                return _pairs(pairs)
            name = self.value(depth + 1, _NAMED)
            if name is CUT:
                return _pairs(pairs)
            if isinstance(name, dict | list):
                raise _NotJson
            self._skip()
            if not self._peek():
                return _pairs(pairs)
            if self.text.startswith("=>", self.at):
                self.at += 1
            elif self._peek() not in (":", "=", "："):
                raise _NotJson
            self.at += 1
            value = self.value(depth + 1)
            if value is not CUT:
                pairs.append((str(name), value))

    def _list(self, depth: int) -> list[Any]:
        self.at += 1
        items: list[Any] = []
        while True:
            self._skip()
            sign = self._peek()
            if sign in ("]", ""):
                self.at += 1
                return items
            if sign in ",;":
                self.at += 1
                continue
            if sign == "}":  # a bracket was forgotten
                return items
            item = self.value(depth + 1)
            if item is not CUT:
                items.append(item)

    def _string(self, closed: re.Pattern[str]) -> Any:
        """Return a string; quotes within it that were not escaped belong to it."""
        opened = self._peek()
        ends = _QUOTES[opened] + ('"' if opened in "“„" else "")
        self.at += 1
        said: list[str] = []
        while (found := _ENDS[ends].search(self.text, self.at)) is not None:
            said.append(self.text[self.at : found.start()])
            self.at = found.end()
            if found.group() == "\\":
                said.append(self._escaped())
            elif closed.match(self.text, self.at):
                return "".join(said)
            else:
                said.append(found.group())
        self.at = len(self.text)
        return CUT

    def _escaped(self) -> str:
        sign = self._peek()
        self.at += 1
        if sign == "u" and re.match(r"[0-9a-fA-F]{4}", self.text[self.at : self.at + 4]):
            code = int(self.text[self.at : self.at + 4], 16)
            self.at += 4
            if 0xD800 <= code < 0xDC00 and (
                low := re.match(r"\\u(d[c-f][0-9a-f]{2})", self.text[self.at : self.at + 6], re.IGNORECASE)
            ):
                self.at += 6
                code = 0x10000 + ((code - 0xD800) << 10) + int(low.group(1), 16) - 0xDC00
            return chr(code) if not 0xD800 <= code < 0xE000 else "\ufffd"
        return _ESCAPES.get(sign, sign)
