"""The fast way from tau2 simulations to tables: typed parsing straight into columns, no object a message.

`msgspec` checks the types while it parses and never builds what is not asked for. A simulation that it
refuses, for whatever reason, is handed back: the records' way (`tau2.settled_items`) decides about it and
words the problem, so that there is one judge of what may be read. Both ways give equal tables.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import polars as pl
import pyarrow as pa

from trace_assets.importers.elements import Span
from trace_assets.importers.part import Part, make_part
from trace_assets.importers.tau2_file import Tau2File
from trace_assets.importers.tau2_reward import check_values
from trace_assets.records import Check, CheckRow, MessageRow, Role, TrajectoryHead
from trace_assets.records.table import polars_schema

_TEXT = json.JSONEncoder(ensure_ascii=False).encode
_HEAD = tuple(polars_schema(TrajectoryHead))
_DEFAULTS = {name: field.default for name, field in TrajectoryHead.model_fields.items()}


class _Call(msgspec.Struct, gc=False):
    name: str
    arguments: Any = None
    id: str | None = None


class _Usage(msgspec.Struct, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Message(msgspec.Struct, gc=False):
    role: Role
    content: str | None = None
    tool_calls: list[_Call] | None = None
    id: str | None = None
    error: bool | None = None
    requestor: str | None = None
    usage: _Usage | None = None
    reasoning: str | None = None
    tool_messages: list[_Message] | None = None


class _Simulation(msgspec.Struct, gc=False):
    id: str
    task_id: str
    messages: list[_Message]
    trial: int | None = None
    seed: int | None = None
    termination_reason: str | None = None
    reward_info: dict[str, Any] | None = None
    agent_cost: float | None = None
    duration: float | None = None
    start_time: str | None = None
    timestamp: str | None = None


_DECODER = msgspec.json.Decoder(_Simulation)


@dataclass
class _Messages:
    """The columns of `messages` under construction; calls are flat, `offsets` says whose they are.

    One loop where a message depends on those before it, list comprehensions for the rest: this is where the
    time goes.
    """

    trajectory: list[str] = field(default_factory=list)
    index: list[int] = field(default_factory=list)
    role: list[str] = field(default_factory=list)
    content: list[str | None] = field(default_factory=list)
    call_id: list[str | None] = field(default_factory=list)
    tool: list[str | None] = field(default_factory=list)
    error: list[bool] = field(default_factory=list)
    requestor: list[str] = field(default_factory=list)
    metadata: list[str] = field(default_factory=list)
    offsets: list[int] = field(default_factory=lambda: [0])
    ids: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)

    def add(self, simulation: _Simulation, ticket: str | None) -> tuple[int, str, int | None, int | None]:
        """Append a simulation; return messages, last words, prompt and completion tokens."""
        flat = _flat(simulation.messages)
        if ticket:
            flat = [_Message(role="user", content=ticket), *flat]
        tools: dict[str, str] = {}
        prompt = completion = spent = 0
        offsets = self.offsets
        for number, one in enumerate(flat, -1 if ticket else 0):
            if one.tool_calls:
                self._call(one.tool_calls, number, tools)
            offsets.append(len(self.ids))
            if one.role == "tool":
                answered = str(one.id)
                self.call_id.append(answered)
                self.tool.append(tools.get(answered))
                self.error.append(bool(one.error))
                continue
            self.call_id.append(None)
            self.tool.append(None)
            self.error.append(False)
            if one.usage is not None and one.role == "assistant":
                spent = 1
                prompt += one.usage.prompt_tokens or 0
                completion += one.usage.completion_tokens or 0
        n = len(flat)
        self.role.extend([one.role for one in flat])
        self.content.extend([one.content for one in flat])
        users = ["user" if "user" in (one.role, one.requestor) else "assistant" for one in flat]
        if ticket:
            users[0] = "assistant"
        self.requestor.extend(users)
        self.metadata.extend([_reasoning(one.reasoning) if one.reasoning else "{}" for one in flat])
        self.trajectory.extend([simulation.id] * n)
        self.index.extend(range(n))
        last = (flat[-1].content or "") if n else ""
        return n, last, prompt if spent else None, completion if spent else None

    def _call(self, calls: list[_Call], number: int, tools: dict[str, str]) -> None:
        for call in calls:
            name, given = call.id or f"call_{number}", call.arguments
            if isinstance(given, str):
                given = _parsed(given)
            tools[name] = call.name
            self.ids.append(name)
            self.names.append(call.name)
            self.arguments.append(_TEXT(given) if given and isinstance(given, dict) else "{}")

    def frame(self) -> pl.DataFrame:
        schema = polars_schema(MessageRow)
        columns: dict[str, Any] = {
            "role": self.role,
            "content": self.content,
            "tool_calls": self._calls(),
            "tool_call_id": self.call_id,
            "tool_name": self.tool,
            "is_error": self.error,
            "requestor": self.requestor,
            "metadata": self.metadata,
            "trajectory_id": self.trajectory,
            "index": self.index,
        }
        return pl.DataFrame({name: columns[name] for name in schema}, schema=schema)

    def _calls(self) -> pl.Series:
        """Return the nested column; polars makes none from offsets, Arrow does."""
        texts = [self.ids, self.names, self.arguments]
        fields = [pl.Series(text, dtype=pl.String).to_arrow() for text in texts]
        calls = pa.StructArray.from_arrays(fields, names=["id", "name", "arguments"])
        offsets = pl.Series(self.offsets, dtype=pl.Int64).to_arrow()
        nested = pl.from_arrow(pa.LargeListArray.from_arrays(offsets, calls))
        assert isinstance(nested, pl.Series)
        return nested


def _reasoning(text: str) -> str:
    return _TEXT({"reasoning": text})


def _flat(messages: list[_Message]) -> list[_Message]:
    """Return the messages with several results of one turn one by one."""
    if not any(one.tool_messages for one in messages):
        return messages
    return [part for one in messages for part in (one.tool_messages or [one])]


def _parsed(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return {"raw": text}


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


def convert(file: Tau2File, spans: Sequence[Span]) -> Converted:
    """Turn pieces of a file into tables.

    Args:
        file: What its simulations share.
        spans: Pieces, in the order of their trajectories' ids.

    Returns:
        The tables, sorted like the pieces, and what could not be taken.
    """
    messages = _Messages()
    checks: list[tuple[Any, ...]] = []
    heads: list[list[Any]] = []
    tasks: dict[str, None] = {}
    notices: list[tuple[int, str]] = []
    refused: list[Span] = []
    with file.path.open("rb", buffering=0) as stream:
        for span in spans:
            stream.seek(span.start)
            data = stream.read(span.end - span.start).rstrip(b" \t\r\n,")
            try:
                one = _DECODER.decode(data)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                refused.append(span)
                continue
            if not one.id or not one.task_id:
                refused.append(span)
                continue
            rows = sorted(check_values(one.reward_info))
            n, last, prompt, completion = messages.add(one, file.ticket(one.task_id))
            facts = {name: getattr(one, name) for name in _FACTS}
            head, notice = file.head(facts, n, last, (prompt, completion))
            heads.append([head.get(name, _DEFAULTS[name]) for name in _HEAD])
            checks.extend((one.id, *row) for row in rows)
            tasks.setdefault(one.task_id)
            if notice:
                notices.append((span.number, notice))
    part = _part(messages, checks, heads) if heads else None
    return Converted(part, list(tasks), notices, refused)


_FACTS = tuple(name for name in _Simulation.__struct_fields__ if name != "messages")


def _part(messages: _Messages, checks: list[tuple[Any, ...]], heads: list[list[Any]]) -> Part:
    judged = pl.DataFrame(
        dict(zip(("trajectory_id", *Check.model_fields), _columns(checks, 7), strict=True)),
        schema={"trajectory_id": pl.String(), **polars_schema(Check)},
    )
    led = dict(zip(_HEAD, _columns(heads, len(_HEAD)), strict=True))
    for name in ("agent_args", "model_options", "metadata"):
        led[name] = [_TEXT(value) for value in led[name]]
    return make_part(
        {
            MessageRow.table: messages.frame(),
            CheckRow.table: judged.select(list(polars_schema(CheckRow))),
            TrajectoryHead.table: pl.DataFrame(led, schema=polars_schema(TrajectoryHead)),
        }
    )


def _columns(rows: Sequence[Sequence[Any]], width: int) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(width)]
