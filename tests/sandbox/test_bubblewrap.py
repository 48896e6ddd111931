"""The bubblewrap sandbox: the same worker behind fewer walls, and the walls it does have."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from trace_assets.sandbox import (
    EnvironmentFault,
    SandboxConfig,
    SandboxPool,
    Timeout,
    open_pool,
    replay,
)
from trace_assets.sandbox.config import compile_profile
from trace_assets.sandbox.pool import make_backend
from trace_assets.sandbox.sandbox import Sandbox
from trace_assets.sandbox.session import Session

Act = Callable[..., dict[str, object]]
Hostile = Callable[[str, str], str]
Bare = Callable[[SandboxPool, str], AbstractContextManager[Sandbox]]
Hurry = Callable[[Session], None]

PROBES = """
import os, socket
def refused(action):
    try:
        action()
    except (OSError, RuntimeError):
        return True
    return False
found = {
    "identity": os.getuid() == 65534,
    "write_root": refused(lambda: open("/escape", "w")),
    "write_tmp": refused(lambda: open("/tmp/escape", "w")),
    "write_shm": refused(lambda: open("/dev/shm/escape", "w").write("x")),
    "write_usr": refused(lambda: open("/usr/escape", "w")),
    "network": refused(lambda: socket.socket(socket.AF_INET)),
    "core_pattern": refused(lambda: open("/proc/sys/kernel/core_pattern", "w")),
    "fork": refused(os.fork),
    "host_files": not os.path.exists("/root") and not os.path.exists("/home") and not os.path.exists("/var"),
    "host_processes": len([name for name in os.listdir("/proc") if name.isdigit()]) < 6,
    "kill_init": refused(lambda: os.kill(1, 9)),
    "seccomp": "Seccomp:\\t2" in open("/proc/1/status").read(),
}
import json
return [{"role": "user", "content": json.dumps(found)}]
"""


def test_an_episode_and_its_replay(bubblewrap_pool: SandboxPool, counter: str) -> None:
    environment = bubblewrap_pool.environment(counter)
    assert bubblewrap_pool.isolation_level == "bubblewrap"
    session = environment.reset(3)
    session.step(environment.oracle(3)[0])
    verdict = session.verdict()
    assert verdict["reward"] == 1.0
    assert replay(bubblewrap_pool, counter, 3, session.actions) == verdict


def test_the_walls_stand(bubblewrap_pool: SandboxPool, hostile: Hostile, bare: Bare) -> None:
    with bare(bubblewrap_pool, hostile("reset", PROBES)) as box, Session(box.leaf, 1) as session:
        found = json.loads(session.messages[0]["content"])
    assert {name for name, good in found.items() if not good} == set()


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("while True: pass", Timeout),
        ("import threading\nthreading.Thread(target=print).start()", EnvironmentFault),
        ("x = b'x' * (1 << 30)", EnvironmentFault),
    ],
)
def test_attacks(
    bubblewrap_pool: SandboxPool, hostile: Hostile, act: Act, hurry: Hurry, code: str, fault: type[Exception]
) -> None:
    session = bubblewrap_pool.environment(hostile("step", code)).reset(1)
    if fault is Timeout:
        hurry(session)
    with pytest.raises(fault):
        session.step(act(1))


def test_the_filter_is_a_whole_number_of_instructions(bubblewrap_pool: SandboxPool) -> None:
    program = compile_profile()
    assert len(program) % 8 == 0 and len(program) // 8 > 50


def test_auto_falls_back_with_a_warning_that_is_said_once_a_command(
    bubblewrap_pool: SandboxPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACE_PROGRESS_DIR", str(tmp_path))  # where the workers of one command report
    config = SandboxConfig(backend="auto", docker_host=f"unix://{tmp_path}/none.sock", spares=0)
    with pytest.warns(UserWarning, match="isolates less than Docker"), open_pool(config) as pool:
        assert pool.isolation_level == "bubblewrap"
        assert pool.version == bubblewrap_pool.version
    with warnings.catch_warnings(action="error"):
        make_backend(config).close()
