"""Fields that no text speaks of and that tell all the same what is to be done: nobody needs to judge then.

A rule goes by what it names. Where a field, a word of one, or a sentence goes with the decision on every
seed (or with the entry of a list that is to be taken), no text that agents are given says a word of it, and
what texts do speak of has a say as well, it repeats what the agent is to find out.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trace_assets.diagnosis.detectors.identity import looks_like_id
from trace_assets.diagnosis.detectors.values import leaves, tells_error
from trace_assets.environments.audit.allowed_ways import told_to_agents
from trace_assets.environments.audit.check import Subject
from trace_assets.environments.audit.decision_tree import (
    before_writes,
    decided,
    looked_at_by_all,
    tool_of,
)
from trace_assets.environments.audit.dependence import told_by
from trace_assets.environments.audit.scripted_rollouts import calls_in, looks_aside
from trace_assets.environments.contract.answers import SAYS, written

LEAST, ENTRIES = 6, 12
"""Seeds of a decision, and entries of a list, that a field must tell from as many others."""
SURE = 0.98
"""Balanced share that a field alone tells right, from which on it says what is to be done."""
MOST_VALUES, MOST_LETTERS = 8, 40
"""Values of a field that may each stand for something, and letters of one whose words are told apart."""
HEARD = 0.05
"""Chance of as much by accident, below which what texts speak of has a say."""
_WORD = re.compile(r"[^\W\d_]+")
_STEM = 5
_PLAIN = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "by",
        "for",
        "from",
        "has",
        "id",
        "if",
        "in",
        "is",
        "it",
        "its",
        "no",
        "not",
        "of",
        "on",
        "or",
        "that",
        "the",
        "this",
        "to",
        "was",
        "with",
    ]
)
_YES_OR_NO = frozenset(["true", "false", "yes", "no", "none", "null", "ok"])
"""Values that every text has, whatever it is about."""


class Flag(NamedTuple):
    """What may hold of a record: that a field is something, has a word, or stays below a limit."""

    path: str
    how: Literal["is", "has", "<="]
    value: Any

    def __str__(self) -> str:
        return f"{self.path} {self.how} {self.value if self.how == '<=' else repr(self.value)}"


Flags = dict[Flag, NDArray[np.bool_]]
Row = Mapping[str, Any]


def telling_field(subject: Subject) -> str:
    """Say which field tells the decision, or the entry to be taken, though no text speaks of it."""
    known = _known(subject)
    for rows, classes, least in (*_decisions(subject), *_entries(subject)):
        found = without_empty(rows)
        flags = {
            one: held for one, held in flags_of(found).items() if least <= held.sum() <= len(rows) - least
        }
        spoken = spoken_of(flags, known)
        for one, n in sorted(Counter(classes).items(), key=lambda item: repr(item[0])):
            if not least <= n <= len(classes) - least:
                continue
            meant = np.array([c == one for c in classes])
            for name, held in flags.items():
                if name not in spoken and tells(held, meant) and has_a_say(spoken, meant, name, held):
                    return f"'{one}' goes with {name} in {len(rows)} cases, and no text speaks of that"
    return ""


def spoken_of(flags: Flags, known: set[str]) -> Flags:
    """Return the flags that texts speak of, and those whose field has another value that they speak of.

    Of words and sentences only what goes with the other, or against it, is the same thing said otherwise.
    """
    spoken = {one for one in flags if is_spoken(one, known)}
    fields = {one.path for one in spoken if one.how == "is" and not _is_sentence(one.path)}
    said = {one: flags[one] for one in spoken if one.how != "<="}
    for one in [one for one in flags if one not in spoken and one.how != "<="]:
        alike = (held for other, held in said.items() if other.path == one.path)
        if one.path in fields or any(tells(flags[one], held) for held in alike):
            spoken.add(one)
    return {one: held for one, held in flags.items() if one in spoken}


def tells(held: NDArray[np.bool_], meant: NDArray[np.bool_]) -> bool:
    """Whether something goes with a class, or with its opposite, nearly always."""
    right = (held[meant].mean() + (~held[~meant]).mean()) / 2
    return bool(max(right, 1 - right) >= SURE)


def has_a_say(spoken: Flags, meant: NDArray[np.bool_], name: Flag, held: NDArray[np.bool_]) -> bool:
    """Whether what texts speak of tells something of a class too: else the field may be the rule's own.

    What a place never shows together with the field's own words may stand there instead of them: then both
    are what has to be understood, and the one says no more than the other.
    """
    others = {
        str(one): other for one, other in spoken.items() if one.path != name.path or (other & held).any()
    }
    rows = [{one: True for one, other in others.items() if other[n]} for n in range(len(meant))]
    told = told_by(rows, meant.tolist())
    return told is not None and told.p <= HEARD


# What is compared: decisions by what looks show, and entries of a list by what they hold.


Case = tuple[list[Row], list[Hashable], int]


def _decisions(subject: Subject) -> Iterator[Case]:
    """Yield what looks showed, those that the oracle leaves out among them, with the decision."""
    cases = decided(subject)
    usual = {tool_of(path) for row in looked_at_by_all(cases) for path in row}
    used = {call["name"] for one in cases for call in calls_in(subject.probe.oracle(one.seed))}
    rows: list[Row] = []
    for one in cases:
        own = {tool: text for tool, text in one.raw.items() if tool in usual}
        aside = {tool: text for tool, text in _aside(subject, one.seed).items() if tool not in used}
        rows.append(_fields({**aside, **own}))
    yield rows, [one.kind for one in cases], LEAST
    for kind in sorted({one.kind for one in cases}):
        same = [n for n, one in enumerate(cases) if one.kind == kind]
        given = [_last_call(subject, cases[n].seed, kind) for n in same]
        for key in sorted({key for arguments in given for key in arguments}):
            values = [arguments.get(key) for arguments in given]
            if all(isinstance(v, bool) or (isinstance(v, str) and not looks_like_id(v)) for v in values):
                yield (
                    [_without(rows[n], values) for n in same],
                    [f"{kind} with {key} {v}" for v in values],
                    LEAST,
                )


def _without(row: Row, values: Sequence[Any]) -> Row:
    """Return a record without what holds a value that is passed on: that is what it is shown for."""
    passed = {str(v).lower() for v in values if isinstance(v, str)}
    return {
        path: v
        for path, v in row.items()
        if not passed & {str(one).lower() for one in (v if isinstance(v, list) else [v])}
    }


def _aside(subject: Subject, seed: int) -> dict[str, str]:
    """Return what the tools show that the oracle leaves out, asked for the names of the request."""
    calls = calls_in(looks_aside(subject.probe, seed))
    found: dict[str, str] = {}
    for one, message in zip(calls, subject.probe.aside(seed) if calls else (), strict=False):
        text = str(message.get("content") or "")
        if message["role"] == "tool" and not message.get("is_error") and not tells_error(text):
            found.setdefault(one["name"], text)
    return found


def _fields(raw: Mapping[str, str]) -> Row:
    r"""Return the places of answers with what stands there, all of it where several do.

    >>> _fields({"get": "a: 1\nb: x", "list": '[{"n": 1}, {"n": 2}]'})
    {'get.a': 1, 'get.b': 'x', 'list.n': [1, 2]}
    """
    found: dict[str, Any] = {}
    for path, value, listed in _places({tool: written(text) for tool, text in raw.items()}):
        if listed:
            found.setdefault(path, []).append(value)
        else:
            found[path] = value
    return found


def _places(value: Any, path: str = "", listed: bool = False) -> Iterator[tuple[str, Any, bool]]:
    """Yield what stands at the places of a value, and whether it is one of several that may stand there."""
    if isinstance(value, Mapping):
        for key, held in value.items():
            yield from _places(held, f"{path}.{key}" if path else str(key), listed)
    elif isinstance(value, list):
        for held in value:
            yield from _places(held, path, True)
    else:
        yield path, value, listed


def _last_call(subject: Subject, seed: int, kind: str) -> Mapping[str, Any]:
    made = [one for one in calls_in(subject.probe.oracle(seed)) if one["name"] == kind]
    return made[-1]["arguments"] if made else {}


def _entries(subject: Subject) -> Iterator[Case]:
    """Yield the entries of each list of records, with whether a change names them."""
    lists: dict[str, list[tuple[list[Row], set[str]]]] = defaultdict(list)
    for one in decided(subject):
        calls = [c for c in calls_in(subject.probe.oracle(one.seed)) if subject.probe.writes(c["name"])]
        given = {str(v) for c in calls for _, v in leaves(c["arguments"]) if not isinstance(v, bool)}
        for call, text, is_error in before_writes(subject.probe, one.seed):
            for path, rows in () if is_error else _records(written(text), call["name"]):
                lists[path].append((rows, given))
    for path, shown in sorted(lists.items()):
        names = Counter(k for rows, given in shown for row in rows for k, v in row.items() if str(v) in given)
        for key, _ in names.most_common(1):
            told = [
                (rows, given) for rows, given in shown if len({str(r.get(key)) for r in rows}) == len(rows)
            ]
            found = [
                ({f"{path}.{k}": v for k, v in r.items() if k != key}, str(r.get(key)) in given)
                for rows, given in told
                for r in rows
            ]
            if found:
                yield [row for row, _ in found], ["taken" if taken else "left" for _, taken in found], ENTRIES


def _records(value: Any, path: str) -> Iterator[tuple[str, list[Row]]]:
    if isinstance(value, Mapping):
        for key, held in value.items():
            yield from _records(held, f"{path}.{key}")
    elif isinstance(value, list) and len(value) > 1 and all(isinstance(one, Mapping) for one in value):
        yield path, value


def without_empty(rows: Sequence[Row]) -> list[Row]:
    """Return records without what some of them show whole and others not at all: a search that found nothing.

    That is what a rule may go by. A field that some records lack while they have its neighbours stays.

    >>> without_empty([{"get.n": 1, "get.hits.id": "a", "get.hits.by": "b"}, {"get.n": 0}])
    [{'get.n': 1}, {'get.n': 0}]
    >>> without_empty([{"get.n": 1, "get.mark": "x"}, {"get.n": 0}])[0]
    {'get.n': 1, 'get.mark': 'x'}
    """
    where: dict[str, set[int]] = defaultdict(set)
    lists = {path for row in rows for path, value in row.items() if isinstance(value, list)}
    for n, row in enumerate(rows):
        for path in row:
            where[path].add(n)
    beside: dict[str, set[int]] = defaultdict(set)
    for path, held in where.items():
        beside[path.rpartition(".")[0]] |= held
    empty = {
        path
        for path, held in where.items()
        if len(held) < len(rows) and (path in lists or held == beside[path.rpartition(".")[0]])
    }
    return [{path: v for path, v in row.items() if path not in empty} for row in rows]


# What can be asked of a record, and whether a text speaks of it.


def flags_of(rows: Sequence[Row]) -> Flags:
    """Return what holds of which records: few values, limits of numbers, words of short texts, sentences.

    >>> found = flags_of([{"get.tag": "x1 red", "get.n": n} for n in range(3)])
    >>> [str(one) for one in found][:3]
    ["get.tag is 'x1 red'", "get.tag has 'red'", "get.tag has 'x'"]
    >>> [(str(one), held.tolist()) for one, held in found.items()][3:]
    [('get.n <= 0.5', [True, False, False]), ('get.n <= 1.5', [True, True, False])]
    """
    values: dict[str, dict[Any, set[int]]] = defaultdict(lambda: defaultdict(set))
    words: dict[Flag, set[int]] = defaultdict(set)
    numbers: dict[str, dict[int, float]] = defaultdict(dict)
    for n, row in enumerate(rows):
        for path, value in row.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                numbers[path][n] = value
                continue
            for one in value if isinstance(value, list) else (value,):
                # True is not 1 here.
                values[path][one if isinstance(one, str) else repr(one)].add(n)
                if isinstance(one, str) and len(one) <= MOST_LETTERS and not _is_sentence(path):
                    for word in _WORD.findall(one):
                        words[Flag(path, "has", word.lower())].add(n)
    found: dict[Flag, set[int]] = {}
    for path, held in sorted(values.items()):
        if len(held) <= MOST_VALUES or _is_sentence(path):
            found |= {Flag(path, "is", value): where for value, where in sorted(held.items())}
    found |= dict(sorted(words.items()))
    for path, by_row in sorted(numbers.items()):
        if len(by_row) == len(rows):  # of what some records lack, the lack may tell
            cuts = [(low + high) / 2 for low, high in pairwise(sorted(set(by_row.values())))]
            found |= {Flag(path, "<=", cut): {n for n, v in by_row.items() if v <= cut} for cut in cuts}
    return {one: _flag(where, len(rows)) for one, where in found.items()}


def _is_sentence(path: str) -> bool:
    return path.rpartition(".")[2] == SAYS


def _flag(where: set[int], n: int) -> NDArray[np.bool_]:
    flag = np.zeros(n, dtype=bool)
    flag[list(where)] = True
    return flag


def _known(subject: Subject) -> set[str]:
    """Return the stems of all that agents are told: policy, capability, tools, and real results."""
    probe = subject.probe
    texts = [told_to_agents(subject), json.dumps(probe.tools(), default=str)]
    if subject.contract:
        texts += [one.model_dump_json() for one in subject.contract.results]
    return _stems(" ".join(texts))


def _stems(text: str) -> set[str]:
    words = [
        word.lower() for word in _WORD.findall(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text.replace("_", " ")))
    ]
    return {word.removesuffix("s")[:_STEM] for word in words if word not in _PLAIN}


def is_spoken(one: Flag, known: set[str]) -> bool:
    """Tell whether a text speaks of a flag: of its field's name, or of what stands there.

    >>> known = _stems("Only open orders.")
    >>> [is_spoken(Flag(f"get.{one}", "is", "x"), known) for one in ("order_no", "state")]
    [True, False]
    >>> [is_spoken(Flag("get.says", "is", one), known) for one in ("It is open", "The sea is wet")]
    [True, False]
    """
    _, within, field = one.path.rpartition(".")
    of_field = _stems(field) if within and not _is_sentence(one.path) else set()
    of_value = _stems(str(one.value)) - _YES_OR_NO if one.how != "<=" else set()
    return bool((of_field | of_value) & known)
