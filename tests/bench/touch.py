"""How long a person waits: every figure beside a bare `python -c "import duckdb, polars"` of the same run.

    python -m tests.bench.touch [FILES...] [--repeats 5] [--json]

FILES are trajectories to bring in and diagnose, such as the nine published tau2 results; scripted ones
unless given.

Wall seconds depend on what else the machine does, so each line has the CPU time of the command and its
children, and the ratio of its wall time to that of the bare import measured right before it.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

BARE = "import duckdb, polars"


@dataclass(frozen=True)
class Took:
    """One line of the table; medians over the repeats.

    Attributes:
        what: Command.
        aim: Wall seconds on two idle cores; None where nothing is aimed at.
        wall: Seconds.
        cpu: Seconds of the command and the processes that it waited for.
        bare: Wall seconds of the bare import beside it.
        n: Repeats.
    """

    what: str
    aim: float | None
    wall: float
    cpu: float
    bare: float
    n: int

    @property
    def ratio(self) -> float:
        return self.wall / self.bare


def run(arguments: Sequence[str], home: Path, **variables: str) -> tuple[float, float]:
    """Run a command; return its wall and CPU seconds.

    Raises:
        RuntimeError: It failed.
    """
    environment = {**os.environ, "TRACE_HOME": str(home), **variables}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # users keep what Python compiles
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(arguments, env=environment, cwd=home.parent, capture_output=True, text=True)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{' '.join(arguments)}: exit {done.returncode}: {done.stderr[-500:]}")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measured(
    what: str, aim: float | None, arguments: Sequence[str], home: Path, repeats: int, **variables: str
) -> Took:
    """Measure a command some times, each beside the bare import."""
    walls, cpus, bares = [], [], []
    for _ in range(repeats):
        bares.append(run([sys.executable, "-c", BARE], home)[0])
        wall, cpu = run(arguments, home, **variables)
        walls.append(wall)
        cpus.append(cpu)
    middle = statistics.median
    return Took(what, aim, middle(walls), middle(cpus), middle(bares), repeats)


def table(files: Sequence[Path], folder: Path, repeats: int, say: Callable[[Took], None]) -> list[Took]:
    """Measure everything; `say` is told each line as it is known."""
    trace = [sys.executable, "-m", "trace_assets"]
    home, found = folder / "home", list[Took]()

    def note(one: Took) -> None:
        found.append(one)
        say(one)

    run([*trace, "--help"], home)  # compiles what is not compiled
    run([*trace, "sync", "--dry-run", "--select", "contrast"], folder / "warm")
    note(measured("trace --help", 0.4, [*trace, "--help"], home, repeats))
    note(measured("ingest", None, [*trace, "ingest", *map(str, files)], home, 1))
    note(measured("diagnose", None, [*trace, "diagnose"], home, 1))
    both = found[-2:]
    note(
        Took(
            "ingest and diagnose together",
            15.0,
            sum(one.wall for one in both),
            sum(one.cpu for one in both),
            both[0].bare,
            1,
        )
    )
    note(measured("trace sql", 0.8, [*trace, "sql", "gap_table"], home, repeats))
    note(measured("dry run", 1.5, [*trace, "sync", "--dry-run"], home, repeats))
    # Of the diagnosis: all of a sync would ask for a sandbox and for hours.
    idle = [*trace, "sync", "--keep", "--select", "failure_causes"]
    note(measured("no-op sync", 1.5, idle, home, repeats))
    for number in range(repeats):
        # Another threshold each time, so that each has something to make.
        edit = measured(
            "threshold edit to the new table",
            3.0,
            [*trace, "sync", "--keep", "--select", "selected_capabilities"],
            home,
            1,
            TRACE__SELECTION__MIN_GAP=f"{0.30 + number / 100:.2f}",
        )
        note(edit)
    return found


def line(one: Took) -> str:
    """Return a line of the table."""
    aim = "" if one.aim is None else f"{one.aim:.1f}"
    return f"{one.what:34} {aim:>5} {one.wall:8.2f} {one.cpu:8.2f} {one.bare:7.2f} {one.ratio:7.1f} {one.n:3}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true", dest="as_json")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="trace-touch-") as name:
        files = [file.absolute() for file in given.files] or [scripted(Path(name))]
        load = os.getloadavg()[0]
        if not given.as_json:
            print(f"load {load:.1f} on {os.cpu_count()} cores; bare: python -c '{BARE}'")
            print(f"{'what':34} {'aim s':>5} {'wall s':>8} {'cpu s':>8} {'bare s':>7} {'ratio':>7} {'n':>3}")
        found = table(
            files,
            Path(name),
            given.repeats,
            lambda one: None if given.as_json else print(line(one), flush=True),
        )
        if given.as_json:
            rows = [asdict(one) | {"ratio": one.ratio} for one in found]
            print(json.dumps({"load": load, "rows": rows}, indent=2))


def scripted(folder: Path) -> Path:
    """Return a file of scripted trajectories, where no others are given."""
    from tests.orchestration.simulations import simulation_file

    return simulation_file(folder / "desk.json", "desk", n=60, lacking=20)


if __name__ == "__main__":
    main()
