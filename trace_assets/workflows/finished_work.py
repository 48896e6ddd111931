"""Finished work: played episodes, trained weights, paid answers. Nothing takes its place unless asked to.

An item holds finished work when making it again could play, train or pay once more in the place of what is
there. Whether it would is decided here, for every door alike: by what the item holds, by the settings it was
made with (`stages.made_with`), and by what would be read from where it lies instead of being made anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import polars as pl

from trace_assets.errors import TraceError
from trace_assets.records import (
    Adapter,
    BaseCheckpoint,
    Environment,
    Evaluation,
    InterferencePart,
    Label,
    MadeWith,
    Pilot,
    Proposal,
    SeedOutcome,
    Task,
    TrajectoryHead,
)
from trace_assets.report.formatting import count
from trace_assets.resources.inbox import batches
from trace_assets.settings import Training
from trace_assets.study import Study
from trace_assets.workflows.made_with import Difference, differences, in_words

Cause = Literal["missing", "code", "settings", "input", "other"]
"""Of which kind a difference is: never made, other code, a section of the settings, content that is read."""

AGAIN_TAG = "trace/again"
"""Tag of a Dagster run that was asked to put new work in the place of finished work: `true`."""


@dataclass(frozen=True)
class Finished:
    """What finished work an asset holds, and when making it again would replace it.

    Attributes:
        holds: Says what a partition holds, empty for none.
        decides: Whether a setting that differs has it made otherwise.
        causes: Kinds of further differences for which it is made anew.
        is_there: Whether what would be made lies in the home already, so that it is only read.
        plays_again: Whether it plays anew even where nothing differs.
    """

    holds: Callable[[Study, str], str]
    decides: Callable[[Difference], bool] = lambda _: True
    causes: frozenset[Cause] = frozenset({"code"})
    is_there: Callable[[Study, str], bool] = lambda *_: False
    plays_again: bool = False


def finished_work(study: Study, asset: str, partition: str = "") -> str:
    """Say what finished work an item holds, such as `800 episodes`; empty for none."""
    kind = KINDS.get(asset)
    return kind.holds(study, partition) if kind else ""


def would_replace(
    study: Study, asset: str, partition: str = "", causes: Mapping[str, Cause] | None = None
) -> str:
    """Say why making an item now would put new work in the place of finished work.

    Args:
        study: The study; its settings are those it would be made with.
        asset: The item's asset.
        partition: Its partition, empty when the asset has none.
        causes: What differs from when it was made: in words, and of which kind.

    Returns:
        The reason, empty when nothing that is finished would be replaced.
    """
    kind = KINDS.get(asset)
    if kind is None or not _holds(kind, study, partition) or _is_there(kind, study, partition):
        return ""
    if asset == "tasks":
        return _tasks_lost(study, partition)
    causes = causes or {}
    said = [words for words, cause in causes.items() if cause in kind.causes]
    known = differences(study, asset, partition)
    if known is None:  # of a home of an earlier version
        said += [words for words, cause in causes.items() if cause == "settings"]
        if asset == "trajectories":
            said += [words for words, cause in causes.items() if cause == "input"]
        return "; ".join(dict.fromkeys(said))
    found = [one for one in known if kind.decides(one)]
    if asset == "trajectories" and not found and (lost := lost_trials(study, partition)):
        said.append(f"{lost:,} of them are of tasks or trials that are not asked for now")
    return "; ".join([*([in_words(found)] if found else []), *said])


def _holds(kind: Finished, study: Study, partition: str) -> bool:
    try:
        return bool(kind.holds(study, partition))
    except TraceError:  # its files are lost or damaged: there is nothing to replace
        return False


def _is_there(kind: Finished, study: Study, partition: str) -> bool:
    try:
        return kind.is_there(study, partition)
    except TraceError:  # what it would be made of is not there
        return False


def refusal(item: str, work: str, why: str) -> str:
    """Say that an item is not made, and how to have it made all the same."""
    return (
        f"{item} holds finished work ({work}) that would be replaced: {why}. Nothing was changed; "
        f"`trace sync --again '{item}'` replaces it (in the Dagster UI: launch with the tag "
        f"{AGAIN_TAG} = true), `--keep` leaves it as it is and goes on with the rest."
    )


def lost_trials(study: Study, batch: str) -> int:
    """Return how many finished episodes of a batch belong to no task and trial that would be played now."""
    section, done = study.settings.rollouts, _played(study, batch)
    wanted = {task.task_id for task in study.store.read(Task, batch) if task.split == "discovery"}
    seeds = {trial: section.seed + trial for trial in range(section.trials)}
    return sum(
        task not in wanted or seeds.get(trial) != seed
        for task, trial, seed in done.select("task_id", "trial", "seed").iter_rows()
    )


def _played(study: Study, batch: str) -> pl.DataFrame:
    """Return the heads of a batch's finished episodes, none for a batch that was ingested."""
    heads = study.store.frame(TrajectoryHead, batch)
    if batch in batches(study):
        return heads.clear()
    return heads.filter(pl.col("fault").is_null() & (pl.col("source") == "rollout"))


def _episodes(study: Study, batch: str) -> str:
    n = _played(study, batch).height
    return count(n, "episode") if n else ""


def _tasks(study: Study, batch: str) -> str:
    played = _episodes(study, batch)
    return f"the tasks of {played}" if played else ""


def _tasks_lost(study: Study, batch: str) -> str:
    """Say how the tasks that finished episodes were played on would change."""
    from trace_assets.assets.trajectories import tasks_of

    played = set(_played(study, batch)["task_id"])
    before = {task.task_id: task for task in study.store.read(Task, batch)}
    try:
        now = {task.task_id: task for task in tasks_of(study, batch)[0]}
    except TraceError as error:
        return f"whether they would stay the same cannot be told ({error})"
    lost = sum(name in before and now.get(name) != before[name] for name in played)
    if not lost:
        return ""
    found = differences(study, "trajectories", batch) or []
    found = [one for one in found if one.setting.startswith("targets.")]
    said = f"{lost:,} of {len(played):,} tasks that were played would be other ones"
    return f"{in_words(found)}; {said}" if found else said


def _base_model(study: Study, _: str) -> str:
    rows = study.store.read(BaseCheckpoint)
    return "a trained base model" if rows and rows[0].pass_rate is not None else ""


def _base_is_there(study: Study, _: str) -> bool:
    from trace_assets.resources.policy import trained_folder
    from trace_assets.training.demo_agent.pretraining import finished_base

    if study.settings.base_model.path:
        return False
    return finished_base(study.target, study.settings.base_model, trained_folder(study)) is not None


def _paid_triage(study: Study, batch: str) -> str:
    rows = study.store.read(MadeWith, f"triage={batch}")
    model = next((row.value for row in rows if row.setting == "triage.model"), '""')
    return f"the second look of {model}" if model != '""' else ""


def _paid_proposals(study: Study, _: str) -> str:
    n = len(study.store.read(Proposal))
    return f"{count(n, 'proposal')} of a model" if n else ""


def _paid_labels(study: Study, batch: str) -> str:
    own = study.store.frame(Label, batch).filter(pl.col("labeller").str.starts_with("model:"))
    return f"{count(own.height, 'label')} of {own['labeller'][0]}" if own.height else ""


def _paid_environment(study: Study, capability: str) -> str:
    rows = study.store.read(Environment, capability)
    return f"an environment written by {rows[0].writer}" if rows and rows[0].writer[:6] == "model:" else ""


def _audit(study: Study, capability: str) -> str:
    n = sum(row.n for row in study.store.read(SeedOutcome, capability))
    return f"{count(n, 'episode')} of the base policy" if n else ""


def _pilot(study: Study, capability: str) -> str:
    n = sum(row.rollouts for row in study.store.read(Pilot, capability))
    return f"a pilot of {count(n, 'rollout')}" if n else ""


def _pilot_is_there(study: Study, capability: str) -> bool:
    from trace_assets.assets.pilot import would_measure

    return not would_measure(study, capability)


def _adapter(study: Study, name: str) -> str:
    n = sum(row.rollouts for row in study.store.read(Adapter, name or "mixed"))
    return f"an adapter of {count(n, 'rollout')}" if n else ""


def _joint_adapters(study: Study, _: str) -> str:
    n = sum(row.rollouts for row in study.store.read(Adapter, "joint_adapters"))
    return f"adapters for all of {count(n, 'rollout')}" if n else ""


def _consolidated(study: Study, _: str) -> str:
    n = sum(row.rollouts for row in study.store.read(Adapter, "consolidated"))
    return f"an adapter for all of {count(n, 'rollout')}" if n else ""


def _gradients(study: Study, _: str) -> str:
    n = sum(row.n_rollouts for row in study.store.read(InterferencePart))
    return f"policy gradients of {count(n, 'rollout')}" if n else ""


def _adapter_is_there(study: Study, name: str) -> bool:
    from trace_assets.assets.adapter import would_train

    return not would_train(study, name)


def _evaluations(study: Study, split: str) -> str:
    n = study.store.frame(Evaluation, split).height
    return f"{count(n, 'evaluation')} on {split} tasks" if n else ""


def _decides_an_adapter(one: Difference) -> bool:
    section, _, key = one.setting.partition(".")
    return section == "targets" or key.partition(".")[0] not in Training.beforehand | Training.apart


def _decides_a_pilot(one: Difference) -> bool:
    return _decides_an_adapter(one) or one.setting in _PILOTED


def _decides_an_episode(one: Difference) -> bool:
    """Further trials come beside those that are there; the server's name is looked at as it answers."""
    return one.setting != "rollouts.check_model" and not (one.setting == "rollouts.trials" and one.has_grown)


def _decides_an_arm(one: Difference) -> bool:
    """Episodes are kept by what decides them: resamples are drawn, and further trials played, beside them."""
    return one.setting != "evaluation.resamples" and not (
        one.setting == "evaluation.trials" and one.has_grown
    )


_PILOTED = frozenset(f"training.pilot_{name}" for name in ("share", "steps", "rate", "tasks", "search"))

KINDS: Mapping[str, Finished] = {
    "tasks": Finished(_tasks),
    "base_model": Finished(_base_model, is_there=_base_is_there),
    "trajectories": Finished(_episodes, _decides_an_episode),
    "triage": Finished(_paid_triage),
    "capability_dictionary": Finished(_paid_proposals),
    "labels": Finished(_paid_labels, lambda one: not (one.setting == "labels.passes" and one.has_grown)),
    "environment": Finished(_paid_environment, causes=frozenset({"code", "input"})),
    "environment_audit": Finished(_audit, causes=frozenset({"code", "missing"}), plays_again=True),
    "pilot": Finished(_pilot, _decides_a_pilot, is_there=_pilot_is_there),
    "adapter": Finished(_adapter, _decides_an_adapter, frozenset({"input"}), _adapter_is_there),
    "mixed_adapter": Finished(_adapter, _decides_an_adapter, frozenset({"input"}), _adapter_is_there),
    "joint_adapters": Finished(_joint_adapters, _decides_an_adapter, frozenset({"input"})),
    "consolidated": Finished(_consolidated, _decides_an_adapter, frozenset({"input"})),
    "interference": Finished(_gradients, _decides_an_adapter, frozenset({"input"})),
    "adapter_validation": Finished(
        lambda study, _: _evaluations(study, "validation"), _decides_an_arm, frozenset()
    ),
    "evaluation": Finished(lambda study, _: _evaluations(study, "test"), _decides_an_arm, frozenset()),
}
"""Assets that play, train or pay. What follows from code alone is made again without a word."""
