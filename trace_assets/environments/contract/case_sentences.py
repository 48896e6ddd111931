"""A policy's sentences as rules: which deed each is about, in which case, and whether it forbids it.

What cannot be read of a sentence leaves its deeds open. English only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from trace_assets.diagnosis.detectors.verbs import has_stem, same_verb, spoken, things, verb_of
from trace_assets.environments.contract.policy_cases import NOTHING, Case, Cases, Condition, Part
from trace_assets.environments.contract.policy_words import PARTICLES, bounds_in
from trace_assets.environments.contract.record_reading import Records

_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z*\d`(-])")
_LABEL = re.compile(r"^\s*(?:[-*•]|\(?\d{1,2}[.)])\s+")
_HEADING = re.compile(r"^\s*#")
_IF = re.compile(
    r"\b(?:only )?(?:if|when|where|whenever|once|while|as long as|so long as|provided(?: that)?|in case)\b",
    re.IGNORECASE,
)
_ONLY = re.compile(r"\bonly (?:if|when|where|once)\b|\bonly\b(?=[^,;.]*\b(?:if|when|where)\b)", re.IGNORECASE)
_UNLESS = re.compile(r"\b(?:unless|except (?:if|when|where)|but not (?:if|when|where))\b", re.IGNORECASE)
_DEFAULT = re.compile(
    r"\b(?:(?<!or )(?<!before anything )(?<!anybody )(?<!nobody )(?:otherwise|else)|"
    r"in (?:all|any|every) other cases?|(?<!before )(?:any|every)(?:thing|body|one) else|all else|"
    r"(?:all|any|every) other\w*|the rest|after that|(?:all|the) others?)\b(?P<too>,? or\b)?",
    re.IGNORECASE,
)
_OTHERS = re.compile(r"\bof the (?:others|rest)\b", re.IGNORECASE)
_NEVER = re.compile(
    r"\b(?:nobody|no one|never|cannot|can't|must not|may not|is not|are not|do not|does not|no longer|"
    r"not to be|no \w+ (?:may|can|is|are|gets?|must))\b",
    re.IGNORECASE,
)
_OVER = re.compile(
    r",?\s*\b(?:whatever|even (?:if|where|when)|regardless of|no matter|in any case|whether or not)\b"
    r"(?P<over>[^.;:]*)",
    re.IGNORECASE,
)
_FIRST = re.compile(r"\b(?:always|comes? first|comes? before all)\b", re.IGNORECASE)
_BRACKETS = re.compile(r"\([^()]*\)")
_INCLUDED = re.compile(r", ((?:today|that day|this day|both) included)\b", re.IGNORECASE)
_NOT_DUE = re.compile(r"\W*(?:is|are|must|may|can|does)? ?(?:not|never)\b", re.IGNORECASE)
_LIGHT = frozenset(
    {"carry", "do", "get", "give", "hold", "let", "look", "make", "pick", "put", "run", "set", "take"}
)
"""Verbs that say what is done with their thing only."""
_CLAUSE = re.compile(r"[:;,]")
_CHOICE = re.compile(r"\s*\)?\s*,?\s*\bor\b\s*(?:with|by|use|call)?\s*[`(]*\s*\Z", re.IGNORECASE)
_CUT = re.compile(r"[;:]|,|\.\s|\b(?:and|but|while|otherwise)\b", re.IGNORECASE)
_OR = re.compile(r",?\s+\bor\b\s+(?:else\s+)?(?:if|when|where)?\s*", re.IGNORECASE)
_AND = re.compile(r",?\s+\b(?:and|but)\b\s+(?:if\s+)?|,\s+|\s+\b(?:who|whose|which|with)\b\s+", re.IGNORECASE)
NOTHING_DONE = re.compile(
    r"\b(?:change|do|book|enter|refund|pay|cancel|withdraw|touch|take|plan|pick|send|close|issue|block|give|make|"
    r"sell|ask for) (?:nothing|none|neither)\b|\bleave (?:it|them|the \w+)\b|\b(?:is|are) left\b|\bstays?\b",
    re.IGNORECASE,
)


def sentences(text: str) -> list[str]:
    r"""Return the sentences of a policy, with the case of their letters.

    >>> sentences("# Desk\nKeep it\nif new.\n- Else drop it (drop_it). So.")
    ['Keep it if new.', 'Else drop it (drop_it).', 'So.']
    """
    blocks: list[str] = []
    goes_on = False
    for line in text.splitlines():
        if _HEADING.match(line) or not line.strip():
            goes_on = False
            continue
        item = _LABEL.match(line) is not None
        bare = _LABEL.sub("", line).strip()
        if goes_on and not item:
            blocks[-1] += f" {bare}"
        else:
            blocks.append(bare)
        goes_on = True
    return [part.strip() for block in blocks for part in _SENTENCE.split(block) if part.strip()]


def read_cases(text: str, deeds: Mapping[str, re.Pattern[str]], records: Records) -> Cases:
    """Return the rules of a policy.

    Args:
        text: The policy.
        deeds: By deed, how it is named.
        records: What the records show.
    """
    found = Cases()
    said = sentences(text)
    deeds = {**deeds}
    for deed, words in _also_called(said, deeds):
        deeds[deed] = re.compile(f"{deeds[deed].pattern}|\\b{re.escape(words)}\\b(?! *\\()", re.IGNORECASE)
    aside = []
    for sentence in said:
        named = _named(sentence, deeds)
        if not named:
            aside.append(sentence)
            continue
        found.spoken.append(sentence)
        rules = list(_read(sentence, named, records, deeds))
        if not rules:
            found.spoken.pop()  # it says how, and not when
        elif all(rule is not None for rule in rules):
            found.rules += [rule for rule in rules if rule is not None]
            found.read.append(sentence)
        else:
            found.open |= {deed for deed, _, _ in named}
    _ease(found, aside, records)
    if any(_has_a_case(sentence, records) for sentence in aside):
        # It may be about any deed: who knows in what words it says so.
        found.open |= deeds.keys()
    _settle_others(found)
    return found


def _has_a_case(sentence: str, records: Records) -> bool:
    """Tell whether a sentence that names no deed speaks of what records show, and not of looking at it."""
    return bool(bounds_in(sentence)) or bool(records.read(_BRACKETS.sub(" ", sentence)).tests)


def _ease(found: Cases, aside: Sequence[str], records: Records) -> None:
    """Let a bound go where a sentence that names no deed sets another one to the same field."""
    for sentence in aside:
        way = tuple(records.read(part) for part in _split(_AND, _BRACKETS.sub(" ", sentence)))
        way = tuple(part for part in way if part.tests or not part.whole)
        paths = {test.path for part in way for test in part.tests if test.bound is not None}
        if not paths:
            continue
        found.rules = [replace(one, condition=_eased(one.condition, paths, way)) for one in found.rules]


def _eased(condition: Condition, paths: set[str], way: tuple[Part, ...]) -> Condition:
    def let_go(part: Part) -> Part:
        own = any(test.bound is not None and test.path in paths for test in part.tests)
        return replace(part, eased=(*part.eased, way)) if own else part

    ways, also = (tuple(tuple(map(let_go, one)) for one in side) for side in (condition.ways, condition.also))
    return replace(condition, ways=ways, also=also)


def _also_called(said: Sequence[str], deeds: Mapping[str, re.Pattern[str]]) -> Iterator[tuple[str, str]]:
    """Yield in which words deeds are named right before their tool (`may check out late (allow_late)`)."""
    for sentence in said:
        for deed, form in deeds.items():
            one = form.search(sentence)
            before = (
                re.search(r"\b(?:may|can|must|to)((?: [a-z]+){2,3}) \Z", sentence[: one.start()])
                if one
                else None
            )
            words = before[1].split() if before else []
            own = [word for word in words if word not in PARTICLES]
            if one and one[0].startswith("(") and len(own) > 1 and words[0] == own[0]:
                yield deed, " ".join(words)


def _named(sentence: str, deeds: Mapping[str, re.Pattern[str]]) -> list[tuple[str, int, int]]:
    found = [
        (deed, one.start(), one.end()) for deed, form in deeds.items() for one in form.finditer(sentence)
    ]
    if not found:
        found = [(deed, one.start(), one.end()) for deed, one in _in_words(sentence, deeds)]
    found.sort(key=lambda one: one[1])
    return found


def _in_words(sentence: str, deeds: Mapping[str, re.Pattern[str]]) -> Iterator[tuple[str, re.Match[str]]]:
    """Yield the deed that a sentence names by its tool's verb and thing, where it can be one alone."""
    words = [(one, one[0].lower()) for one in re.finditer(r"[A-Za-z]+", sentence)]
    meant: list[tuple[bool, str, re.Match[str]]] = []
    for deed in deeds:
        acted, verb = things(deed) if "_" in deed else (), verb_of(deed)
        heads = {verb, spoken(deed).split()[0]}
        verbs = [one for one, word in words if any(same_verb(head, word) for head in heads)]
        named = all(has_stem([word for _, word in words], one) for one in acted)
        if acted and verbs and (named or verb not in _LIGHT):
            meant.append((named, deed, verbs[-1]))
    sure = [one for one in meant if one[0]] or meant
    if len(sure) == 1:
        yield sure[0][1:]


def _names_others(
    sentence: str, named: Sequence[tuple[str, int, int]], deeds: Mapping[str, re.Pattern[str]]
) -> bool:
    """Tell whether a sentence says, in words, what another deed does than those that it names."""
    own = {deed for deed, _, _ in named}
    words = re.findall(r"[a-z]+", re.sub(r"\w+_\w+", " ", sentence).lower())
    for deed in deeds.keys() - own:
        head = spoken(deed).split()[0]
        shared = any(same_verb(head, spoken(one).split()[0]) for one in own)
        if "_" in deed and head not in _LIGHT and not shared and any(same_verb(head, word) for word in words):
            return True
    return False


def _read(
    sentence: str,
    named: Sequence[tuple[str, int, int]],
    records: Records,
    deeds: Mapping[str, re.Pattern[str]],
) -> Iterator[Case | None]:
    if _names_others(sentence, named, deeds):
        yield None
        return
    bare = sentence
    for _, at, end in reversed(named):
        bare = bare[:at] + " " + bare[end:]
    if _is_plain(re.sub(r"\b\w+_\w+\b", " ", bare), records):
        return
    start, rest = 0, ""
    for place, (deed, at, end) in enumerate(named):
        following = named[place + 1] if place + 1 < len(named) else None
        if following and following[0] == deed:
            continue
        stop = len(sentence)
        if following:
            between = sentence[end : following[1]]
            if _CHOICE.fullmatch(between):
                yield None
                return
            cuts = [one for one in _CUT.finditer(between) if not _in_bound(sentence, end + one.start())]
            if not cuts:
                yield None
                return
            firm = [one for one in cuts if one[0] in ";:." or one[0].lower() == "otherwise"]
            stop = end + (firm or cuts)[-1].start()
        part = rest + sentence[start:stop]
        yield from _cases(sentence, part, deed, (at - start + len(rest), end - start + len(rest)), records)
        if one := _OTHERS.search(part):
            rest = f"{one[0]}, "  # what follows is of these too
        start = stop


def _is_plain(sentence: str, records: Records) -> bool:
    """Tell whether a sentence says in what way something is done, and not in which case."""
    marks = (_UNLESS, _DEFAULT, _NEVER, _OVER)
    if bounds_in(sentence) or any(one.search(sentence) for one in marks):
        return False
    marked = _IF.search(sentence)
    return records.asks_for_nothing(sentence if marked is None else sentence[marked.end() :])


def _in_bound(sentence: str, at: int) -> bool:
    return any(one.start <= at < one.end for one in bounds_in(sentence))


def _cases(
    sentence: str, part: str, deed: str, at: tuple[int, int], records: Records
) -> Iterator[Case | None]:
    before, after = part[: at[0]], part[at[1] :]
    goes_over = _OVER.search(part)
    strong, over = bool(goes_over or _FIRST.search(part)), goes_over["over"].lower() if goes_over else ""
    said, unless = (
        _FIRST.sub(" ", _OVER.sub(" ", f"{_BRACKETS.sub(' ', before)} \0 {_BRACKETS.sub(' ', after)}")),
        "",
    )
    if (cut := _UNLESS.search(said)) is not None:
        said, unless = (
            said[: cut.start()] + (" \0" if "\0" in said[cut.end() :] else ""),
            said[cut.end() :].replace("\0", " "),
        )
    default = _DEFAULT.search(said)
    rest = default is not None
    others = bool(_OTHERS.search(said))
    said = _DEFAULT.sub(" ", _OTHERS.sub(" ", said))
    marked = _IF.search(said)
    condition, main = (said, "") if marked is None else _divided(said, marked)
    ahead, _, behind = said.partition("\0")
    never = deed != NOTHING and bool(
        _NEVER.search(main if marked else _CLAUSE.split(ahead)[-1]) or _NOT_DUE.match(behind)
    )
    condition = (condition if marked or not never else _NEVER.sub(" ", condition)).replace("\0", " ")
    if marked is not None and (bounds_in(main) or records.read(main.replace("\0", " ")).tests):
        yield None  # a case stands before the deed, and another one behind it
        return
    if default is not None and marked is not None and said.find("\0") < marked.start():
        yield None  # it says with what the rest is done, as a rule
        return
    ways = _ways(condition, records)
    also: tuple[tuple[Part, ...], ...] = ()
    if len(ways) > 1 and any(len(one) > 1 for one in ways):
        also = _groups(condition, records)
    held = Condition(ways, also, _ways(unless, records) if unless else ())
    if never and not held.is_read:
        yield None
        return
    if not rest and not others and not held.is_read:
        yield None
    elif default is not None and default["too"] and held.is_read:
        yield Case(deed, sentence, Condition(()), rest=True)
        yield Case(deed, sentence, held, never, strong=strong, over=over)
    else:
        yield Case(
            deed, sentence, held if held.is_read else Condition(()), never, rest or others, strong, over
        )


def _divided(said: str, marked: re.Match[str]) -> tuple[str, str]:
    """Return the condition and the rest of a clause."""
    deed = said.find("\0")
    if deed < marked.start():
        return said[marked.end() :], said[: marked.start()]
    body = said[marked.end() : deed]
    comma = max(body.rfind(","), body.rfind(":"))
    if comma < 0:
        return body, said[: marked.start()] + said[deed:]
    return body[:comma], said[: marked.start()] + body[comma:] + said[deed:]


def _ways(text: str, records: Records) -> tuple[tuple[Part, ...], ...]:
    found = []
    for way in _split(_OR, text):
        parts = tuple(records.read(part) for part in _split(_AND, way) if part.strip(" ,.:;()`"))
        if parts:
            found.append(tuple(part for part in parts if part.tests or not part.whole) or parts)
    return tuple(found)


def _groups(text: str, records: Records) -> tuple[tuple[Part, ...], ...]:
    """Return what `_ways` does where `or` binds closer than `and`."""
    return tuple(
        tuple(records.read(part) for part in _split(_OR, group) if part.strip(" ,.:;()`"))
        for group in _split(_AND, text)
        if group.strip(" ,.:;()`")
    )


def _split(separator: re.Pattern[str], text: str) -> list[str]:
    text = _INCLUDED.sub(r" \1", text)
    taken = bounds_in(text)
    parts, start = [], 0
    for one in separator.finditer(text):
        if any(b.start < one.end() and one.start() < b.end for b in taken):
            continue
        parts.append(text[start : one.start()])
        start = one.end()
    return [*parts, text[start:]]


def _settle_others(found: Cases) -> None:
    """Where no rule is left that calls for something else, what is said of the rest is said of nothing."""
    if not any(not one.rest and not one.never for one in found.rules):
        found.open |= {one.deed for one in found.rules if one.rest}
