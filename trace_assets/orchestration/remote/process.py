"""A training process on this machine, in a process group of its own."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

from dagster_pipes import (
    PipesContext,
    PipesDefaultContextLoader,
    PipesEnvVarParamsLoader,
    open_dagster_pipes,
)

from trace_assets.code_versions import code_version
from trace_assets.errors import InputError, TraceError, Unavailable
from trace_assets.records import TrainingPoint
from trace_assets.settings import Settings
from trace_assets.store import Home
from trace_assets.study import Study
from trace_assets.system.processes import GROUP_OF_A_TRAINING, ask_to_end_with_holder, end_group
from trace_assets.training.plan import OnPoint


class ProcessLauncher:
    """Starts a training in an interpreter of this machine.

    `PipesSubprocessClient` signals the direct child only, so that what that one started (workers of a
    launcher, a model server) would live on after a cancelled run; hence a group that is ended whole.

    Args:
        command: Interpreter and module.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._command = list(command)
        self.where = self._command[0]

    def folder(self) -> AbstractContextManager[Path]:
        """See `Launcher`."""
        return held_folder(Path(tempfile.gettempdir()))

    def start(self, environment: Mapping[str, str], folder: Path) -> StartedProcess:
        """See `Launcher`."""
        # A cluster may name its own processes so; whoever trains here is none of those.
        own = {key: value for key, value in os.environ.items() if key not in GROUP_OF_A_TRAINING}
        try:
            process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                env={**own, **environment},
                start_new_session=True,
            )
        except OSError as error:
            raise Unavailable(f"{self.where} cannot be started ({error}); mend training.python.") from error
        return StartedProcess(process)


class StartedProcess:
    """The leader of a process group."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def wait(self, seconds: float) -> int | None:
        """See `Started`."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self._process.returncode

    def end(self) -> None:
        """See `Started`."""
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE_SECONDS)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


# Training in a process of its own, or in several, asked and heard through Dagster Pipes.
Make = Callable[[dict[str, Any], OnPoint], dict[str, Any] | None]
"""Takes the request and a listener; makes files; returns what was recomputed, None without a sandbox."""
Several = Callable[[dict[str, Any]], Sequence[str] | None]
"""Returns the command that does the request's work in several processes; None where one does it."""
MODULE = "trace_assets.orchestration.remote.process"
GRACE_SECONDS = 10.0
"""How long a training that was asked to end may take to close its sandboxes before it is killed."""


class _Ended(BaseException):
    """SIGTERM: a cancelled run, or a step that is gone."""


def answer(make: Make, several: Several = lambda request: None) -> int:
    """Do what the step asked for, and return the exit code.

    On SIGTERM, which also comes when the step is gone, open contexts are left (sandboxes are closed) and
    then the whole process group is killed: what a training started does not outlive it.

    Args:
        make: Does the work.
        several: Says whether several processes do it together: this one then starts them and waits. Of
            those, which find their number in `RANK`, only the first speaks.
    """
    signal.signal(signal.SIGTERM, _end)
    rank = os.environ.get("RANK")
    try:
        request = _request()
        if rank is None:
            ask_to_end_with_holder(Path(request["lifeline"]), GRACE_SECONDS)
            command = several(request)
            if command is not None:
                return _wait_for(command)
        if rank not in (None, "0"):
            return _help(make, request)
        with open_dagster_pipes() as pipes:
            return _make(make, request, pipes)
    except _Ended:
        if rank is None:
            end_group()
        return 128 + signal.SIGTERM


def _request() -> dict[str, Any]:
    """Return what the step asked for, without a word to it: only one process may open the messages."""
    params = PipesEnvVarParamsLoader()  # type: ignore[no-untyped-call]
    with PipesDefaultContextLoader().load_context(params.load_context_params()) as data:
        return dict(data["extras"] or {})


def _wait_for(command: Sequence[str]) -> int:
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    try:
        return process.wait()
    except _Ended:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_SECONDS)
        raise


def _help(make: Make, request: dict[str, Any]) -> int:
    """Do this process's share; what fails in all of them is said by the first, what fails here alone here."""
    try:
        make(request, lambda point: None)
    except TraceError as error:
        print(f"process {os.environ['RANK']}: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _make(make: Make, request: dict[str, Any], pipes: PipesContext) -> int:
    def tell(point: TrainingPoint) -> None:
        pipes.report_custom_message({"point": point.model_dump(mode="json")})

    try:
        recomputed = make(request, tell)
    except TraceError as error:
        pipes.report_custom_message({"failed": str(error), "exit_code": error.exit_code})
        return error.exit_code
    pipes.report_custom_message({"done": True, "recomputed": recomputed})
    return 0


def _end(*_: object) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise _Ended


def adapter_code(name: str) -> str:
    """Return the version of the code that decides an adapter, as this interpreter has it."""
    from trace_assets.assets.adapter import MIXED

    return code_version("mixed_adapter" if name == MIXED else "adapter")


def _train(request: dict[str, Any], on_point: OnPoint) -> dict[str, Any] | None:
    from trace_assets.assets.adapter import MIXED, make_adapter, make_mixed
    from trace_assets.training.distributed import join_process_group

    if request["code"] != adapter_code(request["name"]):
        raise InputError(
            f"the trace-assets that trains ({sys.executable}) has other training code than the one that "
            "asks: install the same one there, build training.image again, or, where it was edited "
            "meanwhile, start this program again."
        )
    study = Study(Home.open(request["home"]), Settings.model_validate_json(request["settings"]))
    if request["name"] == MIXED:
        make_mixed(study, on_point)
        return None
    recomputed = make_adapter(study, request["name"], on_point)[2]
    everybody = join_process_group(study.settings.training).gather(asdict(recomputed))
    return {name: sum(one[name] for one in everybody) for name in everybody[0]}


def _several(request: dict[str, Any]) -> list[str] | None:
    from trace_assets.training.distributed import launch_command

    section = Settings.model_validate_json(request["settings"]).training
    return launch_command(section, sys.executable, MODULE) if section.processes > 1 else None


if __name__ == "__main__":
    sys.exit(answer(_train, _several))


# A scratch folder that is locked while its maker lives, and removed however that one ends.


PREFIX = "trace-t-"
_YOUNG_SECONDS = 60.0


@contextmanager
def held_folder(parent: Path) -> Iterator[Path]:
    """Open an empty folder, locked (`flock`) until the end of the body or of this process.

    By the lock whoever comes later tells it from what the dead left, and a training learns that its step is
    gone; also across containers, where process numbers say nothing.

    Yields:
        The folder; it is removed with the body.
    """
    sweep(parent)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(held)


def sweep(parent: Path) -> None:
    """Remove this user's folders that nobody holds; new ones are left alone, their makers may be about to."""
    for folder in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):
            stat = folder.lstat()
            if stat.st_uid != os.geteuid() or time.time() - stat.st_mtime < _YOUNG_SECONDS:
                continue
            held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(held)
