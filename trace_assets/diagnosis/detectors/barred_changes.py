"""Changes to one record of which the first bars the second: in which order they were made."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.mutation import hands_over
from trace_assets.diagnosis.detectors.protocol import NOT_NEEDED, Finding, Mistake, Proposal, lacking, present
from trace_assets.diagnosis.detectors.transcript import Step, Transcript
from trace_assets.diagnosis.detectors.values import strings
from trace_assets.diagnosis.detectors.verbs import deed, has_stem, spoken
from trace_assets.diagnosis.detectors.wording import gerund, imperative, title

_WORD = re.compile(r"[^\W\d_]{3,}")
_SENTENCE = re.compile(r"[^.?!\n]+[.?!]?")
# English only: in other languages only a call that was refused shows it.
_CANNOT = re.compile(
    r"\b(?:cannot|can't|can not|could not|couldn't|unable|not able|no longer|not (?:be )?possible)\b"
)


class BarredByOwnChange:
    """The agent made one change to a record and with it barred another that it had been asked for before.

    What bars what is learned from runs: the second change was refused after the first one on the same record
    and never succeeded then, and both succeeded the other way round. PRESENT when the barred change was made
    first. Relevant when both were asked for before the one that bars was made.
    Arguments: `tool` that is barred, `after` which one, `words` that ask for it.
    """

    name = "barred_by_own_change"
    norm = 0.5
    mistake: Mistake = "missing_call"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose every pair of changes of which the second was refused once the first had been made."""
        refused: set[tuple[str, str]] = set()
        made: set[tuple[str, str]] = set()
        for one in corpus.transcripts:
            for first, second in _pairs(one, corpus.mutating):
                (refused if second.failed else made).add((second.tool, first.tool))
        refused = {(tool, after) for tool, after in refused - made if (after, tool) in made}
        return [
            Proposal(
                args={"tool": tool, "after": after, "words": words},
                name=f"{title(imperative(tool))} before {gerund(after)}",
                description=(
                    f"'{spoken(after)}' bars '{spoken(tool)}' on the same record. Where both are asked for, "
                    f"plan their order and make the one that is barred first."
                ),
                subject=(tool, after),
            )
            for tool, after in sorted(refused)
            if (words := _own_words(tool, after))
        ]

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        tool, words = str(args["tool"]), strings(args["words"])
        for step in transcript.own_calls(args["after"], ok=True):
            about = [other for other in transcript.own_calls(tool) if other.objects & step.objects]
            early = [other for other in about if other.index < step.index and not other.failed]
            if early:
                return present("what would be barred was done first", early[-1].index, step.index)
            asked = _asked(transcript, words, step.index)
            if asked is None:
                continue
            late = [other for other in about if other.index > step.index]
            if late and all(other.failed for other in late):
                why = f"{tool} was refused after {step.tool}, and had been asked for before"
                return lacking(why, step.index, late[0].index)
            told = None if about else _told(transcript, words, step.end)
            if told is not None:
                return lacking(
                    f"after {step.tool} the user was told that it cannot be done", step.index, told
                )
        return NOT_NEEDED


def _pairs(one: Transcript, writes: frozenset[str]) -> Iterator[tuple[Step, Step]]:
    """Yield changes to one record, a successful one and a later one by another tool.

    A call that had been refused before the first change as well says nothing of what that one bars.
    """
    own = [
        step for step in one.steps if step.tool in writes and not step.by_user and not hands_over(step.tool)
    ]
    for place, first in enumerate(own):
        if first.failed:
            continue
        for second in own[place + 1 :]:
            about = second.objects & first.objects
            if second.tool == first.tool or not about:
                continue
            before = [step for step in own[:place] if step.tool == second.tool and step.objects & about]
            if not (second.failed and any(step.failed for step in before)):
                yield first, second


def _own_words(tool: str, other: str) -> list[str]:
    """Return the words by which one change is asked for and another is not.

    >>> _own_words("modify_order_address", "modify_order_items"), _own_words("cancel_order", "modify_order")
    (['address'], ['cancel'])
    """
    theirs = deed(other).split()
    return [word for word in deed(tool).split() if len(word) > 3 and not has_stem(theirs, word)]


def _asked(transcript: Transcript, words: list[str], before: int) -> int | None:
    """Return the user's first message before a place that has such a word, None without one."""
    for index, message in enumerate(transcript.messages[:before]):
        if message.role == "user" and _speaks(transcript.lowered[index], words):
            return index
    return None


def _told(transcript: Transcript, words: list[str], after: int) -> int | None:
    """Return where the agent first says after a place that what is asked for cannot be done any more."""
    for index, message in enumerate(transcript.messages):
        if index <= after or message.role != "assistant":
            continue
        for sentence in _SENTENCE.findall(transcript.lowered[index].replace("’", "'")):
            if _CANNOT.search(sentence) and _speaks(sentence, words):
                return index
    return None


def _speaks(text: str, words: list[str]) -> bool:
    said = _WORD.findall(text)
    return any(has_stem(said, word) for word in words)
