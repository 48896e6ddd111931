"""vLLM's executors for an engine inside another process: they end with that process, however it ends.

vLLM starts its engine's core as a child that goes on when its parent is killed, holding the accelerator. The
executor is the first of our code that runs in that child. Import this where vLLM is installed only.
"""

from __future__ import annotations

import os
from typing import Any

from vllm.v1.executor.abstract import Executor
from vllm.v1.executor.multiproc_executor import MultiprocExecutor
from vllm.v1.executor.uniproc_executor import UniProcExecutor

from trace_assets.policies.vllm_engine import LOG_VARIABLE
from trace_assets.system.processes import die_with_parent


class _Mortal:
    """Ends with the parent; the workers that an executor starts end with it, as vLLM has them."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        die_with_parent()
        with open(os.environ[LOG_VARIABLE], "ab") as log:  # theirs too, who are started from here
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
        super().__init__(*args, **kwargs)


class MortalMultiproc(_Mortal, MultiprocExecutor):  # type: ignore[misc]
    """Workers in processes of their own: several accelerators, or a CPU."""


class MortalUniProc(_Mortal, UniProcExecutor):  # type: ignore[misc]
    """The worker inside the engine's core: one accelerator."""


def mortal(executor: type[Executor]) -> type[Executor]:
    """Return the executor that ends with its parent; any other than the two above (Ray's) as it is."""
    return {MultiprocExecutor: MortalMultiproc, UniProcExecutor: MortalUniProc}.get(executor, executor)
