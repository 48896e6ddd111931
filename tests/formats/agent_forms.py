"""One short run as agents' frameworks write it: a question, a call that failed, one that did not, an answer.

Field names and nesting are those that the frameworks of 2025 and 2026 write; the words are made up.
"""

from __future__ import annotations

import json
from typing import Any

ASKED, SAID = "Please cancel my order K-1, it is late.", "Order K-1 is cancelled."
ARGUMENTS = {"order": "K-1"}
BROKE, GAVE = "Error: 503 from the store", {"status": "cancelled", "order": "K-1"}
CALLS = (("c1", BROKE, True), ("c2", GAVE, False))
TOOL = "cancel_order"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _rounds(ask: Any, answer: Any) -> list[Any]:
    """Return an entry for each call and one for each result, in turn."""
    return [entry for call in CALLS for entry in (ask(call[0]), answer(*call))]


def responses() -> list[Any]:
    return [
        {"role": "user", "content": ASKED},
        {"id": "r", "type": "reasoning", "summary": []},
        *_rounds(
            lambda i: {
                "type": "function_call",
                "call_id": i,
                "name": TOOL,
                "arguments": json.dumps(ARGUMENTS),
            },
            lambda i, given, _: {"type": "function_call_output", "call_id": i, "output": _text(given)},
        ),
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": SAID}]},
    ]


def langchain() -> list[Any]:
    return [
        {"type": "human", "content": ASKED},
        *_rounds(
            lambda i: {
                "type": "ai",
                "content": "",
                "tool_calls": [{"name": TOOL, "args": ARGUMENTS, "id": i, "type": "tool_call"}],
            },
            lambda i, given, bad: {
                "type": "tool",
                "content": _text(given),
                "tool_call_id": i,
                "status": "error" if bad else "success",
            },
        ),
        {"type": "ai", "content": SAID, "tool_calls": []},
    ]


def ai_sdk() -> list[Any]:
    parts: list[Any] = []
    for i, given, bad in CALLS:
        done = (
            {"state": "output-error", "errorText": given}
            if bad
            else {"state": "output-available", "output": given}
        )
        parts += [
            {"type": "step-start"},
            {"type": f"tool-{TOOL}", "toolCallId": i, "input": ARGUMENTS, **done},
        ]
    parts += [{"type": "step-start"}, {"type": "text", "text": SAID, "state": "done"}]
    return [
        {"role": "user", "parts": [{"type": "text", "text": ASKED}]},
        {"role": "assistant", "parts": parts},
    ]


def ai_sdk_4() -> list[Any]:
    used = [
        {"state": "result", "toolCallId": i, "toolName": TOOL, "args": ARGUMENTS, "result": given}
        for i, given, _ in CALLS
    ]
    return [
        {"role": "user", "content": ASKED},
        {"role": "assistant", "content": SAID, "toolInvocations": used},
    ]


def ai_sdk_model() -> list[Any]:
    return [
        {"role": "user", "content": [{"type": "text", "text": ASKED}]},
        *_rounds(
            lambda i: {
                "role": "assistant",
                "content": [{"type": "tool-call", "toolCallId": i, "toolName": TOOL, "input": ARGUMENTS}],
            },
            lambda i, given, bad: {
                "role": "tool",
                "content": [
                    {
                        "type": "tool-result",
                        "toolCallId": i,
                        "toolName": TOOL,
                        "output": {"type": "error-text" if bad else "json", "value": given},
                    }
                ],
            },
        ),
        {"role": "assistant", "content": [{"type": "text", "text": SAID}]},
    ]


def ai_sdk_steps() -> dict[str, Any]:
    steps: list[Any] = []
    for i, given, bad in CALLS:
        named = {"toolCallId": i, "toolName": TOOL, "input": ARGUMENTS}
        gave = {"type": "tool-error", "error": given} if bad else {"type": "tool-result", "output": given}
        steps.append(
            {"content": [{"type": "tool-call", **named}, {**named, **gave}], "finishReason": "tool-calls"}
        )
    steps.append({"content": [{"type": "text", "text": SAID}], "finishReason": "stop"})
    return {"prompt": ASKED, "steps": steps}


def mastra() -> list[Any]:
    parts: list[Any] = [
        {
            "type": "tool-invocation",
            "toolInvocation": {
                "state": "result",
                "toolCallId": i,
                "toolName": TOOL,
                "args": ARGUMENTS,
                "result": given,
            },
        }
        for i, given, _ in CALLS
    ]
    return [
        {"role": "user", "content": {"format": 2, "parts": [{"type": "text", "text": ASKED}]}},
        {"role": "assistant", "content": {"format": 2, "parts": [*parts, {"type": "text", "text": SAID}]}},
    ]


def converse() -> list[Any]:
    return [
        {"role": "user", "content": [{"text": ASKED}]},
        *_rounds(
            lambda i: {
                "role": "assistant",
                "content": [{"toolUse": {"toolUseId": i, "name": TOOL, "input": ARGUMENTS}}],
            },
            lambda i, given, bad: {
                "role": "user",
                "content": [
                    {
                        "toolResult": {
                            "toolUseId": i,
                            "status": "error" if bad else "success",
                            "content": [{"text": given} if bad else {"json": given}],
                        }
                    }
                ],
            },
        ),
        {"role": "assistant", "content": [{"text": SAID}]},
    ]


def haystack() -> list[Any]:
    return [
        {"role": "user", "meta": {}, "content": [{"text": ASKED}]},
        *_rounds(
            lambda i: {
                "role": "assistant",
                "content": [{"tool_call": {"tool_name": TOOL, "arguments": ARGUMENTS, "id": i}}],
            },
            lambda i, given, bad: {
                "role": "tool",
                "content": [
                    {
                        "tool_call_result": {
                            "result": _text(given),
                            "origin": {"tool_name": TOOL, "arguments": ARGUMENTS, "id": i},
                            "error": bad,
                        }
                    }
                ],
            },
        ),
        {"role": "assistant", "content": [{"text": SAID}]},
    ]


def llama_index() -> list[Any]:
    return [
        {"role": "user", "blocks": [{"block_type": "text", "text": ASKED}]},
        *_rounds(
            lambda i: {
                "role": "assistant",
                "blocks": [
                    {
                        "block_type": "tool_call",
                        "tool_call_id": i,
                        "tool_name": TOOL,
                        "tool_kwargs": ARGUMENTS,
                    }
                ],
            },
            lambda i, given, _: {
                "role": "tool",
                "additional_kwargs": {"tool_call_id": i, "name": TOOL},
                "blocks": [{"block_type": "text", "text": _text(given)}],
            },
        ),
        {"role": "assistant", "blocks": [{"block_type": "text", "text": SAID}]},
    ]


def semantic_kernel() -> list[Any]:
    return [
        {"role": "user", "items": [{"content_type": "text", "text": ASKED}]},
        *_rounds(
            lambda i: {
                "role": "assistant",
                "items": [
                    {
                        "content_type": "function_call",
                        "id": i,
                        "function_name": TOOL,
                        "arguments": json.dumps(ARGUMENTS),
                    }
                ],
            },
            lambda i, given, _: {
                "role": "tool",
                "items": [
                    {
                        "content_type": "function_result",
                        "id": i,
                        "function_name": TOOL,
                        "result": _text(given),
                    }
                ],
            },
        ),
        {"role": "assistant", "items": [{"content_type": "text", "text": SAID}]},
    ]


def agent_framework() -> list[Any]:
    return [
        {"role": {"value": "user"}, "contents": [{"type": "text", "text": ASKED}]},
        *_rounds(
            lambda i: {
                "role": {"value": "assistant"},
                "contents": [{"type": "function_call", "call_id": i, "name": TOOL, "arguments": ARGUMENTS}],
            },
            lambda i, given, bad: {
                "role": {"value": "tool"},
                "contents": [
                    {
                        "type": "function_result",
                        "call_id": i,
                        "result": given,
                        "exception": given if bad else None,
                    }
                ],
            },
        ),
        {"role": {"value": "assistant"}, "contents": [{"type": "text", "text": SAID}]},
    ]


def pydantic_ai() -> list[Any]:
    return [
        {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": ASKED}]},
        *_rounds(
            lambda i: {
                "kind": "response",
                "model_name": "m",
                "parts": [
                    {
                        "part_kind": "tool-call",
                        "tool_name": TOOL,
                        "args": json.dumps(ARGUMENTS),
                        "tool_call_id": i,
                    }
                ],
            },
            lambda i, given, bad: {
                "kind": "request",
                "parts": [
                    {
                        "part_kind": "retry-prompt" if bad else "tool-return",
                        "tool_name": TOOL,
                        "content": given,
                        "tool_call_id": i,
                    }
                ],
            },
        ),
        {"kind": "response", "parts": [{"part_kind": "text", "content": SAID}]},
    ]


def autogen() -> list[Any]:
    return [
        {"type": "TextMessage", "source": "user", "content": ASKED},
        *_rounds(
            lambda i: {
                "type": "ToolCallRequestEvent",
                "source": "clerk",
                "content": [{"id": i, "name": TOOL, "arguments": json.dumps(ARGUMENTS)}],
            },
            lambda i, given, bad: {
                "type": "ToolCallExecutionEvent",
                "source": "clerk",
                "content": [{"call_id": i, "name": TOOL, "content": _text(given), "is_error": bad}],
            },
        ),
        {"type": "TextMessage", "source": "clerk", "content": SAID},
    ]


def claude_agent_sdk() -> list[Any]:
    about = {"session_id": "s", "parent_tool_use_id": None}
    helper = {"type": "assistant", "message": {"content": [{"type": "text", "text": "x"}]}, "session_id": "s"}
    return [
        {"type": "system", "subtype": "init", "session_id": "s", "model": "m"},
        {"type": "user", "message": {"role": "user", "content": ASKED}, **about},
        {**helper, "parent_tool_use_id": "c0"},
        *_rounds(
            lambda i: {
                "type": "assistant",
                "message": {
                    "model": "m",
                    "content": [
                        {"type": "tool_use", "id": i, "name": f"mcp__shop__{TOOL}", "input": ARGUMENTS}
                    ],
                },
                **about,
            },
            lambda i, given, bad: {
                "type": "user",
                "message": {
                    "content": [
                        {"type": "tool_result", "tool_use_id": i, "content": _text(given), "is_error": bad}
                    ]
                },
                **about,
            },
        ),
        {
            "type": "assistant",
            "message": {"model": "m", "content": [{"type": "text", "text": SAID}]},
            **about,
        },
        {
            "type": "result",
            "subtype": "success",
            "is_error": False,
            "num_turns": 3,
            "result": SAID,
            "session_id": "s",
        },
    ]


def adk() -> dict[str, Any]:
    def event(author: str, part: dict[str, Any]) -> dict[str, Any]:
        return {"author": author, "invocationId": "e", "content": {"parts": [part], "role": author}}

    return {
        "id": "s",
        "appName": "shop",
        "events": [
            event("user", {"text": ASKED}),
            *_rounds(
                lambda i: event("clerk", {"functionCall": {"id": i, "name": TOOL, "args": ARGUMENTS}}),
                lambda i, given, bad: event(
                    "clerk",
                    {
                        "functionResponse": {
                            "id": i,
                            "name": TOOL,
                            "response": {"error": given} if bad else given,
                        }
                    },
                ),
            ),
            {"author": "clerk", "invocationId": "e", "actions": {"stateDelta": {"x": 1}}},
            event("clerk", {"text": SAID}),
        ],
    }


def codex() -> list[Any]:
    put_before = {"type": "input_text", "text": "<environment_context>\n</environment_context>"}
    items = responses()
    items.insert(0, {"type": "message", "role": "user", "content": [put_before]})
    items[1] = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": ASKED}]}
    return [
        {"type": "session_meta", "payload": {"id": "s"}},
        *({"type": "response_item", "payload": item} for item in items),
        {"type": "event_msg", "payload": {"type": "token_count"}},
    ]


def smolagents() -> list[Any]:
    steps: list[Any] = [{"task": ASKED, "task_images": None}]
    for number, (i, given, bad) in enumerate(CALLS):
        used = {"id": i, "type": "function", "function": {"name": TOOL, "arguments": ARGUMENTS}}
        saw = {"error": {"message": given}, "observations": None} if bad else {"observations": _text(given)}
        steps.append({"step_number": number, "model_output": None, "tool_calls": [used], **saw})
    last = {"id": "f", "function": {"name": "final_answer", "arguments": {"answer": SAID}}}
    return [*steps, {"step_number": 9, "model_output": None, "tool_calls": [last], "observations": SAID}]


def openhands() -> list[Any]:
    return [
        {"id": 0, "source": "user", "action": "message", "args": {"content": ASKED}},
        {"id": 1, "source": "environment", "observation": "agent_state_changed", "content": ""},
        *_rounds(
            lambda i: {
                "source": "agent",
                "action": "call_tool_mcp",
                "args": {"name": TOOL, "arguments": ARGUMENTS},
                "tool_call_metadata": {"tool_call_id": i, "function_name": TOOL},
            },
            lambda i, given, bad: {
                "source": "environment",
                "observation": "error" if bad else "mcp",
                "content": _text(given),
                "tool_call_metadata": {"tool_call_id": i, "function_name": TOOL},
            },
        ),
        {"id": 9, "source": "agent", "action": "finish", "args": {"final_thought": SAID}},
    ]


def crew_ai() -> list[Any]:
    return [
        {"task": ASKED, "agent": "Clerk", "status": "started"},
        *(
            {
                "thought": "",
                "tool": TOOL,
                "tool_input": json.dumps(ARGUMENTS),
                "text": "",
                "result": _text(given),
            }
            for _, given, _ in CALLS
        ),
        {"thought": "", "output": SAID, "text": "Final Answer"},
    ]


def executor() -> dict[str, Any]:
    steps = [[{"tool": TOOL, "tool_input": ARGUMENTS, "log": ""}, _text(given)] for _, given, _ in CALLS]
    return {"input": ASKED, "output": SAID, "intermediate_steps": steps}


def own_events() -> list[Any]:
    """A loop of one's own, without ids of calls, and with how the run began and ended."""
    return [
        {"event": "run_started", "model": "m"},
        {"event": "user_message", "content": ASKED},
        *_rounds(
            lambda _: {"event": "tool_call", "tool": TOOL, "args": ARGUMENTS},
            lambda _, given, bad: {"event": "tool_result", "tool": TOOL, "result": given, "ok": not bad},
        ),
        {"event": "assistant_message", "content": SAID},
        {"event": "run_finished", "success": False, "task_id": "t"},
    ]


def own_turns() -> dict[str, Any]:
    turns = [
        {"thought": "", "action": TOOL, "action_input": ARGUMENTS, "observation": given, "is_error": bad}
        for _, given, bad in CALLS
    ]
    return {"task": ASKED, "steps": turns, "final_answer": SAID}


FORMS: dict[str, Any] = {
    "responses": responses(),
    "responses apart": {"input": responses()[:1], "output": responses()[1:]},
    "langchain": langchain(),
    "langchain, messages_to_dict": [{"type": one["type"], "data": one} for one in langchain()],
    "langgraph, values": {"values": {"messages": langchain()}, "next": []},
    "langgraph, updates": [{"node": {"messages": [one]}} for one in langchain()],
    "ai sdk": ai_sdk(),
    "ai sdk, version 4": ai_sdk_4(),
    "ai sdk, model messages": ai_sdk_model(),
    "ai sdk, steps": ai_sdk_steps(),
    "mastra": {"messages": mastra()},
    "converse": {"messages": converse()},
    "haystack": haystack(),
    "llamaindex": {"chat_history": llama_index()},
    "semantic kernel": {"messages": semantic_kernel()},
    "agent framework": {"messages": agent_framework()},
    "pydantic-ai": pydantic_ai(),
    "autogen": {"messages": autogen(), "stop_reason": None},
    "claude agent sdk": claude_agent_sdk(),
    "adk": adk(),
    "codex": codex(),
    "smolagents": smolagents(),
    "openhands": openhands(),
    "crewai": crew_ai(),
    "agent executor": executor(),
    "own events": own_events(),
    "own turns": own_turns(),
}
"""By name: a run as its program writes it, an object or a list of entries."""
NO_MARK = frozenset(
    {"responses", "responses apart", "ai sdk, version 4", "mastra", "llamaindex", "semantic kernel", "codex"}
    | {"crewai", "agent executor"}
)
"""Forms in which nothing but a result's words says that a call failed."""
