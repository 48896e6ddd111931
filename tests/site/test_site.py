"""The docs site builds strictly, without a network, and every link in it leads somewhere."""

from __future__ import annotations

import re
import socket
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from trace_assets.cli.commands import COMMANDS
from trace_assets.records import TABLES
from trace_assets.settings import Settings

pytest.importorskip("material", reason="mkdocs-material is not installed: pip install -e '.[docs]'")


class Links(HTMLParser):
    """Gathers ids, links and what a reader's browser would load."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.ids |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if tag in ("script", "img", "iframe") and "src" in found:
            self.loaded.append(found["src"])
        if tag == "link" and found.get("rel") in ("stylesheet", "icon", "preconnect"):
            self.loaded.append(found["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    root, folder = Path(__file__).resolve().parents[2], tmp_path_factory.mktemp("site")
    path = list(sys.path)

    def refuse(*_: object) -> None:
        raise AssertionError("the site is built without a network")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", refuse)
        build(load_config(str(root / "mkdocs.yml"), site_dir=str(folder), strict=True))
    sys.path[:] = path
    return folder


def test_every_link_leads_somewhere_and_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    pages = {file: Links(file.read_text(encoding="utf-8")) for file in site.rglob("*.html")}
    assert len(pages) > 40
    for file, page in pages.items():
        for source in page.loaded:
            assert not urlsplit(source).netloc, f"{file.name} loads {source}"
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or file.name == "404.html":
                continue
            goal = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            goal = goal / "index.html" if goal.is_dir() else goal
            assert goal.exists(), f"{file.relative_to(site)}: {link}"
            if parts.fragment and goal in pages:
                assert unquote(parts.fragment) in pages[goal].ids | {""}, f"{file.relative_to(site)}: {link}"


def test_references_name_every_command_setting_and_table(site: Path) -> None:
    def said(name: str) -> str:
        return re.sub(r"<[^>]+>", "", (site / "reference" / name).read_text(encoding="utf-8"))

    assert all(f"trace {command.name}" in said("commands.html") for command in COMMANDS)
    assert all(f"[{section}]" in said("settings.html") for section in Settings.model_fields)
    assert "min_gap" in said("settings.html") and "contrastive" in said("settings.html").lower()
    assert all(record.table in said("tables.html") for record in TABLES)


def test_both_reports_are_there_and_say_that_they_are_made_up(site: Path) -> None:
    for name in ("diagnosis.html", "whole-loop.html"):
        assert "TRACE report" in (site / "examples" / name).read_text(encoding="utf-8")
    assert "no figure in it is a result" in (site / "examples" / "reports.html").read_text(encoding="utf-8")
