"""tau-bench (the first version): `{task_id, reward, info, traj, trial}`, an array or JSON lines of them.

`info.task` holds what the simulated user was told and the calls of the ground truth. Agents that act in text
(`Thought: ... Action: {"name": ..., "arguments": ...}`) are given calls and results of their own, so that
they read as agents that call tools.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from trace_assets.formats.batch_files import batch_of
from trace_assets.formats.documents import first_object, read_documents
from trace_assets.formats.fields import dict_of
from trace_assets.formats.openai_chat import read_conversation
from trace_assets.formats.problem import UNUSABLE, Problem, Reading
from trace_assets.formats.task_facts import TaskFacts, expected_actions
from trace_assets.records import Check, Task, Trajectory
from trace_assets.untrusted.allowance import OF_MACHINE, Allowance
from trace_assets.untrusted.json_text import read_embedded

_HEADING = re.compile(r"^#+\s*(\w[\w -]*?)\s+agent\s+policy\b", re.IGNORECASE | re.MULTILINE)
_NAME = re.compile(
    r"^(?P<how>tool-calling|act|react|few-shot)-(?P<model>.+)-(?P<heat>\d+(?:\.\d+)?)_range_-?\d+-+\d+"
    r"_user-(?P<user>.+)-(?P<played>[a-z_]+?)(?:_\d+)?$"
)
"""How tau-bench names its files."""
_ACTION = re.compile(r"^\s*(?P<thought>.*?)\s*Action:\s*(?P<call>\{.*\})\s*$", re.DOTALL)
_RESULT = "API output: "
_RESPOND = "respond"
_REFUSED = re.compile(r"\s*(?:Error\b|Unknown action\b)")
"""With what tau-bench's tools begin when they refuse."""
_STOP = "###STOP###"
_TRANSFER = "transfer_to_human_agents"


class _Setting(NamedTuple):
    """What a file's name tells."""

    model: str
    user: str
    how: str | None = None
    heat: float | None = None


class TauBenchImporter:
    """Reads the results of tau-bench's first version."""

    name = "tau_bench"

    def sniff(self, path: Path, head: bytes) -> bool:
        """Tell whether the file begins with a result of tau-bench."""
        if head.lstrip()[:1] not in (b"[", b"{"):
            return False
        row = first_object(head)
        if "traj" in row:
            return isinstance(row["traj"], list) and bool({"reward", "task_id", "info"} & set(row))
        about = row.get("info")  # so long that the head ends before `traj`
        return (
            {"task_id", "reward"} <= set(row) and isinstance(about, dict) and {"task", "source"} <= set(about)
        )

    def read(self, path: Path, allowance: Allowance = OF_MACHINE) -> Iterator[Task | Trajectory | Problem]:
        """Yield the results, each task once."""
        reading, met = Reading(path), Counter[str]()
        for row in read_documents(path, allowance):
            if isinstance(row, Problem):
                yield row
                continue
            position, value = row
            try:
                trajectory, notice, facts = _result(path, value, met)
            except UNUSABLE as error:
                yield reading.left_out(error, position, "this result")
                continue
            yield from reading.told(trajectory, notice, position, facts)


def _result(path: Path, row: Any, met: Counter[str]) -> tuple[Trajectory, str, TaskFacts]:
    if not isinstance(row, dict):
        raise ValueError(f"a result is a JSON object, not a {type(row).__name__}")
    raw = row.get("traj")
    if not isinstance(raw, list):
        raise ValueError("there is no list 'traj'")
    if row.get("task_id") in (None, ""):
        raise ValueError("there is no 'task_id'")
    batch, setting, info = batch_of(path), _setting(path), dict_of(row.get("info"))
    messages = list(_messages(raw))
    name = f"{batch}/{row['task_id']}-{row.get('trial') or 0}"
    met[name] += 1
    task, verdict = dict_of(info.get("task")), dict_of(info.get("reward_info"))
    chat = {
        "messages": messages,
        "trajectory_id": name if met[name] == 1 else f"{name}-{met[name]}",
        "task_id": str(row["task_id"]),
        "target": f"tau_bench:{_domain(messages, path)}",
        "trial": row.get("trial"),
        "reward": row.get("reward"),
        "model": info.get("model") or setting.model,
        "user_policy": setting.user,
        "error": info.get("error"),
        "stop_reason": _stop(messages),
        "date": row.get("timestamp"),
        "metadata": {key: info[key] for key in ("source", "user_cost", "traceback") if info.get(key)},
    }
    trajectory, notice = read_conversation(path, 0, chat)
    options = {} if setting.heat is None else {"temperature": setting.heat}
    update = {
        "source": f"tau_bench:{path.name}",
        "agent": setting.how,
        "model_options": options,
        "checks": tuple(_checks(verdict, row.get("reward"))),
        "messages": tuple(
            one.model_copy(update={"is_error": True})
            if one.role == "tool" and _REFUSED.match(one.content or "")
            else one
            for one in trajectory.messages
        ),
    }
    return trajectory.model_copy(update=update), notice, _facts(task)


def _facts(task: Mapping[str, Any]) -> TaskFacts:
    actions = task.get("actions")
    told = [one for one in actions or () if not (isinstance(one, dict) and one.get("name") == _RESPOND)]
    return TaskFacts(
        instruction=str(task.get("instruction") or ""),
        has_expected=isinstance(actions, list),
        expected_actions=expected_actions(told),
        expected_outputs=tuple(str(one) for one in task.get("outputs") or ()),
    )


def _checks(verdict: Mapping[str, Any], reward: Any) -> Iterator[Check]:
    """Yield what was looked at: the state, or, where something is to be told, each of that.

    Where something is to be told the state's verdict is not kept; when all was told in a run that failed, it
    is the state that failed.
    """
    info = dict_of(verdict.get("info"))
    told = dict_of(info.get("outputs"))
    if "r_actions" in info:
        yield Check(name="state", kind="state", passed=bool(info["r_actions"]))
    elif told and all(told.values()) and reward == 0:
        yield Check(name="state", kind="state", passed=False)
    for number, (what, heard) in enumerate(told.items()):
        passed_it = heard if isinstance(heard, bool) else None
        yield Check(name=f"communicate/{number}", kind="communicate", passed=passed_it, detail=str(what))


def _messages(raw: list[Any]) -> Iterator[Any]:
    """Yield the messages, calls and results that were written as text in the chat form."""
    textual = not any(
        isinstance(one, dict) and (one.get("tool_calls") or one.get("role") == "tool") for one in raw
    )
    waiting: str | None = None
    for number, one in enumerate(raw):
        said = one.get("content") if isinstance(one, dict) else None
        if not textual or not isinstance(said, str):
            yield one
            continue
        if one["role"] == "user" and waiting is not None and said.startswith(_RESULT):
            yield {"role": "tool", "tool_call_id": waiting, "content": said.removeprefix(_RESULT)}
            waiting = None
            continue
        found = _ACTION.match(said) if one["role"] == "assistant" else None
        call = _call(found["call"]) if found else None
        if found is None or call is None:
            yield one
            continue
        thought = found["thought"].removeprefix("Thought:").strip()
        spoken = {"role": "assistant", "reasoning": thought or None}
        if call["name"] == _RESPOND:
            yield {**spoken, "content": str(call["arguments"].get("content", ""))}
        else:
            waiting = f"call_{number}"
            yield {**spoken, "content": None, "tool_calls": [{"id": waiting, **call}]}


def _call(text: str) -> dict[str, Any] | None:
    try:
        value = read_embedded(text)
    except ValueError:
        return None
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        return None
    return {"name": value["name"], "arguments": dict_of(value.get("arguments"))}


def _stop(messages: list[Any]) -> str | None:
    """Return how an episode ended: by its user, by a transfer, or as its steps came to an end."""
    said = [one for one in messages if isinstance(one, dict)]
    if not said:
        return None
    if any(_STOP in str(one.get("content")) for one in said[-2:] if one.get("role") == "user"):
        return "user_stop"
    calls = [call for one in said[-3:] for call in one.get("tool_calls") or () if isinstance(call, dict)]
    if any(_TRANSFER in str(dict_of(call.get("function")).get("name", call.get("name"))) for call in calls):
        return "transfer"
    return "max_steps"


def _setting(path: Path) -> _Setting:
    found = _NAME.match(path.stem)
    if found is None:
        return _Setting(path.stem, "unknown")
    return _Setting(
        found["model"], f"{found['user']} ({found['played']})", found["how"], float(found["heat"])
    )


def _domain(messages: list[Any], path: Path) -> str:
    """Return where the tasks live: the policy's heading says it, or else the file's or its folder's name."""
    first = messages[0] if messages and isinstance(messages[0], dict) else {}
    found = _HEADING.search(str(first.get("content"))) if first.get("role") == "system" else None
    if found is not None:
        return re.sub(r"\W+", "_", found[1].lower())
    words = re.findall(r"[a-z]+", f"{path.parent.name} {path.stem}".lower())
    return next((word for word in reversed(words) if word in ("airline", "retail")), batch_of(path))
