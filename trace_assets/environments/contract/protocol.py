"""How conversations run, and how long they are."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from statistics import fmean, quantiles

from trace_assets.diagnosis.detectors.values import tells_error
from trace_assets.environments.contract.shapes import first_request
from trace_assets.records import Message, Record, Role, Trajectory

SIGN_SHARE = 0.25
"""A sign that ends conversations stands at the end of at least this share of them."""


class MessageProtocol(Record):
    """How a conversation runs."""

    starts_with_system: bool
    """The first message is the policy text, as a system message."""
    ends_with_text: bool
    """Every finished conversation ends with the assistant's words."""
    parallel_calls: int
    """The most tool calls seen in one assistant message."""
    assistant_turns: int
    """The most assistant messages seen in one conversation."""
    user_messages: int = 1
    """The most messages with words of the user seen in one conversation."""
    first_speaker: Role = "user"
    """Who speaks first in most conversations, system messages aside."""
    last_speaker: Role = "assistant"
    """Whose message ends most finished conversations."""
    words_with_calls: bool = False
    """Some assistant messages hold both words and tool calls."""
    user_calls: bool = False
    """The simulated user calls tools of its own."""
    end_signs: tuple[str, ...] = ()
    """Signs such as `###STOP###` with which conversations end."""


class Spread(Record):
    """How a quantity is distributed."""

    mean: float
    low: float
    """10 % are below it."""
    median: float
    high: float
    """10 % are above it."""
    n: int


class LengthStatistics(Record):
    """Means over the trajectories that the contract was read from, and how they spread."""

    request_words: float
    assistant_turns: float
    tool_calls: float
    result_characters: float
    spreads: dict[str, Spread] = {}
    """The four above and `user_messages`, `user_words` (of one message), `reply_words`."""


def assistant_messages(trajectory: Trajectory) -> list[Message]:
    """Return what the agent said or did."""
    return [m for m in trajectory.messages if m.role == "assistant" and m.requestor == "assistant"]


def user_messages(trajectory: Trajectory) -> list[Message]:
    """Return the user's messages that hold words."""
    return [m for m in trajectory.messages if m.role == "user" and m.content]


def protocol_of(trajectories: Sequence[Trajectory]) -> MessageProtocol:
    """Read the protocol off trajectories, at least one."""
    turns = [assistant_messages(trajectory) for trajectory in trajectories]
    finished = [t for t in trajectories if t.stop in ("completed", "transferred")]
    first = Counter(
        next((m.role for m in t.messages if m.role != "system"), t.messages[0].role) for t in trajectories
    )
    last = Counter(t.messages[-1].role for t in finished or trajectories)
    return MessageProtocol(
        starts_with_system=all(t.messages[0].role == "system" for t in trajectories),
        ends_with_text=bool(finished)
        and all(t.messages[-1].role == "assistant" and not t.messages[-1].tool_calls for t in finished),
        parallel_calls=max((len(m.tool_calls) for messages in turns for m in messages), default=0),
        assistant_turns=max(len(messages) for messages in turns),
        user_messages=max(len(user_messages(t)) for t in trajectories),
        first_speaker=_usual(first),
        last_speaker=_usual(last),
        words_with_calls=any(m.content and m.tool_calls for messages in turns for m in messages),
        user_calls=any(m.role == "user" and m.tool_calls for t in trajectories for m in t.messages),
        end_signs=_end_signs(finished),
    )


def _usual(counts: Counter[Role]) -> Role:
    return min(counts, key=lambda role: (-counts[role], role))


def _end_signs(finished: Sequence[Trajectory]) -> tuple[str, ...]:
    last = [(t.messages[-1].content or "")[-200:] for t in finished]
    signs = Counter(sign for text in last for sign in set(re.findall(r"#{2,}[A-Z][A-Z_ -]*#{2,}", text)))
    return tuple(sorted(sign for sign, n in signs.items() if n >= SIGN_SHARE * len(last)))


def lengths_of(trajectories: Sequence[Trajectory]) -> LengthStatistics:
    """Measure trajectories, at least one."""
    turns = [assistant_messages(t) for t in trajectories]
    seen: dict[str, list[int]] = {
        "request_words": [len(first_request(t).split()) for t in trajectories],
        "assistant_turns": [len(messages) for messages in turns],
        "tool_calls": [sum(len(m.tool_calls) for m in messages) for messages in turns],
        "result_characters": [
            len(m.content or "") for t in trajectories for m in t.messages if m.role == "tool"
        ],
        "user_messages": [len(user_messages(t)) for t in trajectories],
        "user_words": [len((m.content or "").split()) for t in trajectories for m in user_messages(t)],
        "reply_words": [len(m.content.split()) for messages in turns for m in messages if m.content],
    }
    spreads = {name: spread_of(values) for name, values in seen.items() if values}
    return LengthStatistics(
        **{
            name: spreads[name].mean if name in spreads else 0.0
            for name in ("request_words", "assistant_turns", "tool_calls", "result_characters")
        },
        spreads=spreads,
    )


def spread_of(values: Sequence[float]) -> Spread:
    """Describe at least one value.

    >>> spread_of([1, 2, 3, 4, 100]).median
    3.0
    """
    cuts = quantiles(values, n=10, method="inclusive") if len(values) > 1 else [float(values[0])] * 9
    return Spread(mean=fmean(values), low=cuts[0], median=cuts[4], high=cuts[8], n=len(values))


# What generated environments are compared with: real tool sequences, and a bounded sample of real turns.


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
