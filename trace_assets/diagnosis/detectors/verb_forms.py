"""Forms of verbs: whether a sentence speaks of what a tool does. English only."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from trace_assets.diagnosis.detectors.verbs import READING, RUNS, WRITING, deed, spoken

WORD = re.compile(r"[a-z]+")
_ALIKE: tuple[frozenset[str], ...] = (
    frozenset({"change", "modify", "update", "edit", "adjust"}),
    frozenset({"cancel"}),
    frozenset({"book", "reserve", "create"}),
    frozenset({"return", "refund"}),
    frozenset({"exchange", "replace", "swap"}),
    frozenset({"transfer", "escalate"}),
    frozenset({"send", "issue", "offer", "grant", "give"}),
    frozenset({"assign", "allocate", "give"}),
    frozenset({"resume", "lift", "reactivate"}),
    frozenset({"reschedule", "move", "postpone", "rebook"}),
    frozenset({"renew", "extend", "prolong"}),
    frozenset({"reissue", "replace"}),
    frozenset({"waive", "forgive"}),
    frozenset({"delete", "remove", "erase"}),
    frozenset({"block", "freeze", "lock", "suspend"}),
    frozenset({"enroll", "register"}),
)
"""Verbs that policies and tools use for one thing."""
GIVING = frozenset({"give", "grant", "hand", "issue", "offer", "pay", "provide", "send"})
"""What is said of somebody who gets something."""
_IRREGULAR = {
    "buy": ("bought",),
    "give": ("gave", "given"),
    "lend": ("lent",),
    "make": ("made",),
    "pay": ("paid", "payment"),
    "sell": ("sold",),
    "send": ("sent",),
    "withdraw": ("withdrew", "withdrawn"),
    "write": ("written", "wrote"),
}
_SHORT = 4
"""Letters up to which a verb is told by its exact forms: longer words begin like short verbs by chance."""
_FILLERS = frozenset({"to", "the", "a", "an", "of", "for", "by", "in", "on", "with", "and", "or"})


@cache
def things(tool: str) -> tuple[str, ...]:
    """Return the words for what a tool acts on."""
    return tuple(word for word in deed(tool).split()[1:] if word not in _FILLERS)


@cache
def verb_of(tool: str) -> str:
    """Return the verb of a tool's name: its first word that is one."""
    words = deed(tool).split()
    return next((word for word in words if word in WRITING or word in READING), words[0] if words else "")


@cache
def same_verb(verb: str, word: str) -> bool:
    """Tell whether a word is a form of a verb, or of one that policies use for it.

    >>> [same_verb("update", word) for word in ("changing", "modified", "cancelled")]
    [True, True, False]
    """
    return any(_is_form(one, word) for one in _alike(verb))


@cache
def _alike(verb: str) -> frozenset[str]:
    """Return the verbs that are used for what a verb says, itself among them."""
    return frozenset({verb}).union(*(group for group in _ALIKE if verb in group))


BEGINS = RUNS | {"begin", "launch", "start"}
"""Verbs of tools whose thing says what is done: who runs a query queries."""
_EDITS = frozenset({"apply", "insert", "patch", "replace", "str", "write"})
"""Verbs of tools that edit, where nothing in the tool's name says what."""


def is_deed(tool: str, words: Iterable[str]) -> bool:
    """Tell whether one of some words is a form of a tool's verb; who replaces some text edits or changes it.

    >>> is_deed("replace", ["changed"]), is_deed("replace_item", ["changed"]), is_deed("run_query", ["query"])
    (True, False, True)
    """
    verb, acted = verb_of(tool), things(tool)
    verbs = (verb, "change") if verb in _EDITS and not acted else (verb,)
    if verb in BEGINS and acted:
        verbs = (verb, acted[0])
    return any(same_verb(one, word) for word in words for one in verbs)


def _is_form(verb: str, word: str) -> bool:
    if word in _IRREGULAR.get(verb, ()):
        return True
    if len(verb) <= _SHORT:
        stem = verb.removesuffix("e")
        return word.startswith(stem) and word[len(stem) :] in (
            "",
            "e",
            "s",
            "es",
            "ed",
            "ing",
            stem[-1:] + "ing",
        )
    stem = verb[:-1] if verb.endswith(("e", "y")) else verb
    return word.startswith(stem) and len(word) <= len(stem) + 6


def has_stem(words: Iterable[str], wanted: str) -> bool:
    """Tell whether one of some words begins as another does, endings aside."""
    bare = wanted.removesuffix("ment")
    if len(bare) >= _SHORT:
        wanted = bare  # who adjusts makes an adjustment
    stem = wanted[: max(4, len(wanted) - 2)]
    return any(word.startswith(stem) for word in words)


def _speaks_of(text: str, tool: str) -> bool:
    """Tell whether a text uses a tool's verb and the thing it acts on."""
    words, verb = WORD.findall(text.lower()), verb_of(tool)
    acted = things(tool)
    return any(same_verb(verb, word) for word in words) and any(has_stem(words, one) for one in acted)


def names_deed(text: str, tool: str) -> bool:
    """Tell whether a text has a form of a tool's verb.

    >>> names_deed("Could you have it cancelled?", "cancel_order"), names_deed("Where is it?", "cancel_order")
    (True, False)
    """
    verb = verb_of(tool)
    return any(same_verb(verb, word) for word in WORD.findall(text.lower()))


def speaks_of(text: str, tool: str) -> bool:
    """Tell whether a text uses a tool's verb, or one for the same, and the thing it acts on.

    >>> speaks_of("Before cancelling an order, look at it.", "cancel_order")
    True
    """
    return bool(things(tool)) and _speaks_of(text, tool)


_CHANGING = frozenset({"adjust", "change", "configure", "edit", "modify", "patch", "put", "set", "update"})
"""Verbs of tools that leave it to their arguments to say what is changed."""


def speaks_of_change(text: str, tool: str, arguments: Iterable[str]) -> bool:
    """Tell whether a text speaks of what a tool does whose arguments, not its verb, say what that is.

    >>> speaks_of_change("a running server is never resized", "patch_server", ["server", "size"])
    True
    >>> speaks_of_change("a running server is never deleted", "patch_server", ["server", "size"])
    False
    """
    if verb_of(tool) not in _CHANGING:
        return False
    words, acted = WORD.findall(text.lower()), things(tool)
    if not acted or not any(has_stem(words, one) for one in acted):
        return False
    parts = {part for one in arguments for part in spoken(one).split()} - {*acted}
    done = {form for part in parts if len(part) >= _SHORT for form in _participles(part)}
    return any(word in done or word.removeprefix("re") in done for word in words)


def _participles(word: str) -> tuple[str, str]:
    """Return what is said of something whose size, price or name is changed.

    >>> _participles("size"), _participles("label")
    (('sized', 'sizing'), ('labeled', 'labeling'))
    """
    stem = word.removesuffix("e")
    return f"{stem}ed", f"{stem}ing"
