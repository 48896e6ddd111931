"""How many there are, as the agent tells it, against what a result lists."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.protocol import (
    NOT_NEEDED,
    Finding,
    Mistake,
    Proposal,
    is_needed,
    lacking,
    present,
)
from trace_assets.diagnosis.detectors.transcript import Transcript
from trace_assets.diagnosis.detectors.values import json_of

_SENTENCE = re.compile(r"[^.?!\n]+[.?!]?")
# English only: other languages give NA.
_SAYS = (
    r"\b(?:there (?:are|is)|(?:we|you) (?:currently |now )?(?:have|offer|carry)|"
    r"i (?:have )?(?:found|see|counted)|total of|has|have|lists?|holds?|contains?|returned|shows?)"
)
_NUMBERS = {
    word: number
    for number, word in enumerate(
        ["two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"], start=2
    )
}
_THERE_ARE = re.compile(
    rf"{_SAYS}(?: (?:currently|now|exactly|in total|only|also|just))* "
    rf"(?P<number>\d{{1,4}}|{'|'.join(_NUMBERS)})\b(?P<rest>[^.?!;:\n]*)"
)
_WORD = re.compile(r"[a-z][a-z-]+")
_FILLERS = frozenset(
    _WORD.findall(
        "and are at available choices choose currently different entries for found from have here "
        "in items list listed matches moment now of on online open options our records results "
        "right rows shop stock store that the these this to total types variants versions we which "
        "with you your"
    )
)
"""Words beside a number that set no condition."""
_LONGEST = 40
"""Letters up to which a text is what something is called."""
_OPEN = frozenset({"available", "stock", "open", "free", "active", "online"})
"""Words that set the condition which a list's own yes and no tells."""


class WrongCount:
    """The agent tells how many there are, and the result that it looked at lists another number.

    Counted is all that the list has, or what its one field of yes and no says yes of. Relevant when the words
    beside the number name the list, by its key or by what it is of, and set no other condition. No arguments.
    """

    name = "wrong_count"
    norm = 0.6
    mistake: Mistake = "wrong_statement"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose the one instance where some run tells a count."""
        if not is_needed(self, corpus):
            return []
        return [
            Proposal(
                args={},
                name="Count what a result lists one by one before telling how many there are",
                description=(
                    "Before telling the user how many there are of something, count the entries of the "
                    "result one by one, only those that meet the condition, such as being available."
                ),
            )
        ]

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        shown: list[int] = []
        for index, message in enumerate(transcript.messages):
            if message.role != "assistant" or not message.content:
                continue
            looked = _last_look(transcript, index)
            if looked is None:
                continue
            for sentence in _SENTENCE.findall(transcript.lowered[index]):
                found = _THERE_ARE.search(sentence)
                counts = _counts(looked[1], found["rest"]) if found else ()
                if found is None or not counts:
                    continue
                told = _NUMBERS.get(found["number"]) or int(found["number"])
                if told not in counts:
                    why = f"'{sentence.strip()[:80]}' was said, and the result lists {min(counts)}"
                    return lacking(why, looked[0], index)
                shown += [looked[0], index]
        return present("the count is that of the result", *shown) if shown else NOT_NEEDED


def _last_look(transcript: Transcript, before: int) -> tuple[int, str] | None:
    """Return the last result since the user last spoke: where, and its text; None without one."""
    for step in reversed(transcript.steps):
        if step.answer is None or step.answer >= before or step.by_user:
            continue
        spoke = any(transcript.messages[n].role == "user" for n in range(step.answer, before))
        return None if spoke or step.failed else (step.answer, step.result)
    return None


def _counts(text: str, rest: str) -> Sequence[int]:
    """Return how many a result lists of what the rest of a sentence names; empty where that is not sure.

    >>> shop = '{"name": "Cap", "kinds": [{"free": true, "hue": "red"}, {"free": false, "hue": "blue"}]}'
    >>> [_counts(shop, rest) for rest in (" cap options available", " cap kinds", " red caps", " hats")]
    [[1], [1, 2], (), ()]
    """
    words = [word for word in _WORD.findall(rest) if word not in _FILLERS | _OPEN]
    found = [
        entries
        for names, entries in lists_in(text)
        if words and all(any(same_noun(word, name) for name in names) for word in words)
    ]
    if len(found) != 1:
        return ()
    (entries,) = found
    records = [one for one in entries if isinstance(one, dict)]
    flags = {key for one in records for key, value in one.items() if isinstance(value, bool)}
    yes = [sum(one.get(key) is True for one in records) for key in flags]
    if len(flags) > 1:
        return ()
    if yes and any(word in _OPEN for word in _WORD.findall(rest)):
        return yes
    return sorted({*yes, len(entries)})


def same_noun(word: str, name: str) -> bool:
    """Tell whether two words are the same noun in either number."""
    return word == name or word.rstrip("s") == name.rstrip("s")


def lists_in(text: str) -> Iterator[tuple[frozenset[str], list[Any]]]:
    """Yield the lists in a result, of records or of values, with the words by which people call them.

    These are the list's own key and the texts of the record that it stands in. Records that go by their names
    in an object are a list too. What stands inside an entry is left alone.
    """
    stack: list[tuple[frozenset[str], Any]] = [(frozenset(), json_of(text))]
    while stack:
        names, value = stack.pop()
        entries = (
            list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
        )
        records = [one for one in entries if isinstance(one, dict)]
        alike = len(records) == len(entries) and len({frozenset(one) for one in records}) == 1
        if len(entries) > 1 and (alike or isinstance(value, list)):
            yield names, entries
        elif isinstance(value, dict):
            texts = [one for one in entries if isinstance(one, str) and len(one) <= _LONGEST]
            own = frozenset(word for one in texts for word in _WORD.findall(one.lower()))
            stack += [(own | set(_WORD.findall(key.lower())), one) for key, one in value.items()]
