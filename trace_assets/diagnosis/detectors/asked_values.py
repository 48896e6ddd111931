"""What the user named, and what a tool was given in its place: another count, day, address or object."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.described_records import Record, shown_among, words_for
from trace_assets.diagnosis.detectors.identity import normal
from trace_assets.diagnosis.detectors.notation import Said, counts_in, is_moment, says_moment, together
from trace_assets.diagnosis.detectors.protocol import NOT_NEEDED, Finding, Mistake, Proposal, lacking, present
from trace_assets.diagnosis.detectors.transcript import Step, Transcript
from trace_assets.diagnosis.detectors.values import leaves, strings
from trace_assets.diagnosis.detectors.verbs import spoken
from trace_assets.diagnosis.detectors.wording import gerund, noun

MIN_USES = 3
"""Runs in which the user must have said a value, or told records apart."""
MOSTLY = 0.5
"""Share of the runs in which the user said such a value whose call must be given it."""
MOST_KNOWN = 200
"""Values of an argument that are looked for in what users say."""
_MOST_COUNTED = 100
_MAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_SHORTEST = 3


class OtherThanAsked:
    """The user named a value, and the tool was given another one of its kind that nobody had spoken of.

    A count, a day or time, an address, an identifier, or one of the values that the argument has in other
    runs. Relevant when the user named one. What the agent had proposed, and the user answered, shows nothing:
    it may have been agreed. Arguments: `tool`, `argument`, `kind` (`count`, `moment` or `text`), `known`.
    """

    name = "other_than_asked"
    norm = 0.8
    mistake: Mistake = "wrong_value"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose every argument of a writing tool that users mostly name themselves."""
        proposals = []
        for tool in sorted(corpus.mutating & corpus.agent_tools.keys()):
            if corpus.agent_tools[tool] < MIN_USES:
                continue
            values: dict[str, list[Any]] = {}
            for one in corpus.transcripts:
                for step in one.own_calls(tool):
                    for name, value in step.given.items():
                        values.setdefault(name, []).append(value)
            for argument, given in sorted(values.items()):
                if (kind := _kind(given)) is None:
                    continue
                args = {"tool": tool, "argument": argument, "kind": kind, "known": _known(kind, given)}
                labels = [self.label(one, args).label for one in corpus.transcripts]
                right, wrong = labels.count("PRESENT"), labels.count("LACKING")
                if right >= MIN_USES and right >= MOSTLY * (right + wrong):
                    proposals.append(_proposal(args))
        return proposals

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        right: list[int] = []
        wrong: Finding | None = None
        for step in transcript.own_calls(args["tool"], ok=True):
            value = step.given.get(args["argument"])
            asked = _before(transcript, step)
            said = _says(args["kind"], asked, value, strings(args["known"]))
            if said == "so":
                right.append(step.index)
            elif said == "otherwise" and not _was_offered(transcript, step, args["kind"], value):
                why = f"{step.tool} was given {args['argument']} {value}, and the user had named another one"
                wrong = wrong or lacking(why, step.index)
        if wrong is not None:
            return wrong
        return present(f"{args['argument']} is what the user named", *right) if right else NOT_NEEDED


def _proposal(args: Mapping[str, Any]) -> Proposal:
    tool, argument = args["tool"], args["argument"]
    return Proposal(
        args=args,
        name=f"Take the {spoken(argument)} that the user asks for when {gerund(tool)}",
        description=(
            f"Call '{spoken(tool)}' with the '{spoken(argument)}' that the user named, and with no other one "
            "that the user has not agreed to."
        ),
        subject=(tool, argument),
    )


def _kind(given: Sequence[Any]) -> str | None:
    """Return what kind of values these are; None where users would not name them."""
    plain = [value for value in given if value is not None]
    if not plain or any(isinstance(value, bool | Mapping | list) for value in plain):
        return None
    if all(isinstance(value, int) and 0 < value <= _MOST_COUNTED for value in plain):
        return "count" if len(set(plain)) > 1 else None
    texts = [value for value in plain if isinstance(value, str)]
    if len(texts) < len(plain) or len({normal(one) for one in texts}) < 2:
        return None
    if all(is_moment(one) for one in texts):
        return "moment"
    return "text" if sum(len(one) <= 80 for one in texts) == len(texts) else None


def _known(kind: str, given: Sequence[Any]) -> list[str]:
    texts = {normal(one) for one in given if isinstance(one, str) and len(one) >= _SHORTEST}
    return sorted(texts)[:MOST_KNOWN] if kind == "text" else []


def _before(transcript: Transcript, step: Step) -> str:
    """Return what the user said before a call."""
    return together(
        message.content or ""
        for message in transcript.messages[: step.index]
        if message.role == "user" and message.content
    )


def _says(kind: str, text: str, value: Any, known: Sequence[str]) -> Said:
    if value is None or isinstance(value, bool):
        return "no"
    if kind == "count":
        counts = counts_in(text)
        return "no" if not counts or not isinstance(value, int) else "so" if value in counts else "otherwise"
    if not isinstance(value, str):
        return "no"
    if kind == "moment":
        return says_moment(text, value)
    said, name = normal(text), normal(value)
    if _stands(name, said):
        return "so"
    if "@" in name:
        return "otherwise" if _MAIL.search(said) else "no"
    others = [one for one in known if one != name and len(one) > _SHORTEST and _stands(one, said)]
    # A part of what was given is no other value, nor is what has it as a part.
    others = [one for one in others if one not in name and name not in one]
    return "otherwise" if others else "no"


def _stands(name: str, text: str) -> bool:
    return name in text and re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None


def _was_offered(transcript: Transcript, step: Step, kind: str, value: Any) -> bool:
    """Tell whether the agent had named a value, and the user had answered, before a call."""
    answered = False
    for index in range(step.index - 1, -1, -1):
        message = transcript.messages[index]
        if message.role == "user" and message.content:
            answered = True
        elif (
            answered and message.role == "assistant" and _says(kind, message.content or "", value, ()) == "so"
        ):
            return True
    return False


class OtherChoiceTaken:
    """A look shows several records, what the user said fits one best, and the tool is called on another one.

    Days, times and words are held against all fields of each record: the slot on Thursday at 2 pm, the
    smaller van. Relevant when the tool was called on one of them and not all fit alike. Arguments: `tool`,
    `argument` that names the record.
    """

    name = "other_choice_taken"
    norm = 0.8
    mistake: Mistake = "wrong_value"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose every argument by which a writing tool chooses among what a look shows."""
        proposals = []
        for tool in sorted(corpus.mutating & corpus.agent_tools.keys()):
            chosen = {
                argument for one in corpus.transcripts for argument in shown_among(one, tool, words=True)
            }
            for argument in sorted(chosen):
                args = {"tool": tool, "argument": argument}
                labels = [self.label(one, args).label for one in corpus.transcripts]
                right, wrong = labels.count("PRESENT"), labels.count("LACKING")
                if right >= MIN_USES and right >= MOSTLY * (right + wrong):
                    proposals.append(
                        Proposal(
                            args=args,
                            name=f"Take the {noun(argument)} that fits the user's words when {gerund(tool)}",
                            description=(
                                f"When a look shows several, hold each against all that the user said (day, "
                                f"time, kind, name) and call '{spoken(tool)}' on the one that fits best."
                            ),
                            subject=(tool, argument),
                        )
                    )
        return proposals

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        shown = shown_among(transcript, args["tool"], words=True)
        records, key, at = shown.get(args["argument"], ((), "", 0))
        rows = {normal(row[key]): row for row in records if key in row}
        if len(rows) < 2:
            return NOT_NEEDED
        asked = together(
            one.content or "" for one in transcript.messages[:at] if one.role == "user" and one.content
        )
        fits = _fits(rows, asked, transcript, at)
        best = {name for name, fit in fits.items() if fit == max(fits.values())}
        if len(best) == len(rows) or max(fits.values()) <= 0:
            return NOT_NEEDED
        taken: dict[str, int] = {}
        for step in transcript.own_calls(args["tool"], ok=True):
            for _, value in leaves(step.given.get(args["argument"])):
                if (name := normal(value)) in rows:
                    taken.setdefault(name, step.index)
        named = {name for name in rows if _stands(name, normal(asked))}
        if not taken:
            return NOT_NEEDED
        wrong = sorted(set(taken) - best - named)
        if len(taken) > 1 or (wrong and _agreed(transcript, rows[wrong[0]], key, at)):
            return NOT_NEEDED
        if wrong:
            return lacking(f"{wrong[0]} fits what the user said less than {min(best)}", taken[wrong[0]])
        return present("what fits best was taken", *taken.values())


def _fits(rows: Mapping[str, Record], asked: str, transcript: Transcript, at: int) -> dict[str, int]:
    """Return of each record how many of its parts the user speaks of, less those said otherwise."""
    said = {word for word, place in transcript.words.items() if place < at}
    every = {
        name: frozenset(w for value in row.values() for w in words_for(value)) for name, row in rows.items()
    }
    alike = frozenset.intersection(*every.values())
    fits: dict[str, int] = {}
    for name, row in rows.items():
        # A part of the day is said of a time below; here names and kinds count.
        points = len((every[name] - alike) & said)
        for value in row.values():
            if is_moment(value):
                told = says_moment(asked, value)
                points += 2 if told == "so" else -2 if told == "otherwise" else 0
        fits[name] = points
    return fits


def _agreed(transcript: Transcript, row: Record, key: str, at: int) -> bool:
    """Tell whether the agent had named a record, or its time, and the user had answered."""
    answered = False
    for index in range(at - 1, -1, -1):
        message = transcript.messages[index]
        if message.role == "user" and message.content:
            answered = True
        elif answered and message.role == "assistant" and message.content:
            named = _stands(normal(row[key]), normal(message.content))
            moments = [value for value in row.values() if is_moment(value)]
            if named or any(says_moment(message.content, value) == "so" for value in moments):
                return True
    return False
