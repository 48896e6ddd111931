"""One GRPO run: TRL drives, the player plays, the curve and the candidates are kept.

Importing this module loads torch and TRL: do it where training starts, not before.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any, Protocol

import torch
from datasets import Dataset
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from trace_assets.errors import InputError
from trace_assets.policies.protocol import Policy
from trace_assets.records import Task, TrainingPoint
from trace_assets.settings import Training
from trace_assets.store.files import replacing_file
from trace_assets.system.progress import Bar
from trace_assets.targets.timing import Reading
from trace_assets.training.checkpoints import (
    WEIGHTS,
    Curve,
    RunDirectory,
    load_lora,
    lora_config,
    lora_state,
)
from trace_assets.training.demonstrations import Demonstrations
from trace_assets.training.distributed import ProcessGroup
from trace_assets.training.episodes import Player, Row, is_dead, redraw, to_row
from trace_assets.training.fsdp import DividedTrainer
from trace_assets.training.joint import Teacher
from trace_assets.training.plan import Plan
from trace_assets.training.trainer import LiveRowTrainer, grpo_config
from trace_assets.training.validation import Rate, validate
from trace_assets.training.warm_start import SMALLER, WarmStart, imitate, store_warm_start

START = "start"
"""Name of the rate with which GRPO began, after demonstrations."""
COMPARISON = "comparison of checkpoints"
"""Batch of the episodes on which candidates are compared: the same ones for each."""


class TrainablePolicy(Policy, Protocol):
    """A policy whose weights follow a model that is being trained."""

    def load_weights(self, model: Any) -> None:
        """Act with the present weights of a PEFT model from now on."""
        ...


class Run:
    """A GRPO run that can be taken up where it was killed.

    Of several processes that train together each makes one, with the same arguments and its own player and
    policy. All know of all episodes; the first one's files are those of the run.

    Args:
        name: The adapter's name.
        base_dir: Hugging Face folder (or hub name) of the base model.
        section: The training settings.
        plan: Budget and schedule.
        compare_on: Tasks on which checkpoints are compared.
        player: Plays episodes with `policy`.
        policy: Takes the model's weights before every batch.
        run_directory: Where everything is kept meanwhile.
        on_point: Told of each point as it is made.
        bar: Advanced once an iteration.
        teacher: Whose distributions are learned; None learns from rewards.
        demonstrations: Have groups completed in which nothing succeeds; None leaves them as they are.
    """

    def __init__(
        self,
        *,
        name: str,
        base_dir: Path | str,
        section: Training,
        plan: Plan,
        compare_on: Sequence[Task],
        player: Player,
        policy: TrainablePolicy,
        run_directory: RunDirectory,
        on_point: Callable[[TrainingPoint], None] | None,
        bar: Bar,
        teacher: Teacher | None = None,
        demonstrations: Demonstrations | None = None,
    ) -> None:
        self.teacher, self.demonstrations = teacher, demonstrations
        self.name, self.section, self.plan, self.compare_on = name, section, plan, compare_on
        self.player, self.policy, self.run_directory = player, policy, run_directory
        self.process_group: ProcessGroup = player.process_group
        self._on_point, self._bar = on_point, bar
        self._batch: dict[str, Any] = {}
        self._last = False
        self._began, self._read = time.perf_counter(), player.reading()
        resume = self.process_group.once(run_directory.last_checkpoint)
        self._resume = resume[0] if resume else None
        self.curve = Curve(
            run_directory.curve, upto=resume[1] if resume else 0, writes=self.process_group.first
        )
        bar.advance(len(self.curve.points))
        self.player.prepare(self._next(len(self.curve.points)))
        tokenizer = AutoTokenizer.from_pretrained(str(base_dir), padding_side="left")
        if len(tokenizer) == 0:
            raise InputError(
                f"the model folder {base_dir} has no tokenizer; train or download the base model again."
            )
        self._tokenizer = tokenizer
        self._filler = int(
            tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
        )
        # Schedule positions stand for prompts, which episodes write themselves. GRPO's trainer repeats each
        # position for its group.
        positions = [str(index) for index in range(len(plan.schedule))]
        keywords = {
            "on_log": self._logged,
            "warmup": section.warmup_iterations,
            "process_group": self.process_group,
            "model": AutoModelForCausalLM.from_pretrained(
                str(base_dir), dtype=torch.bfloat16 if section.bf16 else torch.float32
            ),
            "processing_class": tokenizer,
            "peft_config": lora_config(section),
            "rollout_func": self._rollouts,
        }
        if teacher is not None:
            from trace_assets.training.distillation import TaughtTrainer, distillation_config

            repeated = [position for position in positions for _ in range(plan.group_size)]
            self.trainer: Any = TaughtTrainer(
                teacher=teacher,
                base_dir=base_dir,
                args=distillation_config(section, plan, run_directory.checkpoints, name),
                train_dataset=Dataset.from_dict({"prompt": repeated}),
                **keywords,
            )
            return
        kind = DividedTrainer if section.shard else LiveRowTrainer
        self.trainer = kind(
            reward_funcs=_episode_reward,
            args=grpo_config(section, plan, run_directory.checkpoints, name),
            train_dataset=Dataset.from_dict({"prompt": positions}),
            **keywords,
        )

    @property
    def model(self) -> Any:
        """The PEFT model."""
        return self.trainer.model

    def begin_with(self, folder: Path) -> None:
        """Train on from an adapter's weights; a run that is resumed has gone on from them before.

        Args:
            folder: PEFT folder of an adapter of the same shape.

        Raises:
            InputError: It is of another shape.
        """
        if self._resume is None:
            try:
                load_lora(self.model, load_file(folder / WEIGHTS))
            except (KeyError, RuntimeError, ValueError) as error:
                raise InputError(
                    f"the adapter in {folder} cannot be trained on: it is of another shape than "
                    "training.lora_rank makes."
                ) from error

    def train(self) -> None:
        """Run to the end of the plan, from the last complete checkpoint when there is one."""
        if len(self.curve.points) < self.plan.iterations and self._left() >= self.plan.batch:
            self._began, self._read = time.perf_counter(), self.player.reading()
            self.trainer.train(resume_from_checkpoint=str(self._resume) if self._resume else None)

    def warm_up(
        self, found: WarmStart, rows: Sequence[Row], rehearsed: Sequence[Row], *, finished: bool
    ) -> WarmStart:
        """Learn demonstrations before the first iteration; of a run that is taken up, only their weights.

        What comes of it is a candidate: GRPO may lose what demonstrations have taught.

        Args:
            found: What was played for them.
            rows: The demonstrations.
            rehearsed: Episodes of what the policy can do elsewhere.
            finished: Whether an earlier attempt has learned them; a checkpoint of GRPO has them in it.
        """
        weights = self.run_directory.path / "warm_start.safetensors"
        if finished:
            if found.demonstrations and self._resume is None:
                load_lora(self.model, load_file(weights))
            self._go_on_from(found)
            return found
        if found.demonstrations:
            learned = imitate(self.model, rows, self.section, self._tokenizer, rehearsed)
            found = replace(learned, rollouts=found.rollouts)
            self._bar.advance(0, note=f"{found.demonstrations} demonstrations, {found.steps} steps")
        state = lora_state(self.model)

        def keep() -> None:
            with replacing_file(weights) as partial:
                save_file(state, partial)
            store_warm_start(self.run_directory.path, found)

        self.process_group.once(keep)
        self._go_on_from(found)
        return found

    def _go_on_from(self, found: WarmStart) -> None:
        """Make the weights before the first iteration a candidate, where demonstrations have changed them.

        Where these were learned GRPO goes on in smaller steps.
        """
        if found.learned:
            self.trainer.args.learning_rate = SMALLER * self.section.learning_rate
        if not found.steps or self._resume is not None or self._start_rate() is not None:
            return
        rate = self.measure(self.compare_on, COMPARISON)
        self._keep_candidate(0)
        self.process_group.once(lambda: self.run_directory.store_rate(START, rate))

    def _start_rate(self) -> Rate | None:
        return self.process_group.once(lambda: self.run_directory.stored_rate(START))

    def measure(self, tasks: Sequence[Task], batch: str) -> Rate:
        """Judge the present weights on held-out tasks."""
        self.policy.load_weights(self.model)
        return validate(self.player, tasks, batch)

    def load_best(self) -> int:
        """Put the best candidate's weights into the model.

        The best has the highest success rate on the comparison episodes; among equals the earliest, which has
        moved least from the base model.

        Returns:
            Its iteration.
        """
        judged = {
            point.iteration: point.validation_rate
            for point in self.curve.points
            if point.validation_rate is not None
        }
        if (start := self._start_rate()) is not None:
            judged[0] = start.rate
        best = max(judged, key=lambda iteration: (judged[iteration], -iteration))
        load_lora(self.model, load_file(self.run_directory.whole_candidate(best)))
        return best

    def _rollouts(self, prompts: Sequence[str], trainer: Any) -> dict[str, list[Any]]:
        iteration = trainer.state.global_step + 1
        self.policy.load_weights(self.model)
        asked = [prompt for part in self.process_group.gather(list(prompts)) for prompt in part]
        tasks = [self.plan.schedule[int(prompt)] for prompt in asked]
        rows = self._play(tasks, f"training iteration {iteration}")
        # What says how well the policy does is what was drawn first: what follows is chosen by its outcome.
        self._batch = batch_figures(rows, self.plan.group_size)
        spent, size = self.plan.batch, self.plan.group_size
        if self.demonstrations is not None:
            batch = f"training iteration {iteration}, demonstrations"
            rows, shown = self.demonstrations.complete(rows, tasks, size, batch)
            spent += shown
            self._batch |= {"live_groups": live_share(rows, size), "demonstrations": shown}
        if self.section.redraws:
            redrawn = redraw(
                rows,
                self.plan,
                lambda again, batch: self._play(again, f"training iteration {iteration}, {batch}"),
                rounds=self.section.redraws,
                affordable=(self._left() - spent) // size,
                seed=f"{self.section.seed}/redraw/{iteration}",
            )
            rows, spent = redrawn.rows, spent + redrawn.drawn * size
            self._batch |= {"live_groups": redrawn.live, "redrawn_groups": redrawn.drawn}
        self._batch["rollouts"] = spent
        self._last = iteration == self.plan.iterations or self._left() - spent < self.plan.batch
        # First what is played first: a look at the held-out seeds follows the optimizer step.
        validated = list(self.compare_on) if self._is_validated(iteration) else []
        self.player.prepare(validated, [] if self._last else self._next(iteration))
        share = self.process_group.share(len(rows))  # whole groups: their advantages
        rows, tasks = [rows[position] for position in share], [tasks[position] for position in share]
        taught = {"choice": [self.teacher.choices[task.task_id] for task in tasks]} if self.teacher else {}
        return {
            **taught,
            "prompt_ids": [row.prompt_ids for row in rows],
            "completion_ids": [row.completion_ids for row in rows],
            "logprobs": [row.logprobs for row in rows],
            "env_mask": [row.own for row in rows],
            "episode_reward": [row.reward for row in rows],
        }

    def _play(self, tasks: Sequence[Task], batch: str) -> list[Row]:
        played = self.player.play(tasks, batch)
        return [to_row(rollout.trajectory, rollout.tokens, self._filler) for rollout in played]

    @property
    def shown(self) -> int:
        """Episodes of the oracle among them."""
        return sum(point.demonstrations for point in self.curve.points)

    @property
    def rollouts(self) -> int:
        """Training episodes spent so far."""
        return sum(point.rollouts or self.plan.batch for point in self.curve.points)

    def _left(self) -> int:
        return self.plan.rollouts - self.rollouts

    def _next(self, iteration: int) -> list[Task]:
        """Return the tasks of the iteration that follows, each as often as it is played."""
        start = iteration * self.plan.tasks_per_iteration
        following = self.plan.schedule[start : start + self.plan.tasks_per_iteration]
        return [task for task in following for _ in range(self.plan.group_size)]

    def _is_validated(self, iteration: int) -> bool:
        return iteration % self.section.validate_every == 0 or self._last

    def _logged(self, logs: dict[str, Any]) -> None:
        iteration = int(self.trainer.state.global_step)
        self._refuse_nonsense(iteration, logs)
        rate: Rate | None = None
        if self._is_validated(iteration):
            rate = self.measure(self.compare_on, COMPARISON)
            self._keep_candidate(iteration)
        now, read = time.perf_counter(), self.player.reading()
        seconds, cpu_seconds = self._inside(read)
        point = TrainingPoint(
            name=self.name,
            iteration=iteration,
            **self._batch,
            loss=logs.get("loss"),
            entropy=logs.get("entropy"),
            clip_ratio=logs.get("clip_ratio/region_mean"),
            grad_norm=logs.get("grad_norm"),
            sampler_kl=logs.get("sampler_kl"),
            sampler_difference=logs.get("sampler_difference"),
            outside_clip=logs.get("outside_clip"),
            learning_rate=logs.get("learning_rate"),
            validation_rate=rate.rate if rate else None,
            validation_n=rate.n if rate else None,
            seconds=now - self._began,
            sandbox_seconds=seconds,
            sandbox_cpu_seconds=cpu_seconds,
        )
        self._began, self._read = now, read
        self.curve.append(point)
        self._bar.advance(note=f"success {point.success_rate:.0%} of {point.n}")
        if self._on_point and self.process_group.first:
            self._on_point(point)
        if self._last:
            self.trainer.control.should_training_stop = True

    def _inside(self, read: Reading | None) -> tuple[float | None, float | None]:
        """Return the iteration's wall and CPU time in calls of the target: the mean over the processes."""
        inside = read.since(self._read) if read is not None and self._read is not None else None
        found = [one for one in self.process_group.gather(inside) if one is not None]
        if len(found) < self.process_group.count:
            return None, None
        return fmean(one.seconds for one in found), fmean(one.cpu_seconds for one in found)

    def _refuse_nonsense(self, iteration: int, logs: dict[str, Any]) -> None:
        """Stop before weights that are no numbers are saved: the checkpoint before them stays the last."""
        for name in ("loss", "grad_norm"):
            value = logs.get(name)
            if value is not None and not math.isfinite(value) and not self.trainer.dead:
                raise InputError(
                    f"the {name} of {self.name} is {value} in iteration {iteration}: lower "
                    "training.learning_rate or take training.bf16 back, and run again."
                )

    def _keep_candidate(self, iteration: int) -> None:
        weights = lora_state(self.model)
        if self.process_group.first:
            with self.run_directory.keeping_candidate(iteration) as partial:
                save_file(weights, partial)
        self.process_group.wait()


def batch_figures(rows: Sequence[Row], group_size: int) -> dict[str, Any]:
    """Return what one iteration's rollouts say, over judged episodes only.

    Args:
        rows: Episodes, group after group.
        group_size: Rows a group.

    Returns:
        The fields reward_mean, reward_std, success_rate, n, dead_groups and live_groups of a training
        point. A group is dead when its judged episodes all have the same reward, or fewer than two were
        judged.
    """
    rewards = [row.reward for row in rows if row.reward is not None]
    dead = [is_dead(rows[start : start + group_size]) for start in range(0, len(rows), group_size)]
    return {
        "reward_mean": fmean(rewards),
        "reward_std": pstdev(rewards),
        "success_rate": fmean(bool(row.success) for row in rows if row.success is not None),
        "n": len(rewards),
        "dead_groups": sum(dead) / len(dead),
        "live_groups": 1 - sum(dead) / len(dead),
    }


def live_share(rows: Sequence[Row], group_size: int) -> float:
    """Return the share of groups with variance."""
    live = [not is_dead(rows[start : start + group_size]) for start in range(0, len(rows), group_size)]
    return sum(live) / len(live)


def _episode_reward(episode_reward: list[float | None], **_: Any) -> list[float | None]:
    """Hand on the verdicts; None takes an episode out of its group's mean and gives it no advantage."""
    return episode_reward
