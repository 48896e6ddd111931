"""The Docker sandbox: flags that are there, walls that stand, containers that go. Attacks: see `attacks/`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
import requests
from docker.errors import APIError, NotFound

from trace_assets.sandbox import (
    Died,
    EnvironmentFault,
    SandboxConfig,
    SandboxError,
    SandboxPool,
    SandboxUnavailable,
    Timeout,
    image,
    open_pool,
    replay,
)
from trace_assets.sandbox.docker import DockerBackend, DockerContainer
from trace_assets.sandbox.sandbox import Sandbox
from trace_assets.sandbox.session import Session

pytestmark = pytest.mark.docker

Act = Callable[..., dict[str, object]]
Hostile = Callable[[str, str], str]
Bare = Callable[[SandboxPool, str], AbstractContextManager[Sandbox]]
Hurry = Callable[[Session], None]


def containers(pool: SandboxPool, **filters: str) -> list[dict[str, Any]]:
    backend = pool.backend
    assert isinstance(backend, DockerBackend)
    found: list[dict[str, Any]] = backend.client().api.containers(
        all=True, filters={"label": f"{image.PROJECT}.pid={os.getpid()}", **filters}
    )
    return found


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return condition()


@pytest.fixture(params=["socket", "attach"])
def any_transport(request: pytest.FixtureRequest, docker_pool: SandboxPool) -> Iterator[SandboxPool]:
    if request.param == "socket":
        yield docker_pool
        return
    config = docker_pool.config.model_copy(update={"transport": "attach", "spares": 0})
    with open_pool(config) as pool:
        yield pool


def test_an_episode_and_its_replay(any_transport: SandboxPool, counter: str) -> None:
    environment = any_transport.environment(counter)
    assert any_transport.isolation_level == "docker"
    assert [tool["function"]["name"] for tool in environment.tools()] == ["add"]
    sessions = [environment.reset(seed) for seed in range(5)]
    results = environment.step_many([(one, environment.oracle(one.seed)[0]) for one in sessions])
    assert all(isinstance(result, dict) and result["done"] for result in results)
    for one in sessions:
        verdict = one.verdict()
        assert verdict["reward"] == 1.0
    assert replay(any_transport, counter, 4, sessions[4].actions) == verdict


@pytest.mark.parametrize(
    ("code", "fault"),
    [("while True: pass", Timeout), ("import os\nos._exit(0)", Died), ("return {1}", EnvironmentFault)],
)
def test_faults_are_told_apart(
    any_transport: SandboxPool, hostile: Hostile, act: Act, hurry: Hurry, code: str, fault: type[SandboxError]
) -> None:
    session = any_transport.environment(hostile("step", code)).reset(1)
    box = session._leaf.sandbox
    if fault is Timeout:
        hurry(session)
    with pytest.raises(fault):
        session.step(act(1))
    assert box.dead == (fault is not EnvironmentFault)


def test_an_episode_that_ends_between_two_steps_is_told_as_such(
    any_transport: SandboxPool, hostile: Hostile, act: Act, bare: Bare
) -> None:
    """Without its inner wall it has a timer, which strikes between two requests.

    It strikes late, for the reply to the first comes late from a busy machine.
    """
    code = "import signal\nsignal.setitimer(signal.ITIMER_REAL, 1.5)"
    with bare(any_transport, hostile("step", code)) as box:
        session = Session(box.leaf, 1)
        session.step(act(0))
        time.sleep(1.8)
        with pytest.raises(Died) as caught:
            session.step(act(0))
    assert caught.value.reason == f"signal {int(signal.SIGALRM)}"


def test_no_process_left_for_another_episode_is_told_as_such(docker_pool: SandboxPool, counter: str) -> None:
    config = docker_pool.config.model_copy(update={"pids": 4, "spares": 0, "max_sandboxes": 1})
    with open_pool(config) as pool, pytest.raises(Died, match="fewer episodes at once") as caught:
        sessions = [pool.environment(counter).reset(seed) for seed in range(8)]
        assert not sessions
    assert caught.value.reason == "fork"


def test_the_flags_are_really_applied(docker_pool: SandboxPool, counter: str) -> None:
    backend = docker_pool.backend
    assert isinstance(backend, DockerBackend)
    with docker_pool.environment(counter).reset(1) as session:
        container = session._leaf.sandbox.container
        inspected = backend.client().api.inspect_container(container.id)  # type: ignore[attr-defined]
    host = inspected["HostConfig"]
    assert host["NetworkMode"] == "none" and not inspected["NetworkSettings"]["IPAddress"]
    assert host["ReadonlyRootfs"] and not host["Privileged"] and host["AutoRemove"]
    assert host["CapDrop"] == ["ALL"] and not host["CapAdd"] and not host["Devices"]
    assert "no-new-privileges:true" in host["SecurityOpt"]
    assert any(option.startswith("seccomp={") for option in host["SecurityOpt"])
    assert host["Memory"] == host["MemorySwap"] == docker_pool.config.memory_mb << 20
    assert host["NanoCpus"] == 1_000_000_000 and host["PidsLimit"] == docker_pool.config.pid_limit
    assert host["IpcMode"] == "none" and host["LogConfig"]["Type"] == "none"
    assert host["OomScoreAdj"] == 1000 and not host.get("Tmpfs") and not host["Binds"]
    assert [mount["RW"] for mount in inspected["Mounts"]] == [False]
    assert inspected["Config"]["User"] == "65534:65534"
    assert {limit["Name"]: limit["Hard"] for limit in host["Ulimits"]}["fsize"] == 0


PROBES = {
    "identity": "import os\nreport(os.getuid() == os.getgid() == 65534 and os.getgroups() in ([], [65534]))",
    "capabilities": "report('CapEff:\\t0000000000000000' in open('/proc/1/status').read())",
    "seccomp": "report('Seccomp:\\t2' in open('/proc/1/status').read())",
    "no_new_privileges": "report('NoNewPrivs:\\t1' in open('/proc/1/status').read())",
    "write_root": "refused(lambda: open('/escape', 'w'))",
    "write_tmp": "refused(lambda: open('/tmp/escape', 'w'))",
    "write_shm": "refused(lambda: open('/dev/shm/escape', 'w'))",
    "write_mount": "refused(lambda: open('/run/trace/escape', 'w'))",
    "write_worker": "refused(lambda: open('/opt/trace/worker/leaf.py', 'a'))",
    "mkdir": "import os\nrefused(lambda: os.mkdir('/tmp/d'))",
    "init_root": "import os\nrefused(lambda: os.listdir('/proc/1/root'))",
    "init_memory": "refused(lambda: open('/proc/1/mem', 'rb').read(1))",
    "kernel_memory": "refused(lambda: open('/proc/kcore', 'rb').read(1))",
    "core_pattern": "refused(lambda: open('/proc/sys/kernel/core_pattern', 'w').write('|/x'))",
    "network": "import socket\nrefused(lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM))",
    "raw": "import socket\nrefused(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))",
    "netlink": "import socket\nrefused(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW))",
    "vsock": "import socket\nrefused(lambda: socket.socket(40, socket.SOCK_STREAM))",
    "host_again": "import socket\nrefused(lambda: socket.socket(socket.AF_UNIX).connect('/run/trace/s'))",
    "listen": "import socket\nrefused(lambda: socket.socket(socket.AF_UNIX).bind('\\0shared'))",
    "fork": "import os\nrefused(os.fork)",
    "thread": "import _thread\nrefused(lambda: _thread.start_new_thread(print, ()))",
    "subprocess": "import subprocess\nrefused(lambda: subprocess.run(['/usr/bin/python3', '-c', '']))",
    "raise_limit": "import resource\nrefused(lambda: resource.setrlimit(resource.RLIMIT_NPROC, (9, 9)))",
    "setuid": "import os\nrefused(lambda: os.setuid(0))",
    "kill_init": "import os\nrefused(lambda: os.kill(1, 9))",
    "kill_all": "import os\nrefused(lambda: os.kill(-1, 9))",
    "ptrace": "syscall(101, 16, 1, 0, 0)",
    "mount": "syscall(165, b'none', b'/tmp', b'tmpfs', 0, 0)",
    "unshare": "syscall(272, 0x10000000)",
    "memfd": "syscall(319, b'x', 0)",
    "io_uring": "syscall(425, 1, 0)",
    "bpf": "syscall(321, 0, 0, 0)",
    "keyctl": "syscall(250, 0, -1, 0)",
    "userfaultfd": "syscall(323, 0)",
    "process_vm_readv": "syscall(310, 1, 0, 0, 0, 0, 0)",
}
HELPERS = """
SEEN = []

def report(good):
    SEEN.append(bool(good))

def refused(action):
    try:
        action()
    except (OSError, RuntimeError, ValueError):
        return report(True)
    report(False)

def syscall(*arguments):
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    report(libc.syscall(*arguments) == -1 and ctypes.get_errno() == 1)
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the system call numbers are those of x86-64")
def test_the_walls_stand_where_they_should(docker_pool: SandboxPool, hostile: Hostile, bare: Bare) -> None:
    """One episode tries every way out and tells which were refused; without its inner wall and with it."""
    functions = "".join(
        f"def probe_{name}():\n{textwrap.indent(code, '    ')}\n" for name, code in PROBES.items()
    )
    run = (
        f"for name in {list(PROBES)!r}:\n"
        "    SEEN.clear()\n"
        "    globals()['probe_' + name]()\n"
        "    found[name] = SEEN == [True]\n"
    )
    reset = f"found = {{}}\n{run}import json\nreturn [{{'role': 'user', 'content': json.dumps(found)}}]"
    source = hostile("reset", reset) + HELPERS + functions
    with bare(docker_pool, source) as box, Session(box.leaf, 1) as session:
        found = json.loads(session.messages[0]["content"])
    assert list(found) == list(PROBES)
    assert {name for name, good in found.items() if not good} == set()
    whoami = ["identity", "capabilities", "seccomp", "no_new_privileges"]  # within, nobody is told who he is
    source = source.replace(repr(list(PROBES)), repr([name for name in PROBES if name not in whoami]))
    with docker_pool.environment(source).reset(1) as session:
        inside = json.loads(session.messages[0]["content"])
    assert {name for name, good in inside.items() if not good} == set()


def test_memory_used_up_by_all_episodes_together_is_told_as_such(
    docker_pool: SandboxPool, hostile: Hostile, act: Act
) -> None:
    config = docker_pool.config.model_copy(update={"deadline_seconds": 10.0, "spares": 0})
    with open_pool(config) as pool:
        environment = pool.environment(hostile("step", "STATE['keep'] = b'x' * (150 << 20)"))
        sessions = [environment.reset(seed) for seed in range(3)]
        results = environment.step_many([(one, act(0)) for one in sessions])
    assert "oom" in {result.reason for result in results if isinstance(result, Died)}, results


def test_nothing_leaks_between_episodes(docker_pool: SandboxPool, hostile: Hostile, act: Act) -> None:
    code = (
        "import sys, os, builtins\n"
        "sys.leak = builtins.leak = getattr(sys, 'leak', 0) + getattr(builtins, 'leak', 0) + 1\n"
        "json = __import__('json'); json.leak = getattr(json, 'leak', 0) + 1\n"
        "for path in ('/tmp/x', '/dev/shm/x', '/run/x', '/x'):\n"
        "    try:\n        open(path, 'a').write('x')\n        sys.leak += 1\n"
        "    except OSError:\n        pass\n"
        "STATE['total'] = sys.leak + json.leak\n"
    )
    environment = docker_pool.environment(hostile("step", code))
    seen = []
    for _ in range(3):
        with environment.reset(1) as session:
            seen.append(session.step(act(0))["messages"][0]["content"])
    assert seen == ["2"] * 3


def test_two_versions_never_share_a_container(docker_pool: SandboxPool, hostile: Hostile) -> None:
    one = docker_pool.environment(hostile("module", "# one")).reset(1)
    two = docker_pool.environment(hostile("module", "# two")).reset(1)
    assert one._leaf.sandbox is not two._leaf.sandbox
    one.close()
    two.close()


def test_sandboxes_are_recycled_and_bounded(docker_pool: SandboxPool, counter: str, hostile: Hostile) -> None:
    config = docker_pool.config.model_copy(update={"recycle_after": 3, "max_sandboxes": 2, "spares": 0})
    others = {one["Id"] for one in containers(docker_pool)}  # of pools that this process holds besides
    with open_pool(config) as pool:
        environment = pool.environment(counter)
        names = []
        for seed in range(6):
            with environment.reset(seed) as session:
                names.append(session._leaf.sandbox.container.name)
        assert len(set(names[:3])) == len(set(names[3:])) == 1 and names[0] != names[3]
        keep = [environment.reset(1), pool.environment(hostile("module", "# other")).reset(1)]
        with pytest.raises(SandboxUnavailable, match="busy"):
            pool.environment(hostile("module", "# third")).tools()
        keep[1].close()
        pool.environment(hostile("module", "# third")).tools()
    assert wait_until(lambda: len({one["Id"] for one in containers(pool)} - others) <= 1, 60)


@pytest.mark.alone
def test_a_dead_owners_containers_are_gone(docker_pool: SandboxPool, tmp_path: Path, counter: str) -> None:
    script = (
        "import os, sys, time\n"
        "from trace_assets.sandbox import SandboxConfig, open_pool\n"
        "pool = open_pool(SandboxConfig(spares=0))\n"
        f"pool.environment({counter + 'import time' + chr(10)!r}).reset(1)\n"
        "print(os.getpid(), flush=True)\ntime.sleep(60)\n"
    )
    owner = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None and owner.stdout.readline()
    backend = docker_pool.backend
    assert isinstance(backend, DockerBackend)
    api = backend.client().api
    mine = {"label": f"{image.PROJECT}.pid={owner.pid}"}
    assert len(api.containers(all=True, filters=mine)) == 1
    os.kill(owner.pid, signal.SIGKILL)
    owner.wait()
    image.sweep(backend.client())
    image.sweep_folders()
    assert wait_until(lambda: not api.containers(all=True, filters=mine), 60)
    assert not list(backend._folder.parent.glob(f"{image.FOLDER}-{owner.pid}-*"))  # type: ignore[union-attr]
    assert backend._folder.exists()  # type: ignore[union-attr]


@pytest.mark.alone
def test_the_sweep_takes_only_what_the_dead_left(docker_pool: SandboxPool) -> None:
    backend = docker_pool.backend
    assert isinstance(backend, DockerBackend)
    api = backend.client().api

    def leave(**changed: str) -> str:
        labels = image.owner_labels() | {f"{image.PROJECT}.{name}": value for name, value in changed.items()}
        body = {"Image": backend.image.reference, "Labels": labels, "HostConfig": {"NetworkMode": "none"}}
        return str(api.create_container_from_config(body)["Id"])

    alive, dead = leave(), leave(pid="1", start="0")
    elsewhere, expired = leave(boot="another"), leave(boot="another", expires="1")
    try:
        image.sweep(backend.client())
        left = {one["Id"] for one in api.containers(all=True)}
        assert {alive, elsewhere} <= left and not {dead, expired} & left
    finally:
        for one in (alive, elsewhere):
            api.remove_container(one, force=True)


def test_the_version_does_not_change_with_a_new_build(docker_pool: SandboxPool) -> None:
    again = DockerBackend(docker_pool.config)
    other = DockerBackend(SandboxConfig(memory_mb=300))
    assert again.version == docker_pool.version != other.version
    again.close()
    other.close()


def test_no_daemon_is_told_with_the_fix(tmp_path: Path) -> None:
    with pytest.raises(SandboxUnavailable, match=r"start_docker\.sh"):
        open_pool(SandboxConfig(backend="docker", docker_host=f"unix://{tmp_path}/nothing.sock"))


@pytest.mark.parametrize(
    ("answers", "asked"),
    [
        ((requests.ReadTimeout(), APIError("removal is already in progress"), NotFound("gone")), 3),
        ((APIError("did not receive an exit event"), None), 2),
        ((requests.ConnectionError(), None), 1),
    ],
)
def test_a_busy_daemon_is_asked_again_until_the_container_is_gone(
    answers: tuple[Exception | None, ...], asked: int
) -> None:
    backend = MagicMock()
    remove = backend.client.return_value.api.remove_container
    remove.side_effect = answers
    DockerContainer(backend, "c" * 64, None).kill()
    assert remove.call_count == asked
    backend.forget_connections.assert_called_once()


def test_a_closed_pool_leaves_nothing_behind(docker_pool: SandboxPool, counter: str) -> None:
    with open_pool(docker_pool.config) as pool:
        pool.environment(counter).reset(1)
        folder = pool.backend._folder  # type: ignore[attr-defined]

        def own() -> list[dict[str, Any]]:
            """The containers of this pool: another one of this process may start some meanwhile."""
            there = containers(docker_pool)
            return [one for one in there if any(str(folder) in mount["Source"] for mount in one["Mounts"])]

        assert own()
    assert not folder.exists()
    assert not own()
    with pytest.raises(SandboxUnavailable, match="closed"):
        pool.environment(counter).tools()
