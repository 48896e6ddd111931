"""Wheel and sdist, installed in a fresh environment, do their work from an empty folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.orchestration.simulations import simulation_file
from tests.test_wheel import LEAVE, SOURCE

pytestmark = [
    pytest.mark.slow,  # builds the package and runs the program five times, a minute on idle cores
    pytest.mark.skipif(
        find_spec("setuptools") is None or find_spec("pip") is None, reason="built by pip and setuptools"
    ),
]
BUILD = "import sys; from setuptools import build_meta as b; getattr(b, 'build_' + sys.argv[1])(sys.argv[2])"


def run(folder: Path, *command: str) -> str:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("TRACE_", "PYTHON")) and name != "VIRTUAL_ENV"
    }
    environment = {**kept, "HOME": str(folder)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_it_installs_and_runs_from_an_empty_folder(kind: str, project_root: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in SOURCE:
        place = project_root / name
        shutil.copytree(place, source / name, ignore=LEAVE) if place.is_dir() else shutil.copy(place, source)
    run(source, sys.executable, "-c", BUILD, kind, str(tmp_path / "built"))
    (built,) = (tmp_path / "built").iterdir()
    assert built.name.endswith(".whl" if kind == "wheel" else ".tar.gz")

    fresh = tmp_path / "fresh"
    run(tmp_path, sys.executable, "-m", "venv", "--without-pip", str(fresh))
    (inside,) = fresh.glob("lib/python*/site-packages")
    # What it depends on, without a network; what this environment has installed in place does not come along.
    beside = [place for place in sys.path if Path(place).name == "site-packages"]
    (inside / "dependencies.pth").write_text("\n".join(beside) + "\n", encoding="utf-8")
    python, empty = str(fresh / "bin" / "python"), tmp_path / "empty"
    empty.mkdir()
    options = ("--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--ignore-installed")
    run(empty, python, "-m", "pip", "install", *options, str(built))
    where = run(empty, python, "-c", "import trace_assets; print(trace_assets.__file__)")
    assert Path(where.strip()).is_relative_to(fresh)

    trace = str(fresh / "bin" / "trace")
    assert run(empty, trace, "--version").startswith("trace-assets ")
    run(empty, trace, "init", "--to", "study")
    assert (empty / "study" / "trace.toml").is_file()
    sample = simulation_file(tmp_path / "desk.json", "desk", n=40, lacking=15)
    run(empty, trace, "ingest", str(sample))
    assert "failure" in run(empty, trace, "diagnose").lower()
    assert "--trace-target" in run(empty, python, "-m", "pytest", "--help")
