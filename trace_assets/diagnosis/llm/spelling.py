"""What a model's reply spells: words, numbers, names and ids as people would read them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

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
