"""A Postgres server of this machine for the time of some tests, where Debian's package is installed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from uuid import uuid4

from trace_assets.system.machine import free_port

VARIABLES = {"PGUSER": "trace"}
"""What a process needs to be let in."""


def _folder_of_programs() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found and (program := shutil.which("initdb")):
        found = [Path(program)]
    return found[-1].parent if found else None


def why_not() -> str:
    """Say why there can be none here; nothing when there can."""
    if find_spec("psycopg") is None:
        return "psycopg (the extra `cluster`) is not installed"
    if _folder_of_programs() is None:
        return "Postgres is not installed (Debian: postgresql)"
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        return "Postgres does not run as root, and there is no setpriv"
    return ""


class Server:
    """One server on a port of its own.

    Args:
        host: Address to listen on.
        extra: Further settings.
    """

    def __init__(self, host: str = "127.0.0.1", extra: Mapping[str, str] | None = None) -> None:
        self.host = host
        programs = _folder_of_programs()
        assert programs is not None
        self._programs = programs
        self.folder = Path(tempfile.mkdtemp(prefix="trace-postgres-"))
        self._extra = dict(extra or {})
        self.port = free_port()  # kept over an end and a new start
        if os.geteuid() == 0:
            os.chmod(self.folder, 0o777)
        self._do("initdb", "-D", str(self.data), "-U", "trace", "-A", "trust", "--no-sync", "-E", "UTF8")
        (self.data / "pg_hba.conf").write_text("host all all 0.0.0.0/0 trust\nlocal all all trust\n")
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def data(self) -> Path:
        """Its folder of data."""
        return self.folder / "data"

    def start(self) -> None:
        """Begin to serve."""
        settings = {
            "listen_addresses": self.host,
            "port": str(self.port),
            "unix_socket_directories": str(self.folder),
            "fsync": "off",
            "max_connections": "200",
            **self._extra,
        }
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._words("postgres", "-D", str(self.data), *words), stdout=log, stderr=log
            )
        give_up = time.monotonic() + 600
        while subprocess.run(
            [self._programs / "pg_isready", "-q", "-h", self.host, "-p", str(self.port)], check=False
        ).returncode:
            assert time.monotonic() < give_up and self._process.poll() is None, self.said()
            time.sleep(0.05)

    def stop(self) -> None:
        """End it at once, with whatever its clients are at."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(600)
            self._process = None

    def database(self) -> str:
        """Make an empty database; return its address."""
        name = f"t{uuid4().hex[:10]}"
        self._do("createdb", "-h", self.host, "-p", str(self.port), "-U", "trace", name)
        return f"postgresql://{self.host}:{self.port}/{name}"

    def said(self) -> str:
        """Return what it said."""
        return (self.folder / "log").read_text(errors="replace")

    def close(self) -> None:
        """End it, and remove what it held."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _words(self, program: str, *words: str) -> list[str]:
        own = [str(self._programs / program), *words]
        nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"]
        return [*nobody, *own] if os.geteuid() == 0 else own

    def _do(self, program: str, *words: str) -> None:
        done = subprocess.run(
            self._words(program, *words), capture_output=True, text=True, check=False, cwd="/"
        )
        assert done.returncode == 0, done.stderr


@contextmanager
def server(host: str = "127.0.0.1") -> Iterator[Server]:
    """Have a server while the body runs."""
    one = Server(host)
    try:
        yield one
    finally:
        one.close()
