"""What the agent tells the user, held against its calls and results: deeds, promises, figures."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import takewhile
from typing import Any

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.described_records import Record, lists_in
from trace_assets.diagnosis.detectors.mutation import hands_over
from trace_assets.diagnosis.detectors.policy_limits import figures_in
from trace_assets.diagnosis.detectors.policy_sums import shown_numbers
from trace_assets.diagnosis.detectors.protocol import NOT_NEEDED, Finding, Mistake, Proposal, lacking, present
from trace_assets.diagnosis.detectors.transcript import Transcript
from trace_assets.diagnosis.detectors.values import numbers_in, strings, sums
from trace_assets.diagnosis.detectors.verbs import (
    ELSEWHERE,
    NOUNS,
    WORD,
    WRITING,
    deed,
    has_stem,
    is_deed,
    same_verb,
    things,
    verb_of,
)
from trace_assets.diagnosis.detectors.wording import gerund, imperative

# English only: other languages give NA.
_CLAIM = re.compile(
    r"(?:\b(?:has|have)|\b(?:i|we)'ve) (?:(?:now|just|already|also) )?(?P<passive>been )?(?:successfully )?"
    r"(?P<verb>\w+ed|sent|put|made|paid|taken|given)\b[^.?!]*"
    r"|\bsuccessfully (?P<done>\w+ed)\b|\bis now (?P<state>\w+ed)\b"
)
_DONE = re.compile(
    r"\b(?:updated|cancell?ed|changed|booked|modified|refunded|exchanged|returned|added|upgraded|processed|"
    r"completed|issued|created|removed|enabled|disabled|transferred|submitted|scheduled|"
    r"sent|texted|e-?mailed|messaged|forwarded|notified|informed|passed|posted|ordered|reserved|registered|"
    r"recorded|reported|escalated|charged|waived|credited|moved|rescheduled|paid|assigned|saved|deleted)\b"
)
# English only: other languages give NA.
_SAYS_SO = re.compile(
    r"\b(?:i(?:'ll| will| shall|'m going to| am going to|'ve| have| just)|we(?:'ll| will|'ve| have)|"
    r"(?:has|have) (?:now |already |just )?been|will be|is being|(?:is|are) (?:now )?on (?:its|their) way)\b"
)
_OPEN = re.compile(
    r"\b(?:if|once|when|unless|after|should|shall|would|could|before|until|need|cannot|not)\b|n't\b|\?"
)
"""Words of a sentence that says what may be done, or what is not."""
_AS_NOUN = re.compile(rf"\b(?:the|an?|this|that|its|your|our|my) (?:{'|'.join(sorted(NOUNS))})\b")
"""Verbs in the place of nouns: who lifts the hold holds nothing."""


class ClaimWithoutWrite:
    """The agent says that something has been done, and none of its writing calls had succeeded by then.

    What a result had said of a record is no claim. Relevant when the agent claims to have done something.
    Arguments: `writes` (the writing tools).
    """

    name = "claim_without_write"
    norm = 0.7
    mistake: Mistake = "wrong_statement"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose the one instance when the agent has tools that write."""
        writes = sorted(corpus.mutating)
        if not corpus.mutating & corpus.agent_tools.keys():
            return []
        return [
            Proposal(
                args={"writes": writes},
                name="Report as done only what a tool has done",
                description=(
                    "Tell the user that something has been changed, booked or cancelled only after the call "
                    "that does it has succeeded."
                ),
            )
        ]

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        writes = set(strings(args["writes"]))
        done = [step.end for step in transcript.steps if step.tool in writes and not step.failed]
        shown: list[int] = []
        for index, message in enumerate(transcript.messages):
            if message.role != "assistant" or not message.content:
                continue
            claims = [
                claim
                for claim in _CLAIM.finditer(transcript.lowered[index])
                if _DONE.fullmatch(claim["verb"] or claim["done"] or claim["state"])
            ]
            before = [at for at in done if at < index]
            if claims and not before:
                claims = [claim for claim in claims if not self._is_on_record(transcript, claim, index)]
            if not claims:
                continue
            if not before:
                return lacking(f"'{claims[0][0][:60]}' was said before anything was written", index)
            shown += [before[-1], index]
        return present("each claim follows a successful write", *shown) if shown else NOT_NEEDED

    def _is_on_record(self, transcript: Transcript, claim: re.Match[str], index: int) -> bool:
        """Tell whether a sentence says of something what a result had said of it: its state, or its sum."""
        if not claim["passive"] and not claim["state"]:
            return False
        verb = str(claim["verb"] or claim["state"])
        state = re.compile(rf": ?\"[^\"]*\b{re.escape(verb[:_STEM])}", re.IGNORECASE)
        text = transcript.lowered[index]
        start = max(text.rfind(mark, 0, claim.start()) for mark in ("\n", "! ", "? ", ". ")) + 1
        sums = {float(one) for one in _SUM.findall(text[start : claim.end()].replace(",", ""))}
        return any(
            step.end < index and (state.search(step.result) or not sums.isdisjoint(numbers_in(step.result)))
            for step in transcript.steps
        )


_STEM = 6
"""Letters by which a verb is known in another spelling of its ending."""
_SUM = re.compile(r"\d+\.\d{1,2}\b")
MIN_USES = 3
# English only: other languages give NA.
_DENIES = re.compile(
    r"\bthere (?:is|are|was|were) (?:currently |unfortunately )?(?:no|not|none)\b|\bthere (?:isn't|aren't)\b"
    r"|\b(?:is|are) (?:no longer|not|currently not) (?:available|in stock|listed|free|in the system)\b"
    r"|\b(?:isn't|aren't) (?:available|in stock|listed|free)\b"
    r"|\b(?:do not|don't|does not|doesn't) (?:currently )?(?:have|exist|carry|see)\b"
    r"|\b(?:could not|couldn't|cannot|can't|can not|unable to) (?:find|locate|see)\b"
    r"|\bno (?:such|available|free|matching)\b"
)
_SENTENCE = re.compile(r"[^.?!\n]+[.?!]?")
_SUPPOSED = re.compile(r"\b(?:if|whether|in case|when|unless|once)\b")
_WORD = re.compile(r"[a-z]+")
_ENDS = frozenset({"by", "for", "from", "in", "of", "on", "with"})
_NO_THINGS = frozenset(
    {"agent", "agents", "all", "customer", "data", "detail", "details", "human", "info", "information"}
    | {"list", "member", "profile", "record", "records", "status", "system", "type", "types", "user"}
)
"""Words of tools' names that name nothing that could be missing."""


class DeniedWithoutLook:
    """The agent tells the user that there is none of what a reading tool looks for, and called no such tool.

    The thing is the one that tools are named after. What an earlier result speaks of is left alone: the
    agent may know it from there. Relevant when the agent denies it, or when the user or the agent spoke of it
    and one of the tools was called. Arguments: `tools`, `thing`.
    """

    name = "denied_without_look"
    norm = 0.6
    mistake: Mistake = "wrong_statement"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose every reading tool that is named after what it looks for."""
        named: dict[str, list[str]] = {}
        for tool in sorted(corpus.reading & corpus.agent_tools.keys()):
            if (thing := _thing(tool)) and corpus.agent_tools[tool] >= MIN_USES:
                named.setdefault(thing, []).append(tool)
        return [
            Proposal(
                args={"tools": tools, "thing": thing},
                name=f"Look before saying that there is no {thing}",
                description=(
                    f"Do not tell the user that there is none before '{imperative(tools[0])}' has shown it, "
                    "or another result has."
                ),
                subject=(thing,),
            )
            for thing, tools in sorted(named.items())
        ]

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        stem, tools = str(args["thing"]), strings(args["tools"])
        looked = next((step for step in transcript.steps if step.tool in tools and not step.by_user), None)
        known = min((step.end for step in transcript.steps if stem in step.result.lower()), default=None)
        spoke = False
        for index, message in enumerate(transcript.messages):
            if looked is not None and index >= looked.index:
                break
            if message.role not in ("user", "assistant") or not message.content:
                continue
            told = [one for one in _SENTENCE.findall(transcript.lowered[index]) if _names(stem, one)]
            spoke = spoke or bool(told)
            for one in told if message.role == "assistant" and (known is None or index < known) else ():
                found = _DENIES.search(one)
                if found and not one.endswith("?") and not _SUPPOSED.search(one):
                    return lacking(f"'{one.strip()[:80]}' was said, and {tools[0]} not called", index)
        return present("it was looked up first", looked.index) if looked is not None and spoke else NOT_NEEDED


def _thing(tool: str) -> str:
    """Return what a reading tool looks for, empty where its name does not say.

    >>> _thing("search_direct_flights"), _thing("find_user_id_by_name"), _thing("getOrderDetails")
    ('flight', '', 'order')
    """
    words = list(takewhile(lambda word: word not in _ENDS, deed(tool).split()[1:]))
    named = [word for word in words if word not in _NO_THINGS and len(word) > 2]
    return _singular(named[-1]) if named else ""


def _names(stem: str, sentence: str) -> bool:
    return any(word.startswith(stem) and len(word) <= len(stem) + 2 for word in _WORD.findall(sentence))


def _singular(word: str) -> str:
    """Return a noun without the ending of its plural.

    >>> _singular("bays"), _singular("copies"), _singular("address")
    ('bay', 'copy', 'address')
    """
    if word.endswith("ies"):
        return word[:-3] + "y"
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


class PromiseUnkept:
    """The agent says that it will do, or has done, what a writing tool does, and never calls it.

    The sentence must have a form of the tool's verb and one of its things. What hangs on a condition, and a
    question, promises nothing. Relevant when the agent says so. Arguments: `tool`.
    """

    name = "promise_unkept"
    norm = 0.9
    mistake: Mistake = "wrong_statement"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose every writing tool with a thing, so that sentences can be told to be about it."""
        return [
            Proposal(
                args={"tool": tool},
                name=f"Keep the word that was given: {imperative(tool)} when it is promised",
                description=(
                    f"What the user is told will be done, or has been, must be done with a call: having said "
                    f"so, see that {gerund(tool)} has succeeded before the conversation ends."
                ),
                subject=(tool,),
            )
            for tool in sorted(corpus.mutating & corpus.agent_tools.keys())
            if _can_be_told(tool) and corpus.agent_tools[tool] >= MIN_USES and not hands_over(tool)
        ]

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        tool = str(args["tool"])
        for index, message in enumerate(transcript.messages):
            if message.role != "assistant" or not message.content:
                continue
            for sentence in _SENTENCE.findall(transcript.lowered[index]):
                if not _promises(sentence, tool):
                    continue
                done = transcript.calls(tool, ok=True)
                if done:
                    return present("what was promised was done", index, done[0].index)
                return lacking(f"'{sentence.strip()[:80]}' was said, and {tool} never succeeded", index)
        return NOT_NEEDED


def _can_be_told(tool: str) -> bool:
    """Tell whether sentences can be told to be about a tool: by its thing, or by a verb that is no noun."""
    return bool(things(tool)) or verb_of(tool) in WRITING - NOUNS - ELSEWHERE


def _promises(sentence: str, tool: str) -> bool:
    """Tell whether a sentence says that what a tool does will be done or is done.

    >>> [_promises(one, "send_receipt") for one in ("i will send the receipt.", "shall i send a receipt?")]
    [True, False]
    >>> _promises("the receipt has been sent to you", "send_receipt"), _promises("i sent it", "send_receipt")
    (True, False)
    """
    if _OPEN.search(sentence) or not _SAYS_SO.search(sentence):
        return False
    sentence = _AS_NOUN.sub(" ", sentence)
    # Who updates a reservation does not reserve: a thing is no deed.
    words = [
        word for word in WORD.findall(sentence) if not any(has_stem([word], one) for one in things(tool))
    ]
    named = WORD.findall(sentence)
    sends = verb_of(tool) == "send" and (
        "way" in words or any(same_verb(v, w) for v in ("mail", "email") for w in words)
    )
    return (is_deed(tool, words) or sends) and all(has_stem(named, one) for one in things(tool))


_DATED = re.compile(
    r"\b\d{4}-\d\d-\d\d\b|\b\d{1,2}[:.]\d\d(?:\s?[ap]m)?\b(?!\s?(?:eur|usd|dollar|euro))|#?\b[A-Za-z]+[-_]?\d[\w-]*\b"
)
_CLAUSE = re.compile(r"[;\n]|[.!?](?=\s|\Z)|,\s|\b(?:and|while|but|or)\b")
_PRICED = re.compile(
    r"\b(?:costs?|prices?d?|fees?|charges?|total|amounts?|comes? to|pay|is|are|for|at)\b|[$€£]"
)
_MOST_TIMES = 24
_CENT = 0.011


class WrongFigure:
    """The agent tells a figure of a thing by name, and the record of that thing has no such figure.

    The thing is one of several that a look showed, by the name that it has there, and the clause names no
    other one. A multiple of what the record has, or one changed by a figure of the policy, may be right.
    Relevant when such a figure was told. Arguments: `figures`, those of the policy.
    """

    name = "wrong_figure"
    norm = 0.8
    mistake: Mistake = "wrong_statement"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose the one instance where agents tell such figures."""
        figures = sorted({one.number for s in corpus.policy.sentences for one in figures_in(s.text)})
        args = {"figures": figures}
        if sum(self.label(one, args).label != "NA" for one in corpus.transcripts) < MIN_USES:
            return []
        return [
            Proposal(
                args=args,
                name="Tell the figure that the record shows",
                description=(
                    "A price, a fee or an amount that the user is told must be that of the thing that is "
                    "spoken of, as a result shows it, and no other one."
                ),
            )
        ]

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        shown: list[int] = []
        for index, message in enumerate(transcript.messages):
            if message.role != "assistant" or not message.content:
                continue
            rows = _named(transcript, index)
            for clause in _CLAUSE.split(transcript.lowered[index]) if rows else ():
                told = {one for one in numbers_in(_DATED.sub(" ", clause)) if one > 1}
                mine = [row for name, row in rows if _stands(name, clause)]
                if not told or len(mine) != 1 or not _PRICED.search(clause):
                    continue
                own = [number for value in mine[0].values() for number in set(numbers_in(value))]
                if not own:
                    continue
                if any(abs(one - other) < _CENT for one in told for other in own):
                    shown.append(index)
                elif not _may_be(told, own, transcript, index, args["figures"]):
                    figure = min(told)
                    return lacking(f"{figure:g} was told, and no record of it has that figure", index)
        return present("the figure told is that of the record", *shown) if shown else NOT_NEEDED


def _named(transcript: Transcript, before: int) -> list[tuple[str, Record]]:
    """Return what looks showed in lists, by the names that tell the records apart."""
    found: list[tuple[str, Record]] = []
    for step in transcript.steps:
        if step.failed or step.answer is None or step.answer >= before:
            continue
        for records in lists_in(step.result):
            for field in records[0]:
                names = [one.get(field, "").lower() for one in records]
                plain = all(len(name) > 3 and not any(c.isdigit() for c in name) for name in names)
                if plain and len(set(names)) == len(names):
                    found += list(zip(names, records, strict=True))
                    break
    return found


def _stands(name: str, text: str) -> bool:
    return name in text and re.search(rf"(?<!\w){re.escape(name)}s?(?!\w)", text) is not None


def _may_be(
    told: set[float], own: list[float], transcript: Transcript, before: int, figures: list[float]
) -> bool:
    """Tell whether a figure may come from others: a multiple, a sum, what a result or the user said."""
    known: set[float] = set()
    for step in transcript.steps:
        if step.answer is not None and step.answer < before:
            known.update(sums(step.result))
            if not lists_in(step.result):
                known.update(shown_numbers(step.result))
    for index in range(before):
        if transcript.messages[index].role == "user":
            known.update(numbers_in(transcript.lowered[index]))
    for number in own:
        known.update(number * times for times in range(2, _MOST_TIMES + 1))
        known.update(one for figure in figures for one in _changed(number, figure))
    known.update(figures)
    return any(abs(one - other) < _CENT for one in told for other in known)


def _changed(number: float, figure: float) -> Iterator[float]:
    yield from (
        number + figure,
        number - figure,
        number * figure,
        number * (1 - figure),
        number * (1 + figure),
    )
