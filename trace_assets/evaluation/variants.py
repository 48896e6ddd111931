"""Episodes of the variants, the base model and each adapter, on the same tasks, trials and seeds."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from trace_assets.policies.protocol import Policy
from trace_assets.records import NO_ADAPTER, Task, Trajectory
from trace_assets.rollouts.episode import Trial
from trace_assets.rollouts.parallel import run_parallel
from trace_assets.rollouts.runner import Journal, closing_policy, run_rollouts
from trace_assets.settings import EvaluationSection
from trace_assets.targets.protocol import Target

PolicyMaker = Callable[[], Policy]
"""Makes who acts in all variants, told apart by `Conversation.adapter`. Called once a process."""


@dataclass(frozen=True)
class Limits:
    """What an episode may use.

    Attributes:
        max_turns: Assistant messages an episode.
        max_new_tokens: Tokens a message.
        concurrency: Episodes in the air, a process.
    """

    max_turns: int = 12
    max_new_tokens: int = 64
    concurrency: int = 256


def transformers_policy(
    base_dir: Path, adapters: Mapping[str, Path], section: EvaluationSection, limits: Limits
) -> Policy:
    """Make the batched transformers engine with all adapters."""
    from trace_assets.policies.transformers_engine import TransformersPolicy

    policy: Policy = TransformersPolicy(
        base_dir,
        adapters=adapters,
        temperature=section.temperature,
        max_new_tokens=limits.max_new_tokens,
        seed=section.seed,
        dtype=section.dtype,
    )
    return policy


def trial_seed(seed: int, task_id: str, trial: int) -> int:
    """Return the seed of a trial: the same for every variant, so that arms are paired.

    >>> trial_seed(0, "a", 1) == trial_seed(0, "a", 1) != trial_seed(0, "a", 2)
    True
    """
    digest = hashlib.sha256(f"{seed}/{task_id}/{trial}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


def play_variants(
    target: Target,
    tasks: Sequence[Task],
    variants: Sequence[str],
    make_policy: PolicyMaker,
    section: EvaluationSection,
    journal_dir: Path,
    processes: int = 2,
    limits: Limits | None = None,
    only: Mapping[str, Collection[str]] | None = None,
) -> dict[str, list[Trajectory]]:
    """Play every variant on every task, once a trial.

    Args:
        target: Where the tasks live. With a target or policy maker that cannot be sent to another process
            (one that holds a connection) the work is done in this one.
        tasks: What to play.
        variants: `none` and names of adapters.
        make_policy: Makes who acts.
        section: Trials a task and seed.
        journal_dir: Finished episodes are kept here, so that the same call made again plays only what is
            missing. The caller removes it once the result is stored.
        processes: Processes that share the trials.
        limits: What an episode may use.
        only: Variant -> ids of the tasks that it is played on; one that is not named is played on all.

    Returns:
        Variant -> trajectories by task and trial. Faults are among them, as faults.

    Raises:
        InputError: A variant is not known to the policy.
        Unavailable: Most episodes break, or a process died; what was finished is in the journal.
    """
    limits = limits or Limits()
    # One variant after the other, so that most of a batch shares its weights.
    trials = [
        Trial(
            task=task,
            trial=trial,
            seed=trial_seed(section.seed, task.task_id, trial),
            adapter=None if variant == NO_ADAPTER else variant,
        )
        for variant in variants
        for task in tasks
        if variant not in (only or {}) or task.task_id in (only or {})[variant]
        for trial in range(section.trials)
    ]
    make = partial(_open, target, make_policy)
    with Journal(journal_dir) as journal:
        if processes > 1 and _can_travel(make):
            rows = run_parallel(
                make,
                trials,
                processes=processes,
                max_turns=limits.max_turns,
                concurrency=limits.concurrency,
                journal=journal,
                title="evaluating",
            )
        else:
            with closing_policy(make_policy()) as policy:
                rows = run_rollouts(
                    target,
                    trials,
                    policy,
                    max_turns=limits.max_turns,
                    concurrency=limits.concurrency,
                    journal=journal,
                    title="evaluating",
                )
    played: dict[str, list[Trajectory]] = {variant: [] for variant in variants}
    for row in sorted(rows, key=lambda row: (row.task_id, row.trial)):
        played[row.adapter or NO_ADAPTER].append(row)
    return played


def _open(target: Target, make_policy: PolicyMaker) -> tuple[Target, Policy]:
    return target, make_policy()


def _can_travel(make: Callable[[], tuple[Target, Policy]]) -> bool:
    try:
        pickle.dumps(make)
    except (pickle.PicklingError, TypeError, AttributeError):
        return False
    return True
