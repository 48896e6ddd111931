"""The base model: the tiny agent trained until it is what the pipeline needs, or any model named."""

from __future__ import annotations

import json
import math
import shutil
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from trace_assets.code_versions import code_version
from trace_assets.errors import CheckFailed, InputError, Unavailable, require_extra
from trace_assets.records import BaseCheckpoint, Task
from trace_assets.rollouts.episode import Trial
from trace_assets.rollouts.runner import run_rollouts
from trace_assets.settings import BaseModelSection
from trace_assets.stats.intervals import wilson
from trace_assets.store.content import folder_version, text_version
from trace_assets.store.files import replacing_folder
from trace_assets.system.progress import progress
from trace_assets.targets.embedded.demonstrations import LACKING, TAUGHT, planted_truth
from trace_assets.targets.embedded.desk import case_of, resolutions
from trace_assets.targets.embedded.target import MAX_TURNS, EmbeddedTarget
from trace_assets.targets.protocol import Target
from trace_assets.training.demo_agent.base_run import BaseRun

if TYPE_CHECKING:
    from trace_assets.targets.embedded.generator import DeskName


def desk_of(target: Target) -> DeskName:
    """Return which desk a target is; `a` where it is another target."""
    return target.desk if isinstance(target, EmbeddedTarget) else "a"


COMBINED_SHARE = 0.25
"""Of what the demonstrations of combined skills get right, the least that the base model must reach."""
BAND_SHARE = 0.8
"""Of what all demonstrations of a desk's kinds of tasks get right, likewise."""
BAND_ABOVE = 0.1
"""Over that, the most that it may reach."""
BRANCH = 0.15
"""Where two rules are opposite (desk `c`): by how much more often the base model must refuse what a rule
forbids than what it allows. A policy that does not tell the two apart can be taught neither."""


def wanted_of(target: Target, section: BaseModelSection) -> BaseModelSection:
    """Return the section with its bounds as wide as the desk asks for.

    Tasks that combine lacking skills pass less often, however well the agent has learned.

    Args:
        target: The embedded target.
        section: The settings; those of desk `a` are theirs.
    """
    desk = desk_of(target)
    waste = target.options.waste if isinstance(target, EmbeddedTarget) else None
    if desk == "a" and waste is None:
        return section
    truth = planted_truth(desk, waste=waste)
    bounds = {
        "pass_rate_low": min(section.pass_rate_low, BAND_SHARE * truth.p0),
        "pass_rate_high": max(section.pass_rate_high, truth.p0 + BAND_ABOVE),
    }
    if "pair" in truth.rates:
        bounds["lacking_rate"] = min(section.lacking_rate, COMBINED_SHARE * truth.rates["pair"])
    return section.model_copy(update=bounds)


@dataclass(frozen=True)
class BaseCheck:
    """Pass rates of a base model on validation tasks.

    Attributes:
        passed: Skill -> episodes that succeeded.
        played: Skill -> episodes.
        branches: Skill that a rule decides -> how much more often the agent refuses what the rule forbids
            than what it allows; empty where the desk asks for no branch.
    """

    passed: dict[str, int]
    played: dict[str, int]
    branches: dict[str, float] = field(default_factory=dict)

    @property
    def n(self) -> int:
        """Episodes played."""
        return sum(self.played.values())

    @property
    def rate(self) -> float:
        """Share of the episodes that succeeded."""
        return sum(self.passed.values()) / self.n

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of `rate`."""
        return wilson(sum(self.passed.values()), self.n)

    def skill(self, name: str) -> float:
        """Return one skill's pass rate."""
        return self.passed.get(name, 0) / self.played[name]

    def problems(self, section: BaseModelSection) -> list[str]:
        """Return what is not as the section wants it, in words; empty when all is well."""
        low, high = section.pass_rate_low, section.pass_rate_high
        found = []
        if not low <= self.rate <= high:
            found.append(f"pass rate {self.rate:.2f} of {self.n} episodes, wanted {low:.2f} to {high:.2f}")
        for name in sorted(self.played):
            floor = section.taught_rate if name in TAUGHT else section.lacking_rate
            if self.skill(name) < floor:
                rate, n = self.skill(name), self.played[name]
                found.append(f"skill '{name}' {rate:.2f} of {n}, wanted at least {floor:.2f}")
        for name, branch in sorted(self.branches.items()):
            if branch < BRANCH:
                found.append(f"skill '{name}' tells its cases apart by {branch:.2f}, wanted {BRANCH:.2f}")
        return found


def check_base(folder: Path, target: Target, section: BaseModelSection) -> BaseCheck:
    """Roll a model out on the target's validation tasks at temperature 1.

    Plays at least `section.check_tasks` episodes: every task once, then every task again.

    Args:
        folder: Model folder.
        target: Where its episodes come from.
        section: How many.

    Raises:
        Unavailable: An episode broke; nothing can be said about the model then.
    """
    from trace_assets.policies.transformers_engine import TransformersPolicy

    tasks = target.tasks("validation")
    rounds = math.ceil(section.check_tasks / len(tasks))
    trials = [Trial(task, trial=trial) for trial in range(rounds) for task in tasks][: section.check_tasks]
    skill_of = {task.task_id: task.tags[0] for task in tasks}
    policy = TransformersPolicy(folder, temperature=1.0)
    played: Counter[str] = Counter()
    passed: Counter[str] = Counter()
    forbids = {task.task_id: resolutions(case_of(task))[0].transferred for task in _ruled(target, tasks)}
    right: dict[tuple[str, bool], list[bool]] = defaultdict(list)
    for trajectory in run_rollouts(target, trials, policy, max_turns=MAX_TURNS, concurrency=128):
        if trajectory.success is None:
            raise Unavailable(
                f"an episode of task '{trajectory.task_id}' broke while the base model was checked "
                f"({trajectory.error}); run again."
            )
        played[skill_of[trajectory.task_id]] += 1
        passed[skill_of[trajectory.task_id]] += trajectory.success
        if trajectory.task_id in forbids:
            case = skill_of[trajectory.task_id], forbids[trajectory.task_id]
            right[case].append(bool(trajectory.success))
    return BaseCheck(
        passed=dict(passed),
        played=dict(played),
        branches={
            skill: fmean(right[skill, True]) - (1 - fmean(right[skill, False]))
            for skill in sorted({skill for skill, _ in right})
            if right[skill, True] and right[skill, False]
        },
    )


def _ruled(target: Target, tasks: Sequence[Task]) -> list[Task]:
    """Return the tasks of skills with opposite rules: none but on desk `c`."""
    opposite = LACKING["c"] if desk_of(target) == "c" else ()
    return [task for task in tasks if task.tags[0] in opposite]


RECIPE_FILE = "training.json"
"""In the model's folder: what it was trained by, and how its check came out."""


def _run_version(target: Target, section: BaseModelSection) -> str:
    """Return the content version of what decides each training step; what ends the training is not in it."""
    said = f"{section.seed}/{section.steps}/{section.head_dim}/{section.size}"
    return text_version(code_version("demo agent"), target.version, said)


def recipe_version(target: Target, section: BaseModelSection) -> str:
    """Return the content version of everything that decides a trained base model."""
    return text_version(_run_version(target, section), section.fingerprint())


def train_base(target: Target, section: BaseModelSection, folder: Path) -> BaseCheckpoint:
    """Make sure that the base model is there, training it when it is not.

    The tiny agent is trained for `section.steps` optimizer steps and checked on validation tasks; while the
    check fails it is trained half as long again, up to `section.max_steps`. An interrupted training goes on
    from its last pool of demonstrations. `folder` appears whole or not at all.

    Args:
        target: The embedded target (its validation tasks are the check's). Not used for a model named by
            `section.path`.
        section: Seed, budget and what the check demands; `path` names a model instead.
        folder: Where the trained model goes. Not used for a model named by `section.path`.

    Returns:
        The checkpoint's record: `path` is `folder`, or `section.path` as it is.

    Raises:
        InputError: The target is not the embedded one, or `section.path` is no model.
        CheckFailed: The model is still not as wanted after `section.max_steps` steps.
        Unavailable: The packages of the extra `train` are not installed.
    """
    require_extra("torch", "train", "the base model")
    require_extra("transformers", "train", "the base model")
    if section.path:
        from trace_assets.training.demo_agent.model import describe_model

        return describe_model(section.path)
    if target.name != "embedded":
        raise InputError(
            f"no base model can be trained for the target '{target.name}': name one with base_model.path."
        )
    recipe = recipe_version(target, section)
    found = finished_base(target, section, folder)
    if found is not None:
        shutil.rmtree(
            _scratch(target, section, folder), ignore_errors=True
        )  # of a run killed at its very end
        return found
    started = time.monotonic()
    with _one_thread():
        _train(target, section, folder, recipe, started)
    made = finished_base(target, section, folder)
    assert made is not None
    return made


def _scratch(target: Target, section: BaseModelSection, folder: Path) -> Path:
    return folder.parent / ".training" / _run_version(target, section)


def finished_base(target: Target, section: BaseModelSection, folder: Path) -> BaseCheckpoint | None:
    """Return what was trained into a folder by these settings and this code; None where nothing was."""
    try:
        stored = json.loads((folder / RECIPE_FILE).read_text(encoding="utf-8"))
        if stored["recipe"] != recipe_version(target, section):
            return None
        names = [file.name for file in folder.iterdir() if file.is_file() and file.name != RECIPE_FILE]
        return BaseCheckpoint(base_id=folder_version(folder, names), path=str(folder), **stored["result"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _train(target: Target, section: BaseModelSection, folder: Path, recipe: str, started: float) -> None:
    from trace_assets.training.demo_agent.model import agent_shape, save_agent

    scratch = _scratch(target, section, folder)
    wanted = wanted_of(target, section)
    hints = isinstance(target, EmbeddedTarget) and target.options.hints
    run = BaseRun(section.seed, scratch / "run.pt", agent_shape(section), desk_of(target), hints)
    # Of a run that was resumed in a later leg, the checks of the earlier ones have failed before.
    stops = [stop for stop in _stops(section) if stop >= run.leg[1]] or [run.step]
    with progress("Training the base model", total=stops[-1]) as bar:
        bar.advance(run.step)
        for stop in stops:
            run.train(stop, bar)
            candidate = scratch / "candidate"
            save_agent(run.model, run.tokenizer, candidate)
            check = check_base(candidate, target, section)
            problems = check.problems(wanted)
            if not problems:
                break
            bar.advance(0, note=problems[0])
        else:
            raise CheckFailed(
                f"the base model with seed {section.seed} is not as wanted after {run.step} steps: "
                f"{'; '.join(problems)}. Raise base_model.max_steps to train it on from there, or choose "
                "another base_model.seed."
            )
    low, high = check.interval
    result = {
        "parameters": sum(parameter.numel() for parameter in run.model.parameters()),
        "steps": run.step,
        "pass_rate": check.rate,
        "pass_rate_low": low,
        "pass_rate_high": high,
        "n": check.n,
        "seconds": round(time.monotonic() - started, 1),
    }
    skills = {name: {"passed": check.passed.get(name, 0), "n": n} for name, n in check.played.items()}
    with replacing_folder(folder) as building:
        save_agent(run.model, run.tokenizer, building)
        text = json.dumps({"recipe": recipe, "result": result, "skills": skills}, indent=1, sort_keys=True)
        (building / RECIPE_FILE).write_text(text, encoding="utf-8")
    shutil.rmtree(scratch, ignore_errors=True)


def _stops(section: BaseModelSection) -> Iterator[int]:
    stop = section.steps
    while stop < section.max_steps:
        yield stop
        stop += max(1, section.steps // 2)
    yield max(section.max_steps, section.steps)


@contextmanager
def _one_thread() -> Iterator[None]:
    """At this size a second thread costs more than it brings, and sums would depend on the cores."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
