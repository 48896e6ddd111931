"""An edited settings file has the page read its definitions anew, once an edit."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.answering import Answer, AnsweringServer
from trace_assets.cli import ui
from trace_assets.cli.ui import LOCATION, reload_definitions, reloading


class Page(AnsweringServer):
    """Answers GraphQL requests with one kind of result and remembers them."""

    status = 200
    answered = 0
    """How often it was well."""

    def answer(self, path: str, body: dict[str, Any]) -> Answer:
        status = self.status
        self.answered += status == 200
        return status, {}, {}

    def heard(self, count: int) -> bool:
        """Wait until that many requests came; tell whether they did and no more came shortly after."""
        end = time.monotonic() + 600
        while len(self.requests) < count and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(0.2)
        return len(self.requests) == count


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Iterator[Page]:
    monkeypatch.setattr(ui, "EVERY_SECONDS", 0.02)
    with Page() as made:
        yield made


def edit(settings: Path, text: str) -> None:
    """Put a new file in its place at once: emptied and then written, it would be edited twice."""
    new = settings.with_suffix(".new")
    new.write_text(text)
    new.replace(settings)


def test_every_edit_is_told_once_and_nothing_else(page: Page, tmp_path: Path) -> None:
    settings = tmp_path / "trace.toml"
    settings.write_text("a = 1")
    with reloading(page.url, settings):
        assert page.heard(0)
        edit(settings, "a = 2")
        assert page.heard(1)
        settings.unlink()
        edit(settings, "a = 2")
        assert page.heard(1)
        edit(settings, "a = 3")
        assert page.heard(2)
    edit(settings, "a = 4")
    assert page.heard(2)
    assert {request["variables"]["name"] for request in page.requests} == {LOCATION}


def test_a_page_that_is_not_up_yet_is_told_later(page: Page, tmp_path: Path) -> None:
    settings = tmp_path / "trace.toml"
    settings.write_text("a = 1")
    page.status = 503
    with reloading(page.url, settings):
        settings.write_text("a = 2")
        end = time.monotonic() + 600
        while len(page.requests) < 2 and time.monotonic() < end:
            time.sleep(0.01)
        assert len(page.requests) >= 2
        page.status = 200
        while not page.answered and time.monotonic() < end:
            time.sleep(0.01)
        assert page.heard(len(page.requests)) and page.answered == 1


def test_no_proxy_stands_before_a_page_of_this_machine(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert reload_definitions(page.url)


def test_without_a_settings_file_or_a_page_nothing_happens(page: Page, tmp_path: Path) -> None:
    for missing in (None, tmp_path / "none.toml"):
        with reloading(page.url, missing):
            pass
    assert page.requests == []
    assert not reload_definitions("http://127.0.0.1:9")
