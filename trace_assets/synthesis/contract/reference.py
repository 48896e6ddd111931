"""What generated environments are compared with: real tool sequences, and a bounded sample of real turns.

The sample holds no identifiers and no numbers. It depends on nothing but the set of trajectories.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence

from trace_assets.diagnosis.detectors.values import tells_error
from trace_assets.records import Message, Record, Trajectory
from trace_assets.records.message import Role

MAX_SEQUENCES = 400
MAX_EPISODES = 160
MAX_TURNS = 40
MAX_CHARACTERS = 400
_DIGIT = re.compile(r"\d")


class ToolSequence(Record):
    """The agent's tool calls, in order, errors included."""

    tools: tuple[str, ...]
    n: int
    """Successful trajectories that made exactly these."""


class Turn(Record):
    """One message of a sampled episode."""

    role: Role
    text: str = ""
    """The words or the result, masked and cut."""
    tools: tuple[str, ...] = ()
    """For messages with calls: the tools; for results: the tool that answered."""
    is_error: bool = False
    characters: int = 0
    """Length of the text before it was cut."""


class SampledEpisode(Record):
    """A real trajectory, masked."""

    task: str
    """The same for all trials of a task; says nothing else."""
    success: bool | None
    turns: tuple[Turn, ...]


class Reference(Record):
    """The real material of a contract."""

    sequences: tuple[ToolSequence, ...] = ()
    """Of successful trajectories, the most frequent first."""
    n_successes: int = 0
    episodes: tuple[SampledEpisode, ...] = ()
    """A sample: of the successful ones, and of others where those are few."""


def reference_of(trajectories: Sequence[Trajectory]) -> Reference:
    """Return what real trajectories are remembered by; in any order they give the same."""
    judged = any(t.success is not None for t in trajectories)
    good = [t for t in trajectories if t.success is True or not judged]
    counts = Counter(called_tools(t.messages) for t in good)
    common = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:MAX_SEQUENCES]
    drawn = sorted(
        trajectories,
        key=lambda t: (judged and t.success is not True, _hash(t.trajectory_id), t.trajectory_id),
    )[:MAX_EPISODES]
    return Reference(
        sequences=tuple(ToolSequence(tools=tools, n=n) for tools, n in common),
        n_successes=len(good),
        episodes=tuple(
            SampledEpisode(task=_hash(t.task_id), success=t.success, turns=turns_of(t.messages))
            for t in drawn
        ),
    )


def called_tools(messages: Sequence[Message]) -> tuple[str, ...]:
    """Return the tools that the agent called, in order."""
    return tuple(call.name for m in messages if m.role == "assistant" for call in m.tool_calls)


def turns_of(messages: Sequence[Message]) -> tuple[Turn, ...]:
    """Return masked turns; the policy text and the user's own calls are left out."""
    turns = []
    for message in messages:
        by_user = message.role == "tool" and message.requestor == "user"
        if message.role == "system" or by_user or (message.role == "user" and not message.content):
            continue
        content = message.content or ""
        answered = (message.tool_name,) if message.role == "tool" and message.tool_name else ()
        turns.append(
            Turn(
                role=message.role,
                text=masked_text(content[: 4 * MAX_CHARACTERS])[:MAX_CHARACTERS],
                tools=answered or tuple(call.name for call in message.tool_calls),
                is_error=message.role == "tool" and (message.is_error or tells_error(content)),
                characters=len(content),
            )
        )
    return tuple(turns[:MAX_TURNS])


def masked_text(text: str) -> str:
    """Replace what names single things: addresses of mail become `@`, words that hold a digit become `#`.

    >>> masked_text("Order #W12 of ann_b_7@x.org costs $12.50 on 2024-05-01.")
    'Order # of @ costs $# on #.'
    """
    text = re.sub(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,64}\.[\w.-]{1,64}(?<=\w)", "@", text)
    return re.sub(
        r"#?\w[\w-]*(?:[.,:]\d+)*", lambda m: "#" if _DIGIT.search(m.group(0)) else m.group(0), text
    )


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
