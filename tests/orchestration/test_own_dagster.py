"""A study inside a Dagster project of one's own: as a component, from the launchpad, as an image."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import dagster as dg
import pytest
from dagster.components.testing import create_defs_folder_sandbox

from tests.formats.forms import CHAT, lines
from trace_assets.errors import InputError
from trace_assets.orchestration.component import (
    OWN_HISTORY,
    TraceStudyComponent,
    known_batches,
    study_definitions,
)
from trace_assets.orchestration.configuration import overrides, settings_config
from trace_assets.orchestration.jobs import WholeLoop, whole_loop
from trace_assets.records import TrajectoryHead
from trace_assets.settings import Settings, load_settings
from trace_assets.settings.settings import keys_of
from trace_assets.study import Study
from trace_assets.workflows.ingest import ingest


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TRACE_HOME", "TRACE_CONFIG", "TRACE_SET", "DAGSTER_HOME"):
        monkeypatch.setenv(name, os.environ.get(name, ""))


def test_a_component_brings_the_study_that_its_yaml_names(tmp_path: Path) -> None:
    (tmp_path / "trace.toml").write_text("[selection]\nmin_gap = 0.41\n")
    with create_defs_folder_sandbox() as sandbox:
        path = sandbox.scaffold_component(
            component_cls=TraceStudyComponent,
            defs_yaml_contents={
                "type": "trace_assets.orchestration.component.TraceStudyComponent",
                "attributes": {
                    "home": str(tmp_path / "home"),
                    "settings": str(tmp_path / "trace.toml"),
                    "overrides": ["discovery.seed=7"],
                },
            },
        )
        with sandbox.load_component_and_build_defs(defs_path=path) as (component, defs):
            assert isinstance(component, TraceStudyComponent)
            graph = defs.resolve_asset_graph()
            assert dg.AssetKey("contrast") in graph.get_all_asset_keys()
            study = defs.resources["study"] if defs.resources else None
            assert isinstance(study, Study)
            assert study.settings.selection.min_gap == 0.41 and study.settings.discovery.seed == 7
            assert study.home.path == tmp_path / "home"
            jobs = {job.name for job in defs.resolve_all_job_defs()}
            assert not jobs & OWN_HISTORY


def test_a_component_without_its_settings_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not there"):
        TraceStudyComponent(home="home", settings="nowhere.toml").open(tmp_path)


def test_a_component_whose_path_is_a_step_too_short_makes_no_empty_study(tmp_path: Path) -> None:
    (tmp_path / "defs").mkdir()
    with pytest.raises(InputError, match=f"{tmp_path / 'study'}; mend `home`"):
        TraceStudyComponent(home="../study/.trace").open(tmp_path / "defs")
    assert [path.name for path in tmp_path.iterdir()] == ["defs"]


def test_a_component_whose_home_is_an_object_store_says_how_to_make_a_folder_of_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="takes folders alone: make one with `trace home copy s3://b/study"):
        TraceStudyComponent(home="s3://b/study").open(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_was_ingested_is_taken_into_the_history_of_the_project_once(tmp_path: Path) -> None:
    study = Study.open(tmp_path / "home", None, [])
    ingest(study, [lines(tmp_path / "mine.jsonl", {"messages": CHAT, "success": True})])
    defs = study_definitions(study)
    sensor = known_batches(study)
    with dg.DagsterInstance.ephemeral() as instance:
        first = sensor(dg.build_sensor_context(instance=instance, definitions=defs))
        assert isinstance(first, dg.SensorResult) and first.run_requests is not None
        (asked,) = first.run_requests
        assert asked.partition_key == "mine" and "mine" in instance.get_dynamic_partitions("task_batch")
        job = defs.resolve_implicit_global_asset_job_def()
        run = job.execute_in_process(
            asset_selection=asked.asset_selection, partition_key="mine", instance=instance
        )
        assert run.success and study.store.has(TrajectoryHead, "mine")
        again = sensor(dg.build_sensor_context(instance=instance, definitions=defs))
        assert isinstance(again, dg.SensorResult) and not again.run_requests


def test_an_asset_of_it_is_made_in_the_history_of_the_project(tmp_path: Path) -> None:
    own = dg.Definitions(executor=dg.multiprocess_executor)
    defs = dg.Definitions.merge(own, study_definitions(Study.open(tmp_path / "home", None, [])))
    with dg.DagsterInstance.ephemeral() as instance:
        job = defs.resolve_implicit_global_asset_job_def()
        keys = [dg.AssetKey(["config", name]) for name in ("discovery", "labels")]
        run = job.execute_in_process(asset_selection=keys, instance=instance)
        # Under the executor of the project each step is a process that loads the study: two sections are one.
        assert run.success and len(run.get_step_success_events()) == 1
        made = instance.get_latest_data_version_record
        assert made(keys[0]) is not None and made(keys[1]) is not None
        assert made(dg.AssetKey(["config", "contrast"])) is None


def test_the_launchpad_offers_every_setting_with_its_meaning() -> None:
    schema = WholeLoop.to_config_schema().as_field()
    text = json.dumps(WholeLoop.model_json_schema())
    assert [name for name, one in WholeLoop.model_fields.items() if not one.description] == ["settings"]
    assert schema is not None
    for section in Settings.model_fields:
        for key, field in keys_of(section).items():
            words = " ".join((field.description or "").split())
            assert json.dumps(words)[1:-1] in text, f"{section}.{key}"


def test_what_the_launchpad_sets_reads_back_as_the_same_setting() -> None:
    chosen = settings_config()(
        selection={"min_gap": 0.3, "prices": "{a = 2.0}"},
        training={"mixed_arm": False},
        rollouts={"model": "m x"},
    )
    settings = load_settings(None, overrides(chosen), {})
    assert settings.selection.min_gap == 0.3 and settings.selection.prices == {"a": 2.0}
    assert settings.training.mixed_arm is False and settings.rollouts.model == "m x"
    assert overrides(settings_config()()) == []


def test_settings_of_the_launchpad_reach_the_sync(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    said: list[list[str]] = []

    class Stop(Exception):
        pass

    def process(command: list[str], study: Study) -> None:
        said.append(command)
        raise Stop

    monkeypatch.setattr("trace_assets.orchestration.jobs.sync_process", process)
    monkeypatch.setattr("trace_assets.orchestration.jobs._same_history", lambda *_: None)
    config = {"ops": {"bring_up_to_date": {"config": {"settings": {"selection": {"min_gap": 0.3}}}}}}
    with dg.DagsterInstance.ephemeral() as instance, pytest.raises(Stop):
        whole_loop.execute_in_process(
            config, instance=instance, resources={"study": Study.open(tmp_path, None, [])}
        )
    assert said[0][-2:] == ["--set", "selection.min_gap=0.3"]


def test_the_image_starts_a_server_that_there_is(project_root: Path) -> None:
    text = (project_root / "sandboxes" / "code_location.Dockerfile").read_text()
    found = re.search(r"^CMD (\[.*\])$", text, re.M)
    assert found is not None
    command = json.loads(found[1])
    assert command[:3] == ["dagster", "code-server", "start"]
    from dagster._cli.code_server import start_command

    context = start_command.make_context("start", command[3:])
    assert context.params["module_name"] in ("trace_assets.definitions", ("trace_assets.definitions",))
    for source in re.findall(r"^COPY (.+) \S+$", text, re.M):
        assert all((project_root / name).exists() for name in source.split()), source
