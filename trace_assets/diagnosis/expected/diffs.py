"""Expected against done: the writes that are missing, too many, or made with other arguments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from trace_assets.diagnosis.detectors.deeds import told_apart
from trace_assets.diagnosis.detectors.identity import looks_like_id, normal
from trace_assets.diagnosis.detectors.mutation import mutating_tools
from trace_assets.diagnosis.detectors.transcript import Step, Transcript
from trace_assets.diagnosis.detectors.values import leaves
from trace_assets.records import ActionDiff, ExpectedAction, Task, ToldTask, Trajectory

PROSE = 5
"""Words from which an argument is a text of the agent's own, which no ground truth can foresee."""


def in_deeds(task: Task | ToldTask) -> Task | ToldTask:
    """Return a task whose expected calls have the names of what they do, as the steps of runs do."""
    named = tuple(
        one.model_copy(update={"name": told_apart(one.name, one.arguments)}) for one in task.expected_actions
    )
    return task if named == task.expected_actions else task.model_copy(update={"expected_actions": named})


def action_diffs(
    trajectories: Iterable[Trajectory],
    tasks: Mapping[str, Task | ToldTask],
) -> list[ActionDiff]:
    """Return how failed runs differ from what their tasks expect.

    Args:
        trajectories: Of any targets; those that passed, were not judged, or whose task says nothing of what
            is expected have no rows.
        tasks: By id.
    """
    tasks = {name: in_deeds(one) for name, one in tasks.items()}
    failed = [
        one
        for one in trajectories
        if one.success is False and (task := tasks.get(one.task_id)) is not None and task.has_expected
    ]
    transcripts = {one.trajectory_id: Transcript(one) for one in failed}
    expected = {action.name for one in failed for action in tasks[one.task_id].expected_actions}
    writes = mutating_tools(list(transcripts.values()), names=expected)
    return [
        row
        for one in failed
        for row in differences(
            one, transcripts[one.trajectory_id], tasks[one.task_id].expected_actions, writes
        )
    ]


def differences(
    one: Trajectory, transcript: Transcript, expected: Sequence[ExpectedAction], writes: frozenset[str]
) -> list[ActionDiff]:
    """Return how one run differs from what is expected of it, passed or not.

    Each expected write is paired with a successful call of the same tool: with an equal one, or else with one
    on the same object, or else, where only one of each is left, with that. Texts of more than a few words
    count as equal, and so do lists in another order: graders compare states, which know neither.

    Args:
        one: The run.
        transcript: Its calls.
        expected: In order; calls that only look are passed over.
        writes: Names of the tools that change something.
    """
    wanted = [action for action in expected if action.name in writes]
    made = [
        step
        for step in transcript.steps
        if not step.failed and (step.tool in writes or step.called in writes)
    ]
    pairs = _pairs(wanted, made)
    rows: list[dict[str, Any]] = []
    for place, action in enumerate(wanted):
        step = pairs.get(place)
        if step is None:
            refused = sum(
                call.failed and is_call_of(call, action) and is_spelt_as(action, call)
                for call in transcript.steps
            )
            rows.append(
                {
                    "kind": "missed",
                    "tool": action.name,
                    "expected_arguments": action.arguments,
                    "refused": refused,
                }
            )
        elif names := changed(action, step):
            rows.append(
                {
                    "kind": "altered",
                    "tool": action.name,
                    "expected_arguments": action.arguments,
                    "arguments": dict(step.arguments),
                    "changed": names,
                    "message": step.index,
                }
            )
    paired = {id(step) for step in pairs.values()}
    rows += [
        {"kind": "surplus", "tool": step.tool, "arguments": dict(step.arguments), "message": step.index}
        for step in made
        if id(step) not in paired
    ]
    return [
        ActionDiff(
            trajectory_id=one.trajectory_id,
            number=number,
            target=one.target,
            task_id=one.task_id,
            policy=one.policy,
            **row,
        )
        for number, row in enumerate(rows)
    ]


def is_call_of(step: Step, action: ExpectedAction) -> bool:
    """Tell whether a call is of the tool that is expected: what it does may go by either name."""
    return action.name in (step.tool, step.called)


def _pairs(wanted: Sequence[ExpectedAction], made: Sequence[Step]) -> dict[int, Step]:
    """Return by place of an expected write the call that stands for it."""
    pairs: dict[int, Step] = {}
    left = list(made)

    def take(place: int, step: Step) -> None:
        pairs[place] = step
        left.remove(step)

    for place, action in enumerate(wanted):
        for step in left:
            if is_call_of(step, action) and not changed(action, step):
                take(place, step)
                break
    for place, action in enumerate(wanted):
        if place in pairs:
            continue
        objects = {normal(value) for _, value in leaves(action.arguments) if looks_like_id(value)}
        same = [step for step in left if is_call_of(step, action) and not step.objects.isdisjoint(objects)]
        if same:
            take(place, max(same, key=lambda step: (len(step.objects & objects), -step.index)))
    for place, action in enumerate(wanted):
        if place in pairs:
            continue
        rest = [step for step in left if is_call_of(step, action)]
        open_places = [
            other for other, one in enumerate(wanted) if other not in pairs and one.name == action.name
        ]
        if len(rest) == len(open_places) == 1:
            take(place, rest[0])
    return pairs


def changed(action: ExpectedAction, step: Step) -> tuple[str, ...]:
    """Return the arguments that a call gives another value than is expected, sorted.

    >>> from trace_assets.diagnosis.detectors.transcript import Step
    >>> call = Step(1, 2, "pay", {"bill": "B1", "amount": 5.0, "note": "x"}, False, False, "", frozenset())
    >>> changed(ExpectedAction(name="pay", arguments={"bill": "B1", "amount": 5}), call)
    ('note',)
    >>> changed(ExpectedAction(name="pay", arguments={"bill": "B2"}, compared=("bill",)), call)
    ('bill',)
    """
    names = {*action.arguments, *step.arguments} if action.compared is None else set(action.compared)
    return tuple(
        sorted(name for name in names if not _equal(action.arguments.get(name), step.arguments.get(name)))
    )


def is_spelt_as(action: ExpectedAction, step: Step) -> bool:
    """Tell whether a call gives what is expected to the letter: tools refuse `all` where they know `ALL`.

    >>> from trace_assets.diagnosis.detectors.transcript import Step
    >>> call = Step(1, 2, "open", {"window": "all", "share": 50.0}, False, False, "", frozenset())
    >>> wanted = ExpectedAction(name="open", arguments={"window": "ALL", "share": 50})
    >>> changed(wanted, call), is_spelt_as(wanted, call)
    ((), False)
    """
    return not changed(action, step) and all(
        _is_prose(one) or sorted(_texts(one)) == sorted(_texts(step.arguments.get(name)))
        for name, one in action.arguments.items()
        if action.compared is None or name in action.compared
    )


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts of a value, at any depth."""
    if isinstance(value, str):
        yield value.strip()
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)


def in_words(row: ActionDiff) -> str:
    """Return a difference as a person would say it, arguments shortened.

    >>> common = {"trajectory_id": "t", "number": 0, "target": "g", "task_id": "g/1", "policy": "p"}
    >>> in_words(ActionDiff(**common, kind="missed", tool="pay", expected_arguments={"bill": 1}, refused=2))
    'never did pay(bill=1), which the tool refused 2 times'
    >>> pair = {"expected_arguments": {"n": 1}, "arguments": {"n": 2}, "changed": ("n",), "message": 4}
    >>> in_words(ActionDiff(**common, kind="altered", tool="pay", **pair))
    'called pay with n 2 in place of 1'
    """
    if row.kind == "missed":
        times = "once" if row.refused == 1 else f"{row.refused} times"
        refused = f", which the tool refused {times}" if row.refused else ""
        return f"never did {row.tool}({_spelt(row.expected_arguments)}){refused}"
    if row.kind == "surplus":
        return f"did {row.tool}({_spelt(row.arguments)}), which was not expected"
    values = [
        f"{name} {_short(row.arguments.get(name))} in place of {_short(row.expected_arguments.get(name))}"
        for name in row.changed
    ]
    return f"called {row.tool} with {', '.join(values)}"


LONGEST = 60
"""Characters of an argument that are told."""


def _spelt(arguments: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={_short(value)}" for name, value in arguments.items())


def _short(value: Any) -> str:
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _equal(expected: Any, done: Any) -> bool:
    one, other = _canonical(expected), _canonical(done)
    return one == other or (_is_prose(expected) and _is_prose(done))


def _is_prose(value: Any) -> bool:
    return isinstance(value, str) and len(value.split()) >= PROSE


def _canonical(value: Any) -> Any:
    """Return a value as graders of states compare it.

    >>> _canonical([2.0, "#K1 "]) == _canonical(["k1", 2]), _canonical(None) == _canonical([])
    (True, True)
    """
    if isinstance(value, Mapping):
        return tuple(sorted((str(name), _canonical(item)) for name, item in value.items()))
    if isinstance(value, list | tuple):
        return tuple(sorted((_canonical(item) for item in value), key=repr)) or None
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float):
        return float(value)
    text = normal(str(value)).strip()
    return text or None
