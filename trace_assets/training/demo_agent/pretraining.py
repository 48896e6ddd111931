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
from typing import TYPE_CHECKING, Any

from trace_assets.code_versions import code_version
from trace_assets.errors import CheckFailed, InputError, Unavailable, require_extra
from trace_assets.records import BaseCheckpoint, Task
from trace_assets.rollouts.runner import Trial, run_rollouts
from trace_assets.settings import BaseModelSection
from trace_assets.stats.intervals import wilson
from trace_assets.store.content import folder_version, text_version
from trace_assets.store.files import replacing_file, replacing_folder
from trace_assets.system.progress import progress
from trace_assets.targets.embedded.demonstrations import LACKING, TAUGHT, planted_truth
from trace_assets.targets.embedded.desk import case_of, resolutions
from trace_assets.targets.embedded.target import MAX_TURNS, EmbeddedTarget
from trace_assets.targets.protocol import Target
from trace_assets.training.demo_agent.model import TINY, AgentShape, new_agent, new_tokenizer
from trace_assets.training.demo_agent.tokenizer import POOL_BATCHES, Batch, batches

if TYPE_CHECKING:
    import torch

    from trace_assets.system.progress import Bar
    from trace_assets.targets.embedded.generator import DeskName


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
    run = BaseRun(section.seed, scratch / "run.pt", agent_shape(section), _desk(target), hints)
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


def _desk(target: Target) -> DeskName:
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
    desk = _desk(target)
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


# The training run of the tiny agent: weights, optimizers and place, saved so that it can go on.


MUON_RATE = 8e-3
"""For weight matrices, of any width: an update's singular values are near 1."""
ADAM_RATE = 1e-2
"""For embeddings and norms of the tiny agent; a wider one takes less, since its logits sum over the width."""
WARMUP = 20
DECAY_SHARE = 0.4
CLIP = 1.0


def rate_factor(step: int, start: int, stop: int) -> float:
    """Return the learning rate's factor in one leg of training: up, level, linearly down to 0.

    Args:
        step: Steps done before this one.
        start: Step at which the leg began.
        stop: Step at which it ends.

    >>> [round(rate_factor(step, 0, 1000), 2) for step in (0, 19, 500, 800, 999)]
    [0.05, 1.0, 1.0, 0.5, 0.0]
    """
    return min(1.0, (step - start + 1) / WARMUP, (stop - step) / (DECAY_SHARE * (stop - start)))


class BaseRun:
    """A run that stands at some step. Equal seeds take equal steps on one machine, also after a resume.

    Args:
        seed: Decides initial weights and the order of demonstrations.
        checkpoint: File to resume from and to save to.
        shape: How large the agent is.
        desk: Whose demonstrations it learns from.
        hints: Whether some of these end in advice.
    """

    def __init__(
        self,
        seed: int,
        checkpoint: Path,
        shape: AgentShape = TINY,
        desk: DeskName = "a",
        hints: bool = False,
    ) -> None:
        import torch

        from trace_assets.policies.sampling import accelerator
        from trace_assets.training.demo_agent.muon import Muon

        self.seed, self.checkpoint, self.step, self.leg = seed, checkpoint, 0, (0, 0)
        self.desk, self.hints = desk, hints
        self.tokenizer = new_tokenizer()
        # Drawn on the CPU: the same weights on every machine.
        self.model = new_agent(self.tokenizer, seed, shape).to(accelerator())
        matrices: list[torch.nn.Parameter] = []
        others: list[torch.nn.Parameter] = []
        for name, parameter in self.model.named_parameters():
            hidden = parameter.ndim == 2 and "embed" not in name
            (matrices if hidden else others).append(parameter)
        self._optimizers: list[tuple[torch.optim.Optimizer, float]] = [
            (Muon(matrices), MUON_RATE),
            (
                torch.optim.AdamW(others, betas=(0.9, 0.95), weight_decay=0.0),
                ADAM_RATE * TINY.width / shape.width,
            ),
        ]
        if checkpoint.is_file():
            self._load(torch.load(checkpoint, weights_only=True, map_location="cpu"))

    def _load(self, state: dict[str, Any]) -> None:
        self.step, self.leg = state["step"], tuple(state["leg"])
        self.model.load_state_dict(state["model"])
        for (optimizer, _), saved in zip(self._optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)

    def save(self) -> None:
        """Write the checkpoint, replacing the one before in one move."""
        import torch

        self.checkpoint.parent.mkdir(parents=True, exist_ok=True)
        state = {
            "step": self.step,
            "leg": list(self.leg),
            "model": self.model.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer, _ in self._optimizers],
        }
        with replacing_file(self.checkpoint) as partial:
            torch.save(state, partial)

    def train(self, stop: int, bar: Bar) -> None:
        """Take steps until `stop`, in one leg of the learning rate; saves at every pool and at the end.

        Args:
            stop: Steps that the run shall have taken.
            bar: Is advanced by every step.
        """
        if self.leg[1] != stop:
            self.leg = (self.step, stop)
        while self.step < stop:
            pool, done = divmod(self.step, POOL_BATCHES)
            drawn = batches(self.seed, pool, self.tokenizer, self.desk, self.hints)
            for batch in drawn[done : done + stop - self.step]:
                loss = self._take_step(batch)
                bar.advance(note=f"loss {loss:.3f}")
            self.save()

    def _take_step(self, batch: Batch) -> float:
        import torch
        from torch.nn import functional

        factor = rate_factor(self.step, *self.leg)
        for optimizer, rate in self._optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate * factor
            optimizer.zero_grad(set_to_none=True)
        ids, learn = batch.ids.to(self.model.device), batch.learn[:, 1:].to(self.model.device)
        hidden = self.model.model(input_ids=ids, use_cache=False).last_hidden_state
        # Two tokens in three are only read: their logits are never computed.
        logits = hidden[:, :-1][learn] @ self.model.lm_head.weight.T
        loss = functional.cross_entropy(logits, ids[:, 1:][learn])
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        for optimizer, _ in self._optimizers:
            optimizer.step()
        self.step += 1
        return float(loss.detach())


# Is a freshly trained base model what the pipeline needs: able, and honestly lacking something?


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
    opposite = LACKING["c"] if _desk(target) == "c" else ()
    return [task for task in tasks if task.tags[0] in opposite]
