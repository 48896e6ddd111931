"""Tests stand in surroundings of their own, however they were started."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

SEEN: list[str] = []


@pytest.mark.parametrize("turn", [1, 2])
def test_each_test_has_a_home_and_a_folder_of_its_own(turn: int) -> None:
    home, here = os.environ["TRACE_HOME"], os.getcwd()
    assert home not in SEEN and here not in SEEN and not Path(home).exists() and not os.listdir()
    SEEN.extend([home, here])
    os.environ["LEFT_BY_A_TEST"] = "1"
    os.environ.pop("LANG")
    assert turn == 1 or not Path(SEEN[0]).parent.exists()


def test_what_the_last_test_left_in_the_environment_is_gone() -> None:
    assert "LEFT_BY_A_TEST" not in os.environ and os.environ["LANG"] == "C.UTF-8"
    assert not {"HTTP_PROXY", "DAGSTER_HOME", "TRACE_SET", "OPENAI_API_KEY"} & os.environ.keys()


def test_the_home_is_not_the_users(project_root: Path) -> None:
    users = os.environ["PYTEST_USERS_HOME"]
    assert Path.home() != Path(users)
    for path in (
        f"{users}/.cache/huggingface/token",
        f"{users}/.dagster",
        project_root / ".trace" / "tables",
    ):
        with pytest.raises(PermissionError, match="which is the user's"):
            os.listdir(path)
        with pytest.raises(PermissionError, match="which is the user's"):
            open(path).close()


def test_a_folder_that_is_called_as_the_users_is_removed_with_the_tree_it_is_in(
    project_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its name alone, as `rmtree` goes through a tree; pytest does when it stands in the checkout."""
    (tmp_path / "old" / ".trace" / "tables").mkdir(parents=True)
    monkeypatch.chdir(project_root)
    shutil.rmtree(tmp_path / "old")
    assert not list(tmp_path.iterdir())


def test_files_that_are_begun_with_are_there(project_root: Path, pytestconfig: pytest.Config) -> None:
    (shared,) = {one.LONGEST for one in pytestconfig.pluginmanager.get_plugins() if hasattr(one, "LONGEST")}
    assert [name for name in shared if not (project_root / "tests" / name).is_file()] == []
    assert len(set(shared)) == len(shared)


def test_bytecode_is_kept_for_the_next_process() -> None:
    assert not sys.dont_write_bytecode and "PYTHONDONTWRITEBYTECODE" not in os.environ


HOSTILE = {
    "HTTP_PROXY": "http://127.0.0.1:9",
    "ALL_PROXY": "http://127.0.0.1:9",
    "LC_ALL": "C",
    "TRACE_HOME": "/nowhere",
    "TRACE_SET": "nonsense=1",
    "TRACE__SELECTION__MIN_GAP": "0.9",
    "DAGSTER_HOME": "/nowhere",
    "OPENAI_API_KEY": "sk-secret",
    "PYTHONWARNINGS": "error",
    "PYTHONDONTWRITEBYTECODE": "1",
    "NO_COLOR": "1",
}
INSIDE = """
import os, signal, subprocess, sys

def test_inside():
    assert signal.getsignal(signal.SIGINT) == signal.default_int_handler
    asked = "import signal; print(signal.getsignal(signal.SIGINT) == signal.default_int_handler)"
    said = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True).stdout
    assert said == "True\\n"
    assert os.umask(0o022) == 0o022
    assert not {name for name in NAMES if name != "TRACE_HOME" and name in os.environ}
    assert "/nowhere" not in os.environ["TRACE_HOME"]
"""


def test_however_they_were_started_they_are_the_same(project_root: Path, tmp_path: Path) -> None:
    """In the background of a script, with another umask, proxies, a key, and settings for another home."""
    test = tmp_path / "test_inside.py"
    test.write_text(f"NAMES = {sorted(HOSTILE)!r}\n{INSIDE}")
    arguments = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", str(project_root / "pyproject.toml")]
    plugin = ["--rootdir", str(tmp_path), "-p", "conftest", str(test)]

    def prepare() -> None:
        os.umask(0o077)
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    done = subprocess.run(
        [sys.executable, *arguments, *plugin],
        env={**os.environ, **HOSTILE, "PYTHONPATH": str(project_root)},
        cwd=tmp_path,
        preexec_fn=prepare,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert "1 passed" in done.stdout, done.stdout + done.stderr


MAKES_A_HOME = """
import os, pytest

@pytest.fixture(scope="module")
def home():
    os.environ["DAGSTER_HOME"] = "/of/this/module"

def test_first(home):
    pass

def test_second():
    assert os.environ["DAGSTER_HOME"] == "/of/this/module"
"""


def test_what_a_modules_fixtures_set_ends_with_the_module(project_root: Path, tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(MAKES_A_HOME)
    (tmp_path / "test_b.py").write_text(
        "import os\n\ndef test_third():\n    assert 'DAGSTER_HOME' not in os.environ\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "conftest", "."],
        env={**os.environ, "PYTHONPATH": str(project_root)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert "3 passed" in done.stdout, done.stdout + done.stderr
