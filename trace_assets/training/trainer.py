"""TRL's GRPO trainer, told to spend nothing on what carries no gradient.

Importing this module loads torch and TRL: do it where training starts, not before.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch.nn.functional import pad
from torch.optim.lr_scheduler import LambdaLR
from transformers import TrainingArguments
from transformers.trainer_callback import PrinterCallback, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from trace_assets.settings import Training
from trace_assets.training.checkpoints import mark_complete
from trace_assets.training.distributed import ALONE, PATIENCE, ProcessGroup
from trace_assets.training.plan import Plan

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")


ConfigT = TypeVar("ConfigT", bound=TrainingArguments)
CHUNK = 16
"""Rows scored together on the tiny model: small enough for the processor's cache."""
_IMAGES = ("pixel_values", "image_grid_thw", "num_images", "token_type_ids", "mm_token_type_ids")


class RunTrainer:
    """What the trainers of a run have in common; stands before TRL's own class.

    Args:
        on_log: Receives TRL's metrics of each iteration, after its optimizer step.
        warmup: Iterations of linear warm-up; the rate is never 0, then falls linearly.
        process_group: The processes that train together.
        keywords: For TRL's trainer.
    """

    def __init__(
        self,
        *,
        on_log: Callable[[dict[str, Any]], None],
        warmup: int,
        process_group: ProcessGroup = ALONE,
        **keywords: Any,
    ) -> None:
        self._on_log, self._warmup, self._process_group = on_log, warmup, process_group
        super().__init__(**keywords)
        trainer: Any = self
        trainer.remove_callback(PrinterCallback)
        trainer.add_callback(_MarkComplete(process_group))

    @property
    def dead(self) -> bool:
        """Whether the last batch taught nothing."""
        return False

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        """Warm up from 1/(warm-up) instead of 0: the first iteration's rollouts are not thrown away."""
        trainer: Any = self
        if trainer.lr_scheduler is None:
            warmup, total = min(self._warmup, num_training_steps - 1), num_training_steps

            def factor(step: int) -> float:
                if step < warmup:
                    return (step + 1) / (warmup + 1)
                return max(0.0, (total - step) / (total - warmup))

            trainer.lr_scheduler = LambdaLR(optimizer or trainer.optimizer, factor)
            trainer._created_lr_scheduler = True
        return trainer.lr_scheduler

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Hand the iteration's metrics on; the trainer's own log stays in its state."""
        super().log(logs, start_time)  # type: ignore[misc]
        if "loss" in logs:
            self._on_log({**logs, **self.figures()})

    def figures(self) -> dict[str, float]:
        """Return what else is told of the iteration that has ended."""
        return {}

    def create_model_card(self, *args: Any, **keywords: Any) -> None:
        """Write no model card: the folder is described by its record."""

    def _send_telemetry(self) -> None:
        """Tell nobody."""


class LiveRowTrainer(RunTrainer, GRPOTrainer):  # type: ignore[misc]
    """GRPO whose loss is computed on live rows alone.

    A row is live when its advantage is not zero: its group has variance and its episode was judged. All
    others have no gradient without a KL term, so they are dropped before the forward pass, and the token-mean
    loss is a mean over live tokens, as in DAPO's dynamic sampling (Yu et al. 2025, arXiv 2503.14476, section
    3.2). A batch without any live row makes no optimizer step.

    Args:
        process_group: The processes that train together. Each keeps as many rows as the one with the most
            live ones, so that all make equal passes.
        keywords: For `RunTrainer` and `GRPOTrainer`.
    """

    def __init__(self, *, process_group: ProcessGroup = ALONE, **keywords: Any) -> None:
        self._dead = False
        self._scored: torch.Tensor | None = None
        self._mismatch = Mismatch(keywords["args"].epsilon, process_group)
        super().__init__(process_group=process_group, **keywords)

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        batch: dict[str, Any] = super()._generate_and_score_completions(inputs)
        if self.beta == 0.0 and self.model.training:
            batch = live_rows(
                batch,
                self.args.steps_per_generation,
                merge=self.loss_type == "dapo",
                most=lambda live: max(self._process_group.gather(live)),
            )
            batch["num_items_in_batch"] = self.accelerator.gather(batch["num_items_in_batch"]).sum()
            self._dead = not bool(self.accelerator.gather((batch["advantages"] != 0).any()).any())
        return batch

    @property
    def dead(self) -> bool:
        """Whether the last batch had no row with an advantage."""
        return self._dead

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Any:
        """Also compare what the loss is computed from with what the sampler said; nothing is scored twice."""
        self._scored = None
        loss = super()._compute_loss(model, inputs)
        sampled = inputs.get("sampling_per_token_logps")
        if self._scored is not None and sampled is not None:
            own = inputs["completion_mask"] * inputs.get("tool_mask", 1)
            self._mismatch.add(self._scored, sampled, own)
        self._scored = None
        return loss

    def _get_per_token_logps_and_entropies(self, *args: Any, **rest: Any) -> Any:
        """Score tokens, and remember the scores for the comparison with the sampler."""
        scored = self._score_by_length(*args, **rest)
        self._scored = scored[0].detach()
        return scored

    def _score_by_length(
        self,
        model: Any,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        logits_to_keep: int,
        **rest: Any,
    ) -> Any:
        """Score rows of like length together: one long episode does not make all others as long.

        Args:
            model: The policy.
            input_ids: [rows, tokens]; prompts padded on the left, completions on the right.
            attention_mask: [rows, tokens].
            logits_to_keep: Columns at the end that are completions.
            **rest: As TRL passes it on.

        Returns:
            As TRL: [rows, logits_to_keep] each.
        """
        score = super()._get_per_token_logps_and_entropies
        if rest.get("compute_aux_loss") or any(rest.get(key) is not None for key in _IMAGES):
            return score(model, input_ids, attention_mask, logits_to_keep, **rest)
        rest.pop("batch_size", None)
        order = torch.argsort(attention_mask.sum(1), stable=True)
        parts = []
        for rows in torch.split(order, CHUNK):
            # Columns that are padding in all these rows are cut on both sides. On the left that shifts
            # positions, which rotary embeddings do not see; on the right fewer logits are kept, and zeros put
            # back below.
            used = attention_mask[rows].any(0).nonzero()[:, 0]
            first, end = int(used[0]), int(used[-1]) + 1
            unused = input_ids.shape[1] - end
            scored = score(
                model,
                input_ids[rows, first:end],
                attention_mask[rows, first:end],
                logits_to_keep - unused,
                **rest,
            )
            parts.append([None if item is None else pad(item, (0, unused)) for item in scored])
        back = torch.argsort(order)
        return tuple(
            None if items[0] is None else torch.cat(items)[back] for items in zip(*parts, strict=True)
        )

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> torch.Tensor:
        """Run a step; a dead batch leaves no gradients behind, so that the optimizer's momentum rests too."""
        loss: torch.Tensor = super().training_step(model, inputs, num_items_in_batch)
        if self._dead:
            model.zero_grad(set_to_none=True)
        return loss

    def figures(self) -> dict[str, float]:
        """Return how far sampler and trainer lie apart."""
        return self._mismatch.figures()


class _MarkComplete(TrainerCallback):  # type: ignore[misc]
    def __init__(self, process_group: ProcessGroup) -> None:
        self._process_group = process_group

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._process_group.wait()  # each has written its part
        if self._process_group.first:
            folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
            mark_complete(folder)


def live_rows(
    batch: dict[str, Any],
    slices: int,
    merge: bool = False,
    most: Callable[[int], int] = lambda live: live,
) -> dict[str, Any]:
    """Drop rows without advantage, and the columns that only they needed.

    Args:
        batch: What TRL made of one generation batch: rows x tokens tensors, prompts padded left and
            completions right.
        slices: Gradient accumulation steps: the number of rows kept is a multiple of it.
        merge: Also make one row of equal episodes, with the sum of their advantages. The gradient is the same
            when the loss is a sum over tokens (`dapo`) and the importance ratio is 1: it is linear in the
            advantage. The token count stays that of all live episodes.
        most: Is told how many rows are live here, and says how many are where there are most of them, among
            processes that have batches of one size and must keep equally many.

    Returns:
        The batch with its live rows (and dead ones as filling, at least one a slice), token count adjusted.
    """
    advantages = batch["advantages"]
    # own: [rows, completion tokens], what the policy wrote itself in rows that teach anything.
    own = batch["completion_mask"] * batch.get("tool_mask", 1) * (advantages != 0).unsqueeze(1)
    if merge:
        episodes = torch.cat([batch["prompt_ids"], batch["completion_ids"], own], dim=1)
        _, episode, counts = torch.unique(episodes, dim=0, return_inverse=True, return_counts=True)
        # On the host: a GPU adds in any order, and equal batches would not have equal sums.
        summed = torch.zeros(len(counts), dtype=advantages.dtype)
        summed.index_add_(0, episode.cpu(), advantages.cpu())
        first = torch.full_like(counts, len(advantages)).scatter_reduce_(
            0, episode, torch.arange(len(advantages), device=episode.device), "amin"
        )
        advantages = torch.zeros_like(advantages)
        advantages[first] = summed.to(advantages.device)
    # Stable, so that which rows share a slice does not depend on how a device sorts equals.
    order = torch.argsort((advantages != 0).int(), descending=True, stable=True)
    live = most(int((advantages != 0).sum()))
    keep = order[: min(len(order), max(slices, -(-live // slices) * slices))]
    changed = {**batch, "advantages": advantages}
    if "tool_mask" in batch:
        changed["tool_mask"] = batch["tool_mask"] * (advantages != 0).unsqueeze(1)
    rows = {
        key: value[keep]
        for key, value in changed.items()
        if isinstance(value, torch.Tensor) and value.dim() > 0 and len(value) == len(advantages)
    }
    left = int(rows["prompt_mask"].sum(1).max())
    right = int(rows["completion_mask"].sum(1).max())
    trimmed = {
        key: value[:, -left:] if key.startswith("prompt") else value[:, :right] if value.dim() == 2 else value
        for key, value in rows.items()
    }
    return {**changed, **trimmed, "num_items_in_batch": own.sum()}


def grpo_config(section: Training, plan: Plan, folder: Path, name: str = "") -> GRPOConfig:
    """Translate the settings for TRL.

    One optimizer step for every batch of rollouts, so the policy that is trained is the one that acted and
    the importance ratio is 1: TRL then needs no second forward pass for old log-probabilities.

    Args:
        section: The training settings.
        plan: The run's budget.
        folder: Where checkpoints go.
        name: What trackers call the run.
    """
    config = GRPOConfig(
        **common_arguments(section, plan, folder, name),
        num_generations=plan.group_size,
        num_iterations=1,
        beta=section.beta,
        epsilon=section.epsilon,
        loss_type=section.loss_type,
        scale_rewards="group",
    )
    return on_own_device(config, section)


def on_own_device(config: ConfigT, section: Training) -> ConfigT:
    """Keep one process to one device: torch's DataParallel would take all that can be seen."""
    if section.processes == 1:
        config._n_gpu = min(config.n_gpu, 1)
    return config


def common_arguments(section: Training, plan: Plan, folder: Path, name: str = "") -> dict[str, Any]:
    """Return what the settings say to any of TRL's trainers that sample themselves.

    Args:
        section: The training settings.
        plan: The run's budget.
        folder: Where checkpoints go.
        name: What trackers call the run.
    """
    batch = plan.tasks_per_iteration * plan.group_size // section.processes
    rows = section.micro_batch or batch
    return {
        "output_dir": str(folder),
        "per_device_train_batch_size": rows,
        "gradient_accumulation_steps": batch // rows,
        "max_steps": plan.iterations,
        "shuffle_dataset": False,
        "learning_rate": section.learning_rate,
        "max_grad_norm": section.max_grad_norm,
        "temperature": section.temperature,
        "max_completion_length": section.max_turns * section.max_new_tokens,
        "bf16": section.bf16,
        "gradient_checkpointing": section.gradient_checkpointing,
        "use_cpu": not torch.cuda.is_available(),
        "seed": section.seed,
        "logging_steps": 1,
        "save_strategy": "steps",
        "save_steps": section.save_every,
        "save_total_limit": 2,
        "report_to": list(section.report_to) or "none",
        "run_name": name or None,
        "disable_tqdm": True,
        "dataloader_pin_memory": False,
        # Every weight that is trained takes part in every pass; buffers never change, and passes may be more
        # in one process than in another.
        "ddp_find_unused_parameters": False,
        "ddp_broadcast_buffers": False,
        "ddp_timeout": int(PATIENCE.total_seconds()),
    }


# How far the trainer's log-probabilities lie from those under which the sampler drew its tokens.


class Mismatch:
    """Collects the policy's own tokens of one iteration, micro-batch after micro-batch.

    Sampler and trainer hold the same weights, so every difference is that of two programs (kernels,
    precision, a template applied otherwise, an adapter that was not taken). GRPO's gradient is that
    of the trainer's probabilities at the sampler's tokens: with a ratio far from 1 it is another policy's.

    Args:
        epsilon: Half-width of the clip range of the loss, to count what lies outside.
        process_group: The processes that train together: the figures are over the tokens of all.
    """

    def __init__(self, epsilon: float, process_group: ProcessGroup = ALONE) -> None:
        self._epsilon, self._process_group = epsilon, process_group
        self._parts: list[torch.Tensor] = []

    def add(self, trained: torch.Tensor, sampled: torch.Tensor, own: torch.Tensor) -> None:
        """Take in a micro-batch.

        Args:
            trained: The trainer's log-probabilities in nats, rows x tokens.
            sampled: The sampler's, same shape; NaN where it gave none.
            own: Same shape, 1 where the policy wrote the token.
        """
        difference = (trained.float() - sampled.float())[own.bool()]
        self._parts.append(difference[~difference.isnan()].cpu().double())

    def figures(self) -> dict[str, float]:
        """Return the iteration's figures and begin the next one.

        Returns:
            `sampler_kl`: KL(sampler, trainer) a token in nats, by the estimator r - 1 - log r with
            r = trainer / sampler (Schulman 2020, "Approximating KL divergence", k3), which is never negative;
            `sampler_difference`: the largest difference of a token's log-probability, in nats;
            `outside_clip`: share of tokens with r outside 1 -/+ epsilon. Empty when there was no token.

        >>> both = Mismatch(0.2)
        >>> both.add(torch.tensor([[-1.0, -2.0]]), torch.tensor([[-1.0, -2.5]]), torch.ones(1, 2))
        >>> {name: round(value, 3) for name, value in both.figures().items()}
        {'sampler_kl': 0.074, 'sampler_difference': 0.5, 'outside_clip': 0.5}
        >>> both.figures()
        {}
        """
        parts, self._parts = self._parts, []
        difference = torch.cat(parts) if parts else torch.empty(0)
        ratio = difference.exp()
        said = (
            len(difference),
            float((ratio - 1 - difference).sum()),
            float(difference.abs().max()) if len(difference) else 0.0,
            int(((ratio - 1).abs() > self._epsilon).sum()),
        )
        tokens, divergence, largest, outside = zip(*self._process_group.gather(said), strict=True)
        n = sum(tokens)
        if not n:
            return {}
        return {
            "sampler_kl": sum(divergence) / n,
            "sampler_difference": max(largest),
            "outside_clip": sum(outside) / n,
        }
