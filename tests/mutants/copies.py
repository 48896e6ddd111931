"""Copies of the tree to put a mutant into, each with an interpreter that imports the copy, not the tree."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PYTEST = ["-q", "--no-header", "-p", "no:cacheprovider", "-p", "observing"]
ENVIRONMENT = {"PYTHONPATH": str(HERE), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}


def tree_files() -> list[str]:
    """What git knows or would add, of what is there."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout.decode()
    return sorted({name for name in listed.split("\0") if name and (ROOT / name).is_file()})


@dataclass(frozen=True)
class Copy:
    """One of them."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> Copy:
        """Copy the tree into an empty folder."""
        for name in tree_files():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
        environment = folder / ".venv"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
        packages = [one for one in sys.path if one.endswith("-packages")]
        coverage = (
            "import os; os.getenv('COVERAGE_PROCESS_START') and __import__('coverage').process_startup()"
        )
        places = dict.fromkeys(("base", "platbase"), str(environment))
        listing = Path(sysconfig.get_path("purelib", "venv", vars=places), "tree.pth")
        listing.write_text("\n".join([str(folder), *packages, coverage, ""]))
        # As `make` does: without, every test that starts a command compiles and hashes the package anew.
        subprocess.run([sys.executable, "-m", "compileall", "-q", folder / "trace_assets"], check=True)
        return cls(folder)

    def pytest(self, *arguments: str, seconds: float | None = None, **variables: str) -> int:
        """Run pytest here and end all that it leaves; return its exit status, or -1 after so many seconds."""
        with (self.folder / "pytest.log").open("w") as log:
            process = subprocess.Popen(
                [self.folder / ".venv/bin/python", "-m", "pytest", *PYTEST, *arguments],
                cwd=self.folder,
                env={**os.environ, **ENVIRONMENT, **variables},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                return process.wait(seconds)
            except subprocess.TimeoutExpired:
                return -1
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, 9)
                process.wait()
