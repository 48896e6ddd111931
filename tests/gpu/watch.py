"""What a training spends its time and memory on, seen from outside."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Work:
    """Work of one kind.

    Attributes:
        seconds: What it took.
        tokens: What it was done on: sampled ones, or ones that were learnt from.
        read: Tokens in all.
        peak: Most bytes of the device that tensors took meanwhile.
        times: How often it was done.
        longest: Tokens of the longest episode.
    """

    seconds: float = 0.0
    tokens: int = 0
    read: int = 0
    peak: int = 0
    times: int = 0
    longest: int = 0


@dataclass
class Watch:
    """Collects over one training: sampling, learning, and the way of the adapter to the sampler."""

    sampling: Work = field(default_factory=Work)
    learning: Work = field(default_factory=Work)
    loading: Work = field(default_factory=Work)
    tell: Callable[[str, float], None] = lambda what, seconds: None
    """Is told of each batch that was played and each adapter that was handed over, as it happens."""

    @contextmanager
    def on(self, policy: type) -> Iterator[None]:
        """Watch trainings in this process.

        Args:
            policy: The sampler's class.
        """
        from trace_assets.training.run import Run
        from trace_assets.training.trainer import LiveRowTrainer

        play, step, load = Run._play, LiveRowTrainer.training_step, policy.load_weights

        def played(run: Any, tasks: Any, batch: str) -> Any:
            before = self.sampling.seconds
            with self._measured(self.sampling):
                rows = play(run, tasks, batch)
            self.tell(f"{len(rows)} episodes of {batch}", self.sampling.seconds - before)
            for row in rows:
                own, length = sum(row.own), len(row.prompt_ids) + len(row.completion_ids)
                self.sampling.tokens += own
                self.sampling.read += length
                self.sampling.longest = max(self.sampling.longest, length)
            return rows

        def stepped(trainer: Any, model: Any, inputs: Any, items: Any = None) -> Any:
            # The inputs of a step are played and scored inside it, where a new batch begins.
            before = self.sampling.seconds + self.loading.seconds
            with self._measured(self.learning):
                found = step(trainer, model, inputs, items)
            self.learning.seconds -= self.sampling.seconds + self.loading.seconds - before
            return found

        def prepared(trainer: Any, inputs: Any) -> Any:
            batch = prepare(trainer, inputs)
            tokens = int(batch["prompt_mask"].sum() + batch["completion_mask"].sum())
            self.learning.tokens += tokens
            self.learning.longest = max(
                self.learning.longest,
                int((batch["prompt_mask"].sum(1) + batch["completion_mask"].sum(1)).max()),
            )
            return batch

        def loaded(sampler: Any, *rest: Any, **more: Any) -> Any:
            before = self.loading.seconds
            with self._measured(self.loading):
                made = load(sampler, *rest, **more)
            self.tell(f"adapter {self.loading.times} handed over", self.loading.seconds - before)
            return made

        prepare = LiveRowTrainer._prepare_inputs
        changes: list[tuple[Any, str, Callable[..., Any], Callable[..., Any]]] = [
            (Run, "_play", played, play),
            (LiveRowTrainer, "training_step", stepped, step),
            (LiveRowTrainer, "_prepare_inputs", prepared, prepare),
            (policy, "load_weights", loaded, load),
        ]
        for owner, name, new, _ in changes:
            setattr(owner, name, new)
        try:
            yield
        finally:
            for owner, name, _, old in changes:
                setattr(owner, name, old)

    @contextmanager
    def _measured(self, work: Work) -> Iterator[None]:
        reset_peak()
        settle()
        began = time.perf_counter()
        try:
            yield
        finally:
            settle()
            work.seconds += time.perf_counter() - began
            work.times += 1
            work.peak = max(work.peak, peak())
            reset_peak()  # what encloses this does not count it


def settle() -> None:
    """Wait until the device has done what it was told."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()


def reset_peak() -> None:
    """Begin to look for the highest memory anew."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()


def peak() -> int:
    """Return the highest bytes of tensors since then; 0 without a GPU."""
    import torch

    return torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0
