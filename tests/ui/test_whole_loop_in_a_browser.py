"""A person opens the UI, presses the button, and looks at the plots: with a real browser, by clicking.

With `TRACE_SCREENSHOTS=folder` the pages are also kept as pictures.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.ui.conftest import Opened, open_ui

pytestmark = [pytest.mark.slow, pytest.mark.train, pytest.mark.docker, pytest.mark.timeout(1800)]

MOST_SECONDS = 1500
"""For the whole loop; it takes about three minutes on two idle cores."""

STATUS = "query ($id: ID!) { runOrError(runId: $id) { ... on Run { status } } }"
PARTITIONS = """query ($path: [String!]!) { assetNodeOrError(assetKey: {path: $path}) { ... on AssetNode {
    partitionKeys } } }"""

PLOTS = [
    ("trajectories", "pass rate by tag"),
    ("triage", "who is to blame"),
    ("base_model", "pass rate"),
    ("contrast", "gap and coverage in embedded"),
    ("selected_capabilities", "kept in embedded"),
    ("adapter", "learning curve"),
    ("adapter_validation", "own and other skills"),
    ("routing", "confusion of the classifier on test tasks"),
    ("routing", "reliability of the classifier on test tasks"),
    ("evaluation", "pass rates of all arms"),
]
TABLES = [
    ("capability_dictionary", "proposed", "capability"),
    ("labels", "labels", "LACKING"),
    ("selected_capabilities", "decisions on embedded", "reason"),
    ("environment", "audit", "trace.pass_band"),
    ("environment_audit", "audit", "semantic.oracle_max"),
    ("adapter_validation", "harm", "verdict"),
    ("evaluation", "pass rates", "McNemar p"),
]


@pytest.fixture(scope="module")
def ui(tmp_path_factory: pytest.TempPathFactory, docker_daemon: None, browser: Any) -> Iterator[Opened]:
    folder = tmp_path_factory.mktemp("ui")
    yield from open_ui(["trace_assets", "ui"], folder / "home", folder, DAGSTER_HOME="")


@pytest.fixture(scope="module")
def page(ui: Opened, browser: Any) -> Iterator[Any]:
    shown = browser.new_page(viewport={"width": 1360, "height": 1000})
    shown.set_default_timeout(60_000)
    yield shown
    shown.close()


@pytest.fixture(scope="module")
def run(ui: Opened, page: Any) -> str:
    """Press `Launch Run` in the launchpad of the job, and wait until the run has ended."""
    page.goto(f"{ui.address}/jobs")
    page.get_by_role("link", name="whole_loop").first.click()
    page.get_by_role("tab", name="Launchpad").or_(page.get_by_text("Launchpad", exact=True)).first.click()
    page.get_by_role("button", name="Launch Run").click()
    page.wait_for_url("**/runs/**")
    shown = page.url
    name = shown.rstrip("/").rsplit("/", 1)[1].split("?")[0]
    page.goto("about:blank")  # a run's page that draws itself anew each second takes what the loop needs
    for _ in range(MOST_SECONDS // 2):
        status = ui.ask(STATUS, id=name)["runOrError"]["status"]
        if status in ("SUCCESS", "FAILURE", "CANCELED"):
            break
        time.sleep(2)
    page.goto(shown)
    page.get_by_text("bring_up_to_date").first.wait_for()
    keep(page, "run")
    assert status == "SUCCESS", page.inner_text("body")[-4000:]
    return name


def keep(page: Any, name: str) -> None:
    """Keep a picture where the environment asks for it."""
    if folder := os.environ.get("TRACE_SCREENSHOTS"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=Path(folder) / f"{name.replace(' ', '_')}.png")


def turn_to(ui: Opened, page: Any, asset: str) -> None:
    """Open an asset's latest materialization; of a partitioned one, that of its first partition."""
    keys = ui.ask(PARTITIONS, path=[asset])["assetNodeOrError"]["partitionKeys"]
    view = f"view=partitions&partition={keys[0]}" if keys else "view=events"
    page.goto(f"{ui.address}/assets/{asset}?{view}")


def test_the_log_of_the_run_names_each_item(ui: Opened, page: Any, run: str) -> None:
    for asset in ("contrast", "adapter_validation", "report"):
        page.goto(f"{ui.address}/runs/{run}?logs={asset}")
        page.get_by_text(f"✓ {asset}").first.wait_for()


@pytest.mark.parametrize(("asset", "title"), PLOTS)
def test_plot_is_drawn(ui: Opened, page: Any, run: str, asset: str, title: str) -> None:
    turn_to(ui, page, asset)
    row = page.locator("tr", has=page.get_by_text(title, exact=True)).last
    row.get_by_text("[Show Markdown]").click()
    image = page.locator("img[src^='data:image/svg']").last
    image.wait_for()
    size = image.evaluate("async one => { await one.decode(); return [one.naturalWidth, one.clientWidth] }")
    assert size[0] > 400 and size[1] > 300
    keep(page, f"{asset} {title}")
    page.keyboard.press("Escape")


@pytest.mark.parametrize(("asset", "title", "word"), TABLES)
def test_table_stands_in_the_page(ui: Opened, page: Any, run: str, asset: str, title: str, word: str) -> None:
    turn_to(ui, page, asset)
    row = page.locator("tr", has=page.get_by_text(title, exact=True)).first
    row.get_by_text(word).first.wait_for()
    keep(page, f"{asset} {title}")


def test_columns_are_described_and_figures_drawn_over_time(ui: Opened, page: Any, run: str) -> None:
    page.goto(f"{ui.address}/assets/contrast")
    page.get_by_text("ER-: LACKING / (LACKING + PRESENT) over failed trajectories.").first.wait_for()
    page.get_by_text("Plots", exact=True).first.click()
    page.get_by_text("cost_usd", exact=True).first.scroll_into_view_if_needed()
    keep(page, "contrast over time")


def test_the_asset_graph_shows_every_group(ui: Opened, page: Any, run: str) -> None:
    page.goto(f"{ui.address}/asset-groups")
    for group in ("config", "rollouts", "diagnosis", "synthesis", "training", "evaluation", "report"):
        page.get_by_text(group, exact=True).first.wait_for()
    keep(page, "lineage")
