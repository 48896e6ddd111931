"""What an agent decided about an object, and what it had been shown of it: from real runs and from oracles.

A decision is read off calls alone: which changes were made to a thing, whether it was looked up before, and
what the look told. So real runs that were labelled can be held against an environment without any words.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from trace_assets.diagnosis.detectors.mutation import hands_over
from trace_assets.diagnosis.detectors.values import leaves, time_of
from trace_assets.environments.contract.answers import answered_calls, paired, written
from trace_assets.records import DecisionPattern, Label, LabelValue, Trajectory

MOST_RUNS = {"PRESENT": 40, "LACKING": 40, "NA": 20}
"""Runs that are kept of each label."""
MOST_OF_TASK = 4
MOST_FIELDS, MOST_CALLS, MOST_TEXT = 80, 24, 60
MOST_THINGS = 6
Fields = dict[str, Any]
_WORD = re.compile(r"[#\w](?:[\w.@/-]*\w)?")


def decisions_of(
    run: Trajectory, label: LabelValue, capability_id: str, evidence: Collection[int] = ()
) -> list[DecisionPattern]:
    """Return what was decided about each thing that a run names in its calls and that its label is about.

    A run may deal with several things, and lack a capability with one of them only. Where the label is about
    nothing that a call names there is one row without a thing: by it the run is known to have been looked at.

    Args:
        run: The calls and what they were answered.
        label: Of the run.
        capability_id: What the label is about.
        evidence: Indices of the messages that show the label; see `things_meant`.
    """
    calls = list(answered_calls(run))
    meant = things_meant(run, evidence)
    things = Counter(value for call, _, _ in calls for value in _ids(call.arguments))
    chosen = [thing for thing, _ in things.most_common(MOST_THINGS) if thing in meant]
    if not chosen:
        return [_decision(run, label, capability_id, "", [])]
    return [_decision(run, label, capability_id, thing, calls) for thing in chosen]


def things_meant(run: Trajectory, evidence: Collection[int]) -> set[str]:
    """Return the things of a run's calls that some messages are about.

    These are the things of the calls that the messages make or answer; otherwise those that the agent speaks
    of there. Where neither is any, it is every thing, unless the messages name a thing that no call does: a
    label may well be about what was never touched.

    Args:
        run: A trajectory.
        evidence: Indices of its messages; without any, nothing is known and it is every thing.
    """
    touched: dict[str, set[int]] = defaultdict(set)
    place = {id(message): n for n, message in enumerate(run.messages)}
    made = {id(call): n for n, message in enumerate(run.messages) for call in message.tool_calls}
    for call, answer in paired(run):
        for thing in _ids(call.arguments):
            touched[thing] |= {made[id(call)]} | ({place[id(answer)]} if answer is not None else set())
    shown = set(evidence)
    meant = {thing for thing, places in touched.items() if places & shown}
    if meant or not shown:
        return meant or set(touched)
    said = [run.messages[n] for n in sorted(shown) if n < len(run.messages)]
    spoken = {word for one in said if one.role == "assistant" for word in _words(one.content)}
    if meant := {thing for thing in touched if thing in spoken}:
        return meant
    named = {word for one in said for word in _words(one.content) if any(c.isdigit() for c in word)}
    return set(touched) if named <= touched.keys() else set()


def _words(text: str | None) -> set[str]:
    return set(_WORD.findall(text or ""))


def _decision(
    run: Trajectory, label: LabelValue, capability_id: str, thing: str, calls: Sequence[tuple[Any, str, bool]]
) -> DecisionPattern:
    shown: Fields = {}
    made: list[str] = []
    for call, answer, is_error in calls:
        own = _ids(call.arguments)
        if thing not in own and (own or not hands_over(call.name)):
            continue
        if len(made) < MOST_CALLS and made[-1:] != [call.name]:
            made.append(call.name)
        # What a tool told first is what was decided upon.
        for path, value in fields_of(call.name, "error" if is_error else answer).items():
            if len(shown) < MOST_FIELDS:
                shown.setdefault(path, value)
    return DecisionPattern(
        capability_id=capability_id,
        trajectory_id=run.trajectory_id,
        task_id=run.task_id,
        label=label,
        thing=thing,
        shown=shown,
        calls=tuple(made),
    )


def _ids(arguments: Mapping[str, Any]) -> list[str]:
    return [
        value
        for _, value in leaves(arguments)
        if isinstance(value, str)
        and len(value) <= MOST_TEXT
        and any(c.isdigit() for c in value)
        and " " not in value
        and time_of(value) is None
    ]


def fields_of(tool: str, answer: str) -> Fields:
    """Return the places of an answer with what stands there: scalars, lengths of lists, values within lists.

    >>> fields_of("get", '{"cabin": "economy", "flights": [{"status": "flown"}, {"status": "open"}]}')
    {'get.cabin': 'economy', 'get.flights#': 2, 'get.flights[].status': ['flown', 'open']}
    >>> fields_of("get", "alarm")
    {'get': 'alarm'}
    """
    found: Fields = {}
    for path, value in _places(written(answer), tool):
        if path.count("[]"):
            listed = found.setdefault(path, [])
            if isinstance(listed, list) and value not in listed and len(listed) < 6:
                listed.append(value)
        else:
            found[path] = value
    return {path: sorted(v, key=repr) if isinstance(v, list) else v for path, v in found.items()}


def _places(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for name, held in value.items():
            yield from _places(held, f"{path}.{name}")
    elif isinstance(value, list):
        yield f"{path}#", len(value)
        for one in value[:20]:
            yield from _places(one, f"{path}[]")
    elif not isinstance(value, str) or len(value) <= MOST_TEXT:
        yield path, value


# Which labelled runs are kept.


def settled_labels(labels: Iterable[Label]) -> dict[str, LabelValue]:
    """Return trajectory -> the label that most passes give; a tie is no label, nor is one that abstains.

    >>> rows = [Label(trajectory_id="t", capability_id="c", labelling_pass=n, labeller="x", label=value)
    ...         for n, value in enumerate(["PRESENT", "LACKING", "PRESENT"])]
    >>> settled_labels(rows), settled_labels(rows[:2])
    ({'t': 'PRESENT'}, {})
    >>> settled_labels([rows[0].model_copy(update={"label": "CANNOT_TELL"}), rows[1]])
    {'t': 'LACKING'}
    """
    votes: dict[str, Counter[LabelValue]] = defaultdict(Counter)
    for one in labels:
        if one.label != "CANNOT_TELL":
            votes[one.trajectory_id][one.label] += 1
    settled: dict[str, LabelValue] = {}
    for run, counts in sorted(votes.items()):
        first, *rest = counts.most_common()
        if not rest or first[1] > rest[0][1]:
            settled[run] = first[0]
    return settled


def evidence_of(labels: Iterable[Label], settled: Mapping[str, LabelValue]) -> dict[str, set[int]]:
    """Return trajectory -> the messages that show its settled label, in any pass that gives it.

    >>> row = Label(trajectory_id="t", capability_id="c", labeller="x", label="LACKING", evidence=(1, 4))
    >>> evidence_of([row, row.model_copy(update={"label": "PRESENT", "evidence": (9,)})], {"t": "LACKING"})
    {'t': {1, 4}}
    """
    found: dict[str, set[int]] = defaultdict(set)
    for one in labels:
        if settled.get(one.trajectory_id) == one.label:
            found[one.trajectory_id] |= set(one.evidence)
    return dict(found)


def chosen_runs(
    heads: Iterable[tuple[str, str, str]], labels: Mapping[str, LabelValue]
) -> dict[str, LabelValue]:
    """Return the labelled runs that are kept: the earliest batches first, so that later ones change nothing.

    Args:
        heads: (batch, task, trajectory).
        labels: Trajectory -> its label.

    >>> chosen_runs([("b1", "t", str(n)) for n in range(9)], {str(n): "PRESENT" for n in range(9)}).__len__()
    4
    """
    kept: dict[str, LabelValue] = {}
    counts: Counter[str] = Counter()
    of_task: Counter[tuple[str, str]] = Counter()
    for _, task, run in sorted(heads, key=lambda head: (head[0], _mark(head[2]), head[2])):
        label = labels.get(run)
        if label is None or counts[label] >= MOST_RUNS[label] or of_task[label, task] >= MOST_OF_TASK:
            continue
        counts[label] += 1
        of_task[label, task] += 1
        kept[run] = label
    return kept


def _mark(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
