"""What assets declare is noted down for the next process: it says the same, and nothing else is imported."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest

from trace_assets import code_versions, definitions
from trace_assets.assets.asset import Asset, StageResult
from trace_assets.orchestration import declarations

LOOK = """
import json, sys
from trace_assets import definitions
definitions.pipeline()  # where nobody has, notes down what is declared
print(json.dumps(sorted(sys.modules)))
"""
LOADED = """
import gc, json
from trace_assets.orchestration import loaded_ahead
print(json.dumps([gc.get_freeze_count(), gc.isenabled(), gc.get_threshold()]))
"""


@pytest.fixture(autouse=True)
def notes_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_versions, "REMEMBERED", tmp_path / "notes" / "code_versions.hashes")
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(declarations, "_rows", None)
    monkeypatch.setattr(declarations, "_made", {})


def noted_modules(monkeypatch: pytest.MonkeyPatch) -> list[Asset]:
    """Return what a process that has imported nothing recalls."""
    monkeypatch.setattr(declarations, "asset_of", lambda _: None)
    monkeypatch.setattr(declarations, "_rows", None)  # reads them
    found = declarations.recalled()
    assert found is not None
    return found


def test_what_is_noted_down_says_what_is_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    assert declarations.recalled() is None
    declared = definitions.declared_in(definitions.load_modules())
    declarations.note_down(declared)
    found = noted_modules(monkeypatch)
    assert [one.name for one in found] == [one.name for one in declared] and len(found) > 30
    for one, own in zip(found, declared, strict=True):
        for field in fields(Asset):
            if field.name != "work":
                assert _plain(getattr(one, field.name)) == _plain(getattr(own, field.name)), (one.name, field)
        assert inspect.getdoc(one.work) == inspect.getdoc(own.work)
        assert list(inspect.signature(one.work).parameters) == list(inspect.signature(own.work).parameters)


def _plain(value: object) -> object:
    return list(value) if isinstance(value, list | tuple) else value


def test_notes_of_another_source_count_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    declarations.note_down(definitions.declared_in(definitions.load_modules()))
    monkeypatch.setattr(declarations, "_rows", None)
    assert declarations.recalled() is not None
    monkeypatch.setattr(declarations, "_rows", None)
    known = code_versions._remembered()
    monkeypatch.setattr(
        code_versions, "_remembered", lambda: code_versions._Remembered("other", known.hashes, 0)
    )
    assert declarations.recalled() is None


def _stood_in(_: object) -> StageResult:
    return StageResult("v", 0)


@pytest.mark.parametrize("how", ["its work", "its declaration", "the function"])
def test_what_was_put_in_the_place_of_a_function_is_not_noted_down(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next process, which knows of no stand-in, would run it: a study of the same checkout did."""
    from trace_assets.assets import base_model

    work = base_model.write_base_model
    declared = work.__asset__  # type: ignore[attr-defined]
    with monkeypatch.context() as patch:
        if how == "the function":
            patch.setattr(base_model, "write_base_model", _stood_in)
        else:
            other = replace(declared, work=_stood_in) if how == "its work" else replace(declared, checks={})
            patch.setattr(work, "__asset__", other)
        definitions.pipeline()
        assert code_versions.noted(declarations.FILE) is None
    assert declarations.recalled() is None, "nor is it recalled here"
    definitions.pipeline()
    found = {one.name: one.work for one in noted_modules(monkeypatch)}["base_model"]
    assert (found.__module__, found.__name__) == (work.__module__, work.__name__)


def test_what_a_function_declares_now_counts_where_its_module_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    declarations.note_down(definitions.declared_in(definitions.load_modules()))
    from trace_assets.assets import contrast

    other = replace(contrast.estimate_contrast.__asset__, light=False)  # type: ignore[attr-defined]
    monkeypatch.setattr(contrast.estimate_contrast, "__asset__", other)
    assert next(one for one in definitions.pipeline() if one.name == "contrast") is other


def test_a_noted_function_is_the_modules_own_when_it_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    declarations.note_down(definitions.declared_in(definitions.load_modules()))
    work = {one.name: one.work for one in noted_modules(monkeypatch)}["contrast"]
    called: list[object] = []
    made = StageResult("v", 0)

    def own(study: object) -> StageResult:
        called.append(study)
        return made

    monkeypatch.setattr("trace_assets.assets.contrast.estimate_contrast", own)
    assert work("a study") is made and called == ["a study"]


def _said(program: str) -> list[object]:
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    found: list[object] = json.loads(done.stdout)
    return found


def test_who_looks_at_the_graph_imports_no_module_of_an_asset() -> None:
    _said(LOOK)
    modules = {str(name) for name in _said(LOOK)}
    own = {name for name in modules if name.startswith("trace_assets.")}
    assert {name for name in own if name.startswith("trace_assets.assets.")} == {"trace_assets.assets.asset"}
    rooms = ("diagnosis", "environments", "evaluation", "formats", "serving", "tournament")
    assert not [name for name in own if name.split(".")[1] in rooms]
    assert len(own) < 120  # 425 with the modules of all assets


def test_workers_are_forked_with_all_assets_and_no_garbage_to_look_through() -> None:
    frozen, enabled, threshold = _said(LOADED)
    assert isinstance(frozen, int) and frozen > 100_000
    assert enabled and threshold == [50_000, 20, 20]
