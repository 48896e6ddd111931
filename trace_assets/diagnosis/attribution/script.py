"""Rules on the simulated user's script: it chose otherwise than it was told, or said what it had not seen.

What a user should have chosen is known from the ground truth alone: where the agent did what the user chose
among what lay on the table, and that is all in which the run differs, the choice decided it. English only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trace_assets.diagnosis.attribution.case import Case, Ruling
from trace_assets.diagnosis.detectors.identity import looks_like_id, normal
from trace_assets.diagnosis.detectors.mutation import hands_over
from trace_assets.diagnosis.detectors.values import leaves
from trace_assets.diagnosis.detectors.verbs import deed, spoken
from trace_assets.diagnosis.expected.facts import things_in
from trace_assets.records import ActionDiff

_WORD = re.compile(r"[a-z][a-z-]{2,}|\d+(?:st|nd|rd|th|gb|ml|l)\b|\d{3,}")
_NUMBER = re.compile(r"\d{6,}\Z")
"""Many digits name a thing too, such as a product."""
_TABLE = 12
"""Messages before a call in which its choice is looked for."""
_CLAUSE = re.compile(r"[.!?;\n]")
_LACKING = re.compile(r"\b(not|unavailable|sold out|out of stock|cannot|no longer)\b|n't\b|n’t\b")
_BEST = re.compile(
    r"\b(cheapest|lowest|highest|largest|biggest|best|fastest|earliest|closest|recommend|suggest)\w*\b"
)
_DENIES = re.compile(
    r"\b(no|not|isn['’]t|don['’]t see|doesn['’]t|without|never|off|disabled|none|false|inactive)\b"
)
_AFFIRMS = re.compile(r"\b(on|enabled|active|fine|ok|okay|normal|working|works|good|correct|right|true)\b")
_CLAUSES = re.compile(r"(?<=[?])|[.!;\n]|,\s*|\s*[—–]+\s*|\s-+\s|\bbut\b|\bso\b")
_PARTS = re.compile(r"[\n|;]|\.\s|(?<=[a-z0-9%])[.]?\s{2,}")


def users_choice(case: Case) -> Ruling | None:
    """The user chose another of the values on the table than its task wants, and the agent did just that."""
    diffs = [row for row in case.diffs or () if not _is_beside(case, row)]
    if not case.simulated or not diffs:
        return None
    evidence: set[int] = set()
    chosen: list[str] = []
    for row in diffs:
        if row.kind == "surplus" or row.message is None:
            return None  # a call too many, or one that was never made
        for name in row.changed:
            found = _choice(case, row.message, row.expected_arguments.get(name), row.arguments.get(name))
            if found is None:
                return None
            evidence.add(found[0])
            chosen.append(f"{spoken(name)}: {found[1]}")
        evidence.add(row.message)
    detail = f"the user was offered what its task wants and chose otherwise ({'; '.join(chosen)[:200]})"
    return Ruling("user_simulator", "users_choice", tuple(sorted(evidence)), detail)


def _is_beside(case: Case, row: ActionDiff) -> bool:
    """Tell whether a difference decides nothing: a handing over, or a call that the tool refuses anyway."""
    if row.kind == "surplus":
        return hands_over(row.tool)
    if row.kind != "missed":
        return False
    objects = {normal(value) for value in row.expected_arguments.values()}
    return any(
        step.failed and not step.objects.isdisjoint(objects) for step in case.transcript.calls(row.tool)
    )


def _choice(case: Case, made: int, expected: Any, done: Any) -> tuple[int, str] | None:
    """Return where the user chose, and what, when the other value lay on the table; None otherwise."""
    want, have = _described(case, expected), _described(case, done)
    missing = {name: words for name, words in want.items() if name not in have}
    extra = {name: words for name, words in have.items() if name not in want}
    if not missing:
        return None
    other = [words - _any(extra) for words in missing.values()]
    own = [words - _any(missing) for words in (extra or have).values()]
    for n, message in enumerate(case.messages[:made]):
        if n < made - _TABLE or message.role != "user":
            continue
        offered = set[str]().union(*(_offered(case, m) for m in range(n)))
        if not all(words & offered for words in other):
            continue
        names = set(_WORD.findall((message.content or "").lower()))
        if any(words & names for words in own) and not any(words & names for words in other):
            if any(_praised(case, m, own) for m in range(n)):
                return None
            return n, ", ".join(sorted(set[str]().union(*own) & names)[:4])
    return None


def _offered(case: Case, index: int) -> set[str]:
    """Return the words of what a message says or offers, without what it says is not to be had."""
    message = case.messages[index]
    if message.role not in ("assistant", "user"):
        return set()
    clauses = _CLAUSE.split((message.content or "").lower())
    return {word for one in clauses if not _LACKING.search(one) for word in _WORD.findall(one)}


def _praised(case: Case, index: int, own: Sequence[frozenset[str]]) -> bool:
    """Tell whether the agent had called what was chosen the best of its kind: then it led there."""
    message = case.messages[index]
    if message.role != "assistant":
        return False
    clauses = (one for one in _CLAUSE.split((message.content or "").lower()) if _BEST.search(one))
    return any(words & set(_WORD.findall(one)) for one in clauses for words in own)


def _described(case: Case, value: Any) -> Mapping[str, frozenset[str]]:
    """Return the words by which each identifier in a value is told from others, from records of the run."""
    return {
        normal(one): _words_of(case, str(one))
        for _, one in leaves(value)
        if isinstance(one, str) and (looks_like_id(one) or _NUMBER.match(one))
    }


def _words_of(case: Case, name: str) -> frozenset[str]:
    """Return the words of a record, the fields of nested objects among them, and of the identifier itself."""
    words, wanted = set(_WORD.findall(spoken(name))), normal(name)
    for step in case.transcript.steps:
        if step.failed or wanted not in normal(step.result):
            continue
        for thing in things_in(step.result):
            if any(normal(value) == wanted for value in thing.values()):
                words.update(_of_thing(thing, name))
    return frozenset(words)


def _of_thing(thing: Mapping[str, Any], name: str) -> Iterator[str]:
    for _, value in leaves(thing):
        if isinstance(value, str) and normal(value) != normal(name) and len(value) <= 40:
            yield from _WORD.findall(value.lower())


def _any(named: Mapping[str, frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*named.values())


def denied_state(case: Case) -> Ruling | None:
    """The user denied, without a look, what its device then showed, and that is what was never put right.

    It needs a user with tools of its own, and a missed step of the user's whose subject it denied.
    """
    missed = [row for row in case.diffs or () if row.kind == "missed"]
    own = [step for step in case.transcript.steps if step.by_user]
    if not case.simulated or not missed or not own:
        return None
    subjects = {row.tool: _subject(row.tool) for row in missed if _is_users(case, row.tool)}
    for n, message in enumerate(case.messages):
        if message.role != "user" or not message.content or _looked(case, n):
            continue
        for clause in _CLAUSES.split(message.content.lower()):
            for tool, word in subjects.items():
                told = _state_told(clause) if word and word in clause else None
                if told is None:
                    continue
                shown = next(
                    (step for step in own if step.index > n and _shows(step.result, word) is (not told)),
                    None,
                )
                if shown is not None and not any(s.tool == tool and not s.failed for s in own):
                    said = " ".join(clause.split())[:120]
                    detail = (
                        f"without a look the user said '{said}', and then '{shown.tool}' showed otherwise"
                    )
                    return Ruling("user_simulator", "denied_state", (n, shown.end), detail)
    return None


def _subject(tool: str) -> str:
    """Return the word for what a tool switches, the first after its verb; empty where there is none."""
    return next((word for word in deed(tool).split()[1:] if word not in ("mode", "the", "a")), "")


def _is_users(case: Case, tool: str) -> bool:
    return any(one.name == tool and one.requestor == "user" for one in case.expected)


def _looked(case: Case, index: int) -> bool:
    """Tell whether the user had called a tool since the agent last spoke."""
    spoke = next((n for n in range(index - 1, -1, -1) if case.messages[n].role == "assistant"), -1)
    return any(spoke < step.index < index for step in case.transcript.steps)


def _state_told(clause: str) -> bool | None:
    """Return whether a clause says that something is on, or there; None when it says nothing of that.

    >>> [_state_told(one) for one in ("so it is off", "it is not off", "it is fine", "is it off?")]
    [False, True, True, None]
    """
    if "?" in clause or re.match(r"\s*(?:is|are|should|could|can|do|does|what|how|i want|please)\b", clause):
        return None
    denials = len(_DENIES.findall(clause))
    if denials:
        return denials % 2 == 0
    return True if _AFFIRMS.search(clause) else None


def _shows(result: str, word: str) -> bool | None:
    """Return whether a result shows something as on, or there; None when it does not speak of it."""
    for part in _PARTS.split(result.lower()):
        if word in part:
            return not _DENIES.search(part)
    return None


# The simulated user contradicts its instruction: another identifier or amount than the one it was given.


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
