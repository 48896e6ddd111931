"""Steps of agents' programs: what a framework notes of a turn, its calls and their results in one object.

Known are the steps of Vercel's AI SDK (`generateText().steps`, `onStepFinish`), smolagents' memory, CrewAI's
steps, tool events and log file, the run items of OpenAI's Agents SDK, the messages of Gemini CLI, a call
with its result as LangChain's `AgentExecutor` returns them (`intermediate_steps`), and the turns of a loop of
one's own (`{"thought": ..., "action": ..., "action_input": ..., "observation": ...}`, or an action in words).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from trace_assets.formats.fields import dict_of, first_of, objects_in
from trace_assets.formats.spans.chat_forms import text_of

ACT = "act"
"""Tool that an action is of which names none: a command of a game, a query."""
_NAME = re.compile(r"[A-Za-z_][\w.-]*")
_BRACKETS = re.compile(r"([A-Za-z_][\w.-]*)\s*\[(.*)\]", re.DOTALL)
_UNCLOSED = re.compile(r"([A-Za-z_][\w.-]*)\[(.*)", re.DOTALL)
"""An action that broke off, or behind which the agent wrote more: what was meant to be called is plain."""
_ROUND = re.compile(r"([A-Za-z_][\w.]*)\((.*)\)", re.DOTALL)
_FENCE = re.compile(r"`{1,3}(?:\w+\n)?(.+?)`{1,3}", re.DOTALL)
_ASKING = frozenset({"search", "lookup", "look_up", "query", "google", "retrieve"})
"""Actions whose words are the agent's own: what is looked for nobody has to have said before."""
_LONGEST = 100_000
"""Characters of an action that is looked into: longer ones are texts that hold an action at most."""


def call_in(action: str) -> tuple[str, dict[str, Any]]:
    """Return the tool that an action names, and what it is given.

    What is given without a name is called `input` (`query` where something is searched for), what follows
    `input_2` and so on.

    >>> call_in("Search[Nick Park]"), call_in("type [164] [red pan] [1]")[1]
    (('Search', {'query': 'Nick Park'}), {'input': '164', 'input_2': 'red pan', 'input_3': '1'})
    >>> call_in("fill('237', value='a)b')"), call_in("submit")
    (('fill', {'input': '237', 'value': 'a)b'}), ('submit', {}))
    >>> call_in("go to desk 1"), call_in("SELECT max(a) FROM b")
    (('act', {'input': 'go to desk 1'}), ('act', {'input': 'SELECT max(a) FROM b'}))
    >>> call_in("look(around")
    ('act', {'input': 'look(around'})
    """
    text = action.strip()
    fenced = _FENCE.fullmatch(text[:_LONGEST])
    text = fenced[1].strip() if fenced else text
    if len(text) > _LONGEST:
        return ACT, {"input": text}
    if _NAME.fullmatch(text):
        return text, {}
    if found := _BRACKETS.fullmatch(text) or _UNCLOSED.fullmatch(text):
        values = _numbered(re.split(r"\]\s+\[", found[2]))
        if found[1].lower() in _ASKING:
            values = {"query" if name == "input" else name: value for name, value in values.items()}
        return found[1], values
    if (found := _ROUND.fullmatch(text)) and (given := _literals(text)) is not None:
        return found[1], given
    return ACT, {"input": text}


def _numbered(values: Iterable[Any]) -> dict[str, Any]:
    kept = (one for one in values if one != "")
    return {"input" if number == 1 else f"input_{number}": one for number, one in enumerate(kept, 1)}


def _literals(text: str) -> dict[str, Any] | None:
    """Return the arguments of a call in Python's form; None where they are not plain values."""
    try:
        called = ast.parse(text, mode="eval").body
        if not isinstance(called, ast.Call) or any(one.arg is None for one in called.keywords):
            return None
        plain = [ast.literal_eval(one) for one in called.args]
        named = {one.arg: ast.literal_eval(one.value) for one in called.keywords}
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    return {**_numbered(plain), **{str(name): value for name, value in named.items()}}


Said = dict[str, Any]
"""A message as `chat.read_chat` takes it, or as `chat_forms.in_chat_form` does."""
NOTE: list[Said] = []
"""What a form gives for an entry that it knows, and that says and does nothing that no other entry does.

A list that is empty because nothing was found is another one: words in such an entry are told of."""


def of_step(one: Mapping[str, Any]) -> list[Said] | None:
    """Return what a step says; None for what is none.

    >>> step = {"thought": "", "tool": "add", "tool_input": {"x": 1}, "result": "2"}
    >>> [said["role"] for said in of_step(step)]
    ['assistant', 'tool']
    """
    if "role" in one:
        return None
    for form in _FORMS:
        found = form(one)
        if found is not None:
            return found if found is NOTE else list(found)
    return None


def asks(number: Any, name: Any, given: Any, text: Any = None) -> Said:
    """Return a message that calls a tool."""
    calls = [{"id": number, "name": name, "arguments": given}]
    return {"role": "assistant", "content": text_of(text) or None, "tool_calls": calls}


def gives(number: Any, name: Any, content: Any, failed: Any = False) -> Said:
    """Return a tool's result."""
    number = None if number is None else str(number)
    said = {"role": "tool", "tool_call_id": number, "name": name, "content": text_of(content)}
    return {**said, "is_error": bool(failed)}


def says(role: str, texts: Iterable[Any], calls: list[Said], thoughts: Iterable[Any] = ()) -> Iterator[Said]:
    """Yield a message with its calls; nothing where it has neither words nor calls."""
    said: Said = {"role": role, "content": "\n".join(text_of(one) for one in texts if one) or None}
    if calls:
        said["tool_calls"] = calls
    if thought := "\n".join(text_of(one) for one in thoughts if one):
        said["reasoning"] = thought
    if said["content"] or calls:
        yield said


def _ai_sdk(one: Mapping[str, Any]) -> Iterable[Said] | None:
    """A step of Vercel's AI SDK: its parts in `content`, or `text`, `toolCalls` and `toolResults`."""
    parts = [part for part in objects_in(one.get("content")) if isinstance(part.get("type"), str)]
    if not parts and not isinstance(one.get("toolCalls"), list):
        return None
    if not {"finishReason", "stepType", "toolResults"} & one.keys():
        return None
    if not parts:
        parts = [{"type": "text", "text": one.get("text")}]
        parts += [{**used, "type": "tool-call"} for used in objects_in(one["toolCalls"])]
        parts += [{**gave, "type": "tool-result"} for gave in objects_in(one.get("toolResults"))]
    return _ai_sdk_parts(parts)


def _ai_sdk_parts(parts: list[Mapping[str, Any]]) -> Iterator[Said]:
    of = {kind: [part for part in parts if part["type"] == kind] for kind in _PARTS}
    calls = [
        {
            "id": used.get("toolCallId"),
            "name": used.get("toolName"),
            "arguments": first_of(used, "input", "args"),
        }
        for used in of["tool-call"]
    ]
    thoughts = [part.get("text") for part in of["reasoning"]]
    yield from says("assistant", [part.get("text") for part in of["text"]], calls, thoughts)
    for gave in of["tool-result"] + of["tool-error"]:
        broke = gave.get("error")
        given = dict_of(broke).get("message", broke) if broke else first_of(gave, "output", "result")
        yield gives(gave.get("toolCallId"), gave.get("toolName"), given, broke or gave.get("isError"))


_PARTS = ("text", "reasoning", "tool-call", "tool-result", "tool-error")


def _smolagents(one: Mapping[str, Any]) -> Iterable[Said] | None:
    if "type" in one:
        return None
    if isinstance(one.get("system_prompt"), str) and len(one) == 1:
        return [{"role": "system", "content": one["system_prompt"]}]
    if isinstance(one.get("task"), str) and "task_images" in one:
        return [{"role": "user", "content": one["task"]}]
    if "step_number" not in one or not {"observations", "tool_calls", "model_output"} & one.keys():
        return NOTE if "plan" in one and "model_output_message" in one else None
    return _smol_step(one)


def _smol_step(one: Mapping[str, Any]) -> Iterator[Said]:
    calls, broke, texts = [], dict_of(one.get("error")), [one.get("model_output")]
    for used in objects_in(one.get("tool_calls")):
        inner = dict_of(used.get("function")) or used
        if inner.get("name") == "final_answer":
            texts.append(dict_of(inner.get("arguments")).get("answer", inner.get("arguments")))
            continue
        calls.append({"id": used.get("id"), "name": inner.get("name"), "arguments": inner.get("arguments")})
    yield from says("assistant", texts, calls)
    given = broke.get("message") if broke else one.get("observations")
    if calls and given is not None:  # what several calls gave is one text
        yield gives(calls[-1]["id"], calls[-1]["name"], given, broke)


def _crew_ai(one: Mapping[str, Any]) -> Iterable[Said] | None:
    kind = one.get("type")
    if "thought" in one and isinstance(one.get("tool"), str) and "tool_input" in one:
        return _called(one, one.get("thought"), one.get("result"))
    if "thought" in one and isinstance(one.get("output"), str) and "text" in one:
        return says("assistant", [one["output"]], [], [one["text"]])
    if {"task", "agent", "status"} <= one.keys() and isinstance(one["task"], str):
        if one["status"] == "started":
            return says("user", [one["task"]], [])
        return says("assistant", [one.get("output")], [])
    if kind in ("tool_usage_finished", "tool_usage_error"):
        broke = one.get("error") if kind == "tool_usage_error" else None
        name = one.get("tool_name")
        return [asks(None, name, one.get("tool_args")), gives(None, name, broke or one.get("output"), broke)]
    return NOTE if isinstance(kind, str) and kind.startswith(_CREW_NOTES) else None


_CREW_NOTES = (
    "tool_usage_",
    "crew_kickoff_",
    "agent_execution_",
    "task_started",
    "task_completed",
    "llm_call_",
)


def _called(one: Mapping[str, Any], thought: Any, given: Any) -> Iterator[Said]:
    said = asks(None, one["tool"], one["tool_input"], thought)
    yield {**said, "reasoning": one["text"]} if one.get("text") else said  # all that the model wrote
    if given is not None:
        yield gives(None, one["tool"], given)


def _run_item(one: Mapping[str, Any]) -> Iterable[Said] | None:
    """An item of OpenAI's Agents SDK: what the server gave lies in `raw_item`."""
    raw, kind = one.get("raw_item"), one.get("type")
    if not isinstance(raw, Mapping) or not isinstance(kind, str):
        return None
    return NOTE if raw.get("type") == "reasoning" else [dict(raw)]


def _gemini_cli(one: Mapping[str, Any]) -> Iterable[Said] | None:
    calls = objects_in(one.get("toolCalls"))
    if one.get("type") != "gemini" or not (calls or isinstance(one.get("content"), str)):
        return None
    asked = [
        {"id": used.get("id"), "name": used.get("name"), "arguments": used.get("args")} for used in calls
    ]
    told = list(says("assistant", [one.get("content")], asked))
    for used in (one for one in calls if one.get("result")):
        answers = [dict_of(gave.get("functionResponse")) for gave in objects_in(used.get("result"))]
        given = [dict_of(gave.get("response")) for gave in answers]
        words = [one.get("output", one.get("error", one)) for one in given]
        failed = used.get("status") == "error"
        told.append(gives(used.get("id"), used.get("name"), "\n".join(map(text_of, words)), failed))
    return told


def _react(one: Mapping[str, Any]) -> Iterable[Said] | None:
    """A turn of a loop of one's own: what was thought, which tool was used, what was observed."""
    used = first_of(one, "tool", "tool_name", "action", "tool_call")
    inner = dict_of(used)
    name = inner.get("name", inner.get("tool")) if inner else used
    given = first_of(inner, *_ARGUMENTS) if inner else first_of(one, *_ARGUMENTS)
    if not isinstance(name, str) or {"type", "event", "kind", "source"} & one.keys():
        return None
    of_turn = {"thought", "reasoning", "step"} & one.keys()
    if not (_SEEN & one.keys() or (of_turn and "action" in one)):
        return None
    if given is None and not (of_turn or {"action", "observation"} <= one.keys()):
        return None
    if given is None:
        name, given = call_in(name)
    thought, seen = first_of(one, "thought", "reasoning"), first_of(one, *sorted(_SEEN))
    if name.lower().replace(" ", "_") in _ENDS:
        texts = dict_of(given).values() if isinstance(given, Mapping) else [given or seen]
        return says("assistant", texts, [], [thought])
    failed = one.get("error") or one.get("is_error") or one.get("ok") is False
    call = {"id": None, "name": name, "arguments": given}
    said = list(says("assistant", [], [call], [thought]))
    if seen is None and not failed:  # the last action of a run, after which nobody looked
        return said
    return [*said, gives(None, name, one.get("error") or seen, failed)]


_ENDS = ("finish", "final_answer", "answer", "respond", "done", "stop", "send_msg_to_user")
_ARGUMENTS = ("action_input", "tool_input", "tool_args", "args", "arguments", "input", "parameters", "params")
_SEEN = frozenset({"observation", "obs", "tool_output", "tool_result", "result"})


def steps_taken(pairs: Iterable[Any]) -> list[Said] | None:
    """Return what LangChain's `intermediate_steps` say, pairs of call and result; None if they are none."""
    told: list[Said] = []
    for pair in pairs:
        if not isinstance(pair, list | tuple) or len(pair) != 2 or not isinstance(pair[0], Mapping):
            return None
        action = dict_of(pair[0].get("kwargs")) or dict(pair[0])
        if not isinstance(action.get("tool"), str):
            return None
        number, name = action.get("tool_call_id"), action["tool"]
        told += [asks(number, name, action.get("tool_input")), gives(number, name, pair[1])]
    return told


def in_columns(row: Mapping[str, Any]) -> list[Said] | None:
    """Return what a list of actions beside one of observations says; None if there are none.

    Where there is one observation more, the first is what the agent saw before it did anything.

    >>> said = in_columns({"actions": ["look", "take[pan]"], "observations": ["a room", "a pan", "taken"]})
    >>> [one["role"] for one in said]
    ['user', 'assistant', 'tool', 'assistant', 'tool']
    """
    did, saw = row.get("actions"), row.get("observations")
    if not (isinstance(did, list) and isinstance(saw, list) and did):
        return None
    if not all(isinstance(one, str) for one in did) or not all(isinstance(one, str) for one in saw):
        return None
    before = len(saw) - len(did)
    if before not in (0, 1):
        return None
    thoughts = row.get("thoughts")
    kept = thoughts if isinstance(thoughts, list) and len(thoughts) == len(did) else [""] * len(did)
    told: list[Said] = [{"role": "user", "content": saw[0]}] if before else []
    for number, (action, seen) in enumerate(zip(did, saw[before:], strict=True)):
        turn = {"thought": kept[number], "action": action, "observation": seen}
        told += _react(turn) or ()
    return told


def walked(trajectory: Mapping[str, Any]) -> list[Said] | None:
    """Return what the trajectory of DSPy's `ReAct` says (`tool_name_0`, `observation_0`, ...)."""
    told: list[Said] = []
    number = 0
    while isinstance(name := trajectory.get(f"tool_name_{number}"), str):
        if name != "finish":
            said = asks(
                None, name, trajectory.get(f"tool_args_{number}"), trajectory.get(f"thought_{number}")
            )
            given = text_of(trajectory.get(f"observation_{number}"))
            told += [said, gives(None, name, given, given.startswith("Execution error in "))]
        number += 1
    return told if number else None


_FORMS: tuple[Callable[[Mapping[str, Any]], Iterable[Said] | None], ...] = (
    _ai_sdk,
    _smolagents,
    _crew_ai,
    _run_item,
    _gemini_cli,
    _react,
)
