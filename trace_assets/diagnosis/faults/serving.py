"""Rules on what lies between the agent and its words: what it wrote and nobody received."""

from __future__ import annotations

import re

from trace_assets.diagnosis.faults.case import Case, Ruling
from trace_assets.records import Message

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
