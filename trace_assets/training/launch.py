"""Several processes for one training: they start together and end together.

`python -m trace_assets.training.launch --processes 4 --parent PID MODULE` runs MODULE in four processes that
find each other through the variables which `torch.distributed` and accelerate read. `accelerate launch` would
give every worker a session of its own, which a step that kills its process group does not reach: here
all stay in the group of the launcher.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import NoReturn

from trace_assets.lifeline import ask_to_end_with_parent
from trace_assets.ports import free_port
from trace_assets.settings import Training

LAST_WORDS_SECONDS = 2.0
"""How long the others may take to say why they fail too, after one has failed."""
GRACE_SECONDS = 5.0
"""How long they may take to clean up, once asked to end, before they are killed."""
_POLL_SECONDS = 0.1


def launch_command(section: Training, python: str, module: str) -> list[str]:
    """Return the command that runs a training module in as many processes as the settings ask for.

    A process finds its number in `RANK` and how many there are in `WORLD_SIZE`; only number 0 shall speak for
    all. The launcher ends with the process that called this function, whatever kills it.

    Args:
        section: The training settings.
        python: The interpreter.
        module: The module, run as with `-m`.

    >>> launch_command(Training(), "python3", "train")
    ['python3', '-m', 'train']
    >>> launch_command(Training(processes=4), "python3", "train")[:5]
    ['python3', '-m', 'trace_assets.training.launch', '--processes', '4']
    """
    if section.processes == 1:
        return [python, "-m", module]
    count = str(section.processes)
    return [
        *(python, "-m", "trace_assets.training.launch"),
        *("--processes", count, "--parent", str(os.getpid()), module),
    ]


def launch(command: Sequence[str], processes: int) -> int:
    """Run a command in several processes to their end; when one fails, the others are ended.

    The others get a few seconds first: an error that was agreed upon is then said by the one that speaks.

    Args:
        command: What each process runs.
        processes: How many.

    Returns:
        0, or the exit code of the one that failed first: 128 + n for one that was killed by signal n.
    """
    environment = {
        **os.environ,
        "WORLD_SIZE": str(processes),
        "LOCAL_WORLD_SIZE": str(processes),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
    }
    started: list[subprocess.Popen[bytes]] = []
    try:
        for rank in range(processes):
            own = {**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)}
            started.append(
                subprocess.Popen(
                    list(command),
                    stdin=subprocess.DEVNULL,
                    env=own,
                    preexec_fn=ask_to_end_with_parent,
                )
            )
        return _watch(started)
    finally:
        _end(started)


def _watch(started: Sequence[subprocess.Popen[bytes]]) -> int:
    """Wait until all have ended well, or one has failed and the others had their time."""
    while True:
        codes = [process.poll() for process in started]
        failed = [(rank, code) for rank, code in enumerate(codes) if code]
        if failed:
            break
        if None not in codes:
            return 0
        time.sleep(_POLL_SECONDS)
    _wait(started, LAST_WORDS_SECONDS)
    rank, code = failed[0]
    how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
    print(
        f"process {rank} of {len(started)} {how}, so the others were ended too; finished iterations are "
        "kept, run again.",
        file=sys.stderr,
    )
    return 128 - code if code < 0 else code


def _end(started: Sequence[subprocess.Popen[bytes]]) -> None:
    """Ask those that still run to end, and kill those that do not."""
    for process in started:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
    _wait(started, GRACE_SECONDS)
    for process in started:
        if process.poll() is None:
            process.kill()
            process.wait()


def _wait(started: Sequence[subprocess.Popen[bytes]], seconds: float) -> None:
    until = time.monotonic() + seconds
    while any(process.poll() is None for process in started) and time.monotonic() < until:
        time.sleep(_POLL_SECONDS)


def _asked_to_end(*_: object) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(128 + signal.SIGTERM)


def main() -> int:
    """Run the command line's module; ends by SIGTERM, and with the process that asked for it."""
    parser = argparse.ArgumentParser(prog="trace_assets.training.launch")
    parser.add_argument("--processes", type=int, required=True)
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("module")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, _asked_to_end)
    ask_to_end_with_parent()
    if os.getppid() != asked.parent:
        return 128 + signal.SIGTERM  # it died before the signal was asked for
    return launch([sys.executable, "-m", asked.module], asked.processes)


if __name__ == "__main__":
    sys.exit(main())
