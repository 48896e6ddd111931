"""Overrides: what a person who read a run or a task says in the place of rules and labellers, and why."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from trace_assets.errors import InputError, did_you_mean
from trace_assets.records import Label, SuspectTask, Trajectory, Triage
from trace_assets.settings.section import verdict_and_reason

OVERRIDE = "override"
"""The rule under which tables name what a person decided."""
UNJUDGED = "unjudged"
"""Said of a run whose reward is not to be trusted: it enters no rate."""
OVERRIDDEN = "+override"
"""Ends the input hash of an overridden label: where it is overridden no more, it is asked for again."""
_BEFORE = " (override; before: "
_NEAR = 3


def overruled(row: Triage, said: Mapping[str, str]) -> Triage:
    """Return the triage of one run, as the person has it who read that run.

    Args:
        row: What rules or a model say.
        said: Run id to `FAULT: why`.

    Raises:
        InputError: The run passed, so that nobody is at fault.
    """
    if row.trajectory_id not in said:
        return row
    fault, why = verdict_and_reason(said[row.trajectory_id])
    if row.outcome == "passed" and fault != UNJUDGED:
        raise InputError(
            f"triage.run_overrides puts a failure of '{row.trajectory_id}' down to {fault}, but that run "
            "passed; if its reward is not to be trusted, write 'unjudged: why'."
        )
    before = row.outcome if row.outcome == "passed" else f"{row.fault} by {row.rule}"
    lost = fault in (UNJUDGED, "infrastructure")
    return row.model_copy(
        update={
            "outcome": "unjudged" if lost else "failed",
            "fault": "environment" if fault == UNJUDGED else fault,
            "rule": OVERRIDE,
            "detail": f"{why} (before: {before}{f': {row.detail}' if row.detail else ''})",
            "evidence": (),
            "suspected": None,
            "suspicion": "",
        }
    )


def sound_tasks(said: Mapping[str, str]) -> frozenset[str]:
    """Return the tasks whose ground truth a person calls sound: no rule's doubts of these count.

    >>> sorted(sound_tasks({"t1": "sound: the fee is due", "t2": "aside: nobody can know it"}))
    ['t1']
    """
    return frozenset(task for task, words in said.items() if verdict_and_reason(words)[0] == "sound")


def overruled_suspects(
    rows: Iterable[SuspectTask], said: Mapping[str, str], runs: Iterable[Trajectory]
) -> list[SuspectTask]:
    """Return the doubtful tasks, as the person has it who read them.

    Args:
        rows: What the rules say.
        said: Task id to `sound: why` or `aside: why`.
        runs: All runs: they tell a task's target, and how often it was passed.
    """
    found = []
    for row in rows:
        verdict, why = verdict_and_reason(said.get(row.task_id, ""))
        if verdict == "sound":
            detail = f"{why} (before: {row.grade} by {row.rule}: {row.detail})"
            changes = {"grade": "suspected", "aside": False, "rule": OVERRIDE, "detail": detail}
            row = row.model_copy(update=changes)
        found.append(row)
    numbers = {row.task_id: row.number + 1 for row in found}
    of_task: dict[str, list[Trajectory]] = {}
    for one in runs:
        of_task.setdefault(one.task_id, []).append(one)
    for task, words in said.items():
        verdict, why = verdict_and_reason(words)
        if verdict == "aside":
            found.append(
                SuspectTask(
                    task_id=task,
                    number=numbers.get(task, 0),
                    target=of_task[task][0].target,
                    grade="wrong",
                    rule=OVERRIDE,
                    detail=why,
                    aside=True,
                    n_passed=sum(one.success is True for one in of_task[task]),
                    n_failed=sum(one.success is False for one in of_task[task]),
                )
            )
    return sorted(found, key=lambda row: (row.target, row.task_id, row.number))


def overruled_labels(
    labels: Iterable[Label], said: Mapping[str, Mapping[str, str]], names: Mapping[str, str]
) -> list[Label]:
    """Return labels, as the person has it who read the runs: every pass says the same then.

    Args:
        labels: Of detectors and models; such as were overridden before stand here as they were stored.
        said: Capability (id or name) to run id to `LABEL: why`.
        names: Capability id to name.
    """
    by_id = {**{key: said[name] for key, name in names.items() if name in said}, **said}
    found = []
    for row in labels:
        words = by_id.get(row.capability_id, {}).get(row.trajectory_id)
        if words is None:
            found.append(row)
            continue
        label, why = verdict_and_reason(words)
        before = f"{row.label}{f': {row.rationale}' if row.rationale else ''}"
        if _BEFORE in row.rationale:
            before = row.rationale.partition(_BEFORE)[2].removesuffix(")")
        found.append(
            row.model_copy(
                update={
                    "label": label,
                    "evidence": row.evidence if label == row.label else (),
                    "rationale": f"{why}{_BEFORE}{before})",
                    "input_hash": row.input_hash.removesuffix(OVERRIDDEN) + OVERRIDDEN,
                }
            )
        )
    return found


def is_overridden(label: Label) -> bool:
    """Tell whether a stored label is a person's."""
    return label.input_hash.endswith(OVERRIDDEN)


def as_asked(
    labels: Iterable[Label], said: Mapping[str, Mapping[str, str]], names: Mapping[str, str]
) -> list[Label]:
    """Return stored labels under the hash of what was asked, so that nobody is asked again for them.

    Not those that were overridden and are so no more: what was said before is not stored, and is asked anew.
    """
    by_id = {**{key: said[name] for key, name in names.items() if name in said}, **said}
    return [
        row.model_copy(update={"input_hash": row.input_hash.removesuffix(OVERRIDDEN)})
        if is_overridden(row) and row.trajectory_id in by_id.get(row.capability_id, {})
        else row
        for row in labels
    ]


def check_names(setting: str, what: str, said: Collection[str], known: Collection[str]) -> None:
    """Refuse an override of what is not there.

    Args:
        setting: Its name, such as `triage.run_overrides`.
        what: What the ids are of.
        said: Ids that are overridden.
        known: Ids that there are.

    Raises:
        InputError: One is unknown; the nearest ones are named.
    """
    there = frozenset(known)
    for name in said:
        if name not in there:
            meant = did_you_mean(name, sorted(there), f"; there are {len(there):,}.", _NEAR)
            raise InputError(f"{setting} names '{name}', which is no {what}{meant}")
