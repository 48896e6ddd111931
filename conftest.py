"""What all tests and doctests stand in: surroundings of their own, the same on every machine.

Nothing of the user's is read or written: not the home, not the shell's variables, not a `.trace` or an edited
`trace.toml` of this folder. Nothing depends on how the tests were started: in the background (where SIGINT
is ignored), with another umask, locale or proxy, with or without a terminal.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

KEPT = {"PATH", "LD_LIBRARY_PATH", "TMPDIR", "USER", "LOGNAME", "TERM", "VIRTUAL_ENV", "CI", "CHROMIUM"}
THREADS = {f"{name}_NUM_THREADS" for name in ("OMP", "MKL", "OPENBLAS")} | {"POLARS_MAX_THREADS"}
KEPT_FAMILIES = (
    "PYTHON",
    "PYTEST",
    "COV",
    "DOCKER_",
    "CUDA_",
    "NVIDIA_",
    "PIP_",
    "PLAYWRIGHT_",
    "MUTANTS_",
    "HYPOTHESIS_",
    "TRACE_",
)
THE_PROGRAMS_OWN = (
    "TRACE_HOME",
    "TRACE_CONFIG",
    "TRACE_SET",
    "TRACE_PROGRESS_DIR",
    "TRACE_SQL",
    "TRACE_SANDBOXES",
)
"""Of the TRACE_ variables these, and all of TRACE__, are settings of the program; the others are switches of
tests."""
THE_INTERPRETERS = ("PYTHONWARNINGS", "PYTHONSTARTUP", "PYTHONUTF8", "PYTHONDONTWRITEBYTECODE")
"""Of the PYTHON family these are not kept either. Without bytecode every process of a test would compile the
program once more, and every worker of pytest all tests."""
OPENED = frozenset(
    ("open", "os.listdir", "os.scandir", "os.mkdir", "os.rename", "os.remove", "sqlite3.connect")
)

os.environ.setdefault("OMP_NUM_THREADS", "1")
"""As in `make test`: beside anything else on the machine, torch's threads mostly wait for one another."""

LONGEST = (
    "environments/test_zoo.py",
    "untrusted/test_bombs.py",
    "cli/test_finished_work.py",
    "assets/test_replacing.py",
    "assets/test_recompute.py",
    "training/test_pipes_container.py",
    "environments/test_families.py",
    "durability/test_disks.py",
    "cli/test_after_the_demo.py",
    "training/test_sampler.py",
    "durability/test_lost_files.py",
    "rollouts/test_live_faults.py",
    "training/test_processes.py",
    "diagnosis/llm/test_trouble.py",
    "environments/test_audit.py",
    "training/test_pipes.py",
    "training/test_warm_start.py",
    "untrusted/test_hostile_server.py",
    "sandbox/attacks/test_attacks.py",
    "training/test_rehearsal.py",
    "tournament/test_tournament.py",
    "training/test_grpo.py",
    "training/test_shards.py",
    "environments/writers/test_stage.py",
    "durability/test_power_loss.py",
    "environments/test_audit_docker.py",
    "cli/test_cli.py",
    "assets/test_whole_loop.py",
    "diagnosis/llm/test_stages.py",
    "sql/test_sql_command.py",
    "cli/test_habits.py",
    "crash/test_workers.py",
    "untrusted/test_printable.py",
    "gpu/test_rehearsal.py",
)
"""Files of tests that take longer than fifteen seconds, the longest first."""

# Examples are the same in every run, so that one who changed nothing sees nothing fail; `make test-slow`
# draws others, and more, with HYPOTHESIS_PROFILE=explore. How long one takes is not a property of code alone.
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("repeatable", UNHURRIED, derandomize=True, database=None, max_examples=35)
settings.register_profile("explore", UNHURRIED, derandomize=False, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


def pytest_configure(config: pytest.Config) -> None:
    """Take all that holds for the whole process, before anything of ours is imported."""
    # xdist's workers inherit it
    users = Path(os.environ.setdefault("PYTEST_USERS_HOME", os.path.expanduser("~")))
    folder = Path(tempfile.mkdtemp(prefix="trace-tests-"))
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    _take_own_variables(folder, users)
    sys.dont_write_bytecode = False
    _take_own_signals()
    _spare_the_disk()
    os.umask(0o022)
    users_own = [
        Path(__file__).parent / ".trace",
        *(users / name for name in (".trace", ".dagster", ".cache")),
    ]
    lent = {value for name, value in os.environ.items() if name.startswith("TRACE_")}
    _watch(tuple(str(one) for one in users_own if str(one) not in lent))


def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores: many tests wait for sandboxes, servers and processes of their own."""
    return len(os.sched_getaffinity(0)) + 1


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Look for doctests only where some are written: of thirteen hundred modules in two hundred.

    Every worker would import and read through all of them.
    """
    found = yield
    if file_path.suffix != ".py" or b">>>" in file_path.read_bytes():
        return found
    return [one for one in found if type(one).__name__ != "DoctestModule"]


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Keep what all tests import out of what every test's garbage is looked for in.

    Six thousand items, torch, dagster and the rest are nearly a million objects that stay until the end: one
    look through them all takes longer than most tests do.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()
        # Libraries that count their objects would report leaks at the end.
        session.config.add_cleanup(gc.unfreeze)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where workers share the files, begin with the longest, lest one be left with them at the end."""
    if hasattr(config, "workerinput"):
        root = Path(__file__).parent
        order = {root / "tests" / name: place for place, name in enumerate(LONGEST)}
        items.sort(key=lambda item: order.get(item.path, len(order)))


def _take_own_variables(folder: Path, users: Path) -> None:
    """Leave of the shell's variables only what says where programs are and what to test."""
    for name in list(os.environ):
        own = name in THE_PROGRAMS_OWN or name.startswith("TRACE__")
        kept = name in KEPT | THREADS or (name.startswith(KEPT_FAMILIES) and not own)
        if not kept or name in THE_INTERPRETERS:
            del os.environ[name]
        elif name.startswith("TRACE_") and os.path.exists(os.environ[name]):
            os.environ[name] = os.path.abspath(os.environ[name])  # no test runs where it was named from
    for name in ("home", "trace"):
        (folder / name).mkdir()
    os.environ |= {
        "HOME": str(folder / "home"),
        "TRACE_HOME": str(folder / "trace"),
        "LANG": "C.UTF-8",
        "HF_HUB_OFFLINE": "1",
        "DAGSTER_DISABLE_TELEMETRY": "1",
    }
    # Where this machine's packages come from, for the tests that install some.
    if (pip := users / ".config" / "pip" / "pip.conf").is_file():
        os.environ.setdefault("PIP_CONFIG_FILE", str(pip))


def _take_own_signals() -> None:
    """As in the foreground of a shell: processes inherit what is ignored or blocked."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGCHLD):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _spare_the_disk() -> None:
    """Wait for no disk: what a killed process wrote is there all the same, and no test cuts the power.

    What is synced, and before what, tests/durability sees by the calls; programs that tests start do sync.
    """

    def fsync(fd: Any) -> None:
        os.fstat(fd if isinstance(fd, int) else fd.fileno())  # one that is closed is told as ever

    os.fsync = fsync


def _watch(forbidden: tuple[str, ...]) -> None:
    """Whatever would open something of the user's fails, and with it the test."""
    opened, within = OPENED, tuple(f"{one}/" for one in forbidden)

    def hook(event: str, arguments: tuple[object, ...]) -> None:  # called for all that Python does
        if event in opened and isinstance(arguments[0], str | os.PathLike):
            path = os.fsdecode(arguments[0])
            if event == "open" and "/" not in path and arguments[1] is None:
                # `os.open`, which does not tell whether a descriptor names the folder: so trees are removed,
                # and from the checkout pytest could remove none of a test that held a `.trace`.
                return
            if path[:1] != "/" or "/." in path or "//" in path:
                path = os.path.abspath(path)
            if f"{path}/".startswith(within):
                raise PermissionError(f"a test reaches for {path}, which is the user's")

    sys.addaudithook(hook)


@pytest.fixture(autouse=True, scope="module")
def _own_variables() -> Iterator[None]:
    """What a module's own fixtures set (opening a home names Dagster's) ends with the module."""
    variables = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(variables)


@pytest.fixture(autouse=True)
def _own_surroundings() -> Iterator[None]:
    """A home and a working folder for each test; afterwards every variable is as it was before."""
    variables, before = dict(os.environ), os.getcwd()
    with tempfile.TemporaryDirectory(prefix="trace-test-", ignore_cleanup_errors=True) as folder:
        os.environ["TRACE_HOME"] = f"{folder}/home"
        os.mkdir(f"{folder}/work")
        os.chdir(f"{folder}/work")
        yield
        os.chdir(before)
    os.environ.clear()
    os.environ.update(variables)
