"""Rules that read how the episode ended: what the program that ran it recorded, and what was cut off."""

from __future__ import annotations

import re
from collections.abc import Mapping

from trace_assets.diagnosis.attribution.case import Case, Ruling
from trace_assets.records import Fault, Message
from trace_assets.records.trajectory import Stop

_STOP_FAULTS: Mapping[Stop, tuple[Fault, str]] = {
    "infrastructure_error": ("infrastructure", "infrastructure_stop"),
    "environment_error": ("environment", "environment_stop"),
    "user_error": ("user_simulator", "simulator_error"),
    "agent_error": ("agent", "agent_error"),
    "context_overflow": ("agent", "context_overflow"),
    "max_turns": ("agent", "step_limit"),
}
_LIMITS: Mapping[str, str] = {
    "tokens": "truncated_output",
    "messages": "step_limit",
    "turn": "step_limit",
    "message": "step_limit",
    "token": "truncated_output",
    "context": "context_overflow",
    "errors": "agent_error",
    "time": "time_limit",
    "working": "time_limit",
    "cost": "cost_limit",
}
_OUTAGE = re.compile(
    r"\b(rate.?limit(ed)?|too many requests|connection (refused|reset|aborted|error|timed out)|"
    r"service unavailable|bad gateway|gateway time-?out|(http|status|code)[ :]*(429|50[0234])|"
    r"name resolution|cuda out of memory)\b",
    re.IGNORECASE,
)
_ACCOUNT = re.compile(
    r"\b(?:out of (?:extra |your )?(usage|credits?|quota|tokens?)"
    r"|(usage|rate|request|token|spend(?:ing)?|daily|weekly|monthly|hourly|session)[ -]limit\w* "
    r"(?:is |was |has been |have been )?(?:reached|exceeded|hit)"
    r"|(?:reached|exceeded|hit|over) (?:your|the|its) (?:\w+ )?(usage|rate|request|token|quota|spend)\w*"
    r"|(quota) (?:is |was |has been )?(?:exceeded|exhausted|used up)"
    r"|(credit) balance is too low"
    r"|(?:server|model|service|api) (?:is )?(?:currently |temporarily )?(overloaded)"
    r"|api (error)\b)",
    re.IGNORECASE,
)
"""What a model's service says of an account in place of an answer, and the word for what it is about."""
_BRIEF = 200
"""Letters of such a notice at most."""
_CUT = re.compile(r"[A-Za-z0-9,;:(\[{\"'-]$")
_NAMED = re.compile(r"\s*(?:[A-Z][A-Z ]{1,24}|(?:[A-Z][a-z]+ )?[Aa]nswer): ?\S.{0,80}\Z")
"""A last line that names what it gives as an answer (`ANSWER: 351`) needs no end mark."""
_LONG = 60
"""Characters from which a last message without an end mark counts as cut off."""


def recorded_fault(case: Case) -> Ruling | None:
    """The program that ran or recorded the episode said that something broke."""
    one = case.trajectory
    if one.fault is None:
        return None
    return Ruling(one.fault, "recorded_fault", (), one.error or f"stopped by {one.stop}")


def broken_stop(case: Case) -> Ruling | None:
    """The episode was stopped by something other than the agent."""
    one = case.trajectory
    fault, rule = _STOP_FAULTS.get(one.stop, ("agent", ""))
    if not rule or fault == "agent":
        return None
    return Ruling(fault, rule, (), one.error or f"stopped by {one.stop}")


def outage(case: Case) -> Ruling | None:
    """An error was recorded, or took the place of the last answer, that only infrastructure gives."""
    one = case.trajectory
    if one.error and _OUTAGE.search(one.error):
        return Ruling("infrastructure", "outage", (), one.error[:300])
    last = case.messages[-1] if case.messages else None
    if last is None or last.role not in ("assistant", "system") or last.tool_calls:
        return None
    text = last.content or ""
    if len(text) <= _BRIEF and (spent := _ACCOUNT.search(text)) and not _spoken_of(case, spent):
        return Ruling("infrastructure", "outage", (case.transcript.last,), text)
    told = text.lstrip().lower().startswith(("error", "http", '{"error', "exception"))
    if told and _OUTAGE.search(text[:400]):
        return Ruling("infrastructure", "outage", (case.transcript.last,), text[:300])
    return None


def _spoken_of(case: Case, notice: re.Match[str]) -> bool:
    """Tell whether anything before speaks of what a notice is about: then the agent may as well."""
    word = next(one for one in notice.groups() if one).lower()
    return any(
        word in f"{one.content or ''} {[call.arguments for call in one.tool_calls]}".lower()
        for one in case.messages[:-1]
    )


def no_answer(case: Case) -> Ruling | None:
    """The record holds not one message of the agent, and nothing says that this was the agent's doing."""
    one = case.trajectory
    if any(message.role == "assistant" for message in case.messages):
        return None
    if one.stop in _STOP_FAULTS or (one.limit or "") in _LIMITS:
        return None
    return Ruling("infrastructure", "no_answer", (), "the transcript holds no message of the agent")


def agents_end(case: Case) -> Ruling:
    """Everything else is the agent's, with the way it ended where that says more."""
    one = case.trajectory
    _, rule = _STOP_FAULTS.get(one.stop, ("agent", ""))
    rule = rule or _LIMITS.get(one.limit or "", "") or _unusable(case) or _cut_off(case)
    last = (case.transcript.last,) if case.transcript.last >= 0 else ()
    failed = [check.name for check in one.checks if check.gates and check.passed is False]
    detail = f"checks that failed: {', '.join(failed[:5])}" if failed else ""
    return Ruling("agent", rule or "agent", last if rule else (), detail)


def _unusable(case: Case) -> str:
    """Return the rule's name when the agent's last output could not be used: nothing, or no valid call."""
    last = case.messages[-1] if case.messages else None
    if last is None or last.role != "assistant":
        return ""
    broken = [call for call in last.tool_calls if set(call.arguments) == {"raw"}]
    if broken:
        return "truncated_output" if _is_open(str(broken[-1].arguments["raw"])) else "agent_error"
    return "" if last.tool_calls or (last.content or "").strip() else "agent_error"


def _cut_off(case: Case) -> str:
    """Return the rule's name when the agent's last words stop in the middle of a sentence.

    A conversation that somebody ended was not cut off, whatever its last words look like.
    """
    last = case.messages[-1] if case.messages else None
    if last is None or last.role != "assistant" or last.tool_calls:
        return ""
    if case.trajectory.stop in ("completed", "transferred"):
        return ""
    text = (last.content or "").rstrip()
    final = text.rpartition("\n")[2]
    listed = final.lstrip().startswith(("-", "*", "#", "|")) or final.isupper() or bool(_NAMED.match(final))
    return "truncated_output" if len(text) >= _LONG and _CUT.search(text) and not listed else ""


def _is_open(text: str) -> bool:
    """Tell whether JSON text was cut off: more brackets are opened than closed.

    >>> _is_open('{"order": "K1'), _is_open('{"order": K1}')
    (True, False)
    """
    return text.count("{") > text.count("}") or text.count("[") > text.count("]")


# Rules on what lies between the agent and its words: what it wrote and nobody received.


_CALL_AS_TEXT = re.compile(
    r"[{\[]\s*\"(?:name|arguments|function|tool|tool_name|parameters)\"\s*:|<tool_call>"
)
_OWN_WORDS = re.compile(r"content:[ \t]*\S")
"""In the program's account of a refused message: that it had text, so that the agent's form was to blame."""


def lost_call(case: Case) -> Ruling | None:
    """The run ended on an empty message although the agent had generated tokens: what it wrote was dropped.

    Servers drop a tool call that they cannot parse. The agent is to blame all the same when its form had been
    wrong before (calls written as text, or a message that the program refused for having both text and
    calls), or when it had by then done what it should not.
    """
    last = case.messages[-1] if case.messages else None
    if (
        last is None
        or last.role != "assistant"
        or not _is_empty(last)
        or not last.metadata.get("completion_tokens")
    ):
        return None
    if last.metadata.get("reasoning") or any(
        _OWN_WORDS.search(str(error)) for error in last.metadata.get("errors") or ()
    ):
        return None
    if any(one.role == "assistant" and _CALL_AS_TEXT.search(one.content or "") for one in case.messages):
        return None
    if any(row.kind != "missed" for row in case.diffs or ()):
        return None
    n = last.metadata["completion_tokens"]
    detail = f"the last message is empty although {n} tokens were generated, so what was written was lost"
    return Ruling("infrastructure", "lost_call", (case.transcript.last,), detail)


def _is_empty(message: Message) -> bool:
    return not message.tool_calls and not (message.content or "").strip()
