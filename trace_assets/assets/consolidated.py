"""The asset `consolidated`: the composed agent distilled into one adapter, for those who want no router."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from trace_assets.assets.adapter import CHECKS, parity_of, read_adapters
from trace_assets.assets.adapter_validation import opposed_members, play_apart, sums_of
from trace_assets.assets.asset import Figure, StageCheck, StageResult, asset
from trace_assets.assets.routing import examples, permitted, routes_of
from trace_assets.errors import require_extra
from trace_assets.evaluation.arms import BASE, CONSOLIDATED
from trace_assets.evaluation.non_inferiority import no_harm, own_skills
from trace_assets.records import Adapter, Evaluation, NoHarm, Task, TrainingPoint
from trace_assets.report.asset_report.training import adapter_report
from trace_assets.report.formatting import arm_name
from trace_assets.resources.contract import training_obstacle
from trace_assets.resources.policy import base_checkpoint, base_folder, enter, whole_adapter
from trace_assets.resources.sandbox import read_environment, seeds_fingerprint, training_target
from trace_assets.routing.router import sets_of, within
from trace_assets.store.content import text_version
from trace_assets.study import Study
from trace_assets.targets.protocol import Target
from trace_assets.training.joint import Teacher, train_consolidated
from trace_assets.training.plan import Job, OnPoint

PART = CONSOLIDATED
"""Where the rows lie."""


@asset(
    "consolidated",
    group="training",
    records=(Adapter, TrainingPoint, Evaluation, NoHarm),
    deps=[
        "routing",
        "adapter",
        "adapter_validation",
        "curriculum",
        "interference",
        "environment",
        "routing_trials",
        "base_model",
        "config/training",
        "config/routing",
        "config/evaluation",
        "config/targets",
    ],
    parts={Adapter: PART, TrainingPoint: PART, Evaluation: PART, NoHarm: PART},
    checks={
        "consolidated_trained": "The adapter that was asked for was trained.",
        "consolidated_no_harm": "It makes no skill worse that it was not taught for.",
        "adapter_parity": CHECKS["adapter_parity"],
    },
    blocking=["adapter_parity"],
    kinds=("pytorch", "huggingface", "docker"),
    pool="gpu",
)
def write_consolidated(study: Study, on_point: OnPoint | None = None) -> StageResult:
    """One adapter in place of the router and its sums: the composed agent distilled on-policy.

    It is played on the validation tasks like every other way to put adapters together.
    """
    choices = permitted(study).choices
    if why := _why_not(study, choices):
        version = _write(study, [], [], [], [])
        return StageResult(version, 0, checks=(StageCheck("consolidated_trained", None, why, "warning"),))
    require_extra("torch", "train", "training an adapter")
    told: list[TrainingPoint] = []

    def tell(point: TrainingPoint) -> None:
        told.append(point)
        if on_point is not None:
            on_point(point)

    adapter, curve = make_consolidated(study, choices, tell)
    rows, played = play_apart(study, {CONSOLIDATED: whole_adapter(study, adapter)}, CONSOLIDATED)
    harm = _harm(study, choices, rows)
    parity = parity_of(study, adapter)
    said = (
        f"{adapter.validation_before:.0%} -> {adapter.validation_after:.0%} of {adapter.validation_n} "
        f"held-out episodes of the target and all environments, {adapter.rollouts:,} rollouts; reverse KL "
        f"to the composed agent {_loss(curve[0])} -> {_loss(curve[-1])} nats a token"
    )
    figures: dict[str, Figure] = {
        "validation_before": adapter.validation_before,
        "validation_after": adapter.validation_after,
        "n": adapter.validation_n,
        "harmful": sum(row.verdict == "harmful" for row in harm),
    }
    unharmed = not any(row.verdict == "harmful" for row in harm)
    return StageResult(
        _write(study, [adapter], curve, rows, harm),
        1,
        figures,
        pages=adapter_report(adapter, curve, arm_name(CONSOLIDATED)).pages,
        checks=(
            StageCheck("consolidated_trained", True, f"{said}."),
            StageCheck(
                "consolidated_no_harm", unharmed, f"{'; '.join(row.reason for row in harm)}.", "warning"
            ),
            StageCheck("adapter_parity", parity.problem is None, parity.sentence),
        ),
        spent={("rollouts", "episodes"): float(len(played) + (adapter.rollouts if told else 0))},
    )


def _loss(point: TrainingPoint) -> str:
    return "unknown" if point.loss is None else f"{point.loss:.3f}"


def _why_not(study: Study, choices: list[str]) -> str:
    if CONSOLIDATED not in study.settings.training.single_arms:
        return "training.single_arms does not name it."
    if not study.settings.evaluation.compose:
        return "evaluation.compose is off: no agent is composed that could teach."
    if len(choices) < 2:
        return f"{len(choices)} of two adapters or more may be chosen by a router: nothing is composed."
    for name in choices:
        if obstacle := training_obstacle(study, read_environment(study, name).target):
            return f"{obstacle}."
    return ""


def make_consolidated(
    study: Study, choices: list[str], on_point: OnPoint
) -> tuple[Adapter, list[TrainingPoint]]:
    """Distil the composed agent into an adapter's folder, or read it there; no table is written.

    Args:
        study: The study.
        choices: The adapters that a router may choose.
        on_point: Told of each iteration as it is made.
    """
    base, section = base_checkpoint(study), study.settings.training
    environments = {name: read_environment(study, name) for name in choices}
    ids = [environments[name].environment_id for name in choices]
    with ExitStack() as stack:
        targets: dict[str, Target] = {
            name: stack.enter_context(training_target(study, environments[name])) for name in choices
        }
        teacher = teacher_of(study, targets)
        folder = _folder(study, ids, teacher)
        job = Job(
            base_dir=base_folder(study),
            base_id=base.base_id,
            section=section,
            folder=folder,
            environment_id=text_version(study.target.version, *sorted(ids)),
            path=study.home.relative(folder),
            on_point=on_point,
        )
        made = train_consolidated(study.target, list(targets.values()), lambda _: teacher, job)
    enter(study, folder)
    return made


def teacher_of(study: Study, environments: Mapping[str, Target]) -> Teacher:
    """Return who acts where: on a task of the target the router's set, as its exact sum.

    In an environment the adapter that was trained there acts: its tasks say nothing to route them by before
    they are begun.

    Args:
        study: The study, with a fitted router.
        environments: The adapters that a router may choose, and where each was trained.
    """
    choices = list(environments)
    own = {one.name: one for one in read_adapters(study)}
    folders: dict[str, Path] = {name: whole_adapter(study, own[name]) for name in choices}
    routes = routes_of(study, list(study.target.tasks("discovery")))
    may = permitted(study)
    wanted = sets_of(routes, study.settings.routing.unneeded_cost, may.rule.cost)
    allowed = [one for one in may.sets if not opposed_members(study, one)]
    # The teacher acts in the trainer, which takes any rank.
    sums, _ = sums_of(study, allowed, None, may.rule.scale)
    sent = {task: within(members, sums, may.alone) for task, members in wanted.items()}
    sent |= {task.task_id: name for name, one in environments.items() for task in one.tasks("discovery")}
    return Teacher(sent, {**folders, **sums})


def _folder(study: Study, environment_ids: list[str], teacher: Teacher) -> Path:
    section, base = study.settings.training, base_checkpoint(study).base_id
    seeds = [seeds_fingerprint(study, one) for one in environment_ids]
    key = text_version(
        study.target.version, *environment_ids, base, section.recipe_version(), teacher.version, *seeds
    )
    return study.home.models / "adapters" / f"{CONSOLIDATED}-{key}"


def _harm(study: Study, choices: list[str], rows: list[Evaluation]) -> list[NoHarm]:
    """Compare it with the base model on the skills that it was taught, and on the others."""
    discovery = [task for task in study.store.read(Task) if task.split == "discovery"]
    own = own_skills(examples(study, choices), discovery)
    base = [row for row in study.store.read(Evaluation, "validation") if row.arm == BASE]
    skills = {CONSOLIDATED: frozenset().union(*own.values())}
    return no_harm([*base, *rows], skills, [CONSOLIDATED], resamples=study.settings.evaluation.resamples)


def _write(
    study: Study,
    adapters: list[Adapter],
    curve: list[TrainingPoint],
    rows: list[Evaluation],
    harm: list[NoHarm],
) -> str:
    study.store.write(curve, TrainingPoint, PART)
    return text_version(
        study.store.write(adapters, Adapter, PART),
        study.store.write(rows, Evaluation, PART),
        study.store.write(harm, NoHarm, PART),
    )
