"""What names an object: identifiers by their shape, and patterns learned from an argument's values."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

_ID = re.compile(r"#?(?=[^\s]*\d)[A-Za-z0-9][\w.@+!-]{2,63}\Z")
_CODE = re.compile(r"[A-Z]{5,12}\Z")
_PATH = re.compile(r"(?:[a-z_]{3,}\.[a-z_]{3,}|(?:\.{0,2}/)?(?:[\w.-]+/)+[\w-]+\.[A-Za-z]\w{0,7})\Z")
_NOT_ID = re.compile(
    r"(\d{4}-\d{2}-\d{2}.*|\d{1,2}[:.]\d{2}(?!\d).*|[-+]?\d+([.,]\d+)*|\d+(st|nd|rd|th|gb|mb|kg)?)\Z",
    re.IGNORECASE,
)
_CLASSES = (("A-Z", str.isupper), ("a-z", str.islower), ("0-9", str.isdigit))


def normal(value: object) -> str:
    """Return the form in which identifiers are compared: lower case, without the leading number sign.

    >>> normal("#W4923227")
    'w4923227'
    """
    return str(value).lower().replace("#", "")


def looks_like_id(value: object) -> bool:
    """Tell whether a value is shaped like an identifier rather than a word, number or date.

    >>> [looks_like_id(v) for v in ("K4821", "SDZQKO", "omar_rossi_1241", "lamp", "2024-05-20", "117", 3)]
    [True, True, True, False, False, False, False]
    >>> [looks_like_id(v) for v in ("src/core/parser.py", "and/or", "31.12.2030", "1.250,40")]
    [True, False, False, False]
    """
    return isinstance(value, str) and _is_id(value)


_MANY_DIGITS = re.compile(r"\d{5,}\Z")


def names_a_thing(value: object) -> bool:
    """Tell whether a value looks like an identifier, or is a number with as many digits as one has.

    >>> [names_a_thing(one) for one in ("K4821", "90125", 90125, "117", "lamp")]
    [True, True, True, False, False]
    """
    return looks_like_id(value) or _MANY_DIGITS.match(str(value)) is not None


@lru_cache(maxsize=1 << 16)  # the same values stand in one answer after another
def _is_id(value: str) -> bool:
    return not _NOT_ID.match(value) and bool(_ID.match(value) or _CODE.match(value) or _PATH.match(value))


def learn_pattern(values: Iterable[str]) -> str | None:
    """Return a regular expression for identifiers like these, None when they have too little in common.

    Values of one length are described place by place, others by their characters and lengths.

    >>> learn_pattern(["K4821", "A0007", "T1234"])
    '[A-Z][0-9]{4}'
    >>> learn_pattern(["ann_lee_12", "bo_li_7777"])
    '[0-9_a-z]{10}'
    """
    known = sorted({value.lstrip("#") for value in values})
    if not known:
        return None
    lengths = {len(value) for value in known}
    if len(lengths) == 1:
        places = [_charset(characters) for characters in zip(*known, strict=True)]
        if any(place is None for place in places):
            return None
        runs: list[tuple[str, int]] = []
        for place in places:
            assert place is not None
            if runs and runs[-1][0] == place:
                runs[-1] = (place, runs[-1][1] + 1)
            else:
                runs.append((place, 1))
        if len(runs) > 4 and (whole := _charset("".join(known))):
            runs = [(whole, lengths.pop())]
        return "".join(f"[{place}]" + (f"{{{count}}}" if count > 1 else "") for place, count in runs)
    whole = _charset("".join(known))
    return None if whole is None else f"[{whole}]{{{min(lengths)},{max(lengths)}}}"


def _charset(characters: Iterable[str]) -> str | None:
    parts = set[str]()
    for character in characters:
        for name, belongs in _CLASSES:
            if belongs(character) and character.isascii():
                parts.add(name)
                break
        else:
            if character not in "_.@+-/":
                return None
            parts.add(re.escape(character))
    return "".join(sorted(parts))


def find_ids(text: str, pattern: str) -> list[str]:
    """Return the identifiers of a pattern in a text, normalised, in order, each once.

    >>> find_ids("Orders #K4821 and K0007, please. HELLO", "[A-Z][0-9]{4}")
    ['k4821', 'k0007']
    """
    found = re.findall(rf"(?<![\w-])#?({pattern})(?![\w-])", text)
    return list(dict.fromkeys(normal(value) for value in found if looks_like_id(value)))


def stands_in(name: str, text: str) -> bool:
    """Tell whether a name stands in a text by itself, not as a part of a longer word.

    No regular expression: there are more names than Python keeps compiled.

    >>> stands_in("a1", "ba1, a1"), stands_in("a1", "ba1, a1_"), stands_in("#2", "no.#2")
    (True, False, True)
    """
    at = text.find(name)
    while at >= 0:
        if not _in_word(text[at - 1 : at]) and not _in_word(text[at + len(name) : at + len(name) + 1]):
            return True
        at = text.find(name, at + 1)
    return False


def _in_word(letter: str) -> bool:
    return letter.isalnum() or letter == "_"
