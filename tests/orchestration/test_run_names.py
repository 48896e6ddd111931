"""Runs say what they make and where they are from: so pages name them, and the timeline has them."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from trace_assets.definitions import build
from trace_assets.orchestration import materialization
from trace_assets.orchestration.instance import prepare_instance
from trace_assets.orchestration.materialization import LOCATION, materialize_here, materialize_items
from trace_assets.orchestration.planner import Item
from trace_assets.settings import Settings
from trace_assets.store import Home
from trace_assets.study import Study


def test_a_run_is_named_by_what_it_makes_and_belongs_to_the_code_location(tmp_path: Path) -> None:
    study = Study(Home.open(tmp_path), Settings())
    item = Item("config/discovery", "")
    with prepare_instance(study.home) as instance:
        outcomes = materialize_here(build(study), study, instance, [item], False)
        assert [one.made for one in outcomes] == [True]
        (run,) = instance.get_runs()
        assert run.asset_selection == {dg.AssetKey(["config", "discovery"])}
        assert run.job_name == "__ASSET_JOB"  # the name for which pages show the assets instead
        assert run.remote_job_origin is not None
        assert run.remote_job_origin.location_name == LOCATION
        assert run.tags[".dagster/repository"] == f"__repository__@{LOCATION}"


def test_a_worker_opens_a_study_once_and_anew_when_its_settings_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = Study(Home.open(tmp_path), Settings())
    monkeypatch.setattr(materialization, "_kept", None)
    prepare_instance(study.home).dispose()
    environment = {"TRACE_HOME": str(tmp_path), "DAGSTER_HOME": str(study.home.dagster), "TRACE_SET": ""}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    first = materialize_items(environment, [Item("config/discovery", "")], False)
    kept = materialization._kept
    again = materialize_items(environment, [Item("config/labels", "")], False)
    assert first[0].made and again[0].made and materialization._kept is kept is not None
    changed = {**environment, "TRACE_SET": "discovery.seed=7"}
    assert materialize_items(changed, [Item("config/discovery", "")], False)[0].made
    assert materialization._kept is not kept and materialization._kept is not None
    assert materialization._kept.study.settings.discovery.seed == 7
    with prepare_instance(study.home) as instance:
        event = instance.get_latest_materialization_event(dg.AssetKey(["config", "discovery"]))
        assert event is not None and event.asset_materialization is not None
        tags = event.asset_materialization.tags or {}
        assert tags["dagster/data_version"] == materialization._kept.study.settings.discovery.fingerprint()
    materialization._kept.instance.dispose()
