"""How long a sandbox takes over what it does, and which of it works on this machine."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from trace_assets.errors import TraceError
from trace_assets.sandbox.config import SandboxConfig
from trace_assets.sandbox.pool import SandboxPool, make_backend
from trace_assets.sandbox.reward_verification import replay

EXAMPLE = '''"""The smallest environment: say anything, be done after a number of turns."""
STATE = {"turns": 0}

def tools():
    parameters = {"type": "object", "properties": {}}
    return [{"type": "function", "function": {"name": "wait", "description": "", "parameters": parameters}}]

def reset(seed):
    return [{"role": "user", "content": f"seed {seed}"}]

def step(message):
    STATE["turns"] += 1
    calls = message["tool_calls"]
    answers = [{"role": "tool", "tool_call_id": call["id"], "content": "ok"} for call in calls]
    return {"messages": answers, "done": False, "truncated": False}

def verdict():
    return {"reward": 1.0, "success": True, "checks": []}

def oracle(seed):
    call = {"id": "c", "name": "wait", "arguments": {}}
    return [{"role": "assistant", "content": None, "tool_calls": [call]}]
'''
LOOP = EXAMPLE.replace('STATE["turns"] += 1', "while True: pass")
"""The same, but a step never ends."""
ACTION: dict[str, Any] = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c", "name": "wait", "arguments": {}}],
}


# One measured figure beside its target.


@dataclass(frozen=True)
class Figure:
    """One row of the benchmark.

    Attributes:
        name: What was measured.
        unit: Of all values of the row.
        n: Measurements behind it.
        p50: Their median.
        p95: Their 95th percentile; of a single measurement, itself.
        target: What it should come to; None for what is only compared with.
        judged: Which of the two the target is held against.
        at_most: Whether less is better.
    """

    name: str
    unit: str
    n: int
    p50: float
    p95: float
    target: float | None = None
    judged: Literal["p50", "p95"] = "p50"
    at_most: bool = True

    @property
    def hit(self) -> bool | None:
        """Whether the target is met; None without one."""
        if self.target is None:
            return None
        value = getattr(self, self.judged)
        return bool(value <= self.target if self.at_most else value >= self.target)

    def cells(self) -> list[str]:
        """The row in words: name, unit, n, p50, p95, target, outcome."""
        target, outcome = "", ""
        if self.target is not None:
            target = f"{'<=' if self.at_most else '>='} {self.target:g} ({self.judged})"
            outcome = "hit" if self.hit else "miss"
        return [self.name, self.unit, str(self.n), _short(self.p50), _short(self.p95), target, outcome]


def _short(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of the values lie: the nearest one that was measured.

    >>> quantile([3.0, 1.0, 2.0], 0.5)
    2.0
    """
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def figure(
    name: str,
    unit: str,
    values: Sequence[float],
    target: float | None = None,
    judged: Literal["p50", "p95"] = "p50",
    *,
    at_most: bool = True,
) -> Figure:
    """Make a row of measured values, all in `unit`."""
    return Figure(
        name, unit, len(values), quantile(values, 0.5), quantile(values, 0.95), target, judged, at_most
    )


def seconds(repeat: int, action: Callable[[], object]) -> list[float]:
    """Wall seconds of each of `repeat` calls."""
    taken = []
    for _ in range(repeat):
        began = time.perf_counter()
        action()
        taken.append(time.perf_counter() - began)
    return taken


def scaled(values: Sequence[float], factor: float) -> list[float]:
    """Every value times `factor`, to change its unit."""
    return [value * factor for value in values]


# How fast a pool's sandboxes start, reset and step.


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


Status = Literal["ok", "slow", "failed", "skipped"]


@dataclass(frozen=True)
class ProbeResult:
    """One line of `trace doctor`.

    Attributes:
        name: What was tried.
        status: `slow` works but misses its target; `skipped` was not tried because an earlier one failed.
        detail: What was found, or what failed and how to mend it.
    """

    name: str
    status: Status
    detail: str


def probe(config: SandboxConfig) -> list[ProbeResult]:
    """Try the sandbox from the daemon to the verdict of an episode, and time it; a failure is a result."""
    steps = ["backend", "episode", "replay", "timing"]
    results: list[ProbeResult] = []
    try:
        began = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            backend = make_backend(config)
        seconds = time.perf_counter() - began
        notes = "".join(f"; {warning.message}" for warning in caught)
        text = (
            f"{backend.isolation_level}, sandbox version {backend.version}, ready in {seconds:.1f} s{notes}"
        )
        results.append(ProbeResult("backend", "ok", text))
        with SandboxPool(config, backend) as pool:
            environment = pool.environment(EXAMPLE)
            with environment.reset(1) as session:
                for action in environment.oracle(1):
                    session.step(action)
                reward = session.verdict()["reward"]
            results.append(
                ProbeResult("episode", "ok", f"the oracle of a trivial environment earned {reward}")
            )
            again = replay(pool, EXAMPLE, 1, session.actions)["reward"]
            agrees: Status = "ok" if again == reward else "failed"
            results.append(ProbeResult("replay", agrees, f"a fresh sandbox gives it {again}"))
            results += _timings(pool)
    except TraceError as error:
        failed = steps[len(results)] if len(results) < len(steps) else steps[-1]
        results.append(ProbeResult(failed, "failed", str(error)))
        results += [ProbeResult(name, "skipped", f"{failed} failed") for name in steps[len(results) :]]
    return results


def _timings(pool: SandboxPool) -> list[ProbeResult]:
    results = []
    for one in speed(pool, starts=3, repeat=300):
        if one.name in ("cold start", "reset", "step") and one.target is not None:
            # The targets are for an idle machine; twice the target on a busy one is no fault.
            status: Status = "ok" if one.p50 <= 2 * one.target else "slow"
            detail = f"{one.p50:.1f} {one.unit} (target {one.target:g} {one.unit} when idle)"
            results.append(ProbeResult(one.name, status, detail))
    return results
