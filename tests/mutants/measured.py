"""Which fast tests execute which lines of the modules, and how long each takes."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from copies import ROOT, Copy, tree_files
from observing import RC

FAST = "not slow and not alone"


@dataclass(frozen=True)
class Measured:
    """Of the tests that passed."""

    seconds: Mapping[str, float]
    lines: Mapping[str, Mapping[int, frozenset[str]]]
    """The tests of each line of each module."""

    @classmethod
    def of(
        cls, copy: Copy, folder: Path, paths: Mapping[str, Path], workers: int, tests: Sequence[str] = ()
    ) -> Measured:
        """Run all fast tests on a copy, or read what was measured of this very tree before."""
        digest = hashlib.sha256(repr((sorted(paths), sorted(tests))).encode())
        for name in tree_files():
            digest.update(f"{name}\0".encode() + (ROOT / name).read_bytes())
        folder = folder / f"measured-{digest.hexdigest()[:16]}"
        done = folder / "lines.json"
        if not done.is_file():
            folder.mkdir(parents=True, exist_ok=True)
            for old in folder.iterdir():
                old.unlink()
            include = "".join(f"\n    {copy.folder / path}" for path in paths.values())
            (folder / "rc").write_text(RC.format(folder=folder, include=include))
            spread = ["-n", str(workers), "--dist", "loadfile"] if workers > 1 else []
            copy.pytest("-m", FAST, *spread, *tests, MUTANTS_CONTEXTS=str(folder))
            done.write_text(
                json.dumps(_read(folder, {str(copy.folder / path): name for name, path in paths.items()}))
            )
        read = json.loads(done.read_text())
        return cls(
            read["seconds"],
            {
                name: {int(line): frozenset(tests) for line, tests in lines.items()}
                for name, lines in read["lines"].items()
            },
        )

    def covering(self, module: str, lines: Iterable[int], *, at_import: bool = False) -> list[str]:
        """The tests that execute one of the lines, then those that execute any of the module, quickest first.

        The latter because a cached value is made in one test and used in others. What is made at import is
        made in whichever test came first, which need not use it: there all of them count alike.
        """
        known = self.lines.get(module, {})
        near = frozenset().union(*(known.get(line, frozenset()) for line in lines))
        far = frozenset().union(*known.values()) - near if known else frozenset()
        if at_import:
            return sorted(near | far, key=self.seconds.__getitem__)
        return [*sorted(near, key=self.seconds.__getitem__), *sorted(far, key=self.seconds.__getitem__)]


def _read(folder: Path, modules: Mapping[str, str]) -> dict[str, object]:
    import coverage

    tests: dict[str, dict[str, object]] = {}
    for file in folder.glob("tests-*.json"):
        tests |= {
            name: one
            for name, one in json.loads(file.read_text()).items()
            if name not in tests or one["seconds"]
        }
    passed = {name for name, one in tests.items() if one["passed"] and one["seconds"]}
    if not passed:
        raise SystemExit(f"no test passed on the unchanged copy: see {folder}")
    users = defaultdict(set)
    for name in passed:
        for fixture in tests[name]["fixtures"]:  # type: ignore[attr-defined]
            users[fixture].add(name)
    combined = coverage.Coverage(config_file=str(folder / "rc"), data_file=str(folder / "combined"))
    combined.combine([str(file) for file in folder.glob("data.*")], keep=True)
    lines = {
        modules[file]: {
            line: sorted({one for name in contexts for one in ({name} & passed) | users.get(name, set())})
            for line, contexts in combined.get_data().contexts_by_lineno(file).items()
        }
        for file in combined.get_data().measured_files()
        if file in modules
    }
    return {"seconds": {name: tests[name]["seconds"] for name in passed}, "lines": lines}
