"""When a write is right: what contrasting successful trajectories of the same wording teaches.

Successful agents that were asked for the same thing wrote in some cases and did something else in others.
If one field of the record they had read tells the two apart, that field guards the write.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from trace_assets.environments.contract.answers import (
    Acts,
    acts_of,
    answered_calls,
    links_of,
    masked,
    parsed,
    paths_of,
)
from trace_assets.environments.contract.shapes import calls_of, first_request
from trace_assets.environments.contract.wording import Phrasing
from trace_assets.records import Json, Record, ToolCall, ToolSpec, Trajectory

MIN_SIDE = 4
"""Successful trajectories needed with the write, and without it."""
MIN_ACCURACY = 0.9


class Guard(Record):
    """How one writing tool is used by agents that succeed."""

    tool: str
    read: str
    """The reading tool whose result decides."""
    object_argument: str
    """The argument that names the object."""
    read_argument: str = ""
    """What the reading tool calls that argument, where it has another name for it; else empty."""
    records: Json
    """Field of the record -> values under which the write was right."""
    selects: Json
    """Argument -> path in the record (`field` or `field[].name`) at which its value must be found."""
    field: str = ""
    """The guarding field; empty when successes show none."""
    allowed: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    instead: str = ""
    """What is called where the write is forbidden."""
    instead_arguments: Json = {}
    """Its usual other arguments."""
    accuracy: float | None = None
    """Share of the trajectories that the field tells right."""
    refusal: str = ""
    """Error that the target itself answers to a forbidden write; empty when it lets it happen."""
    read_first: float | None = None
    """Share of successful trajectories of such requests that read the object before they changed it."""
    n: int = 0
    """Successful trajectories of such requests in which the record was read."""


def guards_of(
    tools: Sequence[ToolSpec], trajectories: Sequence[Trajectory], phrasing: Phrasing
) -> list[Guard]:
    """Return how each writing tool is used, for those that share an object with a reading tool."""
    guards = []
    links = links_of(tools, trajectories)
    reading = [tool for tool in tools if tool.mutates is False]
    for tool in tools:
        if not tool.mutates:
            continue
        worded = (_guard(tool, read, tools, trajectories, phrasing) for read in reading)
        options = [guard for guard in worded if guard and guard.n >= MIN_SIDE]
        if not options:
            # Nobody words two requests alike: what was done to the records that were read has to tell.
            followed = [
                acts_of(tool.name, read, link, trajectories)
                for (writing, read), link in links.items()
                if writing == tool.name
            ]
            options = [guard for acts in followed if (guard := _guard_of_acts(acts, tool, tools))]
        if options:
            guards.append(max(options, key=lambda guard: (bool(guard.field), guard.n)))
    return guards


def _guard_of_acts(acts: Acts, tool: ToolSpec, tools: Sequence[ToolSpec]) -> Guard | None:
    """Return how a tool is used, from what was done to records that were read: written, or refused."""
    if not acts.wrote:
        return None
    guard = Guard(
        tool=tool.name,
        read=acts.read,
        object_argument=acts.argument,
        read_argument=acts.read_argument if acts.read_argument != acts.argument else "",
        records=_values_of(acts.wrote, (acts.argument, acts.read_argument)),
        selects=_selects(acts.paths, acts.argument),
        read_first=fmean(acts.read_first),
        n=len(acts.wrote) + len(acts.refused),
    )
    by_error: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for record, error in acts.refused:
        by_error[error].append(record)
    told = [
        (-found[3], -len(refused), error, found)
        for error, refused in sorted(by_error.items())
        if (found := _told_field(acts.wrote, refused, f"{tool.description} {error}"))
    ]
    if not told:
        return guard
    _, _, refusal, decision = min(told, key=lambda one: one[:3])
    mutates = {one.name: bool(one.mutates) for one in tools}
    changes = [call for calls in acts.after for call in calls if mutates.get(call.name)]
    first = [next((c for c in calls if mutates.get(c.name)), None) for calls in acts.after]
    after = Counter(call.name for call in first if call is not None)
    instead = min(after, key=lambda name: (-after[name], name), default="")
    if 2 * after[instead] <= len(acts.after) or after[instead] < 2:
        instead = ""
    return _decided(guard, decision, instead, changes, refusal)


def _values_of(wrote: Sequence[dict[str, Any]], but: Collection[str]) -> dict[str, list[str]]:
    """Return the values of each field of the written records, but for those that name the object."""
    return {
        field: sorted({record[field] for record in wrote if isinstance(record.get(field), str)})
        for field in _enumerable(wrote)
        if field not in but
    }


def _selects(paths: Mapping[str, Counter[str]], but: str) -> dict[str, str]:
    """Return where in the record each argument's value stands, but for the argument that names the object."""
    found = ((argument, _path(counts)) for argument, counts in sorted(paths.items()) if argument != but)
    return {argument: path for argument, path in found if path}


Decision = tuple[str, tuple[str, ...], tuple[str, ...], float]
"""The field that tells writes from the rest, its allowed and forbidden values, and how often it is right."""


def _decided(
    guard: Guard, decision: Decision, instead: str, calls: Iterable[ToolCall], refusal: str
) -> Guard:
    """Return a guard with what decides, the tool that is used instead, and how it is refused."""
    field, allowed, forbidden, accuracy = decision
    return guard.model_copy(
        update={
            "field": field,
            "allowed": allowed,
            "forbidden": forbidden,
            "accuracy": accuracy,
            "instead": instead,
            "instead_arguments": _usual([call for call in calls if call.name == instead]),
            "refusal": refusal,
        }
    )


def _told_field(
    wrote: Sequence[dict[str, Any]], refused: Sequence[dict[str, Any]], said: str
) -> Decision | None:
    """Find the field that tells writes from refusals; one or two refusals do if words name its values too."""
    if len(wrote) < MIN_SIDE or not refused:
        return None
    options = []
    for field in _enumerable(wrote):
        yes = Counter(str(record[field]) for record in wrote if field in record)
        no = Counter(str(record[field]) for record in refused if field in record)
        allowed = tuple(sorted(v for v in yes if yes[v] > no[v]))
        forbidden = tuple(sorted(v for v in no if no[v] >= yes[v]))
        right = sum(yes[v] for v in allowed) + sum(no[v] for v in forbidden)
        accuracy = right / (len(wrote) + len(refused))
        told = any(v.lower() in said.lower() for v in (*allowed, *forbidden) if len(v) > 3)
        if allowed and forbidden and accuracy >= MIN_ACCURACY and (told or len(refused) >= MIN_SIDE):
            options.append((not told, -accuracy, field, allowed, forbidden))
    if not options:
        return None
    _, accuracy, field, allowed, forbidden = min(options)
    return field, allowed, forbidden, -accuracy


def _properties(tool: ToolSpec) -> set[str]:
    return set(tool.parameters.get("properties", {}))


def _guard(
    tool: ToolSpec,
    read: ToolSpec,
    tools: Sequence[ToolSpec],
    trajectories: Sequence[Trajectory],
    phrasing: Phrasing,
) -> Guard | None:
    shared = sorted(_properties(tool) & _properties(read))
    if not shared:
        return None
    key = shared[0]
    mutates = {t.name: bool(t.mutates) for t in tools}
    # A precondition shows as a difference between objects that were written to and objects that were asked
    # for and left alone, by runs that passed: a failed run's writes say what the agent did, not what is
    # allowed.
    wrote: list[dict[str, Any]] = []
    refrained: list[tuple[dict[str, Any], ToolCall]] = []
    paths: dict[str, Counter[str]] = defaultdict(Counter)
    answers: list[tuple[dict[str, Any], str]] = []
    read_first: list[bool] = []
    for trajectory in trajectories:
        records = _records(trajectory, read.name, key)
        for call, answer, is_error in answered_calls(trajectory):
            record = records.get(str(call.arguments.get(key)))
            if call.name == tool.name and record is not None:
                answers.append((record, masked(answer, call.arguments) if is_error else ""))
                if not is_error:
                    for argument, value in call.arguments.items():
                        paths[argument].update([*paths_of(record, value), "*"])
        # Which object was meant stands in the request, since a run that refrains never names it in a write.
        if trajectory.success is not True:
            continue
        for pattern, found in phrasing.wishes(first_request(trajectory)):
            if pattern.goal is None or pattern.goal.tool != tool.name:
                continue
            named = found.get(pattern.goal.object_slot, "")
            order = [c.name for c in calls_of(trajectory) if c.arguments.get(key) == named]
            read_first.append(bool(order) and order[0] == read.name)
            record = records.get(named)
            if record is None:
                continue
            calls = [
                call
                for call, _, is_error in answered_calls(trajectory)
                if not is_error
                and mutates.get(call.name)
                and record is records.get(str(call.arguments.get(key)))
            ]
            if any(call.name == tool.name for call in calls):
                wrote.append(record)
            elif calls:
                refrained.append((record, calls[-1]))
    guard = Guard(
        tool=tool.name,
        read=read.name,
        object_argument=key,
        records=_values_of(wrote, (key,)),
        selects=_selects(paths, key),
        read_first=fmean(read_first) if read_first else None,
        n=len(wrote) + len(refrained),
    )
    # Where tasks need several lacking skills few runs pass that refrained: one or two are enough if what the
    # target says of the tool names the state as well.
    decision = _field(wrote, refrained) or _told_field(
        wrote, [record for record, _ in refrained], tool.description
    )
    if decision is None:
        return guard
    field, _, forbidden, _ = decision
    instead = Counter(call.name for _, call in refrained).most_common(1)[0][0]
    calls = [call for _, call in refrained]
    return _decided(guard, decision, instead, calls, refusal_of(answers, field, forbidden))


def refusal_of(answers: Sequence[tuple[dict[str, Any], str]], field: str, forbidden: Sequence[str]) -> str:
    """Return the error that most forbidden writes are answered with, empty when most are let happen.

    >>> refusal_of([({"state": "late"}, "not now"), ({"state": "late"}, "not now")], "state", ["late"])
    'not now'
    """
    seen = [error for record, error in answers if record.get(field) in forbidden]
    errors = Counter(error for error in seen if error)
    return errors.most_common(1)[0][0] if errors and 2 * sum(errors.values()) >= len(seen) else ""


def _usual(calls: Sequence[ToolCall]) -> dict[str, str]:
    """Return the arguments that most calls have the same value for."""
    values: dict[str, Counter[str]] = defaultdict(Counter)
    for call in calls:
        for argument, value in call.arguments.items():
            values[argument][str(value)] += 1
    usual = {a: min(counts.items(), key=lambda i: (-i[1], i[0])) for a, counts in sorted(values.items())}
    return {argument: value for argument, (value, n) in usual.items() if 2 * n > len(calls)}


def _records(trajectory: Trajectory, read: str, key: str) -> dict[str, dict[str, Any]]:
    """Return object -> its record as first read."""
    records: dict[str, dict[str, Any]] = {}
    for call, answer, is_error in answered_calls(trajectory):
        if call.name == read and not is_error:
            value = parsed(answer)
            if isinstance(value, dict):
                records.setdefault(str(call.arguments.get(key)), value)
    return records


def _path(counts: Counter[str]) -> str:
    total = counts["*"]
    usual = [p for p, n in counts.items() if p != "*" and total >= MIN_SIDE and n >= MIN_ACCURACY * total]
    return min(usual, default="")


def _enumerable(records: Sequence[dict[str, Any]]) -> list[str]:
    """Return the text fields whose values repeat: those that can tell cases apart."""
    fields = sorted({f for record in records for f, v in record.items() if isinstance(v, str)})
    return [f for f in fields if 2 * len({str(r.get(f)) for r in records}) <= len(records)]


def _field(
    wrote: Sequence[dict[str, Any]], refrained: Sequence[tuple[dict[str, Any], ToolCall]]
) -> Decision | None:
    if len(wrote) < MIN_SIDE or len(refrained) < MIN_SIDE:
        return None
    options = []
    everything = [*wrote, *(record for record, _ in refrained)]
    for field in _enumerable(everything):
        yes = Counter(record.get(field) for record in wrote)
        no = Counter(record.get(field) for record, _ in refrained)
        allowed = tuple(sorted(str(v) for v in yes if v is not None and yes[v] > no[v]))
        forbidden = tuple(sorted(str(v) for v in no if v is not None and no[v] >= yes[v]))
        right = sum(yes[v] for v in allowed) + sum(no[v] for v in forbidden)
        if allowed and forbidden:
            options.append((right / len(everything), field, allowed, forbidden))
    if not options:
        return None
    accuracy, field, allowed, forbidden = min(options, key=lambda o: (-o[0], o[1]))
    return (field, allowed, forbidden, accuracy) if accuracy >= MIN_ACCURACY else None
