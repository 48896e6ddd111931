"""SWE-agent's `.traj` files and mini-SWE-agent's `.traj.json`: one trajectory a file.

Commands that an agent wrote as text become calls of the tool `bash`, what they printed their results. Whether
a patch resolved its issue is not in these files: it is taken from the reports of SWE-bench's evaluation that
lie beside them, the instance's own (`report.json`) or the run's (`results.json` and the like, with lists
`resolved_ids` or `resolved`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from trace_assets.formats.batch_files import instance_of, run_folder
from trace_assets.formats.documents import first_object, read_documents
from trace_assets.formats.fields import dict_of, list_of
from trace_assets.formats.openai_chat import read_conversation
from trace_assets.formats.problem import UNUSABLE, Problem, Reading
from trace_assets.records import Task, Trajectory
from trace_assets.untrusted.allowance import OF_MACHINE, Allowance
from trace_assets.untrusted.json_text import read_embedded, read_json

_COMMAND = re.compile(r"```(?:bash|mswea_bash_command|sh|shell)?\s*\n(.*?)\n```", re.DOTALL)
_ROLES = frozenset({"system", "user", "assistant", "tool"})
_EXITS: tuple[tuple[str, str], ...] = (
    ("exit_context", "context_length"),
    ("contextwindow", "context_length"),
    ("exit_format", "agent_error"),
    ("exit_forfeit", "completed"),
    ("exit_cost", "cost_limit"),
    ("limitsexceeded", "max_steps"),
    ("exit_total_execution_time", "time_limit"),
    ("exit_command_timeout", "time_limit"),
    ("timeexceeded", "time_limit"),
    ("exit_environment", "environment_error"),
    ("submitted", "submitted"),
    ("early_exit", "unknown"),
)
"""How exit statuses begin or what they hold, and the word that is known for it; the first that fits."""


class SweAgentImporter:
    """Reads the trajectories that SWE-agent and mini-SWE-agent write."""

    name = "swe_agent"

    def sniff(self, path: Path, head: bytes) -> bool:
        """Tell whether the file begins like one of them."""
        if head.lstrip()[:1] != b"{":
            return False
        row = first_object(head)
        if str(row.get("trajectory_format", "")).startswith("mini-swe-agent"):
            return True
        steps, info = row.get("trajectory"), row.get("info")
        # A long patch, which mini-SWE-agent writes first, can fill all that is looked at here.
        cut_short = set(row) == {"info"} and b'"submission"' in head
        if isinstance(info, dict) and "exit_status" in info and ("messages" in row or cut_short):
            return True
        if path.name.endswith((".traj", ".traj.json")):
            return bool({"trajectory", "history", "messages", "attempts"} & set(row))
        first = steps[0] if isinstance(steps, list) and steps else None
        # Others call a list of actions and observations so, too: SWE-agent's steps keep the model's answer.
        if not isinstance(first, dict) or not {"action", "observation"} <= set(first):
            return False
        whole = isinstance(info, dict) or "environment" in row or "history" in row
        return whole or bool({"response", "state", "query", "execution_time"} & set(first))

    def read(self, path: Path, allowance: Allowance = OF_MACHINE) -> Iterator[Task | Trajectory | Problem]:
        """Yield the task and the trajectory."""
        reading = Reading(path)
        for row in read_documents(path, allowance):
            if isinstance(row, Problem):
                yield row
                continue
            position, document = row
            try:
                trajectory, notice = _trajectory(path, document)
            except UNUSABLE as error:
                yield reading.left_out(error, position, "this trajectory")
                continue
            yield from reading.told(trajectory, notice, position)


def _trajectory(path: Path, document: Any) -> tuple[Trajectory, str]:
    if not isinstance(document, dict):
        raise ValueError(f"a trajectory file is a JSON object, not a {type(document).__name__}")
    info = dict_of(document.get("info"))
    instance = str(document.get("instance_id") or instance_of(path))
    messages = list(_conversation(document))
    if not messages:
        raise ValueError("there is neither a 'history' nor 'messages' nor a 'trajectory' with steps")
    status, folder = str(info.get("exit_status") or ""), run_folder(path)
    stats, config = dict_of(info.get("model_stats")), _config(document, info)
    verdict = resolved(instance, path.parent, folder)
    row = {
        "messages": messages,
        "trajectory_id": f"{folder.name}/{instance}",
        "target": "swe_agent",
        "task_id": instance,
        "success": verdict,
        "model": _model(config, path, folder),
        "usage": {
            "prompt_tokens": stats.get("tokens_sent"),
            "completion_tokens": stats.get("tokens_received"),
        },
        "cost": stats.get("instance_cost"),
        "stop_reason": _word(status),
        "error": _broken(status, info),
        "metadata": {
            key: value
            for key, value in (
                ("exit_status", status),
                ("submission", info.get("submission")),
                ("environment", document.get("environment")),
                ("api_calls", stats.get("api_calls")),
            )
            if value
        },
    }
    trajectory, notice = read_conversation(path, 0, row)
    if verdict is None and not trajectory.fault:
        notice = (
            "whether the patch resolved the issue is not in the file and no report of an evaluation lies "
            "beside it, so the trajectory is kept as not judged"
        )
    version = info.get("swe_agent_version") or info.get("mini_version")
    update = {
        "source": f"swe_agent:{path.name}",
        "source_id": folder.name,
        "agent": "mini-swe-agent" if "messages" in document else "SWE-agent",
        "agent_args": {"version": version} if version else {},
    }
    return trajectory.model_copy(update=update), notice


def _conversation(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the messages in the chat form, commands as calls; demonstrations are no part of the episode."""
    told = document.get("history") or document.get("messages")
    if not isinstance(told, list) or not told:
        told = list(_of_steps(document.get("trajectory")))
    waiting: list[str] = []
    for number, one in enumerate(told):
        if not isinstance(one, dict):
            raise ValueError(f"message {number} is not an object")
        role, extra = one.get("role"), dict_of(one.get("extra"))
        if role not in _ROLES or one.get("is_demo") or one.get("message_type") == "demonstration":
            continue
        said = {"role": role, "content": one.get("content")}
        if role == "assistant":
            calls = one.get("tool_calls") or _written(one, extra, number)
            waiting = [str(call.get("id") or "") for call in calls if isinstance(call, dict)]
            thinking = " ".join(
                str(dict_of(block).get("thinking") or "") for block in one.get("thinking_blocks") or ()
            ).strip()
            yield {**said, "tool_calls": calls, "reasoning": thinking or one.get("reasoning_content")}
        elif role == "tool" or (role == "user" and waiting):
            answers = one.get("tool_call_ids") or [one.get("tool_call_id")]
            known = str(answers[0] or "") if isinstance(answers, list) and answers else ""
            answered = known or (waiting[0] if waiting else "")
            waiting = [name for name in waiting if name != answered]
            failed = bool(extra.get("exception_info"))
            yield {**said, "role": "tool", "tool_call_id": answered, "is_error": failed}
        else:
            yield said


def _written(one: Mapping[str, Any], extra: Mapping[str, Any], number: int) -> list[dict[str, Any]]:
    """Return the commands that a message without calls wrote as text."""
    actions = extra.get("actions")
    if isinstance(actions, list):
        commands = [str(dict_of(action).get("command") or "") for action in actions]
    elif isinstance(one.get("action"), str):
        commands = [one["action"]]
    else:
        found = _COMMAND.findall(one["content"]) if isinstance(one.get("content"), str) else []
        commands = found if len(found) == 1 else []
    return [
        {"id": f"call_{number}_{place}", "name": "bash", "arguments": {"command": command.strip()}}
        for place, command in enumerate(commands)
        if command.strip()
    ]


def _of_steps(steps: Any) -> Iterator[dict[str, Any]]:
    """Yield the messages of a trajectory that kept no history: the first question, then step by step."""
    for number, step in enumerate(steps if isinstance(steps, list) else ()):
        if not isinstance(step, dict):
            raise ValueError(f"step {number} is not an object")
        if number == 0:
            asked = step.get("query") or step.get("messages")
            yield from (one for one in asked if isinstance(one, dict)) if isinstance(asked, list) else ()
        yield {
            "role": "assistant",
            "content": step.get("response") or step.get("thought"),
            "action": step.get("action"),
        }
        if step.get("observation") is not None:
            yield {"role": "user", "content": str(step["observation"])}


def _word(status: str) -> str | None:
    flat = status.lower()
    return next((word for begin, word in _EXITS if begin in flat), None)


def _broken(status: str, info: Mapping[str, Any]) -> str | None:
    """Return what broke the run: an exit that is neither the agent's doing nor a limit.

    An agent that was made to hand in what it had (`submitted (exit_...)`) did hand it in.
    """
    if _word(status) is not None and not info.get("traceback"):
        return None
    if not status:
        return str(info["exception_str"]) if info.get("exception_str") else None
    return f"{status}: {info['exception_str']}" if info.get("exception_str") else status


def _config(document: Mapping[str, Any], info: Mapping[str, Any]) -> dict[str, Any]:
    raw = document.get("replay_config") or document.get("config") or info.get("config")
    if isinstance(raw, str):
        try:
            raw = read_embedded(raw)
        except ValueError:
            return {}
    return dict_of(raw)


def _model(config: Mapping[str, Any], path: Path, folder: Path) -> str:
    """Return the model: as the configuration names it, else as the run's folder does."""
    for part in (dict_of(config.get("agent")), config, dict_of(config.get("actor"))):
        model = part.get("model")
        name = dict_of(model).get("name") or dict_of(model).get("model_name") or model
        if isinstance(name, str) and name:
            return name
    parts = folder.name.split("__")  # `config__model__...` now, `model__data__...` before
    if len(parts) > 2:
        return parts[0] if parts[2].startswith("default") else parts[1]
    return folder.name or path.stem


# Reports of SWE-bench's evaluation that lie beside trajectories: which instances are resolved.


_LARGEST = 1 << 24
"""Bytes of a file that may be such a report."""
_MEMORY = 1 << 28
"""Bytes of memory that reading one may take."""
_YES = ("resolved_ids", "resolved")
_NO = (
    "unresolved_ids",
    "unresolved",
    "empty_patch_ids",
    "no_generation",
    "submitted_ids",
    "completed_ids",
    "generated",
    "applied",
)
_BROKEN = ("error_ids", "infra_failure_ids")
"""Of these nothing is known: the evaluation itself failed."""


def resolved(instance: str, own: Path, run: Path) -> bool | None:
    """Tell whether an instance's patch resolved its issue; None where no report says so.

    Args:
        instance: Its id.
        own: The folder of its trajectory.
        run: The folder of the whole run.
    """
    for folder in dict.fromkeys((own, run, run / "sb-cli-reports", run / "evaluation")):
        verdict = _reports(folder, *_stamps(folder)).get(instance)
        if verdict is not None:
            return verdict
    return None


@lru_cache(maxsize=64)
def _reports(folder: Path, *stamps: tuple[str, int]) -> dict[str, bool]:
    """Return what the reports in a folder say; `stamps` makes a changed folder be read again."""
    found: dict[str, bool] = {}
    for name, _ in stamps:
        try:
            found.update(_verdicts(read_json((folder / name).read_bytes(), _MEMORY)))
        except (ValueError, OSError):
            continue
    return found


def _stamps(folder: Path) -> Iterator[tuple[str, int]]:
    if not folder.is_dir():
        return
    for path in sorted(folder.glob("*.json")):
        if path.name.endswith(".traj.json") or path.name in ("preds.json", "all_preds.json"):
            continue
        about = path.stat()
        if about.st_size <= _LARGEST:
            yield path.name, about.st_mtime_ns


def _verdicts(report: Any) -> Iterator[tuple[str, bool]]:
    """Yield (instance, resolved) of a report of any of the evaluation's forms."""
    if not isinstance(report, dict):
        return
    said = [report[name] for name in _YES if isinstance(report.get(name), list)]
    if said:
        broken = {str(one) for name in _BROKEN for one in list_of(report.get(name))}
        yield from (
            (str(one), False) for name in _NO for one in list_of(report.get(name)) if str(one) not in broken
        )
        yield from ((str(one), True) for one in said[0])
        return
    for instance, about in report.items():  # an instance's own report
        if isinstance(about, dict) and isinstance(about.get("resolved"), bool):
            yield instance, about["resolved"]
