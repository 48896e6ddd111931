"""What the tools show where the oracle did not look, and what two looks show differently of one thing."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trace_assets.environments.audit.scripted_rollouts import Played, Probe, calls_in

MOST = 6
"""Further looks that are shown of one episode."""
LONGEST = 600
"""Characters of one of their results."""
ROUNDS = 2
"""Times that new looks are made with what the last ones showed."""
_WORD = re.compile(r"[\w#-]+")

Look = tuple[str, dict[str, Any], str]
"""Tool, arguments, and what it showed."""


@dataclass(frozen=True)
class Difference:
    """Two results of one episode that say different things of the same thing.

    Attributes:
        about: What names the thing in both, such as `item_id=7`.
        field: Where they differ.
        first: The tool, and what it shows there.
        second: The same of the other one.
    """

    about: str
    field: str
    first: tuple[str, Any]
    second: tuple[str, Any]

    def __str__(self) -> str:
        shown = [f"{str(value)[:80]} in {tool}" for tool, value in (self.first, self.second)]
        return f"{self.about}: {self.field} is {shown[0]}, and {shown[1]}"

    @property
    def kind(self) -> tuple[str, ...]:
        """What differs, whatever the values."""
        return self.field, *sorted((self.first[0], self.second[0]))


def looks_of(probe: Probe, played: Played) -> list[Look]:
    """Return the looks of an episode before its first change that succeeded."""
    found: list[Look] = []
    for action, answer in zip(played.actions, played.answers, strict=False):
        calls = list(action.get("tool_calls") or ())
        if any(probe.writes(one["name"]) for one in calls):
            break
        for call, message in zip(calls, _results(answer), strict=False):
            if not message.get("is_error"):
                found.append((call["name"], call["arguments"], str(message.get("content") or "")))
    return found


def _results(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [one for one in answer["messages"] if one.get("role") == "tool"]


def further_looks(probe: Probe, played: Played, others: Sequence[Played]) -> list[Look]:
    """Look where the oracle did not, with the names of things that the episode holds.

    Args:
        probe: Plays them.
        played: The oracle's episode.
        others: Further ones: how names of things look in calls is learned from them.
    """
    made = looks_of(probe, played)
    done = {_key(one["name"], one["arguments"]) for one in calls_in(played.actions)}
    shapes = _shapes([played, *others])
    words = [str(one.get("content") or "") for one in played.first if one["role"] == "user"]
    found: list[Look] = []
    for _ in range(ROUNDS):
        known = _known([*made, *found], words, shapes, probe)
        calls: list[dict[str, Any]] = [
            {"name": name, "arguments": arguments}
            for name, arguments in _calls(probe, known)
            if _key(name, arguments) not in done
        ][: MOST - len(found)]
        done |= {_key(one["name"], one["arguments"]) for one in calls}
        for call, message in zip(calls, probe.ask(played.seed, calls) if calls else (), strict=True):
            if not message.get("is_error"):
                found.append((call["name"], call["arguments"], str(message.get("content") or "")))
    return found


def shown_look(one: Look) -> str:
    """Return a look as a line."""
    name, arguments, result = one
    short = result if len(result) <= LONGEST else f"{result[:LONGEST]} [...]"
    return f"{name} {json.dumps(arguments, ensure_ascii=False)} shows: {short}"


def differences(probe: Probe, looks: Iterable[Look]) -> list[Difference]:
    """Return what looks of one episode show differently of the same thing, one of each kind.

    Two records are of the same thing where they share a field that some tool looks things up by, and all
    such fields that they share are equal.
    """
    keys = {name for tool in probe.tools() for name in _parameters(tool)}
    records = [(name, record) for name, _, result in looks for record in _records(result)]
    found: dict[tuple[str, ...], Difference] = {}
    for (tool, one), (other_tool, other) in itertools.combinations(records, 2):
        shared = [name for name in one if name in keys and name in other]
        if not any(_is_name(one[name]) for name in shared) or any(one[n] != other[n] for n in shared):
            continue
        about = ", ".join(f"{name}={one[name]}" for name in shared)
        for name in one:
            both = one[name], other.get(name)
            if name not in keys and all(map(_plain, both)) and both[0] != both[1]:
                row = Difference(about, name, (tool, both[0]), (other_tool, both[1]))
                found.setdefault(row.kind, row)
    return list(found.values())


def _key(name: str, arguments: Mapping[str, Any]) -> str:
    return f"{name} {json.dumps(arguments, sort_keys=True, default=str)}"


def _parameters(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    parameters = (tool.get("function") or {}).get("parameters") or {}
    found = parameters.get("properties")
    return found if isinstance(found, dict) else {}


def _records(result: str) -> Iterator[dict[str, Any]]:
    try:
        value = json.loads(result)
    except (ValueError, RecursionError):
        return
    open_ones = [value]
    while open_ones:
        one = open_ones.pop()
        if isinstance(one, dict):
            yield one
        if isinstance(one, dict | list):
            open_ones += list(one.values()) if isinstance(one, dict) else one


def _plain(value: Any) -> bool:
    return isinstance(value, str | int | float | bool)


def _is_name(value: Any) -> bool:
    """Tell whether a value names one thing: a word with a digit in it."""
    return isinstance(value, str) and " " not in value and any(char.isdigit() for char in value)


def _shape(text: str) -> str:
    return re.sub(r"[^\W\d_]", "a", re.sub(r"\d", "9", text))


def _shapes(episodes: Sequence[Played]) -> dict[str, set[str]]:
    """Return how the values look that the oracle passes under each name."""
    found: dict[str, set[str]] = {}
    for one in episodes:
        for call in calls_in(one.actions):
            for name, value in call["arguments"].items():
                if isinstance(value, str):
                    found.setdefault(name, set()).add(_shape(value))
    return found


def _known(
    looks: Sequence[Look], words: Sequence[str], shapes: Mapping[str, set[str]], probe: Probe
) -> dict[str, list[Any]]:
    """Return the values that an episode holds for each parameter of a tool, in the order of their place."""
    found: dict[str, list[Any]] = {}
    names = {name for tool in probe.tools() for name in _parameters(tool)}

    def add(name: str, value: Any) -> None:
        if name in names and value not in found.setdefault(name, []):
            found[name].append(value)

    def by_shape(text: str) -> None:
        for name, known in shapes.items():
            if _is_name(text) and _shape(text) in known:
                add(name, text)

    for text in words:
        for word in _WORD.findall(text):
            by_shape(word)
    for _, arguments, result in looks:
        for name, value in arguments.items():
            add(name, value)
        for record in _records(result):
            for name, value in record.items():
                if _plain(value):
                    add(name, value)
                for one in value if isinstance(value, list) else [value]:
                    if isinstance(one, str):
                        by_shape(one)
    return found


def _calls(probe: Probe, known: Mapping[str, Sequence[Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    for tool in probe.tools():
        function = tool.get("function") or {}
        name = str(function.get("name"))
        required = (function.get("parameters") or {}).get("required") or []
        if not probe.writes(name) and all(one in known for one in required):
            for values in itertools.product(*(known[one][:MOST] for one in required)):
                yield name, dict(zip(required, values, strict=True))
