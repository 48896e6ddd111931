"""What of the sandbox works on this machine, and how to mend what does not."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import Literal

from trace_assets.errors import TraceError
from trace_assets.sandbox.backend import make_backend
from trace_assets.sandbox.config import SandboxConfig
from trace_assets.sandbox.pool import SandboxPool
from trace_assets.sandbox.reward_verification import replay
from trace_assets.sandbox.timing import EXAMPLE, speed

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
