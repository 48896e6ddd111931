"""The kit for targets: a sound one passes, each broken one fails the check that is meant for it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from trace_assets.conformance import Finding, tally
from trace_assets.errors import CheckFailed, InputError
from trace_assets.settings import Targets
from trace_assets.targets.conformance import check_target, examine_target
from trace_assets.targets.embedded.target import EmbeddedTarget
from trace_assets.targets.process.target import ProcessConfig, ProcessTarget
from trace_assets.targets.template import FILES, write_template


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("template")
    write_template("library", folder)
    return folder / "target.py"


def opener(module: Path) -> Callable[[], ProcessTarget]:
    return lambda: ProcessTarget(ProcessConfig(module=module, python=Path(sys.executable), processes=2))


def test_the_embedded_target_conforms() -> None:
    findings = examine_target(lambda: EmbeddedTarget(Targets()), tasks=5)
    assert tally(findings) == {"passed": len(findings), "failed": 0, "not_run": 0}


def test_it_runs_in_a_notebook_whose_loop_is_busy() -> None:
    async def cell() -> list[Finding]:
        return examine_target(lambda: EmbeddedTarget(Targets()), tasks=1)

    assert tally(asyncio.run(cell()))["failed"] == 0


def test_the_template_conforms(library: Path) -> None:
    findings = examine_target(opener(library), tasks=5)
    assert tally(findings) == {"passed": len(findings), "failed": 0, "not_run": 0}
    floor = next(one for one in findings if one.check == "does_not_pay_for_nothing")
    assert floor.detail == "floor 0 % [0, 20] (n = 15)"


FAULTS = {
    "describes_itself": ('"version": version', '"version": version + str(__import__("os").getpid())'),
    "declares_tools": ('"type": "string"', '"type": "text"'),
    "lists_tasks": ("in range(180):", "in [*range(90), *range(30), *range(120, 180)]:"),
    "begins": (
        '    word = "reserved"',
        '    if not _Now.turns:\n        raise ValueError("nothing was played")\n    word = "reserved"',
    ),
    "survives_nonsense": (
        '        return {"error": f"there is no tool {name}"}, True',
        '        raise ValueError(f"there is no tool {name}")',
    ),
    "answers_every_call": ("for call in calls]", "for call in calls[:2]]"),
    "solves": ('"Your loan is renewed."}', '""}'),
    "does_not_pay_for_nothing": ("    success = right and said", "    success, checks = True, []"),
    "repeats": ("return _Now.loans[loan], False", 'return {"at": __import__("time").time_ns()}, False'),
    "forgets": (
        "    _Now.loans = deepcopy(",
        '    _Now.loans = _Now.loans if task["loan"] in _Now.loans else deepcopy(',
    ),
}
MAY_ALSO = {
    "repeats": {"forgets"},  # what differs between two openings differs between two episodes
}


@pytest.mark.parametrize("check", sorted(FAULTS))
def test_each_fault_fails_its_own_check(check: str, library: Path, tmp_path: Path) -> None:
    source = library.read_text(encoding="utf-8")
    old, new = FAULTS[check]
    assert old in source
    module = tmp_path / "target.py"
    module.write_text(source.replace(old, new), encoding="utf-8")
    if check == "describes_itself":  # a version that follows from the process is refused before any check
        with pytest.raises(Exception, match="changed from version"):
            check_target(lambda: _two_processes(module))
        return
    failed = {one.check for one in examine_target(opener(module), tasks=4) if one.passed is False}
    assert check in failed
    assert failed <= {check} | MAY_ALSO.get(check, set())


def _two_processes(module: Path) -> ProcessTarget:
    target = opener(module)()
    target.ask("tasks")
    target._start().kill()
    return target


def test_a_target_without_an_oracle_is_told_what_was_not_run(library: Path, tmp_path: Path) -> None:
    module = tmp_path / "target.py"
    module.write_text(
        library.read_text(encoding="utf-8").replace("def oracle(", "def _oracle("), encoding="utf-8"
    )
    findings = examine_target(opener(module), tasks=3)
    assert [one.check for one in findings if one.passed is None] == ["solves"]
    assert not [one for one in findings if one.passed is False]


def test_check_target_raises_with_the_first_broken_promise(library: Path, tmp_path: Path) -> None:
    module = tmp_path / "target.py"
    old, new = FAULTS["solves"]
    module.write_text(library.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    with pytest.raises(CheckFailed, match=r"\(solves\): the oracle fails"):
        check_target(opener(module), tasks=4)


def test_the_template_is_not_written_over_anything(tmp_path: Path) -> None:
    files = write_template("my_desk", tmp_path)
    assert [file.name for file in files] == list(FILES)
    assert "NAME" not in (tmp_path / "target.py").read_text(encoding="utf-8")
    with pytest.raises(InputError, match="is there already"):
        write_template("my_desk", tmp_path)


@pytest.mark.parametrize("name", ["", "embedded", "two words", "../up", "7th"])
def test_names_that_cannot_be_used(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be a target's name"):
        write_template(name, tmp_path / "x")
