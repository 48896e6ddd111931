"""The selected attacks are played a few at a time from the first test on; each test waits for its own."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from trace_assets.sandbox import SandboxConfig, SandboxPool, SandboxUnavailable, open_pool
from trace_assets.sandbox.selftest.attack import Played, load_attacks
from trace_assets.sandbox.selftest.runner import AT_ONCE, Runner, battery_config

Play = Callable[[str], Played]
LATE_MS = 5_000.0
"""How late control may be regained here: a busy machine is late by more than the battery allows, and whoever
is never let go is later than this."""


def _selected(request: pytest.FixtureRequest, backend: str) -> list[str]:
    """Names of the attacks that tests of this session ask of a backend, in their order."""
    return [
        item.callspec.params["attack"]
        for item in request.session.items
        if isinstance(item, pytest.Function)
        and hasattr(item, "callspec")
        and f"play_in_{backend}" in item.fixturenames
        and "attack" in item.callspec.params
    ]


def _player(request: pytest.FixtureRequest, pool: SandboxPool) -> Iterator[Play]:
    attacks = {one.name: one for one in load_attacks()}
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(AT_ONCE) as threads:
        patch.setattr("trace_assets.sandbox.selftest.runner.MAX_CONTROL_MS", LATE_MS)
        runner = Runner(pool)
        futures: dict[str, Future[Played]] = {
            name: threads.submit(runner.play, attacks[name])
            for name in _selected(request, pool.isolation_level)
        }
        yield lambda name: futures[name].result()
        for future in futures.values():
            future.cancel()


def _open(backend: str, required: bool) -> SandboxPool:
    try:
        return open_pool(battery_config(SandboxConfig(backend=backend)))  # type: ignore[arg-type]
    except SandboxUnavailable as error:
        if required:
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def attacked_docker(require_docker: bool) -> Iterator[SandboxPool]:
    with _open("docker", require_docker) as pool:
        yield pool


@pytest.fixture(scope="session")
def attacked_bubblewrap() -> Iterator[SandboxPool]:
    with _open("bubblewrap", False) as pool:
        yield pool


@pytest.fixture(scope="session")
def play_in_docker(request: pytest.FixtureRequest, attacked_docker: SandboxPool) -> Iterator[Play]:
    yield from _player(request, attacked_docker)


@pytest.fixture(scope="session")
def play_in_bubblewrap(request: pytest.FixtureRequest, attacked_bubblewrap: SandboxPool) -> Iterator[Play]:
    yield from _player(request, attacked_bubblewrap)


@pytest.fixture(scope="session")
def no_isolation() -> Iterator[SandboxPool]:
    """Nothing is isolated here: only attacks that are marked as harmless are played."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pool = open_pool(SandboxConfig(backend="unsafe-subprocess", spares=0))
    with pool:
        yield pool
