"""What passes from one episode to another, and what tells one from another: nothing must."""

from __future__ import annotations

import json
import time
import tomllib
from functools import cache
from pathlib import Path

from trace_assets.sandbox.pool import SandboxPool
from trace_assets.sandbox.sandbox import GRACE_SECONDS, Sandbox
from trace_assets.sandbox.selftest.attack import Outcome, Scenario
from trace_assets.sandbox.session import Session

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
COUNTER = """
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


def episode_outlives_itself(pool: SandboxPool) -> Outcome:
    """Let a process not end with its episode: its sandbox is ended."""
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


def counter_over_episodes(pool: SandboxPool) -> Outcome:
    """Count episodes by whatever one could leave for the next: every one of them must find the same."""
    box = pool.fresh(pool.environment(COUNTER))
    try:
        found = [told(box) for _ in range(EPISODES)]
    finally:
        box.fail()
    return _compared(found, "episodes")


def same_everywhere(pool: SandboxPool) -> Outcome:
    """Ask for all there is to find out: in a young sandbox and an old one, alone and beside others."""
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


BETWEEN: tuple[Scenario, ...] = (
    Scenario(
        "episode_outlives_itself",
        "integrity",
        "Let the process of an episode live on when its episode is over.",
        ("killed",),
        episode_outlives_itself,
    ),
    Scenario(
        "counter_over_episodes",
        "integrity",
        "Carry a counter over episodes: by names, groups, terminals, sockets, files, locks, memory.",
        ("contained",),
        counter_over_episodes,
    ),
    Scenario(
        "same_everywhere",
        "integrity",
        "Tell an old sandbox from a young one, and an episode alone from one among others.",
        ("contained",),
        same_everywhere,
    ),
)
