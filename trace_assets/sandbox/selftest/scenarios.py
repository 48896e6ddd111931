"""What is done to sandboxes from outside, and what passes from one episode to the next: nothing must."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import tomllib
from functools import cache
from pathlib import Path

from trace_assets.sandbox.docker import DockerContainer
from trace_assets.sandbox.errors import SandboxError
from trace_assets.sandbox.local import ProcessContainer
from trace_assets.sandbox.pool import SandboxPool, make_backend
from trace_assets.sandbox.sandbox import GRACE_SECONDS, Sandbox
from trace_assets.sandbox.selftest.attack import Outcome, of_fault, scenario
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
from trace_assets.sandbox.selftest.scenarios import COUNTER, say
pool = open_pool(SandboxConfig.model_validate_json(sys.argv[1]))
session = pool.environment(COUNTER).reset(1)
container = session._leaf.sandbox.container
process = getattr(container, "process", None)
session.begin_step(say("loop"))
print(getattr(container, "id", "") or process.pid, flush=True)
session.finish_step()
"""
MAX_KILL_SECONDS = 5.0
"""What may pass until a death is noticed: a busy machine takes two, and that step's deadline is twenty."""


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


@scenario("recovery", "died signal 9", "died unknown", "died exit 137")
def worker_killed(pool: SandboxPool) -> Outcome:
    """Kill the worker in the middle of a step."""
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


@scenario("recovery", "goes on")
def sibling_goes_on(pool: SandboxPool) -> Outcome:
    """Let one episode hang while another one is alive in the same sandbox."""
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


@scenario("recovery", "killed")
def killed_under_flood(pool: SandboxPool) -> Outcome:
    """Kill a sandbox that writes without end to a host that reads nothing."""
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


@scenario("recovery", "reaped")
def owner_killed(pool: SandboxPool) -> Outcome:
    """Kill the program that owns a sandbox in which a hostile loop runs, then start again."""
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


RECOVERY = (worker_killed, sibling_goes_on, killed_under_flood, owner_killed)


# From one episode to another nothing passes, and nothing tells one from another.


SURVIVOR = """
import sys

def tools():
    return []

def oracle(seed):
    return []

def reset(seed):
    return [{"role": "user", "content": "live on"}]

def step(message):
    return {"messages": [], "done": False, "truncated": False}

def never(*_):
    while True:
        pass

def verdict():
    sys.modules["wire"].Lines.next = never
    return {"reward": 0.0, "success": False, "checks": []}
"""
GOSSIP = """
import ctypes, fcntl, json, os, pty, socket, sys

LIBC = ctypes.CDLL(None, use_errno=True)
FOUND = []

def by_name():
    seen = [open(f"/proc/{pid}/comm").read() for pid in os.listdir("/proc") if pid.isdigit()]
    LIBC.prctl(15, b"counted", 0, 0, 0)
    return sum("counted" in one for one in seen)

def by_group():
    return int(open("/sys/fs/cgroup/memory/memory.max_usage_in_bytes").read()) >> 20

def by_terminal():
    number = len(os.listdir("/dev/pts"))
    pty.openpty()
    return number

def by_socket():
    one = socket.socket(socket.AF_UNIX)
    for number in range(9):
        try:
            one.bind(f"\\0counter-{number}")
            return number
        except OSError:
            continue
    return 9

def by_file():
    with open("/dev/shm/counter", "a+") as file:
        file.write("x")
        return file.tell()

def by_lock():
    fcntl.flock(os.open(sys.executable, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
    return 0

def by_number():
    return os.getpid() + os.getppid()

def by_memory():
    return sys.getallocatedblocks() + id(object())

def by_module():
    sys.counted = getattr(sys, "counted", 0) + 1
    return sys.counted

def tools():
    return []

def oracle(seed):
    return []

def reset(seed):
    for way in (by_name, by_group, by_terminal, by_socket, by_file, by_lock, by_number, by_memory, by_module):
        try:
            FOUND.append([way.__name__, way()])
        except Exception as error:
            FOUND.append([way.__name__, type(error).__name__])
    return [{"role": "user", "content": json.dumps(FOUND)}]

def step(message):
    return {"messages": [], "done": False, "truncated": False}

def verdict():
    sys.modules["wire"].Lines.next = lambda self: LIBC.pause() or (None, [])
    return {"reward": 0.0, "success": False, "checks": []}
"""
EPISODES = 12


@cache
def curious() -> str:
    """Return the environment that tells all that it can find out."""
    text = Path(__file__).with_name("curious.toml").read_text(encoding="utf-8")
    return str(tomllib.loads(text)["source"])


def told(box: Sandbox, seed: int = 1) -> list[tuple[str, str]]:
    """Return what the first observation of an episode tells, by name."""
    with Session(box.leaf, seed) as session:
        found = json.loads(session.messages[0]["content"])
        session.verdict()
    return [(str(name), str(value)) for name, value in (found.items() if type(found) is dict else found)]


@scenario("integrity", "killed")
def episode_outlives_itself(pool: SandboxPool) -> Outcome:
    """Let the process of an episode live on when its episode is over."""
    box = pool.fresh(pool.environment(SURVIVOR))
    Session(box.leaf, 1).verdict()
    began = time.monotonic()
    while not box.dead and time.monotonic() - began < 10 * GRACE_SECONDS:
        time.sleep(0.05)
    seconds = time.monotonic() - began
    if not box.dead:
        box.fail()
        return Outcome("survived", f"the process was still there {seconds:.0f} s after its episode")
    return Outcome("killed", f"the sandbox was ended {seconds:.1f} s after the episode")


@scenario("integrity", "contained")
def counter_over_episodes(pool: SandboxPool) -> Outcome:
    """Carry a counter over episodes: by names, groups, terminals, sockets, files, locks, memory."""
    box = pool.fresh(pool.environment(GOSSIP))
    try:
        found = [told(box) for _ in range(EPISODES)]
    finally:
        box.fail()
    return _compared(found, "episodes")


@scenario("integrity", "contained")
def same_everywhere(pool: SandboxPool) -> Outcome:
    """Tell an old sandbox from a young one, and an episode alone from one among others."""
    young, old = (pool.fresh(pool.environment(curious())) for _ in range(2))
    try:
        beside = [Session(old.leaf, seed) for seed in range(8)]
        for seed in range(100):
            Session(old.leaf, seed).close()
        found = [told(young), told(old), told(young), told(old)]
        for one in beside:
            one.close()
    finally:
        young.fail()
        old.fail()
    return _compared(found, "episodes in two sandboxes")


def _compared(found: list[list[tuple[str, str]]], what: str) -> Outcome:
    """Name what differs between episodes."""
    for name, value in found[0]:
        others = {dict(one).get(name, "") for one in found}
        if others != {value}:
            return Outcome("escaped", f"{name} differs: {sorted(others)[:4]}")
    return Outcome("contained", f"{len(found[0])} things are the same in {len(found)} {what}")


BETWEEN = (episode_outlives_itself, counter_over_episodes, same_everywhere)
