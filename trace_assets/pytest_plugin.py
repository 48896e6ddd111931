"""pytest's door to the conformance kits: `pytest --trace-target library/target.py --trace-analyst mine:make`.

Every check of a kit is a test of its own. One that cannot tell is skipped with its reason, and is no pass.
Loaded in every pytest run of an environment that has this package, so nothing else is imported before it is
asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from trace_assets.conformance import Finding
    from trace_assets.targets.protocol import Target

TARGET, ANALYST, TASKS = "--trace-target", "--trace-analyst", "--trace-tasks"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    group = parser.getgroup("trace", "conformance kits of trace-assets")
    group.addoption(
        TARGET,
        action="append",
        default=[],
        metavar="FILE|MODULE:NAME",
        help="check a target: its module file (played in a process of its own), or a callable that opens it",
    )
    group.addoption(
        ANALYST,
        action="append",
        default=[],
        metavar="MODULE:NAME",
        help="check an analyst: a callable that makes it, on rehearsed episodes",
    )
    group.addoption(
        TASKS,
        type=int,
        default=0,
        metavar="N",
        help="tasks of each split of a target (20), rehearsed ones for an analyst (60)",
    )


def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Add the checks of everything that was named."""
    for option, kind in ((TARGET, _TargetKit), (ANALYST, _AnalystKit)):
        for named in config.getoption(option):
            items += kind.from_parent(
                session, name=f"{option.removeprefix('--')}[{named}]", named=named
            ).collect()


class _Kit(pytest.Collector):
    """All checks of a kit on one thing; they are carried out together, when the first is asked for."""

    def __init__(self, *, named: str, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.named = named

    def checks(self) -> Sequence[str]:
        """Return the names of the kit's checks."""
        raise NotImplementedError

    def examine(self) -> list[Finding]:
        """Carry them out."""
        raise NotImplementedError

    @property
    def tasks(self) -> int:
        """How many tasks were asked for; 0 for the kit's own number."""
        asked: int = self.config.getoption(TASKS)
        return asked

    def collect(self) -> list[pytest.Item]:
        """Return one test a check."""
        return [_Check.from_parent(self, name=name) for name in self.checks()]

    @cached_property
    def findings(self) -> dict[str, Finding] | str:
        """What was found; in words where nothing could be."""
        from trace_assets.errors import TraceError

        try:
            return {one.check: one for one in self.examine()}
        except TraceError as error:
            return str(error)


class _TargetKit(_Kit):
    def checks(self) -> Sequence[str]:
        from trace_assets.targets.conformance import CHECKS

        return list(CHECKS)

    def examine(self) -> list[Finding]:
        from trace_assets.targets.conformance import examine_target

        return examine_target(_opener(self.named), tasks=self.tasks or 20)


class _AnalystKit(_Kit):
    def checks(self) -> Sequence[str]:
        from trace_assets.diagnosis.conformance import CHECKS

        return list(CHECKS)

    def examine(self) -> list[Finding]:
        from trace_assets.diagnosis.conformance import examine_analyst, load_analyst
        from trace_assets.diagnosis.llm.analyst import rehearse

        return examine_analyst(load_analyst(self.named), rehearse(self.tasks or 60).trajectories)


class _Check(pytest.Item):
    """One promise."""

    parent: _Kit

    def runtest(self) -> None:
        """Say what was found of it."""
        findings = self.parent.findings
        if isinstance(findings, str):
            pytest.fail(findings, pytrace=False)
        found = findings[self.name]
        if found.passed is None:
            pytest.skip(found.detail)
        if not found.passed:
            pytest.fail(f"{found.promise}\n{found.detail}", pytrace=False)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Return what the report calls it."""
        return Path(self.parent.named), None, f"{self.parent.name}::{self.name}"


def _opener(named: str) -> Callable[[], Target]:
    """Return what opens a target: from its module's file, or by `module:name`.

    Raises:
        InputError: It is neither, or there is no such thing.
    """
    import sys
    from importlib import import_module

    from trace_assets.errors import InputError
    from trace_assets.targets.process.target import ProcessTarget, module_file, of_module

    path = module_file(Path(named))
    if path.suffix == ".py":
        config = of_module(path)
        return lambda: ProcessTarget(config)
    module, colon, name = named.partition(":")
    if not colon or not module or not name:
        raise InputError(
            f"'{named}' is neither a module's file nor module:name, such as my_package.desk:open."
        )
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        make: Callable[[], Target] = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise InputError(f"'{named}' cannot be imported ({error}).") from error
    return make


@pytest.fixture
def trace_check_target() -> Iterator[Callable[..., None]]:
    """`check_target(make, tasks=20)`: fails at the first broken promise of a target."""
    from trace_assets.targets.conformance import check_target

    yield check_target


@pytest.fixture
def trace_check_analyst() -> Iterator[Callable[..., Any]]:
    """`check_analyst(analyst, trajectories)`: likewise for an analyst."""
    from trace_assets.diagnosis.conformance import check_analyst

    yield check_analyst
