"""TRL's distillation trainer on episodes of a target, with a teacher that differs from task to task.

Importing this module loads torch and TRL: do it where training starts, not before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import pad
from trl import DistillationConfig, DistillationTrainer

from trace_assets.errors import InputError
from trace_assets.policies.lora import load_model
from trace_assets.records import NO_ADAPTER
from trace_assets.settings import Training
from trace_assets.training.joint import Teacher
from trace_assets.training.plan import Plan
from trace_assets.training.trainer import CHUNK, RunTrainer, common_arguments, on_own_device

REVERSE_KL = 1.0
"""TRL's beta: 1 is the reverse KL, KL(student || teacher)."""


class TaughtTrainer(RunTrainer, DistillationTrainer):  # type: ignore[misc]
    """Learns the teacher's next-token distributions on episodes that the student has played.

    TRL's own loop samples prompts and calls plain functions as tools; here episodes come from the target, as
    in GRPO, and the loss is over the policy's own tokens alone.

    Args:
        teacher: Who acts on which task.
        base_dir: Folder or hub name of the base model, the teacher's as well as the student's.
        rollout_func: Plays the tasks at the given places of the schedule.
        keywords: For `RunTrainer` and `DistillationTrainer`.
    """

    def __init__(
        self,
        *,
        teacher: Teacher,
        base_dir: Path | str,
        rollout_func: Callable[[Sequence[str], Any], Mapping[str, list[Any]]],
        **keywords: Any,
    ) -> None:
        self._rollout = rollout_func
        self._names = [NO_ADAPTER, *teacher.used]
        self._sent = list[int]()
        self._rows: torch.Tensor | None = None
        self._agent = load_teacher(teacher, base_dir, "bfloat16" if keywords["args"].bf16 else "float32")
        super().__init__(teacher_model=self._agent, **keywords)

    def _generate(self, prompts: list[str]) -> Any:
        played = self._rollout(prompts, self)
        self._sent = [self._names.index(choice) for choice in played["choice"]]
        return played["prompt_ids"], played["completion_ids"], played["env_mask"], None, []

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        batch: dict[str, Any] = super()._generate_and_score_completions(inputs)
        batch["sent"] = torch.tensor(self._sent, device=batch["prompt_ids"].device)
        return batch

    def _compute_loss(self, unwrapped_student: Any, inputs: dict[str, Any], num_items_in_batch: Any) -> Any:
        self._rows = inputs["sent"]
        return super()._compute_loss(unwrapped_student, inputs, num_items_in_batch)

    def _get_last_hidden_state(
        self,
        unwrapped_model: Any,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        logits_to_keep: int,
        **rest: Any,
    ) -> torch.Tensor:
        """Run rows of like length together, and of the teacher those that one choice acts on.

        Args:
            unwrapped_model: The student, or the teacher.
            input_ids: [rows, tokens]; prompts padded on the left, completions on the right.
            attention_mask: [rows, tokens].
            logits_to_keep: Columns at the end that are completions.
            **rest: As TRL passes it on.

        Returns:
            [rows, logits_to_keep, width]; zeros where a row is padding.
        """
        run = super()._get_last_hidden_state
        lengths = attention_mask.sum(1)
        sent = self._rows if unwrapped_model is self._agent and self._rows is not None else None
        parts, places = list[torch.Tensor](), list[torch.Tensor]()
        for choice in [-1] if sent is None else sorted({int(one) for one in sent}):
            some = torch.arange(len(input_ids), device=input_ids.device)
            some = some if sent is None else some[sent == choice]
            some = some[torch.argsort(lengths[some], stable=True)]
            with acting(self._agent, "" if choice < 0 else self._names[choice]):
                for rows in torch.split(some, CHUNK):
                    used = attention_mask[rows].any(0).nonzero()[:, 0]
                    first, end = int(used[0]), int(used[-1]) + 1
                    unused = input_ids.shape[1] - end
                    hidden = run(
                        unwrapped_model,
                        input_ids[rows, first:end],
                        attention_mask[rows, first:end],
                        logits_to_keep - unused,
                        **rest,
                    )
                    parts.append(pad(hidden, (0, 0, 0, unused)))
                    places.append(rows)
        return torch.cat(parts)[torch.argsort(torch.cat(places))]


def load_teacher(teacher: Teacher, base_dir: Path | str, dtype: str = "float32") -> Any:
    """Load the base model with every choice of a teacher beside it, each under its own name.

    Args:
        teacher: Who acts where.
        base_dir: Folder or hub name of the base model.
        dtype: Precision to compute in.

    Raises:
        InputError: No task is sent to an adapter: the base model would be distilled into itself.
    """
    from peft import PeftModel

    if not teacher.used:
        raise InputError("the agent to distil sends no task to an adapter: it is the base model.")
    (first, folder), *others = teacher.used.items()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = PeftModel.from_pretrained(
        load_model(Path(base_dir), dtype, device), str(folder), adapter_name=_called(first)
    )
    for name, folder in others:
        model.load_adapter(str(folder), adapter_name=_called(name))
    return model.eval().requires_grad_(False)


@contextmanager
def acting(model: Any, choice: str) -> Iterator[None]:
    """Have one choice of a teacher act; empty leaves it as it is."""
    if choice == NO_ADAPTER:
        with model.disable_adapter():
            yield
    else:
        if choice:
            model.set_adapter(_called(choice))
        yield
    model.requires_grad_(False)  # PEFT has what acts trained


def _called(choice: str) -> str:
    """Return a name that PEFT takes for a module: none with a dot in it."""
    return choice.replace(".", "_")


def distillation_config(section: Training, plan: Plan, folder: Path, name: str = "") -> DistillationConfig:
    """Translate the settings for TRL's distillation trainer.

    Args:
        section: The training settings.
        plan: The run's budget.
        folder: Where checkpoints go.
        name: What trackers call the run.
    """
    common = common_arguments(section, plan, folder, name)
    return on_own_device(DistillationConfig(**common, beta=REVERSE_KL, pad_to_multiple_of=None), section)
