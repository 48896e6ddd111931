"""Do the engine that serves an adapter and the model that trained it say the same, and anything at all?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from trace_assets.errors import Unavailable, require_extra
from trace_assets.policies.protocol import Policy, TokenTrace
from trace_assets.records import Task
from trace_assets.targets.protocol import Target

TOLERANCE = 1e-3
"""Largest difference of a token's log-probability that rounding explains in 32-bit arithmetic."""


@dataclass(frozen=True)
class Parity:
    """Log-probabilities of the same sampled tokens, from the serving engine and from PEFT's own forward pass.

    Attributes:
        tokens: Sampled tokens compared.
        episodes: Episodes they come from.
        max_difference: Largest |engine - reference|, in nats.
        mean_difference: Mean |engine - reference|, in nats.
        kl: KL(engine || reference) per token in nats, estimated on the tokens that the engine sampled by
            (r - 1) - log r with r = reference / engine (Schulman 2020, estimator k3): never below 0.
        effect: Largest |reference with adapter - reference without|, in nats: 0 for an adapter that does
            nothing.
        base_difference: Largest |engine - reference without adapter|: 0 for an engine that left it out.
        tolerance: What `max_difference` may be, and what `effect` must exceed.
    """

    tokens: int
    episodes: int
    max_difference: float
    mean_difference: float
    kl: float
    effect: float
    base_difference: float
    tolerance: float = TOLERANCE

    @property
    def problem(self) -> str | None:
        """What is wrong, in one sentence; None when nothing is."""
        if self.effect <= self.tolerance:
            return (
                f"the adapter changes no log-probability by more than {self.tolerance:g} over {self.tokens} "
                "tokens: it does nothing, train it again."
            )
        if self.max_difference <= self.tolerance:
            return None
        if self.base_difference <= self.tolerance:
            return (
                f"the engine serves the base model without the adapter, on all {self.tokens} tokens compared."
            )
        return (
            f"the engine's log-probabilities differ from the trained model's by up to "
            f"{self.max_difference:.3g} over {self.tokens} tokens (allowed {self.tolerance:g}): it serves "
            "other weights than this adapter's."
        )

    @property
    def sentence(self) -> str:
        """What was found, in one sentence with the figures."""
        return self.problem or (
            f"engine and trainer agree on {self.tokens} tokens of {self.episodes} episodes: they differ by "
            f"at most {self.max_difference:.1e} nats, and the adapter moves up to {self.effect:.2f}."
        )


def adapter_parity(
    target: Target,
    tasks: Sequence[Task],
    policy: Policy,
    adapter: str | None,
    *,
    base_dir: Path | str,
    folder: Path,
    max_turns: int,
    temperature: float = 1.0,
    tolerance: float = TOLERANCE,
) -> Parity:
    """Play tasks with the serving engine and score every token that it sampled with PEFT's forward pass.

    Whole episodes are played, so that merged weights, ragged batches and the cache kept across turns are all
    compared, not only a first token.

    Args:
        target: Where to play.
        tasks: The fixed prompts: one episode each, with the task's place as its seed.
        policy: The serving engine; it must report its tokens.
        adapter: The adapter's name in the engine; None for an engine that acts with it by default.
        base_dir: Hugging Face folder, or hub name, of the base model.
        folder: The PEFT folder that the engine is said to serve.
        max_turns: Assistant messages an episode.
        temperature: At which the engine samples.
        tolerance: See `Parity`.

    Raises:
        Unavailable: The train extra is not installed, or the engine reports no tokens.
    """
    for module in ("torch", "transformers", "peft"):
        require_extra(module, "train", "comparing log-probabilities")
    from trace_assets.training.episodes import Player

    with Player(
        target, policy, seed=0, max_turns=max_turns, concurrency=len(tasks), adapter=adapter
    ) as player:
        rollouts = player.play(tasks, "parity")
    traces = [rollout.tokens for rollout in rollouts if rollout.tokens and 1 in rollout.tokens.mask]
    if not traces:
        raise Unavailable(f"policy {policy.name} reports no token ids: parity needs an engine that does.")
    with_adapter, without = _reference(base_dir, folder, traces, temperature)
    served = [
        logprob for trace in traces for logprob, own in zip(trace.logprobs, trace.mask, strict=True) if own
    ]
    differences = [abs(a - b) for a, b in zip(served, with_adapter, strict=True)]
    return Parity(
        tokens=len(served),
        episodes=len(traces),
        max_difference=max(differences),
        mean_difference=fmean(differences),
        kl=fmean(math.expm1(b - a) - (b - a) for a, b in zip(served, with_adapter, strict=True)),
        effect=max(abs(a - b) for a, b in zip(with_adapter, without, strict=True)),
        base_difference=max(abs(a - b) for a, b in zip(served, without, strict=True)),
        tolerance=tolerance,
    )


def _reference(
    base_dir: Path | str, folder: Path, traces: Sequence[TokenTrace], temperature: float
) -> tuple[list[float], list[float]]:
    """Return the sampled tokens' log-probabilities with the adapter and without it, one episode at a time."""
    import torch
    from peft import PeftModel

    from trace_assets.policies.lora import load_model
    from trace_assets.policies.sampling import accelerator

    base = load_model(Path(base_dir), device=accelerator())
    model = PeftModel.from_pretrained(base, str(folder)).eval()

    def score(trace: TokenTrace) -> list[float]:
        ids = torch.tensor([trace.ids], device=model.device)
        own = torch.tensor(trace.mask[1:], device=model.device, dtype=torch.bool)
        logits = model(input_ids=ids).logits[0, :-1][own].float() / temperature
        scores: list[float] = logits.log_softmax(-1).gather(1, ids[0, 1:][own].unsqueeze(1))[:, 0].tolist()
        return scores

    with torch.inference_mode():
        with_adapter = [value for trace in traces for value in score(trace)]
        with model.disable_adapter():
            without = [value for trace in traces for value in score(trace)]
    return with_adapter, without
