"""The assets `interference`, which capabilities undo each other, and `joint_adapters`, one for them all."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from statistics import fmean

from trace_assets.assets.adapter import CHECKS, parity_of, read_adapters
from trace_assets.assets.asset import StageCheck, StageResult, asset
from trace_assets.assets.environment_audit import samples_of, taught
from trace_assets.environments.audit.battery import audit, verdict_of
from trace_assets.environments.writers.writer import write_together
from trace_assets.errors import InputError, require_extra
from trace_assets.evaluation.arms import JOINT, SEQUENTIAL, TOGETHER
from trace_assets.evaluation.non_inferiority import acceptance
from trace_assets.records import (
    Adapter,
    Capability,
    Environment,
    Interference,
    InterferencePart,
    TrainingPoint,
)
from trace_assets.report.asset_report.composition import interference_report
from trace_assets.report.asset_report.training import adapter_report
from trace_assets.report.data import shown_names
from trace_assets.report.formatting import arm_name
from trace_assets.resources.contract import read_contract, training_obstacle
from trace_assets.resources.policy import base_checkpoint, base_folder, enter, whole_adapter
from trace_assets.resources.sandbox import (
    keep_audited,
    permutation_for,
    read_environment,
    sandbox_pool,
    seeds_fingerprint,
    training_target,
)
from trace_assets.routing.router import JOINING
from trace_assets.store.content import text_version
from trace_assets.study import Study
from trace_assets.training.interference import measure, opposed_pairs, pairs_of, parts_of, unbranched
from trace_assets.training.joint import train_joining, train_joint, train_sequential
from trace_assets.training.plan import Job, OnPoint


@asset(
    "interference",
    group="training",
    records=(Interference, InterferencePart),
    deps=["curriculum", "environment", "base_model", "config/training"],
    checks={
        "capabilities_compatible": "No two capabilities' policy gradients are opposed: their adapters may "
        "act together.",
        "conditions_told_apart": "The base policy tells the conditions of each environment apart.",
    },
    kinds=("pytorch", "huggingface", "docker"),
    pool="gpu",
)
def write_interference(study: Study) -> StageResult:
    """The capabilities' policy gradients at the base policy, by condition: who would undo whom.

    Orthogonal ones can be added up; opposed ones are never composed, but routed or taught in one environment.
    """
    names = sorted(taught(study))
    off = "" if study.settings.training.interference else "training.interference is off."
    why = off or _why_not(study, names, ", so there is nothing to compare.")
    if why:
        version = _write_pairs(study, [], [])
        return StageResult(version, 0, checks=(StageCheck("capabilities_compatible", None, why, "warning"),))
    require_extra("torch", "train", "comparing policy gradients")
    with ExitStack() as stack:
        environments = {
            name: stack.enter_context(training_target(study, read_environment(study, name))) for name in names
        }
        measured = measure(environments, base_folder(study), study.settings.training)
    seed = study.settings.training.seed
    parts, pairs = parts_of(measured, seed), pairs_of(measured, seed=seed)
    verdicts = [row for row in pairs if not row.condition]
    opposed, flat = opposed_pairs(pairs), unbranched(pairs)
    shown = shown_names(study.store.read(Capability), [])
    asset_report = interference_report(pairs, parts, shown)
    return StageResult(
        _write_pairs(study, pairs, parts),
        len(verdicts),
        {
            "capabilities": len(names),
            "opposed": len(opposed),
            "n": sum(row.n_rollouts for row in parts),
        },
        pages=asset_report.pages,
        tables=asset_report.tables,
        checks=(
            StageCheck("capabilities_compatible", not opposed, _said(verdicts, shown), "warning"),
            StageCheck("conditions_told_apart", not flat, _told_apart(flat, shown), "warning"),
        ),
        spent={("rollouts", "episodes"): float(sum(row.n_rollouts for row in parts))},
    )


def _why_not(study: Study, names: list[str], alone: str) -> str:
    if len(names) < 2:
        return f"{len(names)} of two capabilities or more is taught{alone}"
    for name in names:
        if obstacle := training_obstacle(study, read_environment(study, name).target):
            return f"{obstacle}."
    return ""


def _said(verdicts: list[Interference], names: Mapping[str, str]) -> str:
    order = {"opposed": 0, "unclear": 1, "aligned": 2, "orthogonal": 3}
    return " ".join(
        f"{names.get(row.capability_id, row.capability_id)} and {names.get(row.other_id, row.other_id)}: "
        f"{row.reason}"
        for row in sorted(verdicts, key=lambda row: order[row.verdict])
    )


def _told_apart(flat: list[Interference], names: Mapping[str, str]) -> str:
    if not flat:
        return "no environment has two conditions whose gradients undo each other."
    return " ".join(
        f"{names.get(row.capability_id, row.capability_id)}: a step for '{row.condition}' undoes one for "
        f"'{row.other_condition}' (cosine {row.cosine:.2f}): the base policy does not tell them apart, so no "
        "budget teaches it; show it right solutions of both first."
        for row in flat
    )


def _write_pairs(study: Study, pairs: list[Interference], parts: list[InterferencePart]) -> str:
    return text_version(study.store.write(pairs, Interference), study.store.write(parts, InterferencePart))


def opposed(study: Study) -> dict[frozenset[str], str]:
    """Return every two capabilities whose adapters must not act together, and why."""
    return opposed_pairs(study.store.read(Interference))


PART = "joint_adapters"
"""Where the rows lie."""


PLACES = {
    JOINT: "all environments",
    SEQUENTIAL: "the last environment",
    TOGETHER: "the environment that asks for all of them at once",
    JOINING: "the environments in which the sum had something to learn (before: the sum)",
}
"""Kind to where its figures come from."""


def easiest_first(study: Study) -> list[str]:
    """Return the capabilities that are taught, those first that the base policy already does most often.

    A sequence forgets: what needs the others comes last. Where nothing was measured the order is by id.
    """
    passed: dict[str, list[float]] = {name: [] for name in taught(study)}
    for row in study.store.read(InterferencePart):
        if row.capability_id in passed and row.pass_rate is not None:
            passed[row.capability_id].append(row.pass_rate)
    return sorted(passed, key=lambda name: (-fmean(passed[name]) if passed[name] else 0.0, name))


@asset(
    "joint_adapters",
    group="training",
    records=(Adapter, TrainingPoint),
    deps=["adapter", "curriculum", "interference", "environment", "base_model", "config/training"],
    parts={Adapter: PART, TrainingPoint: PART},
    checks={
        "joint_trained": "Every adapter asked for was trained.",
        "adapter_parity": CHECKS["adapter_parity"],
    },
    blocking=["adapter_parity"],
    kinds=("pytorch", "huggingface", "docker"),
    pool="gpu",
)
def train_joint_adapters(study: Study, on_point: OnPoint | None = None) -> StageResult:
    """One adapter for all capabilities: trained in all environments at once, or in one after another.

    What adapters that act together are compared with, at as many rollouts as theirs in all. And the one that
    is trained on top of their sum, so that they act together at all.
    """
    names = easiest_first(study)
    off = "" if _asked(study) else "training.single_arms names none of them."
    why = off or _why_not(study, names, ": one adapter for all is that one's.")
    if why:
        version = _write(study, [], [])
        return StageResult(version, 0, checks=(StageCheck("joint_trained", None, why, "warning"),))
    require_extra("torch", "train", "training an adapter")
    trained, curve, fresh = [], list[TrainingPoint](), 0
    pages: dict[str, str] = {}
    problems, left_out = [], list[str]()
    together, why = environment_of_all(study) if {JOINING, TOGETHER} & {*_asked(study)} else (None, "")
    for kind in _asked(study):
        told: list[TrainingPoint] = []
        if kind == TOGETHER and together is None:
            left_out.append(f"together: {why}")
            continue
        if kind == JOINING:
            if apart := _not_joined(study):
                left_out.append(f"joining: {apart}")
                continue
            left_out += [f"joining, in the capabilities' own environments alone: {why}"] if why else []
        adapter, own = make_joint(
            study, kind, names, told.append if on_point is None else _both(told, on_point), together
        )
        trained.append(adapter)
        curve += own
        fresh += adapter.rollouts if told else 0
        asset_report = adapter_report(adapter, own, arm_name(kind))
        pages |= {f"{arm_name(kind)}: {title}": page for title, page in asset_report.pages.items()}
        parity = parity_of(study, adapter)
        problems += [] if parity.problem is None else [f"{kind}: {parity.sentence}"]
    said = "; ".join(
        f"{one.name}: {one.validation_before:.0%} -> {one.validation_after:.0%} of {one.validation_n} "
        f"held-out episodes of {PLACES[one.kind]}, "
        f"{one.rollouts:,} rollouts"
        for one in trained
    )
    agreed = "; ".join(problems) or "every adapter gives the trainer's log-probabilities."
    return StageResult(
        _write(study, trained, curve),
        len(trained),
        {"adapters": len(trained), "n": sum(one.validation_n for one in trained)},
        pages=pages,
        checks=(
            StageCheck("joint_trained", not left_out, f"{'; '.join([said, *left_out])}.", "warning"),
            StageCheck("adapter_parity", not problems, agreed),
        ),
        spent={("rollouts", "episodes"): float(fresh)},
    )


def _both(told: list[TrainingPoint], on_point: OnPoint) -> OnPoint:
    def tell(point: TrainingPoint) -> None:
        told.append(point)
        on_point(point)

    return tell


def _asked(study: Study) -> list[str]:
    return [kind for kind in study.settings.training.single_arms if kind in PLACES]


def make_joint(
    study: Study, kind: str, names: list[str], on_point: OnPoint, together: Environment | None = None
) -> tuple[Adapter, list[TrainingPoint]]:
    """Train one adapter into its folder, or read it there; no table is written.

    Args:
        study: The study.
        kind: `joint`, `sequential`, `together` or `joining`.
        names: The capabilities, in order.
        on_point: Told of each iteration as it is made.
        together: For `together` and `joining`: where several capabilities are needed at once.
    """
    from trace_assets.training.grpo import train_adapter

    section, base = study.settings.training, base_checkpoint(study)
    members = members_of_sum(study) if kind == JOINING else {}
    environments = {name: read_environment(study, name) for name in members or names}
    if kind == TOGETHER and together is not None:
        environments = {TOGETHER: together}
    if kind == JOINING and together is not None:
        environments[JOINING] = together
    ids = {name: one.environment_id for name, one in environments.items()}
    budget = len(names) * section.iterations * section.tasks_per_iteration * section.group_size
    folder = _folder(study, kind, ids | {name: one.adapter_id for name, one in members.items()})
    parts = [*ids.values(), *(one.adapter_id for one in members.values())]
    job = Job(
        base_dir=base_folder(study),
        base_id=base.base_id,
        section=section,
        folder=folder,
        rollout_budget=budget,
        environment_id=ids[TOGETHER] if kind == TOGETHER else text_version(*sorted(parts)),
        path=study.home.relative(folder),
        on_point=on_point,
    )
    with ExitStack() as stack:
        targets = {
            name: stack.enter_context(training_target(study, one)) for name, one in environments.items()
        }
        if kind == JOINING:
            whole = {name: whole_adapter(study, one) for name, one in members.items()}
            made = train_joining(targets, {JOINING} & targets.keys(), whole, job, study.home.models)
        elif kind == TOGETHER:
            made = train_adapter(TOGETHER, "together", targets[TOGETHER], job)
        elif kind == JOINT:
            made = train_joint(targets, job)
        else:
            made = train_sequential(targets, job, ids)
    enter(study, folder)
    return made


def members_of_sum(study: Study) -> dict[str, Adapter]:
    """Return the adapters that the joining one is trained on top of: all that learned their environment."""
    own = [one for one in read_adapters(study) if one.kind == "capability" and acceptance(one).accepted]
    return {one.name: one for one in sorted(own, key=lambda one: one.name)}


def _not_joined(study: Study) -> str:
    """Return why no adapter is trained on top of the sum; empty where one is."""
    members = set(members_of_sum(study))
    if len(members) < 2:
        return f"{len(members)} of two adapters or more learned their environment"
    return " ".join(why for pair, why in opposed(study).items() if pair <= members)


def environment_of_all(study: Study) -> tuple[Environment | None, str]:
    """Write an environment in which all that was taught is needed at once; else return why there is none.

    It is held to what an audit asks of a module, but for the base policy's pass rate in it: the sum of the
    adapters acts there, not the base policy.
    """
    contract = read_contract(study, study.settings.targets.name)
    try:
        found = write_together(JOINING, contract)
    except InputError as error:
        return None, str(error)
    permutation = permutation_for(study, found.environment_id)
    with sandbox_pool(study) as pool:
        checks = audit(
            found,
            pool,
            contract,
            study.settings.synthesis,
            permutation=permutation,
            recorded=lambda kept: keep_audited(study, found.environment_id, samples_of(kept)),
        )
    accepted, reasons = verdict_of(checks)
    return (found, "") if accepted else (None, f"the audit rejects the other ({'; '.join(reasons)})")


def _folder(study: Study, kind: str, ids: dict[str, str]) -> Path:
    section, base = study.settings.training, base_checkpoint(study).base_id
    seeds = [seeds_fingerprint(study, one) for one in ids.values()]
    key = text_version(kind, *ids.values(), base, section.recipe_version(), *seeds)
    return study.home.models / "adapters" / f"{kind}-{key}"


def _write(study: Study, adapters: list[Adapter], curve: list[TrainingPoint]) -> str:
    study.store.write(curve, TrainingPoint, PART)
    return study.store.write(adapters, Adapter, PART)
