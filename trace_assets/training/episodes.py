"""Episodes for training: played through the target protocol, turned into rows of token ids."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType

from trace_assets.errors import Unavailable
from trace_assets.policies.protocol import Policy, TokenTrace
from trace_assets.records import Task, Trajectory
from trace_assets.rollouts.episode import Rollout, Trial
from trace_assets.rollouts.runner import roll_out
from trace_assets.targets.protocol import Target
from trace_assets.targets.timing import Prepares, Reading, reading_of
from trace_assets.training.distributed import ALONE, ProcessGroup
from trace_assets.training.plan import Plan

MAX_FAULTS = 0.5
"""Share of broken episodes, after a second try, at which a batch says nothing and training stops."""


@dataclass(frozen=True)
class Row:
    """One episode as the trainer needs it.

    Attributes:
        prompt_ids: What the policy read before its first token.
        completion_ids: From its first token to its last one, with what it read in between.
        logprobs: Same length; the sampler's log-probabilities, 0 where it only read.
        own: Same length; 1 where the policy itself wrote the token.
        reward: None for an episode that broke: it is no answer, so it is neither 0 nor anything else.
        success: None likewise.
    """

    prompt_ids: list[int]
    completion_ids: list[int]
    logprobs: list[float]
    own: list[int]
    reward: float | None
    success: bool | None


class Player:
    """Plays batches of episodes of one target with one policy, in one event loop for its whole life.

    An episode is decided by its seed, its task and the weights: who plays it makes no difference.

    Args:
        target: The environment.
        policy: Who acts; it must fill `Conversation.tokens`.
        seed: Feeds every episode's seed, together with the batch's name and the row.
        max_turns: Assistant messages an episode.
        concurrency: Episodes in flight at once.
        adapter: Name of the adapter that acts; None for what acts without one.
        process_group: Those who play together: each is given all tasks, plays its share, and has the
            episodes of all in its hands afterwards.
    """

    def __init__(
        self,
        target: Target,
        policy: Policy,
        *,
        seed: int,
        max_turns: int,
        concurrency: int,
        adapter: str | None = None,
        process_group: ProcessGroup = ALONE,
    ) -> None:
        self.target, self.policy, self.adapter, self.process_group = target, policy, adapter, process_group
        self.seed, self.max_turns, self.concurrency = seed, max_turns, concurrency
        self._loop = asyncio.Runner()

    def __enter__(self) -> Player:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.close()

    def play(self, tasks: Sequence[Task], batch: str) -> list[Rollout]:
        """Play one episode of every task given; those that break are drawn once more with another seed.

        Args:
            tasks: May name a task several times: each is an episode with a seed of its own.
            batch: Name of the batch, such as `iteration 3`: the same name gives the same seeds.

        Raises:
            Unavailable: More than half of the episodes broke twice.
        """
        rollouts = self._once(tasks, range(len(tasks)), batch)
        broken = [row for row, rollout in enumerate(rollouts) if is_broken(rollout.trajectory)]
        if broken:
            again = self._once([tasks[row] for row in broken], broken, f"{batch}, second try")
            for row, rollout in zip(broken, again, strict=True):
                rollouts[row] = rollout
            broken = [row for row in broken if is_broken(rollouts[row].trajectory)]
        if len(broken) > MAX_FAULTS * len(tasks):
            error = rollouts[broken[0]].trajectory.error or "no reason given"
            error = error.rstrip(".")
            raise Unavailable(
                f"{len(broken)} of {len(tasks)} episodes of {self.target.name} broke in {batch} ({error}): "
                "mend what broke them and run again, finished iterations are kept."
            )
        return rollouts

    def prepare(self, *batches: Sequence[Task]) -> None:
        """Have the episodes of the next batches begun in the background, where the target can."""
        if isinstance(self.target, Prepares):
            self.target.prepare(
                [tasks[row] for tasks in batches for row in self.process_group.share(len(tasks))]
            )

    def reading(self) -> Reading | None:
        """Return what this process's calls of the target have cost so far; None where it does not know."""
        return reading_of(self.target)

    def _once(self, tasks: Sequence[Task], rows: Sequence[int], batch: str) -> list[Rollout]:
        trials = [
            Trial(task=task, trial=row, seed=episode_seed(self.seed, batch, row), adapter=self.adapter)
            for task, row in zip(tasks, rows, strict=True)
        ]
        own = [trials[position] for position in self.process_group.share(len(trials))]
        played = self.process_group.each(
            lambda: self._loop.run(
                roll_out(
                    self.target,
                    own,
                    self.policy,
                    max_turns=self.max_turns,
                    concurrency=self.concurrency,
                    fault_share=1.0,
                )
            )
        )
        return [rollout for part in played for rollout in part]


def is_broken(trajectory: Trajectory) -> bool:
    """Say whether an episode has no reward because something other than the agent failed."""
    return trajectory.reward is None or trajectory.success is None


def episode_seed(seed: int, batch: str, row: int) -> int:
    """Return a seed below 2^31 that depends on all three.

    >>> episode_seed(0, "iteration 1", 0) == episode_seed(0, "iteration 1", 0)
    True
    >>> episode_seed(0, "iteration 1", 0) == episode_seed(0, "iteration 2", 0)
    False
    """
    digest = hashlib.sha256(f"{seed}/{batch}/{row}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


def to_row(trajectory: Trajectory, tokens: TokenTrace | None, filler: int) -> Row:
    """Cut an episode's tokens into prompt and completion.

    The completion begins at the first token that the policy wrote and ends at its last one: what it was told
    afterwards conditions nothing. A broken episode keeps no token of its own, so that it has no part in the
    loss, nor in its token count.

    Args:
        trajectory: The episode.
        tokens: The ids that the policy read and wrote.
        filler: Token id that stands for an episode without tokens.

    >>> from trace_assets.records import Trajectory
    >>> episode = Trajectory(trajectory_id="a", task_id="t", target="x", task_batch="b", policy="p",
    ...                      success=True, reward=1.0)
    >>> trace = TokenTrace([5, 6, 7, 8, 9], [0, 1, 0, 1, 0], [0.0, -1.0, 0.0, -2.0, 0.0])
    >>> row = to_row(episode, trace, 0)
    >>> row.prompt_ids, row.completion_ids, row.own, row.logprobs
    ([5], [6, 7, 8], [1, 0, 1], [-1.0, 0.0, -2.0])
    """
    broken = is_broken(trajectory)
    reward, success = (None, None) if broken else (trajectory.reward, trajectory.success)
    if tokens is None or 1 not in tokens.mask:
        return Row([filler], [filler], [0.0], [0], reward, success)
    first = tokens.mask.index(1)
    end = len(tokens.mask) - tokens.mask[::-1].index(1)
    own = [0] * (end - first) if broken else tokens.mask[first:end]
    return Row(
        prompt_ids=tokens.ids[:first] or [filler],
        completion_ids=tokens.ids[first:end],
        logprobs=tokens.logprobs[first:end],
        own=own,
        reward=reward,
        success=success,
    )


# Other groups in the place of those without variance, paid from the run's own rollouts.


@dataclass(frozen=True)
class Redrawn:
    """An iteration's batch after dead groups were drawn anew.

    Attributes:
        rows: Group after group, as many as before; a dead group stays where no live one was found for it.
        drawn: Groups that were played besides.
        live: Share of the groups in `rows` that have variance.
    """

    rows: list[Row]
    drawn: int
    live: float


def is_dead(rows: Sequence[Row]) -> bool:
    """Say whether a group carries no gradient: its judged episodes have one reward, or fewer than two are."""
    return len({row.reward for row in rows if row.reward is not None}) < 2


def redraw(
    rows: Sequence[Row],
    plan: Plan,
    play: Callable[[Sequence[Task], str], list[Row]],
    *,
    rounds: int,
    affordable: int,
    seed: str,
) -> Redrawn:
    """Play other tasks until every group carries signal, the rounds are over or the rollouts are spent.

    DAPO's dynamic sampling (Yu et al. 2025, arXiv 2503.14476, section 3.2), except that it is bounded.

    Args:
        rows: What was drawn first, group after group.
        plan: Group size, and the pool to draw from, evenly and by the seed.
        play: Plays tasks, each a group of its own already repeated, under a batch's name.
        rounds: How often the groups still dead are drawn anew.
        affordable: Groups that may be played besides.
        seed: Decides which tasks are drawn; another one each iteration.
    """
    size = plan.group_size
    groups = [list(rows[start : start + size]) for start in range(0, len(rows), size)]
    order, drawn = random.Random(seed), 0
    for number in range(1, rounds + 1):
        dead = [index for index, group in enumerate(groups) if is_dead(group)]
        wanted = min(len(dead), affordable - drawn)
        if wanted <= 0:
            break
        tasks = order.choices(plan.pool, k=wanted)
        found = play([task for task in tasks for _ in range(size)], f"redraw {number}")
        drawn += wanted
        fresh = [found[start : start + size] for start in range(0, len(found), size)]
        for index, group in zip(dead, (one for one in fresh if not is_dead(one)), strict=False):
            groups[index] = group
    live = sum(not is_dead(group) for group in groups) / len(groups)
    return Redrawn([row for group in groups for row in group], drawn, live)
