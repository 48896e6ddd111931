"""The button for everything: a job that brings the whole study up to date, as `trace sync` does.

Dagster cannot launch all assets in one run, because capabilities become partitions only on the way. The
job's one step runs the project's own sync in a process of its own; every item is then a run of its own, with
the same history, checks and pages as if it had been materialized by hand.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import Field

from trace_assets.errors import InputError
from trace_assets.orchestration.automation import PROMISED
from trace_assets.orchestration.configuration import overrides, settings_config
from trace_assets.orchestration.instance import prepare_instance
from trace_assets.orchestration.pages import markdown
from trace_assets.orchestration.planner import plan
from trace_assets.records import TrajectoryHead
from trace_assets.resources.inbox import batches
from trace_assets.settings import Schedule, load_settings
from trace_assets.study import CONFIG_VARIABLE, Study

PATIENCE_SECONDS = 15.0
"""How long a sync that was told to stop may take to put its work away."""


SettingsOfTheRun = settings_config()


class WholeLoop(dg.Config):
    """What to bring up to date: nothing given takes all.

    Finished work that is due (played episodes, trained weights, paid answers) is replaced where `again`
    names it, an asset or `asset[partition]`, and left as it is with `keep`; else the run fails and names it.
    `settings` hold for this run alone: what they change is due again once trace.toml is in force.
    """

    select: list[str] = Field(
        [], description="Assets to bring up to date, or items `asset[partition]`; none: all."
    )
    again: list[str] = Field(
        [],
        description="Assets, or items `asset[partition]`, whose finished work may be replaced: episodes that "
        "were played, weights, paid answers.",
    )
    keep: bool = Field(False, description="Leave finished work that is due as it is, and go on without.")
    jobs: int | None = Field(None, description="Items at once; left out: two, or one on one core.")
    settings: SettingsOfTheRun = SettingsOfTheRun()  # type: ignore[valid-type]


@dg.op(required_resource_keys={"study"}, tags={"layer": "gpu"})  # type: ignore[untyped-decorator, unused-ignore]
def bring_up_to_date(context: dg.OpExecutionContext, config: WholeLoop) -> None:
    """Materialize what is missing or stale, in order, until nothing is; each item is a run of its own."""
    study: Study = context.resources.study
    _same_history(context, study)
    _usable(config)
    command = [sys.executable, "-m", "trace_assets", "sync", "--json", "--verbose"]
    command += [part for name in config.select for part in ("--select", name)]
    command += [part for name in config.again for part in ("--again", name)]
    command += ["--keep"] if config.keep else []
    command += ["--jobs", str(config.jobs)] if config.jobs else []
    command += [part for one in overrides(config.settings) for part in ("--set", one)]
    with sync_process(command, study) as process:
        assert process.stderr is not None and process.stdout is not None
        last = ""
        for line in process.stderr:
            if line.strip():
                last = line.strip()
                context.log.info(last)
        said, code = process.stdout.read(), process.wait()
    result = json.loads(said) if said.strip() else {}
    made = result.get("made", [])
    context.add_output_metadata(
        {"made": len(made), "items": markdown("\n".join(f"- {item}" for item in made) or "none")}
    )
    if code != 0:
        raise dg.Failure(_reason(result, code, last), metadata={"exit_code": code}, allow_retries=False)


@dg.job(  # type: ignore[untyped-decorator, unused-ignore]
    description="Bring everything up to date: the whole loop on the first press, what an edit touched on "
    "later ones. The log of its run names each item with the reason; `select` in the launchpad narrows it. "
    "Finished work is replaced only where `again` names it; `keep` goes on without.",
    executor_def=dg.in_process_executor,
    tags={"trace/by": "whole_loop"},
)
def whole_loop() -> None:
    """Bring the whole study up to date."""
    bring_up_to_date()


def _same_history(context: dg.OpExecutionContext, study: Study) -> None:
    """Refuse to work where this run is recorded in another history than the study's own."""
    with prepare_instance(study.home) as own:
        if own.get_run_by_id(context.run_id) is None:
            raise dg.Failure(
                f"this page keeps its history elsewhere than the study in {study.home.path}, so what is "
                "made would not be seen here; open it with `trace ui`, or export "
                f"DAGSTER_HOME={study.home.dagster}.",
                allow_retries=False,
            )


def _usable(config: WholeLoop) -> None:
    """Refuse settings that trace.toml may not hold either: the form knows their types alone."""
    file = os.environ.get(CONFIG_VARIABLE)
    try:
        load_settings(Path(file) if file else None, overrides(config.settings), source="the launchpad")
    except InputError as error:
        raise dg.Failure(str(error), allow_retries=False) from None


@contextmanager
def sync_process(command: list[str], study: Study) -> Iterator[subprocess.Popen[str]]:
    """Run a sync whose process group ends with the body, however that ends."""
    environment = {**os.environ, "TRACE_HOME": str(study.home.path), "NO_COLOR": "1", "COLUMNS": "200"}
    process = subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGINT)
            try:
                process.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _reason(result: Mapping[str, Any], code: int, last: str) -> str:
    """Say why a sync did not end well, in one sentence."""
    failed = [f"{item}: {error}" for item, error in result.get("failed", {}).items()]
    checks = [f"{item}: {said}" for item, said in result.get("failed_checks", {}).items()]
    held = result.get("held_back", [])
    due = {item: one for item, one in result.get("kept", {}).items() if one["asked"]}
    named = "; ".join(f"{item} ({one['work']}: {one['why']})" for item, one in due.items())
    parts = [
        f"finished work would be replaced, and is not: {named}. Name it in `again` of the launchpad, or set "
        "`keep` to go on without"
        if due
        else "",
        f"failed: {'; '.join(failed)}" if failed else "",
        f"checks failed: {'; '.join(checks)}" if checks else "",
        f"held back: {', '.join(map(str, held))}" if held else "",
    ]
    said = ". ".join(part for part in parts if part)
    return said or f"the sync ended with exit code {code}: {last or 'it said nothing'}"


# The schedule of `trace.toml`: diagnosis and evaluation are brought up to date at its ticks.


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
