"""Operators that give a change another value where no schema lists any: items, words, amounts, hours."""

from __future__ import annotations

import copy
import itertools
import random
import re
from collections.abc import Iterator
from typing import Any

from trace_assets.environments.audit.added_changes import changes_in
from trace_assets.environments.audit.scripted_rollouts import (
    Action,
    Call,
    Probe,
    calls_in,
    properties,
    shown_like,
    thing_of,
)

NEIGHBOURS = 12
"""Other seeds that words are taken from."""
LEAST = 3
"""Letters of a word that is looked for in what was shown: shorter ones stand there by accident."""
NEAR = 0.02
"""Share of an amount by which another one differs at least: what is rounded otherwise may be right."""
_MOMENT = re.compile(r"(?:\d{4}-\d\d-(\d\d))?[T ]?(?:(\d\d?):\d\d(?::\d\d)?Z?)?")


def _with(script: list[Action], at: tuple[int, int], key: str, value: Any) -> list[Action]:
    edited = copy.deepcopy(script)
    edited[at[0]]["tool_calls"][at[1]]["arguments"][key] = value
    return edited


def _given(probe: Probe, seed: int) -> Iterator[tuple[tuple[int, int], Call, str, Any]]:
    """Yield the values that the oracle gives to changes, without what is said to whoever takes over."""
    script = probe.oracle(seed)
    for at in changes_in(probe, script):
        one = script[at[0]]["tool_calls"][at[1]]
        if not probe.leaves_words(one["name"]) and not probe.hands_over(one["name"]):
            yield from ((at, one, key, value) for key, value in one["arguments"].items())


def other_items(probe: Probe, seed: int, rng: random.Random) -> Iterator[list[Action]]:
    """Makes a change with one more item that the episode shows, or with one less."""
    script = probe.oracle(seed)
    for at, _, key, value in _given(probe, seed):
        if not isinstance(value, list) or not value:
            continue
        if len(value) > 1:
            left = rng.randrange(len(value))
            yield _with(script, at, key, [*value[:left], *value[left + 1 :]])
        names = [str(one) for one in value]
        if all(isinstance(one, str) for one in value):
            more = [one for one in shown_like(probe, seed, names[0]) if one not in names]
            if more:
                yield _with(script, at, key, [*value, more[0]])


def other_words(probe: Probe, seed: int, rng: random.Random) -> Iterator[list[Action]]:
    """Makes a change with another seed's word, or half a one, in place of one that was shown."""
    script = probe.oracle(seed)
    own_text = _shown(probe, seed)
    shown = own_text + "\n".join(str(m.get("content") or "").lower() for m in probe.best(seed).first)
    for at, one, key, value in _given(probe, seed):
        if not _is_word(value) or _is_listed(probe, one["name"], key) or not _stands_in(value, shown):
            continue
        near = [calls_in(probe.oracle(other)) for other in range(seed + 1, seed + NEIGHBOURS)]
        found = [c["arguments"].get(key) for own in near for c in own if c["name"] == one["name"]]
        others = [v for v in found if _is_word(v) and v != value and not _stands_in(v, own_text)]
        if others:
            yield _with(script, at, key, rng.choice(others))
            yield _with(script, at, key, value[: len(value) // 2])


def other_amount(probe: Probe, seed: int, rng: random.Random) -> Iterator[list[Action]]:
    """Makes a change with a shown amount in place of one that is worked out, or on another day or hour.

    An hour that is shown may be one of several that are right.
    """
    script, shown = probe.oracle(seed), _shown(probe, seed)
    numbers = [float(one) for one in re.findall(r"(?<![\w.:-])\d+(?:\.\d+)?(?![\w:-]|\.\d)", shown)]
    for at, one, key, value in _given(probe, seed):
        if isinstance(value, str) and value != thing_of(one):
            moved = other_moment(value)
            if moved and not _stands_in(moved, shown):
                yield _with(script, at, key, moved)
        elif isinstance(value, int | float) and not isinstance(value, bool) and value not in numbers:
            others = [other for other in numbers if abs(other - value) > NEAR * abs(value)]
            if others:
                nearest = min(others, key=lambda other: abs(other - value))
                yield _with(script, at, key, type(value)(nearest))


def other_digits(probe: Probe, seed: int, rng: random.Random) -> Iterator[list[Action]]:
    """Makes a change with a figure two of whose digits have changed places.

    The first two that differ, so that an amount differs by more than what rounding may do.
    """
    script, shown = probe.oracle(seed), _shown(probe, seed)
    for at, one, key, value in _given(probe, seed):
        plain = isinstance(value, str | int | float) and not isinstance(value, bool)
        if not plain or str(value) == thing_of(one) or (isinstance(value, str) and " " in value):
            continue
        moved = swapped_digits(str(value))
        if moved and not _stands_in(moved, shown):
            yield _with(script, at, key, type(value)(moved))


def swapped_digits(value: str) -> str:
    """Return a figure with its first two neighbouring digits that differ in each other's place.

    >>> swapped_digits("37.45"), swapped_digits("0640"), swapped_digits("77"), swapped_digits("10:30")
    ('73.45', '6040', '', '01:30')
    """
    for n, (one, two) in enumerate(itertools.pairwise(value)):
        if one.isdecimal() and two.isdecimal() and one != two:
            return f"{value[:n]}{two}{one}{value[n + 2 :]}"
    return ""


def other_moment(value: str) -> str:
    """Return another day or hour of the same form; nothing where a text is neither.

    >>> [other_moment(one) for one in ("2026-05-04", "2026-05-28T09:30", "23:00", "0640", "A1", "")]
    ['2026-05-05', '2026-05-28T10:30', '22:00', '', '', '']
    """
    found = _MOMENT.fullmatch(value)
    part = (2 if found[2] else 1) if found and any(found.groups()) else 0
    if not found or not part:
        return ""
    last = 22 if part == 2 else 27
    moved = str(int(found[part]) + (1 if int(found[part]) <= last else -1)).zfill(len(found[part]))
    return f"{value[: found.start(part)]}{moved}{value[found.end(part) :]}"


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and len(value) >= LEAST and not re.search(r"\d", value)


def _is_listed(probe: Probe, tool: str, key: str) -> bool:
    declared = next((t for t in probe.tools() if t["function"]["name"] == tool), None)
    return bool(declared and properties(declared).get(key, {}).get("enum"))


def _shown(probe: Probe, seed: int) -> str:
    """Return what the episode shows beside the policy, which names what is right on other seeds too."""
    best = probe.best(seed)
    told = [*best.first, *(m for answer in best.answers for m in answer["messages"])]
    return "\n".join(str(m.get("content") or "") for m in told if m["role"] != "system").lower()


def _stands_in(value: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(value.lower())}(?!\w)", text) is not None
