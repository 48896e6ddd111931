"""How often the policy succeeds on held-out tasks, with its interval."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

from trace_assets.errors import Unavailable, require_extra
from trace_assets.policies.protocol import Policy, TokenTrace
from trace_assets.records import Task, TrainingPoint
from trace_assets.settings import Training
from trace_assets.stats.intervals import wilson
from trace_assets.targets.protocol import Target
from trace_assets.training.episodes import Player, is_broken


@dataclass(frozen=True)
class Rate:
    """A success rate.

    Attributes:
        successes: Episodes that succeeded.
        n: Episodes that were judged; broken ones are in neither figure.
        reward: Mean reward over the judged ones.
    """

    successes: int
    n: int
    reward: float

    @property
    def rate(self) -> float:
        """Successes / n."""
        return self.successes / self.n

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval over episodes."""
        return wilson(self.successes, self.n, 0.95)


def validate(player: Player, tasks: Sequence[Task], batch: str) -> Rate:
    """Play held-out tasks at the policy's own temperature, each once: then Wilson's interval is theirs.

    Args:
        player: Plays the episodes; the policy holds the weights to be judged.
        tasks: Held-out tasks.
        batch: Name of the batch; the same name gives the same seeds, for comparisons.

    Raises:
        Unavailable: So many episodes broke that there is nothing to report.
    """
    judged = [r.trajectory for r in player.play(tasks, batch) if not is_broken(r.trajectory)]
    if not judged:
        raise Unavailable(f"no episode of {batch} could be judged; mend the environment and run again.")
    return Rate(
        successes=sum(bool(trajectory.success) for trajectory in judged),
        n=len(judged),
        reward=sum(trajectory.reward or 0.0 for trajectory in judged) / len(judged),
    )


def split_held_out(tasks: Sequence[Task], compare: int, report: int) -> tuple[Sequence[Task], Sequence[Task]]:
    """Divide held-out tasks between choosing a checkpoint and saying how good it is.

    Args:
        tasks: All of them.
        compare: How many checkpoints are compared on, at most.
        report: How many are reported on, at most.

    Returns:
        Tasks to compare on, tasks to report on. They share none when there are enough for both; else the
        figures are over all tasks, and only the episodes are fresh.

    >>> [len(part) for part in split_held_out(list(range(512)), 64, 256)]
    [64, 256]
    >>> [len(part) for part in split_held_out(list(range(200)), 64, 256)]
    [64, 200]
    """
    rest = tasks[compare:]
    return tasks[:compare], rest[:report] if len(rest) >= report else tasks[:report]


# What a learning curve warns of: figures with bounds, each with what to do about it.


MAX_SAMPLER_KL = 0.01
"""Nats a token. Two fp32 engines differ by 1e-9 or less; bf16 kernels of two programs by some 1e-3; a wrong
adapter or template by tenths."""
MAX_OUTSIDE_CLIP = 0.05
"""Share of tokens whose probability the trainer puts outside the clip range before it has made a step."""
MAX_CLIP_RATIO = 0.3
"""Share of tokens that the loss itself clips."""
MIN_ENTROPY = 0.05
"""Of the first iteration's. A policy that solves its tasks may well become sure of itself; one that does not
has stopped to explore."""
SOLVED = 0.5
"""Success rate from which low entropy is no complaint."""
MAX_DEAD = 0.8
"""Share of groups without gradient over the iterations in which there was still something to learn."""
LEARNED = 0.9
"""Success rate from which all-passing groups are no complaint: there is nothing left to learn."""
MAX_NORM = 10.0
"""Median gradient norm before clipping, over `max_grad_norm`."""
LAST = 5
"""Iterations that say how a run ended."""


@dataclass(frozen=True)
class Reading:
    """One monitor of one run.

    Attributes:
        name: Column of `training_curves` that it reads.
        value: What is compared with the bound; None where the run did not record it.
        bound: Its limit.
        sound: Whether the value is within it.
        says: Value, n and, where it is not sound, what to do.
    """

    name: str
    value: float | None
    bound: float
    sound: bool
    says: str


def readings(points: Sequence[TrainingPoint], section: Training) -> list[Reading]:
    """Judge a learning curve.

    Returns:
        One reading a monitor, in the order of the columns; those without a value are sound and say so.
    """
    ordered = sorted(points, key=lambda point: point.iteration)

    def known(get: Callable[[TrainingPoint], float | None], over: Sequence[TrainingPoint]) -> list[float]:
        return [value for value in map(get, over) if value is not None]

    kl = known(lambda point: point.sampler_kl, ordered)
    outside = known(lambda point: point.outside_clip, ordered)
    clip = known(lambda point: point.clip_ratio, ordered)
    # A batch without any live group has no gradient: its norm of 0 says nothing.
    norms = [value / section.max_grad_norm for value in known(lambda p: p.grad_norm, ordered) if value > 0]
    dead = [point.dead_groups for point in ordered if point.success_rate < LEARNED]
    return [
        _above("sampler_kl", kl, max, MAX_SAMPLER_KL, "highest", "nats a token", _MISMATCH),
        _above("outside_clip", outside, max, MAX_OUTSIDE_CLIP, "highest", "of the tokens", _MISMATCH),
        _above("clip_ratio", clip, max, MAX_CLIP_RATIO, "highest", "of the tokens", _STEPS),
        _entropy(ordered),
        _above("dead_groups", dead, fmean, MAX_DEAD, "mean", "of the groups", _DEAD),
        _above("grad_norm", norms, median, MAX_NORM, "median", "times max_grad_norm", _STEPS),
    ]


_MISMATCH = "the engine that samples and the trainer disagree: compare precision, template and adapter"
_STEPS = "steps are too large: lower training.learning_rate"
_DEAD = "most rollouts taught nothing: take other tasks, a larger training.group_size or training.redraws"
_COLLAPSE = "the policy stopped to explore before it succeeded: lower training.learning_rate"


def _above(
    name: str,
    values: Sequence[float],
    over: Callable[[Sequence[float]], float],
    bound: float,
    which: str,
    unit: str,
    mend: str,
) -> Reading:
    if not values:
        return Reading(name, None, bound, True, f"{name} was not recorded")
    value = float(over(values))
    # A comparison with NaN is false: what is no number is not sound.
    sound = value <= bound
    says = f"{name} {value:.3g} {unit} ({which} of {len(values)} iterations, limit {bound:g})"
    return Reading(name, value, bound, sound, says if sound else f"{says}: {mend}")


def _entropy(points: Sequence[TrainingPoint]) -> Reading:
    told = [point for point in points if point.entropy is not None]
    if len(told) < 2 or not told[0].entropy:
        return Reading("entropy", None, MIN_ENTROPY, True, "entropy was not recorded")
    last = told[-min(LAST, len(told) - 1) :]
    share = fmean(point.entropy or 0.0 for point in last) / told[0].entropy
    success = fmean(point.success_rate for point in last)
    sound = share >= MIN_ENTROPY or success >= SOLVED
    says = (
        f"entropy {share:.0%} of the first iteration's (mean of the last {len(last)}, success {success:.0%})"
    )
    return Reading("entropy", share, MIN_ENTROPY, sound, says if sound else f"{says}: {_COLLAPSE}")


# Do the engine that serves an adapter and the model that trained it say the same, and anything at all?


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
    from trace_assets.policies.token_policy import accelerator

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
