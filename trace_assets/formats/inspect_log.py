"""Inspect logs: `.eval` archives and `.json` files, one trajectory a sample and epoch.

The first scorer decides, as in Inspect's own tables; what the others say is kept as checks that do not gate.
Events are skipped: the messages hold the conversation. An error of a sample is an infrastructure fault.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from trace_assets.formats.batch_files import batch_of
from trace_assets.formats.chat import first_words, read_chat
from trace_assets.formats.eval_zip import EvalZip
from trace_assets.formats.fields import amount, not_too_many, token_count
from trace_assets.formats.json_array import find_array, settle
from trace_assets.formats.openai_chat import not_json
from trace_assets.formats.outcome import MOST_CHECKS, Earned, earned, ended
from trace_assets.formats.problem import UNUSABLE, Kind, Problem, problem_kind, reason_of
from trace_assets.records import Check, Task, Trajectory
from trace_assets.untrusted.allowance import BOM, OF_MACHINE, Allowance, TooLarge, UnfoldsTooFar
from trace_assets.untrusted.json_text import json_cost, longest, parse_json, read_json, too_dear

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


_Text = msgspec.defstruct(
    "_Text", [(name, msgspec.Raw, msgspec.Raw(b"")) for name in _Sample.__struct_fields__]
)
"""The same as text, to see what it takes before it is parsed."""


class InspectImporter:
    """Reads logs of Inspect evaluations."""

    name = "inspect"

    def sniff(self, path: Path, head: bytes) -> bool:
        """Tell whether it is an archive of an Inspect log, or begins like a log in JSON."""
        if head[:4] == b"PK\x03\x04":
            return b"_journal/start.json" in head or b"samples/" in head or b"header.json" in head
        return head.lstrip()[:1] == b"{" and all(mark in head for mark in _MARKS)

    def read(self, path: Path, allowance: Allowance = OF_MACHINE) -> Iterator[Task | Trajectory | Problem]:
        """Yield the samples, each task once."""
        with path.open("rb") as stream:
            packed = stream.read(4) == b"PK\x03\x04"
        known = set[str]()
        try:
            for item in _packed(path, allowance) if packed else _plain(path, allowance):
                if isinstance(item, tuple):
                    task, trajectory = item
                    if task.task_id not in known:
                        known.add(task.task_id)
                        yield task
                    yield trajectory
                else:
                    yield item
        except UNUSABLE as error:
            kind: Kind = "too_large" if isinstance(error, TooLarge) else "unknown_format"
            yield Problem(path=str(path), message=reason_of(error), kind=kind)


Found = tuple[Task, Trajectory] | Problem


def _packed(path: Path, allowance: Allowance) -> Iterator[Found]:
    with EvalZip(path, allowance) as archive:
        names = archive.names()
        header = next((name for name in ("header.json", "_journal/start.json") if name in names), None)
        if header is None:
            raise ValueError("the archive has no header.json, so it is no Inspect log")
        run = _run(read_json(archive.read(header), allowance.row))
        if header != "header.json":
            message = "the evaluation was broken off; the samples that were finished are read"
            yield Problem(path=str(path), message=message, severity="notice", kind="incomplete")
        for name in sorted(name for name in names if name.startswith("samples/")):
            try:
                data = archive.read(name)
            except UnfoldsTooFar as error:
                message = f"{error}; the samples from here on are left out"
                yield Problem(path=str(path), position=name, message=message, kind="too_large")
                return
            except ValueError as error:
                message, kind = f"{error}; this sample is left out", problem_kind(error)
                yield Problem(path=str(path), position=name, message=message, kind=kind)
                continue
            yield from _one(path, name, run, allowance, data)
            del data


def _plain(path: Path, allowance: Allowance) -> Iterator[Found]:
    array = find_array(path, "samples", allowance)
    if array is None:
        raise ValueError("there is no list 'samples', so it is a log without samples or no Inspect log")
    run = _run(read_json(array.head.removeprefix(BOM) + b"]}", allowance.row))
    if not array.whole:
        message = "there are more samples than can be remembered within the memory that reading may take "
        message += "(ingest.memory_gib); the others are left out"
        position = f"samples[{len(array.spans)}]"
        yield Problem(path=str(path), position=position, message=message, kind="too_large")
    for settled in settle(path, array.spans, allowance):
        position = f"samples[{settled.span.number}]"
        if settled.reason:
            kind: Kind = "broken_off" if settled.broken_off else "too_large" if settled.large else "left_out"
            message = f"{not_json(settled.reason)}; this sample is left out"
            yield Problem(path=str(path), position=position, message=message, kind=kind)
        else:
            yield from _one(path, position, run, allowance, settled.value)


def _run(header: Any) -> dict[str, Any]:
    """Return what a log's head says of the evaluation."""
    if not isinstance(header, dict):
        raise ValueError(f"its header is a JSON {type(header).__name__}, not an object")
    run = header.get("eval") or header
    return run if isinstance(run, dict) else {}


def _one(
    path: Path, position: str, run: dict[str, Any], allowance: Allowance, data: bytes | Any
) -> Iterator[Found]:
    try:
        value = _parsed(data, allowance.row) if isinstance(data, bytes) else data
        sample = msgspec.convert(value, _Sample)
        task, trajectory, notice = _read(path, run, sample, allowance)
    except UNUSABLE as error:
        message, kind = f"{reason_of(error)}; this sample is left out", problem_kind(error)
        yield Problem(path=str(path), position=position, message=message, kind=kind)
        return
    if notice:
        yield Problem(path=str(path), position=position, message=notice, severity="notice", kind="not_judged")
    yield task, trajectory


def _parsed(data: bytes, most: int) -> dict[str, Any]:
    """Parse a sample but for what is not read of it, events above all, which may be most of it."""
    try:
        texts = msgspec.structs.asdict(msgspec.json.decode(data, type=_Text))
    except msgspec.DecodeError:  # NaN, half a surrogate pair: rare, and read whole
        value = read_json(data, most)
        if not isinstance(value, dict):
            raise ValueError(f"it is a JSON {type(value).__name__}, not an object") from None
        return value
    given = {name: bytes(raw) for name, raw in texts.items() if bytes(raw)}
    cost = sum(json_cost(text) for text in given.values())
    if cost > most:
        raise too_dear(cost, most)
    return {name: parse_json(text) for name, text in given.items()}


def _read(
    path: Path, run: dict[str, Any], sample: _Sample, allowance: Allowance
) -> tuple[Task, Trajectory, str]:
    attached = _Attached(sample.attachments, longest(allowance.row))
    messages = tuple(read_chat([_chat(message, attached) for message in sample.messages]))
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
        completion_tokens=sum(token_count(one.get("output_tokens")) or 0 for one in usage) if usage else None,
        cost_usd=sum(amount(one.get("total_cost")) or 0.0 for one in usage) or None,
        seconds=amount(sample.total_time),
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
    return sum(token_count(usage.get(name)) or 0 for name in names)


def _chat(message: dict[str, Any], attached: _Attached) -> dict[str, Any]:
    """Return an Inspect message in the chat form."""
    said = dict(attached.resolve(message))
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


class _Attached:
    """Texts that Inspect stores once for the sample and names wherever they belong.

    Args:
        texts: By name.
        most: Characters that may be put back in all: a name of ten may stand for a million.
    """

    def __init__(self, texts: Mapping[str, str], most: int) -> None:
        self._texts, self._left = texts, most

    def resolve(self, value: Any) -> Any:
        """Put the texts back into a value.

        Raises:
            TooLarge: They are too many.
        """
        if isinstance(value, str):
            text = self._texts.get(value.removeprefix("attachment://")) if self._texts else None
            if text is None:
                return value
            self._left -= len(text)
            if self._left < 0:
                raise TooLarge("its attachments are repeated until they take more memory than is allowed")
            return text
        if isinstance(value, list):
            return [self.resolve(item) for item in value]
        if isinstance(value, dict):
            return {key: self.resolve(item) for key, item in value.items()}
        return value


def _scores(scores: Mapping[str, Any], order: list[Any]) -> tuple[Earned, tuple[Check, ...]]:
    not_too_many(len(scores), MOST_CHECKS, "scores")
    names = [name for name in order if isinstance(name, str) and name in scores] or list(scores)
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
