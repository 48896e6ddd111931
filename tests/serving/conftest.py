from __future__ import annotations

from collections.abc import Iterator

import pytest

from trace_assets.system.processes import variables


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """vLLM's CPU build binds a thread to every core and lets them spin: a tiny model is faster on one."""
    with variables(VLLM_CPU_OMP_THREADS_BIND="nobind", OMP_NUM_THREADS="1"):
        yield
