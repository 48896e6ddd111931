"""Claude Code's sessions: JSON lines, one session a file, one part of an answer or one result a line.

Parts of one answer (thinking, text, calls) share its id and become one message, results follow it. Left out
are helpers' conversations (`isSidechain`), what the program notes for itself, summaries that stand for the
talk so far, and what was said before somebody went back and asked otherwise. A call of a tool that an MCP
server serves is named as the server names it (`mcp__shop__get_order` is `get_order`) unless two servers of
the session have one of that name.

No session says how it went. Verdicts are taken from `verdicts.jsonl` in the folder of the sessions, a line
each: `{"session": FILE'S NAME OR ID, "success": true, ...}`, and whatever else `openai_chat` reads of an
episode.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from trace_assets.formats.batch_files import VERDICTS, batch_of, begins_session
from trace_assets.formats.fields import dict_of
from trace_assets.formats.openai_chat import read_conversation, read_rows, tokens
from trace_assets.formats.problem import UNUSABLE, Problem, Reading
from trace_assets.formats.task_facts import facts_of
from trace_assets.records import Task, Trajectory
from trace_assets.untrusted.allowance import OF_MACHINE, Allowance

_SERVED = re.compile(r"mcp__.+?__(.+)")
_NOTES = ("isSidechain", "isMeta", "isCompactSummary", "isVisibleInTranscriptOnly")
"""Marks of lines that are no part of the conversation."""
_SESSION = ("session", "session_id", "sessionId", "id", "file")
"""Names under which a verdict tells its session."""
_READ = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


class ClaudeCodeImporter:
    """Reads the sessions that Claude Code keeps."""

    name = "claude_code"

    def sniff(self, path: Path, head: bytes) -> bool:
        """Tell whether the first line is one of a session's."""
        return begins_session(head)

    def read(self, path: Path, allowance: Allowance = OF_MACHINE) -> Iterator[Task | Trajectory | Problem]:
        """Yield the task and the trajectory."""
        reading, rows = Reading(path), []
        for row in read_rows(path, allowance):
            if isinstance(row, Problem):
                yield row
            else:
                rows.append(row[1])
        try:
            lines = _lines(rows)
            if not lines:
                message = "it holds no conversation, or a helper's alone; it is passed over"
                yield Problem(path=str(path), message=message, severity="notice", kind="unknown_format")
                return
            said = _verdict(path, lines)
            trajectory, notice = _trajectory(path, lines, _last(rows, "agentSetting"), said.row)
            facts = facts_of(said.row)
        except UNUSABLE as error:
            yield reading.left_out(error, "", "this session")
            return
        yield from reading.told(trajectory, said.missing if notice and said.missing else notice, "", facts)


def _trajectory(
    path: Path, lines: Sequence[Mapping[str, Any]], setting: str, verdict: Mapping[str, Any]
) -> tuple[Trajectory, str]:
    answers = _answers(lines)
    batch = batch_of(path)
    place = _last(lines, "cwd").replace("\\", "/").rstrip("/").rpartition("/")[2]
    used = [dict_of(answer.get("usage")) for answer in answers.values()]
    row = {
        "target": f"claude_code:{place or batch}",
        "model": _model(answers.values()),
        "date": next((line["timestamp"] for line in lines if line.get("timestamp")), None),
        "stop_reason": _ended(lines),
        **{name: value for name, value in verdict.items() if name not in _SESSION},
        "error": verdict.get("error") or _broken(lines),
        "trajectory_id": f"{batch}/{path.stem}",
        "messages": list(_messages(lines, answers)),
        "usage": {
            "input_tokens": _sum(used, *_READ),
            "output_tokens": _sum(used, "output_tokens"),
        },
    }
    trajectory, notice = read_conversation(path, 0, row)
    arguments = {"version": _last(lines, "version"), "agent": setting}
    return trajectory.model_copy(
        update={
            "source": f"claude_code:{path.name}",
            "source_id": _last(lines, "sessionId") or None,
            "agent": trajectory.agent or "Claude Code",
            "agent_args": {name: value for name, value in arguments.items() if value},
        }
    ), notice


# Which lines are the conversation.


def _lines(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the lines of the conversation as it went on: where somebody went back, the last way taken."""
    told = [
        row
        for row in rows
        if row.get("type") in ("user", "assistant")
        and isinstance(row.get("message"), dict)
        and not any(row.get(mark) for mark in _NOTES)
    ]
    last: dict[Any, Any] = {}
    for row in told:
        if _asks(row) and row.get("parentUuid") is not None:
            last[row["parentUuid"]] = row.get("uuid")
    left: set[Any] = set()
    kept = []
    for row in told:
        parent, own = row.get("parentUuid"), row.get("uuid")
        if (parent is not None and parent in left) or (_asks(row) and last.get(parent, own) != own):
            left.add(own)
        else:
            kept.append(row)
    return kept


def _asks(row: Mapping[str, Any]) -> bool:
    """Tell whether a line is something that the user said, and no result of a call."""
    return row["type"] == "user" and not any(True for _ in _results(row["message"].get("content")))


def _results(content: Any) -> Iterator[Mapping[str, Any]]:
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and part.get("type") == "tool_result":
            yield part


def _failed(line: Mapping[str, Any]) -> bool:
    """Tell whether a line stands for an answer that the model's server did not give."""
    return line["type"] == "assistant" and bool(line.get("isApiErrorMessage"))


# What they say.


def _answers(lines: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the answers by id, each with the parts of all its lines; its usage is the last line's."""
    found: dict[str, dict[str, Any]] = {}
    for number, line in enumerate(lines):
        if line["type"] != "assistant" or _failed(line):
            continue
        message = line["message"]
        whole = found.setdefault(_id(line, number), {**message, "content": []})
        whole["usage"] = message.get("usage") or whole.get("usage")
        content = message.get("content")
        whole["content"] += (
            content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
        )
    return found


def _id(line: Mapping[str, Any], number: int) -> str:
    return str(line["message"].get("id") or line.get("uuid") or number)


def _messages(
    lines: Sequence[Mapping[str, Any]], answers: Mapping[str, Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield the messages in the chat form."""
    names = _names(answers.values())
    begun: set[str] = set()
    for number, line in enumerate(lines):
        if _failed(line):
            continue
        if line["type"] == "assistant":
            if (own := _id(line, number)) not in begun:
                begun.add(own)
                message = _answer(answers[own], names)
                if message["content"] or message["tool_calls"]:  # thought alone is no turn
                    yield message
            continue
        content = line["message"].get("content")
        results = list(_results(content))
        for part in results:
            yield {
                "role": "tool",
                "tool_call_id": part.get("tool_use_id"),
                "content": _text(part.get("content")),
                "is_error": bool(part.get("is_error")),
            }
        rest = [part for part in content if part not in results] if isinstance(content, list) else content
        if rest:
            yield {"role": "user", "content": rest}


def _answer(answer: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    parts = [part for part in answer["content"] if isinstance(part, dict)]
    return {
        "role": "assistant",
        "content": "\n".join(str(part.get("text") or "") for part in parts if part.get("type") == "text"),
        "tool_calls": [
            {"id": part.get("id"), "name": names.get(str(part.get("name"))), "arguments": part.get("input")}
            for part in parts
            if part.get("type") == "tool_use"
        ],
        "reasoning": "\n".join(str(part["thinking"]) for part in parts if part.get("thinking")) or None,
    }


def _names(answers: Any) -> dict[str, str]:
    """Return what each called tool is called here, by the name under which the session has it."""
    called = dict.fromkeys(
        str(part.get("name"))
        for answer in answers
        for part in answer["content"]
        if isinstance(part, dict) and part.get("type") == "tool_use"
    )
    short = {name: match[1] if (match := _SERVED.fullmatch(name)) else name for name in called}
    often = Counter(short.values())
    return {name: own if often[own] == 1 else name for name, own in short.items()}


def _text(content: Any) -> Any:
    """Return a result's content; where the tools that were found are named, their names."""
    if not isinstance(content, list):
        return content
    return [
        {"type": "text", "text": str(part.get("tool_name"))}
        if isinstance(part, dict) and part.get("type") == "tool_reference"
        else part
        for part in content
    ]


# About the session as a whole.


def _ended(lines: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the reason with which the last answer ended; one that called a tool and went on says nothing."""
    said = [line["message"].get("stop_reason") for line in lines if line["type"] == "assistant"]
    return said[-1] if said and said[-1] in ("end_turn", "max_tokens", "model_length") else None


def _broken(lines: Sequence[Mapping[str, Any]]) -> str | None:
    """Return what the server said instead of the last answer: after one the session went on, if at all."""
    last = next((line for line in reversed(lines) if line["type"] == "assistant"), None)
    if last is None or not _failed(last):
        return None
    text = _text(last["message"].get("content"))
    said = " ".join(str(dict_of(part).get("text") or "") for part in text) if isinstance(text, list) else text
    return ": ".join(str(one) for one in (last.get("error"), said) if one) or "the server gave no answer"


def _model(answers: Any) -> str | None:
    """Return the model that gave most answers."""
    named = Counter(name for answer in answers if isinstance(name := answer.get("model"), str) and name)
    return named.most_common(1)[0][0] if named else None


def _sum(used: Sequence[Mapping[str, Any]], *names: str) -> int | None:
    counts = [count for one in used for name in names if (count := tokens(one, name)) is not None]
    return sum(counts) if counts else None


def _last(rows: Sequence[Mapping[str, Any]], name: str) -> str:
    return next((str(row[name]) for row in reversed(rows) if isinstance(row.get(name), str)), "")


# The verdicts that lie beside sessions.


class Said(NamedTuple):
    """What is said of a session.

    Attributes:
        row: The fields of its verdict; empty when there is none.
        missing: Why there is none; empty when there is one.
    """

    row: Mapping[str, Any]
    missing: str


def _verdict(path: Path, lines: Sequence[Mapping[str, Any]]) -> Said:
    beside = path.absolute().parent / VERDICTS
    if not beside.is_file():
        how = f'{{"session": "{path.stem}", "success": true}}'
        message = (
            f"a session does not say how it went; write it in {VERDICTS} beside it, a line a session: {how}"
        )
        return Said({}, f"{message}. It is kept as not judged")
    known, damaged = _verdicts(beside, beside.stat().st_mtime_ns)
    own = {path.stem, path.name, *(str(row["sessionId"]) for row in lines if row.get("sessionId"))}
    row = next((known[name] for name in (path.stem, path.name, *sorted(own)) if name in known), None)
    if row is not None:
        return Said(row, "")
    reason = f", and {damaged[0]}" if damaged else ""
    return Said({}, f"{VERDICTS} has no line for it{reason}; it is kept as not judged")


@lru_cache(maxsize=16)
def _verdicts(path: Path, stamp: int) -> tuple[dict[str, dict[str, Any]], tuple[str, ...]]:
    """Return verdicts by session, and what is wrong with lines; `stamp` has a changed file read again."""
    found: dict[str, dict[str, Any]] = {}
    wrong = []
    for row in read_rows(path, OF_MACHINE):
        if isinstance(row, Problem):
            wrong.append(f"its {row.position} cannot be read ({row.message})")
            continue
        number, value = row
        name = next((value[key] for key in _SESSION if isinstance(value.get(key), str)), None)
        if name is None:
            wrong.append(f"its line {number} names no 'session'")
        else:
            found[name] = value
    return found, tuple(wrong)
