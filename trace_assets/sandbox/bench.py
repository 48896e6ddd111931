"""What a sandbox costs here: `python -m trace_assets.sandbox.bench [--json] [--backend docker]`."""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

from trace_assets.sandbox.config import SandboxConfig
from trace_assets.sandbox.pool import SandboxPool, open_pool

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
ACTION = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c", "name": "wait", "arguments": {}}],
}


@dataclass(frozen=True)
class Timings:
    """Medians, except for the rates.

    Attributes:
        cold_start_ms: From nothing to a sandbox that has said hello.
        reset_ms: Fork, execution of the module and its first messages.
        round_trip_us: One request and reply with the zygote, nothing checked but the protocol.
        step_us: One step of an environment that does nothing, its shapes checked on both ways.
        resets_per_second: Episodes begun and given up, one after the other, in one sandbox.
        steps_per_second: Steps with 16 episodes in flight in one sandbox.
    """

    cold_start_ms: float
    reset_ms: float
    round_trip_us: float
    step_us: float
    resets_per_second: float
    steps_per_second: float


TARGETS = Timings(350.0, 1.5, 60.0, 60.0, 300.0, 8000.0)


def _median(repeat: int, action: Callable[[], object]) -> float:
    """Median wall seconds of an action."""
    seconds = []
    for _ in range(repeat):
        began = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def measure(pool: SandboxPool, starts: int = 5, repeat: int = 1000) -> Timings:
    """Time a pool's sandboxes.

    Args:
        pool: Its spares are not counted as cold starts.
        starts: Sandboxes started anew.
        repeat: Requests timed; a third as many resets.

    Raises:
        SandboxError: A sandbox failed.
    """
    cold = _median(starts, lambda: pool.backend.start().fail())
    environment = pool.environment(EXAMPLE)
    environment.tools()
    resets = max(1, repeat // 3)
    began = time.perf_counter()
    reset = _median(resets, lambda: environment.reset(1).close())
    rate = resets / (time.perf_counter() - began)
    session = environment.reset(1)
    box = session._leaf.sandbox
    trip = _median(repeat, box.ping)
    step = _median(repeat, lambda: session.step(ACTION))
    session.close()
    batch = [(environment.reset(seed), ACTION) for seed in range(16)]
    rounds = max(1, repeat // 16)
    began = time.perf_counter()
    for _ in range(rounds):
        environment.step_many(batch)
    together = 16 * rounds / (time.perf_counter() - began)
    for one, _message in batch:
        one.close()
    return Timings(cold * 1e3, reset * 1e3, trip * 1e6, step * 1e6, rate, together)


def main() -> None:
    """Print the timings beside their targets."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", default="docker", choices=["docker", "bubblewrap", "auto"])
    parser.add_argument("--transport", default="auto", choices=["auto", "socket", "attach"])
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    config = SandboxConfig(backend=arguments.backend, transport=arguments.transport, spares=0)
    with open_pool(config) as pool:
        timings = asdict(measure(pool))
        head = f"{pool.isolation_level} sandbox {pool.version}"
    if arguments.json:
        print(json.dumps({"sandbox": head, **timings}))
        return
    print(f"{head}\n{'':20}{'measured':>12}{'target':>12}")
    for name, value in timings.items():
        bound = "<=" if name.endswith(("ms", "us")) else ">="
        print(f"{name:20}{value:12.1f}{bound + format(getattr(TARGETS, name), '10.1f'):>12}")


if __name__ == "__main__":
    main()
