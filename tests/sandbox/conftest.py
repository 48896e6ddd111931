from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from trace_assets.sandbox import SandboxConfig, SandboxPool, SandboxUnavailable, open_pool
from trace_assets.sandbox.config import BARE
from trace_assets.sandbox.sandbox import Sandbox
from trace_assets.sandbox.session import Session

COUNTER = Path(__file__).with_name("counter.py").read_text()
LIMITS = {"deadline_seconds": 60.0, "load_deadline_seconds": 60.0, "max_sandboxes": 4}
"""A busy machine is no fault: a test that waits for a deadline shortens that of its own sandbox (`hurry`)."""


def hurry(session: Session) -> None:
    """Let what this session asks next end soon."""
    box = session._leaf.sandbox
    box.config = box.config.model_copy(update={"deadline_seconds": 1.0})


@pytest.fixture(name="hurry")
def _hurry() -> Callable[[Session], None]:
    return hurry


def act(*numbers: int) -> dict[str, object]:
    """One assistant message that adds the numbers."""
    calls = [{"id": f"c{i}", "name": "add", "arguments": {"n": n}} for i, n in enumerate(numbers)]
    return {"role": "assistant", "content": None, "tool_calls": calls}


@pytest.fixture(name="act")
def _act() -> Callable[..., dict[str, object]]:
    return act


@pytest.fixture
def counter() -> str:
    return COUNTER


@pytest.fixture
def hostile() -> Callable[..., str]:
    """The counter with code put at the start of one of its functions, or at its end for `module`."""

    def make(where: str, code: str) -> str:
        if where == "module":
            return f"{COUNTER}\n{code}\n"
        body = "".join(f"    {line}\n" for line in code.splitlines())
        parts = COUNTER.split(f"\ndef {where}(")
        head, rest = parts[1].split(":\n", 1)
        return f"{parts[0]}\ndef {where}({head}:\n{body}{rest}"

    return make


@pytest.fixture
def bare() -> Callable[[SandboxPool, str], AbstractContextManager[Sandbox]]:
    """A sandbox whose episodes keep the kernel: what the walls behind that one are tried with."""

    @contextmanager
    def opened(pool: SandboxPool, source: str) -> Iterator[Sandbox]:
        box = pool.fresh(pool.environment(source), BARE)
        try:
            yield box
        finally:
            box.fail()

    return opened


@pytest.fixture(scope="module")
def unsafe_pool() -> Iterator[SandboxPool]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pool = open_pool(SandboxConfig(backend="unsafe-subprocess", **LIMITS))
    with pool:
        yield pool


@pytest.fixture(scope="session")
def docker_pool(require_docker: bool) -> Iterator[SandboxPool]:
    """A pool on the reachable daemon; without one the test is skipped, where Docker is required it fails."""
    try:
        pool = open_pool(SandboxConfig(backend="docker", **LIMITS))
    except SandboxUnavailable as error:
        if require_docker:
            raise
        pytest.skip(str(error))
    with pool:
        yield pool


@pytest.fixture(scope="session")
def bubblewrap_pool() -> Iterator[SandboxPool]:
    """Bubblewrap is optional everywhere, so its absence always skips."""
    try:
        pool = open_pool(SandboxConfig(backend="bubblewrap", **LIMITS))
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    with pool:
        yield pool
