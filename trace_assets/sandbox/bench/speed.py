"""How fast a pool's sandboxes start, reset and step."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from trace_assets.sandbox.bench.example import ACTION, EXAMPLE
from trace_assets.sandbox.bench.figure import Figure, figure, scaled, seconds
from trace_assets.sandbox.pool import SandboxPool

_WINDOWS = 10
"""Windows that a rate is measured in, so that it has a spread."""
_IN_FLIGHT = 16
_PAUSE = 0.005


def _rates(windows: int, per_window: int, action: Callable[[], object]) -> list[float]:
    """Calls a second in each of several windows."""
    rates = []
    for _ in range(windows):
        began = time.perf_counter()
        for _ in range(per_window):
            action()
        rates.append(per_window / (time.perf_counter() - began))
    return rates


def speed(pool: SandboxPool, starts: int = 10, repeat: int = 2000) -> list[Figure]:
    """Time a pool's sandboxes, one after the other: cold start, reset, ping, step, and their rates.

    Args:
        pool: With spares they would compete with what is measured: none is best.
        starts: Sandboxes started anew.
        repeat: Requests timed; a quarter as many resets.

    Raises:
        SandboxError: A sandbox failed.
    """
    cold = seconds(starts, lambda: _start_and_drop(pool))
    environment = pool.environment(EXAMPLE)
    environment.tools()
    resets = max(_WINDOWS, repeat // 4)
    reset = seconds(resets, lambda: environment.reset(1).close())
    paced = []
    for _ in range(min(resets, 200)):
        time.sleep(_PAUSE)  # as while a model generates text: what can be done ahead is done
        paced += seconds(1, lambda: environment.reset(1).close())
    rate = _rates(_WINDOWS, resets // _WINDOWS, lambda: environment.reset(1).close())
    with environment.reset(1) as session:
        trip = seconds(repeat, session._leaf.sandbox.ping)
        step = seconds(repeat, lambda: session.step(ACTION))
    batch = [(environment.reset(seed), ACTION) for seed in range(_IN_FLIGHT)]
    rounds = max(1, repeat // _IN_FLIGHT // _WINDOWS)
    together = _rates(_WINDOWS, rounds, lambda: environment.step_many(batch))
    for one, _action in batch:
        one.close()
    return [
        figure("cold start", "ms", scaled(cold, 1e3), 350),
        figure("reset", "ms", scaled(reset, 1e3), 1.5),
        figure("reset after a pause of 5 ms", "ms", scaled(paced, 1e3)),
        figure("round trip to the first process", "us", scaled(trip, 1e6), 60),
        figure("step", "us", scaled(step, 1e6), 60),
        figure("resets in one sandbox", "1/s", rate, 300, at_most=False),
        figure(f"steps, {_IN_FLIGHT} in flight", "1/s", scaled(together, _IN_FLIGHT), 8000, at_most=False),
    ]


def _start_and_drop(pool: SandboxPool) -> None:
    box = pool.backend.start()
    box.on_death = pool._bury
    box.fail()


def resets_in_all(pool: SandboxPool, sandboxes: int = 4, repeat: int = 100) -> Figure:
    """Resets a second over several sandboxes, each asked by a thread of its own."""
    environments = [pool.environment(f"{EXAMPLE}# {number}\n") for number in range(sandboxes)]
    for one in environments:
        one.tools()
    with ThreadPoolExecutor(sandboxes) as threads:

        def all_at_once() -> None:
            list(threads.map(lambda one: [one.reset(1).close() for _ in range(repeat)], environments))

        taken = seconds(5, all_at_once)
    rates = [sandboxes * repeat / one for one in taken]
    return figure(f"resets in {sandboxes} sandboxes", "1/s", rates, 500, at_most=False)
