"""Tasks whose ground truth is doubtful: rules that look at what is expected, with the evidence.

A rule with evidence in the records or the policy makes a task *wrong*: it asks for what cannot or must not
be. That nobody passes a task is only a *suspicion*: it may as well be hard.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trace_assets.diagnosis.detectors.identity import normal
from trace_assets.diagnosis.detectors.transcript import Transcript
from trace_assets.diagnosis.detectors.verbs import spoken
from trace_assets.diagnosis.expected.diffs import changed, differences, is_spelt_as
from trace_assets.diagnosis.expected.doubts import (
    Doubt,
    Doubter,
    agreed_otherwise,
    not_to_be_had,
    told_nowhere,
)
from trace_assets.diagnosis.expected.facts import (
    Facts,
    Thing,
    Told,
    is_number,
    names_number,
    objects,
)
from trace_assets.diagnosis.expected.forbidden import (
    banned_object,
    banned_value,
    beyond_limit,
    clauses_broken,
    missing_prerequisite,
    no_condition_holds,
    outside_window,
    past_object,
    protected_field,
)
from trace_assets.records import SuspectTask, Trajectory

ALIKE = 3
"""Values that a part of a call must have to be compared with records."""
MIN_RUNS = 3
"""Runs of a task, by at least two policies, from which it says something that none passed."""
CHANCE = 0.05
"""Chance that none would pass, by each policy's own pass rate, below which the task is suspected."""
MISREAD = 0.2
"""Share of the tasks that want a tool, from which what the policy says of it must have been misread..."""
MISREAD_BY = 4
"""... when at least so many of them break it."""
GRANTED = 0.8
"""Share of the other tasks whose instruction names a quantity, from which each should."""


def value_in_no_record(facts: Facts, task_id: str) -> Iterator[Doubt]:
    """A part of an expected call agrees with a record in all but one value, which stands nowhere.

    Such as a passenger of the right names with a date of birth that neither the task, nor the user, nor any
    result has, while the profile holds another one.
    """
    for place, action in facts.expected_writes(task_id):
        for name, value in action.arguments.items():
            for part in objects(value):
                found = _contradicted(facts, task_id, part)
                if found is not None:
                    key, seen, rest = found
                    detail = (
                        f"{action.name} is to be called with {key} {part[key]!r}, which stands nowhere; for "
                        f"{rest} the records say {seen!r}"
                    )
                    yield Doubt("wrong", "value_in_no_record", detail, (place,), (name,))


def _contradicted(facts: Facts, task_id: str, part: Thing) -> tuple[str, Any, str] | None:
    """Return (key, what the records say, the values that agree) where all but one value of a part agree."""
    scalars = {key: value for key, value in part.items() if isinstance(value, str | int | float)}
    if len(scalars) < ALIKE:
        return None
    found: tuple[str, Any, str] | None = None
    for thing in facts.things(task_id):
        if not scalars.keys() <= thing.keys():
            continue
        differing = [key for key in scalars if normal(thing[key]) != normal(scalars[key])]
        if not differing:
            return None
        if len(differing) == 1 and not facts.is_known(task_id, str(scalars[differing[0]])):
            rest = ", ".join(str(value) for key, value in scalars.items() if key != differing[0])
            found = (differing[0], thing[differing[0]], rest)
    return found


def no_change_demanded(facts: Facts, task_id: str) -> Iterator[Doubt]:
    """An expected call is to replace something by itself."""
    for place, action in facts.expected_writes(task_id):
        for name, value in action.arguments.items():
            new = action.arguments.get(f"new_{name}")
            pairs = zip(_list(value), _list(new), strict=False) if new is not None else ()
            same = [one for one, other in pairs if normal(one) == normal(other)]
            if same:
                detail = f"{action.name} is to replace {spoken(name)} {same[0]} by itself"
                yield Doubt("wrong", "no_change_demanded", detail, (place,))


def refused_demand(facts: Facts, task_id: str) -> Iterator[Doubt]:
    """An expected call was made as expected, nothing wrong was done before, and it was refused each time.

    Where a run passed without it, it is not asked for in truth.
    """
    if any(one.success for one in facts.of_task[task_id]):
        return
    for place, action in facts.expected_writes(task_id):
        refusals: list[str] = []
        worked = False
        for one in facts.of_task[task_id]:
            transcript = facts.transcript(one)
            for step in transcript.calls(action.name):
                if changed(action, step):
                    continue
                worked = worked or not step.failed
                if (
                    step.failed
                    and is_spelt_as(action, step)
                    and step.answer is not None
                    and _faultless(facts, one, task_id, place, step.index)
                ):
                    refusals.append(step.result)
        if refusals and not worked:
            detail = f"{action.name} was called as expected and refused: {refusals[0][:120]}"
            yield Doubt("wrong", "refused_demand", detail, (place,))


def unpassed(facts: Facts, task_id: str) -> Iterator[Doubt]:
    """No policy passed the task, which would hardly happen if it were like the others."""
    runs = [one for one in facts.of_task[task_id] if one.success is not None]
    policies = {one.policy for one in runs}
    if len(runs) < MIN_RUNS or len(policies) < 2 or any(one.success for one in runs):
        return
    chance = 1.0
    for one in runs:
        passed, n = _rates(facts)[one.policy]
        chance *= 1 - (passed + 0.5) / (n + 1)
    if chance < CHANCE:
        failed = sum(one.success is False for one in facts.runs)
        share = sum(one.success is False for one in runs) / max(1, failed)
        detail = (
            f"none of {len(runs)} runs by {len(policies)} policies passed (chance by their pass rates "
            f"{chance:.3f}); {share:.0%} of all {failed} failures lie on it"
        )
        yield Doubt("suspected", "unpassed", detail)


def done_and_failed(facts: Facts, task_id: str) -> Iterator[Doubt]:
    """A run did exactly what is expected, and the check of its state failed."""
    wanted = [action for _, action in facts.expected_writes(task_id)]
    for one in facts.of_task[task_id]:
        failed = {check.kind for check in one.checks if check.gates and check.passed is False}
        if one.success is not False or failed != {"state"} or not wanted:
            continue
        if not differences(one, facts.transcript(one), wanted, facts.writes):
            detail = f"{one.trajectory_id} made exactly the expected calls, and the check of its state failed"
            yield Doubt("suspected", "done_and_failed", detail)
            return


def not_granted(facts: Facts, task_id: str) -> Iterator[Doubt]:
    """An expected quantity stands in other tasks' instructions and not in this one's."""
    told = facts.tasks[task_id].instruction
    for place, action in facts.expected_writes(task_id) if told else ():
        for name, value in action.arguments.items():
            if not is_number(value) or names_number(told, value) or names_number(facts.policy.text, value):
                continue
            demands = facts.granted[action.name, name]
            n, granted = (all - own for all, own in zip(demands[""], demands[task_id], strict=True))
            if n >= MIN_RUNS and granted >= GRANTED * n:
                detail = f"{action.name} is to be called with {name} {value:g}, which the task does not grant"
                yield Doubt("suspected", "not_granted", detail, (place,))


DOUBTERS: tuple[Doubter, ...] = (
    value_in_no_record,
    no_change_demanded,
    protected_field,
    past_object,
    missing_prerequisite,
    banned_object,
    banned_value,
    beyond_limit,
    no_condition_holds,
    outside_window,
    clauses_broken,
    told_nowhere,
    agreed_otherwise,
    not_to_be_had,
    refused_demand,
    done_and_failed,
    not_granted,
    unpassed,
)
"""Every rule; a task is put aside when one with evidence says that it is wrong."""


def doubts(facts: Facts, doubters: Sequence[Doubter] = DOUBTERS) -> dict[str, list[Doubt]]:
    """Return by task id what is said against it; tasks nobody doubts are missing.

    A sentence of the policy that many tasks break has been misread, or does not mean what it says: what
    rests on it is no more than a suspicion.
    """
    found: dict[str, list[Doubt]] = defaultdict(list)
    for task_id, task in facts.tasks.items():
        if task.has_expected:
            for doubter in doubters:
                found[task_id] += doubter(facts, task_id)
            facts.forget(task_id)
    misread = _misread(facts, found)
    return {
        task_id: [one._replace(grade="suspected") if one.reading in misread else one for one in own]
        for task_id, own in found.items()
        if own
    }


def _misread(facts: Facts, found: Mapping[str, Sequence[Doubt]]) -> set[tuple[str, ...]]:
    """Return the readings of the policy (tool, sentence) that too many of the tasks break that want the tool.

    Ground truths are wrong here and there; a rule that a good part of them breaks is not the rule.
    """
    wanted = Counter(
        tool
        for task_id in facts.tasks
        for tool in {action.name for _, action in facts.expected_writes(task_id)}
    )
    broken = Counter(
        reading for own in found.values() for reading in {one.reading for one in own if one.reading}
    )
    return {
        reading
        for reading, n in broken.items()
        if reading and n >= MISREAD_BY and n > MISREAD * wanted[reading[0]]
    }


def suspect_tasks(
    trajectories: Sequence[Trajectory], tasks: Mapping[str, Told], doubters: Sequence[Doubter] = DOUBTERS
) -> list[SuspectTask]:
    """Return the doubtful tasks of any targets, one row a doubt, with how many runs are concerned.

    Args:
        trajectories: All runs.
        tasks: By id.
        doubters: The rules.
    """
    groups: dict[str, list[Trajectory]] = defaultdict(list)
    for one in trajectories:
        groups[one.target].append(one)
    rows = []
    for target, own in sorted(groups.items()):
        facts = Facts(own, tasks)
        for task_id, found in sorted(doubts(facts, doubters).items()):
            runs = Counter(one.success for one in facts.of_task[task_id])
            for number, doubt in enumerate(found):
                rows.append(
                    SuspectTask(
                        task_id=task_id,
                        number=number,
                        target=target,
                        grade=doubt.grade,
                        rule=doubt.rule,
                        detail=doubt.detail,
                        places=doubt.places,
                        n_passed=runs[True],
                        n_failed=runs[False],
                    )
                )
    return rows


def _faultless(facts: Facts, one: Trajectory, task_id: str, place: int, index: int) -> bool:
    """Tell whether a run had done all that is expected before a place, and nothing else, by a message."""
    wanted = [action for number, action in facts.expected_writes(task_id) if number < place]
    cut = one.model_copy(update={"messages": one.messages[:index]})
    return not differences(cut, Transcript(cut), wanted, facts.writes)


def _rates(facts: Facts) -> Mapping[str, tuple[int, int]]:
    """Return (passed, judged) by policy."""
    judged = [one for one in facts.runs if one.success is not None]
    n = Counter(one.policy for one in judged)
    passed = Counter(one.policy for one in judged if one.success)
    return {policy: (passed[policy], n[policy]) for policy in n}


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]
