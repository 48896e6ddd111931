"""What is taken out of a transcript before a labeller sees it: everything that may give the outcome away.

Outcome fields never reach a labeller (`Trajectory.blind`). Words can tell the outcome too, so:

- whatever comes after the agent's last message is withheld, except the results of its own calls: a closing
  "perfect, thank you" says more about the grade than about the agent;
- marks with which simulators and harnesses end a conversation are struck out;
- statements of a reward, verdict or end of episode are struck out wherever anyone but the agent makes them.

What the agent itself says stays: it is the behaviour that is to be judged.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from trace_assets.records import Message

STRUCK = "[struck out]"

_MARK = re.compile(r"#{2,}[\w-]+#{2,}|<\|?(?:end_of_(?:conversation|episode)|done)\|?>", re.IGNORECASE)
_VERDICT = re.compile(
    r"""["']?\b(?:reward|verdict|final[ _]score|(?:task|episode)[ _](?:success|reward|outcome)"""
    r"""|is[ _]correct|evaluation[ _](?:result|outcome)|ground[ _]truth)\b["']?\s*"""
    r"""(?:[:=]|\bis\b)[\s:=]*["']?[-+\w.]+["']?"""
    r"""|\b(?:task|episode|conversation|simulation)\s+(?:was\s+|has\s+|is\s+)?"""
    r"""(?:completed\s+successfully|succeeded|failed|passed|terminated|truncated|over)\b"""
    r"""|\bmax(?:imum)?[ _](?:number[ _]of[ _])?(?:steps|turns)[ _](?:was[ _])?(?:reached|exceeded)\b""",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Redacted:
    """A transcript without giveaways.

    Attributes:
        messages: (index in the trajectory, message), in order; withheld ones are missing.
        withheld: (index, words that were taken out), for the leak meter; never shown.
    """

    messages: tuple[tuple[int, Message], ...]
    withheld: tuple[tuple[int, str], ...]


def redact(messages: Sequence[Message]) -> Redacted:
    """Return what of a transcript may be shown to a labeller.

    Args:
        messages: All of a trajectory's messages.

    >>> user, agent = Message(role="user", content="hi ###STOP###"), Message(role="assistant", content="bye")
    >>> redact([user, agent, user]).messages[0][1].content
    'hi [struck out]'
    >>> redact([user, agent, user]).withheld
    ((0, '###STOP###'), (2, 'hi ###STOP###'))
    """
    last = max((i for i, one in enumerate(messages) if one.role == "assistant"), default=-1)
    shown: list[tuple[int, Message]] = []
    withheld: list[tuple[int, str]] = []
    for index, message in enumerate(messages):
        own_result = message.role == "tool" and message.requestor == "assistant"
        if last >= 0 and index > last and not own_result:
            withheld.append((index, message.content or ""))
        elif message.role == "assistant":
            shown.append((index, message))
        else:
            kept, taken = strike(message.content or "")
            if taken:
                withheld.append((index, taken))
                message = message.model_copy(update={"content": kept})
            shown.append((index, message))
    return Redacted(tuple(shown), tuple(withheld))


def strike(text: str) -> tuple[str, str]:
    """Return a text without marks and verdicts, and what was taken out of it.

    >>> strike('{"ok": true, "reward": 1.0}')
    ('{"ok": true, [struck out]}', '"reward": 1.0')
    >>> strike("You have 500 reward points; the order status is failed.")
    ('You have 500 reward points; the order status is failed.', '')
    """
    taken: list[str] = []

    def keep(found: re.Match[str]) -> str:
        taken.append(found.group())
        return STRUCK

    kept = _VERDICT.sub(keep, _MARK.sub(keep, text))
    return kept, " ".join(taken)
