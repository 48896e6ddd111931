"""Rules on the simulated user's behaviour: it left too early, repeated itself, or fell out of its part.

English only; in other languages the simulator is simply not accused.
"""

from __future__ import annotations

import re

from trace_assets.diagnosis.detectors.mutation import mutating_tools
from trace_assets.diagnosis.faults.case import Case, Ruling

_CONSENT = re.compile(
    r"^\W*(yes|yeah|yep|sure|ok|okay|go ahead|that works|confirmed?|"
    r"please (do|go|proceed|confirm|transfer|complete))\b"
)
_WANTS = re.compile(
    r"\b(yes|yeah|yep|sure|ok|okay|go ahead|proceed|confirm(ed)?|sounds good|correct|please|"
    r"(could|can|would) you|i'?d (like|really|rather)|i would like|i want|i insist|is there any|"
    r"what (should|do) i|"
    r"that (works|sounds|would be|is|looks) (good|great|fine|perfect|correct|right)?)\b"
)
_REFUSES = re.compile(
    r"^\W*no\b|\b(nope|never ?mind|forget it|don'?t (proceed|go ahead)|do not (proceed|go ahead)|"
    r"not (interested|yet|going to)|keep (it|everything|my) |leave it)\b"
)
_DECLINES = re.compile(r"\b(don'?t (want|proceed)|do not want|never ?mind|forget it)\b")
_ASKING = re.compile(
    r"\?\W*$|\b(confirm|would you like|shall i|do you want|let me know if|once you|please reply)\b"
)
_CLOSING = re.compile(
    r"(anything else|further (help|assistance|questions?)|help you with|assist you with|"
    r"need any (more|other)|other questions?)[^.?!]*[.?!]?\W*$"
)
_HANDOVER = re.compile(r"transfer|human|escalat|representative|hand_?over")
_CONTROL = re.compile(r"#{2,}[\w-]+#{2,}")
_OUT_OF_PART = re.compile(
    r"\bas an ai\b|\bi am an ai\b|\bi'?m an ai\b|\blanguage model\b|\bhow (can|may) i (help|assist) you\b|"
    r"\bmy (instructions|system prompt)\b",
    re.IGNORECASE,
)
REPEATS = 3
"""Equal messages in a row from which a simulated user counts as stuck."""
_SHOWN = 400


def stopped_first(case: Case) -> Ruling | None:
    """The simulated user agreed to what the agent offered to do and ended the conversation in one message."""
    messages = case.messages
    if not case.simulated or len(messages) < 3 or case.trajectory.stop == "max_turns":
        return None
    last, before = messages[-1], messages[-2]
    if last.role != "user" or before.role != "assistant" or not last.content or not before.content:
        return None
    words = _CONTROL.sub("", last.content).strip().lower().replace("’", "'")
    offer = before.content.lower()[-_SHOWN:]
    if not _ASKING.search(offer):
        return None
    missing = _missing_writes(case)
    plain = _CONSENT.match(words) is not None and not _DECLINES.search(words)
    if not plain:
        # Where the grader says what was never done, leaving with any wish open is enough.
        wants = _WANTS.search(words) is not None and not _REFUSES.search(words)
        if not missing or not wants or _CLOSING.search(offer):
            return None
    if _HANDOVER.search(words):
        # Agreeing to be handed over spoils the run only where handing over was what the task wanted.
        missing = [tool for tool in missing or () if _HANDOVER.search(tool)]
    if missing is not None and not missing:
        return None
    detail = f"the user {'agreed' if plain else 'asked for more'} and ended before the agent could act"
    detail += f" (never called: {', '.join(missing)})" if missing else ""
    return Ruling("user_simulator", "simulator_stopped_first", (len(messages) - 2, len(messages) - 1), detail)


def _missing_writes(case: Case) -> list[str] | None:
    """Return the writing tools that the grader expected and nobody called; None when it names no actions."""
    actions = [check for check in case.trajectory.checks if check.kind == "action"]
    if not actions:
        return None
    expected = {check.name.rpartition("/")[2] for check in actions if check.passed is False}
    writes = mutating_tools([case.transcript], names=expected)
    return sorted(tool for tool in expected & writes if not case.transcript.calls(tool, ok=True))


def stuck(case: Case) -> Ruling | None:
    """The simulated user said the same thing again and again to different messages of the agent."""
    if not case.simulated:
        return None
    said = [(i, one.content) for i, one in enumerate(case.messages) if one.role == "user" and one.content]
    tail = said[-REPEATS:]
    if len(tail) < REPEATS or len({content for _, content in tail}) > 1:
        return None
    answers = {one.content for one in case.messages[tail[0][0] :] if one.role == "assistant" and one.content}
    if len(answers) < REPEATS - 1:
        return None
    evidence = tuple(index for index, _ in tail)
    return Ruling("user_simulator", "simulator_stuck", evidence, f"the user repeated itself {REPEATS} times")


def out_of_part(case: Case) -> Ruling | None:
    """The simulated user spoke as a program, or offered its help as an agent does."""
    if not case.simulated:
        return None
    for index, one in enumerate(case.messages):
        if one.role != "user" or not one.content:
            continue
        if _OUT_OF_PART.search(one.content):
            detail = f"the user fell out of its part: {one.content[:200]}"
            return Ruling("user_simulator", "simulator_out_of_part", (index,), detail)
    return None
