"""What a model's reply holds: words, numbers and ids as people would read them, and JSON as models write it.

JSON stands among words, in fences, with comments, trailing commas and raw line breaks.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

_WORDS_OF = {
    "NA": ("n a", "na", "not applicable", "not needed", "irrelevant", "not relevant", "none", "null"),
    "PRESENT": ("present", "exercised", "shown", "yes present"),
    "LACKING": ("lacking", "lacked", "lacks", "lack", "not exercised"),
    "CANNOT_TELL": (
        *("cannot tell", "can not tell", "cant tell", "can t tell", "unclear", "unknown", "uncertain"),
        *("undecidable", "unsure", "cannot be told", "cannot say"),
    ),
    "user_simulator": ("user simulator", "user", "simulated user", "simulator", "the user"),
    "environment": ("environment", "env", "tool", "tools", "the environment"),
    "ground_truth": (
        *("ground truth", "the ground truth", "task", "the task", "expectation", "expected actions"),
        *("grader", "the grader", "judge"),
    ),
    "infrastructure": ("infrastructure", "the infrastructure", "infra", "serving", "harness"),
    "agent": ("agent", "the agent", "assistant"),
    "yes": ("yes", "true", "y"),
    "no": ("no", "false", "n"),
    "cannot_tell": ("cannot tell", "can not tell", "cant tell", "can t tell", "unclear", "unknown", "unsure"),
}
"""Spellings of the words that a schema allows; what means two of them is none."""


def plain(name: str) -> str:
    """Return a name in small letters and digits, with an underscore for all that lies between them."""
    return re.sub(r"[^a-z0-9]+", "_", str(name).lower()).strip("_")


def word_of(value: Any, allowed: Sequence[str]) -> Any:
    """Return the allowed word that a value spells; the value itself where it spells none, or two.

    >>> [word_of(one, ["NA", "PRESENT", "LACKING"]) for one in ("N/A", "**Present**", "absent")]
    ['NA', 'PRESENT', 'absent']
    """
    if isinstance(value, bool):
        value = "yes" if value else "no"
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if not isinstance(value, str):
        return value
    said = " ".join(re.sub(r"[^a-z0-9]+", " ", value.lower()).split())
    for word in allowed:
        if said == plain(word).replace("_", " ") or said in _WORDS_OF.get(word, ()):
            return word
    lead = " ".join(
        re.sub(r"[^a-z0-9]+", " ", re.split(r"[:(\u2013\u2014,;.]| - ", value)[0].lower()).split()
    )
    rest = re.sub(r"[^a-z0-9]+", " ", value.lower()).split()
    others = [word for word in allowed if plain(word) in rest]
    if len(others) == 1 and lead in (plain(others[0]), *_WORDS_OF.get(others[0], ())):
        return others[0]  # "PRESENT (see message 3)"
    return value


def numbers_in(value: Any) -> list[Any]:
    """Return message indices, however they are written; what is none is left out.

    >>> numbers_in("3"), numbers_in([3.0, "message 5", {"index": 7}, "x"]), numbers_in("2-4, 9")
    ([3], [3, 5, 7], [2, 3, 4, 9])
    """
    if isinstance(value, bool) or value is None:
        return []
    if isinstance(value, int):
        return [value]
    if isinstance(value, float):
        return [int(value)] if value.is_integer() else []
    if isinstance(value, Mapping):
        for name in ("index", "message", "message_index", "id", "start"):
            if name in value:
                return numbers_in(value[name])
        return []
    if isinstance(value, list):
        return [number for one in value for number in numbers_in(one)]
    if not isinstance(value, str):
        return []
    found: list[int] = []
    for part in re.split(r"[,;]| and ", value):
        spans = re.search(r"(?<![\w.])(-?\d{1,7})(?:\s*(?:-|\u2013|to|\.\.)\s*(\d{1,7}))?(?![\w.]*\w)", part)
        if spans is None:
            continue
        first, last = int(spans.group(1)), int(spans.group(2) or spans.group(1))
        found += range(first, last + 1) if first <= last <= first + 50 else [first, last]
    return found


def names_in(value: Any) -> list[Any]:
    """Return ids, however a list of them is written.

    >>> names_in("T1, T3"), names_in({"id": "T1"}), names_in([1, "T2"])
    (['T1', 'T3'], ['T1'], ['1', 'T2'])
    """
    if isinstance(value, str):
        return [part.strip() for part in re.split(r"[,;\n]", value) if part.strip()]
    if isinstance(value, Mapping):
        for name in ("id", "name", "transcript"):
            if name in value:
                return names_in(value[name])
        return list(value)
    if isinstance(value, list):
        out: list[str] = []
        for one in value:
            out += [str(one)] if isinstance(one, str | int) and not isinstance(one, bool) else names_in(one)
        return out
    if isinstance(value, int) and not isinstance(value, bool):
        return [str(value)]
    return []


def within(text: str, most: int) -> str:
    """Return a text of at most so many characters, cut between words.

    >>> within("Look  at every order", 12)
    'Look at'
    """
    plain = " ".join(text.split())
    return plain if len(plain) <= most else plain[:most].rsplit(" ", 1)[0]


def id_of(said: str, known: Mapping[str, str]) -> str:
    """Return which id is meant: as it is, with its name, or its name alone; empty where that is unclear.

    Args:
        said: What the model calls it.
        known: Ids to names; a name may be empty.

    >>> known = {"C1": "Look first", "C2": "Ask"}
    >>> [id_of(one, known) for one in ("c2", "C1: Look first", "[C1]", "2", "look first", "C9", "C12")]
    ['C2', 'C1', 'C1', 'C2', 'C1', '', '']
    """
    text = " ".join(str(said).split())
    by_id = {name.lower(): name for name in known}
    if text.lower() in by_id:
        return by_id[text.lower()]
    plain = re.sub(r"[^\w]+", " ", text.lower()).strip()
    named = [
        name
        for name, words in known.items()
        if words and re.sub(r"[^\w]+", " ", words.lower()).strip() == plain
    ]
    if len(named) == 1:
        return named[0]
    lead = re.match(
        r"[\W_]*(?:(?:capability|proposal|transcript|episode|id|group)\W+)?([A-Za-z]*)[-_ ]?(\d{1,9})(?!\w)",
        text,
        re.IGNORECASE,
    )
    if lead is not None:
        letters, number = lead.group(1).lower(), lead.group(2)
        letter = {re.sub(r"\d+$", "", name).lower() for name in known}
        rest = text[lead.end() :].strip()
        if (letters in letter or (not letters and len(letter) == 1 and not rest)) and len(letter) >= 1:
            return by_id.get(f"{letters or next(iter(letter))}{int(number)}", "")
    return ""


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
