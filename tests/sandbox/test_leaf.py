"""What an episode can find out of the world: its seed and its actions, and nothing else, here or there."""

from __future__ import annotations

import ast
import importlib.util
import json
import struct
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from trace_assets.environments.audit.static import ALLOWED_IMPORTS
from trace_assets.sandbox import Died, ProtocolError, SandboxPool, SandboxUnavailable, config
from trace_assets.sandbox.config import CLOCK, Conditions
from trace_assets.sandbox.sandbox import GRACE_SECONDS, Sandbox
from trace_assets.sandbox.selftest.scenarios import curious as curious_source
from trace_assets.sandbox.session import Session

Act = Callable[..., dict[str, object]]
Hostile = Callable[[str, str], str]


def found_in(box: Sandbox, seed: int = 7) -> dict[str, str]:
    with Session(box.leaf, seed) as session:
        told: dict[str, str] = json.loads(session.messages[0]["content"])
        return told


@pytest.fixture
def curious() -> str:
    return curious_source()


@pytest.fixture
def box(unsafe_pool: SandboxPool, curious: str) -> Iterator[Sandbox]:
    opened = unsafe_pool.fresh(unsafe_pool.environment(curious))
    yield opened
    opened.fail()


def differing(one: dict[str, str], other: dict[str, str]) -> dict[str, tuple[str, str]]:
    return {name: (one[name], other[name]) for name in one if one[name] != other[name]}


def test_every_clock_stands_still_at_the_same_moment(box: Sandbox) -> None:
    told = found_in(box)
    noon = "datetime.datetime(2025, 1, 1, 12, 0"
    assert told["time"] == f"{CLOCK}.0" and told["libc"] == str(CLOCK)
    assert told["now"] == told["alias"] == noon + ")" and told["berlin"].startswith(
        "datetime.datetime(2025, 1, 1, 13"
    )
    assert told["monotonic"] == told["perf"] == told["process"] == "1000.0"
    assert told["raw clock"] == "(-1, 1)" and told["wait"] == "None"


def test_sleeping_takes_no_time(unsafe_pool: SandboxPool, hostile: Hostile, act: Act) -> None:
    source = hostile("step", "import time\ntime.sleep(3600)")
    with unsafe_pool.environment(source).reset(1) as session:
        assert session.step(act(1))["messages"]


def test_what_an_episode_finds_does_not_depend_on_those_before_it(box: Sandbox) -> None:
    """Two hundred episodes one after the other, with steps and without, then many at once, then one more."""
    first = found_in(box)
    for seed in range(200):
        with Session(box.leaf, seed) as session:
            assert session.verdict()["reward"] == 0.0
    with ThreadPoolExecutor(8) as threads:
        for session in list(threads.map(lambda seed: Session(box.leaf, seed), range(40))):
            session.close()
    assert differing(first, found_in(box)) == {}


def test_what_an_episode_finds_does_not_depend_on_the_sandbox(
    unsafe_pool: SandboxPool, curious: str, box: Sandbox
) -> None:
    first, found = found_in(box), list[dict[str, tuple[str, str]]]()
    while len(found) < 3 and {} not in found:  # now and then one block of memory more or less is chance
        other = unsafe_pool.fresh(unsafe_pool.environment(curious))
        try:
            found.append(differing(first, found_in(other)))
        finally:
            other.fail()
    assert {} in found, found


@pytest.mark.docker
@pytest.mark.parametrize("transport", ["socket", "attach"])
def test_nor_on_the_container(docker_pool: SandboxPool, curious: str, transport: str) -> None:
    boxes = [docker_pool.fresh(docker_pool.environment(curious)) for _ in range(2)]
    try:
        for seed in range(60):
            Session(boxes[1].leaf, seed).close()
        assert differing(found_in(boxes[0]), found_in(boxes[1])) == {}
    finally:
        for one in boxes:
            one.fail()


def test_nor_on_the_bubblewrap(bubblewrap_pool: SandboxPool, curious: str) -> None:
    boxes = [bubblewrap_pool.fresh(bubblewrap_pool.environment(curious)) for _ in range(2)]
    try:
        for seed in range(60):
            Session(boxes[1].leaf, seed).close()
        assert differing(found_in(boxes[0]), found_in(boxes[1])) == {}
    finally:
        for one in boxes:
            one.fail()


def test_the_audits_conditions_are_seen_by_who_looks(
    unsafe_pool: SandboxPool, curious: str, box: Sandbox
) -> None:
    other = Conditions(clock=CLOCK + 86_400, process=77, first_request=1000)
    varied = unsafe_pool.fresh(unsafe_pool.environment(curious), other)
    try:
        seen = differing(found_in(box), found_in(varied))
    finally:
        varied.fail()
    assert {"time", "now", "alias", "berlin", "libc", "pid", "request"} <= set(seen)
    assert seen["pid"] == ("2", "77") and "1000" in seen["request"][1]


def test_chance_is_the_seeds(box: Sandbox) -> None:
    one, again, other = (found_in(box, seed) for seed in (7, 7, 8))
    assert one == again
    assert {"urandom", "uuid", "system"} <= set(differing(one, other))


SURVIVORS = {
    "busy": "import sys\ndef never(*_):\n    while True: pass\nsys.modules['wire'].Lines.next = never\n",
    "asleep": "import _thread, sys\n"
    "def never(*_):\n    lock = _thread.allocate_lock()\n    lock.acquire()\n    lock.acquire()\n"
    "sys.modules['wire'].Lines.next = never\n",
    "at its end": "import os\ndef never(*_):\n    while True: pass\nos._exit = never\n",
}


@pytest.mark.parametrize("how", sorted(SURVIVORS))
def test_a_process_that_outlives_its_episode_costs_the_sandbox(
    unsafe_pool: SandboxPool, hostile: Hostile, how: str
) -> None:
    environment = unsafe_pool.environment(hostile("verdict", SURVIVORS[how]))
    box = unsafe_pool.fresh(environment)
    innocent = Session(box.leaf, 2)
    Session(box.leaf, 1).verdict()
    until = time.monotonic() + 300 * GRACE_SECONDS
    while not box.dead and time.monotonic() < until:
        time.sleep(0.05)
    assert box.dead
    with pytest.raises(Died) as caught:
        innocent.step({"role": "assistant", "content": "on"})
    assert caught.value.reason == "killed"  # it is played again elsewhere
    box.container.kill()


def test_episodes_that_end_in_time_cost_nothing(unsafe_pool: SandboxPool, counter: str, act: Act) -> None:
    box = unsafe_pool.fresh(unsafe_pool.environment(counter))
    living = Session(box.leaf, 99)
    for seed in range(50):
        Session(box.leaf, seed).close()
    until = time.monotonic() + 300 * GRACE_SECONDS
    while box._parting and time.monotonic() < until:
        time.sleep(0.05)
    assert not box.dead and not box._parting
    assert living.step(act(0))["messages"][0]["content"] == "0"
    living.close()
    box.fail()


@pytest.mark.parametrize(
    ("state", "fault"),
    [
        ({"sealed": False, "clock": "fixed"}, SandboxUnavailable),
        ({"sealed": True, "clock": "real"}, SandboxUnavailable),
        ({"sealed": 1, "clock": "fixed"}, ProtocolError),
        ({"sealed": True, "clock": "mine"}, ProtocolError),
        ({"sealed": True}, ProtocolError),
        (None, ProtocolError),
        ([], ProtocolError),
    ],
)
def test_a_sandbox_that_cannot_hold_its_episodes_is_not_used(
    unsafe_pool: SandboxPool,
    counter: str,
    monkeypatch: pytest.MonkeyPatch,
    state: Any,
    fault: type[Exception],
) -> None:
    box = unsafe_pool.backend.start()
    box.must_seal = True
    monkeypatch.setattr(box, "control", lambda *_, **__: state)
    with pytest.raises(fault):
        box.load(counter, ("a", "b"))
    assert box.dead
    box.container.kill()


def worker_module(name: str) -> ModuleType:
    folder = config.folder() / "worker"
    sys.path.insert(0, str(folder))
    try:
        spec = importlib.util.spec_from_file_location(f"worker_{name}", folder / f"{name}.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(folder))
        for other in ("vdso", "wire", "machine", "modules", "leaf", "zygote", "supervisor"):
            sys.modules.pop(other, None)


def test_the_clocks_code_is_what_the_assembler_makes() -> None:
    """As GNU as 2.40 assembles it for both machines; this machine's is also run by the tests above."""
    vdso = worker_module("vdso")
    x86, arm = vdso.clock_code(True, 0x44443333), vdso.clock_code(False, 0x44443333)
    assert x86["__vdso_clock_gettime"].hex() == (
        "b83333444485ff740f83ff05740a83ff0b7405b8e8030000488906" + "48c7460800000000" + "31c0c3"
    )
    assert x86["__vdso_gettimeofday"].hex() == "4885ff7410b83333444448890748c747080000000031c0c3"
    assert x86["__vdso_time"].hex() == "b8333344444885ff7403488907c3"
    assert x86["__vdso_getcpu"].hex() == "31c04885ff740289074885f674028906c3"
    words = [f"{word:08x}" for (word,) in struct.iter_unpack("<I", arm["__kernel_clock_gettime"])]
    assert words == [
        "34000100",
        "7100141f",
        "540000c0",
        "71002c1f",
        "54000080",
        "d2807d02",
        "f2a00002",
        "14000003",
        "d2866662",
        "f2a88882",
        "a9007c22",
        "52800000",
        "d65f03c0",
    ]
    words = [f"{word:08x}" for (word,) in struct.iter_unpack("<I", arm["__kernel_gettimeofday"])]
    assert words == ["b4000080", "d2866662", "f2a88882", "a9007c02", "52800000", "d65f03c0"]


def test_modules_are_found_wherever_a_source_imports_them() -> None:
    modules = worker_module("modules")
    source = (
        "import re; import os.path as p, json\nfrom urllib.parse import quote\n"
        "def f():\n    if 1:\n        import uuid\n    class C:\n        from collections import abc as x\n"
        "z = lambda: __import__('socket')\nname = ('Europe/Berlin', ('Asia/Tokyo',))\n"
        + "".join(f"name_{n} = name_{n - 1} if 0 else {n}\n" for n in range(1, 400))
        + "import decimal\n"
    )
    named, texts = modules.mentioned(compile(source, "<environment>", "exec"))
    assert named == {"re", "os.path", "json", "urllib.parse", "uuid", "collections", "decimal"}
    assert {"Europe/Berlin", "Asia/Tokyo"} <= texts


def test_nothing_that_an_environment_may_import_imports_later() -> None:
    """A leaf opens no file: what a module of the list imports inside a function must be there before."""
    modules = worker_module("modules")
    known = {*modules.ALWAYS, "os", "sys", "re", "io"}
    for name in sorted(ALLOWED_IMPORTS - {"__future__"}):
        spec = importlib.util.find_spec(name)
        assert spec is not None and name in modules.PRELOAD
        if spec.origin is None or not spec.origin.endswith(".py"):
            continue
        tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
        module_level = {
            alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names
        }
        module_level |= {str(node.module) for node in tree.body if isinstance(node, ast.ImportFrom)}
        late = set()
        for function in (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.Lambda)):
            for node in ast.walk(function):
                if isinstance(node, ast.Import):
                    late |= {alias.name for alias in node.names}
                elif isinstance(node, ast.ImportFrom):
                    late.add("." * node.level + str(node.module))
        late = {one for one in late if not one.startswith(".")}  # of a package that is there as a whole
        ahead = known | module_level | set(modules.LATER.get(name, ())) | IRRELEVANT.get(name, set())
        assert late <= ahead, f"{name} imports {sorted(late - ahead)} later: name it in LATER"


IRRELEVANT = {
    "calendar": {"argparse"},
    "random": {"statistics", "time"},
    "uuid": {"random", "shutil", "subprocess", "time"},
}
"""Of a module's own command line and self-tests, or there in every process."""


def test_what_an_environment_may_import_works_without_a_kernel(unsafe_pool: SandboxPool) -> None:
    source = Path(__file__).with_name("computing.py").read_text(encoding="utf-8")
    with unsafe_pool.environment(source).reset(1) as session:
        told = json.loads(session.messages[0]["content"])
    assert isinstance(told, list) and len(told) == 15, told
    assert "Saturday 03 February 034 04" in told[2] and "days=-1" in told[3] and "'0cc175b9'" in told[7]
