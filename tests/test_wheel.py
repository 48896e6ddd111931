"""What is installed: one package, with all that it reads, wherever it is run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

import pytest

from trace_assets.code_versions import DECIDED_BY, code_version
from trace_assets.store.views import ready_queries

pytestmark = pytest.mark.skipif(
    find_spec("setuptools") is None or find_spec("pip") is None,
    reason="a wheel is built by pip and setuptools",
)
SOURCE = (
    "pyproject.toml",
    "setup.py",
    "MANIFEST.in",
    "README.md",
    "LICENSE",
    "trace_assets",
    "sandboxes",
    "sql",
)
LEAVE = shutil.ignore_patterns("__pycache__", ".*")


def run(folder: Path, *arguments: str, **variables: str) -> str:
    own = {name: value for name, value in os.environ.items() if name not in ("TRACE_SQL", "TRACE_SANDBOXES")}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder, env={**own, **variables}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(project_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"  # a build leaves folders behind
    source.mkdir()
    for name in SOURCE:
        place = project_root / name
        if place.is_dir():
            shutil.copytree(place, source / name, ignore=LEAVE)
        else:
            shutil.copy(place, source)
    options = ("--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder))
    run(source, "-m", "pip", "wheel", *options, ".")
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("installed")
    with ZipFile(wheel) as packed:
        packed.extractall(place)
    return place


def test_it_installs_one_package_and_nothing_beside_it(wheel: Path) -> None:
    tops = {name.partition("/")[0] for name in ZipFile(wheel).namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"trace_assets"}


def test_it_holds_every_file_of_the_package_and_of_the_folders_beside_it(
    wheel: Path, project_root: Path
) -> None:
    def files(name: str) -> set[str]:
        found = (one for one in (project_root / name).rglob("*") if one.is_file())
        inside = (one.relative_to(project_root) for one in found)
        return {one.as_posix() for one in inside if not any(part[0] in "._" for part in one.parts[:-1])}

    beside = {f"trace_assets/{name}" for folder in ("sandboxes", "sql") for name in files(folder)}
    held = set(ZipFile(wheel).namelist())
    assert (files("trace_assets") | beside) - held == set()
    assert "trace_assets/sandboxes/worker/__main__.py" in held


@pytest.mark.ci
def test_from_an_empty_folder_it_finds_its_queries_its_worker_and_the_same_versions(
    installed: Path, tmp_path: Path
) -> None:
    code = (
        "import json, trace_assets as t\n"
        "from trace_assets.code_versions import DECIDED_BY, code_version\n"
        "from trace_assets.sandbox.config import folder, worker_hash\n"
        "from trace_assets.store.views import ready_queries, sql_folder\n"
        "print(json.dumps([t.__file__, str(folder()), str(sql_folder()), worker_hash(), "
        "list(ready_queries()), len(list((sql_folder() / 'views').glob('*.sql'))), "
        "{n: code_version(n) for n in DECIDED_BY}]))"
    )
    here = installed / "trace_assets"
    said = json.loads(run(tmp_path, "-c", code, PYTHONPATH=str(installed)))
    assert said[:3] == [str(here / "__init__.py"), str(here / "sandboxes"), str(here / "sql")]

    from trace_assets.sandbox.config import worker_hash
    from trace_assets.store.views import sql_folder

    assert said[3] == worker_hash()
    assert said[4] == list(ready_queries()) != []
    assert said[5] == len(list((sql_folder() / "views").glob("*.sql"))) > 0
    assert said[6] == {name: code_version(name) for name in DECIDED_BY}


@pytest.mark.ci
def test_from_an_empty_folder_its_commands_answer(installed: Path, tmp_path: Path) -> None:
    def trace(*arguments: str) -> str:
        variables = {
            "PYTHONPATH": str(installed),
            "TRACE_HOME": str(tmp_path / "home"),
            "HOME": str(tmp_path),
        }
        return run(tmp_path, "-m", "trace_assets", *arguments, **variables)

    assert "whole loop" in trace("demo", "--help")
    assert "pass_rate_by_task" in trace("sql")
    assert "capability_dictionary" in trace("sync", "--dry-run")
