"""The training run of the tiny agent: weights, optimizers and place, saved so that it can go on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from trace_assets.store.files import replacing_file
from trace_assets.training.demo_agent.model import (
    POOL_BATCHES,
    TINY,
    AgentShape,
    Batch,
    batches,
    new_agent,
    new_tokenizer,
)

if TYPE_CHECKING:
    import torch

    from trace_assets.system.progress import Bar
    from trace_assets.targets.embedded.generator import DeskName


_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_ITERATIONS = 5


def orthogonalize(matrices: torch.Tensor) -> torch.Tensor:
    """Return matrices with the same singular vectors and singular values near 1.

    Args:
        matrices: (batch, rows, columns), each of them scaled freely.

    Returns:
        The same shape; five Newton-Schulz iterations bring the singular values into about .7 to 1.2.
    """
    a, b, c = _COEFFICIENTS
    wide = matrices.size(-2) > matrices.size(-1)
    x = matrices.mT if wide else matrices
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)
    for _ in range(_ITERATIONS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if wide else x


class Muon(torch.optim.Optimizer):
    """Nesterov momentum whose update is orthogonalized, for two-dimensional parameters only.

    Args:
        params: The matrices.
        lr: Learning rate; the update of a matrix is scaled by `sqrt(max(1, rows / columns))`.
        weight_decay: Decoupled weight decay.
        momentum: Share of the old momentum that stays.
    """

    def __init__(
        self,
        params: Iterable[torch.nn.Parameter],
        lr: float = 0.02,
        weight_decay: float = 0.01,
        momentum: float = 0.95,
    ) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Update every matrix that has a gradient."""
        for group in self.param_groups:
            shapes: dict[torch.Size, list[torch.nn.Parameter]] = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is not None:
                    shapes[parameter.shape].append(parameter)
            for shape, alike in shapes.items():
                updates = []
                for parameter in alike:
                    state, gradient = self.state[parameter], parameter.grad
                    assert gradient is not None
                    if "momentum" not in state:
                        state["momentum"] = torch.zeros_like(parameter)
                    state["momentum"].lerp_(gradient, 1 - group["momentum"])
                    updates.append(torch.lerp(gradient, state["momentum"], group["momentum"]))
                scale = group["lr"] * max(1.0, shape[0] / shape[1]) ** 0.5
                for parameter, update in zip(alike, orthogonalize(torch.stack(updates)), strict=True):
                    parameter.mul_(1 - group["lr"] * group["weight_decay"])
                    parameter.add_(update, alpha=-scale)


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

        from trace_assets.policies.token_policy import accelerator

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
