"""The schedule of `trace.toml`: diagnosis and evaluation are brought up to date at its ticks."""

import json
import sys

import dagster as dg

from trace_assets.assets.freshness import PROMISED
from trace_assets.assets.instance import prepare_instance
from trace_assets.assets.staleness import plan
from trace_assets.assets.whole_loop import sync_process
from trace_assets.records import TrajectoryHead
from trace_assets.settings import Schedule
from trace_assets.stages.ingest import batches
from trace_assets.study import Study

EVALUATION_GROUPS = ("routing", "evaluation", "report")
"""Groups of assets that say what the adapters that are there are worth."""


@dg.op(required_resource_keys={"study"})  # type: ignore[untyped-decorator, unused-ignore]
def rerun(context: dg.OpExecutionContext) -> None:
    """Bring diagnosis up to date, and evaluation where there is one; confirm what needed no work."""
    study: Study = context.resources.study
    made: list[str] = []
    for command in _commands(context, study):
        made += _run(context, study, command)
    confirmed = confirm(study)
    context.log.info(
        f"made: {', '.join(made) or 'nothing'}; up to date: {', '.join(confirmed) or 'nothing'}."
    )
    context.add_output_metadata({"made": len(made), "confirmed": len(confirmed)})


@dg.job(  # type: ignore[untyped-decorator, unused-ignore]
    description="What the schedule runs: diagnosis on all batches, then routing, evaluation and report where "
    "they were made before. What is up to date is not made again, so the test split is opened only for "
    "adapters or routers that it has not seen. Nothing is trained unless [automation] gpu = true, and "
    "nothing that is finished is made again because a setting was edited.",
    executor_def=dg.in_process_executor,
    tags={"trace/by": "schedule"},
)
def scheduled_rerun() -> None:
    """Bring diagnosis and evaluation up to date."""
    rerun()


def schedules(section: Schedule) -> list[dg.ScheduleDefinition]:
    """Return the schedule that the settings ask for, running; none where they name no times."""
    if not section.cron:
        return []
    return [
        dg.ScheduleDefinition(
            name="rerun_diagnosis_and_evaluation",
            job=scheduled_rerun,
            cron_schedule=section.cron,
            execution_timezone=section.timezone,
            default_status=dg.DefaultScheduleStatus.RUNNING,
            description=f"[schedule] cron = '{section.cron}' in trace.toml ({section.timezone}).",
        )
    ]


def confirm(study: Study) -> list[str]:
    """Record of each promised asset that is made and up to date that it is so now; return their names.

    Freshness policies count materializations. An asset whose inputs did not change needs none, so its last
    one is recorded again, with the same versions: nothing after it becomes due.
    """
    from trace_assets.definitions import build

    confirmed = []
    with prepare_instance(study.home) as instance:
        due = {step.item.asset for step in plan(build(study), instance)}
        for name in PROMISED:
            event = instance.get_latest_materialization_event(dg.AssetKey(name))
            last = event.asset_materialization if event is not None else None
            if last is None or name in due:
                continue
            instance.report_runless_asset_event(
                dg.AssetMaterialization(
                    asset_key=last.asset_key,
                    description="Confirmed by the schedule: nothing that it is made from has changed.",
                    metadata=last.metadata,
                    tags=last.tags,
                )
            )
            confirmed.append(name)
    return confirmed


def _commands(context: dg.OpExecutionContext, study: Study) -> list[list[str]]:
    """Return the commands to run, as after `trace`."""
    from trace_assets.definitions import build

    if study.settings.automation.gpu:
        return [["sync", "--json", "--keep"]]
    if not (batches(study) or study.store.partitions(TrajectoryHead)):
        context.log.info("there are no trajectories to diagnose yet.")
        return []
    if context.instance.get_latest_materialization_event(dg.AssetKey("evaluation")) is None:
        return [["diagnose"]]
    graph = build(study).resolve_asset_graph()
    names = sorted(
        "/".join(key.path)
        for key in graph.get_all_asset_keys()
        if graph.get(key).group_name in EVALUATION_GROUPS or key.path[-1] in EVALUATION_GROUPS
    )
    return [
        ["diagnose"],
        ["sync", "--json", "--keep", *(part for name in names for part in ("--select", name))],
    ]


def _run(context: dg.OpExecutionContext, study: Study, command: list[str]) -> list[str]:
    """Run one command of `trace` and return what it made."""
    with sync_process([sys.executable, "-m", "trace_assets", *command], study) as process:
        assert process.stderr is not None and process.stdout is not None
        lines = [line.rstrip() for line in process.stderr if line.strip()]
        for line in lines:
            context.log.info(line)
        said, code = process.stdout.read(), process.wait()
    if code != 0:
        why = next((line for line in reversed(lines) if line), said.strip()[:300])
        raise dg.Failure(
            f"`trace {command[0]}` ended with exit code {code}: {why}",
            metadata={"exit_code": code},
            allow_retries=False,
        )
    if command[0] == "sync":
        return [str(item) for item in json.loads(said).get("made", [])]
    return [line for line in lines if line.startswith("✓")]
