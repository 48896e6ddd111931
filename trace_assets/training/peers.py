"""The processes that train one adapter together: who shares the work, and who speaks for all."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from trace_assets.errors import InputError, TraceError
from trace_assets.settings import Training

T = TypeVar("T")
PATIENCE = timedelta(days=2)
"""How long one may wait for the others: they may still be playing. A peer that is gone is noticed at once."""


@dataclass(frozen=True)
class Peers:
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

        >>> [list(Peers(rank, 3).share(7)) for rank in range(3)]
        [[0, 1], [2, 3], [4, 5, 6]]
        """
        return range(self.rank * length // self.count, (self.rank + 1) * length // self.count)

    def gather(self, value: T) -> list[T]:
        """Return what every process has given, in order of their numbers.

        Args:
            value: Anything that can be pickled.
        """
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


ALONE = Peers()


def join_peers(section: Training) -> Peers:
    """Meet the other processes that `trace_assets.training.launch` started.

    Args:
        section: Says how many there should be.

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
    return Peers(
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
