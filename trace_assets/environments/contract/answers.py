"""What answers say, however they are written, and what was done to objects after their records were read.

Nothing is understood: tags and columns name what they hold; of sentences, figures and wording are told apart.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from trace_assets.diagnosis.detectors.notation import tagged
from trace_assets.diagnosis.detectors.values import leaves, table, tells_error
from trace_assets.records import Json, Message, Record, ToolCall, ToolSpec, Trajectory

LONGEST, MOST_SENTENCES = 20_000, 40
"""Characters that are read, and sentences that are told apart."""
SAYS = "says"
"""Under what name the sentences of a text stand, figures and names left out."""
_NUMBER = re.compile(r"[+-]?(?:0|[1-9]\d{0,14})(?:\.\d{1,9})?\Z")
_PAIR = re.compile(r"[ \t*-]*([^\W\d][\w .-]{0,30}?)[ \t]*(?:=|:(?=[ \t]))[ \t]*([^=]{0,120}?)[ \t]*\Z")
_RULE = re.compile(r"\|(?: *:?-{2,}:? *\|){1,40}\Z")
_SECTION = re.compile(r"^\s*\[([^\[\]\n]{1,60})\]\s*$", re.MULTILINE)
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")
_NAMED = re.compile(
    r"\[[^\[\]\n]{1,60}\]|(?<!\w)(?:\w{0,60}\d(?:[\w.:/-]{0,80}\w)?|\w{1,60}(?:[-_/]\w{1,60}){1,8})"
)
"""What is no wording: figures, names with figures or joints, and what stands in brackets."""
_FIGURE = re.compile(r"(?<![\w.:/-])(\d{1,12}(?:\.\d{1,6})?)(?![\w:/-]|\.\d)[ \t]*([^\W\d_]+)?")
_BEFORE = re.compile(r"([^\W\d_]+)\W*\Z")


def written(text: str) -> Any:
    r"""Return what a text says as a JSON value, or the text itself where it is one wording without a figure.

    >>> written('<lot no="7"><state>free</state><day n="3"/></lot>')
    {'no': 7, 'state': 'free', 'day': {'n': 3}}
    >>> written("<lots><lot no='1'/><lot no='2'/></lots>")
    {'lot': [{'no': 1}, {'no': 2}]}
    >>> written("code,rate\n17,4.5"), written("| a | b |\n|---|---|\n| x | 1 |\n| y | 2 |")
    ({'code': '17', 'rate': 4.5}, [{'a': 'x', 'b': 1}, {'a': 'y', 'b': 2}])
    >>> written("| stay | taken on that very day |\n|---|---|\n| R1 | no |")
    {'stay': 'R1', 'taken on that very day': 'no'}
    >>> written("state: free\nday=3"), written("item=oven; age=3\nitem=door; age=7")
    ({'state': 'free', 'day': 3}, [{'item': 'oven', 'age': 3}, {'item': 'door', 'age': 7}])
    >>> written("03:17 [pay-db] deployed 42 min ago\nheap full")
    {'says': ['# # deployed # min ago', 'heap full'], 'min': 42}
    >>> written('{"a": 1}'), written("done"), written("")
    ({'a': 1}, 'done', '')
    """
    value = parsed(text)
    if not isinstance(value, str):
        return value
    plain = value.strip()[:LONGEST]
    if not plain:
        return value
    for read in (partial(tagged, plain=_plain), _rows, _sections, _pairs):
        found = read(plain)
        if found is not None:
            return found
    return _sentences(plain, value)


def _plain(text: str) -> Any:
    """Return a number for what is written as one; names with zeros before them stay texts."""
    text = text.strip()
    if not _NUMBER.match(text):
        return text
    return float(text) if "." in text else int(text)


# Tables, and lines of names and values.


def _rows(text: str) -> Any:
    rows = [_typed(row) for row in table(text) or _ruled(text)]
    return rows[0] if len(rows) == 1 else rows or None


def _ruled(text: str) -> list[dict[str, str]]:
    """Return the rows of a table with a line under its first row: columns may be called by several words."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) < 3 or not _RULE.match(lines[1]):
        return []
    names, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in (lines[0], *lines[2:]))
    if len(names) < 2 or not all(names) or len(set(names)) < len(names):
        return []
    return [dict(zip(names, row, strict=True)) for row in rows] if {*map(len, rows)} == {len(names)} else []


def _typed(row: dict[str, str]) -> dict[str, Any]:
    """Return a row with its numbers; the first cell names it, as a rule."""
    first = next(iter(row), "")
    return {name: cell if name == first else _plain(cell) for name, cell in row.items()}


def _sections(text: str) -> Any:
    parts = _SECTION.split(text)
    if len(parts) < 3 or parts[0].strip():
        return None
    found: list[dict[str, Any]] = []
    for name, body in zip(parts[1::2], parts[2::2], strict=True):
        own = _lines(body)
        if own is None or any(len(one) != 1 for one in own):
            return None
        found.append({"section": name, **{key: value for one in own for key, value in one.items()}})
    return found[0] if len(found) == 1 else found


def _pairs(text: str) -> Any:
    """Return lines of `name: value` or `name=value`: one record, or one a line where a line has several."""
    lines = _lines(text)
    if lines is None:
        return None
    if all(len(one) == 1 for one in lines):
        names = [next(iter(one)) for one in lines]
        if len(set(names)) == len(names):
            return {key: value for one in lines for key, value in one.items()}
        return None
    return lines[0] if len(lines) == 1 else lines


def _lines(text: str) -> list[dict[str, Any]] | None:
    """Return the pairs of each line; None where a line has anything else."""
    found = []
    for line in text.splitlines():
        if not line.strip():
            continue
        parts = [_PAIR.match(part) for part in re.split(r"[;|]|,(?=\s*[\w .-]{1,30}=)", line.rstrip(";, "))]
        own = {one[1].strip(): _plain(one[2]) for one in parts if one}
        if len(own) != len(parts):
            return None
        found.append(own)
    return found or None


# Sentences.


def _sentences(text: str, whole: str) -> Any:
    """Return the wordings of a text and its figures, each under the word that it stands beside."""
    found: dict[str, Any] = {}
    wordings: list[str] = []
    for one in [part.strip() for part in _SENTENCE.split(text) if part.strip()][:MOST_SENTENCES]:
        wordings.append(_NAMED.sub("#", one).rstrip(".!;"))
        for name, value in _figures(one):
            found.setdefault(name, value)
    if len(wordings) == 1 and not found and wordings[0] == text.rstrip(".!;"):
        return whole
    return {SAYS: wordings, **found}


def _figures(sentence: str) -> Iterator[tuple[str, int | float]]:
    for one in _FIGURE.finditer(sentence):
        before = _BEFORE.search(sentence[max(0, one.start() - 60) : one.start()])
        name = one[2] or (before[1] if before else "")
        if name:
            yield name.lower(), float(one[1]) if "." in one[1] else int(one[1])


@dataclass
class Acts:
    """How one writing tool was used on records that one reading tool gave.

    Attributes:
        read: The reading tool.
        argument: The writing tool's argument that names the object.
        read_argument: The reading tool's.
        wrote: Records that were then changed, in successful trajectories.
        refused: Records whose change the target refused, with the error as a template, in any trajectory.
        read_first: For each change in a successful trajectory: whether the object had been read before.
        after: For each successful trajectory with a refusal: the calls of other tools that followed it.
        paths: Argument to the places in the record at which its value stood; `*` counts the calls.
    """

    read: str
    argument: str
    read_argument: str
    wrote: list[dict[str, Any]] = field(default_factory=list)
    refused: list[tuple[dict[str, Any], str]] = field(default_factory=list)
    read_first: list[bool] = field(default_factory=list)
    after: list[list[ToolCall]] = field(default_factory=list)
    paths: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))


def acts_of(tool: str, read: str, link: tuple[str, str], trajectories: Sequence[Trajectory]) -> Acts:
    """Follow the objects that a writing and a reading tool both name.

    Args:
        tool: Changes objects.
        read: Reads them.
        link: The arguments of the two that name the object, as `links_of` finds them.
        trajectories: Of one target.
    """
    acts = Acts(read, *link)
    for trajectory in trajectories:
        _follow(acts, tool, trajectory, trajectory.success is True)
    return acts


def _follow(acts: Acts, tool: str, trajectory: Trajectory, good: bool) -> None:
    records: dict[str, dict[str, Any]] = {}
    done, after = set[str](), None
    for call, answer, is_error in answered_calls(trajectory):
        named = call.arguments.get(acts.read_argument if call.name == acts.read else acts.argument)
        if call.name == acts.read and isinstance(named, str) and not is_error:
            value = parsed(answer)
            if isinstance(value, dict):
                records[named] = value
        elif call.name == tool and isinstance(named, str):
            record = records.get(named)
            if is_error:
                if record is not None:
                    acts.refused.append((record, masked(answer, call.arguments)))
                    if good and after is None:
                        after = list[ToolCall]()
                        acts.after.append(after)
                continue
            if good and named not in done:
                acts.read_first.append(record is not None)
                done.add(named)
                if record is not None:
                    acts.wrote.append(record)
            if record is not None:
                for argument, given in call.arguments.items():
                    acts.paths[argument].update([*paths_of(record, given), "*"])
        elif after is not None and not is_error:
            after.append(call)


def links_of(
    tools: Sequence[ToolSpec], trajectories: Sequence[Trajectory]
) -> dict[tuple[str, str], tuple[str, str]]:
    """Return (writing tool, reading tool) -> the arguments of the two that hold the same values most often.

    An argument of the same name in both wins over one that happens to hold equal values.
    """
    mutates = {tool.name: bool(tool.mutates) for tool in tools}
    pairs: dict[tuple[str, str], Counter[tuple[str, str]]] = defaultdict(Counter)
    for trajectory in trajectories:
        known: dict[str, set[tuple[str, str]]] = defaultdict(set)
        for call, _, is_error in answered_calls(trajectory):
            writes = mutates.get(call.name)
            for name, value in call.arguments.items():
                if not isinstance(value, str):
                    continue
                if writes:
                    for read, other in known[value]:
                        pairs[call.name, read][name, other] += 1
                elif writes is False and not is_error:
                    known[value].add((call.name, name))
    return {
        both: min(found, key=lambda pair: (-found[pair], pair[0] != pair[1], pair))
        for both, found in sorted(pairs.items())
    }


def paths_of(record: dict[str, Any], value: object) -> list[str]:
    """Return where a value stands in a record: `field`, or `field[].name` inside a list of records.

    >>> paths_of({"id": "L-1", "parts": [{"name": "lid"}]}, "lid")
    ['parts[].name']
    >>> paths_of({"parts": [{"id": "a1"}, {"id": "b2"}]}, ["b2", "a1"])
    ['parts[].id']
    """
    if isinstance(value, list):
        each = [paths_of(record, one) for one in value if isinstance(one, str)]
        return [path for path in each[0] if all(path in other for other in each)] if each else []
    found = [name for name, held in record.items() if held == value]
    for outer, held in record.items():
        if isinstance(held, list):
            inner = {
                name for item in held if isinstance(item, dict) for name, v in item.items() if v == value
            }
            found += [f"{outer}[].{name}" for name in sorted(inner)]
    return found


# Calls and what they were answered, whoever made them.


Side = Literal["assistant", "user"]


def answered_calls(trajectory: Trajectory, by: Side = "assistant") -> Iterator[tuple[ToolCall, str, bool]]:
    """Yield every tool call of one side with its answer and whether that was an error.

    An answer that says so itself is an error too: many logs do not mark them.
    """
    for call, answer in paired(trajectory, by):
        if answer is not None:
            text = answer.content or ""
            yield call, text, answer.is_error or tells_error(text)


def paired(trajectory: Trajectory, by: Side = "assistant") -> Iterator[tuple[ToolCall, Message | None]]:
    """Yield every tool call of one side with its answer, None where there is none.

    An answer belongs to the last call of its id before it: some servers number the calls of every turn anew.
    """
    waiting: dict[str, int] = {}
    found: list[tuple[ToolCall, Message | None]] = []
    for message in trajectory.messages:
        if message.role == by and (by == "user" or message.requestor == "assistant"):
            for call in message.tool_calls:
                waiting[call.id] = len(found)
                found.append((call, None))
        elif message.role == "tool" and message.tool_call_id in waiting:
            at = waiting.pop(message.tool_call_id)
            found[at] = (found[at][0], message)
    yield from found


def parsed(text: str) -> Any:
    """Return the JSON value of a text, or the text itself when it is not JSON.

    >>> parsed('{"ok": true}'), parsed("done")
    ({'ok': True}, 'done')
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def masked(text: str, arguments: Json) -> str:
    """Replace the values of a call's arguments in a text by `{argument}`, for nested ones by the last name.

    >>> masked("no loan L-17", {"loan": "L-17"})
    'no loan {loan}'
    >>> masked("cannot pay with c_1, not now", {"ways": [{"payment_id": "c_1"}], "insured": "no"})
    'cannot pay with {payment_id}, not now'
    """
    found = {(path.rpartition(".")[2], value) for path, value in leaves(arguments) if isinstance(value, str)}
    for name, value in sorted(found, key=lambda item: (-len(item[1]), item)):
        if len(value) > 1 and value in text:
            slot = "{" + name.replace("\\", "\\\\") + "}"
            text = re.sub(rf"(?<![\w{{]){re.escape(value)}(?![\w}}])", slot, text)
    return text


# Error texts as templates: what changes from call to call becomes a slot.


MAX_TEMPLATES = 12
MAX_CHARACTERS = 500
VALUE = "{value}"
"""The slot of something that is no argument of the call."""


class ErrorText(Record):
    """An error that a tool answers."""

    text: str
    """The call's arguments are `{argument}`; `{value}` is anything else that changes."""
    n: int


def templates_of(texts: Mapping[str, int]) -> list[ErrorText]:
    """Merge texts that differ in identifiers or numbers only; the most frequent come first.

    Args:
        texts: Text, with arguments as slots already, to how often it was answered.

    >>> templates_of({"no flight on 2024-05-01": 1, "no flight on 2024-05-02": 2, "too late": 1})
    [ErrorText(text='no flight on {value}', n=3), ErrorText(text='too late', n=1)]
    >>> templates_of({"at most 5 items": 4})
    [ErrorText(text='at most 5 items', n=4)]
    """
    groups: dict[str, list[str]] = defaultdict(list)
    for text in texts:
        groups[generalized(text[:MAX_CHARACTERS])].append(text)
    counts: Counter[str] = Counter()
    for template, members in groups.items():
        counts[template if len(members) > 1 else members[0][:MAX_CHARACTERS]] += sum(
            texts[text] for text in members
        )
    common = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [ErrorText(text=text, n=n) for text, n in common[:MAX_TEMPLATES]]


def generalized(text: str) -> str:
    """Replace every word that holds a digit by `{value}`.

    >>> generalized("Error: no seat 12A on HAT001, {date}.")
    'Error: no seat {value} on {value}, {date}.'
    """

    def value(match: re.Match[str]) -> str:
        return VALUE if any(map(str.isdigit, match[0])) else match[0]

    pieces = re.split(r"(\{\w{1,80}\})", text)
    return "".join(piece if place % 2 else _WORD.sub(value, piece) for place, piece in enumerate(pieces))


_WORD = re.compile(r"#?\w[\w-]*(?:\.\d+)?")
