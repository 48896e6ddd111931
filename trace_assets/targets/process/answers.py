"""What a target's process says, validated before anybody believes it, and how it fails."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from trace_assets.errors import TraceError, Unavailable
from trace_assets.records import Message, ToolSpec
from trace_assets.records.base import Json


class TargetFault(TraceError):
    """The target's own code failed, or answered what cannot be used: an environment fault."""

    exit_code = 1


class TargetHung(TargetFault):
    """No answer before the deadline; the process was killed."""


class TargetDied(TargetFault):
    """The process ended in the middle of a call."""


class TargetUnavailable(Unavailable):
    """The target's interpreter, module or a server it needs is not there."""


T = TypeVar("T", bound=BaseModel)


class _Open(BaseModel):
    """A reply; what a later version of the protocol adds is not read."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class FunctionTool(_Open):
    """A tool in OpenAI function form, with or without its envelope."""

    name: str
    description: str = ""
    parameters: Json = {}
    mutates: bool | None = None


class Description(_Open):
    """The answer to `describe`."""

    name: str = Field(min_length=1)
    version: str = Field(min_length=1)
    """Content hash of all that decides tasks, observations and verdicts: code, data, options."""
    policy: str = ""
    tools: tuple[dict[str, Any], ...] = ()
    provenance: dict[str, str] = {}
    """Where it comes from, such as commit and data hash; stands on every score."""
    protocol: int
    python: str = ""
    has_oracle: bool = False
    fresh_process: bool = False
    """Whether every episode wants a process that played none before: for state that no reset clears."""

    replayable: bool = False
    """Whether equal calls give equal episodes at no price: no model plays the user or judges."""

    def tool_specs(self) -> tuple[ToolSpec, ...]:
        """Return the tools as records."""
        return tool_specs(self.tools, self.name)


class TaskAnswer(_Open):
    """One task."""

    id: str = Field(min_length=1)
    instruction: str = ""
    tags: tuple[str, ...] = ()
    payload: Json = {}


class ResetAnswer(_Open):
    """The answer to `reset`."""

    messages: tuple[Message, ...]
    tools: tuple[dict[str, Any], ...] | None = None


class StepAnswer(_Open):
    """The answer to `step`."""

    messages: tuple[Message, ...] = ()
    done: bool = False
    truncated: bool = False


def tool_specs(tools: tuple[dict[str, Any], ...], name: str) -> tuple[ToolSpec, ...]:
    """Return tools that a target declared as records.

    Raises:
        TargetFault: One has no name, or is not an object.
    """
    found = []
    for tool in tools:
        plain = tool.get("function", tool)
        mutates = tool.get("mutates", plain.get("mutates") if isinstance(plain, dict) else None)
        one = understood(FunctionTool, plain, f"a tool of '{name}'")
        found.append(
            ToolSpec(
                name=one.name,
                description=one.description,
                parameters=one.parameters or {"type": "object", "properties": {}},
                mutates=mutates,
            )
        )
    return tuple(found)


def understood(kind: type[T], value: Any, what: str) -> T:
    """Return an answer as a record.

    Raises:
        TargetFault: It has not the form that the protocol asks for.
    """
    try:
        return kind.model_validate_json(json.dumps(value, allow_nan=False))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the whole"
        raise TargetFault(
            f"{what} has not the form that the protocol asks for, at '{where}': {first['msg']}; "
            "see docs/targets.md."
        ) from error
    except (TypeError, ValueError) as error:
        raise TargetFault(f"{what} is no JSON ({error}); see docs/targets.md.") from error
