"""A rule on conversations whose beginning somebody wrote: the agent answers their last turn alone."""

from __future__ import annotations

import re

from trace_assets.diagnosis.attribution.case import Case, Ruling

REPEATED = 0.5
"""Share of the words of an answer that stand before it, from which it repeats what was written for it."""
_WORD = re.compile(r"[^\W_]{2,}")


def written_before(case: Case) -> Ruling | None:
    """The agent gave again what the turns hold that were written for it, and nothing else was its own.

    Such turns are known by results that no call asked for. What is wrong in them is not the agent's doing: it
    made no call, and most words of its answer stand there already.
    """
    asked = {call.id for message in case.messages for call in message.tool_calls}
    written = [
        place
        for place, message in enumerate(case.messages)
        if message.role == "tool" and message.tool_call_id not in asked
    ]
    last_asked = max((place for place, one in enumerate(case.messages) if one.role == "user"), default=-1)
    if not written or asked or last_asked < written[-1]:
        return None
    own = [place for place in range(last_asked + 1, len(case.messages)) if case.messages[place].content]
    answer = _words(*(case.messages[place].content for place in own))
    held = _words(*(one.content for one in case.messages[: last_asked + 1]))
    if not answer or len(answer & held) < REPEATED * len(answer):
        return None
    detail = "the answer repeats turns that were written beforehand, with results that no call asked for"
    first = max(written[0] - 1, 0)  # the turn that the result was written for
    return Ruling("ground_truth", "written_before", (first,), detail)


def _words(*texts: str | None) -> set[str]:
    return {word for text in texts for word in _WORD.findall((text or "").casefold())}
