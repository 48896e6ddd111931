"""Sensors on the watched folders: a new file becomes a partition, and a run for exactly that partition."""

from __future__ import annotations

import dagster as dg

from trace_assets.assets.partitions import TASK_BATCH
from trace_assets.errors import TraceError
from trace_assets.records import Arrival, ArrivalKind, Quarantined
from trace_assets.stages.watch import KINDS, Look, look, pending
from trace_assets.stages.watched_folder import WatchedFolder
from trace_assets.study import Study

ASSETS = ("tasks", "trajectories")
"""What a new batch needs made; everything after it is the light layers' sensor's."""

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
        if not ready:
            return dg.SensorResult(skip_reason=_why_nothing(seen, held))
        known = set(context.instance.get_dynamic_partitions(str(TASK_BATCH.name)))
        new = [one.batch for one in ready if one.batch not in known]
        return dg.SensorResult(
            dynamic_partitions_requests=[TASK_BATCH.build_add_request(new)] if new else [],
            run_requests=[
                dg.RunRequest(
                    run_key=f"{one.batch}:{one.content_hash}",  # Dagster never launches a key twice
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
