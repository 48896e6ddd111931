"""The page as a reader sees it: from a capability to the messages, without a script."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from trace_assets.report.data import ReportData
from trace_assets.report.page import render

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser without scripts; the tests are skipped where there is none."""
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install -e '.[browser]'"
    )
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    program = os.environ.get("TRACE_BROWSER") or next(filter(None, map(shutil.which, names)), None)
    if program is None:
        pytest.skip(f"no browser: none of {', '.join(names)} is on PATH, and TRACE_BROWSER is not set")
    with sync_api.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def address(complete: ReportData, tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(render(complete), encoding="utf-8")
    return path.as_uri()


def _open(browser: Any, address: str, width: int = 1280, scheme: str = "light") -> Any:
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, java_script_enabled=False
    )
    page = context.new_page()
    page.goto(address)
    return page


def test_each_candidate_leads_to_its_messages(browser: Any, address: str, complete: ReportData) -> None:
    page = _open(browser, address)
    assert page.locator("#deficits td.what > a").count() == len(complete.selected)
    rejected = next(row for row in complete.selected if not row.kept and row.capability_id == "polite")
    evidence = page.locator("#evidence > details").filter(has_text=rejected.name)
    assert not evidence.locator(".turn.shows").first.is_visible()  # closed, until it is asked for
    page.locator("#deficits td.what > a").filter(has_text=rejected.name).click()
    about = evidence.locator(".about")
    assert about.is_visible() and 0 <= about.bounding_box()["y"] < 900
    assert evidence.locator(".turn.shows").first.is_visible()


def test_links_beside_a_candidate_lead_to_one_labelled_message(browser: Any, address: str) -> None:
    page = _open(browser, address)
    links = page.locator("#deficits .see a")
    for place in range(links.count()):
        link = links.nth(place)
        message = page.locator(f'[id="{link.get_attribute("href").removeprefix("#")}"]')
        link.click()
        assert message.is_visible()
        assert 0 <= message.bounding_box()["y"] < 900
        assert "shows it" in message.inner_text()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (420, "light"), (420, "dark")])
def test_nothing_is_wider_than_the_window(browser: Any, address: str, width: int, scheme: str) -> None:
    page = _open(browser, address, width, scheme)
    assert page.locator("html").bounding_box()["width"] == width
    for box in page.locator("section, summary, .turn, .note").all():
        if box.is_visible():
            place = box.bounding_box()
            assert place["x"] + place["width"] <= width, box.inner_text()[:80]
    ground = page.locator("body").evaluate("e => getComputedStyle(e).backgroundColor")
    assert ground == ("rgb(14, 18, 25)" if scheme == "dark" else "rgb(245, 246, 249)")
