"""docs/architecture.md says what the code does: tables up to date, files and functions there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.architecture import PAGE, assets_table, rewritten
from tests.docs.imports import ROOT, modules
from trace_assets.definitions import pipeline


@pytest.fixture(scope="module")
def page() -> str:
    return PAGE.read_text(encoding="utf-8")


def test_what_is_read_off_the_code_is_up_to_date(page: str) -> None:
    assert rewritten(page) == page, "docs/architecture.md is behind the code; run `python -m tests.docs`"


def test_a_page_that_is_behind_is_told(page: str) -> None:
    behind = page.replace("`estimate_contrast`", "`another_function`")
    assert behind != page and rewritten(behind) == page


def test_every_asset_has_its_row() -> None:
    table = assets_table()
    for one in pipeline():
        assert f"| `{one.name}` |" in table
    assert table.count("\n") == len(pipeline()) + 1


def test_every_folder_of_the_package_is_named(page: str) -> None:
    folders = {file.parent for file in modules().values()} - {ROOT}
    named = {f"trace_assets/{name}" for name in re.findall(r"^\| `trace_assets/(.+?)/` \|", page, re.M)}
    exempt = {"environments/exports/templates", "sandbox/selftest/attacks"}
    found = {f"trace_assets/{one.relative_to(ROOT).as_posix()}" for one in folders}
    assert named == {one for one in found if not any(part in one for part in exempt)}


def test_files_and_functions_of_the_trips_are_there(page: str) -> None:
    trips = page[page.index("## Three trips") :]
    places = re.findall(r"`((?:[a-z_0-9]+/)+[a-z_0-9]+\.py)(?::([A-Za-z_]+))?`", trips)
    assert len(places) > 20
    for file, name in places:
        text = Path(ROOT / file).read_text(encoding="utf-8")
        assert not name or re.search(rf"^(def|class) {name}\b", text, re.M), f"{file} has no {name}"
