"""The fast way from tau2 simulations to tables: typed parsing straight into columns, no object a message.

`msgspec` checks the types while it parses and never builds what is not asked for. A simulation that it
refuses, for whatever reason, is handed back: the records' way (`tau2.settled_items`) decides about it and
words the problem, so that there is one judge of what may be read. Both ways give equal tables.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from trace_assets.formats.chat import MOST_CALLS, MOST_MESSAGES
from trace_assets.formats.json_array import Span
from trace_assets.formats.problem import UNUSABLE, Part, make_part
from trace_assets.formats.tau2_file import Tau2File, check_values, metadata_of, read_reward
from trace_assets.records import Check, CheckRow, MessageRow, Record, Role, TrajectoryHead
from trace_assets.records.table import polars_schema, to_frame
from trace_assets.untrusted.allowance import OF_MACHINE, Allowance
from trace_assets.untrusted.json_text import is_deep, longest, read_embedded

_json = json.JSONEncoder(ensure_ascii=False).encode
_HEAD = tuple(polars_schema(TrajectoryHead))
_DEFAULTS = {name: field.default for name, field in TrajectoryHead.model_fields.items()}


@cache
def _messages() -> pa.Schema:
    """Return the schema of messages; made late, as polars starts threads that no fork survives."""
    return to_frame([], MessageRow).to_arrow().schema


class _Call(msgspec.Struct, gc=False):
    name: str
    arguments: Any = None
    id: str | None = None


_Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 40)]
_Int64 = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


class _Usage(msgspec.Struct, gc=False):
    prompt_tokens: _Count | None = None
    completion_tokens: _Count | None = None


class _Message(msgspec.Struct, gc=False):
    role: Role
    content: str | None = None
    tool_calls: list[_Call] | None = None
    id: str | None = None
    error: bool | None = None
    requestor: str | None = None
    usage: _Usage | None = None
    reasoning: str | None = None
    errors: list[Any] | None = None
    tool_messages: list[_Message] | None = None


class _Simulation(msgspec.Struct, gc=False):
    id: str
    task_id: str
    messages: list[_Message]
    trial: _Int64 | None = None
    seed: _Int64 | None = None
    termination_reason: str | None = None
    reward_info: dict[str, Any] | None = None
    agent_cost: float | None = None
    duration: float | None = None
    start_time: str | None = None
    timestamp: str | None = None


_DECODER = msgspec.json.Decoder(_Simulation)


class _Messages:
    """The columns of `messages` under construction; what few messages have is held with its place.

    One loop where a message depends on those before it, list comprehensions for the rest: this is where the
    time goes.
    """

    def __init__(self) -> None:
        self.size = 0
        self.names: list[str] = []
        self.lengths: list[int] = []
        self.role: list[str] = []
        self.content: list[str | None] = []
        self.requestor: list[str] = []
        self.metadata: list[str] = []
        self.answers: list[tuple[int, str, str | None]] = []
        self.errors: list[int] = []
        self.callers: list[int] = []
        self.calls: list[tuple[str, str, str]] = []

    def add(self, simulation: _Simulation, ticket: str | None) -> tuple[int, str, int | None, int | None]:
        """Append a simulation; return messages, last words, prompt and completion tokens."""
        flat = _flat(simulation.messages)
        if ticket:
            flat = [_Message(role="user", content=ticket), *flat]
        tools: dict[str, str] = {}
        prompt = completion = 0
        spent = False
        for place, one in enumerate(flat, self.size):
            if one.tool_calls:
                self._call(one.tool_calls, place, place - self.size - (1 if ticket else 0), tools)
            if one.role == "tool":
                answered = str(one.id)
                self.answers.append((place, answered, tools.get(answered)))
                if one.error:
                    self.errors.append(place)
            elif (usage := one.usage) is not None and one.role == "assistant":
                spent |= usage.prompt_tokens is not None or usage.completion_tokens is not None
                prompt += usage.prompt_tokens or 0
                completion += usage.completion_tokens or 0
        n = len(flat)
        self.role += [one.role for one in flat]
        self.content += [one.content for one in flat]
        users = ["user" if one.role == "user" or one.requestor == "user" else "assistant" for one in flat]
        if ticket:
            users[0] = "assistant"
        self.requestor += users
        self.metadata += [
            _metadata(one) if one.reasoning or one.errors or _says_nothing(one) else "{}" for one in flat
        ]
        self.names.append(simulation.id)
        self.lengths.append(n)
        self.size += n
        last = (flat[-1].content or "") if n else ""
        return n, last, prompt if spent else None, completion if spent else None

    def _call(self, calls: list[_Call], place: int, number: int, tools: dict[str, str]) -> None:
        for call in calls:
            name, given = call.id or f"call_{number}", call.arguments
            tools[name] = call.name
            self.callers.append(place)
            self.calls.append((name, call.name, _json(given) if given and isinstance(given, dict) else "{}"))

    def table(self) -> pa.Table:
        """Return the rows of the table `messages`."""
        lengths = np.array(self.lengths, np.int64)
        of = np.repeat(np.arange(len(lengths)), lengths)
        starts = np.cumsum(lengths) - lengths
        errors = np.zeros(self.size, np.bool_)
        errors[self.errors] = True
        answered: list[str | None] = [None] * self.size
        tools: list[str | None] = [None] * self.size
        for place, name, tool in self.answers:
            answered[place], tools[place] = name, tool
        columns = {
            "role": _text(self.role),
            "content": _text(self.content),
            "tool_calls": self._calls(),
            "tool_call_id": _text(answered),
            "tool_name": _text(tools),
            "is_error": _values(errors),
            "requestor": _text(self.requestor),
            "metadata": _text(self.metadata),
            "trajectory_id": _text(self.names).take(_values(of)),
            "index": _values(np.arange(self.size) - starts[of]),
        }
        return pa.Table.from_arrays([columns[name] for name in _messages().names], schema=_messages())

    def _calls(self) -> pa.Array:
        """Return the nested column: calls are flat, offsets say whose they are."""
        counts = np.bincount(np.array(self.callers, np.int64), minlength=self.size)
        offsets = np.concatenate([[0], np.cumsum(counts)])
        kind = _messages().field("tool_calls").type
        parts = [_text(column) for column in _columns(self.calls, 3)]
        calls = pa.StructArray.from_arrays(parts, fields=list(kind.value_type))
        return pa.LargeListArray.from_arrays(_values(offsets), calls, type=kind)


def _text(values: Sequence[str | None]) -> pa.Array:
    return pl.Series(values, dtype=pl.String).to_arrow()  # three times as fast as Arrow's own


def _values(values: npt.NDArray[Any]) -> pa.Array:
    return pl.Series(values).to_arrow()  # not Arrow's own, which imports pandas


def _says_nothing(one: _Message) -> bool:
    return one.role == "assistant" and not one.content and not one.tool_calls


def _metadata(one: _Message) -> str:
    usage = one.usage if _says_nothing(one) else None
    return _json(metadata_of(one.reasoning, one.errors, usage.completion_tokens if usage else None))


def _flat(messages: list[_Message]) -> list[_Message]:
    """Return the messages with several results of one turn one by one."""
    if not any(one.tool_messages for one in messages):
        return messages
    return [part for one in messages for part in (one.tool_messages or [one])]


def _parsed(text: str) -> Any:
    try:
        value = read_embedded(text)
    except ValueError:
        return {"raw": text}
    return value if isinstance(value, dict) else None


@dataclass(frozen=True)
class Converted:
    """What became of some pieces of a file.

    Attributes:
        part: The tables; None when no piece could be taken.
        tasks: Ids of the tasks that were simulated, in the order in which they were met.
        notices: (number of the piece, sentence) for trajectories kept without a reward.
        refused: The pieces that the records' way must look at.
    """

    part: Part | None
    tasks: Sequence[str]
    notices: Sequence[tuple[int, str]]
    refused: Sequence[Span]


LARGE = 16_000_000
"""Bytes of a piece from which on it is read alone, the records' way."""
LONGEST_ID = 1000
"""Characters of an id that is compared with others beforehand; of longer ones the records' way tells."""
_OBJECT = 600
"""Bytes that each object of a piece takes at most until it is in a table, beside its text."""


_TICKET = 8


def convert(file: Tau2File, spans: Sequence[Span], allowance: Allowance = OF_MACHINE) -> Converted:
    """Turn pieces of a file into tables.

    Args:
        file: What its simulations share.
        spans: Pieces, in the order of their trajectories' ids.
        allowance: Memory that this may take; what would take more is refused.

    Returns:
        The tables, sorted like the pieces, and what could not be taken.
    """
    messages = _Messages()
    checks: list[tuple[Any, ...]] = []
    heads: list[list[Any]] = []
    tasks: dict[str, None] = {}
    notices: list[tuple[int, str]] = []
    refused: list[Span] = []
    largest = min(LARGE, longest(allowance.messages))
    sizes = [size for span in spans if (size := span.end - span.start) <= largest]
    held = memoryview(bytearray(max(sizes, default=0)))
    taken = 0
    with file.path.open("rb", buffering=0) as stream:
        for span in spans:
            if span.end - span.start > largest:
                refused.append(span)
                continue
            stream.seek(span.start)
            size = stream.readinto(held[: span.end - span.start]) or 0
            while size and held[size - 1] in _BETWEEN:
                size -= 1
            text = bytes(held[:size])
            here = text.count(b"{") * _OBJECT
            if taken + here > allowance.messages:
                refused.append(span)
                continue
            try:
                one = _DECODER.decode(text)
                if not one.id or not one.task_id or _unusual(one):
                    raise ValueError("the records' way tells why")
                rows = sorted(check_values(one.reward_info))
                read_reward({"reward_info": one.reward_info})  # what it raises must come before `add`
                ticket = file.ticket(one.task_id)
                # A ticket may be many times as long as its simulation.
                taken += here + len(ticket or "") * _TICKET
                if taken > allowance.messages:
                    raise ValueError("the records' way reads one at a time")
                n, last, prompt, completion = messages.add(one, ticket)
                facts = {name: getattr(one, name) for name in _FACTS}
                head, notice = file.head(facts, n, last, (prompt, completion))
            except UNUSABLE:  # msgspec's errors are ValueErrors
                refused.append(span)
                continue
            heads.append([head.get(name, _DEFAULTS[name]) for name in _HEAD])
            checks.extend((one.id, *row) for row in rows)
            tasks.setdefault(one.task_id)
            if notice:
                notices.append((span.number, notice))
    part = _part(messages, checks, heads) if heads else None
    return Converted(part, list(tasks), notices, refused)


def _unusual(one: _Simulation) -> bool:
    """Tell whether a simulation nests values deeply, or holds names so long that repeating them is dear.

    Arguments that stand as text are parsed on the way.
    """
    longest_name, flat = len(one.id), _flat(one.messages)
    if len(flat) > MOST_MESSAGES or longest_name > LONGEST_ID:
        return True
    for message in flat:
        if message.tool_calls and len(message.tool_calls) > MOST_CALLS:
            return True
        if message.role == "tool":
            longest_name = max(longest_name, len(message.id or ""))
        for call in message.tool_calls or ():
            longest_name = max(longest_name, len(call.name))
            if isinstance(call.arguments, str):
                call.arguments = _parsed(call.arguments)
            elif is_deep(call.arguments):
                return True
    return longest_name * len(flat) > _REPEATED


_REPEATED = 1 << 22
_BETWEEN = b" \t\r\n,"
_FACTS = tuple(name for name in _Simulation.__struct_fields__ if name != "messages")


def _part(messages: _Messages, checks: list[tuple[Any, ...]], heads: list[list[Any]]) -> Part:
    led = dict(zip(_HEAD, _columns(heads, len(_HEAD)), strict=True))
    for name in ("agent_args", "model_options", "metadata"):
        led[name] = [_json(value) for value in led[name]]
    judged = dict(zip(("trajectory_id", *Check.model_fields), _columns(checks, 7), strict=True))
    return make_part(
        {
            MessageRow.table: messages.table(),
            CheckRow.table: _frame(judged, CheckRow).to_arrow(),
            TrajectoryHead.table: _frame(led, TrajectoryHead).to_arrow(),
        }
    )


def _frame(columns: Mapping[str, Sequence[Any]], record: type[Record]) -> pl.DataFrame:
    schema = polars_schema(record)
    return pl.DataFrame([pl.Series(name, columns[name], dtype=kind) for name, kind in schema.items()])


def _columns(rows: Sequence[Sequence[Any]], width: int) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(width)]
