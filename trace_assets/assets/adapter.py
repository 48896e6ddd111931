"""The assets `adapter` and `mixed_adapter`: a LoRA adapter a capability, and the arm it is compared with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from trace_assets.assets.asset import StageCheck, StageResult, asset
from trace_assets.assets.environment_audit import read_verdict, taught
from trace_assets.assets.pilot import read_pilot
from trace_assets.errors import require_extra
from trace_assets.evaluation.choice import FOR_ALL
from trace_assets.records import Adapter, CapabilitySpec, TrainingPoint, TrajectoryHead
from trace_assets.report.asset_report.training import adapter_report
from trace_assets.report.formatting import marked
from trace_assets.resources.contract import training_obstacle
from trace_assets.resources.policy import base_checkpoint, base_folder, enter, whole_adapter
from trace_assets.resources.sandbox import (
    read_environment,
    recomputed_check,
    recomputed_figures,
    seeds_fingerprint,
    training_target,
)
from trace_assets.routing.router import JOINING
from trace_assets.store.content import text_version
from trace_assets.store.trajectories import read_some
from trace_assets.study import Study
from trace_assets.training.checkpoints import sandbox_shares
from trace_assets.training.demonstrations import NOTHING, Rehearsed, drawn, own_successes, rehearsal_version
from trace_assets.training.plan import Job, OnPoint
from trace_assets.training.validation import readings
from trace_assets.training.warm_start import PROCEDURE
from trace_assets.workflows.rounds import later_rollouts

if TYPE_CHECKING:
    from trace_assets.sandbox.reward_verification import Recomputed
    from trace_assets.training.validation import Parity


CHECKS = {
    "adapter_trained": "On held-out seeds the adapter's interval lies above the base model's rate.",
    "adapter_parity": "The engine that serves the adapter and the trainer give the same log-probabilities.",
    "training_sound": "Sampler mismatch, clipping, entropy, dead groups and gradients are in bounds.",
}
Elsewhere = Callable[[str, OnPoint], "Recomputed | None"]
"""Makes the folder of a capability's adapter (`mixed` for the arm) in another process; `make_adapter` and
`make_mixed` then find a finished run. Returns what was recomputed there, None without a sandbox."""

MIXED = "mixed"
MOST_MIXED_RUNS = 8
"""Capabilities beyond which the mixed arm has no further rollouts unless `training.mixed_rollouts` asks."""
PARITY_TASKS = 16
"""Episodes on which engine and trainer are compared."""


@asset(
    "adapter",
    group="training",
    records=(Adapter, TrainingPoint),
    deps=["environment", "environment_verdict", "pilot", "base_model", "config/training"],
    partitions="capability",
    checks=CHECKS
    | {
        "rewards_recomputed": "A sample of its rewards is the same in fresh sandboxes.",
        "demonstrated": "Where GRPO has nothing to raise training began with demonstrations.",
    },
    blocking=["adapter_parity"],
    kinds=("pytorch", "huggingface", "docker"),
    pool="gpu",
)
def train_capability(
    study: Study,
    capability_id: str,
    on_point: OnPoint | None = None,
    elsewhere: Elsewhere | None = None,
) -> StageResult:
    """A LoRA adapter trained with GRPO in the capability's environment, best checkpoint on held-out seeds.

    How the sandbox is set up is no part of it: the audit has shown that the environment runs there.

    Args:
        study: The study.
        capability_id: A kept capability.
        on_point: Told of each iteration as it is made.
        elsewhere: Trains in another process first; None trains in this one.
    """
    refusal = _refusal(study, capability_id)
    if refusal:
        version = _write(study, [], [], capability_id)
        check = StageCheck("adapter_trained", False, f"refused: {refusal}.", "warning")
        return StageResult(version, 0, {"refused": True}, checks=(check,))
    told = _Told(on_point)
    ahead = elsewhere(capability_id, told) if elsewhere else None
    adapter, curve, found = make_adapter(study, capability_id, told)
    found = _recomputed(study, adapter, ahead or found)
    more = (begun(study, capability_id, adapter),)
    return _result(study, adapter, curve, capability_id, made=told.points, recomputed=found, more=more)


def make_adapter(
    study: Study, capability_id: str, on_point: OnPoint
) -> tuple[Adapter, list[TrainingPoint], Recomputed]:
    """Train one capability's adapter into its folder, or read it there; no table is written.

    Args:
        study: The study.
        capability_id: A kept capability.
        on_point: Told of each iteration as it is made.

    Returns:
        The adapter, its curve, and how many of its rewards were recomputed in fresh sandboxes.
    """
    require_extra("torch", "train", "training an adapter")
    from trace_assets.sandbox.reward_verification import Recomputed
    from trace_assets.training.checkpoints import clear_run_directory, read_curve
    from trace_assets.training.grpo import CURVE, train_adapter

    environment, base = read_environment(study, capability_id), base_checkpoint(study)
    folder = _folder(study, capability_id)
    if (found := _finished(study, capability_id)) is not None:  # read without asking for a sandbox
        clear_run_directory(folder)  # of a run that was killed at its very end
        whose = {
            "rejected": _rejection(study, capability_id),
            "path": study.home.relative(folder),
            "not_demonstrated": not_demonstrated(study, capability_id) or found.not_demonstrated,
        }
        return found.model_copy(update=whose), read_curve(folder / CURVE), Recomputed()
    job = Job(
        base_dir=base_folder(study),
        base_id=base.base_id,
        section=study.settings.training,
        folder=folder,
        environment_id=environment.environment_id,
        path=study.home.relative(folder),
        on_point=on_point,
    )
    with training_target(study, environment) as target:
        adapter, curve = train_adapter(
            capability_id,
            "capability",
            target,
            job,
            capability_id=capability_id,
            rejected=_rejection(study, capability_id),
            warm_start=bool(why_demonstrated(study, capability_id)),
            rehearsed=rehearsed_by(study, capability_id),
        )
    enter(study, folder)
    unable = not_demonstrated(study, capability_id) or adapter.not_demonstrated
    adapter = adapter.model_copy(update={"not_demonstrated": unable})
    return adapter, curve, target.recomputation.read()


def would_train(study: Study, name: str = "") -> bool:
    """Whether an adapter would be trained now: nothing refuses it, and it does not lie there finished."""
    if name:
        return not _refusal(study, name) and _finished(study, name) is None
    return mixed_is_due(study) and _finished(study) is None


def mixed_is_due(study: Study) -> bool:
    """Whether the mixed arm is trained: it is asked for, and there is something to compare it with."""
    section = study.settings.training
    return section.mixed_arm and (section.mixed_always or bool(taught(study)))


def _finished(study: Study, name: str = "") -> Adapter | None:
    """Return the record of the run that ended in an adapter's folder, None when it is another one."""
    from trace_assets.training.grpo import finished_run

    section, base = study.settings.training, base_checkpoint(study).base_id
    target = read_environment(study, name).environment_id if name else study.target.version
    recipe = (section if name else section.unaided()).recipe()
    fingerprint = {"name": name or MIXED, "base": base, "target": target, "section": recipe}
    return finished_run(_folder(study, name), fingerprint)


def _folder(study: Study, name: str = "") -> Path:
    """Return where an adapter lies or would lie, by what decides it."""
    section, base = study.settings.training, base_checkpoint(study).base_id
    if name:
        environment_id = read_environment(study, name).environment_id
        seeds = seeds_fingerprint(study, environment_id)
        warm: list[str] = []
        if why_demonstrated(study, name):
            ids = [one for own in _rehearsed_ids(study).values() for one in own]
            warm = [PROCEDURE, rehearsal_version(ids, study.target.tools)]
        key = text_version(environment_id, base, section.recipe_version(), seeds, *warm)
    else:
        recipe = section.unaided().recipe_version()
        key = text_version(study.target.version, base, recipe, str(_budget(study)))
    return study.home.models / "adapters" / f"{name or MIXED}-{key}"


def why_demonstrated(study: Study, capability_id: str) -> str:
    """Return why a capability's training begins with demonstrations; empty where it begins with GRPO.

    Two signs that GRPO alone has little to raise: the audit's, that a kind of task never succeeds, and the
    pilot's, that a small GRPO run moved nothing. The second also speaks for tasks that succeed now and then.
    """
    return _why_dead(study, capability_id) if study.settings.training.begins_warm else ""


def _why_dead(study: Study, capability_id: str) -> str:
    """Return why GRPO alone has little to raise, whether or not anything can be demonstrated."""
    verdict = read_verdict(study, capability_id)
    if verdict.warm_start or verdict.warm_reason:
        return verdict.warm_reason or "its audit says so"
    pilot = read_pilot(study, capability_id)
    if study.settings.training.warm_start == "when_dead" and pilot is not None and pilot.stalls:
        return f"its pilot moved nothing: {pilot.reason}"
    return ""


def not_demonstrated(study: Study, capability_id: str) -> str:
    """Return why GRPO begins where demonstrations are due and the settings leave nobody to learn them."""
    if not study.settings.training.shard or not _why_dead(study, capability_id):
        return ""
    return "a model that is divided among processes (training.shard) learns no demonstrations"


def begun(study: Study, capability_id: str, adapter: Adapter) -> StageCheck:
    """Say with what training began."""
    why = _why_dead(study, capability_id)
    if adapter.not_demonstrated:
        said = f"it began with GRPO, although {why}: {adapter.not_demonstrated}."
    elif adapter.warm_rollouts:
        said = f"{adapter.demonstrations:,} demonstrations came first: {why}."
    else:
        said = "it began with GRPO, and nothing said that demonstrations have to come first."
    return StageCheck("demonstrated", not adapter.not_demonstrated, said, "warning")


def rehearsed_by(study: Study, capability_id: str) -> Rehearsed:
    """Return what the base model did well on the target, which is learned beside demonstrations.

    Nothing where training does not begin with these. The environment was written from the same episodes, so
    whatever makes them due makes the adapter due.
    """
    if not why_demonstrated(study, capability_id):
        return NOTHING
    found = _rehearsed_ids(study)
    kept = [one for batch, ids in found.items() for one in read_some(study.store, batch, ids)]
    return Rehearsed(kept, study.target.tools) if kept else NOTHING


def _rehearsed_ids(study: Study) -> dict[str, list[str]]:
    """Return by batch the ids of the episodes that are rehearsed, ascending."""
    found = {
        batch: study.store.scan(TrajectoryHead, batch)
        .filter(own_successes(study.target.name))
        .select("trajectory_id")
        .collect()["trajectory_id"]
        .to_list()
        for batch in sorted(study.store.partitions(TrajectoryHead))
    }
    chosen = drawn(found.values())
    return {batch: sorted(chosen & {*ids}) for batch, ids in found.items()}


def _budget(study: Study) -> int:
    """Return the mixed arm's rollouts: those of all capabilities, of what joins them, and of later rounds.

    Where rounds are played an adapter for all capabilities may stand for one, so its rollouts count too.

    The adapters of the capabilities can be trained on as many machines, the mixed arm is one run: uncapped it
    would be most of a large study's wall time.
    """
    section = study.settings.training
    batch = section.tasks_per_iteration * section.group_size
    runs = max(int(section.mixed_always), len(taught(study)))
    runs = runs if section.mixed_rollouts else min(runs, MOST_MIXED_RUNS)
    counted = {JOINING, *(FOR_ALL if study.settings.rounds.most > 1 else ())}
    more = len(counted & {*section.single_arms}) if len(taught(study)) > 1 else 0
    steps = (1 + more) * runs * section.iterations + -(-later_rollouts(study) // batch)
    if section.mixed_rollouts:
        steps = min(steps, max(1, section.mixed_rollouts // batch))
    return steps * batch


def _recomputed(study: Study, adapter: Adapter, found: Recomputed) -> Recomputed:
    """Return what was recomputed now, or what was when a run that is only read from its folder was made."""
    if not found.episodes:
        for one in study.store.read(Adapter, adapter.name):
            if one.adapter_id == adapter.adapter_id:
                return replace(found, episodes=one.recomputed_of, recomputed=one.recomputed)
    return found


def _refusal(study: Study, capability_id: str) -> str:
    """Return why no adapter is trained for a capability, empty when one is."""
    verdict, pilot = read_verdict(study, capability_id), read_pilot(study, capability_id)
    if not verdict.trained_on:
        return f"its environment was rejected ({'; '.join(verdict.reasons)})"
    if obstacle := training_obstacle(study, read_environment(study, capability_id).target):
        return obstacle
    if pilot is not None and not pilot.goes_on:
        return f"its pilot stopped it ({pilot.reason})"
    return ""


def _rejection(study: Study, capability_id: str) -> str:
    """Return why the environment was rejected and trained on all the same; empty when it was accepted."""
    verdict = read_verdict(study, capability_id)
    if verdict.accepted:
        return ""
    return f"{'; '.join(verdict.reasons)}; trained on all the same: {verdict.overridden_by}"


class _Told:
    """Hands points on and counts them: a run that was finished before makes none."""

    def __init__(self, on_point: OnPoint | None) -> None:
        self._on_point, self.points = on_point, 0

    def __call__(self, point: TrainingPoint) -> None:
        self.points += 1
        if self._on_point:
            self._on_point(point)


@asset(
    "mixed_adapter",
    group="training",
    records=(Adapter, TrainingPoint),
    deps=["curriculum", "rounds", "base_model", "config/training", "config/targets"],
    parts={Adapter: MIXED, TrainingPoint: MIXED},
    checks=CHECKS,
    blocking=["adapter_parity"],
    kinds=("pytorch", "huggingface"),
    pool="gpu",
)
def train_mixed(
    study: Study, on_point: OnPoint | None = None, elsewhere: Elsewhere | None = None
) -> StageResult:
    """GRPO on the target with the same total rollouts, up to a cap: what the adapters are compared with."""
    if not mixed_is_due(study):
        return StageResult(_write(study, [], [], MIXED), 0, {"refused": True})
    told = _Told(on_point)
    if elsewhere:
        elsewhere(MIXED, told)
    adapter, curve = make_mixed(study, told)
    return _result(study, adapter, curve, MIXED, made=told.points)


def make_mixed(study: Study, on_point: OnPoint) -> tuple[Adapter, list[TrainingPoint]]:
    """Train the mixed arm's adapter into its folder, or read it there; no table is written."""
    section = study.settings.training
    require_extra("torch", "train", "training an adapter")
    from trace_assets.training.grpo import train_adapter

    base, folder = base_checkpoint(study), _folder(study)
    job = Job(
        base_dir=base_folder(study),
        base_id=base.base_id,
        section=section.unaided(),
        folder=folder,
        rollout_budget=_budget(study),
        path=study.home.relative(folder),
        on_point=on_point,
    )
    made = train_adapter(MIXED, "mixed", study.target, job)
    enter(study, folder)
    return made


def _write(study: Study, adapters: list[Adapter], curve: list[TrainingPoint], partition: str) -> str:
    study.store.write(curve, TrainingPoint, partition)
    return study.store.write(adapters, Adapter, partition)


def _result(
    study: Study,
    adapter: Adapter,
    curve: list[TrainingPoint],
    partition: str,
    *,
    made: int,
    recomputed: Recomputed | None = None,
    more: tuple[StageCheck, ...] = (),
) -> StageResult:
    """Store an adapter and judge it.

    Args:
        study: The study.
        adapter: Its record.
        curve: All its points.
        partition: Where its rows go.
        made: Points that were made now; none when the same run was finished before and read from its folder.
        recomputed: How many of its rewards were recomputed in fresh sandboxes; None without a sandbox.
        more: Further checks.
    """
    from trace_assets.evaluation.non_inferiority import acceptance

    if recomputed:
        told = {"recomputed": recomputed.recomputed, "recomputed_of": recomputed.episodes}
        adapter = adapter.model_copy(update=told)
    version = _write(study, [adapter], curve, partition)
    judged = acceptance(adapter)
    agreement = parity_of(study, adapter)
    return StageResult(
        version,
        1,
        {
            "adapter_id": adapter.adapter_id,
            "validation_before": adapter.validation_before,
            "validation_after": adapter.validation_after,
            "validation_n": adapter.validation_n,
            **({"reward": curve[-1].reward_mean, "success_rate": curve[-1].success_rate} if curve else {}),
            "pass_rate": adapter.validation_after,
            "gain": adapter.validation_after - adapter.validation_before,
            "n": adapter.validation_n,
            "accepted": judged.accepted,
            **({"reused": True} if curve and not made else {}),
            **({"demonstrations": adapter.demonstrations} if adapter.warm_rollouts else {}),
            **({"rejected_environment": adapter.rejected} if adapter.rejected else {}),
            **_shares(curve),
            **({"isolation_level": adapter.isolation_level} if adapter.isolation_level else {}),
            **(recomputed_figures(recomputed) if recomputed else {}),
        },
        pages=adapter_report(adapter, curve, _name(study, adapter)).pages,
        checks=(
            StageCheck("adapter_trained", judged.accepted, f"{judged.reason}.", "warning"),
            StageCheck("adapter_parity", agreement.problem is None, agreement.sentence),
            *_monitors(study, curve),
            *([recomputed_check(recomputed)] if recomputed else []),
            *more,
        ),
        spent={("rollouts", "episodes"): float(adapter.rollouts if made else 0)},
    )


def _monitors(study: Study, curve: list[TrainingPoint]) -> list[StageCheck]:
    """Return what the curve's monitors say; what they complain of comes first."""
    found = readings(curve, study.settings.training)
    said = [one.says for one in sorted(found, key=lambda one: one.sound) if one.value is not None]
    if not said:
        return []
    return [StageCheck("training_sound", all(one.sound for one in found), f"{'; '.join(said)}.", "warning")]


def _shares(curve: list[TrainingPoint]) -> dict[str, float]:
    """Return which share of training went into the sandbox, where it ran in one."""
    wall, cpu = sandbox_shares(curve)
    return {} if wall is None or cpu is None else {"sandbox_share": wall, "sandbox_cpu_share": cpu}


def _name(study: Study, adapter: Adapter) -> str:
    names = {spec.capability_id: spec.name for spec in study.store.read(CapabilitySpec)}
    name = names.get(adapter.name, "GRPO on the target itself" if adapter.kind == "mixed" else adapter.name)
    return marked(name) if adapter.rejected else name


def parity_of(study: Study, adapter: Adapter) -> Parity:
    """Compare the engine that will serve the adapter with the trainer, on a few of the target's tasks."""
    from trace_assets.policies.transformers_engine import TransformersPolicy
    from trace_assets.training.validation import adapter_parity

    section, folder = study.settings.training, whole_adapter(study, adapter)
    engine = TransformersPolicy(
        base_folder(study),
        adapters={adapter.name: folder},
        temperature=section.temperature,
        max_new_tokens=section.max_new_tokens,
        dtype="float32",  # what differs by more than rounding is found where rounding is small
    )
    return adapter_parity(
        study.target,
        list(study.target.tasks("validation"))[:PARITY_TASKS],
        engine,
        adapter.name,
        base_dir=base_folder(study),
        folder=folder,
        max_turns=section.max_turns,
        temperature=section.temperature,
    )


def read_adapters(study: Study) -> list[Adapter]:
    """Return the adapters of what is taught, and those of the other arms, that rest on the base model."""
    kept, base = taught(study), base_checkpoint(study)
    return [
        adapter
        for adapter in study.store.read(Adapter)
        if adapter.base_id == base.base_id and (adapter.kind != "capability" or adapter.capability_id in kept)
    ]
