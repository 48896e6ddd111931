"""The pytest plugin: every promise of a kit is a test, a broken one fails and nothing else does."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.quick import one_of_each
from trace_assets.diagnosis.conformance import CHECKS as OF_ANALYSTS
from trace_assets.targets.conformance import CHECKS as OF_TARGETS
from trace_assets.targets.template import write_template

pytest_plugins = ("pytester",)
PLUGIN = ("-p", "trace_assets.pytest_plugin", "-p", "no:cacheprovider")


@pytest.fixture(autouse=True)
def loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the package is installed its entry point loads the plugin as well: one too many for pytest."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


@pytest.fixture
def library(pytester: pytest.Pytester) -> Path:
    write_template("library", pytester.path / "library")
    (pytester.path / "library" / "test_target.py").unlink()
    return pytester.path / "library" / "target.py"


def test_it_is_declared_as_a_plugin(project_root: Path) -> None:
    project = tomllib.loads((project_root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"trace_assets": "trace_assets.pytest_plugin"}


def test_every_check_of_a_target_is_a_test(pytester: pytest.Pytester, library: Path) -> None:
    done = pytester.runpytest_subprocess(
        *PLUGIN, "--trace-target", "library/target.py", "--trace-tasks", "4", "-v"
    )
    done.assert_outcomes(passed=len(OF_TARGETS))
    done.stdout.fnmatch_lines(["*trace-target*library/target.py*::solves*PASSED*"])


def test_a_broken_promise_fails_its_own_test(pytester: pytest.Pytester, library: Path) -> None:
    text = library.read_text(encoding="utf-8")
    assert "def oracle(" in text
    library.write_text(text + "\n\ndef oracle(task):\n    return []\n", encoding="utf-8")
    done = pytester.runpytest_subprocess(*PLUGIN, "--trace-target", "library", "--trace-tasks", "4", "-v")
    outcomes = done.parseoutcomes()
    assert outcomes["failed"] >= 1 and outcomes["passed"] >= 1, outcomes
    done.stdout.fnmatch_lines(["*::lists_tasks*PASSED*", "*::solves*FAILED*"])
    assert done.ret == pytest.ExitCode.TESTS_FAILED


@pytest.mark.parametrize(
    ("named", "words"),
    one_of_each(
        [("nowhere.py", "no module nowhere.py"), ("nowhere:make", "cannot be imported"), ("x", "neither")]
    ),
)
def test_what_is_not_there_is_no_pass(pytester: pytest.Pytester, named: str, words: str) -> None:
    done = pytester.runpytest_subprocess(*PLUGIN, "--trace-target", named)
    assert done.parseoutcomes() == {"failed": len(OF_TARGETS)}
    done.stdout.fnmatch_lines([f"*{words}*"])


@pytest.mark.ci
def test_an_analyst_is_checked_beside_tests_of_ones_own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        mine="""
        from trace_assets.diagnosis.llm.analyst import rehearse  # importable beside the analyst

        def make():
            class Silent:
                name = "silent"
                def propose(self, trajectories): return []
                def label(self, trajectories, capabilities): return []
            return Silent()
        """,
        test_own="def test_own(trace_check_target, trace_check_analyst): pass",
    )
    done = pytester.runpytest_subprocess(*PLUGIN, "--trace-analyst", "mine:make", "--trace-tasks", "20")
    outcomes = done.parseoutcomes()
    assert sum(outcomes.values()) == len(OF_ANALYSTS) + 1 and outcomes["failed"] >= 1, outcomes


def test_nothing_is_added_unless_it_is_asked_for(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("import sys\ndef test_light(): assert 'polars' not in sys.modules")
    pytester.runpytest_subprocess(*PLUGIN).assert_outcomes(passed=1)
