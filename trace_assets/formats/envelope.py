"""Where in an object the conversation lies: what programs wrap around the list of messages.

`{"messages": [...]}` is the form of one's own; others call the list `history`, `items`, `events` or
`conversation`, keep it one object deeper (`{"values": {"messages": [...]}}`), or split it in what was asked
and what came (`input` and `output`). A file of single messages may hold many conversations, each row with the
name of its run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic_core import from_json

from trace_assets.formats.agent_steps import in_columns, steps_taken, walked
from trace_assets.formats.fields import dict_of
from trace_assets.formats.frameworks import translation
from trace_assets.formats.spans.chat_forms import answered, is_message
from trace_assets.formats.unread import LEFT_OUT, left_of

_LABEL = re.compile(
    r"^[ \t]*(thought|action input|action|observation|final answer)[ \t]*\d*[ \t]*:[ \t]*", re.I | re.M
)
_FEWEST = 2
"""Labels that a text must have for being such a run: an action and what came of it, or an answer."""


def turns_in(text: str) -> list[dict[str, Any]]:
    r"""Return the turns of such a text; none where it is another.

    >>> turns_in("Thought 1: I look.\nAction 1: Search[it]\nObservation 1: By Ann.\nFinal Answer: Ann")[0]
    {'thought': 'I look.', 'action': 'Search[it]', 'observation': 'By Ann.'}
    >>> turns_in("Action: look\nI would act."), turns_in("An observation: none")
    ([], [])
    """
    marks = list(_LABEL.finditer(text))
    if len(marks) < _FEWEST:
        return []
    ends = [one.start() for one in marks[1:]] + [len(text)]
    parts = [(one[1].lower(), text[one.end() : end].strip()) for one, end in zip(marks, ends, strict=True)]
    names = {name for name, _ in parts}
    if "action" not in names or not names & {"observation", "final answer"}:
        return []
    return list(_turns(parts))


def _turns(parts: Sequence[tuple[str, str]]) -> Iterator[dict[str, Any]]:
    turn: dict[str, Any] = {}
    for name, said in parts:
        if "action" in turn and name in ("thought", "action", "final answer"):
            yield {"thought": "", **turn}
            turn = {}
        if name == "final answer":
            yield {"thought": turn.pop("thought", ""), "action": "finish", "action_input": said}
        elif name == "action input":
            turn["action_input"] = said
        else:
            turn[name] = said
    if "action" in turn:
        yield {"thought": "", **turn}


LISTS = (
    *("messages", "contents", "conversation", "conversations", "chat_history", "history", "transcript"),
    *(
        "items",
        "events",
        "turns",
        "dialogue",
        "dialog",
        "all_messages",
        "new_messages",
        "trajectory",
        "steps",
    ),
    *("trace", "log", "input", "output"),
)
"""What the list of messages is called, the surest names first."""
INSIDE = (
    *("values", "state", "llm_context", "session", "result", "run", "data", "memory", "chat", "thread"),
    *(
        "channel_values",
        "checkpoint",
        "request",
        "turn_history",
        "history",
        "trajectory",
        "episode",
        "rollout",
    ),
)
"""Objects in which it may lie."""
RUN_NAMES = (
    *("trajectory_id", "episode_id", "session_id", "sessionId", "conversation_id", "conversationId"),
    *("thread_id", "threadId", "chat_id", "rollout_id", "run_id", "runId", "run", "trace_id", "traceId"),
)
"""Under which a row tells its run; a conversation may be of several requests, each with a `run_id`."""
ABOUT_RUN = (
    *("reward", "score", "success", "passed", "correct", "resolved", "pass", "verdict", "outcome", "solved"),
    *("task_id", "target", "trial", "user_policy", "expected_actions", "expected_outputs", "domain_policy"),
)
"""What an entry that is no message, or the object around them, may say of its run."""
_OTHERS = frozenset(
    {"schema_version", "nodes", "simulations", "reward_info", "run_type", "trajectory_format", "observations"}
    | {"resourceSpans", "spans", "span_id", "spanId", "span_kind", "parent_run_id", "samples", "traj"}
)
"""Fields of forms that have importers of their own."""
_MOST_LOOKED_AT = 20
"""Entries of a list that are looked at for the first message: notes and settings may come before it."""
OWN_LISTS = frozenset({"messages", "contents"})
"""What the list is called in the form of one's own and in Gemini's."""


def speaks(value: Any) -> bool:
    """Tell whether a value is a message, in any form that is read."""
    return isinstance(value, Mapping) and ("role" in value or is_entry(value))


def begun(head: bytes) -> list[dict[str, Any]]:
    r"""Return the first objects of an array, of JSON lines, or the one document, as far as a beginning goes.

    >>> begun(b'[{"a": 1}, {"b": [2'), begun(b'{"a": 1}\n{"b": 2}\n{"c'), begun(b"# Readme")
    ([{'a': 1}, {'b': [2]}], [{'a': 1}, {'b': 2}], [])
    """
    text = head.lstrip()
    if text[:1] not in (b"[", b"{"):
        return []
    found: list[Any] = []
    for line in text.split(b"\n", _MOST_LOOKED_AT)[:_MOST_LOOKED_AT]:
        try:
            found.append(from_json(line))
        except ValueError:
            if not found:  # one value over several lines, or a first line that is longer than this beginning
                break
    if not found:
        try:
            found = [from_json(text, allow_partial=True)]
        except ValueError:
            return []
    if len(found) == 1 and isinstance(found[0], list):
        found = found[0]
    return [one for one in found if isinstance(one, dict)]


def is_log(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Tell whether a file's first objects are entries of one log, of which some say something.

    Programs write how a run began before the first of them, in forms of their own.
    """
    few = rows[:_MOST_LOOKED_AT]
    if not few or any(OWN_LISTS & row.keys() or talk_in(row) is not None for row in few):
        return False
    return any(translation(row) or ("role" not in row and is_message(row)) for row in few)


def is_entry(value: Mapping[str, Any]) -> bool:
    """Tell whether an object is an entry of a list that a framework writes."""
    return is_message(value) or translation(value) is not None


def talk_in(row: Mapping[str, Any]) -> list[Any] | None:
    """Return the list of messages in an object; None when it has none.

    >>> talk_in({"history": [{"role": "user", "content": "Hi"}]}), talk_in({"items": [{"sku": 1}]})
    ([{'role': 'user', 'content': 'Hi'}], None)
    >>> talk_in({"input": "Hi", "output": [{"type": "message", "role": "assistant", "content": "Ho"}]})[0]
    {'role': 'user', 'content': 'Hi'}
    """
    if (turns := in_columns(row)) is not None:
        return _with_question(row, turns, before=True)
    if _OTHERS & row.keys():
        return None
    whole = _asked_and_answered(row) or _worked(row)
    if whole is not None:
        return _with_question(row, whole)
    for name in LISTS:
        if _is_talk(row.get(name)):
            return _with_question(row, [*row[name], *_last_words(row, row[name])])
    for name in (*LISTS, *_SCRATCH):
        if isinstance(row.get(name), str) and (written := turns_in(row[name])):
            return _with_question(row, written)
    for name in INSIDE:
        inner = row.get(name)
        if isinstance(inner, Mapping) and (found := talk_in(inner)) is not None:
            if name == "request":
                return [*found, *_reply(row, found)]
            return _with_question(row, found, before=in_columns(inner) is not None)
    return None


def opened(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return an object with its list of messages as `messages`; None when it has none."""
    found = talk_in(row)
    if found is None:
        return None
    rest = {key: value for key, value in row.items() if not (key in LISTS and _is_talk(value))}
    for name in INSIDE:
        inner = row.get(name)
        if isinstance(inner, Mapping) and talk_in(inner) is not None:
            del rest[name]
            rest = {**{key: inner[key] for key in ABOUT_RUN if inner.get(key) is not None}, **rest}
    others = {name: row[name] for name in LISTS if _is_talk(row.get(name))}
    if kinds := left_of(others, found):  # a second list beside the one that was taken
        before = dict_of(rest.get("metadata"))
        rest["metadata"] = {**before, LEFT_OUT: dict.fromkeys(kinds, 1)}
    if isinstance(rest.get("instructions"), str):  # as OpenAI's newer interface calls the system prompt
        rest.setdefault("system", rest.pop("instructions"))
    return {**rest, "messages": found}


def by_run(rows: Iterable[Any]) -> list[tuple[str, list[Any]]] | None:
    """Return single messages by the run that each names; None where they do not name two at least."""
    found: dict[str, list[Any]] = {}
    for row in rows:
        about = dict_of(row)
        name = next((about[key] for key in RUN_NAMES if about.get(key) not in (None, "")), None)
        if isinstance(name, str | int):
            found.setdefault(str(name), []).append(row)
        elif found:  # what names none belongs to what came before
            next(reversed(found.values())).append(row)
    return list(found.items()) if len(found) > 1 else None


def _is_talk(value: Any) -> bool:
    return isinstance(value, list) and any(speaks(one) for one in value[:_MOST_LOOKED_AT])


def _asked_and_answered(row: Mapping[str, Any]) -> list[Any] | None:
    """Return what lies apart as `input` and `output`, one behind the other."""
    asked, came = row.get("input"), row.get("output")
    if not isinstance(came, list) or not _is_talk(came):
        return None
    if isinstance(asked, str) and asked:
        return [{"role": "user", "content": asked}, *came]
    return [*asked, *came] if isinstance(asked, list) and _is_talk(asked) else None


_SCRATCH = ("scratchpad", "react")
"""What a run is called that was kept as one text."""
_QUESTIONS = ("prompt", "question", "query", "user_input", "user_message", "input", "goal", "task")
"""Fields with what was asked, where no message says it; a name without a space is no question."""
_FINAL = ("final_answer", "final_output", "final_response", "output", "text", "response")
"""Fields with what the agent said last, where its list ends with a tool's result."""
_ANSWERS = ("answer", "output", "final_answer", "response", "text")


def _with_question(row: Mapping[str, Any], talk: list[Any], before: bool = False) -> list[Any]:
    """Return a talk with what the object says was asked in front, where no message of the user's is in it.

    With `before` its first message may be what the agent saw at the beginning, which asks nothing.
    """
    question = next((row[name] for name in _QUESTIONS if isinstance(row.get(name), str) and row[name]), "")
    asked = talk[1:] if before else talk
    if " " not in question.strip() or any(isinstance(one, Mapping) and _is_users(one) for one in asked):
        return talk
    if before and talk and talk[0].get("content") == question:
        return talk
    return [{"role": "user", "content": question}, *talk]


def _last_words(row: Mapping[str, Any], talk: list[Any]) -> list[Any]:
    """Return what an agent said when its steps were over, where the steps do not say it."""
    said = next((row[name] for name in _FINAL if isinstance(row.get(name), str) and row[name]), "")
    last = talk[-1] if talk and isinstance(talk[-1], Mapping) else {}
    told = translation(last)
    if not said or not told or told[-1].get("role") != "tool":
        return []
    return [{"role": "assistant", "content": said}]


def _is_users(one: Mapping[str, Any]) -> bool:
    told = translation(one) or [dict(one)]
    return any(str(said.get("role") or said.get("type")).lower() in ("user", "human") for said in told)


def _worked(row: Mapping[str, Any]) -> list[Any] | None:
    """Return what an agent's result lists apart from what was asked and answered."""
    steps, walk = row.get("intermediate_steps"), row.get("trajectory")
    told = steps_taken(steps) if isinstance(steps, list) else None
    told = walked(walk) if told is None and isinstance(walk, Mapping) else told
    if told is None:
        return None
    said = next((row[name] for name in _ANSWERS if isinstance(row.get(name), str) and row[name]), "")
    return [*told, {"role": "assistant", "content": said}] if said else told


def _reply(row: Mapping[str, Any], talk: list[Any]) -> list[Any]:
    """Return what a server answered to a request that was kept beside it."""
    last = talk[-1] if talk and isinstance(talk[-1], Mapping) else {}
    return [] if last.get("role") == "assistant" else list(answered(row.get("response")))
