"""Code versions move with the code that decides a result, and with nothing else."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from trace_assets import code_versions
from trace_assets.code_versions import DECIDED_BY, OTHERS, ROOT, code_version
from trace_assets.definitions import stage_assets

HEAVY = ("torch", "docker", "pydantic", "polars", "jinja2", "dagster")


def forget() -> None:
    for cached in (code_version, code_versions.graph, code_versions._kept, code_versions._remembered):
        cached.cache_clear()


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The program's own source in a folder where a test may edit it."""
    root = tmp_path / "trace_assets"
    shutil.copytree(ROOT, root, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT.parent / "sandboxes", tmp_path / "sandboxes")
    monkeypatch.setattr(code_versions, "ROOT", root)
    monkeypatch.setattr(code_versions, "KEPT", root / "code_versions.json")
    forget()
    yield root
    forget()


def moved(copy: Path, file: str, old: str, new: str, names: Sequence[str] = ()) -> set[str]:
    """Edit a file, and return what has another version by that."""
    before = {name: code_version(name) for name in names or (*DECIDED_BY, *OTHERS)}
    text = (copy / file).read_text()
    assert old in text
    (copy / file).write_text(text.replace(old, new))
    forget()
    return {name for name, version in before.items() if code_version(name) != version}


def test_what_was_found_once_is_remembered_until_a_source_file_is_another(copy: Path) -> None:
    file = copy / code_versions.REMEMBERED
    before = code_version("triage")
    code_versions.remember()
    stored = json.loads(file.read_text())
    forget()
    assert code_version("triage") == before and not code_versions.graph()._modules, "it was parsed again"
    # What is remembered is what counts, and of these files alone.
    file.write_text(json.dumps({**stored, "hashes": dict.fromkeys(stored["hashes"], "00" * 32)}))
    forget()
    assert code_version("triage") != before
    (copy / "errors.py").write_text((copy / "errors.py").read_text() + "\n")
    forget()
    assert code_version("triage") == before and code_versions.graph()._modules
    for spoilt in ("", "[]", "{"):
        file.write_text(spoilt)
        forget()
        assert code_version("triage") == before


def test_nothing_is_remembered_where_nothing_may_be_written(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code_version("triage")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    code_versions.remember()
    assert not (copy / "__pycache__").exists()
    (copy / "__pycache__").mkdir()
    code_versions.remember()
    assert (copy / code_versions.REMEMBERED).is_file(), "an installation has compiled it"
    shutil.rmtree(copy / "__pycache__")
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    (copy / "__pycache__").write_text("not a folder")
    code_versions.remember()
    assert (copy / "__pycache__").read_text() == "not a folder"


def test_every_asset_has_a_version_of_its_code() -> None:
    codes = {spec.key.to_user_string(): spec.code_version for asset in stage_assets() for spec in asset.specs}
    assert set(DECIDED_BY) == {name for name in codes if not name.startswith("config/")}
    assert {name: codes[name] for name in DECIDED_BY} == {name: code_version(name) for name in DECIDED_BY}
    assert len(set(codes.values())) == len(codes)


@pytest.mark.ci
def test_an_edit_moves_what_follows_from_it_alone(copy: Path) -> None:
    # A repair of a lesson over several tools is that of the one that the run lacks: the detector says which.
    of_labels = {
        "capability_dictionary",
        "labels",
        "stability",
        "detectors",
        "pilot",
        "failure_causes",
        "repairs",
    }
    detector = "diagnosis/detectors/missing_looks.py"
    found = moved(copy, detector, "return ", "return 0 or ")
    assert {"detectors", "capability_dictionary", "labels"} <= found <= of_labels
    assert moved(copy, detector, "return 0", "return  0", ["labels"]) == set()


def test_each_prompt_moves_the_version_of_its_own_stage(copy: Path) -> None:
    models = ("discovery by a model", "labelling by a model")
    prompts = "diagnosis/llm/prompts"

    def both(file: str) -> tuple[bool, bool]:
        edit = ("e", "E") if file.endswith(".md") else ("return ", "return 0 or ")
        found = moved(copy, file, *edit, models)
        return models[0] in found, models[1] in found

    assert both(f"{prompts}/label.md") == (False, True)
    assert both(f"{prompts}/discover.md") == (True, False)
    assert both(f"{prompts}/merge.md") == (True, False)
    assert both(f"{prompts}/recognise.md") == (True, False)
    assert both(f"{prompts}/transcript.md") == (True, True)
    assert both("diagnosis/llm/transcript.py") == (True, True)
    assert both(f"{prompts}/triage.md") == (False, False)
    assert both("diagnosis/llm/budget.py") == (False, False)


def test_code_that_gives_the_same_goes_on_under_the_old_version(copy: Path) -> None:
    before = code_version("contrast")
    assert "contrast" in moved(copy, "assets/contrast.py", "len(rows),", "0 + len(rows),", ["contrast"])
    kept = {"contrast": {"content": code_version("contrast"), "version": before}}
    (copy / "code_versions.json").write_text(json.dumps(kept))
    forget()
    assert code_version("contrast") == before
    assert moved(copy, "assets/contrast.py", "0 + len(rows),", "1 + len(rows),", ["contrast"]) == {"contrast"}


def test_kept_versions_are_of_the_code_that_is_there() -> None:
    """A line of code that was edited since says nothing any more: `make keep-versions` takes it away."""
    kept = json.loads(code_versions.KEPT.read_text(encoding="utf-8"))
    stale = {
        name
        for name, one in kept.items()
        if one["content"] != code_versions.content_hash(*(DECIDED_BY.get(name) or OTHERS.get(name, ())))
    }
    assert stale == set()


@pytest.mark.ci
def test_versions_are_cheap_to_find() -> None:
    code = (
        "import sys; from trace_assets.code_versions import DECIDED_BY, code_version\n"
        f"[code_version(name) for name in DECIDED_BY]; print([m for m in {HEAVY!r} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
def test_what_python_is_compiling_moves_nothing(copy: Path) -> None:
    before = {name: code_version(name) for name in DECIDED_BY}
    folder = copy / "diagnosis" / "detectors" / "__pycache__"
    folder.mkdir()
    (folder / "values.cpython-311.pyc.140132").write_bytes(b"half a file")
    forget()
    assert {name: code_version(name) for name in DECIDED_BY} == before
