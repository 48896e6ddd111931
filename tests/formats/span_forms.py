"""One conversation as the exports of every tool hold it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

ASKED = "Cancel order W1."
DONE = "It is cancelled."
ARGUMENTS = {"order": "W1"}
RESULT = '{"status": "open"}'
CALL = {"id": "c1", "type": "function", "function": {"name": "get_order", "arguments": json.dumps(ARGUMENTS)}}
SYSTEM: dict[str, Any] = {"role": "system", "content": "Be brief."}
USER: dict[str, Any] = {"role": "user", "content": ASKED}
CALLS: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": [CALL]}
ANSWER: dict[str, Any] = {"role": "tool", "tool_call_id": "c1", "content": RESULT}
SAYS: dict[str, Any] = {"role": "assistant", "content": DONE}
START = 1_700_000_000
FACTS = {"task_id": "7", "trial": 2, "instruction": "You want W1 cancelled."}


def _otlp(spans: list[dict[str, Any]], resource: dict[str, Any] | None = None) -> dict[str, Any]:
    place = {"attributes": _wrapped(resource or {"service.name": "shop"})}
    return {"resourceSpans": [{"resource": place, "scopeSpans": [{"scope": {"name": "x"}, "spans": spans}]}]}


def _wrapped(attributes: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in attributes.items()]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, list):
        return {"arrayValue": {"values": [_value(one) for one in value]}}
    return {"stringValue": value if isinstance(value, str) else json.dumps(value)}


def _span(number: int, name: str, attributes: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "traceId": "t1",
        "spanId": f"s{number}",
        "parentSpanId": "" if number == 0 else "s0",
        "name": name,
        "startTimeUnixNano": str((START + number) * 10**9),
        "endTimeUnixNano": str((START + number + 1) * 10**9),
        "attributes": _wrapped(attributes),
        "status": {},
        **changes,
    }


def _about() -> dict[str, Any]:
    return {f"app.metadata.{key}": value for key, value in FACTS.items()}


def gen_ai() -> dict[str, Any]:
    """The conventions as they are: messages of parts, as JSON in attributes."""

    def model(number: int, fed: list[Any], said: list[Any]) -> dict[str, Any]:
        own = {
            "gen_ai.operation.name": "chat",
            "gen_ai.response.model": "m-1",
            "gen_ai.usage.input_tokens": 10,
            "gen_ai.usage.output_tokens": 2,
            "gen_ai.system_instructions": json.dumps([{"type": "text", "content": "Be brief."}]),
            "gen_ai.input.messages": json.dumps(fed),
            "gen_ai.output.messages": json.dumps(said),
        }
        return _span(number, "chat m-1", own)

    user = {"role": "user", "parts": [{"type": "text", "content": ASKED}]}
    part = {"type": "tool_call", "id": "c1", "name": "get_order", "arguments": ARGUMENTS}
    calls = {"role": "assistant", "parts": [part], "finish_reason": "tool_call"}
    response = {"type": "tool_call_response", "id": "c1", "response": RESULT}
    answer = {"role": "tool", "parts": [response]}
    says = {"role": "assistant", "parts": [{"type": "text", "content": DONE}], "finish_reason": "stop"}
    tool = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "get_order",
        "gen_ai.tool.call.id": "c1",
    }
    root = {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": "k", **_about()}
    score = {"gen_ai.evaluation.name": "correctness", "gen_ai.evaluation.score.value": 1}
    event = {"name": "gen_ai.evaluation.result", "attributes": _wrapped(score)}
    return _otlp(
        [
            _span(0, "invoke_agent shop", root, events=[event]),
            model(1, [user], [calls]),
            _span(2, "execute_tool get_order", tool),
            model(3, [user, calls, answer], [says]),
        ]
    )


def gen_ai_events() -> dict[str, Any]:
    """The conventions before: an event a message."""

    def event(name: str, **attributes: Any) -> dict[str, Any]:
        return {"name": name, "attributes": _wrapped(attributes)}

    first = [
        event("gen_ai.system.message", content="Be brief."),
        event("gen_ai.user.message", content=ASKED),
    ]
    called = [event("gen_ai.choice", message=json.dumps({"role": "assistant", "tool_calls": [CALL]}))]
    second = [
        event("gen_ai.assistant.message", tool_calls=json.dumps([CALL])),
        event("gen_ai.tool.message", content=RESULT, id="c1"),
    ]
    said = [event("gen_ai.choice", message=json.dumps(SAYS))]
    own = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m-1"}
    own |= {"gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 2}
    return _otlp(
        [
            _span(0, "agent", {**_about(), "app.metadata.reward": 1}),
            _span(1, "chat m-1", own, events=[*first, *called]),
            _span(3, "chat m-1", own, events=[*first, *second, *said]),
        ]
    )


def _open_inference(number: int) -> dict[str, Any]:
    """Attributes of OpenInference, flat."""
    if number == 0:
        own: dict[str, Any] = {
            "openinference.span.kind": "AGENT",
            "metadata": json.dumps({**FACTS, "reward": 1}),
        }
        return own
    if number == 2:
        return {
            "openinference.span.kind": "TOOL",
            "tool.name": "get_order",
            "input.value": json.dumps(ARGUMENTS),
            "output.value": RESULT,
        }
    own = {
        "openinference.span.kind": "LLM",
        "llm.model_name": "m-1",
        "llm.token_count.prompt": 10,
        "llm.token_count.completion": 2,
    }
    fed = [SYSTEM, USER] if number == 1 else [SYSTEM, USER, CALLS, ANSWER]
    for place, one in enumerate(fed):
        own |= _numbered(f"llm.input_messages.{place}.message", one)
    return own | _numbered("llm.output_messages.0.message", CALLS if number == 1 else SAYS)


def _numbered(before: str, one: dict[str, Any]) -> dict[str, Any]:
    found = {f"{before}.role": one["role"]}
    if one.get("content"):
        found[f"{before}.content"] = one["content"]
    if one.get("tool_call_id"):
        found[f"{before}.tool_call_id"] = one["tool_call_id"]
    for place, call in enumerate(one.get("tool_calls") or ()):
        inner = f"{before}.tool_calls.{place}.tool_call"
        found[f"{inner}.id"] = call["id"]
        found[f"{inner}.function.name"] = call["function"]["name"]
        found[f"{inner}.function.arguments"] = call["function"]["arguments"]
    return found


def open_inference() -> dict[str, Any]:
    resource = {"openinference.project.name": "shop"}
    return _otlp([_span(n, f"step {n}", _open_inference(n)) for n in range(4)], resource)


def phoenix() -> dict[str, Any]:
    """Phoenix's REST interface."""
    rows = [
        {
            "id": f"U{n}",
            "name": f"step {n}",
            "context": {"trace_id": "t1", "span_id": f"s{n}"},
            "span_kind": _open_inference(n)["openinference.span.kind"],
            "parent_id": "s0" if n else None,
            "start_time": f"2023-11-14T22:13:{20 + n}+00:00",
            "end_time": f"2023-11-14T22:13:{21 + n}+00:00",
            "status_code": "OK",
            "status_message": "",
            "attributes": {**_open_inference(n), "openinference.project.name": "shop"},
            "events": [],
        }
        for n in range(4)
    ]
    return {"data": rows, "next_cursor": None}


def phoenix_rows() -> list[dict[str, Any]]:
    """Rows of its data frame."""
    return [
        {
            "name": f"step {n}",
            "context.trace_id": "t1",
            "context.span_id": f"s{n}",
            "span_kind": _open_inference(n)["openinference.span.kind"],
            "parent_id": "s0" if n else None,
            "start_time": (START + n) * 1000,
            "end_time": (START + n + 1) * 1000,
            "status_code": "UNSET",
            "attributes.openinference.project.name": "shop",
            **{f"attributes.{key}": value for key, value in _open_inference(n).items()},
        }
        for n in range(4)
    ]


def langfuse() -> dict[str, Any]:
    """A whole trace, as its interface gives it."""
    usage = {"input": 10, "output": 2, "total": 12}
    generation = {"type": "GENERATION", "model": "m-1", "usageDetails": usage}
    observations: list[dict[str, Any]] = [
        {"type": "AGENT", "input": {"messages": [USER]}},
        {**generation, "input": [SYSTEM, USER], "output": CALLS},
        {"type": "TOOL", "name": "get_order", "input": ARGUMENTS, "output": RESULT},
        {
            **generation,
            "input": [SYSTEM, USER, CALLS, ANSWER],
            "output": {"role": "assistant", "content": DONE},
        },
    ]
    return {
        "id": "t1",
        "name": "shop",
        "timestamp": "2023-11-14T22:13:20.000Z",
        "sessionId": "k",
        "tags": [],
        "metadata": FACTS,
        "scores": [{"name": "correctness", "value": 1, "dataType": "BOOLEAN"}],
        "observations": [
            {
                "id": f"s{n}",
                "traceId": "t1",
                "name": f"step {n}",
                "parentObservationId": "s0" if n else None,
                "startTime": f"2023-11-14T22:13:{20 + n}.000Z",
                "endTime": f"2023-11-14T22:13:{21 + n}.000Z",
                **one,
            }
            for n, one in enumerate(observations)
        ],
    }


def langfuse_rows() -> list[dict[str, Any]]:
    """Its tables, one after the other, as they are exported to a bucket."""
    whole = langfuse()
    names = {"traceId": "trace_id", "parentObservationId": "parent_observation_id", "startTime": "start_time"}
    names |= {"endTime": "end_time", "usageDetails": "usage_details", "sessionId": "session_id"}
    names |= {"dataType": "data_type"}

    def renamed(row: dict[str, Any]) -> dict[str, Any]:
        kept = {names.get(key, key): value for key, value in row.items()}
        texts = ("input", "output", "metadata")
        return {
            key: json.dumps(value) if key in texts and not isinstance(value, str) else value
            for key, value in kept.items()
        }

    head = {key: value for key, value in whole.items() if key not in ("observations", "scores")}
    rows = [renamed({**head, "user_id": None, "release": None})]
    rows += [renamed(one) for one in whole["observations"]]
    return [*rows, *(renamed({"trace_id": "t1", **one}) for one in whole["scores"])]


def _constructed(message: dict[str, Any]) -> dict[str, Any]:
    """A message as LangChain writes it down."""
    names = {
        "system": "SystemMessage",
        "user": "HumanMessage",
        "assistant": "AIMessage",
        "tool": "ToolMessage",
    }
    kept: dict[str, Any] = {"content": message["content"] or ""}
    if message.get("tool_calls"):
        kept["tool_calls"] = [{"name": "get_order", "args": ARGUMENTS, "id": "c1", "type": "tool_call"}]
    if message.get("tool_call_id"):
        kept["tool_call_id"] = message["tool_call_id"]
    path = ["langchain", "schema", "messages", names[message["role"]]]
    return {"lc": 1, "type": "constructor", "id": path, "kwargs": kept}


def langsmith() -> list[dict[str, Any]]:
    def run(number: int, kind: str, inputs: Any, outputs: Any, **changes: Any) -> dict[str, Any]:
        return {
            "id": f"s{number}",
            "trace_id": "t1",
            "parent_run_id": "s0" if number else None,
            "name": "shop" if number == 0 else f"step {number}",
            "run_type": kind,
            "start_time": f"2023-11-14T22:13:{20 + number}.000000",
            "end_time": f"2023-11-14T22:13:{21 + number}.000000",
            "inputs": inputs,
            "outputs": outputs,
            "error": None,
            "extra": {"metadata": {"ls_model_name": "m-1"}} if kind == "llm" else {},
            **changes,
        }

    def model(number: int, fed: list[Any], said: dict[str, Any]) -> dict[str, Any]:
        inputs = {"messages": [[_constructed(one) for one in fed]]}
        outputs = {"generations": [[{"text": said["content"] or "", "message": _constructed(said)}]]}
        return run(number, "llm", inputs, outputs, prompt_tokens=10, completion_tokens=2, total_tokens=12)

    return [
        run(
            0,
            "chain",
            {"messages": [USER]},
            {"messages": []},
            extra={"metadata": FACTS},
            feedback_stats={"correctness": {"n": 1, "avg": 1.0}},
        ),
        model(1, [SYSTEM, USER], CALLS),
        run(2, "tool", {"input": json.dumps(ARGUMENTS)}, {"output": _constructed(ANSWER)}),
        model(3, [SYSTEM, USER, CALLS, ANSWER], SAYS),
    ]


def mlflow() -> dict[str, Any]:
    def span(number: int, kind: str, inputs: Any, outputs: Any, **attributes: Any) -> dict[str, Any]:
        own = {
            "mlflow.spanType": kind,
            "mlflow.spanInputs": inputs,
            "mlflow.spanOutputs": outputs,
            **attributes,
        }
        return {
            "trace_id": "YmFzZTY0",
            "span_id": f"s{number}",
            "parent_span_id": "s0" if number else None,
            "name": "get_order" if kind == "TOOL" else f"step {number}",
            "start_time_unix_nano": (START + number) * 10**9,
            "end_time_unix_nano": (START + number + 1) * 10**9,
            "status": {"code": "STATUS_CODE_OK", "message": ""},
            "attributes": {key: json.dumps(value) for key, value in own.items()},
            "events": [],
        }

    usage = {"mlflow.chat.tokenUsage": {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12}}
    first = {"model": "m-1", "messages": [SYSTEM, USER]}
    second = {"model": "m-1", "messages": [SYSTEM, USER, CALLS, ANSWER]}
    spans = [
        span(0, "AGENT", {"question": ASKED}, DONE),
        span(1, "CHAT_MODEL", first, {"choices": [{"message": CALLS}]}, model="m-1", **usage),
        span(2, "TOOL", ARGUMENTS, RESULT),
        span(3, "CHAT_MODEL", second, {"choices": [{"message": SAYS}]}, model="m-1", **usage),
    ]
    info = {
        "trace_id": "t1",
        "state": "OK",
        "request_time": "2023-11-14T22:13:20Z",
        "trace_metadata": {"mlflow.trace.session": "k", **{key: str(value) for key, value in FACTS.items()}},
        "tags": {"mlflow.traceName": "shop"},
        "assessments": [
            {"assessment_name": "correctness", "feedback": {"value": 1}},
            {"assessment_name": "expected_response", "expectation": {"value": "It is cancelled"}},
        ],
    }
    return {"info": info, "data": {"spans": spans}}


def mlflow_tags() -> dict[str, Any]:
    """A trace of an earlier version."""
    whole = mlflow()
    info, spans = whole["info"], whole["data"]["spans"]
    old = {
        "request_id": "t1",
        "status": "OK",
        "timestamp_ms": START * 1000,
        "assessments": info["assessments"],
    }
    old["request_metadata"] = [{"key": key, "value": value} for key, value in info["trace_metadata"].items()]
    old["tags"] = [{"key": key, "value": value} for key, value in info["tags"].items()]
    rows = []
    for one in spans:
        own = {
            **one,
            "context": {"trace_id": "0x1", "span_id": one["span_id"]},
            "parent_id": one["parent_span_id"],
        }
        own |= {"start_time": one["start_time_unix_nano"], "end_time": one["end_time_unix_nano"]}
        own |= {"status_code": "OK", "status_message": ""}
        drop = (
            "span_id",
            "trace_id",
            "parent_span_id",
            "status",
            "start_time_unix_nano",
            "end_time_unix_nano",
        )
        rows.append({key: value for key, value in own.items() if key not in drop})
    return {
        "info": old,
        "data": {"request": json.dumps({"question": ASKED}), "response": DONE, "spans": rows},
    }


def traceloop() -> dict[str, Any]:
    """Numbered attributes, as OpenLLMetry writes them."""

    def told(before: str, one: dict[str, Any]) -> dict[str, Any]:
        found = {f"{before}.{key}": one[key] for key in ("role", "content", "tool_call_id") if one.get(key)}
        for place, call in enumerate(one.get("tool_calls") or ()):
            own = {"id": call["id"], **call["function"]}
            found |= {f"{before}.tool_calls.{place}.{key}": value for key, value in own.items()}
        return found

    def model(number: int, fed: list[dict[str, Any]], said: dict[str, Any]) -> dict[str, Any]:
        own: dict[str, Any] = {"llm.request.type": "chat", "gen_ai.request.model": "m-1"}
        own |= {"gen_ai.usage.prompt_tokens": 10, "gen_ai.usage.completion_tokens": 2}
        for place, one in enumerate(fed):
            own |= told(f"gen_ai.prompt.{place}", one)
        return _span(number, "openai.chat", own | told("gen_ai.completion.0", said))

    about = {f"traceloop.association.properties.metadata.{key}": value for key, value in FACTS.items()}
    root = {"traceloop.span.kind": "workflow", **about, "app.metadata.reward": 1}
    tool = {"traceloop.span.kind": "tool", "traceloop.entity.name": "get_order"}
    tool |= {"traceloop.entity.input": json.dumps(ARGUMENTS), "traceloop.entity.output": RESULT}
    return _otlp(
        [
            _span(0, "shop.workflow", root),
            model(1, [SYSTEM, USER], CALLS),
            _span(2, "get_order.tool", tool),
            model(3, [SYSTEM, USER, CALLS, ANSWER], SAYS),
        ]
    )


def vercel() -> dict[str, Any]:
    """Vercel's AI SDK: a span around all steps, one a step, one a tool."""
    user = {"role": "user", "content": [{"type": "text", "text": ASKED}]}
    part = {"toolCallId": "c1", "toolName": "get_order", "input": ARGUMENTS}
    calls = {"role": "assistant", "content": [{"type": "tool-call", **part}]}
    result = {"type": "tool-result", "toolCallId": "c1", "toolName": "get_order"}
    answer = {"role": "tool", "content": [{**result, "output": {"type": "text", "value": RESULT}}]}

    def step(number: int, fed: list[Any], **said: str) -> dict[str, Any]:
        own = {"ai.operationId": "ai.generateText.doGenerate", "ai.model.id": "m-1"}
        own |= {"ai.prompt.messages": json.dumps(fed), "gen_ai.request.model": "m-1"}
        tokens = {"gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 2}
        return _span(number, "ai.generateText.doGenerate", {**own, **tokens, **said})

    root = {"ai.operationId": "ai.generateText", "ai.model.id": "m-1", "ai.response.text": DONE}
    root |= {"ai.prompt": json.dumps({"system": "Be brief.", "messages": [USER]})}
    root |= {f"ai.telemetry.metadata.{key}": value for key, value in {**FACTS, "reward": 1}.items()}  # type: ignore[misc]
    tool = {"ai.operationId": "ai.toolCall", "ai.toolCall.name": "get_order", "ai.toolCall.id": "c1"}
    tool |= {"ai.toolCall.args": json.dumps(ARGUMENTS), "ai.toolCall.result": RESULT}
    return _otlp(
        [
            _span(0, "ai.generateText", root),
            step(1, [SYSTEM, user], **{"ai.response.toolCalls": json.dumps([part])}),
            _span(2, "ai.toolCall", tool),
            step(3, [SYSTEM, user, calls, answer], **{"ai.response.text": DONE}),
        ]
    )


def sdk() -> list[dict[str, Any]]:
    """What the SDK's exporter to the console writes."""
    return [
        {
            "name": f"step {n}",
            "context": {"trace_id": "t1", "span_id": f"s{n}", "trace_state": "[]"},
            "kind": "SpanKind.INTERNAL",
            "parent_id": "s0" if n else None,
            "start_time": f"2023-11-14T22:13:{20 + n}.000000Z",
            "end_time": f"2023-11-14T22:13:{21 + n}.000000Z",
            "status": {"status_code": "UNSET"},
            "attributes": _open_inference(n),
            "events": [],
            "links": [],
            "resource": {"attributes": {"service.name": "shop"}, "schema_url": ""},
        }
        for n in range(4)
    ]


def langsmith_tree() -> dict[str, Any]:
    """A run with those inside it."""
    root, *inner = langsmith()
    for one in inner:
        del one["trace_id"]
    return {**root, "child_runs": inner}


def mlflow_rows() -> dict[str, Any]:
    """A row of its data frame."""
    whole = mlflow()
    return {
        **whole["info"],
        "spans": whole["data"]["spans"],
        "request": {"question": ASKED},
        "response": DONE,
    }


FORMS: dict[str, Callable[[], Any]] = {
    one.__name__: one
    for one in (
        *(gen_ai, gen_ai_events, open_inference, phoenix, phoenix_rows),
        *(langfuse, langfuse_rows, langsmith, langsmith_tree, mlflow, mlflow_tags, mlflow_rows),
        *(traceloop, vercel, sdk),
    )
}
