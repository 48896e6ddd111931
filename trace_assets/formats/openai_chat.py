"""OpenAI chat logs as JSON lines: `{"messages": [...], "reward": 1.0, ...}`, one conversation a line.

Messages may also be as Anthropic's, Gemini's (`contents` of `parts`), LangChain's and OpenAI's newer
interface have them, or as agent frameworks do (`frameworks`); `system` (`system_prompt`,
`system_instruction`) is what the model was told before them. Read are, each optional but `messages`: `reward`
(or `score`), `success` (`passed`, `correct`, `resolved`, `pass`; where there is neither, `verdict`, `outcome`
and the like in words), `scores` (`rewards`, `metrics`: named parts), `tools`, `id`, `task_id`, `trial`,
`target`, `model`, `user_policy` (who played the user), `usage`, `cost`, `error`, `stop_reason`
(`finish_reason`); and of the task `instruction`, `expected_actions` (`[{name, arguments}]`),
`expected_outputs` and `domain_policy`.
Whatever else a line holds goes to `metadata`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from trace_assets.formats.batch_files import batch_of, is_one_of_folder, is_run_file
from trace_assets.formats.chat import first_words, prompt_id, read_chat
from trace_assets.formats.envelope import RUN_NAMES, speaks
from trace_assets.formats.fields import amount, not_too_many, token_count
from trace_assets.formats.frameworks import translated
from trace_assets.formats.outcome import (
    FULL,
    IN_WORDS,
    MOST_CHECKS,
    REWARD,
    SUCCESS,
    against,
    earned,
    ended,
    score_checks,
)
from trace_assets.formats.problem import UNUSABLE, Problem, Reading
from trace_assets.formats.spans.chat_forms import in_chat_form
from trace_assets.formats.spans.span import verdict_in
from trace_assets.formats.task_facts import FIELDS, facts_of
from trace_assets.formats.unread import LEFT_OUT, left_in, must_say_something
from trace_assets.records import Check, Task, Trajectory
from trace_assets.untrusted.allowance import BOM, OF_MACHINE, Allowance, TooLarge, open_lines, read_lines
from trace_assets.untrusted.json_text import longest, read_json, too_long

_SCORES = ("scores", "rewards", "metrics", "reward_breakdown")
_TASK = ("task_id", "example_id", "problem_id", "task", "prompt_id")
_MODEL = ("model", "policy", "model_name")
_REASON = ("stop_reason", "finish_reason", "termination_reason", "stop", "stop_condition")
_COST = ("cost_usd", "cost", "total_cost")
_TIME = ("seconds", "duration", "total_time")
_MESSAGES = ("messages", "contents")
_SYSTEM = ("system", "system_prompt", "system_instruction", "systemInstruction")
_PLAIN = (
    "messages",
    "contents",
    "id",
    "trajectory_id",
    "target",
    "env",
    "environment",
    "trial",
    "seed",
    "usage",
    "error",
)
_ABOUT = ("limit", "date", "created_at", "timestamp", "metadata", "user_policy", "adapter", "agent", "checks")
_TAKEN = frozenset(
    FIELDS + _PLAIN + _ABOUT + REWARD + SUCCESS + _SCORES + _TASK + _MODEL + _REASON + _COST + _TIME + _SYSTEM
)
_OTHERS = frozenset(
    {"schema_version", "steps", "nodes", "simulations", "reward_info", "run_type", "trajectory_format"}
)
"""Keys of other forms that have `messages` too."""
_EARLIEST, _THOUSANDTHS = 10**8, 10**11
"""Numbers between them are seconds since 1970 (1973 to 5138); larger ones count thousandths."""
_NOTES = 20
"""Entries of a list that are looked at for the first message: frameworks put settings before it."""
_PREFIXED = 16
"""Ids shorter than this are only unique in their file, and get its batch in front."""


class OpenAIChatImporter:
    """Reads JSON lines of OpenAI chat conversations."""

    name = "openai_chat"

    def sniff(self, path: Path, head: bytes) -> bool:
        """Tell whether the first line is an object with a list of messages that have roles."""
        row = first_row(head)
        return (
            row is not None
            and holds_messages(row)
            and not _OTHERS & set(row)
            and "exit_status" not in (row.get("info") or ())
            and not is_run_file(path)
            and not is_one_of_folder(path)
        )

    def read(self, path: Path, allowance: Allowance = OF_MACHINE) -> Iterator[Task | Trajectory | Problem]:
        """Yield a task and a trajectory a line, each task once."""
        reading = Reading(path)
        for row in read_rows(path, allowance):
            if isinstance(row, Problem):
                yield row
                continue
            number, value = row
            position = f"line {number}"
            try:
                trajectory, notice = read_conversation(path, number, value)
                facts = facts_of(value)
            except UNUSABLE as error:
                yield reading.left_out(error, position, "this line")
                continue
            yield from reading.told(trajectory, notice, position, facts)


def holds_messages(row: Mapping[str, Any]) -> bool:
    """Tell whether an object has a list of messages, in any of the forms that are read."""
    messages = _first(row, _MESSAGES)
    return bool(messages) and isinstance(messages, list) and any(speaks(one) for one in messages[:_NOTES])


def read_conversation(path: Path, number: int, row: Mapping[str, Any]) -> tuple[Trajectory, str]:
    """Return one line as a trajectory, and the sentence on a missing reward.

    Raises:
        ValueError: It has no usable messages; the message says why.
    """
    raw = _first(row, _MESSAGES)
    if not isinstance(raw, list):
        raise ValueError("there is no list 'messages'")
    left = Counter[str]()
    messages = tuple(read_chat(in_chat_form(translated(raw, left), _first(row, _SYSTEM), left), left))
    must_say_something(messages)
    left.update(left_in(messages))
    batch = batch_of(path)
    target = str(row.get("target") or row.get("env") or row.get("environment") or "").strip()
    target = target or f"openai_chat:{batch}"
    identity = _identity(row, batch, number)
    asked = first_words(messages)  # without a word of the user nothing says that two runs had one task
    task = _task_name(row) or (prompt_id(asked) if asked else f"run-{identity.removeprefix(f'{batch}/')}")
    end = ended(_first(row, _REASON), row.get("error"), row.get("limit"))
    reward, parts = _first(row, REWARD), _first(row, _SCORES)
    if isinstance(reward, Mapping):
        parts, reward = parts or reward, reward.get("total", reward.get("reward"))
    success = _first(row, SUCCESS)
    if reward is None and success is None:
        reward, success = _in_words(row)
    got = earned(reward, success, full=amount(_first(row, FULL)) or 1.0)
    if not got.notice:
        got = got._replace(notice="; ".join(against(row, got.success, raw, messages)))
    if end.fault == "infrastructure":
        got = got._replace(
            reward=None, success=None, notice=f"the run broke ({end.error}): kept as not judged"
        )
    usage = row.get("usage")
    metadata = dict(row["metadata"]) if isinstance(row.get("metadata"), dict) else {}
    metadata.update({key: value for key, value in row.items() if key not in _TAKEN and value is not None})
    if left:
        before = metadata.get(LEFT_OUT)
        metadata[LEFT_OUT] = dict(
            sorted((left + Counter(before if isinstance(before, dict) else {})).items())
        )
    trajectory = Trajectory(
        trajectory_id=identity,
        task_id=task if task.startswith(f"{target}/") else f"{target}/{task}",
        target=target,
        task_batch=batch,
        trial=row.get("trial") or 0,
        seed=row.get("seed"),
        policy=str(_first(row, _MODEL) or "").strip() or "unknown",
        adapter=row.get("adapter"),
        user_policy=row.get("user_policy"),
        success=got.success,
        reward=got.reward,
        stop=end.stop,
        fault=end.fault,
        error=end.error,
        limit=end.limit,
        n_messages=len(messages),
        prompt_tokens=tokens(usage, "prompt_tokens", "input_tokens"),
        completion_tokens=tokens(usage, "completion_tokens", "output_tokens"),
        cost_usd=amount(_first(row, _COST)),
        seconds=amount(_first(row, _TIME)),
        source=f"openai_chat:{path.name}",
        source_id=_source_id(row),
        source_uri=str(path.absolute()),
        date=_date(row.get("date") or row.get("created_at") or row.get("timestamp")),
        agent=_text(row.get("agent")),
        metadata=metadata,
        messages=messages,
        checks=_checks(row.get("checks")) or score_checks(parts),
    )
    return trajectory, got.notice


def _in_words(row: Mapping[str, Any]) -> tuple[float | None, bool | None]:
    """Return what a row says of its end under names that may mean something else.

    >>> _in_words({"outcome": "not solved"}), _in_words({"label": "refund"})
    ((None, False), (None, None))
    >>> _in_words({"eval": {"score": 0.5}})
    (0.5, None)
    """
    for name in IN_WORDS:
        value = row.get(name)
        reward, success = verdict_in(value if isinstance(value, Mapping) else {"success": value})
        if reward is not None or success is not None:
            return reward, success
    return None, None


def _source_id(row: Mapping[str, Any]) -> str | None:
    """Return what the run is called where it was made: tables of verdicts may call it so."""
    name = next((row[key] for key in ("id", *RUN_NAMES) if isinstance(row.get(key), str | int)), None)
    return None if name is None or isinstance(name, bool) else str(name)


def tokens(usage: Any, *names: str) -> int | None:
    """Return a token count from a usage object, under whichever name it has."""
    found = [usage.get(name) for name in names] if isinstance(usage, Mapping) else []
    return next((count for value in found if (count := token_count(value)) is not None), None)


def _checks(value: Any) -> tuple[Check, ...]:
    """Return checks that this program wrote."""
    if not isinstance(value, list):
        return ()
    not_too_many(len(value), MOST_CHECKS, "checks")
    return tuple(Check.model_validate(one) for one in value)


def _identity(row: Mapping[str, Any], batch: str, number: int) -> str:
    if row.get("trajectory_id"):
        return str(row["trajectory_id"])
    name = row.get("id")
    if isinstance(name, str) and len(name) >= _PREFIXED:
        return name
    return f"{batch}/{name if name not in (None, '') else number}"


def _task_name(row: Mapping[str, Any]) -> str:
    """Return what the task is called; tables turn a column of numbers with gaps into fractions (`7.0`)."""
    for name in _TASK:
        value = row.get(name)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, str | int) and (name_of := str(value).strip()):
            return name_of
    return ""


def _date(value: Any) -> str | None:
    """Return when it began; numbers are seconds since 1970, or thousandths, millionths, billionths of them.

    >>> _date("2026-11-26"), _date(1700000000), _date(1700000000500), _date(5)
    ('2026-11-26', '2023-11-14T22:13:20+00:00', '2023-11-14T22:13:20.500000+00:00', None)
    >>> _date(1700000000500000000), _date(10**400)
    ('2023-11-14T22:13:20.500000+00:00', None)
    """
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e20:
        parts = next((n for least, n in ((1e17, 1e9), (1e14, 1e6), (_THOUSANDTHS, 1e3)) if value >= least), 1)
        seconds = value / parts
        if _EARLIEST <= seconds < _THOUSANDTHS:
            return datetime.fromtimestamp(seconds, UTC).isoformat()
    return _text(value)


def _first(row: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((row[name] for name in names if row.get(name) is not None), None)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


# Rows of a JSON lines file, one at a time.


MOST_REFUSED = 100_000
"""Lines that are told of one by one; a file with so many of no use, and more of them than good ones, is given
up."""
_SAID = ("it is", "reading it", "a number")
_LOOKED_AT = 50
"""Lines of a file's beginning in which its first row is looked for."""


def read_rows(path: Path, allowance: Allowance) -> Iterator[tuple[int, dict[str, Any]] | Problem]:
    """Yield (line number from 1, object); a line that is none is a `Problem`, and reading goes on.

    Raises:
        OSError: The file cannot be read.
    """
    good = refused = 0
    with open_lines(path) as stream:
        for line in read_lines(stream, longest(allowance.row)):
            if line.data is not None and not line.data.strip():
                continue
            try:
                if line.data is None:
                    raise too_long(line.size, allowance.row)
                row = read_json(line.data, allowance.row)
                if not isinstance(row, dict):
                    raise ValueError(f"it is a JSON {type(row).__name__}, not an object")
            except ValueError as error:
                refused += 1
                yield _refused(path, line.number, line.ended, error)
                if refused >= MOST_REFUSED and refused > good:
                    message = f"{refused:,} lines up to here are of no use; the rest of the file is not read"
                    position = f"line {line.number}"
                    yield Problem(path=str(path), position=position, message=message, kind="given_up")
                    return
                continue
            good += 1
            yield line.number, row
            del row


def _refused(path: Path, number: int, ended: bool, error: ValueError) -> Problem:
    large = isinstance(error, TooLarge)
    message, kind = f"{not_json(error)}; this line is left out", "too_large" if large else "left_out"
    if not ended and not large:
        message = f"the file breaks off here ({error}); the lines before it are read"
        kind = "broken_off"
    return Problem.model_validate(
        {"path": str(path), "position": f"line {number}", "message": message, "kind": kind}
    )


def not_json(reason: Exception | str) -> str:
    """Return what keeps a text from being read: what says so itself, else that it is not JSON."""
    words = str(reason)
    return words if words.startswith(_SAID) else f"it is not JSON ({words})"


def first_row(head: bytes) -> dict[str, Any] | None:
    """Return the first object among the lines of a file's beginning.

    A line longer than the beginning is read as far as it goes. None when there is none, and for one value
    that is laid out over several lines.
    """
    whole = head.removeprefix(BOM).lstrip()
    lines = whole.split(b"\n", _LOOKED_AT)[:_LOOKED_AT]
    for number, line in enumerate(lines):
        last = number == len(lines) - 1 and len(line) > 1
        try:
            row = from_json(line, allow_partial=last)
        except ValueError:
            if number == 0 and len(lines) > 1 and _goes_on(whole):
                return None
            continue
        if isinstance(row, dict) and row:
            return row
    return None


def _goes_on(text: bytes) -> bool:
    """Tell whether a text is the beginning of one value over several lines."""
    try:
        from_json(text, allow_partial=True)
    except ValueError:
        return False
    return True
