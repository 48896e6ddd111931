"""Is a lack the cause of failures, and would words do? A hint against other words of equal length.

Failures that lack a capability are played again by the base model, once told what it lacks and once told
something else that is true, on fresh trials: tasks chosen for a failure pass more often the second time with
no words at all, so only the difference between two wordings says anything. Tasks that do not need the
capability are the control.

Importing this module loads no torch.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trace_assets.errors import require_extra
from trace_assets.policies.protocol import AdvisedPolicy, Place, Policy
from trace_assets.records import LabelValue, Task, Trajectory
from trace_assets.rollouts.episode import Rollout
from trace_assets.settings import Training
from trace_assets.stats.paired import Gain, gain
from trace_assets.targets.protocol import Target
from trace_assets.training.episodes import Player, is_broken

TRIALS = 2
"""Fresh episodes of a task under each wording."""
FEWEST = 8
"""Tasks with failures that lack the capability, below which nothing is played."""
NO_RESCUE = 0.10
"""A hint whose gain lies below this in all its interval does not rescue."""
CLOSE = 0.05
"""A hint brings a pass rate within this of what tasks reach that do not need it: then words do."""

Verdict = Literal["teach", "a prompt suffices", "neither", "undecided"]


@dataclass(frozen=True)
class Words:
    """What the base model is told in the two wordings.

    Attributes:
        hint: What it lacks, as an instruction.
        placebo: Something else that is true, as long as that where there is such a sentence.
        place: In a system message, or at the end of the user's first message.
    """

    hint: str
    placebo: str
    place: Place


@dataclass(frozen=True)
class Hinted:
    """Pass rates by task, each over `TRIALS` episodes with the same seeds.

    Attributes:
        hint: Of tasks whose failures lack the capability, told what it is.
        placebo: The same tasks, told something else.
        control_hint: Of tasks that do not need it, told what it is.
        control_placebo: The same, told something else.
        rollouts: Episodes that were played, those that found the tasks among them.
    """

    hint: tuple[float, ...]
    placebo: tuple[float, ...]
    control_hint: tuple[float, ...] = ()
    control_placebo: tuple[float, ...] = ()
    rollouts: int = 0

    @classmethod
    def read(cls, text: str) -> Hinted:
        """Return what `text` has written.

        >>> Hinted.read(Hinted((0.5, 1.0), (0.0, 0.0), rollouts=9).text()).hint
        (0.5, 1.0)
        """
        said = json.loads(text)
        rates = {name: tuple(map(float, said[name])) for name in said if name != "rollouts"}
        return cls(rollouts=int(said["rollouts"]), **rates)

    def text(self) -> str:
        """Return it as JSON."""
        return json.dumps(vars(self))


@dataclass(frozen=True)
class Gate:
    """What the two wordings show.

    Attributes:
        verdict: `teach`: the lack is a cause that words do not mend; `a prompt suffices`: words mend it;
            `neither`: the words change nothing; else `undecided`.
        reason: Why, with the figures.
        rescue: Hint minus placebo where the capability was lacking, by task; None with too few tasks.
        control: The same where it is not needed; None without such tasks.
    """

    verdict: Verdict
    reason: str
    rescue: Gain | None = None
    control: Gain | None = None


def judge(found: Hinted) -> Gate:
    """Say what the wordings show.

    >>> lacking, passing = (0.0,) * 40, (1.0,) * 40
    >>> half = (1.0, 0.0) * 20
    >>> judge(Hinted(hint=half, placebo=lacking, control_hint=passing, control_placebo=passing)).verdict
    'teach'
    >>> judge(Hinted(hint=passing, placebo=half, control_hint=passing, control_placebo=passing)).verdict
    'a prompt suffices'
    >>> judge(Hinted(hint=half, placebo=half)).verdict, judge(Hinted(hint=half[:4], placebo=half[:4])).verdict
    ('neither', 'undecided')
    """
    n = len(found.hint)
    if n < FEWEST:
        return Gate("undecided", f"only {n} tasks with failures that lack it were found, {FEWEST} are needed")
    rescue = gain(np.subtract(found.hint, found.placebo))
    control = gain(np.subtract(found.control_hint, found.control_placebo)) if found.control_hint else None
    told, other = float(np.mean(found.hint)), float(np.mean(found.placebo))
    figures = (
        f"told what it lacks the base model passes {told:.0%} of {n} tasks that it failed lacking it, told "
        f"something else {other:.0%}: {_points(rescue)}"
    )
    if control is not None:
        figures += f"; on {control.n} tasks that do not need it {_points(control)}"
    if rescue.low > 0:
        if found.control_placebo:
            reached = float(np.mean(found.control_placebo))
            if gain(np.asarray(found.hint)).low >= reached - CLOSE:
                return Gate("a prompt suffices", f"{figures}. Words alone reach the others", rescue, control)
        return Gate("teach", figures, rescue, control)
    if rescue.high < NO_RESCUE:
        return Gate("neither", f"{figures}. The words change nothing", rescue, control)
    return Gate("undecided", f"{figures}, which is too uncertain", rescue, control)


def run_hint_gate(
    *,
    live: Target,
    label: Callable[[Trajectory], LabelValue],
    words: Words,
    base_dir: Path | str,
    section: Training,
    folder: Path,
) -> Hinted:
    """Find tasks, and play them under both wordings.

    Args:
        live: The target; its discovery tasks are played, never others.
        label: Says of an episode whether the capability is lacking, present or not needed; sees no outcome.
        words: The two wordings.
        base_dir: The base model's folder.
        section: `pilot_search` tasks are played once to find up to `pilot_tasks` failures that lack the
            capability, and half as many tasks that do not need it.
        folder: Of the sampler.

    Raises:
        Unavailable: The train extra is not installed, or so many episodes broke that nothing can be said.
    """
    require_extra("torch", "train", "the comparison of a hint")
    from trace_assets.training.grpo import calm
    from trace_assets.training.sampler import open_sampler

    with calm(), open_sampler(base_dir, section, folder) as policy:
        return compare(live, policy, label, words, section)


def compare(
    live: Target,
    policy: Policy,
    label: Callable[[Trajectory], LabelValue],
    words: Words,
    section: Training,
) -> Hinted:
    """Find tasks, and play them under both wordings with a policy that is open; see `run_hint_gate`."""

    def player(who: Policy) -> Player:
        return Player(
            live,
            who,
            seed=section.seed,
            max_turns=section.max_turns,
            concurrency=section.concurrency,
        )

    searched = list(live.tasks("discovery"))[: section.pilot_search]
    with player(policy) as plain:
        first = [rollout.trajectory for rollout in plain.play(searched, "search of a hint")]
    lacking: list[Task] = []
    others: list[Task] = []
    for task, episode in zip(searched, first, strict=True):
        if is_broken(episode):
            continue
        value = label(episode)
        if value == "LACKING" and not episode.success:
            lacking.append(task)
        elif value == "NA":
            others.append(task)
    lacking, others = lacking[: section.pilot_tasks], others[: section.pilot_tasks // 2]
    if len(lacking) < FEWEST:
        return Hinted((0.0,) * len(lacking), (0.0,) * len(lacking), rollouts=len(searched))
    tasks = [*lacking, *others]
    rates = []
    for text in (words.hint, words.placebo):
        with player(AdvisedPolicy(policy, text, words.place)) as told:
            rates.append(_rates(told.play(tasks * TRIALS, "trials of a hint")))
    judged = ~np.isnan(rates[0]) & ~np.isnan(rates[1])
    of_lacking = np.arange(len(tasks)) < len(lacking)
    hint, placebo = (tuple(rate[judged & of_lacking].tolist()) for rate in rates)
    control = [tuple(rate[judged & ~of_lacking].tolist()) for rate in rates]
    return Hinted(hint, placebo, control[0], control[1], len(searched) + 2 * TRIALS * len(tasks))


def policy_sentence(policy: str, hint: str, about: Sequence[str]) -> str:
    """Return the sentence of a policy that is nearest in length to a hint and speaks of something else.

    Args:
        policy: The rules that the agent is given in words.
        hint: What it shall be as long as.
        about: Words that the hint is about; a sentence with none of them is preferred.

    >>> rules = "Be kind. Look up each order before a refund. Close every talk with a short and plain word."
    >>> policy_sentence(rules, "Look up the order before you touch it, always.", ["order", "refund"])
    'Close every talk with a short and plain word.'
    """
    sentences = [one.strip(" -*\t") for one in re.split(r"(?<=[.!?])\s+|\n+", policy)]
    sentences = [one for one in sentences if len(one.split()) > 1] or ["Thank you for your work today."]
    named = {word.lower() for word in about}

    def cost(sentence: str) -> tuple[int, int]:
        said = set(re.findall(r"\w+", sentence.lower()))
        return len(said & named), abs(len(sentence.split()) - len(hint.split()))

    return min(sentences, key=cost)


def _rates(played: Sequence[Rollout]) -> NDArray[np.float64]:
    """Return each task's pass rate over its trials; NaN where one broke."""
    passed = [np.nan if is_broken(one.trajectory) else float(bool(one.trajectory.success)) for one in played]
    return np.asarray(np.reshape(passed, (TRIALS, -1)).mean(axis=0), dtype=np.float64)


def _points(found: Gain) -> str:
    low, value, high = (100 * one for one in (found.low, found.value, found.high))
    return f"{value:+.0f} points [{low:+.0f}, {high:+.0f}], p = {found.p:.2g}"
