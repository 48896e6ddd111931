"""One adapter in place of a router and its sums: what they do together, distilled on-policy.

The student plays episodes on the target's discovery tasks and in the synthetic environments. At each token
that it wrote it learns the distribution of the agent that the router would have sent the task to (the base
model, an adapter, or the exact sum of several), or in an environment of the adapter that was trained there.
No reward is learned from, so what the agent does not do is not taught either; rewards only choose the
checkpoint.

Importing this module loads no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from trace_assets.errors import InputError
from trace_assets.records import NO_ADAPTER, Adapter, TrainingPoint
from trace_assets.settings import Training
from trace_assets.store.content import text_version
from trace_assets.targets.mixture import Mixture
from trace_assets.targets.protocol import Target
from trace_assets.training.checkpoints import adapter_id
from trace_assets.training.plan import Job

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
