"""How long a person waits: every figure beside a bare `python -c "import duckdb, polars"` of the same run.

    python -m tests.bench.touch [FILES...] [--repeats 5] [--messages 10000000] [--json]

FILES are trajectories to bring in and diagnose, such as the nine published tau2 results; scripted ones
unless given. `--messages` adds the ready queries that read messages, on a made-up home of that many, each
beside the raw DuckDB scan of the columns that it reads.

Wall seconds depend on what else the machine does, so each line has the CPU time of the command and of all
that it started, workers that outlive it among them, and the ratio of both to those of the bare import
measured right before it.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from trace_assets.system.machine import free_port

BARE = "import duckdb, polars"
UI_SECONDS = 120.0
"""How long the page may take to answer."""
_CHILD_SUBREAPER = 36
"""Of `prctl`: what a command leaves behind becomes this process's child, and can be waited for."""


@dataclass(frozen=True)
class Took:
    """One line of the table; medians over the repeats.

    Attributes:
        what: Command.
        aim: Wall seconds on two idle cores; None where nothing is aimed at.
        wall: Seconds.
        cpu: Seconds of the command and all that it started; NaN where not known.
        bare: Wall seconds of the bare import beside it, of a query the raw scan's.
        bare_cpu: CPU seconds of the bare import; NaN where not known.
        n: Repeats.
    """

    what: str
    aim: float | None
    wall: float
    cpu: float
    bare: float
    bare_cpu: float
    n: int

    @property
    def ratio(self) -> float:
        """Of wall seconds."""
        return self.wall / self.bare

    @property
    def cpu_ratio(self) -> float:
        """Of CPU seconds."""
        return self.cpu / self.bare_cpu


def settings_of(home: Path, variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a command on a home."""
    environment = {**os.environ, "TRACE_HOME": str(home), **variables}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # users keep what Python compiles
    return environment


def spent() -> float:
    """Wait for all that commands left behind, and return the CPU seconds of all children so far."""
    with suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(arguments: Sequence[str], home: Path, **variables: str) -> tuple[float, float]:
    """Run a command; return its wall and CPU seconds.

    Raises:
        RuntimeError: It failed.
    """
    before, began = spent(), time.perf_counter()
    done = subprocess.run(
        arguments, env=settings_of(home, variables), cwd=home.parent, capture_output=True, text=True
    )
    wall = time.perf_counter() - began
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{' '.join(arguments)}: exit {done.returncode}: {done.stderr[-500:]}")
    return wall, spent() - before


def answering(arguments: Sequence[str], home: Path) -> tuple[float, float]:
    """Open the page; return the wall seconds until it answers, and the CPU seconds until it is closed.

    Raises:
        RuntimeError: It ended or did not answer.
    """
    port = free_port()
    before, began = spent(), time.perf_counter()
    page = subprocess.Popen(
        [*arguments, "--port", str(port)],
        env=settings_of(home, {}),
        cwd=home.parent,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while page.poll() is None and time.perf_counter() - began < UI_SECONDS:
            with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}", timeout=5):
                wall = time.perf_counter() - began
                break
            time.sleep(0.05)
        else:
            raise RuntimeError(f"{' '.join(arguments)}: the page did not answer")
    finally:
        page.send_signal(signal.SIGINT)
        page.wait()
    return wall, spent() - before


def measured(
    what: str,
    aim: float | None,
    arguments: Sequence[str],
    home: Path,
    repeats: int,
    *,
    how: Callable[[Sequence[str], Path], tuple[float, float]] = run,
    **variables: str,
) -> Took:
    """Measure a command some times, each beside the bare import."""
    took, bare = list[tuple[float, float]](), list[tuple[float, float]]()
    for _ in range(repeats):
        bare.append(run([sys.executable, "-c", BARE], home))
        took.append(run(arguments, home, **variables) if how is run else how(arguments, home))
    middle = statistics.median
    walls, cpus = (middle(column) for column in zip(*took, strict=True))
    bare_walls, bare_cpus = (middle(column) for column in zip(*bare, strict=True))
    return Took(what, aim, walls, cpus, bare_walls, bare_cpus, repeats)


def queries(messages: int, folder: Path, repeats: int) -> list[Took]:
    """Measure the ready queries that read messages, each beside its raw scan."""
    from tests.bench.store.bench import READS, time_queries
    from tests.bench.store.bench_data import generate
    from trace_assets.store import Home, Store

    home = Home.open(folder / "large")
    generate(Store(home.tables), messages)
    names = [name for name, tables in READS.items() if "messages" in tables]
    return [
        Took(
            f"sql {one.query.split(' ')[0]}, {messages:,} messages",
            1.5 * one.raw / 1000,
            one.warm / 1000,
            math.nan,
            one.raw / 1000,
            math.nan,
            one.n,
        )
        for one in time_queries(home, repeats, names)
    ]


def table(
    files: Sequence[Path], folder: Path, repeats: int, messages: int, say: Callable[[Took], None]
) -> list[Took]:
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
            both[0].bare_cpu,
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
    note(measured("UI answering", 6.0, [*trace, "ui"], home, min(repeats, 3), how=answering))
    for one in queries(messages, folder, repeats) if messages else ():
        note(one)
    return found


HEADER = f"{'what':34} {'aim s':>5} {'wall s':>8} {'cpu s':>8} {'bare s':>7} {'ratio':>7} {'cpu':>7} {'n':>3}"
"""The first ratio is of wall seconds, the second of CPU seconds."""


def line(one: Took) -> str:
    """Return a line of the table."""
    aim = "" if one.aim is None else f"{one.aim:.1f}"
    figures = f"{one.wall:8.2f} {one.cpu:8.2f} {one.bare:7.2f} {one.ratio:7.1f} {one.cpu_ratio:7.1f}"
    return f"{one.what:34} {aim:>5} {figures.replace('nan', '  –')} {one.n:3}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--messages", type=int, default=0, help="also time SQL over so many made-up messages")
    parser.add_argument("--json", action="store_true", dest="as_json")
    given = parser.parse_args()
    ctypes.CDLL(None).prctl(_CHILD_SUBREAPER, 1, 0, 0, 0)
    with tempfile.TemporaryDirectory(prefix="trace-touch-") as name:
        files = [file.absolute() for file in given.files] or [scripted(Path(name))]
        load = os.getloadavg()[0]
        if not given.as_json:
            print(f"load {load:.1f} on {os.cpu_count()} cores; bare: python -c '{BARE}'")
            print(HEADER)
        found = table(
            files,
            Path(name),
            given.repeats,
            given.messages,
            lambda one: None if given.as_json else print(line(one), flush=True),
        )
        if given.as_json:
            rows = [asdict(one) | {"ratio": one.ratio, "cpu_ratio": one.cpu_ratio} for one in found]
            known = [{name: None if value != value else value for name, value in row.items()} for row in rows]
            print(json.dumps({"load": load, "rows": known}, indent=2))


def scripted(folder: Path) -> Path:
    """Return a file of scripted trajectories, where no others are given."""
    from tests.orchestration.simulations import simulation_file

    return simulation_file(folder / "desk.json", "desk", n=60, lacking=20)


if __name__ == "__main__":
    main()
