"""What a policy forbids to give a tool or to use it on, whatever a record says: values, kinds, words."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from trace_assets.diagnosis.detectors.policy_lines import Sentence
from trace_assets.diagnosis.detectors.policy_subjects import (
    CONDITION,
    EXCEPTION,
    WORD,
    forbids_deed,
    speaks_of,
    values_said,
)
from trace_assets.diagnosis.detectors.policy_text import FORBIDS, PolicyText
from trace_assets.diagnosis.detectors.verbs import is_deed
from trace_assets.diagnosis.detectors.wording import spoken


@dataclass(frozen=True)
class GivenBan:
    """A tool may not be given certain values.

    Attributes:
        sentence: What says so.
        argument: What must not have them.
        values: As given; one that ends with a stroke stands for all that lies under that path.
    """

    sentence: str
    argument: str
    values: tuple[str, ...]


def is_among(value: object, values: Iterable[str]) -> bool:
    """Tell whether a value is one of some, or lies under one that is a path.

    >>> is_among("/app/tests/a.py", ["/app/tests/"]), is_among("tests.py", ["tests/"])
    (True, False)
    """
    text = str(value)
    return any(
        text == one or (one.endswith("/") and f"/{one}".replace("//", "/") in f"/{text}") for one in values
    )


_FOLDER = re.compile(r"(?<![\w:/.])(?:\.{0,2}/)?(?:[\w.-]+/)+[\w-]*")
_TOUCHES = re.compile(r"\b(?:touch|edit|modif|chang|alter|writ|delet|remov|creat|mov)\w*")

_IN_PLACE = re.compile(r"\b(?:one|ones|it|them|these|those)\b")
_LITERAL = re.compile(r"[`'\"‘“]([^`'\"’”]{2,40})[`'\"’”]")


def given_bans(policy: PolicyText, tool: str, given: Mapping[str, Collection[str]]) -> list[GivenBan]:
    """Return the values that a policy names, in quotes, as those that a tool must not be given.

    >>> text = PolicyText("Drafts go to `review`. Never send one to `all`.")
    >>> [(one.argument, one.values) for one in given_bans(text, "send_draft", {"list": ["all", "review"]})]
    [('list', ('all',))]
    """
    found, before = [], ""
    for sentence in policy.sentences:
        text, previous, before = sentence.text, before, sentence.text
        if not forbids_deed(text, tool) or EXCEPTION.search(text) or CONDITION.search(text):
            continue
        folders = [f"{one.rstrip('/')}/" for one in _FOLDER.findall(text) if _TOUCHES.search(text)]
        for argument, values in given.items() if folders else ():
            under = [one for one in values if is_among(one, folders)]
            if under and len(under) < len(set(values)) and all("/" in one for one in values):
                found.append(GivenBan(text, argument, tuple(folders)))
        if _IN_PLACE.search(text):
            sentence = Sentence(text, f"{sentence.heading} {previous}")
        if not speaks_of(sentence, tool):
            continue
        quoted = set(_LITERAL.findall(text))
        for argument, values in given.items():
            said = tuple(sorted(one for one in values if one.lower() in quoted))
            if said and len(said) < len(set(values)):
                found.append(GivenBan(text, argument, said))
    return found


def kinds_banned(policy: PolicyText, tool: str, known: Collection[str]) -> list[str]:
    """Return the kinds of things, of those that are known, with which a policy forbids to use a tool at all.

    They stand in the place of the thing that the tool is named after; a sentence with a condition or an
    exception before its colon gives none.

    >>> text = PolicyText("A mug, a vase is never refunded: call transfer. A lamp is not refunded when lit.")
    >>> kinds_banned(text, "refund_item", ["lamp", "mug", "rug", "vase"])
    ['mug', 'vase']
    """
    found = set[str]()
    for sentence in policy.sentences:
        text = re.split("[:;]", sentence.text)[0]
        if not FORBIDS.search(text) or EXCEPTION.search(text) or CONDITION.search(text):
            continue
        if is_deed(tool, WORD.findall(text)):
            said = {spoken(one): one for one in known}
            found |= {said[one] for one in values_said(text, said)}
    return sorted(found)


@dataclass(frozen=True)
class Mark:
    """A tool may not be used on what shows a certain word.

    Attributes:
        sentence: What says so.
        word: As the policy writes it.
    """

    sentence: str
    word: str


_NOT_DONE = re.compile(r"\b(?:is|are|be) (?:not|never) (?:be )?[a-z]+(?:ed|en|t)\b")
_CAPITALS = re.compile(r"(?<![\w`'\"])[A-Z][A-Z_-]{3,}(?![\w`'\"])")


def marks(policy: PolicyText, tool: str) -> list[Mark]:
    """Return the words, in capitals or quotes, that a policy says forbid a tool where a look shows them.

    >>> text = PolicyText("Files whose header says GENERATED are not edited by hand.")
    >>> [one.word for one in marks(text, "edit_file")]
    ['GENERATED']
    """
    found = []
    for sentence in policy.sentences:
        text = sentence.text
        if not (FORBIDS.search(text) or _NOT_DONE.search(text)) or EXCEPTION.search(text):
            continue
        if not _MARKED.search(text) or not speaks_of(sentence, tool):
            continue
        place = policy.text.lower().find(text)
        own = policy.text[place : place + len(text)] if place >= 0 else text
        words = [*_CAPITALS.findall(own), *_LITERAL.findall(own)]
        found += [Mark(text, word) for word in dict.fromkeys(words)]
    return found


_MARKED = re.compile(
    r"\b(?:says?|reads?|marked|labell?ed|tagged|flagged|contains?|shows?|bears?|starts? with)\b"
)
