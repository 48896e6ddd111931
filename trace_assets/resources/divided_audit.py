"""An audit's episodes of the base policy, divided over all who help this process."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass

from trace_assets.environments.audit.check import MAX_TURNS, Elsewhere, audited_target
from trace_assets.errors import Unavailable
from trace_assets.records import Environment, Trajectory
from trace_assets.resources.policy import open_policy
from trace_assets.resources.sandbox import sandbox_pool
from trace_assets.rollouts.episode import Trial
from trace_assets.rollouts.parallel import divide, team
from trace_assets.rollouts.runner import ENOUGH_FAULTS, closing_policy, run_rollouts
from trace_assets.sandbox.reward_verification import Drawn
from trace_assets.study import Study
from trace_assets.targets.sandboxed import SandboxedTarget
from trace_assets.targets.seeds import SeedPermutation


@dataclass(frozen=True)
class Shard:
    """What one shard came to.

    Attributes:
        played: Its trajectories.
        drawn: Episodes that are to be played again: by who asked, so that all of them are counted together.
    """

    played: list[Trajectory]
    drawn: Drawn


def divided_rollouts(study: Study) -> Elsewhere | None:
    """Return what has others play an audit's episodes too; None where nobody does.

    A model of our own is one batch, and answers alike to the last bit only in batches of one shape: its
    episodes are played by the item alone.
    """
    if study.settings.rollouts.engine != "openai" or team() is None:
        return None
    return _divided


def _divided(target: SandboxedTarget, trials: Sequence[Trial]) -> list[Trajectory] | None:
    title = f"roll out on {target.environment.capability_id}"
    asked = (target.environment, target.permutation, target.version)
    shards = divide(play_audit_shard, trials, *asked, sandbox=True, title=title)
    if shards is None:
        return None
    for shard in shards:
        target.recomputation.take(shard.drawn)
    played = [trajectory for shard in shards for trajectory in shard.played]
    broken = [trajectory for trajectory in played if trajectory.fault is not None]
    if len(played) >= ENOUGH_FAULTS and len(broken) > len(played) / 2:  # a small shard does not say so
        raise Unavailable(
            f"{len(broken)} of {len(played)} trials broke in '{target.name}' (such as: {broken[0].error})."
        )
    return sorted(played, key=lambda trajectory: trajectory.trajectory_id)


def play_audit_shard(
    trials: Sequence[Trial], environment: Environment, permutation: SeedPermutation, version: str
) -> Shard:
    """Play a part of an audit's episodes by the study that this process's variables name.

    Args:
        trials: What to play.
        environment: The environment.
        permutation: What it is given for a seed.
        version: Of the target, where it was asked for.

    Raises:
        Unavailable: The sandbox here is another one, so that results would not be those of one audit.
    """
    study = Study.open()
    with sandbox_pool(study) as pool, closing_policy(open_policy(study)) as policy:
        target = audited_target(environment, pool, permutation, study.settings.synthesis)
        try:
            if target.version != version:
                raise Unavailable(
                    f"the sandbox of {socket.gethostname()} ({pool.isolation_level}) is not the one that the "
                    f"audit of '{environment.capability_id}' runs in; give all nodes that are started with "
                    "the resource `sandbox` the same one (`trace cluster check`)."
                )
            target.recomputation.keep()
            played = run_rollouts(target, trials, policy, max_turns=MAX_TURNS)
            return Shard(played, target.recomputation.kept())
        finally:
            target.close()
