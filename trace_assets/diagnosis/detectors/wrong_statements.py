"""What the agent tells the user though no call bears it out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import takewhile
from typing import Any

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.protocol import NOT_NEEDED, Finding, Mistake, Proposal, lacking, present
from trace_assets.diagnosis.detectors.transcript import Transcript
from trace_assets.diagnosis.detectors.values import strings
from trace_assets.diagnosis.detectors.wording import deed, imperative

# English only: other languages give NA.
_CLAIM = re.compile(
    r"(?:\b(?:has|have)|\b(?:i|we)'ve) (?:(?:now|just|already|also) )?(?:been )?(?:successfully )?"
    r"(?:\w+ed|sent|put|made|paid|taken|given)\b[^.?!]*"
    r"|\bsuccessfully \w+ed\b|\bis now \w+ed\b"
)
_DONE = re.compile(
    r"\b(?:updated|cancell?ed|changed|booked|modified|refunded|exchanged|returned|added|upgraded|processed|"
    r"completed|issued|created|removed|enabled|disabled|transferred|submitted|scheduled|"
    r"sent|texted|e-?mailed|messaged|forwarded|notified|informed|passed|posted|ordered|reserved|registered|"
    r"recorded|reported|escalated|charged|waived|credited|moved|rescheduled|paid|assigned|saved|deleted)\b"
)


class ClaimWithoutWrite:
    """The agent says that something has been done, and none of its writing calls had succeeded by then.

    Relevant when the agent claims to have done something. Arguments: `writes` (the writing tools).
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
            claims = [claim for claim in _CLAIM.findall(transcript.lowered[index]) if _DONE.search(claim)]
            if not claims:
                continue
            before = [at for at in done if at < index]
            if not before:
                return lacking(f"'{claims[0][:60]}' was said before anything was written", index)
            shown += [before[-1], index]
        return present("each claim follows a successful write", *shown) if shown else NOT_NEEDED


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
