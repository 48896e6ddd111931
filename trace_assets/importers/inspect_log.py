"""Inspect logs: `.eval` archives and `.json` files, one trajectory a sample and epoch.

The first scorer decides, as in Inspect's own tables; what the others say is kept as checks that do not gate.
Events are skipped: the messages hold the conversation. An error of a sample is an infrastructure fault.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from trace_assets.importers.batch import batch_of
from trace_assets.importers.chat import first_words, read_chat
from trace_assets.importers.elements import find_array, settle
from trace_assets.importers.eval_zip import EvalZip
from trace_assets.importers.jsonl import parse
from trace_assets.importers.outcome import Earned, earned, ended
from trace_assets.importers.problem import UNUSABLE, Problem
from trace_assets.records import Check, Task, Trajectory

_GRADES: Mapping[str, float] = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
_LIMITS: Mapping[str, str] = {"message": "message_limit", "turn": "turn_limit", "context": "context_length"}
_MARKS = (b'"eval"', b'"plan"', b'"status"', b'"eval_id"', b'"run_id"')


class _Sample(msgspec.Struct):
    """What is read of a sample; the rest, events above all, is passed over while parsing."""

    id: str | int
    epoch: int = 1
    messages: list[dict[str, Any]] = []
    input: Any = None
    target: Any = None
    scores: dict[str, Any] | None = None
    metadata: dict[str, Any] = {}
    output: dict[str, Any] | None = None
    model_usage: dict[str, Any] = {}
    started_at: str | None = None
    total_time: float | None = None
    uuid: str | None = None
    error: Any = None
    limit: Any = None
    attachments: dict[str, str] = {}


class InspectImporter:
    """Reads logs of Inspect evaluations."""

    name = "inspect"

    def sniff(self, path: Path, head: bytes) -> bool:
        """Tell whether it is an archive of an Inspect log, or begins like a log in JSON."""
        if head[:4] == b"PK\x03\x04":
            return b"_journal/start.json" in head or b"samples/" in head or b"header.json" in head
        return head.lstrip()[:1] == b"{" and all(mark in head for mark in _MARKS)

    def read(self, path: Path) -> Iterator[Task | Trajectory | Problem]:
        """Yield the samples, each task once."""
        with path.open("rb") as stream:
            packed = stream.read(4) == b"PK\x03\x04"
        known = set[str]()
        try:
            for item in _packed(path) if packed else _plain(path):
                if isinstance(item, tuple):
                    task, trajectory = item
                    if task.task_id not in known:
                        known.add(task.task_id)
                        yield task
                    yield trajectory
                else:
                    yield item
        except UNUSABLE as error:
            yield Problem(path=str(path), message=str(error), kind="unknown_format")


Found = tuple[Task, Trajectory] | Problem


def _packed(path: Path) -> Iterator[Found]:
    with EvalZip(path) as archive:
        names = archive.names()
        header = next((name for name in ("header.json", "_journal/start.json") if name in names), None)
        if header is None:
            raise ValueError("the archive has no header.json, so it is no Inspect log")
        run = parse(archive.read(header))
        if header != "header.json":
            message = "the evaluation was broken off; the samples that were finished are read"
            yield Problem(path=str(path), message=message, severity="notice", kind="incomplete")
        for name in sorted(name for name in names if name.startswith("samples/")):
            try:
                data = archive.read(name)
            except ValueError as error:
                yield Problem(path=str(path), position=name, message=f"{error}; this sample is left out")
                continue
            yield from _one(path, name, run.get("eval") or run, data)


def _plain(path: Path) -> Iterator[Found]:
    array = find_array(path, "samples")
    if array is None:
        raise ValueError("there is no list 'samples', so it is a log without samples or no Inspect log")
    run = parse(array.head + b"]}").get("eval") or {}
    for settled in settle(path, array.spans):
        position = f"samples[{settled.span.number}]"
        if settled.reason:
            kind = "broken_off" if settled.broken_off else "left_out"
            message = f"it is not JSON ({settled.reason}); this sample is left out"
            yield Problem.model_validate(
                {"path": str(path), "position": position, "message": message, "kind": kind}
            )
        else:
            yield from _one(path, position, run, msgspec.json.encode(settled.value))


def _one(path: Path, position: str, run: dict[str, Any], data: bytes) -> Iterator[Found]:
    try:
        sample = msgspec.json.decode(data, type=_Sample)
        task, trajectory, notice = _read(path, run, sample)
    except (msgspec.DecodeError, *UNUSABLE) as error:
        reason = str(error).splitlines()[0]
        yield Problem(path=str(path), position=position, message=f"{reason}; this sample is left out")
        return
    if notice:
        yield Problem(path=str(path), position=position, message=notice, severity="notice", kind="not_judged")
    yield task, trajectory


def _read(path: Path, run: dict[str, Any], sample: _Sample) -> tuple[Task, Trajectory, str]:
    messages = tuple(read_chat([_chat(message, sample.attachments) for message in sample.messages]))
    batch, target = batch_of(path), f"inspect:{run.get('task') or path.stem}"
    choices = (sample.output or {}).get("choices") or [{}]
    limit = sample.limit.get("type") if isinstance(sample.limit, dict) else sample.limit
    finish = choices[0].get("stop_reason")
    reason = {"max_tokens": "length", "model_length": "context_length"}.get(finish, "completed")
    end = ended(_LIMITS.get(str(limit), reason), sample.error, limit)
    got, checks = _scores(sample.scores or {}, [one.get("name") for one in run.get("scorers") or []])
    if end.fault == "infrastructure":
        got = Earned(None, None, f"the sample broke ({end.error}), so it is kept as not judged")
    usage = [one for one in sample.model_usage.values() if isinstance(one, dict)]
    task = Task(
        task_id=f"{target}/{sample.id}",
        target=target,
        task_batch=batch,
        instruction=sample.input if isinstance(sample.input, str) else first_words(messages),
        payload={"target": sample.target, "metadata": sample.metadata},
    )
    trajectory = Trajectory(
        trajectory_id=sample.uuid or f"{run.get('eval_id') or batch}/{sample.id}/{sample.epoch}",
        task_id=task.task_id,
        target=target,
        task_batch=batch,
        trial=sample.epoch - 1,
        policy=str(run.get("model") or "unknown"),
        success=got.success,
        reward=got.reward,
        stop=end.stop,
        fault=end.fault,
        error=end.error,
        limit=end.limit,
        n_messages=len(messages),
        prompt_tokens=sum(_input_tokens(one) for one in usage) if usage else None,
        completion_tokens=sum(int(one.get("output_tokens") or 0) for one in usage) if usage else None,
        cost_usd=sum(float(one.get("total_cost") or 0) for one in usage) or None,
        seconds=sample.total_time,
        source=f"inspect:{path.name}",
        source_id=run.get("eval_id"),
        source_uri=str(path.absolute()),
        date=sample.started_at or run.get("created"),
        agent=run.get("solver"),
        agent_args=run.get("solver_args") or run.get("task_args") or {},
        model_options=run.get("model_generate_config") or {},
        metadata={**sample.metadata, "target": sample.target},
        messages=messages,
        checks=checks,
    )
    return task, trajectory, got.notice


def _input_tokens(usage: Mapping[str, Any]) -> int:
    """Return all that was read: Inspect counts what came from a cache apart."""
    names = ("input_tokens", "input_tokens_cache_read", "input_tokens_cache_write")
    return sum(int(usage.get(name) or 0) for name in names)


def _chat(message: dict[str, Any], attachments: Mapping[str, str]) -> dict[str, Any]:
    """Return an Inspect message in the chat form."""
    said = dict(_resolved(message, attachments))
    said["tool_calls"] = [
        {"id": call.get("id"), "name": call.get("function"), "arguments": call.get("arguments")}
        for call in said.get("tool_calls") or []
    ]
    function, error = said.pop("function", None), said.get("error")
    if said.get("role") == "tool":
        said["name"] = function
        if isinstance(error, dict) and not said.get("content"):
            said["content"] = error.get("message")  # this is what the model was told
    return said


def _resolved(value: Any, attachments: Mapping[str, str]) -> Any:
    """Put texts that Inspect stores once for the sample back where they belong."""
    if isinstance(value, str):
        return attachments.get(value.removeprefix("attachment://"), value) if attachments else value
    if isinstance(value, list):
        return [_resolved(item, attachments) for item in value]
    if isinstance(value, dict):
        return {key: _resolved(item, attachments) for key, item in value.items()}
    return value


def _scores(scores: Mapping[str, Any], order: list[Any]) -> tuple[Earned, tuple[Check, ...]]:
    names = [name for name in order if name in scores] or list(scores)
    checks = []
    for name in [*names, *(name for name in scores if name not in names)]:
        score = scores[name] if isinstance(scores[name], dict) else {"value": scores[name]}
        value = score.get("value")
        value = _GRADES.get(value) if isinstance(value, str) else value
        number = float(value) if isinstance(value, int | float) else None
        checks.append(
            Check(
                name=str(name),
                kind="judge",
                passed=None if number is None else number >= 1 - 1e-6,
                score=number,
                gates=name == names[0],
                detail=str(score.get("explanation") or score.get("answer") or "")[:2000],
            )
        )
    got = earned(checks[0].score if checks else None)
    return got, tuple(checks)
