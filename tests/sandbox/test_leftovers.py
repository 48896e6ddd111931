"""What is left of sandboxes: after many episodes, after a dead host, behind a stream that nobody reads."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bench.sandbox.damage import descriptors, resident
from trace_assets.sandbox import SandboxConfig, SandboxPool, Timeout, image, open_pool
from trace_assets.sandbox.docker import DockerBackend
from trace_assets.sandbox.protocol import encode

pytestmark = pytest.mark.alone

Hostile = Callable[[str, str], str]
Act = Callable[..., dict[str, object]]

FLOOD = (
    "import os, stat\n"
    "for fd in range(3, 64):\n"
    "    try:\n"
    "        while stat.S_ISSOCK(os.fstat(fd).st_mode):\n"
    "            os.write(fd, b'x' * 65536)\n"
    "    except OSError:\n"
    "        pass\n"
)
OWNER = """
import sys, time, warnings
from trace_assets.sandbox import SandboxConfig, open_pool
warnings.simplefilter("ignore")
pool = open_pool(SandboxConfig(backend=sys.argv[1], spares=0, deadline_seconds=60))
session = pool.environment(open(sys.argv[2]).read()).reset(1)
session.begin_step({"role": "assistant", "content": "go"})
container = session._leaf.sandbox.container
print(getattr(container, "id", None) or container.process.pid, flush=True)
time.sleep(60)
"""


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:
        time.sleep(0.02)
    return condition()


def with_masked_signals() -> set[str]:
    """Return the processes of this machine, in a container or not, that block all but a few signals now."""
    found = set()
    for one in Path("/proc").glob("[0-9]*/status"):
        try:
            masks = [line.split()[1] for line in one.read_text().splitlines() if line.startswith("SigBlk")]
        except OSError:  # it has ended
            continue
        if any(int(mask, 16).bit_count() > 56 for mask in masks):
            found.add(one.parent.name)
    return found


def loops() -> bool:
    """Whether a process goes on with masked signals: one that begins another masks them for a moment."""
    found = with_masked_signals()
    for _ in range(5):
        time.sleep(0.05)
        found &= with_masked_signals()
    return bool(found)


def killed_owner(tmp_path: Path, backend: str, source: str) -> str:
    """Let another program start a loop in a sandbox, kill it, and return what it called its sandbox."""
    module = tmp_path / "loop.py"
    module.write_text(source)
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, backend, str(module)], stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    name = owner.stdout.readline().strip()
    assert wait_until(loops, 60), "the loop did not begin"
    os.kill(owner.pid, signal.SIGKILL)
    owner.wait()
    owner.stdout.close()
    return name


def play(pool: SandboxPool, source: str, act: Act, seeds: range) -> None:
    environment = pool.environment(source)
    for seed in seeds:
        with environment.reset(seed) as session:
            session.step(act(1))
            session.verdict()


def own_containers(pool: SandboxPool) -> list[str]:
    backend = pool.backend
    assert isinstance(backend, DockerBackend)
    mine = {"label": f"{image.PROJECT}.pid={os.getpid()}"}
    return [one["Id"] for one in backend.client().api.containers(all=True, filters=mine)]


def leave_nothing(config: SandboxConfig, docker_pool: SandboxPool, source: str, act: Act, n: int) -> None:
    """Play `n` episodes in a pool that recycles often, and compare what this process holds."""
    for spare in docker_pool._spares:
        spare.result()
    others, folders = set(own_containers(docker_pool)), set(Path("/tmp").glob(f"{image.FOLDER}-*"))
    with open_pool(config) as pool:
        play(pool, source, act, range(200))
        gc.collect()
        before = descriptors(), resident()
        play(pool, source, act, range(n))
        assert wait_until(lambda: descriptors() <= before[0] + 4, 60)
        gc.collect()
        assert resident() - before[1] < 8e6
        assert len(pool._live) <= 2 and len(set(own_containers(pool)) - others) <= 4
    assert wait_until(lambda: set(own_containers(docker_pool)) <= others, 60)
    assert set(Path("/tmp").glob(f"{image.FOLDER}-{os.getpid()}-*")) <= folders


@pytest.mark.docker
def test_five_hundred_episodes_leave_nothing(docker_pool: SandboxPool, counter: str, act: Act) -> None:
    config = docker_pool.config.model_copy(update={"recycle_after": 150, "spares": 1})
    leave_nothing(config, docker_pool, counter, act, 500)


@pytest.mark.slow
@pytest.mark.docker
def test_ten_thousand_episodes_leave_nothing(docker_pool: SandboxPool, counter: str, act: Act) -> None:
    config = docker_pool.config.model_copy(update={"recycle_after": 1000, "spares": 1})
    leave_nothing(config, docker_pool, counter, act, 10_000)


@pytest.mark.docker
def test_the_next_start_ends_what_a_killed_host_left_running(
    docker_pool: SandboxPool, hostile: Hostile, tmp_path: Path
) -> None:
    """A loop with masked signals goes on after its host: opening another pool removes it, and its folder."""
    loop = "import signal\nsignal.pthread_sigmask(0, range(1, 65))\nwhile True: pass"
    name = killed_owner(tmp_path, "docker", hostile("step", loop))
    api = docker_pool.backend.client().api  # type: ignore[attr-defined]
    assert api.inspect_container(name)["State"]["Running"]
    command = "from trace_assets.sandbox import *; open_pool(SandboxConfig(spares=0)).close()"
    subprocess.run([sys.executable, "-c", command], check=True)
    assert wait_until(lambda: not api.containers(all=True, filters={"id": name}), 60)


def test_bubblewrap_ends_with_its_host(
    bubblewrap_pool: SandboxPool, hostile: Hostile, tmp_path: Path
) -> None:
    loop = "import signal\nsignal.pthread_sigmask(0, range(1, 65))\nwhile True: pass"
    pid = int(killed_owner(tmp_path, "bubblewrap", hostile("step", loop)))
    marker = str(tmp_path / "loop.py")
    assert wait_until(lambda: not Path(f"/proc/{pid}").exists(), 60)
    assert Path(marker).exists()


@pytest.mark.docker
def test_a_stream_that_nobody_reads_does_not_delay_the_kill(
    docker_pool: SandboxPool, hostile: Hostile, act: Act
) -> None:
    """The SDK's attach stream is full, the daemon waits for us to read: the kill must not wait with it."""
    config = docker_pool.config.model_copy(update={"transport": "attach", "spares": 0})
    with open_pool(config) as pool:
        box = pool.fresh(pool.environment(hostile("step", FLOOD)))
        deadline = time.monotonic() + 600
        line = {"op": "reset", "session": 7, "seed": 1}
        box.channel.send(encode({"id": 900, **line}), deadline)
        box.channel.receive(deadline)
        box.channel.send(encode({"id": 901, "op": "step", "session": 7, "message": act(1)}), deadline)
        time.sleep(1.0)  # the pipes between the worker, the daemon and us are full by now
        began = time.monotonic()
        box.fail()
        box.container.kill()
        assert time.monotonic() - began < 30  # the SDK waits for a minute
        name = box.container.id  # type: ignore[attr-defined]
        api = pool.backend.client().api  # type: ignore[attr-defined]
        assert wait_until(lambda: not api.containers(all=True, filters={"id": name}), 60)


@pytest.mark.docker
@pytest.mark.parametrize("transport", ["socket", "attach"])
def test_control_comes_back_at_the_deadline(
    docker_pool: SandboxPool, hostile: Hostile, act: Act, transport: str
) -> None:
    """Within 50 ms; the best of many, because this machine may be busy with something else."""
    config = docker_pool.config.model_copy(update={"transport": transport, "spares": 0})
    late = []
    with open_pool(config) as pool:
        environment = pool.environment(hostile("step", "while True: pass"))
        for seed in range(50):
            session = environment.reset(seed)
            box = session._leaf.sandbox
            box.config = box.config.model_copy(update={"deadline_seconds": 0.3})
            began = time.monotonic()
            with pytest.raises(Timeout):
                session.step(act(1))
            late.append(time.monotonic() - began - 0.3)
            if late[-1] < 0.05:
                break
    assert min(late) < 0.05, late
