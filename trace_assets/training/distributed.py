"""The processes that train one adapter together: who shares the work, and who speaks for all."""

from __future__ import annotations

import argparse
import atexit
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NoReturn, TypeVar

from trace_assets.errors import InputError, TraceError
from trace_assets.settings import Training
from trace_assets.system.machine import free_port
from trace_assets.system.processes import ask_to_end_with_parent

T = TypeVar("T")
PATIENCE = timedelta(days=2)
"""How long one may wait for the others: they may still play. A process that is gone is noticed at once."""


@dataclass(frozen=True)
class ProcessGroup:
    """One of several processes that run the same training in step; alone, every method is that of one.

    All methods that exchange something must be called by every process, in the same order.

    Attributes:
        rank: Its number, from 0.
        count: How many there are.
        group: What they speak over; None alone.
    """

    rank: int = 0
    count: int = 1
    group: Any = None

    @property
    def first(self) -> bool:
        """Whether this process writes files and reports for all."""
        return self.rank == 0

    def share(self, length: int) -> range:
        """Return the positions, one after the other, of this process in work of a length.

        >>> [list(ProcessGroup(rank, 3).share(7)) for rank in range(3)]
        [[0, 1], [2, 3], [4, 5, 6]]
        """
        return range(self.rank * length // self.count, (self.rank + 1) * length // self.count)

    def gather(self, value: T) -> list[T]:
        """Return what every process has given, in order of their numbers."""
        if self.count == 1:
            return [value]
        import torch.distributed

        found: list[Any] = [None] * self.count
        torch.distributed.all_gather_object(found, value, group=self.group)
        return found

    def each(self, work: Callable[[], T]) -> list[T]:
        """Do work in every process, and return what each has made.

        Raises:
            TraceError: The first one's that failed, in all of them: so all end with the same sentence.
        """
        if self.count == 1:
            return [work()]
        try:
            outcome: T | TraceError = work()
        except TraceError as error:
            outcome = error
        outcomes = self.gather(outcome)
        for one in outcomes:
            if isinstance(one, TraceError):
                raise one
        return [one for one in outcomes if not isinstance(one, TraceError)]

    def once(self, work: Callable[[], T]) -> T:
        """Do work in the first process only, and return its result in all of them; errors as in `each`."""
        found = self.each(lambda: [work()] if self.first else [])
        return found[0][0]

    def wait(self) -> None:
        """Go on when every process has come here: what any of them has written by then is there for all."""
        self.gather(None)


ALONE = ProcessGroup()


def join_process_group(section: Training) -> ProcessGroup:
    """Meet the other processes that `trace_assets.training.distributed` started.

    Raises:
        InputError: There are more or fewer, or the settings cannot be shared among so many.
    """
    found = int(os.environ.get("WORLD_SIZE", "1"))
    if found != section.processes:
        raise InputError(
            f"training.processes is {section.processes} and this training runs in {found}: choose "
            "training.launcher = 'pipes' or 'docker', which start as many."
        )
    if section.shard and section.processes == 1:
        raise InputError("training.shard divides the model among processes: set training.processes above 1.")
    if section.processes == 1:
        return ALONE
    _refuse_what_cannot_be_shared(section)
    import torch.distributed

    if not torch.distributed.is_initialized():  # accelerate takes what it finds
        backend = "gloo"
        if torch.cuda.is_available():
            _refuse_too_few_gpus(section.processes, torch.cuda.device_count())
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
            backend = "cpu:gloo,cuda:nccl"
        else:  # by itself accelerate numbers processors as `cpu:1`, where torch restores no checkpoint
            os.environ.setdefault("ACCELERATE_TORCH_DEVICE", "cpu")
        torch.distributed.init_process_group(backend, timeout=PATIENCE)
        # Left open to the end, gloo's threads now and then abort a process: a finished training would fail.
        atexit.register(torch.distributed.destroy_process_group)
    return ProcessGroup(
        torch.distributed.get_rank(),
        torch.distributed.get_world_size(),
        # Objects go through the host: whoever has played its share waits there, and no accelerator spins.
        torch.distributed.new_group(backend="gloo", timeout=PATIENCE),
    )


def _refuse_too_few_gpus(processes: int, gpus: int) -> None:
    if processes > gpus:
        raise InputError(
            f"training.processes is {processes}, one a GPU, and this machine shows {gpus}: lower it, or show "
            "more in CUDA_VISIBLE_DEVICES (in a container: training.gpus)."
        )


def _refuse_what_cannot_be_shared(section: Training) -> None:
    processes = section.processes
    if section.shard and section.sampler != "server":
        raise InputError(
            "training.shard needs training.sampler = 'server': the other samplers hold the whole model in "
            "every process."
        )
    if section.tasks_per_iteration % processes:
        raise InputError(
            f"training.processes = {processes} does not divide the {section.tasks_per_iteration} tasks of an "
            "iteration (training.tasks_per_iteration), and no group is divided; choose a divisor."
        )
    if section.loss_type != "dapo":
        raise InputError(
            f"training.loss_type = '{section.loss_type}' averages within each process, so that the adapter "
            "would depend on training.processes; several processes need 'dapo'."
        )
    own = section.tasks_per_iteration * section.group_size // processes
    if section.micro_batch and own % section.micro_batch:
        raise InputError(
            f"training.micro_batch = {section.micro_batch} does not divide the {own} episodes that each of "
            f"{processes} processes has in an iteration; choose a divisor."
        )


# Several processes for one training: they start together and end together.


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
    ['python3', '-m', 'trace_assets.training.distributed', '--processes', '4']
    """
    if section.processes == 1:
        return [python, "-m", module]
    count = str(section.processes)
    return [
        *(python, "-m", "trace_assets.training.distributed"),
        *("--processes", count, "--parent", str(os.getpid()), module),
    ]


def launch(command: Sequence[str], processes: int) -> int:
    """Run a command in several processes to their end; when one fails, the others are ended.

    The others get a few seconds first: an error that was agreed upon is then said by the one that speaks.

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
    parser = argparse.ArgumentParser(prog="trace_assets.training.distributed")
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
