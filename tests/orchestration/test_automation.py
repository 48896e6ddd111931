"""What the daemon requests by itself: on the real definitions, only what an edit or a new batch touches."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from clockwork import Clockwork, Request
from dagster import AssetKey, AssetMaterialization, DefaultSensorStatus
from simulations import simulation_file

from trace_assets.definitions import build
from trace_assets.orchestration.automation import is_heavy
from trace_assets.orchestration.instance import TASK_BATCH
from trace_assets.records import SelectedCapability
from trace_assets.settings import SECTIONS
from trace_assets.study import Study

SETTINGS = ["watch.settle_seconds=0", "contrast.resamples=100", "contrast.permutations=100"]


def flat(ticks: list[list[Request]]) -> list[Request]:
    return [request for tick in ticks for request in tick]


def names(ticks: list[list[Request]]) -> set[str]:
    return {name for name, _ in flat(ticks)}


@pytest.fixture
def clockwork(tmp_path: Path) -> Clockwork:
    (tmp_path / "watch" / "trajectories").mkdir(parents=True)
    return Clockwork(tmp_path, SETTINGS)


def drop(clockwork: Clockwork, name: str, **options: object) -> str:
    simulation_file(clockwork.home / "watch" / "trajectories" / f"{name}.json", name, **options)  # type: ignore[arg-type]
    return clockwork.drop()


def test_light_layers_run_and_heavy_ones_wait_by_default(tmp_path: Path) -> None:
    for setting, heavy_status in (
        ("false", DefaultSensorStatus.STOPPED),
        ("true", DefaultSensorStatus.RUNNING),
    ):
        definitions = build(Study.open(tmp_path, None, [f"automation.gpu={setting}"]))
        sensors = {sensor.name: sensor for sensor in definitions.sensors or []}
        light, heavy = sensors["light_layers"], sensors["heavy_layers"]
        assert light.default_status is DefaultSensorStatus.RUNNING
        assert heavy.default_status is heavy_status
        graph = definitions.resolve_asset_graph()
        lit = {"/".join(key.path) for key in light.asset_selection.resolve(graph)}  # type: ignore[union-attr]
        weighed = {"/".join(key.path) for key in heavy.asset_selection.resolve(graph)}  # type: ignore[union-attr]
        assert not lit & weighed and lit | weighed == {
            "/".join(key.path) for key in graph.get_all_asset_keys()
        }
        assert {f"config/{name}" for name in SECTIONS} <= lit
        assert {"tasks", "triage", "labels", "contrast", "environment", "report"} <= lit
        assert {"base_model", "trajectories", "adapter", "routing", "evaluation"} <= weighed
        assert {asset.key.to_user_string() for asset in definitions.assets if is_heavy(asset)} == weighed  # type: ignore[union-attr, arg-type]


@pytest.mark.parametrize("played", [False, True])
def test_files_alone_wait_for_no_replays_but_live_runs_do(clockwork: Clockwork, played: bool) -> None:
    graph = build(clockwork.study).resolve_asset_graph()
    clockwork.only = "selected_capabilities"
    clockwork.instance.add_dynamic_partitions(str(TASK_BATCH.name), ["one"])
    there = graph.get_ancestor_asset_keys(AssetKey("selected_capabilities"))
    for key in sorted(there - {AssetKey("repairs")} - ({AssetKey("base_model")} if not played else set())):
        partition = "one" if graph.get(key).is_partitioned else None
        clockwork.instance.report_runless_asset_event(AssetMaterialization(key, partition=partition))
    assert (("selected_capabilities", "") in clockwork.tick()) is not played


@pytest.mark.slow
def test_without_trajectories_only_the_settings_are_made_and_an_edit_makes_its_section(
    clockwork: Clockwork,
) -> None:
    first = clockwork.run()
    assert names(first) == {f"config/{name}" for name in SECTIONS}
    assert clockwork.run() == []
    clockwork.overrides = [*SETTINGS, "selection.min_gap=0.3"]
    assert clockwork.run() == [[("config/selection", "")]]
    clockwork.overrides = [*clockwork.overrides, "watch.interval_seconds=7", "schedule.cron=0 2 * * *"]
    assert clockwork.run() == []


@pytest.mark.slow
def test_batches_and_thresholds_touch_only_what_hangs_on_them(clockwork: Clockwork) -> None:
    one = drop(clockwork, "one")
    first = clockwork.run()
    assert {"triage", "capability_dictionary", "labels", "contrast", "selected_capabilities"} <= names(first)
    assert not {"trajectories", "base_model", "target_contract", "report"} & names(first)
    assert clockwork.run() == []
    assert clockwork.study.store.read(SelectedCapability)[0].kept

    for name, domain in (("two", "desk"), ("three", "elsewhere")):
        batch = drop(clockwork, name, domain=domain)
        ticks = clockwork.run()
        once = Counter(flat(ticks))
        assert set(once.values()) == {1}, f"something was launched twice: {once}"
        labelled = [partition for asset, partition in flat(ticks) if asset == "labels"]
        assert labelled == [batch]
        order = [asset for asset, _ in flat(ticks)]
        chain = ["triage", "capability_dictionary", "batch_capabilities", "labels", "contrast"]
        assert [asset for asset in dict.fromkeys(order) if asset in chain] == chain
        assert ("triage", one) not in once
        assert clockwork.run() == []

    clockwork.overrides = [*SETTINGS, "selection.min_gap=0.3"]
    ticks = clockwork.run()
    assert ticks[0] == [("config/selection", "")] and ("selected_capabilities", "") in ticks[1]
    assert set(Counter(flat(ticks)).values()) == {1}
    graph = build(clockwork.study).resolve_asset_graph()
    reads = {"/".join(key.path) for key in graph.get(AssetKey(["config", "selection"])).child_keys}
    assert names(ticks[1:]) <= reads  # and so neither labels nor contrast
    assert not {"labels", "contrast", "drift", "batch_capabilities"} & reads
    assert clockwork.run() == []
