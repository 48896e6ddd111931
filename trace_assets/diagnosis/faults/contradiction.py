"""The simulated user contradicts its instruction: another identifier or amount than the one it was given.

A value counts when it is shaped like one in the instruction (the same letters-and-digits pattern, or an
amount of the same unit), is not in the instruction, and nobody said or showed it before. It does not count
when the user gives the right value as well: a slip that was put right cost the agent nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from trace_assets.diagnosis.faults.case import Case, Ruling

_TOKEN = re.compile(r"[A-Za-z0-9#](?:[\w.@+#-]*[A-Za-z0-9])?")
_AMOUNT = re.compile(
    r"(?P<sign>[$€£])\s?(?P<signed>\d[\d,]*(?:\.\d+)?)"
    r"|(?P<counted>\d[\d,]*(?:\.\d+)?)\s?(?P<unit>gb|mb|tb|dollars?|usd|eur|euros?|percent|%)(?![a-z])",
    re.IGNORECASE,
)
_UNITS = {
    "$": "dollar",
    "dollars": "dollar",
    "usd": "dollar",
    "€": "euro",
    "euros": "euro",
    "eur": "euro",
    "%": "percent",
}
_DIGITS = 3
"""Digits from which a token counts as an identifier."""

Value = tuple[str, str]
"""Its kind - a shape, or a unit - and the value as it is compared."""


def contradiction(case: Case) -> Ruling | None:
    """The simulated user gave an identifier or an amount that its instruction does not."""
    if not case.simulated or not case.instruction:
        return None
    given = set(_values(case.instruction))
    if not given:
        return None
    kinds = {kind for kind, _ in given}
    known, numbers = _flat(case.instruction), set(_numbers(case.instruction))
    for index, one in enumerate(case.messages):
        text = one.content or ""
        if one.role == "user":
            for kind, value in _values(text):
                seen = value in known if "9" in kind else value in numbers
                if kind not in kinds or (kind, value) in given or seen:
                    continue
                if _put_right(case, index, kind, given):
                    continue
                meant = ", ".join(sorted(other for same, other in given if same == kind)[:3])
                detail = f"the user said {value}, its instruction says {meant}"
                return Ruling("user_simulator", "simulator_contradicts", (index,), detail)
        shown = f"{text} {[call.arguments for call in one.tool_calls]}"
        known += "\n" + _flat(shown)
        numbers.update(_numbers(shown))
    return None


def _put_right(case: Case, index: int, kind: str, given: set[Value]) -> bool:
    """Tell whether the user says, here or later, what it was told to say of this kind."""
    later = (one.content or "" for one in case.messages[index:] if one.role == "user")
    return any(value in given for text in later for value in _values(text) if value[0] == kind)


def _values(text: str) -> Iterator[Value]:
    """Yield the identifiers and amounts of a text.

    >>> sorted(_values("Order #W4923227 for $1,200.50, up to 2.0 GB, on the 5th"))
    [('A9999999', 'w4923227'), ('dollar', '1200.5'), ('gb', '2')]
    """
    for match in _AMOUNT.finditer(text):
        number = match["signed"] or match["counted"]
        unit = (match["sign"] or match["unit"]).lower()
        yield _UNITS.get(unit, unit), f"{float(number.replace(',', '')):g}"
    for match in _TOKEN.finditer(_AMOUNT.sub(" ", text)):
        token = _flat(match.group(0))
        if sum(character.isdigit() for character in token) >= _DIGITS and _is_name(match.group(0)):
            yield _shape(token), token


def _numbers(text: str) -> Iterator[str]:
    """Yield every number of a text as amounts are compared, whatever its unit."""
    for found in re.findall(r"\d[\d,]*(?:\.\d+)?", text):
        yield f"{float(found.replace(',', '')):g}"


def _is_name(token: str) -> bool:
    """Tell identifiers, phone numbers and codes from years, times and dates."""
    bare = token.strip("#")
    if re.fullmatch(r"(19|20)\d\d([-/.]\d\d?){0,2}|\d\d?[-/.]\d\d?[-/.](\d\d){1,2}|\d{1,2}:\d\d.*", bare):
        return False
    return not re.fullmatch(r"\d{1,4}(\.\d+)?", bare)


def _flat(text: str) -> str:
    """Return text without what people leave out of identifiers or put in: case, marks, gaps in numbers."""
    return re.sub(r"(?<=\d)[-. ()]+(?=\d)|[#()]", "", text.lower())


def _shape(token: str) -> str:
    """Return the pattern of a token, runs of letters as one: `omar_rossi_1241` is `a_a_9999`."""
    return re.sub(r"[a-z]+", "A", re.sub(r"\d", "9", token))
