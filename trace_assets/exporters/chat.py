"""Messages in the OpenAI chat form, so that reading them again gives the same messages."""

from __future__ import annotations

import json
from typing import Any

from trace_assets.records import Message, ToolCall


def chat_message(message: Message) -> dict[str, Any]:
    """Return a message in the chat form; what the form has no place for is under `metadata`."""
    said: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        said["tool_calls"] = [_call(call) for call in message.tool_calls]
    if message.role == "tool":
        said["tool_call_id"] = message.tool_call_id
        said["name"] = message.tool_name
        said["is_error"] = message.is_error
    if message.requestor == "user":
        said["requestor"] = "user"
    if message.metadata:
        said["metadata"] = message.metadata
    return said


def _call(call: ToolCall) -> dict[str, Any]:
    arguments = json.dumps(call.arguments, ensure_ascii=False)
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}
