"""One adapter for several capabilities: in all environments at once, one after another, or where they meet.

What adapters that act together are compared with: it needs no router and no sum, and one capability may undo
what another has taught. Beside them the one that acts in their sum alone: what was learned apart was never
seen together, and in a sum one adapter may keep the others from acting. It is trained on top of the sum.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel

from trace_assets.errors import InputError
from trace_assets.records import NO_ADAPTER, Adapter, TrainingPoint
from trace_assets.routing.router import JOINING
from trace_assets.settings import Training
from trace_assets.store.content import text_version
from trace_assets.store.files import write_text
from trace_assets.targets.protocol import Target
from trace_assets.targets.timing import Mixture
from trace_assets.training.checkpoints import adapter_id
from trace_assets.training.plan import Job

JOINT = "joint"
SEQUENTIAL = "sequential"
PHASES = "phases"
"""Folder beside a sequence's last adapter, with those that it went through."""


def train_joint(environments: Mapping[str, Target], job: Job) -> tuple[Adapter, list[TrainingPoint]]:
    """Train one adapter in several environments at once: each iteration plays as many tasks of each.

    Args:
        environments: Capability to its environment.
        job: Its rollouts are those of all environments together.

    Returns:
        The adapter, whose figures are over held-out tasks of all environments, and the curve.

    Raises:
        InputError: There are fewer than two environments, or as `train_adapter`.
        Unavailable: As `train_adapter`.
    """
    from trace_assets.training.grpo import train_adapter

    if len(environments) < 2:
        raise InputError(f"one adapter for several environments takes two or more, not {len(environments)}.")
    every = Mixture(JOINT, [environments[name] for name in sorted(environments)])
    return train_adapter(JOINT, "joint", every, job)


def train_sequential(
    environments: Mapping[str, Target], job: Job, environment_ids: Mapping[str, str] | None = None
) -> tuple[Adapter, list[TrainingPoint]]:
    """Train one adapter in one environment after another, each from where the one before it ended.

    Args:
        environments: Capability to its environment, in the order in which they are gone through.
        job: Its rollouts are divided equally; the adapters on the way lie beside its folder.
        environment_ids: Capability to what stands for its environment in the record; None takes versions.

    Returns:
        The last adapter, whose figures are over held-out tasks of the last environment alone, with the
        rollouts of the whole sequence; and the curve through all of it.

    Raises:
        InputError: There are fewer than two environments, or as `train_adapter`.
        Unavailable: As `train_adapter`.
    """
    from trace_assets.training.grpo import train_adapter

    if len(environments) < 2:
        raise InputError(f"a sequence of environments takes two or more, not {len(environments)}.")
    folder, batch = job.folder, job.batch
    each = job.rollouts // len(environments) // batch * batch
    last, curve, start = None, list[TrainingPoint](), None
    for place, (name, target) in enumerate(environments.items(), 1):
        ends = place == len(environments)
        gone, spent = len(curve), sum(point.rollouts or batch for point in curve)

        def tell(point: TrainingPoint, gone: int = gone) -> None:
            if job.on_point:
                job.on_point(point.model_copy(update={"iteration": gone + point.iteration}))

        where = folder if ends else folder.parent / f"{folder.name}-{PHASES}" / f"{place}"
        phase = replace(
            job,
            folder=where,
            rollout_budget=job.rollouts - spent if ends else each,
            environment_id=(environment_ids or {}).get(name),
            path=job.path if ends else None,
            on_point=tell,
        )
        last, own = train_adapter(SEQUENTIAL, "sequential", target, phase, start=start)
        curve += [point.model_copy(update={"iteration": gone + point.iteration}) for point in own]
        start = where
    assert last is not None
    summed = {
        "iterations": len(curve),
        "best_iteration": len(curve) - last.iterations + last.best_iteration,
        "rollouts": sum(point.rollouts or batch for point in curve),
        "environment_id": text_version(*environment_ids.values()) if environment_ids else None,
    }
    return last.model_copy(update=summed), curve


PROBED = 16
"""Tasks of each environment that are played before the joining adapter is trained, each by a whole group."""
SHARES = 4
"""Weight of the environment in which most groups are live; the others' are in proportion, and 0 drops one."""
SCALES = (1.0, 0.75, 0.5)
"""What the sum may be multiplied by: adapters that each went all the way alone overshoot together."""


def train_joining(
    environments: Mapping[str, Target],
    needs_several: Collection[str],
    members: Mapping[str, Path],
    job: Job,
    models: Path,
) -> tuple[Adapter, list[TrainingPoint]]:
    """Train an adapter on top of the sum of others, where the sum still has something to learn.

    The members stay as they are: they are part of the model that is trained on, so this adapter is exactly
    what is added to them. They act at the scale at which they pass most in the environments that need
    several. An environment's share of the tasks is in proportion to its live groups under the sum: in one
    that the sum has solved there is nothing to learn.

    Args:
        environments: Capability to its environment.
        needs_several: Those of them in which the scale is chosen; all of them where there is none.
        members: Adapter to its folder, all those that it is added to.
        job: Its model is the members' base model; its rollouts are those in all, with those that decide the
            shares.
        models: Holds merged models and sums.

    Returns:
        The adapter, whose figure before training is that of the members' sum; and the curve.

    Raises:
        InputError: The members cannot be added up, or as `train_adapter`.
        Unavailable: As `train_adapter`.
    """
    from trace_assets.training.grpo import train_adapter

    start = _start(environments, needs_several, members, job, models)
    target = Mixture(JOINING, [environments[name] for name in start.shares], list(start.shares.values()))
    left = (job.rollouts - start.rollouts) // job.batch * job.batch
    agent = _agent(start.scale, members, job, models)
    adapter, curve = train_adapter(
        JOINING, "joining", target, replace(job, base_dir=agent, rollout_budget=left)
    )
    told = {"rollouts": adapter.rollouts + start.rollouts, "scale": start.scale}
    return adapter.model_copy(update=told), curve


class Start(BaseModel):
    """Where the joining adapter begins: at which scale of the others, with which tasks.

    Attributes:
        scale: Of the sum.
        shares: Environment to its tasks in a turn; those that are left out are solved.
        rollouts: Episodes that were played to find out.
    """

    scale: float
    shares: dict[str, int]
    rollouts: int


def _agent(scale: float, members: Mapping[str, Path], job: Job, models: Path) -> Path:
    from trace_assets.training.composition import merge_agent

    base_dir = Path(job.base_dir)
    return merge_agent(base_dir, job.base_id, members, models / "agents", models / "sums", scale)[1]


def _start(
    environments: Mapping[str, Target],
    needs_several: Collection[str],
    members: Mapping[str, Path],
    job: Job,
    models: Path,
) -> Start:
    """Return where to begin, as it was found before, or by playing."""
    section, file = job.section, models / "agents" / f"{job.folder.name}.json"
    if file.is_file():
        return Start.model_validate_json(file.read_text(encoding="utf-8"))
    agents = {scale: _agent(scale, members, job, models) for scale in SCALES}
    tells = sorted(needs_several) or sorted(environments)
    probes = {
        scale: {one: _probed(environments[one], agent, section) for one in tells}
        for scale, agent in agents.items()
    }
    scale = max(SCALES, key=lambda one: sum(probe.passed for probe in probes[one].values()))
    others = {
        one: _probed(environments[one], agents[scale], section)
        for one in sorted(set(environments) - {*tells})
    }
    found = probes[scale] | others
    most = max(probe.live for probe in found.values())
    shares = {one: round(SHARES * probe.live / most) for one, probe in sorted(found.items()) if most}
    start = Start(
        scale=scale,
        shares={one: share for one, share in shares.items() if share} or dict.fromkeys(sorted(found), 1),
        rollouts=sum(probe.played for own in (*probes.values(), others) for probe in own.values()),
    )
    write_text(file, start.model_dump_json())
    return start


class _Probe(NamedTuple):
    """Some groups of an environment: episodes played, share that passed, share of groups with variance."""

    played: int
    passed: float
    live: float


def _probed(target: Target, base_dir: Path, section: Training) -> _Probe:
    """Play the first tasks of an environment with a model, a group each."""
    from trace_assets.policies.transformers_engine import TransformersPolicy
    from trace_assets.training.episodes import Player, is_dead, to_row
    from trace_assets.training.grpo import calm

    policy = TransformersPolicy(
        base_dir, temperature=section.temperature, max_new_tokens=section.max_new_tokens, seed=section.seed
    )
    size, tasks = section.group_size, target.tasks("discovery")[:PROBED]
    with (
        calm(),
        Player(
            target,
            policy,
            seed=section.seed,
            max_turns=section.max_turns,
            concurrency=section.concurrency,
        ) as player,
    ):
        played = player.play([task for task in tasks for _ in range(size)], "what the sum does not do yet")
    rows = [to_row(one.trajectory, one.tokens, 0) for one in played]
    groups = [rows[start : start + size] for start in range(0, len(rows), size)]
    return _Probe(
        len(rows),
        sum(bool(row.success) for row in rows) / len(rows),
        sum(not is_dead(group) for group in groups) / len(groups),
    )


# One adapter in place of a router and its sums: what they do together, distilled on-policy.
#
# The student plays episodes on the target's discovery tasks and in the synthetic environments. At each token
# that it wrote it learns the distribution of the agent that the router would have sent the task to (the base
# model, an adapter, or the exact sum of several), or in an environment of the adapter that was trained there.
# No reward is learned from, so what the agent does not do is not taught either; rewards only choose the
# checkpoint.
#
# Importing this module loads no torch.


CONSOLIDATED = "consolidated"
GROUP = 2
"""Episodes of a task in an iteration: nothing is compared within a group, so other tasks teach more."""


@dataclass(frozen=True)
class Teacher:
    """An agent that a router and its choices make up.

    Attributes:
        choices: Task id to who acts on the task: `none` for the base model, or one of `folders`.
        folders: Choice to the PEFT folder of the adapter, or of the exact sum of several.
    """

    choices: Mapping[str, str]
    folders: Mapping[str, Path]

    @property
    def used(self) -> dict[str, Path]:
        """The folders that some task is sent to.

        Raises:
            InputError: A task is sent to a choice without a folder.
        """
        asked = set(self.choices.values()) - {NO_ADAPTER}
        if missing := sorted(asked - set(self.folders)):
            raise InputError(f"the agent to distil sends tasks to {', '.join(missing)}, which has no folder.")
        return {name: self.folders[name] for name in sorted(asked)}

    @property
    def version(self) -> str:
        """Content hash of who acts where."""
        sent = (f"{task}={choice}" for task, choice in sorted(self.choices.items()))
        return text_version(*sent, *(f"{name}:{adapter_id(path)}" for name, path in self.used.items()))


def lessons(target: Target, environments: Sequence[Target]) -> Target:
    """Return what is played: the target's own tasks, and as many of the environments' in turn.

    Args:
        target: Where the agent is used; its discovery tasks are played.
        environments: The capabilities' environments, at least one.
    """
    return Mixture(CONSOLIDATED, [target, Mixture("environments", environments)])


def distilled_section(section: Training) -> Training:
    """Return the settings of the distillation: as many episodes an iteration, of more tasks."""
    batch = section.tasks_per_iteration * section.group_size
    if batch % GROUP:
        return section.unaided().model_copy(update={"redraws": 0})
    return section.unaided().model_copy(
        update={"tasks_per_iteration": batch // GROUP, "group_size": GROUP, "redraws": 0}
    )


def train_consolidated(
    target: Target,
    environments: Sequence[Target],
    teacher: Callable[[Target], Teacher],
    job: Job,
) -> tuple[Adapter, list[TrainingPoint]]:
    """Distil an agent into one adapter, at the rollouts of one capability's adapter.

    Reverse KL to the teacher in each token's whole vocabulary, on the student's own episodes (Agarwal et al.
    2024, arXiv 2306.13649), by TRL's distillation trainer.

    Args:
        target: Where the agent is used.
        environments: The capabilities' environments.
        teacher: Is told what is played, and says who acts where.
        job: The model, the settings, where the adapter goes. The loss of its points is the reverse KL, in
            nats a token.

    Returns:
        The adapter, whose figures are over held-out tasks of the target and of all environments, and the
        curve.

    Raises:
        InputError: There is no environment, a task has no teacher, or as `train_adapter`.
        Unavailable: As `train_adapter`.
    """
    from trace_assets.training.grpo import train_adapter

    played = lessons(target, environments)
    job = replace(job, section=distilled_section(job.section))
    return train_adapter(CONSOLIDATED, "consolidated", played, job, teacher=teacher(played))
