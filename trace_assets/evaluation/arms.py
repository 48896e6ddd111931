"""The arms: base, each adapter, GRPO on the target, merged and summed adapters, what routers choose."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from trace_assets.errors import InputError
from trace_assets.evaluation.variants import Limits, PolicyMaker, play_variants, transformers_policy
from trace_assets.records import NO_ADAPTER, Evaluation, Route, Split, Task, Trajectory
from trace_assets.routing.router import JOINT as PLUS
from trace_assets.routing.router import members_of
from trace_assets.settings import EvaluationSection
from trace_assets.targets.protocol import Target

BASE = "base"
ROUTED = "routed"
ORACLE_ROUTED = "oracle_routed"
MIXED_GRPO = "mixed_grpo"
MIXED = "mixed"
"""Name of the adapter that was trained on the target itself; never a choice of a router."""
MERGED = "merged:"
"""Begins the name, and the arm, of adapters merged into one; never a choice of a router either."""
ROUND = "round:"
"""Begins the name, and the arm, of the agent after a round; no choice of a router."""
COMPOSED = "composed"
ORACLE_COMPOSED = "oracle_composed"
SUM = "sum"
"""The sum of all adapters that a router may choose, on every task."""
JOINT = "joint"
"""One adapter that was trained in all environments at once."""
SEQUENTIAL = "sequential"
"""One adapter that was trained in one environment after another."""
TOGETHER = "together"
"""One adapter that was trained where all capabilities are asked for at once."""
CONSOLIDATED = "consolidated"
"""One adapter that the composed agent was distilled into."""
SINGLES = (JOINT, SEQUENTIAL, TOGETHER, CONSOLIDATED)
"""Adapters for all tasks, whose arm is called as they are; never a choice of a router."""
PROCESSES = 2
"""That share the episodes, each with a transformers engine of its own."""


def arm_of(choice: str) -> str:
    """Return the arm in which one variant acts on every task.

    >>> arm_of("none"), arm_of("mixed"), arm_of("cancel"), arm_of("merged:ties")
    ('base', 'mixed_grpo', 'adapter:cancel', 'merged:ties')
    >>> arm_of("cancel+multi"), arm_of("joint"), arm_of("round:2")
    ('sum:cancel+multi', 'joint', 'round:2')
    """
    if choice.startswith((MERGED, ROUND)) or choice in SINGLES:
        return choice
    if PLUS in choice:
        return f"{SUM}:{choice}"
    return {NO_ADAPTER: BASE, MIXED: MIXED_GRPO}.get(choice, f"adapter:{choice}")


def skill_of(task: Task) -> str:
    """Return the generator's own tag, empty where there is none."""
    return task.tags[0] if task.tags else ""


@dataclass(frozen=True)
class Composed:
    """Arms in which several adapters may act at once, as their sum.

    Attributes:
        folders: Choice, such as `cancel+window`, to the PEFT folder of the sum.
        arms: Arm to task id to choice: `none`, one adapter, or one of `folders`.
    """

    folders: Mapping[str, Path] = field(default_factory=dict)
    arms: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def asked(self) -> dict[str, set[str]]:
        """Return for each sum the tasks of which some arm sends it one: on the others it is not played."""
        found: dict[str, set[str]] = {name: set() for name in self.folders}
        for choices in self.arms.values():
            for task_id, choice in choices.items():
                if choice in found:
                    found[choice].add(task_id)
        return found


def evaluate(
    target: Target,
    base_dir: Path,
    adapters: Mapping[str, Path],
    routes: Sequence[Route] | None,
    oracle_choice: Mapping[str, str] | None,
    section: EvaluationSection,
    journal_dir: Path,
    processes: int = PROCESSES,
    *,
    split: Split = "test",
    limits: Limits | None = None,
    make_policy: PolicyMaker | None = None,
    composed: Composed | None = None,
) -> tuple[list[Evaluation], list[Trajectory]]:
    """Play every variant on every task once a trial, and read all arms off these episodes.

    A variant is the base model or one adapter. The arms `routed` and `oracle_routed` cost no episodes of
    their own: the choice for a task selects which variant's episodes count. That is the distribution a served
    router would give, since a choice is made before the episode and changes nothing but the adapter; and it
    makes arms that agree on a task agree exactly, so differences come from choices alone.

    Args:
        target: Where the tasks live.
        base_dir: Hugging Face folder of the base model.
        adapters: Name -> PEFT folder. `mixed` plays the arm `mixed_grpo`, `merged:<way>`, `round:<number>`,
            and those of `SINGLES` the arms of their names; no router may choose these.
        routes: One router's decision on each task; None leaves the arm `routed` out.
        oracle_choice: Task id -> choice; None leaves the arm `oracle_routed` out.
        section: Trials a task, temperature, seed.
        journal_dir: Finished episodes are kept here, so that an interrupted evaluation resumes.
        processes: Processes that share the episodes.
        split: `test`, or `validation` to find the oracle's choices and the no-harm figures.
        limits: Turn, token and concurrency limits; the defaults suit the tiny agent.
        make_policy: Makes who acts, such as a server's client; the transformers engine on `base_dir` unless
            given. It must know the sums of `composed` too.
        composed: Arms that choose sets of adapters. Sums are played on the tasks that are sent to them, and
            read off the adapter's own episodes where a set has one member.

    Returns:
        Evaluations of all arms, and the trajectories behind them.

    Raises:
        InputError: There are no tasks, or a choice is missing or names no adapter.
    """
    tasks = list(target.tasks(split))
    if not tasks:
        raise InputError(
            f"target '{target.name}' has no tasks in split '{split}': there is nothing to evaluate."
        )
    singles = [NO_ADAPTER, *sorted(adapters)]
    usable = [
        name for name in singles if name not in (MIXED, *SINGLES) and not name.startswith((MERGED, ROUND))
    ]
    chosen: dict[str, Mapping[str, str]] = {
        arm_of(name): dict.fromkeys((task.task_id for task in tasks), name) for name in singles
    }
    if routes is not None:
        chosen[ROUTED] = {route.task_id: route.choice for route in routes}
        check_choices(ROUTED, chosen[ROUTED], tasks, usable)
    if oracle_choice is not None:
        chosen[ORACLE_ROUTED] = oracle_choice
        check_choices(ORACLE_ROUTED, oracle_choice, tasks, usable)
    composed = composed or Composed()
    for arm, choices in composed.arms.items():
        check_choices(arm, choices, tasks, [*usable, *composed.folders])
        chosen[arm] = choices
    asked = {name: tasks_of for name, tasks_of in composed.asked().items() if tasks_of}
    limits = limits or Limits()
    folders = {**adapters, **{name: composed.folders[name] for name in asked}}
    maker = make_policy or partial(transformers_policy, base_dir, folders, section, limits)
    sums = {"only": asked} if asked else {}
    played = play_variants(
        target, tasks, [*singles, *sorted(asked)], maker, section, journal_dir, processes, limits, **sums
    )
    evaluations = [
        row for arm, choices in chosen.items() for row in compose(arm, choices, tasks, section.trials, played)
    ]
    return evaluations, [row for trajectories in played.values() for row in trajectories]


def evaluate_sums(
    target: Target,
    base_dir: Path,
    folders: Mapping[str, Path],
    section: EvaluationSection,
    journal_dir: Path,
    processes: int = PROCESSES,
    *,
    limits: Limits | None = None,
    make_policy: PolicyMaker | None = None,
    trials: int = 1,
) -> tuple[list[Evaluation], list[Trajectory]]:
    """Play each sum of adapters on every validation task: what `oracle_composed` chooses by.

    Args:
        target: Where the tasks live.
        base_dir: Hugging Face folder of the base model.
        folders: Choice, such as `cancel+window`, to the PEFT folder of the sum; or one adapter for all.
        section: Temperature and seed; its trials are not looked at.
        journal_dir: Finished episodes are kept here.
        processes: Processes that share the episodes.
        limits: As in `evaluate`.
        make_policy: As in `evaluate`.
        trials: Episodes a task.

    Returns:
        Evaluations of the arms, such as `sum:<choice>`, and the trajectories behind them.
    """
    section = section.model_copy(update={"trials": trials})
    tasks, names = list(target.tasks("validation")), sorted(folders)
    limits = limits or Limits()
    maker = make_policy or partial(transformers_policy, base_dir, dict(folders), section, limits)
    played = play_variants(target, tasks, names, maker, section, journal_dir, processes, limits)
    rows = [
        row
        for name in names
        for row in compose(
            arm_of(name), dict.fromkeys((one.task_id for one in tasks), name), tasks, trials, played
        )
    ]
    return rows, [row for trajectories in played.values() for row in trajectories]


def check_choices(arm: str, choices: Mapping[str, str], tasks: Iterable[Task], usable: Sequence[str]) -> None:
    """Make sure that every task has a choice that was played.

    Raises:
        InputError: It has none, or one that names no usable adapter.
    """
    for task in tasks:
        choice = choices.get(task.task_id)
        if choice is None:
            raise InputError(f"arm '{arm}' has no choice for task '{task.task_id}'; route all tasks again.")
        if choice not in usable:
            raise InputError(
                f"arm '{arm}' sends task '{task.task_id}' to '{choice}', not among the usable choices "
                f"({', '.join(usable)}); route again with these."
            )


def compose(
    arm: str,
    choices: Mapping[str, str],
    tasks: Sequence[Task],
    trials: int,
    played: Mapping[str, Sequence[Trajectory]],
) -> list[Evaluation]:
    """Read one arm off the episodes of the variants.

    Args:
        arm: Name of the arm.
        choices: Task id -> variant whose episodes count.
        tasks: The tasks.
        trials: Trials a task.
        played: Variant -> its trajectories.

    Returns:
        One row a task and trial. An episode that broke by no fault of the agent, or that is not there, is a
        row without success and reward: never a failure.
    """
    by_key = {(variant, row.task_id, row.trial): row for variant, rows in played.items() for row in rows}
    found = []
    for task in tasks:
        choice = choices[task.task_id]
        for trial in range(trials):
            row = by_key.get((choice, task.task_id, trial))
            fault: str | None = "infrastructure" if row is None else row.fault
            judged = row is not None and fault in (None, "agent")
            found.append(
                Evaluation(
                    task_id=task.task_id,
                    trial=trial,
                    arm=arm,
                    adapter=None if choice == NO_ADAPTER else choice,
                    success=row.success if row is not None and judged else None,
                    reward=row.reward if row is not None and judged else None,
                    fault=fault,
                    skill=skill_of(task),
                    split=task.split,
                )
            )
    return found


def compose_rows(arm: str, choices: Mapping[str, str], played: Iterable[Evaluation]) -> list[Evaluation]:
    """Read one arm off evaluations of the variants on the same tasks.

    Args:
        arm: Name of the arm.
        choices: Task id -> variant whose rows count.
        played: Rows of the variants' own arms.

    Returns:
        The rows of the variants that were chosen, under the arm's name; a task whose variant was not played
        has none.
    """
    return [
        row.model_copy(update={"arm": arm})
        for row in played
        if row.task_id in choices and row.arm == arm_of(choices[row.task_id])
    ]


# The oracle: for each skill, the variant that was best on validation tasks.


Rates = dict[str, dict[str, float]]
"""Skill -> choice -> mean over tasks of the pass rate."""


def choice_of(arm: str) -> str | None:
    """Return the choice that a single-variant arm stands for, None for arms that a router may not choose.

    >>> choice_of("base"), choice_of("adapter:cancel"), choice_of("mixed_grpo"), choice_of("sum:a+b")
    ('none', 'cancel', None, 'a+b')
    """
    if arm == BASE:
        return NO_ADAPTER
    kind, _, name = arm.partition(":")
    return name if kind in ("adapter", SUM) and name else None


def rates_by_skill(validation: Iterable[Evaluation], *, pooled: bool = False) -> Rates:
    """Return the pass rate of every choice, for each skill; unjudged trials do not count.

    Args:
        validation: Evaluations on validation tasks. Arms other than `base`, `adapter:<name>`
            and `sum:<names>` are ignored.
        pooled: Put all tasks under one skill `all`.
    """
    trials: dict[tuple[str, str, str], list[bool]] = defaultdict(list)
    for row in validation:
        choice = choice_of(row.arm)
        if choice is not None and row.success is not None:
            trials["all" if pooled else row.skill, choice, row.task_id].append(row.success)
    tasks: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for (skill, choice, _), passed in trials.items():
        tasks[skill][choice].append(sum(passed) / len(passed))
    return {
        skill: {choice: sum(rates) / len(rates) for choice, rates in sorted(choices.items())}
        for skill, choices in tasks.items()
    }


def _best(rates: dict[str, float]) -> str:
    # The base model wins a tie, then the smaller set: an adapter that gains nothing is not applied.
    return min(rates, key=lambda choice: (-rates[choice], len(members_of(choice)), choice))


def oracle_choice(validation: Iterable[Evaluation], tasks: Iterable[Task]) -> dict[str, str]:
    """Return for each task the choice with the best validation pass rate on the task's own skill.

    The oracle knows the generator's tag of a task, which no router sees, and the pass rates on validation
    tasks, never on the tasks it chooses for. It is the best that choosing by skill can do up to the noise of
    validation; a clairvoyant that picks by each test task's own outcomes would only measure luck. Tasks of
    a skill that validation does not hold go to `none`; without any tags all tasks are one skill, and the
    oracle is the best single choice.

    Args:
        validation: Evaluations on validation tasks, arms `base`, `adapter:<name>`, and `sum:<names>` where
            sets of adapters are choices.
        tasks: Tasks to choose for, such as those of the test split.
    """
    best = {skill: _best(rates) for skill, rates in rates_by_skill(validation).items()}
    return {task.task_id: best.get(skill_of(task), NO_ADAPTER) for task in tasks}


def best_single_choice(validation: Iterable[Evaluation]) -> str:
    """Return the one choice with the best validation pass rate over all tasks; `none` without evaluations."""
    rates = rates_by_skill(validation, pooled=True).get("all")
    return _best(rates) if rates else NO_ADAPTER
