"""The tool itself: what it changes, what it leaves alone, which tests it asks, and what it reports."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import campaign
import pytest
from campaign import CHUNKS, Result, equivalents, modules, report, try_mutant
from copies import ROOT, tree_files
from measured import Measured
from mutation import Mutant, draw, in_function, mutants

SOURCE = '''"""A module."""

from __future__ import annotations

import os

LIMIT = 3


def price(n: int, *, each: float = 2.0, name: str = "plain") -> dict[str, float]:
    """Return the price."""
    if n > LIMIT and name in ("plain", "odd"):
        n -= 1
    if not n:
        raise ValueError(f"there is {n + 1} of {name}: prose")
    for one in range(n):
        if one:
            continue
    os.putenv("a b", "c")
    return {"sum": min(n * each, max(1, n)), "items": [1, 2][:n]}
'''


def changes(source: str) -> set[tuple[str, str]]:
    return {(one.before, one.after) for one in mutants(source)}


def after(source: str, before: str) -> set[str]:
    return {new for old, new in changes(source) if old == before}


def test_every_mutant_is_another_program_that_parses() -> None:
    made = mutants(SOURCE)
    assert len(made) > 40 and len({one.key for one in made}) == len(made)
    whole = ast.dump(ast.parse(SOURCE))
    for one in made:
        assert ast.dump(ast.parse(one.source)) != whole
        same = [a == b for a, b in zip(SOURCE.split("\n"), one.source.split("\n"), strict=False)]
        assert all(same[: one.line - 1]) and not same[one.line - 1]


def test_what_is_changed() -> None:
    assert after(SOURCE, 'if n > LIMIT and name in ("plain", "odd"):') >= {
        'if (n >= LIMIT) and name in ("plain", "odd"):',
        'if (n <= LIMIT) and name in ("plain", "odd"):',
        "if (n > LIMIT or name in ('plain', 'odd')):",
        'if (name in ("plain", "odd")):'.replace('"', "'"),
        "if (n > LIMIT):",
        "if n > LIMIT and (name not in ('plain', 'odd')):",
        'if n > LIMIT and name in (("plainx"), "odd"):'.replace('("plainx")', "('plainx')"),
        "if (True):",
        "if (False):",
    }
    assert after(SOURCE, "n -= 1") == {"pass", "n = 1", "n += 1", "n -= (2)", "n -= (0)"}
    assert "if (n):" in after(SOURCE, "if not n:")
    assert after(SOURCE, "continue") == {"break"}
    assert after(SOURCE, "LIMIT = 3") == {"LIMIT = (4)", "LIMIT = (2)"}
    assert after(SOURCE, 'os.putenv("a b", "c")') == {
        "pass",
        "os.putenv(\"a b\", ('cx'))",
        "(os.putenv('c', 'a b'))",
    }
    returned = after(SOURCE, 'return {"sum": min(n * each, max(1, n)), "items": [1, 2][:n]}')
    assert {
        "return None",
        'return {"sum": min((n / each), max(1, n)), "items": [1, 2][:n]}',
        'return {"sum": (max(n * each, max(1, n))), "items": [1, 2][:n]}',
        'return {"sum": min(n * each, (max(n, 1))), "items": [1, 2][:n]}',
        'return {"sum": min(n * each, max(1, n)), "items": ([1, 2][:])}',
    } <= returned
    assert after(SOURCE, 'raise ValueError(f"there is {n + 1} of {name}: prose")') == {"pass"}
    head = 'def price(n: int, *, each: float = 2.0, name: str = "plain") -> dict[str, float]:'
    assert {line.partition("each")[2] for line in after(SOURCE, head)} == {
        ': float = (3.0), name: str = "plain") -> dict[str, float]:',
        ': float = (1.0), name: str = "plain") -> dict[str, float]:',
        ": float = 2.0, name: str = ('plainx')) -> dict[str, float]:",
    }


@pytest.mark.parametrize(
    "source",
    [
        '"""Only words."""',
        "import os\nfrom a import b as c",
        "x: dict[str, int]",
        "kinds = Literal['a', 'b']",
        "def f(a: 'int') -> 'str': ...",
        "@cache(maxsize=3)\nclass A(Base, frozen=True):\n    '''Words.'''\n    a: int",
        "if TYPE_CHECKING:\n    x = 1",
        "__all__ = ['x']",
        "x = f'{1 + 2} of {y[3]}'",
        "x = 'two words'",
        "x = ''",
        "x = None",
    ],
)
def test_what_only_a_reader_sees_is_left_alone(source: str) -> None:
    assert mutants(source) == []


def test_places_after_other_scripts_and_over_several_lines_are_met() -> None:
    source = 'x = "é", 1\ny = (\n    a\n    + b\n)\n'
    assert changes(source) == {
        ('x = "é", 1', "x = ('éx'), 1"),
        ('x = "é", 1', 'x = "é", (2)'),
        ('x = "é", 1', 'x = "é", (0)'),
        ("a + b", "(a - b)"),
    }


def test_a_mutant_is_named_by_its_function_and_text() -> None:
    inside = "class A:\n    def f(self):\n        return x < 1\n"
    assert {one.function for one in mutants(inside)} == {"A.f"}
    moved = {one.key for one in mutants(f"\n\ny = 'two words'\n{inside}")}
    assert moved == {one.key for one in mutants(inside)}


def test_draws_are_repeatable_at_most_one_a_line_and_differ_by_seed() -> None:
    one, again, other = draw(SOURCE, 5, "1"), draw(SOURCE, 5, "1"), draw(SOURCE, 5, "2")
    assert one == again != other and len({mutant.line for mutant in one}) == 5
    everything = draw(SOURCE, 1000, "1")
    assert {mutant.line for mutant in everything} == {mutant.line for mutant in mutants(SOURCE)}


def test_the_table_names_modules_that_are_there_and_change() -> None:
    for name, path in modules().items():
        assert draw((ROOT / path).read_text(), 1, "x"), name


def test_every_equivalent_has_a_reason_and_its_module_is_in_the_table() -> None:
    known = equivalents()
    assert {key[0] for key in known} <= modules().keys()
    assert all(len(reason) > 20 for reason in known.values())


def measured() -> Measured:
    return Measured(
        {"quick": 0.1, "slow": 5.0, "near": 1.0, "far": 0.01},
        {"m": {3: frozenset({"slow", "near"}), 4: frozenset({"near", "quick"}), 9: frozenset({"far"})}},
    )


def test_tests_of_the_line_come_first_then_those_of_the_module_quickest_first() -> None:
    assert measured().covering("m", [3]) == ["near", "slow", "far", "quick"]
    assert measured().covering("m", [3, 4]) == ["quick", "near", "slow", "far"]
    assert measured().covering("m", [5]) == ["far", "quick", "near", "slow"]
    assert measured().covering("unknown", [3]) == []
    assert measured().covering("m", [3], at_import=True) == ["far", "quick", "near", "slow"]


def test_what_is_made_at_import_is_told_from_what_a_call_executes() -> None:
    assert [in_function(SOURCE, line) for line in (7, 10, 11, 12, 20)] == [False, False, True, True, True]


BEFORE = "def f():\n    y = 0\n    x = 1\n"
AFTER = "def f():\n    y = 0\n    x = 2\n"


class Played:
    """A copy in which tests fail as they are told: each entry is what one run gives."""

    def __init__(self, folder: Path, *runs: tuple[int, str | None]) -> None:
        self.folder, self.runs, self.asked = folder, list(runs), list[list[str]]()
        (folder / "m.py").write_text(BEFORE)
        self.seen: set[str] = set()

    def pytest(self, *arguments: str, seconds: float | None = None, **variables: str) -> int:
        self.asked.append((self.folder / "asked.txt").read_text().split("\n"))
        self.seen.add((self.folder / "m.py").read_text())
        status, failed = self.runs.pop(0)
        if failed is not None:
            Path(variables["MUTANTS_FAILED"]).write_text(failed)
        return status


def tried(copy: Any, budget: float = 100) -> Result:
    mutant = Mutant("f", 3, 3, "x = 1", "x = 2", AFTER)
    return try_mutant(copy, measured(), "m", Path("m.py"), mutant, budget)


def test_a_mutant_is_put_in_and_taken_out_and_killed_by_what_fails_twice(tmp_path: Path) -> None:
    copy = Played(tmp_path, (1, "slow"), (1, "slow"))
    result = tried(copy)
    assert (result.fate, result.by, result.tests) == ("killed", "slow", 4)
    assert copy.asked == [["near", "slow", "far", "quick"], ["slow"]]
    assert copy.seen == {AFTER} and (tmp_path / "m.py").read_text() == BEFORE


def test_a_test_that_passes_the_second_time_is_no_witness(tmp_path: Path) -> None:
    copy = Played(tmp_path, (1, "slow"), (0, None), (0, None))
    assert tried(copy).fate == "survived"
    assert copy.asked[2] == ["near", "far", "quick"]


def test_a_run_that_hangs_or_breaks_before_any_test_is_a_kill(tmp_path: Path) -> None:
    assert tried(Played(tmp_path, (-1, None))).fate == "timeout"
    broken = tried(Played(tmp_path, (2, None)))
    assert (broken.fate, broken.by) == ("killed", "(before any test)")


def test_only_so_many_seconds_of_tests_are_asked(tmp_path: Path) -> None:
    copy = Played(tmp_path, (0, None))
    assert tried(copy, budget=1.5).tests == 1 and copy.asked == [["near"]]
    assert tried(Played(tmp_path), budget=0.5).tests == 0, "nothing was asked, so it survives"


def test_many_tests_are_asked_in_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "CHUNKS", (1, 2, 100))
    copy = Played(tmp_path, (0, None), (0, None), (0, None))
    assert tried(copy).fate == "survived"
    assert copy.asked == [["near"], ["slow", "far"], ["quick"]]
    assert CHUNKS[-1] > 10**5


def result(module: str, fate: str, line: int = 1) -> Result:
    return Result(module, "f", line, "a", "b", fate, "", 3)


def test_the_report_counts_by_module_with_intervals_and_shows_what_survived() -> None:
    rows = [
        result("m", "killed"),
        result("m", "timeout"),
        result("m", "survived", 7),
        result("m", "equivalent"),
    ]
    text = report([*rows, result("n", "equivalent")], {})
    lines = text.splitlines()
    assert "| m | 4 | 2 | 1 | 1 | 2/3 = 66.7 % [21, 94] |" in lines
    assert "| n | 1 | 0 | 1 | 0 | none |" in lines
    assert "| all | 5 | 2 | 2 | 1 | 2/3 = 66.7 % [21, 94] |" in lines
    assert text.count("survived: ") == 1 and "survived: m:7 f (3 tests)" in lines
    assert lines[-2:] == ["    - a", "    + b"]


def test_the_tree_is_what_git_would_take() -> None:
    names = tree_files()
    assert "tests/mutants/campaign.py" in names and "conftest.py" in names
    assert not [name for name in names if name.startswith((".venv", ".trace")) or "__pycache__" in name]


def test_the_plugin_notes_which_test_runs_which_line(tmp_path: Path) -> None:
    """A shared fixture, a forked child and a child that is started, measured by the real thing."""
    (tmp_path / "mod.py").write_text(
        "def one():\n    return 1\n\n\ndef two():\n    return 2\n\n\ndef three():\n    return 3\n"
    )
    (tmp_path / "test_it.py").write_text(
        "import os, subprocess, sys\nimport mod, pytest\n\n"
        "@pytest.fixture(scope='module')\ndef shared():\n    return mod.one()\n\n"
        "def test_a(shared):\n    pass\n\ndef test_b(shared):\n    pass\n\n"
        "def test_c():\n    if os.fork() == 0:\n        mod.two()\n        os._exit(0)\n    os.wait()\n\n"
        "def test_d():\n    subprocess.run([sys.executable, '-c', 'import mod; mod.three()'], check=True)\n\n"
        "def test_e():\n    mod.two()\n    assert False\n"
    )
    from measured import _read
    from observing import RC

    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "rc").write_text(RC.format(folder=folder, include=tmp_path / "mod.py"))
    starts = "import os; os.getenv('COVERAGE_PROCESS_START') and __import__('coverage').process_startup()"
    (tmp_path / "sitecustomize.py").write_text(starts)
    environment = {
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": f"{tmp_path}:{Path(campaign.__file__).parent}",
        "MUTANTS_CONTEXTS": str(folder),
    }
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "observing",
        "-p",
        "no:cacheprovider",
        "test_it.py",
    ]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert "1 failed, 4 passed" in done.stdout, done.stdout + done.stderr
    found: Any = _read(folder, {str(tmp_path / "mod.py"): "mod"})
    assert set(found["seconds"]) == {f"test_it.py::test_{name}" for name in "abcd"}
    lines = {line: set(tests) for line, tests in found["lines"]["mod"].items()}
    assert lines[2] == {"test_it.py::test_a", "test_it.py::test_b"}
    assert lines[6] == {"test_it.py::test_c"}, "one that fails is no witness"
    assert lines[10] == {"test_it.py::test_d"}


def test_a_module_of_the_table_that_is_gone_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "modules.toml").write_text('modules = ["diagnosis.selection", "no.such"]')
    monkeypatch.setattr(campaign, "HERE", tmp_path)
    with pytest.raises(SystemExit, match=r"are not there: no\.such"):
        modules()
    with pytest.raises(SystemExit, match=r"not in modules\.toml: x"):
        monkeypatch.undo()
        campaign.run(SimpleNamespace(modules=["x"]), tmp_path)  # type: ignore[arg-type]
