"""Messages and tools, in the OpenAI chat form that agents, servers and logs already speak."""

from __future__ import annotations

from typing import ClassVar, Literal

from trace_assets.records.base import Json, Record

Role = Literal["system", "user", "assistant", "tool"]


class ToolSpec(Record):
    """A tool the agent may call."""

    name: str
    description: str = ""
    parameters: Json = {}
    """JSON schema of the arguments (an `object` schema)."""
    mutates: bool | None = None
    """Whether a call changes the environment's state; None when not known."""

    def openai(self) -> dict[str, object]:
        """Return the tool in OpenAI function form."""
        return {
            "type": "function",
            "function": {"name": self.name, "description": self.description, "parameters": self.parameters},
        }


class ToolCall(Record):
    """One call of a tool inside an assistant (or simulated user's) message."""

    id: str
    name: str
    arguments: Json = {}


class Message(Record):
    """One turn of a conversation."""

    role: Role
    content: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    """For `tool` messages: the call that this answers."""
    tool_name: str | None = None
    """For `tool` messages: the tool that was called."""
    is_error: bool = False
    """For `tool` messages: the tool refused or failed."""
    requestor: Literal["assistant", "user"] = "assistant"
    """Who called the tool (a simulated user may have tools of its own)."""
    metadata: Json = {}
    """What the source held besides: reasoning, parts that are not text, the tokens generated for an empty
    message. Exporters read it, and rules on faults; labellers never do."""


class MessageRow(Message):
    """A message in its place: row of the table `messages`."""

    table: ClassVar[str] = "messages"
    key: ClassVar[tuple[str, ...]] = ("trajectory_id", "index")

    trajectory_id: str
    index: int
    """Position in the trajectory, from 0; evidence refers to it."""
