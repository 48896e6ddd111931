"""Which capabilities would get in each other's way: their policy gradients at the base policy, compared.

What one step of GRPO would do is measured before any is paid for: the gradient of each capability, by the
conditions that its environment sets (what its solution does there), on a LoRA that changes nothing yet.
Capabilities whose gradients are orthogonal act on different things, and their adapters can be added up; where
one wants the opposite of another in a like state, their sum undoes both. The first-order gain of skill i from
a step on the sum is <g_i, sum_j g_j> (Yu et al. 2020, arXiv 2001.06782, for gradients of tasks).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from trace_assets.errors import InputError
from trace_assets.records import Interference, InterferencePart, Message, Task
from trace_assets.settings import Training
from trace_assets.stats.agreement import Cosine, Floats, compare_directions, reliability, split_half
from trace_assets.targets.protocol import Solving, Target

TASKS = 16
"""Groups of rollouts a capability, divided equally among its conditions."""
MOST_CONDITIONS = 4
"""The most frequent ones are told apart; the rest are one."""
REST = "others"
WIDTH = 65_536
"""Coordinates that a gradient is folded into where it has more: inner products stay the same on average, with
a standard deviation of 1 / sqrt(WIDTH) of the norms (count sketch: Charikar et al. 2002)."""
OPPOSED = -0.3
"""Two parts are opposed where the whole interval of their cosine lies below this."""
ORTHOGONAL = 0.3
"""Two capabilities are called orthogonal where no cosine's interval reaches beyond this either way."""
RELIABLE = 0.3
"""Least reliability of both directions for a cosine to decide anything."""
UNBRANCHED = -0.99
"""A cosine of two conditions of one capability below which the base policy does not tell them apart."""


class Part(NamedTuple):
    """A capability under one condition of its environment."""

    capability: str
    condition: str


@dataclass(frozen=True)
class Measured:
    """The gradients of one part.

    Attributes:
        gradients: A row a group; zero where the group was dead.
        passed: Episodes that succeeded.
        judged: Episodes with a verdict.
    """

    gradients: Floats
    passed: int
    judged: int

    @property
    def live(self) -> int:
        """Groups with a gradient."""
        return int((np.abs(self.gradients).sum(1) > 0).sum())


def condition_of(target: Target, task: Task) -> str:
    """Return what decides how a task is solved: the tools that its solution calls, in order.

    That is what an environment sets when it allows or forbids what is asked. A target without solutions is
    told apart by its tags.
    """
    if not isinstance(target, Solving):
        return task.tags[0] if task.tags else "all"
    try:
        messages: Sequence[Message] = target.oracle(task)
    except InputError:
        return "no solution"
    called: list[str] = []
    for message in messages:
        called += [call.name for call in message.tool_calls if call.name not in called]
    return " > ".join(called) or "no call"


def by_condition(target: Target, tasks: Sequence[Task], count: int = TASKS) -> dict[str, list[Task]]:
    """Choose tasks, as many of each condition as there are, up to an equal share of `count`.

    Args:
        target: The environment.
        tasks: Its tasks; the first ones are taken.
        count: How many in all.
    """
    found: dict[str, list[Task]] = {}
    for task in tasks[: 8 * count]:
        found.setdefault(condition_of(target, task), []).append(task)
    frequent = sorted(found, key=lambda name: (-len(found[name]), name))
    kept = frequent if len(frequent) <= MOST_CONDITIONS else frequent[: MOST_CONDITIONS - 1]
    rest = [task for name in frequent if name not in kept for task in found[name]]
    parts = {name: found[name] for name in kept} | ({REST: rest} if rest else {})
    each = max(4, count // len(parts))
    return {name: own[:each] for name, own in parts.items()}


def measure(
    environments: Mapping[str, Target], base_dir: Path, section: Training, *, count: int = TASKS
) -> dict[Part, Measured]:
    """Play tasks of every capability with the base policy, and return each group's policy gradient.

    Args:
        environments: Capability to its environment.
        base_dir: Folder of the base model.
        section: Group size, LoRA and sampling as in training.
        count: Groups a capability.

    Raises:
        Unavailable: The train extra is missing, or episodes break.
    """
    import torch

    from trace_assets.policies.transformers_engine import TransformersPolicy
    from trace_assets.training.episodes import Player, to_row
    from trace_assets.training.grpo import calm

    found: dict[Part, Measured] = {}
    with calm():
        torch.manual_seed(section.seed)
        model, tokenizer_filler = _fresh_lora(base_dir, section), 0
        policy = TransformersPolicy(
            base_dir, temperature=section.temperature, max_new_tokens=section.max_new_tokens
        )
        for name, target in environments.items():
            with Player(
                target,
                policy,
                seed=section.seed,
                max_turns=section.max_turns,
                concurrency=section.concurrency,
            ) as player:
                for condition, tasks in by_condition(target, target.tasks("discovery"), count).items():
                    rollouts = player.play(
                        [task for task in tasks for _ in range(section.group_size)],
                        f"interference, {condition}",
                    )
                    rows = [to_row(one.trajectory, one.tokens, tokenizer_filler) for one in rollouts]
                    size = section.group_size
                    groups = [rows[start : start + size] for start in range(0, len(rows), size)]
                    judged = [row for row in rows if row.success is not None]
                    found[Part(name, condition)] = Measured(
                        np.stack([_gradient(model, group) for group in groups]),
                        sum(bool(row.success) for row in judged),
                        len(judged),
                    )
    return found


def _fresh_lora(base_dir: Path, section: Training) -> Any:
    from peft import get_peft_model

    from trace_assets.policies.lora import load_model
    from trace_assets.training.checkpoints import lora_config

    return get_peft_model(load_model(base_dir), lora_config(section))


def _gradient(model: Any, rows: Sequence[Any]) -> Floats:
    """Return the GRPO gradient of one group with respect to the LoRA's B, which is where it begins."""
    import torch
    from torch.nn.utils.rnn import pad_sequence

    parameters = [value for name, value in model.named_parameters() if "lora_B" in name]
    size = sum(value.numel() for value in parameters)
    paid = [row for row in rows if row.reward is not None]
    rewards = torch.tensor([row.reward for row in paid], dtype=torch.float32)
    if len(paid) < 2 or float(rewards.std()) < 1e-6:
        return np.zeros(min(size, WIDTH))
    advantages = (rewards - rewards.mean()) / (rewards.std() + 1e-4)
    tokens = sum(sum(row.own) for row in paid)
    model.zero_grad()
    # Padded on the right: what is causal never looks there, and padding is nobody's own token.
    ids = [torch.tensor(row.prompt_ids + row.completion_ids) for row in paid]
    own = [torch.tensor([0] * len(row.prompt_ids) + list(row.own)) for row in paid]
    padded = pad_sequence(ids, batch_first=True).to(model.device)
    mask = pad_sequence(own, batch_first=True)[:, 1:].float().to(model.device)
    logits = model(input_ids=padded).logits[:, :-1].float()
    said = torch.log_softmax(logits, -1).gather(2, padded[:, 1:, None])[:, :, 0]
    gained = ((said * mask).sum(1) * advantages.to(model.device)).sum() / tokens
    gained.backward()  # type: ignore[no-untyped-call]
    whole = torch.cat([value.grad.detach().float().flatten().cpu() for value in parameters])
    return _folded(whole.double().numpy())


def _folded(vector: Floats) -> Floats:
    if len(vector) <= WIDTH:
        return vector
    rng = np.random.default_rng(0)
    places = rng.integers(WIDTH, size=len(vector))
    signs = rng.choice((-1.0, 1.0), size=len(vector))
    folded: Floats = np.bincount(places, weights=vector * signs, minlength=WIDTH).astype(np.float64)
    return folded


# What the gradients say of each pair of capabilities.


Verdict = Literal["orthogonal", "aligned", "opposed", "unclear"]


def parts_of(measured: Mapping[Part, Measured], seed: int = 0) -> list[InterferencePart]:
    """Return how far each part's direction can be relied on.

    Args:
        measured: As `measure` returns it.
        seed: Of the random halves.
    """
    rows = []
    for part, one in sorted(measured.items()):
        half = split_half(one.gradients, seed=seed)
        rows.append(
            InterferencePart(
                capability_id=part.capability,
                condition=part.condition,
                n_groups=len(one.gradients),
                live_groups=one.live,
                n_rollouts=one.judged,
                pass_rate=one.passed / one.judged if one.judged else None,
                norm=float(np.linalg.norm(one.gradients.mean(0))),
                split_half=half,
                reliability=reliability(half),
            )
        )
    return rows


def pairs_of(measured: Mapping[Part, Measured], *, resamples: int = 500, seed: int = 0) -> list[Interference]:
    """Compare the gradients of every two parts, and say of every two capabilities whether they can be added.

    Rows of conditions are comparisons; rows without conditions carry the verdict on two capabilities, by
    their whole gradients (the mean over conditions) and by every two of their conditions that are both
    reliable.

    Args:
        measured: As `measure` returns it.
        resamples: Bootstrap draws over groups.
        seed: The same seed gives the same intervals.
    """
    halves = {part: reliability(split_half(one.gradients, seed=seed)) for part, one in measured.items()}
    names = sorted({part.capability for part in measured})
    rows = []
    for a, b in combinations(sorted(measured), 2):
        found = compare_directions(
            measured[a].gradients, measured[b].gradients, resamples=resamples, seed=seed
        )
        rows.append(_row(a, b, found, halves[a], halves[b]))
    for first, second in combinations(names, 2):
        own = [[one for part, one in measured.items() if part.capability == name] for name in (first, second)]
        wholes = [_whole(parts) for parts in own]
        trust = [reliability(split_half(whole, seed=seed)) for whole in wholes]
        found = compare_directions(*wholes, resamples=resamples, seed=seed)
        row = _row(Part(first, ""), Part(second, ""), found, *trust)
        across = [
            one for one in rows if {one.capability_id, one.other_id} == {first, second} and one.condition
        ]
        rows.append(row.model_copy(update=_verdict(row, across)))
    return rows


def _whole(parts: Sequence[Measured]) -> Floats:
    """Return samples of a capability's gradient: each the mean of one group of every condition."""
    fewest = min(len(one.gradients) for one in parts)
    whole: Floats = np.mean([one.gradients[:fewest] for one in parts], axis=0)
    return whole


def _row(a: Part, b: Part, found: Cosine, trust_a: float | None, trust_b: float | None) -> Interference:
    both = min(trust_a or 0.0, trust_b or 0.0)
    corrected = None
    if found.value is not None and trust_a and trust_b:
        corrected = float(np.clip(found.value / math.sqrt(trust_a * trust_b), -1, 1))
    return Interference(
        capability_id=a.capability,
        condition=a.condition,
        other_id=b.capability,
        other_condition=b.condition,
        cosine=found.value,
        cosine_low=found.low,
        cosine_high=found.high,
        corrected=corrected,
        reliability=both,
        verdict="unclear" if found.value is None or both < RELIABLE else _word(found),
    )


def _word(found: Cosine | Interference) -> Verdict:
    low, high = (
        (found.low, found.high) if isinstance(found, Cosine) else (found.cosine_low, found.cosine_high)
    )
    if low is None or high is None:
        return "unclear"
    if high < OPPOSED:
        return "opposed"
    if low > ORTHOGONAL:
        return "aligned"
    return "orthogonal" if low >= -ORTHOGONAL and high <= ORTHOGONAL else "unclear"


def _verdict(whole: Interference, across: Sequence[Interference]) -> dict[str, str]:
    """Return verdict and reason for two capabilities."""
    opposed = [one for one in (whole, *across) if one.verdict == "opposed"]
    if opposed:
        worst = min(opposed, key=lambda one: one.cosine or 0.0)
        where = (
            f"'{worst.condition}' of one and '{worst.other_condition}' of the other"
            if worst.condition
            else "their whole gradients"
        )
        return {
            "verdict": "opposed",
            "reason": f"{where} pull apart: cosine {_figures(worst)}. Adding their adapters up is refused: "
            "route to one of them, or teach both in one environment.",
        }
    if whole.verdict in ("orthogonal", "aligned"):
        words = (
            "independent: they can be added up"
            if whole.verdict == "orthogonal"
            else "alike: their sum takes a like step twice, so compare it with one adapter for both"
        )
        return {"verdict": whole.verdict, "reason": f"their gradients are {words}, cosine {_figures(whole)}."}
    if whole.cosine is None:
        why = "one of them has no gradient at the base policy, so nothing can be foreseen."
    else:
        why = (
            f"cosine {_figures(whole)}, reliability {whole.reliability:.2f}: too uncertain to foresee "
            "anything."
        )
    return {"verdict": "unclear", "reason": why}


def _figures(row: Interference) -> str:
    if row.cosine is None or row.cosine_low is None or row.cosine_high is None:
        return "unknown"
    return f"{row.cosine:.2f} [{row.cosine_low:.2f}, {row.cosine_high:.2f}]"


def unbranched(rows: Sequence[Interference]) -> list[Interference]:
    """Return the conditions of one capability that the base policy does not tell apart.

    Where a step for one undoes the other (cosine near -1), no budget teaches the capability: the base policy
    has to branch first.
    """
    return [
        row
        for row in rows
        if row.capability_id == row.other_id
        and row.verdict == "opposed"
        and row.cosine is not None
        and row.cosine < UNBRANCHED
    ]


def opposed_pairs(rows: Sequence[Interference]) -> dict[frozenset[str], str]:
    """Return every two capabilities whose adapters must not be added up, and why.

    Args:
        rows: As `pairs_of` returns them.
    """
    return {
        frozenset((row.capability_id, row.other_id)): row.reason
        for row in rows
        if not row.condition and row.capability_id != row.other_id and row.verdict == "opposed"
    }
