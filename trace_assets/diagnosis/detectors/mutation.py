"""Which tools change the environment: from their specification, their verb, or what reads show after them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from trace_assets.diagnosis.detectors.shell import runs_programs
from trace_assets.diagnosis.detectors.transcript import Step, Transcript
from trace_assets.diagnosis.detectors.values import leaves
from trace_assets.diagnosis.detectors.verbs import NOUNS, READING, WRITING, deed, spoken
from trace_assets.records import ToolSpec

CHANGED_SHARE = 0.2
"""Share of reads that must differ after a call of a tool without a telling verb."""


def mutating_tools(
    transcripts: Sequence[Transcript], specs: Sequence[ToolSpec] = (), names: Iterable[str] = ()
) -> frozenset[str]:
    """Return the names of the tools that change state, of those called and of those in `names`.

    A specification that says so decides; then the verb in the name; a tool without a telling verb counts
    when the same read, made before and after it with no other unknown or writing call between, often
    answers differently, or when its answers say nothing but that it was done. Where nothing was read so, one
    of `names` counts: what a ground truth or a policy asks for by such a name is done, not looked up.
    """
    known = {spec.name: spec.mutates for spec in specs if spec.mutates is not None}
    asked = frozenset(names)
    called = {tool for one in transcripts for tool in one.by_tool} | asked
    verdicts: dict[str, bool | None] = {name: known.get(name, by_verb(name)) for name in called}
    unknown = {name for name, verdict in verdicts.items() if verdict is None}
    if unknown:
        reads = {name for name, verdict in verdicts.items() if verdict is False}
        verdicts.update(_by_effect(transcripts, unknown, reads, asked))
    return frozenset(name for name, verdict in verdicts.items() if verdict)


def by_verb(name: str) -> bool | None:
    """Return whether a tool's verb says that it writes; None when it says nothing.

    >>> by_verb("get_order"), by_verb("cancel_order"), by_verb("frobnicate"), by_verb("billShow")
    (False, True, None, False)
    >>> by_verb("open_web_page"), by_verb("open_account")
    (False, True)
    """
    if _TALKS.fullmatch(spoken(name)) or _LEAFS.fullmatch(spoken(name)):
        return False
    for place, word in enumerate(deed(name).split()):
        if place and word in NOUNS:
            continue
        if word in READING:
            return False
        if word in WRITING:
            return True
    return None


_TALKS = re.compile(
    r"(?:send )?(?:msg|message|reply|respond|talk|speak|answer|tell|ask|say|notify)(?: to)?(?: the)? "
    r"(?:user|human|customer|caller|client)|final answer|finish|done|think"
)
"""Tools by which an agent speaks or thinks: nothing is changed."""
_LEAFS = re.compile(
    r"open(?: an?| the)? (?:\w+ )?(?:web ?)?"
    r"(?:page|site|url|link|doc|document|article|folder|image|pdf|attachment)s?"
)
"""Tools that open something to be read."""


def describes_a_thing(description: str) -> bool:
    """Tell whether a tool's description names what it answers instead of something to be done.

    >>> told = ("Days from a date to today.", "The vaccinations of a patient.", "Returns the rate of a day.")
    >>> [describes_a_thing(one) for one in told]
    [True, True, True]
    >>> done = ("Book a booster.", "Put a patient on the list.", "Returns an item of an order.", "Frobs.", "")
    >>> [describes_a_thing(one) for one in done]
    [False, False, False, False, False]
    """
    first, second, *_ = [*re.findall(r"[a-zà-ÿ']+", description.lower()), "", ""]
    if first in READING or first.removesuffix("s") in READING - NOUNS:
        return True
    if first == "returns" and second == "the":  # the answer; what a customer sends back is `an item`
        return True
    if first in WRITING or first.removesuffix("s") in WRITING - NOUNS:
        return False
    return first in _DETERMINERS or second in _OF


_DETERMINERS = frozenset(
    {"the", "a", "an", "all", "any", "how", "number", "what", "when", "where", "whether", "which", "who"}
)
_OF = frozenset({"of", "since", "until", "between", "per", "from"})
"""Words after a noun that tell what it is of."""


def leaves_words(tool: str) -> bool:
    """Tell whether a tool leaves a note, by its name: nothing that others act on is changed by it.

    >>> [leaves_words(one) for one in ("add_note", "leaveComment", "cancel_order", "note_down", "notify")]
    [True, True, False, False, False]
    """
    last = spoken(tool).rpartition(" ")[2].removesuffix("s")
    return last in _NOTES and by_verb(tool) is not False


_NOTES = frozenset({"note", "comment", "remark", "memo", "annotation"})


def _by_effect(
    transcripts: Sequence[Transcript], unknown: set[str], reads: set[str], asked: frozenset[str]
) -> dict[str, bool]:
    same, differ = Counter[str](), Counter[str]()
    for one in transcripts:
        last: dict[tuple[str, str], str] = {}
        between: list[Step] = []
        for step in one.steps:
            if step.tool not in reads:
                between.append(step)
                continue
            key = (step.tool, repr(sorted(step.arguments.items(), key=str)))
            if key in last and len({other.tool for other in between}) == 1 and between[0].tool in unknown:
                (differ if last[key] != step.result else same)[between[0].tool] += 1
            if key in last:
                between = []
            last[key] = step.result
    return {
        name: differ[name] >= CHANGED_SHARE * (differ[name] + same[name])
        and (differ[name] > 0 or name in asked or _acknowledges(transcripts, name))
        for name in unknown
    }


ACKNOWLEDGED = 3
"""Calls with different arguments that must be answered alike for the answer to say nothing but `done`."""
_LONGEST = 80
"""Characters of an answer that says no more than that."""


def _acknowledges(transcripts: Sequence[Transcript], tool: str) -> bool:
    """Tell whether a tool answers every call in the same few words, what it was given and figures aside.

    A look shows how things stand, which differs from one thing to the next; who has done something says so.
    """
    asked, shapes = set[str](), set[str]()
    for one in transcripts:
        for step in one.calls(tool, ok=True):
            if runs_programs(step.arguments):
                return False
            shape = step.result.lower()
            if len(shape) > _LONGEST or shape.count('":') > 2:
                return False
            for value in sorted({str(value).lower() for _, value in leaves(step.arguments)}, key=len)[::-1]:
                shape = shape.replace(value, "")
            shapes.add(_FIGURES.sub("0", shape))
            asked.add(repr(sorted(step.arguments.items(), key=str)))
    return len(asked) >= ACKNOWLEDGED and len(shapes) == 1


_FIGURES = re.compile(r"\d+(?:[.,]\d+)*")


_MOVED = re.compile(
    r"account|amount|asset|balance|cash|crypto|credit|file|fund|money|owner|payment|point|ticket|title"
)
"""What is transferred from one place to another, rather than a conversation to somebody."""


_ENDS = re.compile(
    r"(?:submit|finish|exit|terminate|final answer|submit (?:final )?answer|"
    r"end (?:conversation|session|episode))\Z"
)
"""What ends a run by itself."""


def hands_over(tool: str) -> bool:
    """Tell whether a tool hands the conversation to somebody else, or the work in, by its name.

    >>> [hands_over(one) for one in ("transfer_to_human_agents", "cancel_order", "transfer_funds", "submit")]
    [True, False, False, True]
    """
    name = deed(tool)
    if _ENDS.match(name):
        return True
    if any(word in name for word in ("escalat", "handoff", "hand off", "hand over", "handover", "human")):
        return True
    before, found, after = name.partition("transfer")
    return bool(found) and not before.strip() and not _MOVED.search(after)
