"""Sensors on the watched folders, the schedule and the freshness it promises."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import dagster as dg
import pytest
from simulations import simulation_file

from trace_assets.cli.progress import run_sync
from trace_assets.definitions import build
from trace_assets.orchestration.automation import PAUSES, PROMISED, attempt, freshness_policy
from trace_assets.orchestration.instance import TASK_BATCH, prepare_instance
from trace_assets.orchestration.jobs import confirm
from trace_assets.orchestration.planner import plan
from trace_assets.records import Quarantined
from trace_assets.settings import Schedule
from trace_assets.study import Study
from trace_assets.workflows.watch import pending

SETTINGS = ["watch.settle_seconds=0", "contrast.resamples=100", "contrast.permutations=100"]


@pytest.fixture
def study(tmp_path: Path) -> Study:
    for kind in ("tasks", "trajectories"):
        (tmp_path / "watch" / kind).mkdir(parents=True)
    return Study.open(tmp_path, None, SETTINGS)


def sensor(study: Study, name: str) -> dg.SensorDefinition:
    (found,) = [one for one in build(study).sensors or [] if one.name == name]
    assert isinstance(found, dg.SensorDefinition)
    return found


def tick(study: Study, name: str, instance: dg.DagsterInstance) -> dg.SensorResult:
    definition = sensor(study, name)
    context = dg.build_sensor_context(instance=instance, definitions=build(study))
    result = definition(context)
    assert isinstance(result, dg.SensorResult)
    return result


def test_sensors_are_there_running_and_say_what_they_do(study: Study) -> None:
    for kind in ("tasks", "trajectories"):
        found = sensor(study, f"watched_{kind}")
        assert found.default_status is dg.DefaultSensorStatus.RUNNING
        assert str(study.home.path / "watch" / kind) in (found.description or "")
        assert found.minimum_interval_seconds == study.settings.watch.interval_seconds


def test_a_new_file_asks_for_its_own_partition_and_nothing_else(study: Study) -> None:
    instance = dg.DagsterInstance.ephemeral()
    assert tick(study, "watched_trajectories", instance).skip_reason is not None
    simulation_file(study.home.path / "watch" / "trajectories" / "new.json", "a", n=3, lacking=1)
    (study.home.path / "watch" / "trajectories" / "bad.json").write_text("{")
    result = tick(study, "watched_trajectories", instance)
    (request,) = result.run_requests or []
    (added,) = result.dynamic_partitions_requests or []
    assert added.partition_keys == [request.partition_key]
    assert added.partitions_def_name == TASK_BATCH.name
    assert [key.to_user_string() for key in request.asset_selection or []] == ["tasks", "trajectories"]
    assert [row.file for row in study.store.read(Quarantined)] == ["bad.json"]
    again = tick(study, "watched_trajectories", instance)
    assert [one.run_key for one in again.run_requests or []] == [request.run_key]  # Dagster drops it


def a_run(number: int, status: dg.DagsterRunStatus, tags: Mapping[str, str]) -> dg.DagsterRun:
    run_id = f"00000000-0000-4000-8000-{number:012d}"
    return dg.DagsterRun(job_name="x", run_id=run_id, status=status, tags=tags)


def test_a_file_whose_run_did_not_come_through_is_tried_again_and_then_told_of(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulation_file(study.home.path / "watch" / "trajectories" / "new.json", "a", n=3, lacking=1)
    instance = dg.DagsterInstance.ephemeral()
    (request,) = tick(study, "watched_trajectories", instance).run_requests or []
    batch = str(request.partition_key)
    tags = {**request.tags, "dagster/partition": batch}
    for number, pause in enumerate((*PAUSES, 60.0)):
        assert attempt(instance, "trajectories", batch) == number + 1
        run = instance.add_run(a_run(number, dg.DagsterRunStatus.STARTED, tags))
        assert attempt(instance, "trajectories", batch) == 0  # it is on its way
        instance.report_run_failed(run)
        (record,) = instance.get_run_records(dg.RunsFilter(run_ids=[run.run_id]))
        ended = record.update_timestamp.timestamp()
        monkeypatch.setattr(time, "time", lambda at=ended - 3600: at)
        assert attempt(instance, "trajectories", batch) != 0, "a clock that was set back holds nothing up"
        monkeypatch.setattr(time, "time", lambda at=ended + pause - 1: at)
        assert not attempt(instance, "trajectories", batch)
        monkeypatch.setattr(time, "time", lambda at=ended + pause + 1: at)
    assert "trace sync" in str(tick(study, "watched_trajectories", instance).skip_reason)
    # What a person ended is left alone.
    instance.add_run(a_run(9, dg.DagsterRunStatus.CANCELED, {**tags, "dagster/partition": "other"}))
    assert attempt(instance, "trajectories", "other") is None


def test_tasks_wait_for_the_base_model(study: Study) -> None:
    task = study.target.tasks("discovery")[0]
    row = {"task_id": "embedded/x", "instruction": task.instruction + " Please.", "payload": task.payload}
    (study.home.path / "watch" / "tasks" / "new.jsonl").write_text(json.dumps(row))
    result = tick(study, "watched_tasks", dg.DagsterInstance.ephemeral())
    assert not result.run_requests and "base_model" in str(result.skip_reason)
    assert [one.waits_for for one in pending(study)] == ["base_model"]


@pytest.mark.parametrize(
    ("cron", "hours"), [("0 2 * * *", 24 + 6), ("0 2 * * mon-fri", 72 + 6), ("*/30 * * * *", 0.5 + 0.5)]
)
def test_a_schedule_brings_freshness_to_what_is_promised(study: Study, cron: str, hours: float) -> None:
    settings = study.settings.model_copy(update={"schedule": Schedule(cron=cron, timezone="Europe/Berlin")})
    definitions = build(Study(study.home, settings))
    (schedule,) = definitions.schedules or []
    assert isinstance(schedule, dg.ScheduleDefinition)
    assert (schedule.cron_schedule, schedule.execution_timezone) == (cron, "Europe/Berlin")
    assert schedule.default_status is dg.DefaultScheduleStatus.RUNNING
    promised = {
        spec.key.to_user_string(): spec.freshness_policy
        for spec in definitions.resolve_all_asset_specs()
        if spec.freshness_policy is not None
    }
    window = dg.FreshnessPolicy.time_window(fail_window=timedelta(hours=hours))
    assert promised == dict.fromkeys(PROMISED, window)
    dg.Definitions.validate_loadable(definitions)


def test_without_a_schedule_nothing_is_promised(study: Study) -> None:
    definitions = build(study)
    assert freshness_policy(study.settings.schedule) is None and not definitions.schedules
    assert all(spec.freshness_policy is None for spec in definitions.resolve_all_asset_specs())


@pytest.mark.slow
def test_the_scheduled_job_makes_what_is_due_then_only_confirms(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulation_file(study.home.path / "watch" / "trajectories" / "new.json", "a")
    monkeypatch.setenv("TRACE_HOME", str(study.home.path))
    monkeypatch.setenv("TRACE_SET", "\n".join(SETTINGS))
    tick(study, "watched_trajectories", dg.DagsterInstance.ephemeral())

    def run() -> tuple[int, int]:
        with prepare_instance(study.home) as instance:
            job = build(study).resolve_job_def("scheduled_rerun")
            result = job.execute_in_process(instance=instance, resources={"study": study})
            (output,) = [
                event.step_output_data.metadata for event in result.all_events if event.is_successful_output
            ]
            events = instance.fetch_materializations(dg.AssetKey("contrast"), limit=100).records
            return int(output["made"].value), len(events)  # type: ignore[arg-type]

    made, first = run()
    assert made > 5 and first == 2  # made, then confirmed
    again, second = run()
    assert again == 0 and second == 3
    with prepare_instance(study.home) as instance:
        batches = instance.get_dynamic_partitions(str(TASK_BATCH.name))
        due = {step.item.asset for step in plan(build(study), instance, None, batches)}
        assert "contrast" not in due and "selected_capabilities" not in due
    assert run_sync(study, ["contrast", "selected_capabilities"], quiet=True).outcomes == []
    assert confirm(study) == ["contrast"]
