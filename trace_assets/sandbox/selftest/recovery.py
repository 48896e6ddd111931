"""What is lost and what goes on when a worker, or the program that owns the sandboxes, is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

from trace_assets.sandbox.backend import make_backend
from trace_assets.sandbox.docker import DockerContainer
from trace_assets.sandbox.errors import SandboxError
from trace_assets.sandbox.local import ProcessContainer
from trace_assets.sandbox.pool import SandboxPool
from trace_assets.sandbox.sandbox import Sandbox
from trace_assets.sandbox.selftest.attack import Outcome, Scenario, of_fault
from trace_assets.sandbox.selftest.host import Watch, container_processes, process_tree, running
from trace_assets.sandbox.session import Session

COUNTER = """
STATE = {"n": 0}

def tools():
    return []

def oracle(seed):
    return []

def reset(seed):
    return [{"role": "user", "content": "count"}]

def step(message):
    STATE["n"] += 1
    said = message["content"]
    while said == "loop": pass
    while said == "wait": pass
    if said == "flood":
        import os
        while True: os.write(3, b"x" * 65536)
    shown = {"role": "user", "content": str(STATE["n"])}
    return {"messages": [shown], "done": False, "truncated": False}

def verdict():
    return {"reward": 0.0, "success": False, "checks": []}
"""
OWNER = """
import sys
from trace_assets.sandbox import SandboxConfig, open_pool
from trace_assets.sandbox.selftest.recovery import COUNTER, say
pool = open_pool(SandboxConfig.model_validate_json(sys.argv[1]))
session = pool.environment(COUNTER).reset(1)
container = session._leaf.sandbox.container
process = getattr(container, "process", None)
session.begin_step(say("loop"))
print(getattr(container, "id", "") or process.pid, flush=True)
session.finish_step()
"""
MAX_KILL_SECONDS = 2.0


def say(text: str) -> dict[str, object]:
    """One message of the agent."""
    return {"role": "assistant", "content": text, "tool_calls": []}


def _first_process(box: Sandbox) -> int:
    """Number of the sandbox's first process, as the host counts."""
    container = box.container
    if isinstance(container, DockerContainer):
        return int(container.api.inspect_container(container.id)["State"]["Pid"])
    assert isinstance(container, ProcessContainer)
    return container.process.pid


def _kill_first_process(box: Sandbox) -> None:
    container = box.container
    if isinstance(container, DockerContainer):  # whose processes may belong to another user
        container.api.kill(container.id)
    else:
        os.kill(_first_process(box), signal.SIGKILL)


def worker_killed(pool: SandboxPool) -> Outcome:
    """Kill the worker in the middle of a step; the next episode has another sandbox."""
    environment = pool.environment(COUNTER)
    box = pool.fresh(environment)
    session, watch = Session(box.leaf, 1), Watch(box)
    box.config = box.config.model_copy(update={"deadline_seconds": 20.0})
    threading.Timer(0.2, _kill_first_process, [box]).start()
    began = time.monotonic()
    try:
        session.step(say("wait"))
    except SandboxError as error:
        outcome = of_fault(error)
    else:
        return Outcome("paid", "the step was answered by a killed worker")
    seconds = time.monotonic() - began
    if seconds > 0.2 + MAX_KILL_SECONDS:
        return Outcome("late", f"the death was noticed after {seconds:.1f} s")
    left = watch.left()
    with environment.reset(1) as again:
        goes_on = again.step(say("on"))["messages"][0]["content"] == "1"
    if left or not goes_on:
        return Outcome("broken", "; ".join(left) or "the next episode does not work")
    return Outcome(outcome.name, f"noticed after {1e3 * (seconds - 0.2):.0f} ms; the next episode works")


def sibling_goes_on(pool: SandboxPool) -> Outcome:
    """Let one episode hang: another one of the same sandbox is played again elsewhere and goes on."""
    config = pool.config.model_copy(update={"deadline_seconds": 0.5, "spares": 0, "spread": 1})
    with SandboxPool(config, make_backend(config)) as own:
        environment = own.environment(COUNTER)
        innocent, hangs = environment.reset(1), environment.reset(2)
        for _ in range(3):
            innocent.step(say("on"))
        try:
            hangs.step(say("loop"))
        except SandboxError as error:
            fault = of_fault(error)
        else:
            return Outcome("paid", "a loop without end was answered")
        shown = innocent.step(say("on"))["messages"][0]["content"]
        innocent.close()
    if fault.name != "timeout" or shown != "4":
        return Outcome("broken", f"the one that hung: {fault.name}; the other showed {shown}, not 4")
    return Outcome("goes on", "replayed from its three actions in another sandbox; the fourth fits")


def killed_under_flood(pool: SandboxPool) -> Outcome:
    """Kill a sandbox that writes without end while the host reads nothing."""
    box = pool.fresh(pool.environment(COUNTER))
    session, watch = Session(box.leaf, 1), Watch(box)
    session.begin_step(say("flood"))
    time.sleep(0.3)
    watch.note()
    box.on_death = lambda _: None
    began = time.monotonic()
    box.fail()
    box.container.kill()
    left, seconds = watch.left(), time.monotonic() - began
    if left or seconds > MAX_KILL_SECONDS:
        return Outcome("late", f"{'; '.join(left) or 'gone'} after {seconds:.2f} s")
    return Outcome("killed", f"every process gone after {seconds:.2f} s")


def owner_killed(pool: SandboxPool) -> Outcome:
    """Kill the program that owns a sandbox in which a hostile loop runs; the next start removes it."""
    config = pool.config.model_copy(update={"deadline_seconds": 60.0, "spares": 0})
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, config.model_dump_json()], stdout=subprocess.PIPE, text=True
    )
    try:
        assert owner.stdout is not None
        name = owner.stdout.readline().strip()
        if not name:
            return Outcome("broken", "the owner could not start a sandbox")
        container = f"/docker/{name}" if len(name) == 64 else ""
        before = _alive(name, container)
        time.sleep(0.2)
    finally:
        os.kill(owner.pid, signal.SIGKILL)
        owner.wait()
        if owner.stdout is not None:
            owner.stdout.close()
    if not before:
        return Outcome("broken", "the hostile loop did not run")
    began = time.monotonic()
    make_backend(config).close()  # a start, which removes what dead owners left
    while _alive(name, container) and time.monotonic() - began < 10:
        time.sleep(0.02)
    left, seconds = _alive(name, container), time.monotonic() - began
    if left:
        return Outcome("left behind", f"{len(left)} processes still run 10 s after the next start")
    return Outcome("reaped", f"{len(before)} processes gone {seconds:.2f} s after the next start began")


def _alive(name: str, container: str) -> list[int]:
    """Processes of a sandbox that another process started."""
    return container_processes(name) if container else running(process_tree(int(name)))


RECOVERY: tuple[Scenario, ...] = (
    Scenario(
        "worker_killed",
        "recovery",
        "Kill the worker in the middle of a step.",
        ("died signal 9", "died unknown", "died exit 137"),
        worker_killed,
    ),
    Scenario(
        "sibling_goes_on",
        "recovery",
        "Let one episode hang while another one is alive in the same sandbox.",
        ("goes on",),
        sibling_goes_on,
    ),
    Scenario(
        "killed_under_flood",
        "recovery",
        "Kill a sandbox that writes without end to a host that reads nothing.",
        ("killed",),
        killed_under_flood,
    ),
    Scenario(
        "owner_killed",
        "recovery",
        "Kill the program that owns a sandbox in which a hostile loop runs, then start again.",
        ("reaped",),
        owner_killed,
    ),
)
