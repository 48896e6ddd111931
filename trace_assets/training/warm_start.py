"""Demonstrations before GRPO, where the policy never succeeds: of a success rate of 0 nothing is amplified.

Some of the run's own tasks are played first. Those in which no episode succeeds are solved by the
environment's own oracle, and the adapter learns these episodes token by token, for some steps, until they are
likely enough; beside them it learns its own successes at other tasks, which it would unlearn otherwise. GRPO
follows, in which what was shown only has to be better than what else is tried. Whatever
is played for this, demonstrations too, comes out of the run's own rollouts.

Importing this module loads no torch.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from trace_assets.rollouts.episode import Rollout
from trace_assets.settings import Training
from trace_assets.store.files import replacing_file
from trace_assets.training.demonstrations import Demonstrations
from trace_assets.training.episodes import Player, Row, to_row
from trace_assets.training.plan import Plan

TRIALS = 2
"""Episodes of a task that must all fail before it is demonstrated."""
SEARCHED = 2
"""Iterations whose rollouts are spent on finding such tasks."""
STEPS = 60
"""Optimizer steps of the imitation at most."""
LIKELY = 0.7
"""Nats of the least likely token at which a demonstration is likely enough: GRPO goes on from one half."""
REHEARSED = 1
"""Own episodes at most that are learned beside each demonstration."""
RATE = 0.5
"""Learning rate of the imitation over that of GRPO."""
CHUNK = 16
"""Episodes of a forward pass, where the settings name no number."""
BATCH = "demonstrations"


@dataclass(frozen=True)
class WarmStart:
    """What was done before GRPO.

    Attributes:
        searched: Tasks that were played, `TRIALS` times each.
        demonstrations: Episodes that were learned from.
        rollouts: Episodes that were played for it.
        steps: Optimizer steps.
        before: Nats of a demonstration's least likely token before the first step; None without one.
        after: After the last step.
    """

    searched: int
    demonstrations: int
    rollouts: int
    steps: int = 0
    before: float | None = None
    after: float | None = None


def find_demonstrations(
    player: Player, demonstrations: Demonstrations, plan: Plan, section: Training
) -> tuple[WarmStart, list[Row]]:
    """Play some tasks, and have those that are never solved demonstrated.

    Args:
        player: Plays with the base model's weights.
        demonstrations: Have tasks of its target solved.
        plan: The run's budget and tasks.
        section: The training settings.

    Returns:
        What was spent; and the demonstrations that the environment calls a success, with own successes after
        them.

    Raises:
        Unavailable: Too many episodes broke.
    """
    wanted = max(1, min(len(plan.pool), SEARCHED * plan.batch // TRIALS))
    tasks = random.Random(f"{section.seed}/warm start").sample(list(plan.pool), wanted)
    played = player.play([task for task in tasks for _ in range(TRIALS)], "warm start")
    groups = [played[start : start + TRIALS] for start in range(0, len(played), TRIALS)]
    never = [
        task
        for task, group in zip(tasks, groups, strict=True)
        if not any(one.trajectory.success for one in group)
        and any(one.trajectory.success is False for one in group)
    ]
    spent = len(played) + len(never)
    if not never:
        return WarmStart(len(tasks), 0, spent), []
    shown = demonstrations.show(never, BATCH)
    taught = learnable(shown)
    # What it does already is rehearsed: one success at each other task.
    own = [one for group in groups for one in group if one.trajectory.success]
    first = {one.trajectory.task_id: one for one in reversed(own)}
    rehearsed = learnable(list(first.values()))[: REHEARSED * len(taught)]
    return WarmStart(len(tasks), len(taught), spent), [*taught, *rehearsed]


def learnable(played: Sequence[Rollout]) -> list[Row]:
    """Return the successful episodes of which something can be learned."""
    rows = [to_row(one.trajectory, one.tokens, 0) for one in played if one.trajectory.success]
    return [row for row in rows if any(row.own)]


def shortened(plan: Plan, spent: int) -> Plan:
    """Return what is left of a plan when rollouts were spent before its first iteration.

    At least one iteration is left.
    """
    iterations = max(1, plan.iterations - -(-spent // plan.batch))
    return replace(
        plan, iterations=iterations, schedule=plan.schedule[: iterations * plan.tasks_per_iteration]
    )


def imitate(
    model: Any, rows: Sequence[Row], section: Training, *, demonstrations: int
) -> tuple[int, float, float]:
    """Raise the likelihood of demonstrations under a model's LoRA, and keep that of what it does already.

    The mean over tokens says little: a demonstration mostly says what the model would have said, and its
    likelihood hangs on the one token at which it would have done otherwise. So the steps end by the least
    likely token of each.

    Args:
        model: The PEFT model.
        rows: Demonstrations first, then own episodes; each of their own tokens weighs the same.
        section: Learning rate, clipping, episodes a forward pass.
        demonstrations: How many of the rows are.

    Returns:
        Steps, and nats of a demonstration's least likely token, in the mean over them, before the first step
        and after the last.
    """
    import torch

    trained = [value for value in model.parameters() if value.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=RATE * section.learning_rate, weight_decay=0.0)
    size = section.micro_batch or CHUNK
    parts = [
        (padded(some[start : start + size]), shown)
        for some, shown in ((rows[:demonstrations], True), (rows[demonstrations:], False))
        for start in range(0, len(some), size)
    ]
    tokens = sum(int(own.sum()) for (_, _, own), _ in parts)
    was_training = model.training
    model.train()
    first, steps = None, 0
    while True:
        optimizer.zero_grad(set_to_none=True)
        least = 0.0
        for part, shown in parts:
            found = token_nats(model, part, section)
            (found.sum() / tokens).backward()
            least += float(found.detach().amax(1).sum()) / demonstrations if shown else 0.0
        first = least if first is None else first
        if least < LIKELY or steps == STEPS:
            break
        torch.nn.utils.clip_grad_norm_(trained, section.max_grad_norm)
        optimizer.step()
        steps += 1
    optimizer.zero_grad(set_to_none=True)
    model.train(was_training)
    return steps, first, least


def token_nats(model: Any, part: tuple[Any, Any, Any], section: Training) -> Any:
    """Return the negative log-likelihood of each token in nats, (episodes, tokens - 1), 0 where not its own.

    Args:
        model: The PEFT model.
        part: Episodes, as `padded` returns them.
        section: Whether the model computes in bfloat16.
    """
    import torch

    ids, mask, own = (one.to(model.device) for one in part)
    with torch.autocast(model.device.type, torch.bfloat16, enabled=section.bf16):
        logits = model(input_ids=ids, attention_mask=mask).logits[:, :-1]
    scores = torch.log_softmax(logits.float(), dim=-1)
    return -scores.gather(-1, ids[:, 1:, None])[..., 0] * own[:, 1:]


def padded(rows: Sequence[Row]) -> tuple[Any, Any, Any]:
    """Return ids, mask and own tokens of episodes, each (episodes, tokens), padded on the right."""
    import torch

    whole = [(row.prompt_ids + row.completion_ids, [0] * len(row.prompt_ids) + row.own) for row in rows]
    longest = max(len(ids) for ids, _ in whole)
    ids = torch.tensor([one + [0] * (longest - len(one)) for one, _ in whole])
    mask = torch.tensor([[1] * len(one) + [0] * (longest - len(one)) for one, _ in whole])
    own = torch.tensor([mine + [0] * (longest - len(mine)) for _, mine in whole])
    return ids, mask, own


# What a killed run finds: weights and figures, written together at the end of the phase.


def stored_warm_start(folder: Path) -> WarmStart | None:
    """Return the finished warm start of an interrupted run."""
    file = folder / "warm_start.json"
    return WarmStart(**json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else None


def store_warm_start(folder: Path, found: WarmStart) -> None:
    """Note that the warm start is finished; its weights are there already."""
    with replacing_file(folder / "warm_start.json") as partial:
        partial.write_text(json.dumps(asdict(found)), encoding="utf-8")
