"""What is done to a whole record though the user spoke of a part of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.identity import names_a_thing, normal
from trace_assets.diagnosis.detectors.mutation import hands_over
from trace_assets.diagnosis.detectors.protocol import NOT_NEEDED, Finding, Mistake, Proposal, lacking, present
from trace_assets.diagnosis.detectors.transcript import Step, Transcript
from trace_assets.diagnosis.detectors.values import json_of, leaves
from trace_assets.diagnosis.detectors.verbs import verb_of
from trace_assets.diagnosis.detectors.wording import asks_for, gerund, noun

MIN_USES = 2
_REMOVES = frozenset(
    {"abandon", "annul", "cancel", "close", "delete", "discard", "dismiss", "drop", "end", "erase", "refund"}
    | {"release", "remove", "return", "revoke", "stop", "terminate", "undo", "void", "withdraw"}
)
"""Verbs of what cannot be done to a whole without a loss of what was to stay."""
_SENTENCE = re.compile(r"[^.?!\n]+[.?!]?")
_WORD = re.compile(r"[^\W\d_]{3,}")
# English only: in other languages nobody names a part.
_WHOLE = re.compile(
    r"\b(?:entire(?:ly)?|whole|complete(?:ly)?|altogether|everything|both)\b|"
    r"\ball (?:of |the |my |your |its |these |those )*\w+|\bindividual\b|\bsingle\b|\bonly .{0,30}\bfull\b"
)
_LONGEST = 40
"""Letters up to which a text is what something is called."""


class WholeForPart:
    """The user wants a part of a record cancelled or removed, and the agent does it to the whole record.

    The tool takes no parts, and neither side had spoken of the whole. PRESENT when the agent, or the user,
    said that it takes all of it. Relevant when the record lists two parts or more, and the user named some of
    them and not all together with the deed. Arguments: `tool`, `argument` that names the record.
    """

    name = "whole_for_part"
    norm = 0.6
    mistake: Mistake = "forbidden_call"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose every change that is given a record with parts, and nothing that names one of its parts."""
        proposals = []
        for tool, argument in corpus.object_writes(MIN_USES):
            if verb_of(tool) not in _REMOVES or hands_over(tool):
                continue
            calls = [(one, step) for one in corpus.transcripts for step in one.own_calls(tool)]
            parted = [
                step
                for one, step in calls
                if len(_parts(one, normal(step.given.get(argument)), step.index)) > 1
            ]
            if len(parted) < MIN_USES or any(_names_more(step, argument) for _, step in calls):
                continue
            thing = noun(argument)
            proposals.append(
                Proposal(
                    args={"tool": tool, "argument": argument},
                    name=f"Say that it takes the whole {thing} before {gerund(tool)} for one part",
                    description=(
                        f"'{gerund(tool)}' takes all of the {thing}. When the user speaks of a part of it, "
                        "say that only the whole is possible, and do it only if the user then wants that."
                    ),
                    subject=(tool,),
                )
            )
        return proposals

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        tool, argument = str(args["tool"]), str(args["argument"])
        for step in transcript.own_calls(tool, ok=True):
            name = normal(step.given.get(argument))
            parts = _parts(transcript, name, step.index)
            asked = _asked_for_part(transcript, tool, name, parts, step.index)
            if asked is None:
                continue
            said = _said_whole(transcript, asked, step.index)
            if said is not None:
                return present("it was said that it takes all of it", asked, said, step.index)
            return lacking(
                f"{tool} took {len(parts)} parts, of which the user had named some", asked, step.index
            )
        return self._refrained(transcript, tool)

    def _refrained(self, transcript: Transcript, tool: str) -> Finding:
        """Return that the agent told the user so and the user then did not want it, where that is so."""
        known = [
            part for name in _named(transcript) for part in _parts(transcript, name, transcript.last + 1)
        ]
        for index, message in enumerate(transcript.messages):
            if message.role != "user" or transcript.calls(tool, ok=True):
                continue
            if not _names_part(transcript.lowered[index], tool, "", known):
                continue
            for later in range(index + 1, len(transcript.messages)):
                said = transcript.lowered[later] if transcript.messages[later].role == "assistant" else ""
                for one in _SENTENCE.findall(said):
                    if _WHOLE.search(one) and any(asks_for(tool, word) for word in _WORD.findall(one)):
                        return present(
                            "it was said that it takes all of it, and it was not done", index, later
                        )
            return NOT_NEEDED
        return NOT_NEEDED


def _names_more(step: Step, argument: str) -> bool:
    """Tell whether a call names more things than its record: parts, or what is to be in their place."""
    return any(
        names_a_thing(value) for name, value in leaves(step.given) if name.rpartition(".")[2] != argument
    )


def _parts(transcript: Transcript, name: str, before: int) -> list[str]:
    """Return what the parts of a record are called, as a result before a message last lists them."""
    found: list[str] = []
    for step in transcript.steps:
        if step.failed or step.end >= before or not name or name not in normal(step.result):
            continue
        for record in _records(step.result):
            if not any(normal(value) == name for value in record.values() if isinstance(value, str)):
                continue
            for items in record.values():
                inner = [one for one in items if isinstance(one, dict)] if isinstance(items, list) else []
                called = [_called(one) for one in inner]
                if len(inner) > 1 and all(called):
                    found = called
    return found


def _records(text: str) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a result, at any depth."""
    stack = [json_of(text)]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            yield value
            stack += value.values()
        elif isinstance(value, list):
            stack += value


def _called(part: Mapping[str, Any]) -> str:
    """Return what people call a part: its first text that is no identifier; empty without one."""
    texts = (one for one in part.values() if isinstance(one, str))
    return next((one.lower() for one in texts if not names_a_thing(one) and len(one) <= _LONGEST), "")


def _named(transcript: Transcript) -> frozenset[str]:
    """Return the names of all that was looked at or changed."""
    return frozenset(name for step in transcript.steps for name in step.objects)


def _asked_for_part(
    transcript: Transcript, tool: str, name: str, parts: Sequence[str], before: int
) -> int | None:
    """Return the user's last message before a call that wants the deed done to some of the parts; or None."""
    for index in range(before - 1, -1, -1):
        if transcript.messages[index].role == "user" and _names_part(
            transcript.lowered[index], tool, name, parts
        ):
            return index
    return None


def _names_part(text: str, tool: str, name: str, parts: Sequence[str]) -> bool:
    """Tell whether a sentence has the deed and some parts, not all, and neither the whole nor its name."""
    for sentence in _SENTENCE.findall(text):
        words = _WORD.findall(sentence)
        if not any(asks_for(tool, word) for word in words) or (name and name in normal(sentence)):
            continue
        named = {part for part in parts if any(_is_meant(part, word) for word in words)}
        if named and len(named) < len(set(parts)) and not _WHOLE.search(sentence):
            return True
    return False


def _is_meant(part: str, word: str) -> bool:
    """Tell whether a word is the noun that a part is called by, in either number.

    >>> [_is_meant(*one) for one in (("garden hose", "hose"), ("hiking boots", "boot"), ("tea pot", "tea"))]
    [True, True, False]
    """
    last = (_WORD.findall(part) or [""])[-1]
    return bool(last) and (word == last or word + "s" == last or word == last + "s")


def _said_whole(transcript: Transcript, after: int, before: int) -> int | None:
    """Return where somebody spoke of the whole between two places, the first one too; None without one."""
    for index in range(after, before):
        if transcript.messages[index].role in ("user", "assistant") and _WHOLE.search(
            transcript.lowered[index]
        ):
            return index
    return None
