"""The trainer of a model that is divided among processes.

Importing this module loads torch and TRL: do it where training starts, not before.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from transformers.trainer import OPTIMIZER_NAME, SCHEDULER_NAME

from trace_assets.training.adapter import WEIGHTS, load_lora, lora_tensors
from trace_assets.training.shards import divide, load_optimizer_state, optimizer_state
from trace_assets.training.trainer import LiveRowTrainer


class DividedTrainer(LiveRowTrainer):
    """`LiveRowTrainer` whose model is divided among all processes before anything is computed.

    Its checkpoints hold whole tensors in the files of an undivided one, so a run that was killed may go on
    either way.

    Args:
        keywords: For `LiveRowTrainer`.
    """

    def __init__(self, **keywords: Any) -> None:
        super().__init__(**keywords)
        divide(self.model, self.args.device)
        # Evaluation mode is what accelerate does to a model of one process: mixed precision, and no DDP.
        self.accelerator.prepare_model(self.model, device_placement=False, evaluation_mode=True)
        self.model._is_accelerate_prepared = True

    def _move_model_to_device(self, model: Any, device: torch.device) -> None:
        """Leave the model in the host's memory: whole it may not fit, and `divide` moves layer by layer."""

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Write the adapter of a checkpoint; every process has a part of it, one writes."""
        tensors = lora_tensors(self.model)
        if self.args.should_save:
            self._save(output_dir, tensors)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        load_lora(self.model, load_file(Path(resume_from_checkpoint) / WEIGHTS))

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        state = optimizer_state(self.optimizer, keep=self.args.should_save)
        if self.args.should_save:
            torch.save(state, Path(output_dir) / OPTIMIZER_NAME)
            torch.save(self.lr_scheduler.state_dict(), Path(output_dir) / SCHEDULER_NAME)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if checkpoint is None:
            return
        optimizer, scheduler = (
            torch.load(Path(checkpoint) / name, map_location="cpu", weights_only=True)
            for name in (OPTIMIZER_NAME, SCHEDULER_NAME)
        )
        load_optimizer_state(self.optimizer, optimizer)
        self.lr_scheduler.load_state_dict(scheduler)
