"""What the Dagster daemon makes by itself: the light layers, and the heavy ones when they are switched on."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta

import dagster as dg

from trace_assets.errors import TraceError
from trace_assets.orchestration.instance import TASK_BATCH
from trace_assets.records import Arrival, ArrivalKind, Quarantined
from trace_assets.settings import Automation, Schedule
from trace_assets.settings.operation import pauses
from trace_assets.study import Study
from trace_assets.workflows.watch import KINDS, Look, look, pending
from trace_assets.workflows.watched_folder import WatchedFolder

AC = dg.AutomationCondition

_DUE = (
    (AC.newly_missing() | AC.code_version_changed() | AC.any_deps_match(AC.data_version_changed()))
    .since((AC.newly_requested() | AC.newly_updated()).with_label("handled"))
    .with_label("is_due")
)
_REPAIRS = dg.AssetSelection.assets("repairs")
# Only runs of the live target are replayed. Where none was played, as with files alone, nobody makes repairs.
_THERE = AC.all_deps_match(~AC.missing()).ignore(_REPAIRS) & (
    AC.all_deps_match(~AC.missing()).allow(_REPAIRS) | AC.asset_matches("base_model", AC.missing())
)
_READY = _DUE & _THERE.with_label("inputs_are_there")


def condition(heavy: dg.AssetSelection) -> dg.AutomationCondition[dg.AssetKey]:
    """Return when an asset is made: it is missing, has new code or settings, or an input has new content.

    Four points differ from the stock `AutomationCondition.eager()`, which launches a fan-in several times:

    - an input that was made again with equal content is no reason;
    - nothing is requested while one of its inputs is being made or is itself due, so a fan-in over batches
      runs once, when the last of them is done. (`will_be_requested` does not see this: it is never true
      between assets of different partitions.) What hangs on labels also waits for the cut-off before them,
      from which it cannot yet be seen whether labels will be due. Looking further everywhere is exact too,
      and three times as slow.
    - one batch that is missing (refused, or waiting for a GPU) does not keep the others from their fan-in:
      of every input, something must be there;
    - what is missing when the daemon looks for the first time is made as well.

    Args:
        heavy: Assets that may be due for days before somebody makes them: nothing waits for these.
    """
    coming = AC.any_deps_match(_READY).ignore(heavy) | AC.any_deps_match(AC.in_progress())
    cut_off = dg.AssetSelection.assets("batch_capabilities")
    behind = AC.any_deps_match(AC.any_deps_match(_READY | AC.in_progress()).allow(cut_off))
    at_rest = (~(coming | behind)).with_label("inputs_are_at_rest")
    return (_READY & at_rest & ~AC.in_progress()).with_label("content_of_an_input_changed")


ALSO = {"target_contract": AC.asset_matches("base_model", ~AC.missing())}
"""What single assets wait for beside their inputs: the contract is read from rollouts of the live target, of
which there are none where all trajectories were ingested."""


def is_heavy(asset: dg.AssetsDefinition) -> bool:
    """Tell whether an asset takes the accelerator or minutes of training: it is in a pool, or runs torch."""
    specs = list(asset.specs)
    pooled = any(getattr(asset.op, "pool", None) for _ in specs)
    return pooled or any("pytorch" in spec.kinds for spec in specs)


def with_automation(assets: Sequence[dg.AssetsDefinition]) -> list[dg.AssetsDefinition]:
    """Return the assets with their condition; `automation_sensors` says which of them are looked at."""
    when = condition(dg.AssetSelection.assets(*(asset for asset in assets if is_heavy(asset))))

    def automated(spec: dg.AssetSpec) -> dg.AssetSpec:
        also = ALSO.get(spec.key.to_user_string())
        return spec.replace_attributes(automation_condition=when & also if also else when)

    return [asset.map_asset_specs(automated) for asset in assets]


def automation_sensors(
    assets: Sequence[dg.AssetsDefinition], section: Automation
) -> list[dg.AutomationConditionSensorDefinition]:
    """Return one sensor for the light layers, running, and one for the heavy ones, stopped by default."""
    running, stopped = dg.DefaultSensorStatus.RUNNING, dg.DefaultSensorStatus.STOPPED
    return [
        dg.AutomationConditionSensorDefinition(
            name="light_layers",
            target=dg.AssetSelection.assets(*(asset for asset in assets if not is_heavy(asset))),
            default_status=running,
            minimum_interval_seconds=section.interval_seconds,
            run_tags={"trace/by": "light_layers"},
            description="Makes what is due and needs no GPU: settings, tasks, diagnosis, environments, the "
            "report. An edit of trace.toml is seen when the code location is reloaded.",
        ),
        dg.AutomationConditionSensorDefinition(
            name="heavy_layers",
            target=dg.AssetSelection.assets(*(asset for asset in assets if is_heavy(asset))),
            default_status=running if section.gpu else stopped,
            minimum_interval_seconds=section.interval_seconds,
            run_tags={"trace/by": "heavy_layers"},
            description="Makes what is due and takes a GPU or minutes: rollouts, audits, training, routing, "
            "evaluation. Stopped unless [automation] gpu = true; `trace sync` makes the same when you ask.",
        ),
    ]


# How old what a person looks at may be: nothing is promised without a schedule, so nothing alarms then.


PROMISED = ("contrast", "evaluation", "report")
"""Assets that the schedule keeps up to date."""
GRACE = timedelta(hours=6)
"""How long the work of one tick may take, where ticks are further apart than that."""


def freshness_policy(section: Schedule) -> dg.FreshnessPolicy | None:
    """Return the policy of the promised assets, None without a schedule.

    An asset fails when it was neither made nor confirmed for the longest pause of the schedule and the grace
    of its work. A window is used rather than `FreshnessPolicy.cron`, whose deadlines are the ticks
    themselves: the work of a tick begins there, so it would be late at each that follows a longer pause.
    """
    if not section.cron:
        return None
    _, longest = pauses(section.cron)
    return dg.FreshnessPolicy.time_window(
        fail_window=longest + max(min(GRACE, longest), timedelta(minutes=5))
    )


def with_freshness(assets: Sequence[dg.AssetsDefinition], section: Schedule) -> list[dg.AssetsDefinition]:
    """Return the assets, the promised ones with the schedule's freshness policy."""
    policy = freshness_policy(section)
    if policy is None:
        return list(assets)

    def promised(spec: dg.AssetSpec) -> dg.AssetSpec:
        wanted = spec.key.to_user_string() in PROMISED
        return spec.replace_attributes(freshness_policy=policy) if wanted else spec

    return [asset.map_asset_specs(promised) for asset in assets]


# Sensors on the watched folders: a new file becomes a partition, and a run for exactly that partition.


ASSETS = ("tasks", "trajectories")
"""What a new batch needs made; everything after it is the light layers' sensor's."""
PAUSES = (60.0, 600.0)
"""Seconds from the end of a run that did not come through to the next for the same file. It may never have
begun (a busy machine, a code server that did not answer), or have met a full disk."""

_WORDS: dict[ArrivalKind, str] = {
    "tasks": "Tasks for the live target as JSON lines: the base policy is rolled out on the new ones.",
    "trajectories": "Trajectories in any format that `trace ingest` reads: they are taken as they are.",
}


def watch_sensors(study: Study) -> list[dg.SensorDefinition]:
    """Return one sensor a watched folder, running by default: an empty folder costs nothing."""
    return [_watch_sensor(study, kind) for kind in KINDS]


def _watch_sensor(study: Study, kind: ArrivalKind) -> dg.SensorDefinition:
    folder = WatchedFolder(study, kind).path

    def evaluate(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        try:
            seen = look(study, kind)
            waiting = pending(study, kind)
        except TraceError as error:
            raise dg.Failure(str(error), allow_retries=False) from error
        for sentence in _sentences(seen):
            context.log.info(sentence)
        ready = [one for one in waiting if not one.waits_for]
        held = [one.batch for one in waiting if one.waits_for]
        if held:
            context.log.warning(
                f"{', '.join(held)} wait for the base model; run `trace sync --select base_model`."
            )
        attempts = {one.batch: attempt(context.instance, kind, one.batch) for one in ready}
        given_up = sorted(batch for batch, number in attempts.items() if number is None)
        if given_up:
            context.log.warning(_given_up(given_up))
        ready = [one for one in ready if attempts[one.batch]]
        if not ready:
            waits = ", ".join(batch for batch, number in attempts.items() if number == 0)
            words = (
                _given_up(given_up)
                if given_up
                else f"{waits} being made, or soon tried again."
                if waits
                else ""
            )
            return dg.SensorResult(skip_reason=words or _why_nothing(seen, held))
        known = set(context.instance.get_dynamic_partitions(str(TASK_BATCH.name)))
        new = [one.batch for one in ready if one.batch not in known]
        return dg.SensorResult(
            dynamic_partitions_requests=[TASK_BATCH.build_add_request(new)] if new else [],
            run_requests=[
                dg.RunRequest(
                    # Dagster never launches a key twice, so each attempt has one of its own.
                    run_key=f"{one.batch}:{one.content_hash}:{attempts[one.batch]}",
                    partition_key=one.batch,
                    asset_selection=[dg.AssetKey(name) for name in ASSETS],
                    tags={"trace/by": f"watched_{kind}"},
                )
                for one in ready
            ],
        )

    return dg.SensorDefinition(
        name=f"watched_{kind}",
        evaluation_fn=evaluate,
        target=dg.AssetSelection.assets(*ASSETS),
        default_status=dg.DefaultSensorStatus.RUNNING,
        minimum_interval_seconds=study.settings.watch.interval_seconds,
        description=f"{_WORDS[kind]} Watches {folder}. What cannot be used goes to the quarantine with the "
        "reason (table `quarantine`); the same content twice does nothing.",
    )


def attempt(instance: dg.DagsterInstance, kind: ArrivalKind, batch: str) -> int | None:
    """Return which attempt at a batch is to be launched now.

    What a person ended is not begun again: it counts as given up.

    Args:
        instance: Where runs are recorded.
        kind: Of the folder that the batch came by.
        batch: One whose trajectories are not in the store yet.

    Returns:
        Counted from 1; 0 where a run is on its way or the pause after one has not passed, None after the
        last.
    """
    tags = {"trace/by": f"watched_{kind}", "dagster/partition": batch}
    found = instance.get_run_records(dg.RunsFilter(tags=tags), limit=len(PAUSES) + 1)
    runs = [run for run in found if not run.dagster_run.is_success]
    if any(not run.dagster_run.is_finished for run in runs):
        return 0
    if len(runs) > len(PAUSES) or any(run.dagster_run.status is dg.DagsterRunStatus.CANCELED for run in runs):
        return None
    # A run of the future was recorded before the clock was set back: it holds nothing up.
    if runs and 0 <= time.time() - runs[0].update_timestamp.timestamp() < PAUSES[len(runs) - 1]:
        return 0
    return len(runs) + 1


def _given_up(batches: Sequence[str]) -> str:
    named = ", ".join(batches)
    return f"{named}: no run came through, and none is begun any more; see the last one, then `trace sync`."


def _sentences(seen: Look) -> list[str]:
    rows: list[Arrival | Quarantined] = [*seen.taken, *seen.refused]
    return [*(row.sentence for row in rows), *seen.notices]


def _why_nothing(seen: Look, held: list[str]) -> str:
    if seen.busy:
        return "another process is looking at the folder."
    if held:
        return f"{', '.join(held)} wait for the base model; run `trace sync --select base_model`."
    if seen.refused:
        return f"put aside: {', '.join(sorted({one.file for one in seen.refused}))} (table `quarantine`)."
    if seen.waiting:
        return f"still being written: {', '.join(seen.waiting[:5])}."
    return "nothing new."
