"""Rejection sampling: is reinforcement needed, or do the base model's own successes teach as much?"""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trace_assets.resources.policy import base_checkpoint, base_folder
from trace_assets.settings import Training
from trace_assets.targets.protocol import Target
from trace_assets.tournament.arms.one_adapter import OneAdapter, environments
from trace_assets.tournament.arms.protocol import PlayedWorld

if TYPE_CHECKING:
    from trace_assets.training.episodes import Player, Row
    from trace_assets.training.plan import Plan
    from trace_assets.training.run import TrainablePolicy


class Rft(OneAdapter):
    """Rejection-sampling fine-tuning on the target (Yuan et al. 2023, arXiv 2308.01825).

    The base model plays the target's discovery tasks, in the order and groups in which GRPO would; what
    passes is learned token by token by one LoRA of the same shape, in as many steps of as many episodes as
    GRPO's. Checkpoints are compared on the validation tasks that direct GRPO is compared on. A killed attempt
    begins anew: it takes as long as one adapter.
    """

    name = "rft"
    about = "One LoRA that has learned the base model's own successes at the target's tasks."
    needs = "verdicts of the target"
    at_target = True

    def trained_on(self, world: PlayedWorld) -> AbstractContextManager[Target]:
        """Return the target."""
        return nullcontext(world.study.target)

    def undivided(self, section: Training) -> str:
        """Say why it cannot be trained as these settings have it: no process holds the whole model."""
        if section.shard:
            return "the model is divided among processes (training.shard), and this arm takes one"
        return ""

    def train(self, world: PlayedWorld, folder: Path) -> dict[str, float]:
        """Sample and learn, and return the rollouts that it took."""
        from trace_assets.training.checkpoints import write_adapter
        from trace_assets.training.grpo import calm
        from trace_assets.training.plan import make_plan

        study, section = world.study, world.study.settings.training
        with calm(), self.trained_on(world) as target:
            plan = make_plan(target.tasks("discovery"), section, world.budget)
            with world.base_player(target, folder.parent / "sampler") as (policy, player):
                passed = sample_passed(player, plan)
                model = fresh_lora(base_folder(study), section)
                look = _Look(player, policy, model, world.compared_on(target))
                learn(model, passed, plan, section, look)
                write_adapter(model, folder, base_checkpoint(study).base_id)
        return self.booked(plan.rollouts, look.played)


class RftEnvironments(Rft):
    """The same in the world's environments: is it them, or the reinforcement, that the adapters owe it to?"""

    name = "rft_environments"
    about = "One LoRA that has learned the base model's own successes in the environments."
    needs = "environments"
    at_target = False

    def trained_on(self, world: PlayedWorld) -> AbstractContextManager[Target]:
        """Open all environments that were trained in as one."""
        return environments(world, self.name)


def sample_passed(player: Player, plan: Plan) -> list[Row]:
    """Play a plan's groups with the weights as they are, and return the episodes that passed."""
    from trace_assets.training.warm_start import learnable

    passed: list[Row] = []
    for iteration in range(plan.iterations):
        start = iteration * plan.tasks_per_iteration
        tasks = plan.schedule[start : start + plan.tasks_per_iteration]
        played = player.play([task for task in tasks for _ in range(plan.group_size)], f"rft {iteration + 1}")
        passed += learnable(played)
    return passed


def fresh_lora(base: Path, section: Training) -> Any:
    """Return the base model with a LoRA that changes nothing, as GRPO begins with one."""
    import torch
    from peft import get_peft_model
    from transformers import set_seed

    from trace_assets.policies.lora import load_model
    from trace_assets.training.checkpoints import lora_config

    set_seed(section.seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = load_model(base, "bfloat16" if section.bf16 else "float32", device)
    return get_peft_model(model, lora_config(section))


class _Look:
    """Compares checkpoints on the same episodes and keeps the best weights; of equals the earliest."""

    def __init__(self, player: Player, policy: TrainablePolicy, model: Any, tasks: Sequence[Any]) -> None:
        self._player, self._policy, self._model, self._tasks = player, policy, model, tasks
        self._best, self._weights, self.played = -1.0, dict[str, Any](), 0

    def take(self) -> None:
        """Look at the present weights."""
        from trace_assets.training.checkpoints import lora_state
        from trace_assets.training.validation import validate

        self._policy.load_weights(self._model)
        rate = validate(self._player, self._tasks, "comparison of checkpoints")
        self.played += len(self._tasks)
        if rate.rate > self._best:
            self._best = rate.rate
            self._weights = {name: value.clone() for name, value in lora_state(self._model).items()}

    def load_best(self) -> None:
        """Put the best weights back into the model."""
        from trace_assets.training.checkpoints import load_lora

        load_lora(self._model, self._weights)


def learn(model: Any, rows: Sequence[Row], plan: Plan, section: Training, look: _Look) -> None:
    """Raise the likelihood of episodes, every own token alike, in as many steps as GRPO's.

    Args:
        model: The PEFT model; it holds the best checkpoint afterwards.
        rows: What passed. Without any, nothing is learned and the base model stays as it is.
        plan: How many steps, of how many episodes.
        section: Learning rate, warm-up, clipping, how often a checkpoint is looked at.
        look: Takes a look at checkpoints.
    """
    import torch
    from torch.optim.lr_scheduler import LambdaLR

    from trace_assets.training.warm_start import RATE, padded, passes, token_nats

    if not rows:
        look.take()
        look.load_best()
        return
    trained = [value for value in model.parameters() if value.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=RATE * section.learning_rate, weight_decay=0.0)
    warmup, total = min(section.warmup_iterations, plan.iterations - 1), plan.iterations

    def factor(step: int) -> float:
        return (step + 1) / (warmup + 1) if step < warmup else max(0.0, (total - step) / (total - warmup))

    schedule = LambdaLR(optimizer, factor)
    order = random.Random(f"{section.seed}/rft")
    waiting: list[Row] = []
    for step in range(1, total + 1):
        while len(waiting) < plan.batch:
            waiting += order.sample(list(rows), len(rows))
        now, waiting = waiting[: plan.batch], waiting[plan.batch :]
        tokens = sum(map(sum, (row.own for row in now)))
        model.train()
        for places in passes(now, section):
            nats = token_nats(model, padded([now[place] for place in places]), section)
            (nats.sum() / tokens).backward()
        torch.nn.utils.clip_grad_norm_(trained, section.max_grad_norm)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
        if step % section.validate_every == 0 or step == total:
            look.take()
    look.load_best()
    model.eval()
