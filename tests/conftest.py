"""What tests share: the checkout, and Docker daemons."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.postgres_server import VARIABLES, Server, server
from tests.postgres_server import why_not as why_no_postgres
from trace_assets.store import Home
from trace_assets.store.moving import to_database


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--require-docker",
        action="store_true",
        help="fail, rather than skip, what needs a Docker daemon that does not answer; so in CI",
    )


def pytest_configure(config: pytest.Config) -> None:
    # Taken out of the environment: the program obeys it too, and tests try other sandboxes as well.
    asked = os.environ.pop("TRACE_REQUIRE_DOCKER", "0") not in ("", "0")
    config.option.require_docker = config.option.require_docker or asked or bool(os.environ.get("CI"))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """Say last of all what was not tried for want of a daemon."""
    yield
    if (terminal := session.config.pluginmanager.get_plugin("terminalreporter")) is None:
        return
    skipped = [one for one in terminal.stats.get("skipped", []) if "no Docker daemon" in str(one.longrepr)]
    if skipped:
        terminal.write_line(
            f"{len(skipped)} TESTS OF THE SANDBOX WERE SKIPPED, for no Docker daemon answers: start Docker, "
            "or run `make test` as root, which starts one",
            red=True,
            bold=True,
        )


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A server of Postgres."""
    if reason := why_no_postgres():
        pytest.skip(reason)
    with server() as found:
        yield found


@pytest.fixture(params=["files", "database"])
def kept_in(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[Home], Home]:
    """Have the leases of homes kept in files, and then in a database."""
    if request.param == "files":
        return lambda home: home
    postgres: Server = request.getfixturevalue("postgres")
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)

    def join(home: Home) -> Home:
        to_database(home, postgres.database(), lambda: (0.0, 0))
        return home

    return join


@pytest.fixture(scope="session")
def require_docker(pytestconfig: pytest.Config) -> bool:
    """Whether a missing Docker daemon is a failure: --require-docker, TRACE_REQUIRE_DOCKER=1, or CI."""
    return bool(pytestconfig.getoption("--require-docker"))


@pytest.fixture(scope="session")
def project_root() -> Path:
    """The checkout that holds these tests."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def trace_command(project_root: Path) -> Iterator[list[str]]:
    """How to start `trace` as a process of its own, quicker than an interpreter that has to import it."""
    script = [sys.executable, "-E", "-S", str(project_root / "tests" / "forked.py")]
    with tempfile.TemporaryDirectory(prefix="trace-forked-") as folder:
        serving = [sys.executable, "-P", script[-1], "serve", f"{folder}/socket"]
        with subprocess.Popen(serving, cwd=project_root, stdin=subprocess.DEVNULL) as server:
            yield [*script, f"{folder}/socket"]
            server.kill()


@pytest.fixture(scope="session")
def docker_daemon(require_docker: bool) -> None:
    """Skip, or where Docker is required fail, where no Docker daemon answers."""
    import docker

    try:
        docker.from_env(timeout=300).ping()  # one that is not there says so at once
    except Exception as error:
        reason = f"no Docker daemon answers ({type(error).__name__}): sh sandboxes/start_docker.sh up"
        if require_docker:
            pytest.fail(reason)
        pytest.skip(reason)


@pytest.fixture
def no_sandbox(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine on which no Docker daemon answers and bubblewrap is not installed."""
    found = shutil.which
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    monkeypatch.setattr(
        "trace_assets.sandbox.local.shutil.which",
        lambda name, *rest, **named: None if name == "bwrap" else found(name, *rest, **named),
    )


@pytest.fixture
def own_daemon(docker_daemon: None, project_root: Path) -> Iterator[str]:
    """The address of a Docker daemon of this test's own, without images: it may be killed."""
    if os.geteuid() != 0 or shutil.which("dockerd") is None:
        pytest.skip("a daemon of one's own needs root and dockerd")
    folder = Path("/tmp", f"trace-daemon-{os.getpid()}")
    script = ["sh", str(project_root / "sandboxes" / "start_docker.sh")]
    subprocess.run([*script, "up", str(folder)], check=True, capture_output=True, timeout=900)
    try:
        yield f"unix://{folder}/docker.sock"
    finally:
        subprocess.run([*script, "down", str(folder)], check=False, capture_output=True, timeout=900)
        _clear(folder)


def _clear(folder: Path) -> None:
    """Remove what a daemon that was killed has left in its folder: shims, mounts, files."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if f"{folder}/".encode() in path.read_bytes():
                os.kill(int(path.parent.name), signal.SIGKILL)
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for mount in reversed([one for one in mounts if Path(one).is_relative_to(folder)]):
        subprocess.run(["umount", "-l", mount], check=False, capture_output=True)
    shutil.rmtree(folder, ignore_errors=True)
