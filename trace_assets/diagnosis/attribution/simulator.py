"""Rules on the simulated user's behaviour: it left too early, repeated itself, or fell out of its part.

English only; in other languages the simulator is simply not accused.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from trace_assets.diagnosis.attribution.case import CONTROL, Case, Ruling
from trace_assets.diagnosis.detectors.mutation import hands_over
from trace_assets.records import Message

_CONSENT = re.compile(
    r"^\W*(yes|yeah|yep|sure|ok|okay|go ahead|that works|confirmed?|"
    # German, Spanish, French, Portuguese, Italian, Dutch
    r"ja|gerne?|genau|einverstanden|s[ií]|claro|vale|de acuerdo|oui|d'accord|bien s[uû]r|sim|certo|akkoord|"
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
_LEAVES = re.compile(
    r"\b(that'?s all|that is all|all i needed|nothing else|no (other|more|further)|good ?bye|bye|"
    r"have a (good|great|nice|wonderful|lovely)|"
    r"i'?ll (wait|think|call|try|reach|look|contact|come|find|do|just|leave)|"
    r"(thanks|thank you)( so much| very much)? (for|anyway)|take care|appreciate)\b"
)
_ANSWERS = re.compile(
    r"\d|@|\b(my|it'?s|it is|i'?m|i am|i have|i'?ve|i see|i did|i think|sure|here|shows?|says|called|"
    r"the (one|first|second|last))\b"
)
_GIVES_UP = re.compile(
    r"\b(give up|giving up|tired|useless|waste|ridiculous|unacceptable|not help\w*|isn'?t help\w*|"
    r"not working|somebody else|someone else|elsewhere|already (told|said|gave|provided)|as i said|for now)\b"
)
_ASKING = re.compile(
    r"\?\W*$|\b(confirm|would you like|shall i|do you want|let me know if|once you|please reply)\b"
)
_REQUESTS = re.compile(
    r"\?\W*$|\b(could|can|would|may) (you|i|we)\b|\bplease (provide|tell|share|give|confirm|let|run|check|"
    r"try|turn|open|go|send|reply|select|choose)\b|\bi(?:'ll| will)? need (your|the|you)\b"
)
_CLOSING = re.compile(
    r"(anything else|further (help|assistance|questions?)|"
    r"\b(anything|something|what|how)\b[^.?!]{0,40}\b(help|assist) you|"
    r"need any (more|other)|other questions?)[^.?!]*[.?!]?\W*$"
)
_FAREWELL = re.compile(
    r"anything else|further (help|assistance|questions?)|any(thing)? (more|other)|other questions?|"
    r"feel free|take care|safe travels|hold on|have a (good|great|nice|wonderful|safe|lovely)|welcome"
)
_SENTENCES = re.compile(r"(?<=[.!?])\s+|\n+")
_HANDOVER = re.compile(r"transfer|human|escalat|representative|hand_?over")
_OUT_OF_PART = re.compile(
    r"\bas an ai\b|\bi am an ai\b|\bi'?m an ai\b|\blanguage model\b|\bhow (can|may) i (help|assist) you\b|"
    r"\bmy (instructions|system prompt)\b",
    re.IGNORECASE,
)
_CLOSING_WORDS = re.compile(
    r"\b(thanks|thank you|bye|goodbye|good night|take care|have a (?:good|great|nice|lovely))\b"
)
REPEATS = 3
"""Equal messages in a row from which a simulated user counts as stuck."""
_SHOWN = 400


class _End(NamedTuple):
    """The end of a conversation that the user closed.

    Attributes:
        asked: Index of the agent's last message.
        offer: The end of it, lower case.
        words: What the user answered, lower case, without its mark.
        mark: Its mark, lower case; empty without one.
    """

    asked: int
    offer: str
    words: str
    mark: str


def stopped_first(case: Case) -> Ruling | None:
    """The simulated user answered what the agent had asked and ended the conversation in one message.

    The agent is to blame all the same when the user had no more to wait for: what is missing had been tried
    and refused, or was handed over, or nothing is missing, or the agent asked again what it had been told.
    """
    if _never_listened(case):
        place = len(case.messages) - 1
        detail = "the user ended the conversation with its first words"
        return Ruling("user_simulator", "simulator_stopped_first", (place,), detail)
    end = _end(case)
    if end is None or "out-of-scope" in end.mark or _asked_before(case, end.asked):
        return None
    missing = _missing_writes(case)
    if _HANDOVER.search(f"{end.words} {end.mark}"):
        # Wanting to be handed over spoils the run only where handing over was what the task wanted.
        missing = [tool for tool in missing or () if _HANDOVER.search(tool)]
    missing = None if missing is None else [tool for tool in missing if not _was_refused(case, tool)]
    if missing == []:
        return None
    plain = bool(_CONSENT.match(end.words)) and not _DECLINES.search(end.words)
    # Where it is known what was never done, leaving with a wish or an answer open is enough.
    if not (plain and _ASKING.search(end.offer)) and not (missing and _goes_on(end)):
        return None
    detail = f"the user {'agreed' if plain else 'asked for more' if end.words else 'left'} and ended before "
    detail += "the agent could act" + (f" (never called: {', '.join(missing)})" if missing else "")
    last = len(case.messages) - 1
    return Ruling("user_simulator", "simulator_stopped_first", (end.asked, last), detail)


def _asked_before(case: Case, asked: int) -> bool:
    """Tell whether an agent's message says to the word what it had said, and the user had answered that."""
    words = _said(case, asked).split()
    return any(
        one.role == "assistant"
        and _said(case, place).split() == words
        and any(
            answer.role == "user" and (answer.content or "").strip()
            for answer in case.messages[place + 1 : asked]
        )
        for place, one in enumerate(case.messages[:asked])
    )


def _never_listened(case: Case) -> bool:
    """Tell whether the user's first words, a request, end the conversation by their mark."""
    said = [n for n, one in enumerate(case.messages) if one.role == "user" and one.content]
    if len(said) != 1 or said[0] != len(case.messages) - 1:
        return False
    content = case.messages[-1].content or ""
    return bool(CONTROL.search(content)) and bool(CONTROL.sub("", content).strip())


def _goes_on(end: _End) -> bool:
    """Tell whether a user who leaves has left a wish open, or given an answer that the agent waited for."""
    if _REFUSES.search(end.words) or _CLOSING.search(end.offer):
        return False
    if _ASKING.search(end.offer) and _WANTS.search(end.words):
        return True
    *_, before, last = ["", *_SENTENCES.split(end.offer.strip())]
    asks = _REQUESTS.search(before) or _REQUESTS.search(last)
    if not asks or _FAREWELL.search(last) or _LEAVES.search(end.words):
        return False
    return not end.words or bool(_ANSWERS.search(end.words) and not _GIVES_UP.search(end.words))


def _end(case: Case) -> _End | None:
    """Return how the user closed the conversation; None when it was not the user who did."""
    messages = case.messages
    if not case.simulated or len(messages) < 3 or case.trajectory.stop == "max_turns":
        return None
    last = messages[-1]
    if last.role != "user" or not last.content or last.tool_calls:
        return None
    asked = next((n for n in range(len(messages) - 2, -1, -1) if not _users_own(messages[n])), None)
    if asked is None:
        return None
    before = messages[asked]
    if before.role != "assistant" or before.tool_calls or not before.content:
        return None
    mark = " ".join(CONTROL.findall(last.content)).lower()
    words = CONTROL.sub("", last.content).strip().lower().replace("’", "'")
    return _End(asked, before.content.lower()[-_SHOWN:], words, mark)


def _users_own(message: Message) -> bool:
    """Tell whether a message is the user's, or the answer of one of its own tools."""
    return "user" in (message.role, message.requestor)


def _was_refused(case: Case, tool: str) -> bool:
    """Tell whether the agent had tried a tool, and it refused: the user had waited for it."""
    calls = case.transcript.calls(tool)
    return bool(calls) and all(step.failed for step in calls)


def _missing_writes(case: Case) -> list[str] | None:
    """Return the writing tools that were expected and not called as often; None when nothing is expected."""
    if case.diffs is not None:
        missed = {row.tool for row in case.diffs if row.kind == "missed"}
        return sorted(tool for tool in missed if not hands_over(tool) or _is_judged(case, tool))
    actions = [check for check in case.trajectory.checks if check.kind == "action"]
    if not actions:
        return None
    expected = {check.name.rpartition("/")[2] for check in actions if check.passed is False}
    writes = case.writes_of(expected)
    return sorted(tool for tool in expected & writes if not case.transcript.calls(tool, ok=True))


def _is_judged(case: Case, tool: str) -> bool:
    """Tell whether the grader wants a call itself, where its checks say so: handing over changes no state."""
    actions = [check for check in case.trajectory.checks if check.kind == "action"]
    own = [check for check in actions if check.name.rpartition("/")[2] == tool]
    return not actions or any(check.gates for check in own)


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


def never_stopped(case: Case) -> Ruling | None:
    """Nothing was left to do, and the simulated user went on talking until the limit on messages."""
    if not case.simulated or case.trajectory.stop != "max_turns" or case.diffs != []:
        return None
    tail = len(case.messages)
    while tail and not case.messages[tail - 1].tool_calls and case.messages[tail - 1].role != "tool":
        tail -= 1
    said = [n for n in range(tail, len(case.messages)) if case.messages[n].role == "user"]
    if len(said) < REPEATS or not any(_CLOSING_WORDS.search(_said(case, n)) for n in said):
        return None
    detail = (
        f"all that is expected was done, and the user did not end the conversation in {len(said)} messages"
    )
    return Ruling("user_simulator", "simulator_never_stopped", (said[0], said[-1]), detail)


def _said(case: Case, index: int) -> str:
    return (case.messages[index].content or "").lower()


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
