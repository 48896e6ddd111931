"""A pilot run: a few optimizer steps, with the environment and the target looked at after each."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import gcd
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trace_assets.errors import InputError, Unavailable, require_extra
from trace_assets.records import Task, Trajectory
from trace_assets.settings import Training
from trace_assets.system.progress import progress
from trace_assets.targets.protocol import Target
from trace_assets.training.episodes import Player, is_broken
from trace_assets.training.plan import make_plan

Floats = NDArray[np.float64]

MAX_TRIALS = 4
"""Episodes a target task and checkpoint, where few tasks need the capability."""


@dataclass(frozen=True)
class Piloted:
    """What a pilot measured. Seeds and tasks are the same at every checkpoint, the base model is the first.

    Attributes:
        rewards: Reward by checkpoint and held-out seed of the environment.
        successes: 1 where that episode was a success, same shape.
        target: Pass rate by checkpoint and target task.
        trials: Episodes behind each of these.
        rollouts: Training episodes up to each checkpoint.
        tasks_are: `needed` where the target's tasks are known to need the capability, else `all`.
        seconds: Wall time.
        isolation_level: What held the environment: `docker`, `bubblewrap` or `none`.
        sandbox_version: Version of the sandbox that it was.
    """

    rewards: Floats
    successes: Floats
    target: Floats
    trials: int
    rollouts: tuple[int, ...]
    tasks_are: str
    seconds: float
    isolation_level: str = ""
    sandbox_version: str = ""


def pilot_section(section: Training) -> Training:
    """Return the settings that a pilot trains by: the full run's, with its share of the rollouts.

    The steps are few, so there is no warm-up and the rate is `pilot_rate` times as high: what is asked is
    where the reward leads, and the weights are thrown away. Each step has at least one group, also where
    that is more than the share of a small run.

    >>> pilot = pilot_section(Training())  # 2 % of 22 x 16 x 8 rollouts
    >>> pilot.iterations * pilot.tasks_per_iteration * pilot.group_size
    48
    """
    budget = section.pilot_share * section.iterations * section.tasks_per_iteration * section.group_size
    groups = max(1, int(budget / (section.pilot_steps * section.group_size)))
    return section.model_copy(
        update={
            "iterations": section.pilot_steps,
            "tasks_per_iteration": groups,
            "learning_rate": section.learning_rate * section.pilot_rate,
            "warmup_iterations": 0,
            "micro_batch": gcd(section.micro_batch, groups * section.group_size)
            if section.micro_batch
            else 0,
            "validate_every": section.pilot_steps,
            "save_every": section.pilot_steps,
            "processes": 1,  # it is played in the step's own process
            "shard": False,
            "redraws": 0,  # every step has the same rollouts: what is compared are the steps
            "demonstrate": False,
        }
    )


def run_pilot(
    *,
    name: str,
    target: Target,
    live: Target,
    needs: Callable[[Trajectory], bool] | None,
    base_dir: Path | str,
    section: Training,
    folder: Path,
) -> Piloted:
    """Train a little in an environment, and look at the environment and at the live target meanwhile.

    Args:
        name: Of the capability, for the progress bar.
        target: The environment.
        live: The target; its discovery tasks are played, never others.
        needs: Says of a base model's episode whether its task needs the capability. The first
            `section.pilot_search` discovery tasks are played once to ask it, and up to `section.pilot_tasks`
            that do are kept; other episodes of them are then compared. None takes all kinds of tasks.
        base_dir: The base model's folder.
        section: The training settings; `pilot_section` of them is what is run.
        folder: Where checkpoints lie meanwhile: emptied at the start, gone at the end. A killed pilot begins
            anew.

    Returns:
        What was measured; no target task where none needs the capability.

    Raises:
        InputError: The environment has no held-out seeds.
        Unavailable: The train extra is not installed, or so many episodes broke that nothing can be said.
    """
    for module in ("torch", "transformers", "trl", "peft", "datasets"):
        require_extra(module, "train", "a pilot")
    from trace_assets.training.checkpoints import RunDirectory
    from trace_assets.training.grpo import calm
    from trace_assets.training.run import Run
    from trace_assets.training.sampler import open_sampler

    own = pilot_section(section)
    plan = make_plan(target.tasks("discovery"), own)
    seeds = list(target.tasks("validation"))[: section.pilot_tasks]
    if not seeds:
        raise InputError(f"{target.name} has no validation tasks to look at in a pilot; ask for more.")
    began = time.perf_counter()
    shutil.rmtree(folder, ignore_errors=True)
    with calm(), open_sampler(base_dir, own, folder / "sampler") as policy:

        def played(where: Target) -> Player:
            return Player(where, policy, seed=own.seed, max_turns=own.max_turns, concurrency=own.concurrency)

        with (
            progress(f"pilot of {name}", plan.iterations) as bar,
            played(target) as player,
            played(live) as outside,
        ):
            tasks = _needing(outside, live, needs, section)
            trials = min(MAX_TRIALS, max(1, section.pilot_tasks // len(tasks))) if tasks else 0
            seen = _Seen(player, outside, seeds, tasks, trials)
            run_directory = RunDirectory(folder / "run", {"pilot": name})
            run = Run(
                name=name,
                base_dir=base_dir,
                section=own,
                plan=plan,
                compare_on=seeds[:8],
                player=player,
                policy=policy,
                run_directory=run_directory,
                on_point=lambda point: seen.look(lambda: policy.load_weights(run.model)),
                bar=bar,
            )
            seen.look(lambda: None)
            run.train()
    shutil.rmtree(folder, ignore_errors=True)
    a_step = own.tasks_per_iteration * own.group_size
    return Piloted(
        *seen.paired(),
        trials=trials,
        rollouts=tuple(step * a_step for step in range(plan.iterations + 1)),
        tasks_are="all" if needs is None else "needed",
        seconds=time.perf_counter() - began,
        isolation_level=getattr(target, "isolation_level", ""),
        sandbox_version=getattr(target, "sandbox_version", ""),
    )


def _needing(
    outside: Player, live: Target, needs: Callable[[Trajectory], bool] | None, section: Training
) -> list[Task]:
    searched = list(live.tasks("discovery"))[: section.pilot_search]
    if needs is None:
        return searched[: section.pilot_tasks]
    played = [rollout.trajectory for rollout in outside.play(searched, "search of a pilot")]
    found = [task for task, one in zip(searched, played, strict=True) if not is_broken(one) and needs(one)]
    return found[: section.pilot_tasks]


@dataclass
class _Seen:
    """Episodes at each checkpoint so far."""

    player: Player
    outside: Player
    seeds: Sequence[Task]
    tasks: Sequence[Task]
    trials: int
    rewards: list[list[float]] = field(default_factory=list)
    successes: list[list[float]] = field(default_factory=list)
    target: list[list[float]] = field(default_factory=list)

    def look(self, load: Callable[[], None]) -> None:
        """Play the same seeds and tasks, with the same luck, under the present weights."""
        load()
        self.player.prepare(self.seeds)  # they begin while the target's tasks are played
        played = [one.trajectory for one in self.outside.play(list(self.tasks) * self.trials, "pilot")]
        inside = [one.trajectory for one in self.player.play(self.seeds, "pilot")]
        self.rewards.append([np.nan if is_broken(one) else one.reward or 0.0 for one in inside])
        self.successes.append([np.nan if is_broken(one) else float(bool(one.success)) for one in inside])
        passed = [np.nan if is_broken(one) else float(bool(one.success)) for one in played]
        self.target.append(np.reshape(passed, (self.trials, -1)).mean(axis=0).tolist() if passed else [])

    def paired(self) -> tuple[Floats, Floats, Floats]:
        """Return rewards, successes and pass rates of what was judged at every checkpoint.

        Raises:
            Unavailable: No seed was judged at every checkpoint.
        """
        rewards, successes, target = (
            np.array(rows, dtype=np.float64) for rows in (self.rewards, self.successes, self.target)
        )
        whole = ~np.isnan(rewards).any(axis=0)
        if not whole.any():
            raise Unavailable("no seed of the pilot could be judged; mend the environment and run again.")
        kept = ~np.isnan(target).any(axis=0) if target.size else np.zeros(target.shape[1], dtype=bool)
        return rewards[:, whole], successes[:, whole], target[:, kept]
