"""Whether the nodes of a cluster can work on one home: the same code, one folder, locks that all see."""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from uuid import uuid4

from trace_assets.errors import TraceError, Unavailable
from trace_assets.orchestration.worker_pool import SANDBOX
from trace_assets.shipped import ROOT
from trace_assets.store import Home
from trace_assets.store.database import database_of
from trace_assets.store.locks import is_held
from trace_assets.system.machine import this_machine

QUESTIONS = 5
"""To a node's clock: some milliseconds each, once a process is there that answers."""
ASKED_SECONDS = 10.0
"""What the home's database may take to answer a node."""
SEEN_SECONDS = 15.0
"""What a node's file may take to be seen here: a network folder remembers for a while what was in it."""


@dataclass(frozen=True)
class Probe:
    """A file in the home, held locked by the driver, that each node looks for.

    Attributes:
        home: The home, under the driver's path.
        folder: Folder of the files of the probe.
        token: What is in them.
    """

    home: str
    folder: str
    token: str


@dataclass(frozen=True)
class Report:
    """What a node says of itself.

    Attributes:
        host: Its name.
        boot: Id of its kernel's boot.
        package: Version of this package there.
        source: Hash of the package's code there.
        python: Version of Python.
        sees_home: Whether it read what the driver wrote.
        sees_locks: Whether it saw that the driver holds a lock.
        writes: Why it could not write, empty when it could.
        sandboxes: Programs for a sandbox that are there: `docker`, `bwrap`.
        database: Why it could not ask the home's database, empty when it could, or there is none.
    """

    host: str
    boot: str
    package: str
    source: str
    python: str
    sees_home: bool
    sees_locks: bool
    writes: str
    sandboxes: tuple[str, ...]
    database: str = ""


@dataclass(frozen=True)
class Clock:
    """How far a clock elsewhere is ahead of this machine's.

    Attributes:
        ahead: Seconds, if question and answer took equally long.
        within: Seconds that it may be more or less, however long each of the two took.
    """

    ahead: float
    within: float

    def __str__(self) -> str:
        return f"{self.ahead:+.3f} ± {self.within:.3f}"


def compare_clocks(ask: Callable[[], float], times: int = QUESTIONS) -> Clock:
    """Ask a clock elsewhere some times, and take the answer that came soonest, as NTP does.

    Args:
        ask: Asks for its time, in seconds (Unix).
        times: Questions: the first ones wait for a process to begin, perhaps.
    """
    found = []
    for _ in range(times):
        asked = time.time()
        there = ask()
        answered = time.time()
        found.append(Clock(there - (asked + answered) / 2, (answered - asked) / 2))
    return min(found, key=lambda one: one.within)


@dataclass(frozen=True)
class Node:
    """A node, and what stands against its work on a home.

    Attributes:
        node_id: As the cluster knows it.
        name: Host and address.
        resources: What it offers.
        problem: Why it cannot take part, in words that follow its name; empty when it can.
        report: What it said of itself, None when it did not answer.
        clock: How far its clock is ahead of the driver's; shown alone: nothing relies on it.
    """

    node_id: str
    name: str
    resources: Mapping[str, float] = field(default_factory=dict)
    problem: str = ""
    report: Report | None = None
    clock: Clock | None = None

    @classmethod
    def of(
        cls,
        node_id: str,
        name: str,
        resources: Mapping[str, float],
        report: Report,
        probe: Probe,
        clock: Clock | None = None,
    ) -> Node:
        """Judge a node's report beside what holds on this machine."""
        here = own_report()
        problem = ""
        if (report.package, report.source) != (here.package, here.source):
            problem = (
                f"has other code of trace-assets ({report.package}, {report.source}; here {here.package}, "
                f"{here.source}): install the same on every node"
            )
        elif report.python.rsplit(".", 1)[0] != here.python.rsplit(".", 1)[0]:
            problem = (
                f"runs Python {report.python}, this machine {here.python}: use one version on every node"
            )
        elif report.writes:
            problem = f"cannot write to the home {probe.home} ({report.writes}): mount the same folder there"
        elif not report.sees_home or not _arrived(probe, node_id, report.host):
            problem = (
                f"does not see the home {probe.home} of this machine: mount one shared folder under the same "
                "path on every node, and lay TRACE_HOME into it"
            )
        elif not report.sees_locks:
            problem = (
                f"sees the home {probe.home}, but not the locks of this machine: mount the folder with locks "
                "that all nodes see (NFS 4, or Lustre with `-o flock`)"
            )
        elif report.database:
            problem = f"cannot work with the home's database: {report.database}"
        elif resources.get(SANDBOX) and not report.sandboxes:
            problem = (
                f"offers the resource `{SANDBOX}` and has neither docker nor bwrap: install one, or start it "
                "without the resource"
            )
        return cls(node_id, name, resources, problem, report, clock)


@contextmanager
def probe_home(home: Home) -> Iterator[Probe]:
    """Lay a locked file into a home for nodes to look at, until the body ends."""
    token = uuid4().hex
    folder = home.path / "locks" / "probe" / token
    folder.mkdir(parents=True)
    try:
        with (folder / "driver").open("x+", encoding="utf-8") as file:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX)
            file.write(token)
            file.flush()
            os.fsync(file.fileno())
            yield Probe(str(home.path), str(folder), token)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def node_report(probe: Probe) -> Report:
    """Look at a home from a node, and say what the node is; runs on the node."""
    folder, said, writes = Path(probe.folder), "", ""
    held = False
    try:
        said = (folder / "driver").read_text(encoding="utf-8")
        held = is_held(folder / "driver")
    except OSError:
        pass
    try:
        import ray

        mine = folder / ray.get_runtime_context().get_node_id()
        mine.write_text(f"{probe.token} {this_machine().host}", encoding="utf-8")
    except FileNotFoundError:
        pass  # not the driver's home: said by `sees_home`
    except OSError as error:
        writes = error.strerror or str(error)
    return replace(own_report(said == probe.token, held, writes), database=_database_problem(probe))


def _database_problem(probe: Probe) -> str:
    try:
        if (database := database_of(Path(probe.home))) is not None:
            database.rows("SELECT 1", patience=ASKED_SECONDS)
    except TraceError as error:
        return str(error)
    return ""


def own_report(sees_home: bool = True, sees_locks: bool = True, writes: str = "") -> Report:
    """Say what this machine is."""
    here = this_machine()
    return Report(
        here.host,
        here.boot,
        _package(),
        source_version(),
        platform.python_version(),
        sees_home,
        sees_locks,
        writes,
        tuple(name for name in ("docker", "bwrap") if shutil.which(name)),
    )


def compare_nodes(nodes: Sequence[Node], home: Home) -> None:
    """Refuse nodes that cannot work on a home together.

    Raises:
        Unavailable: One of them cannot; the sentence names it and says how to mend it.
    """
    wrong = [node for node in nodes if node.problem]
    if wrong:
        more = f" ({len(wrong) - 1} more: `trace cluster check` lists them)" if len(wrong) > 1 else ""
        raise Unavailable(f"node {wrong[0].name} {wrong[0].problem}{more}.")


@cache
def source_version() -> str:
    """Return a hash of the package's code, 12 hexadecimal digits."""
    digest = hashlib.sha256()
    for path in sorted(ROOT.rglob("*.py")):
        digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def _package() -> str:
    try:
        return version("trace-assets")
    except PackageNotFoundError:
        return "not installed"


def _arrived(probe: Probe, node_id: str, host: str) -> bool:
    """Whether what a node wrote is to be read here."""
    file, give_up = Path(probe.folder) / node_id, time.monotonic() + SEEN_SECONDS
    while True:
        try:
            if file.read_text(encoding="utf-8") == f"{probe.token} {host}":
                return True
        except OSError:
            os.listdir(probe.folder)  # has a network folder look again
        if time.monotonic() > give_up:
            return False
        time.sleep(0.1)
