"""Demonstrations before GRPO, where the policy never succeeds: of a success rate of 0 nothing is amplified.

The environment's own oracle solves some of the run's tasks, and the adapter learns these episodes token by
token. Most of what they say the policy says already: so half of every step or more is taken on episodes that
hold something unlikely, and the rest on what it would unlearn otherwise: the other demonstrations, and its
own successes on the target, where some are stored. Some of each are held out, and the weights that make these
likeliest are kept: what is learned by heart is of no use. GRPO follows. Whatever is played for this comes out
of the run's own rollouts.

Importing this module loads no torch.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import Any

from trace_assets.errors import InputError
from trace_assets.rollouts.episode import Rollout
from trace_assets.settings import Training
from trace_assets.store.files import write_text
from trace_assets.training.demonstrations import Demonstrations
from trace_assets.training.episodes import Row, to_row
from trace_assets.training.plan import Plan

# A policy that is shown some hundred episodes learns by heart which order number comes where, long before
# it learns to find the number in what it read. So each time an episode is learned its identifiers are
# others, the same ones throughout: words of letters and digits, such as K48, that the agent copied. Only
# their digits change, into those of another that occurs in some demonstration, since letters often tell
# kinds apart. Such an episode was not played: nothing but imitation is to rest on it.

IDENTIFIER = re.compile(r"\b(?=\w*[A-Za-z])(?=\w*[0-9])\w+\b")


def kind_of(identifier: str) -> str:
    """Return what identifiers have in common that may stand for each other.

    >>> kind_of("K48"), kind_of("user_12")
    ('K00', 'user_00')
    """
    return re.sub("[0-9]", "0", identifier)


class Renaming:
    """Gives demonstrations other identifiers.

    Args:
        rows: All demonstrations: their identifiers are what there is to choose from.
        tokenizer: The model's.
        order: Decides what becomes of an identifier.
    """

    def __init__(self, rows: Sequence[Row], tokenizer: Any, order: random.Random) -> None:
        self._tokenizer, self._order = tokenizer, order
        pool: dict[str, set[str]] = {}
        for row in rows:
            for identifier in copied(self._parts(row) or ()):
                pool.setdefault(kind_of(identifier), set()).add(identifier)
        self.pool: Mapping[str, list[str]] = {kind: sorted(found) for kind, found in pool.items()}
        """Kind of identifier to those that some demonstration copies."""

    def another(self, row: Row) -> Row:
        """Return an episode with other identifiers; itself where it copies none that others could replace.

        Args:
            row: The episode; left as it is where its text would be cut into other tokens.
        """
        parts = self._parts(row)
        if parts is None:
            return row
        names = self._names({kind_of(one) for one in copied(parts)}, "".join(text for text, _ in parts))
        if not names:
            return row

        def swapped(text: str) -> list[int]:
            return self._ids(IDENTIFIER.sub(lambda found: names.get(found[0], found[0]), text))

        pieces = [(swapped(text), own) for text, own in parts]
        (prompt, _), *rest = pieces
        completion = [token for ids, _ in rest for token in ids]
        own = [int(mine) for ids, mine in rest for _ in ids]
        return Row(prompt, completion, [0.0] * len(completion), own, row.reward, row.success)

    def _names(self, kinds: set[str], text: str) -> dict[str, str]:
        """Return what the identifiers of a text become: no two the same."""
        found: dict[str, str] = {}
        for kind in sorted(kinds):
            present = [one for one in dict.fromkeys(IDENTIFIER.findall(text)) if kind_of(one) == kind]
            choice = self.pool.get(kind, [])
            if len(choice) >= len(present):
                found |= dict(zip(present, self._order.sample(choice, len(present)), strict=True))
        return found

    def _parts(self, row: Row) -> list[tuple[str, bool]] | None:
        """Return an episode in parts that were read or written; None where its text has other tokens."""
        whole = row.prompt_ids + row.completion_ids
        marks = [0] * len(row.prompt_ids) + row.own
        parts: list[tuple[str, bool]] = []
        for own, some in groupby(zip(whole, marks, strict=True), key=lambda one: bool(one[1])):
            ids = [token for token, _ in some]
            text = self._tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
            if self._ids(text) != ids:
                return None
            parts.append((text, own))
        return parts

    def _ids(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False))


def copied(parts: Sequence[tuple[str, bool]]) -> list[str]:
    """Return the identifiers that were read, and written after that.

    >>> copied([("order K48 or K05?", False), ("get K48, W1", True), ("W1 is there", False)])
    ['K48']
    """
    read: set[str] = set()
    found: dict[str, None] = {}
    for text, own in parts:
        names = IDENTIFIER.findall(text)
        if own:
            found |= dict.fromkeys(name for name in names if name in read)
        else:
            read |= set(names)
    return list(found)


PROCEDURE = "held-out demonstrations, likely ones and rehearsal beside them by their share, smaller steps"
"""Part of what a run is known by: one that learned its demonstrations otherwise is another run."""
SHARE = 0.5
"""Of the run's rollouts, at most, that are demonstrations."""
LIKELY = 0.7
"""Nats of an episode's least likely token from which on it is unlikely: a probability of one half."""
ENOUGH = 0.05
"""Nats of the held-out episodes' least likely tokens, in the mean, at which nothing is left to learn."""
HELD_OUT = 8
"""One episode in so many is held out, where there are twice as many that are unlikely."""
JUDGED = 64
"""Held-out episodes of either kind, at most."""
EPISODES = 24
"""Of an optimizer step."""
UNLIKELY = (12, 16)
"""Of these, fewest and most that are unlikely: as they occur among the demonstrations in between. Where most
are, more of them a step teach them in fewer steps, and there is less else to be kept."""
STEPS = 520
"""Optimizer steps at most. Nothing seems to be learned for 100 to 400 of them, and then all at once: so the
rate stays up until held-out episodes have become likely, and falls then."""
FALL = 120
"""Steps in which the rate falls to 0."""
FEW_STEPS = 60
"""Where there are too few demonstrations to hold some out."""
EVERY = 20
"""Steps between two looks at what is held out; half of that where there are few."""
RATE = 1.0
"""Highest learning rate of the imitation over that of GRPO."""
RISE = 10
"""Steps in which the rate rises to its value."""
DECAY = 0.4
"""Share of the steps in which it falls at most."""
BETAS = (0.9, 0.95)
"""Of Adam: the second moment of its usual .999 would remember the first, large gradients to the end."""
SMALLER = 0.1
"""Learning rate of GRPO behind what demonstrations have taught, over its usual one, which loses it again."""
CHUNK = 8
"""Episodes of a forward pass, where the settings name no number: few, since they are of like length."""
BATCH = "demonstrations"
FIRST = 16
"""Demonstrations that say whether the environment's oracle can be followed at all."""


@dataclass(frozen=True)
class WarmStart:
    """What was done before GRPO.

    Attributes:
        demonstrations: Episodes of the oracle that the environment calls a success.
        rollouts: Episodes that were played for it.
        unlikely: Demonstrations that hold a token of a probability below one half.
        steps: Optimizer steps.
        before: Nats of the least likely token of what was unlikely, in the mean over those held out, before
            the first step; None without one.
        after: With the weights that were kept.
        rehearsed: Stored episodes of the policy's own that were learned beside them; played before, for the
            diagnosis.
        unable: Why nothing was demonstrated; empty where something was.
    """

    demonstrations: int
    rollouts: int
    unlikely: int = 0
    steps: int = 0
    before: float | None = None
    after: float | None = None
    rehearsed: int = 0
    unable: str = ""

    @property
    def learned(self) -> bool:
        """Whether demonstrations that were held out became likely: what is left to GRPO is little.

        >>> WarmStart(90, 90, unlikely=40, steps=240, before=4.8, after=0.2).learned
        True
        >>> WarmStart(5, 5, unlikely=2, steps=60, before=4.8, after=0.2).learned  # too few to hold some out
        False
        >>> WarmStart(90, 90, unlikely=40, steps=240, before=4.8, after=1.2).learned
        False
        """
        return self.unlikely >= 2 * HELD_OUT and self.after is not None and self.after < LIKELY


def find_demonstrations(
    demonstrations: Demonstrations | None, plan: Plan, section: Training
) -> tuple[WarmStart, list[Row]]:
    """Have the oracle solve some of the run's tasks.

    Where nothing can be shown nothing fails: GRPO has the rollouts, as it would without demonstrations. The
    first few tell.

    Args:
        demonstrations: Have tasks of the target solved; None where it has nobody who could.
        plan: The run's budget and tasks.
        section: The training settings.

    Returns:
        What was spent, and the demonstrations that the environment calls a success.

    Raises:
        Unavailable: Too many episodes broke.
    """
    if demonstrations is None:
        return WarmStart(0, 0, unable="the environment has no oracle that could demonstrate"), []
    wanted = max(1, min(len(plan.pool), int(SHARE * plan.rollouts)))
    tasks = random.Random(f"{section.seed}/warm start").sample(list(plan.pool), wanted)
    shown: list[Rollout] = []
    try:
        for some, batch in ((tasks[:FIRST], f"{BATCH}, the first"), (tasks[FIRST:], BATCH)):
            shown += demonstrations.show(some, batch) if some else []
            if not learnable(shown):
                said = f"none of {len(shown)} episodes of its oracle was a success that can be learned"
                return WarmStart(0, len(shown), unable=said), []
    except InputError as error:
        return WarmStart(0, len(shown), unable=str(error).rstrip(".")), []
    rows = learnable(shown)
    return WarmStart(len(rows), len(shown)), rows


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
    model: Any, rows: Sequence[Row], section: Training, tokenizer: Any, rehearsed: Sequence[Row] = ()
) -> WarmStart:
    """Raise the likelihood of demonstrations under a model's LoRA.

    The mean over tokens says little: a demonstration mostly says what the model would have said, and its
    likelihood hangs on the one token at which it would have done otherwise. So episodes are told apart, and
    judged, by the least likely token of each.

    Args:
        model: The PEFT model; its LoRA is left with the weights that were best on what was held out.
        rows: Demonstrations; each of their own tokens weighs the same.
        section: Learning rate, clipping, episodes a forward pass, seed.
        tokenizer: The model's: identifiers in what is learned are others each time, see
            `trace_assets.training.warm_start`; not in what is held out.
        rehearsed: Episodes of what the policy can do elsewhere. They share half of every step, or less, with
            likely demonstrations: neither stands for the other, since the target's successes may hardly show
            what the environment asks for, and it asks for nothing else.

    Returns:
        What was learned; nothing was played for it here.
    """
    import torch

    from trace_assets.training.checkpoints import load_lora, lora_state

    def weights() -> dict[str, Any]:
        return {name: value.clone() for name, value in lora_state(model).items()}

    least = least_likely(model, rows, section)
    unlikely = [row for row, nats in zip(rows, least, strict=True) if nats >= LIKELY]
    likely = [row for row, nats in zip(rows, least, strict=True) if nats < LIKELY]
    found = WarmStart(len(rows), 0, len(unlikely))
    if not unlikely:
        return found
    found = replace(found, rehearsed=len(rehearsed))
    parts = [some for some in (unlikely, list(rehearsed), likely) if some]
    held = [some[::HELD_OUT][:JUDGED] for some in parts]
    apart = len(unlikely) >= 2 * HELD_OUT
    taught = (
        [[row for place, row in enumerate(some) if place % HELD_OUT] for some in parts] if apart else parts
    )
    judged, enough = (held, ENOUGH) if apart else (list(parts), LIKELY)

    def look() -> tuple[float, float]:
        """Return the nats of what was unlikely, and the mean of these and of what the rest has lost."""
        each = [fmean(least_likely(model, some, section)) for some in judged]
        return each[0], fmean(max(0.0, nats - start) for nats, start in zip(each, starts, strict=True))

    trained = [value for value in model.parameters() if value.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=0.0, betas=BETAS, weight_decay=0.0)
    order = random.Random(f"{section.seed}/imitation")
    streams = [endless(some, order) for some in taught]
    counts = shares(len(streams), len(unlikely) / len(rows))
    renaming = Renaming([row for some in taught for row in some], tokenizer, order)
    most, every = (STEPS, EVERY) if apart else (FEW_STEPS, EVERY // 2)
    fall = max(1, min(FALL, round(DECAY * most)))
    starts = [0.0, *(fmean(least_likely(model, some, section)) for some in judged[1:])]
    now, value = look()
    found = replace(found, before=now, after=now)
    best, kept, steps, level = value, weights(), 0, most - fall
    was_training = model.training
    model.train()
    if section.gradient_checkpointing:  # the trainer does so where it begins, which is behind this
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    while value >= enough and steps < level + fall:
        drawn = [
            renaming.another(next(stream))
            for stream, count in zip(streams, counts, strict=True)
            for _ in range(count)
        ]
        tokens = sum(sum(row.own) for row in drawn)
        optimizer.zero_grad(set_to_none=True)
        for places in passes(drawn, section):
            nats = token_nats(model, padded([drawn[place] for place in places]), section)
            (nats.sum() / tokens).backward()
        torch.nn.utils.clip_grad_norm_(trained, section.max_grad_norm)
        steps += 1
        for group in optimizer.param_groups:
            group["lr"] = RATE * section.learning_rate * rate_at(steps, level, fall)
        optimizer.step()
        if steps % every:
            continue
        now, value = look()
        if value < best:
            best, kept = value, weights()
            found = replace(found, steps=steps, after=now)
        if apart and now < LIKELY:
            level = min(level, steps)
    load_lora(model, kept)
    optimizer.zero_grad(set_to_none=True)
    model.train(was_training)
    return found


def shares(kinds: int, unlikely: float) -> list[int]:
    """Return the episodes of a step by kind: unlikely ones first, the other kinds share the rest.

    Args:
        kinds: How many there are.
        unlikely: Share of the demonstrations that are unlikely.

    >>> shares(1, 1.0), shares(2, 0.2), shares(3, 0.3), shares(3, 0.6), shares(3, 0.8)
    ([24], [12, 12], [12, 6, 6], [14, 5, 5], [16, 4, 4])
    """
    if kinds == 1:
        return [EPISODES]
    fewest, most = UNLIKELY
    first = min(max(fewest, 2 * round(EPISODES * unlikely / 2)), most)
    return [first, *[(EPISODES - first) // (kinds - 1)] * (kinds - 1)]


def rate_at(step: int, level: int, fall: int) -> float:
    """Return the factor of the learning rate at a step, from 1: up, level, and down.

    Args:
        step: Counted from 1.
        level: The step from which on it falls.
        fall: In so many steps it falls to 0.

    >>> [round(rate_at(step, 240, 160), 2) for step in (1, 10, 240, 320, 400)]
    [0.1, 1.0, 1.0, 0.51, 0.01]
    """
    return min(1.0, step / RISE, (level + fall - step + 1) / fall)


def endless(rows: Sequence[Row], order: random.Random) -> Iterator[Row]:
    """Yield rows without end, each as often as the others, in orders that are drawn."""
    while True:
        yield from order.sample(list(rows), len(rows))


def least_likely(model: Any, rows: Sequence[Row], section: Training) -> list[float]:
    """Return the nats of the least likely own token of each episode."""
    import torch

    was_training, found = model.training, [0.0] * len(rows)
    model.eval()
    with torch.no_grad():
        for places in passes(rows, section):
            part = padded([rows[place] for place in places])
            nats = token_nats(model, part, section).amax(1).tolist()
            for place, value in zip(places, nats, strict=True):
                found[place] = value
    model.train(was_training)
    return found


def passes(rows: Sequence[Row], section: Training) -> list[list[int]]:
    """Return the places of episodes by forward pass: those of like length together, so that little is padded.

    Args:
        rows: The episodes.
        section: Says how many go into a pass.
    """
    size = section.micro_batch or CHUNK
    places = sorted(
        range(len(rows)), key=lambda place: len(rows[place].prompt_ids) + len(rows[place].completion_ids)
    )
    return [places[start : start + size] for start in range(0, len(places), size)]


def token_nats(model: Any, part: tuple[Any, Any], section: Training) -> Any:
    """Return the negative log-likelihood of each token in nats, (episodes, tokens - 1), 0 where not its own.

    Only what the policy wrote goes through the output layer, a part of an episode: over a vocabulary of
    150,000 all of 8,000 tokens would be 5 GB.

    Args:
        model: The PEFT model.
        part: Episodes, as `padded` returns them.
        section: Whether the model computes in bfloat16.
    """
    import torch

    ids, own = (one.to(model.device) for one in part)
    kept = own[:, 1:].bool()
    hook = model.get_output_embeddings().register_forward_pre_hook(
        lambda _, read: (read[0][:, :-1][kept], *read[1:])
    )
    try:
        with torch.autocast(model.device.type, torch.bfloat16, enabled=section.bf16):
            logits = model(input_ids=ids, use_cache=False).logits
    finally:
        hook.remove()
    nats = torch.nn.functional.cross_entropy(logits.float(), ids[:, 1:][kept], reduction="none")
    return torch.zeros(kept.shape, device=nats.device).masked_scatter(kept, nats)


def padded(rows: Sequence[Row]) -> tuple[Any, Any]:
    """Return ids and own tokens of episodes, each (episodes, tokens).

    Padded on the right, where causal attention never looks: no mask is needed, and attention is quicker
    without one.
    """
    import torch

    whole = [(row.prompt_ids + row.completion_ids, [0] * len(row.prompt_ids) + row.own) for row in rows]
    longest = max(len(ids) for ids, _ in whole)
    ids = torch.tensor([one + [0] * (longest - len(one)) for one, _ in whole])
    own = torch.tensor([mine + [0] * (longest - len(mine)) for _, mine in whole])
    return ids, own


# What a killed run finds: weights and figures, written together at the end of the phase.


def stored_warm_start(folder: Path) -> WarmStart | None:
    """Return the finished warm start of an interrupted run."""
    file = folder / "warm_start.json"
    return WarmStart(**json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else None


def store_warm_start(folder: Path, found: WarmStart) -> None:
    """Note that the warm start is finished; its weights are there already."""
    write_text(folder / "warm_start.json", json.dumps(asdict(found)))
