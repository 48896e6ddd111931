"""A pytest plugin: which tests run which lines, also in processes they start; and which test failed first.

Asked for by environment variables, so that pytest-xdist's workers obey them too:
`MUTANTS_CONTEXTS`: a folder to write coverage data and a JSON file of tests a worker into.
`MUTANTS_FAILED`: a file to write the node id of the first failed test to.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

CONTEXT = "MUTANTS_TEST"
"""Names the running test to processes that it starts: their coverage is started with it as its context."""

RC = """
[run]
branch = false
parallel = true
data_file = {folder}/data
include = {include}
context = ${{MUTANTS_TEST-}}
patch =
    _exit
    fork
disable_warnings =
    no-data-collected
    module-not-imported
    already-imported
"""


def fixture_context(definition: Any) -> str:
    return f"fixture {definition.baseid}::{definition.argname}"


class Contexts:
    """Measures every test under its own name, and every shared fixture under the fixture's."""

    def __init__(self, folder: Path) -> None:
        import coverage

        self.folder = folder
        self.tests: dict[str, dict[str, Any]] = {}
        os.environ[CONTEXT] = ""
        self.coverage = coverage.Coverage(config_file=str(folder / "rc"), data_suffix=True)
        self.coverage.set_option("run:patch", ["_exit"])  # forks of this process are measured by `_forked`
        self.coverage.start()
        os.environ["COVERAGE_PROCESS_START"] = str(folder / "rc")
        os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        """Begin anew, with the context of now."""
        if "COVERAGE_PROCESS_START" in os.environ:
            from coverage.control import process_startup

            self.coverage._auto_save = False
            self.coverage.stop()
            process_startup(force=True)

    def switch(self, context: str) -> None:
        os.environ[CONTEXT] = context
        self.coverage.switch_context(context)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        definitions = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {})
        shared = {
            fixture_context(one)
            for several in definitions.values()
            for one in several
            if one.scope != "function"
        }
        self.tests[item.nodeid] = {"fixtures": sorted(shared), "seconds": 0.0, "passed": True}
        self.switch(item.nodeid)
        try:
            return (yield)
        finally:
            self.switch("")

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Generator[None, object, object]:
        before = os.environ[CONTEXT]
        if fixturedef.scope == "function":
            return (yield)
        self.switch(fixture_context(fixturedef))
        try:
            return (yield)
        finally:
            self.switch(before)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if one := self.tests.get(report.nodeid):  # the controller of xdist hears of its workers' too
            one["seconds"] += report.duration
            one["passed"] &= report.passed

    def pytest_sessionfinish(self) -> None:
        os.environ.pop("COVERAGE_PROCESS_START", None)
        self.coverage.stop()
        self.coverage.save()
        (self.folder / f"tests-{os.getpid()}.json").write_text(json.dumps(self.tests))


class FirstFailed:
    """Writes down which test failed first."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.file.exists():
            self.file.write_text(report.nodeid)


def pytest_configure(config: pytest.Config) -> None:
    if folder := os.environ.get("MUTANTS_CONTEXTS"):
        config.pluginmanager.register(Contexts(Path(folder)))
    if file := os.environ.get("MUTANTS_FAILED"):
        config.pluginmanager.register(FirstFailed(Path(file)))
