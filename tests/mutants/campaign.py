"""How many random mutants of the core modules do the fast tests notice?

    python tests/mutants/campaign.py --per-module 12 --seed 7

Works in copies of the tree. First all fast tests run once, measured line by line. Then each drawn mutant is
put into a copy, and the tests that execute its line run on it, the quickest first, then those that execute
anything of its module, until one fails or their seconds are spent. A test has to fail twice: one that passes
the second time is no witness, and the others go on. `equivalents.toml` lists, with reasons, the mutants that
no test can notice.

`--work` keeps measurement and results: the same command goes on where it was interrupted.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT)]

from copies import Copy  # noqa: E402
from measured import Measured  # noqa: E402
from mutation import Mutant, draw, in_function  # noqa: E402

from trace_assets.stats.intervals import wilson  # noqa: E402

CHUNKS = (15, 150, 10**6)
"""How many tests run together: most mutants die in the first few, and collecting many takes long."""
STARTING_SECONDS = 120
"""What a run may take beyond its tests: imports on a busy machine."""
KILLED = ("killed", "timeout")


@dataclass(frozen=True)
class Result:
    """What became of a mutant."""

    module: str
    function: str
    line: int
    before: str
    after: str
    fate: str
    """`killed`, `timeout` (a test that hangs: killed as well), or `survived`."""
    by: str
    """The test that failed."""
    tests: int
    """How many tests were there for it."""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Names it wherever its lines stand by then."""
        return self.module, self.function, self.before, self.after


def modules() -> dict[str, Path]:
    """The modules of the table, as paths below the root."""
    table = tomllib.loads((HERE / "modules.toml").read_text())
    paths = {name: Path("trace_assets", *name.split(".")).with_suffix(".py") for name in table["modules"]}
    if missing := [name for name, path in paths.items() if not (ROOT / path).is_file()]:
        raise SystemExit(f"modules.toml names modules that are not there: {', '.join(missing)}")
    return paths


def equivalents() -> dict[tuple[str, str, str, str], str]:
    """The reasons by key."""
    listed = tomllib.loads((HERE / "equivalents.toml").read_text()).get("equivalent", [])
    return {(one["module"], one["function"], one["before"], one["after"]): one["reason"] for one in listed}


def try_mutant(
    copy: Copy, measured: Measured, module: str, path: Path, mutant: Mutant, budget: float
) -> Result:
    """Put it into the copy, run its tests, and take it out again."""
    named = (module, mutant.function, mutant.line, mutant.before, mutant.after)
    file = copy.folder / path
    original = file.read_text()
    lines = range(mutant.line, mutant.end_line + 1)
    covering = measured.covering(module, lines, at_import=not in_function(original, mutant.line))
    tests = list(_within(measured, covering, budget))
    file.write_text(mutant.source)
    try:
        flaky: set[str] = set()
        left = tests
        for size in CHUNKS:
            chunk, left = left[:size], left[size:]
            while wanted := [one for one in chunk if one not in flaky]:
                fate, by = _fails(copy, measured, wanted)
                if fate == "passed":
                    break
                if by is None or fate == "timeout" or _fails(copy, measured, [by])[0] != "passed":
                    return Result(*named, fate, by or "(before any test)", len(tests))
                flaky.add(by)
        return Result(*named, "survived", "", len(tests))
    finally:
        file.write_text(original)


def _within(measured: Measured, tests: Sequence[str], budget: float) -> Iterator[str]:
    for test in tests:
        budget -= measured.seconds[test]
        if budget < 0:
            return
        yield test


def _fails(copy: Copy, measured: Measured, tests: Sequence[str]) -> tuple[str, str | None]:
    """Return `passed`, `killed` or `timeout`, and the first test that failed."""
    asked, failed = copy.folder / "asked.txt", copy.folder / "failed.txt"
    asked.write_text("\n".join(tests))
    failed.unlink(missing_ok=True)
    seconds = STARTING_SECONDS + 4 * sum(measured.seconds[one] for one in tests)
    status = copy.pytest("-x", f"@{asked}", seconds=seconds, MUTANTS_FAILED=str(failed))
    if status == 0:
        return "passed", None
    return "timeout" if status == -1 else "killed", failed.read_text() if failed.is_file() else None


def run(arguments: argparse.Namespace, work: Path) -> list[Result]:
    """Draw and try; results are kept line by line."""
    paths = modules()
    chosen = arguments.modules or list(paths)
    if unknown := set(chosen) - set(paths):
        raise SystemExit(f"not in modules.toml: {', '.join(sorted(unknown))}")
    copies: SimpleQueue[Copy] = SimpleQueue()
    with tempfile.TemporaryDirectory(prefix="trace-mutants-") as folder:
        made = [Copy.make(Path(folder, str(number))) for number in range(arguments.jobs)]
        print(f"measuring which of the fast tests execute {len(paths)} modules ...", file=sys.stderr)
        measured = Measured.of(made[0], work, paths, arguments.jobs, arguments.tests)
        for copy in made:
            copies.put(copy)
        drawn = [
            (name, one)
            for name in chosen
            for one in draw(
                (ROOT / paths[name]).read_text(), arguments.per_module, f"{arguments.seed} {name}"
            )
        ]
        known, kept = equivalents(), work / f"results-{arguments.seed}.jsonl"
        before = {one.key: one for one in _kept(kept)}
        lock, results = threading.Lock(), list[Result]()

        def one_of(name: str, mutant: Mutant) -> None:
            key = (name, *mutant.key)
            result = before.get(key)
            if key in known:
                result = Result(
                    name, mutant.function, mutant.line, mutant.before, mutant.after, "equivalent", "", 0
                )
            elif result is None:
                copy = copies.get()
                try:
                    result = try_mutant(copy, measured, name, paths[name], mutant, arguments.seconds)
                finally:
                    copies.put(copy)
            with lock:
                results.append(result)
                if key not in before and key not in known:
                    with kept.open("a") as file:
                        file.write(json.dumps(asdict(result)) + "\n")
                    print(f"{len(results)}/{len(drawn)} {result.fate} {name}:{result.line}", file=sys.stderr)

        with ThreadPoolExecutor(arguments.jobs) as pool:
            for future in [pool.submit(one_of, name, mutant) for name, mutant in drawn]:
                future.result()
    return results


def _kept(file: Path) -> list[Result]:
    return [Result(**json.loads(line)) for line in file.read_text().splitlines()] if file.is_file() else []


def report(results: Sequence[Result], reasons: Mapping[tuple[str, str, str, str], str]) -> str:
    """A table by module, and what survived."""
    rows = [
        "| module | drawn | killed | equivalent | survive | killed of the others [95 %] |",
        "|---|--:|--:|--:|--:|---|",
    ]
    for name in [*sorted({one.module for one in results}), "all"]:
        fates = Counter(one.fate for one in results if name in ("all", one.module))
        killed, survived = sum(fates[one] for one in KILLED), fates["survived"]
        share = "none"
        if killed + survived:
            n = killed + survived
            low, high = (100 * bound for bound in wilson(killed, n))
            share = f"{killed}/{n} = {100 * killed / n:.1f} % [{low:.0f}, {high:.0f}]"
        rows.append(f"| {name} | {fates.total()} | {killed} | {fates['equivalent']} | {survived} | {share} |")
    rows += ["", "Mutants of a module are not independent: the interval is somewhat too narrow."]
    for one in sorted(results, key=lambda one: (one.module, one.line)):
        if one.fate == "survived":
            rows += [
                "",
                f"survived: {one.module}:{one.line} {one.function} ({one.tests} tests)",
                f"    - {one.before}",
                f"    + {one.after}",
            ]
    return "\n".join(rows)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--per-module", type=int, default=12, help="mutants drawn of each module (12)")
    parser.add_argument("--seed", type=int, default=1, help="another one draws others (1)")
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time (2)")
    parser.add_argument("--seconds", type=float, default=90, help="of tests for a mutant, as measured (90)")
    parser.add_argument(
        "--work", type=Path, default=None, help="where to keep results; default: a temporary folder"
    )
    parser.add_argument("--tests", nargs="*", default=[], help="only tests of these files and folders")
    parser.add_argument("modules", nargs="*", help="of modules.toml; default: all")
    arguments = parser.parse_args()
    work = arguments.work or Path(tempfile.mkdtemp(prefix="trace-mutants-work-"))
    work.mkdir(parents=True, exist_ok=True)
    results = run(arguments, work.resolve())
    print(report(results, equivalents()))
    if any(one.fate == "survived" for one in results):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
