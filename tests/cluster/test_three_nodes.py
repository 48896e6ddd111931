"""A diagnosis on three nodes that share a folder and nothing else: its tables, and what a lost node costs."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from homes import DESKS, run, same, simulation_files
from namespaces import why_not
from three_nodes import ThreeNodes

REFUSED = r"\S+ was begun anew elsewhere \(for the [0-9]+\. time; .*? counts\."

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreeNodes]:
    """Three nodes, the first of which has the head."""
    pytest.importorskip("ray", reason="the extra `cluster` (Ray) is not installed")
    if reason := why_not():
        pytest.skip(reason)
    cluster = ThreeNodes(tmp_path_factory.mktemp("shared"), tmp_path_factory.mktemp("logs"))
    try:
        yield cluster
    finally:
        cluster.close()


@pytest.fixture(scope="module")
def files(nodes: ThreeNodes) -> list[str]:
    return simulation_files(nodes.shared, DESKS)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory, files: list[str]) -> Path:
    """A home made by the local pool, on the machine that the nodes are part of."""
    home = tmp_path_factory.mktemp("alone") / "home"
    run(home, "ingest", *files)
    run(home, "diagnose")
    return home


def finished(process: subprocess.Popen[str], seconds: float = 600) -> str:
    said, _ = process.communicate(timeout=seconds)
    assert process.returncode == 0, said
    return said


def ingested(nodes: ThreeNodes, name: str, files: list[str]) -> Path:
    """Return a home on the shared folder with the trajectories in it."""
    home = nodes.shared / name
    finished(nodes.trace(home, "ingest", *files, TRACE__CLUSTER__ENGINE="local"))
    return home


def holders(home: Path) -> dict[Path, dict[str, Any]]:
    """Return who makes what, by the file of the item's lock; also who was killed and never let go."""
    found = {}
    for lock in (home / "locks" / "items").glob("*.lock"):
        with suppress(OSError, ValueError):  # half written, or let go
            found[lock] = json.loads(lock.read_text())
    return found


def wait_while(process: subprocess.Popen[str], look: Callable[[], bool], seconds: float = 600) -> bool:
    """Look again and again until something is so; say whether it was while a process went on."""
    give_up = time.monotonic() + seconds
    while not look():
        if process.poll() is not None or time.monotonic() > give_up:
            return False
        time.sleep(0.002)
    return True


def item_elsewhere(process: subprocess.Popen[str], home: Path) -> tuple[Path, dict[str, Any]]:
    """Wait until a node other than that of the command is at an item; return its lock and who holds it."""
    seen: dict[Path, dict[str, Any]] = {}

    def at_work() -> bool:
        seen.update({lock: one for lock, one in holders(home).items() if one["host"] in ("n2", "n3")})
        return bool(seen)

    assert wait_while(process, at_work), finished(process)
    return next(iter(seen.items()))


def test_every_node_can_take_part_and_none_sees_what_is_not_shared(nodes: ThreeNodes) -> None:
    home = nodes.shared / "looked-at"
    told = finished(nodes.trace(home, "cluster", "check", "--json"))
    said = json.loads(told[told.index("{") :])  # before it, where that took long, that it is at work
    assert said["ok"]
    hosts = {node["report"]["host"]: node["report"] for node in said["nodes"]}
    assert set(hosts) == {"n1", "n2", "n3"}
    assert len({report["boot"] for report in hosts.values()}) == 3
    private = nodes.shared.parent / "of-this-machine"
    private.mkdir()
    seen = nodes.run("test", "-e", str(private))
    assert seen.wait(60) == 1


def test_the_tables_of_three_nodes_are_those_of_one_machine(
    nodes: ThreeNodes, files: list[str], alone: Path
) -> None:
    home = ingested(nodes, "three", files)
    began = time.monotonic()
    process = nodes.trace(home, "diagnose")
    hosts: set[str] = set()

    def seen() -> bool:
        hosts.update(one["host"] for one in holders(home).values())
        return False

    wait_while(process, seen)
    finished(process)
    same(alone, home)
    assert hosts & {"n2", "n3"}, hosts
    seconds = time.monotonic() - began
    print(f"\ndiagnosis of {len(files)} batches on three nodes: {seconds:.0f} s, on {sorted(hosts)}")


def test_the_episodes_of_one_item_are_shared_by_all_nodes_and_those_of_a_lost_one_played_again(
    nodes: ThreeNodes,
) -> None:
    def begin(name: str, seconds: float = 0.4) -> subprocess.Popen[str]:
        program = str(Path(__file__).with_name("divided.py"))
        process = nodes.run(sys.executable, program, str(nodes.shared / name), str(seconds))
        assert process.stdout is not None
        said = ""
        while "begin" not in said:
            line = process.stdout.readline()
            assert line, said
            said += line
        return process

    def seconds_of(process: subprocess.Popen[str]) -> float:
        said = finished(process)
        assert said.splitlines()[-1] == "equal", said
        return float(re.findall(r"([0-9.]+) s$", said, re.MULTILINE)[0])

    took = {3: seconds_of(begin("divided-3"))}
    process = begin("divided-lost")
    time.sleep(took[3] / 3)
    host = (nodes.shared / "divided-lost" / "journal" / "host").read_text()
    helpers = [name for name in ("n2", "n3") if name != host]  # the item's own is another case, see below
    nodes.network.machines[helpers[0]].kill()
    lost = seconds_of(process)
    took[2] = seconds_of(begin("divided-2"))
    for name in {"n2", "n3"} - {helpers[0]}:
        nodes.network.machines[name].kill()
    nodes.wait_for(1)
    took[1] = seconds_of(begin("divided-1"))
    print(f"\nan item of 480 episodes, seconds by nodes: {took}; {lost} with a node lost in the middle")
    for name in ("n2", "n3"):
        nodes.start(name)
    nodes.wait_for(3)
    assert took[1] / took[2] > 1.4 and took[1] / took[3] > 1.8


def test_the_item_of_a_killed_node_begins_anew_on_another(
    nodes: ThreeNodes, files: list[str], alone: Path
) -> None:
    home = ingested(nodes, "killed", files)
    process = nodes.trace(home, "diagnose")
    lock, before = item_elsewhere(process, home)
    began = time.monotonic()
    nodes.network.machines[before["host"]].kill()
    assert holders(home).get(lock) == before, "it had ended before its node was killed"
    assert wait_while(process, lambda: holders(home).get(lock, before) != before), finished(process)
    seconds = time.monotonic() - began
    after = holders(home).get(lock)
    said = finished(process)
    assert after is None or after["host"] != before["host"], said
    same(alone, home)
    print(
        f"\n{before['what']} began anew {seconds:.1f} s after the loss of {before['host']}; the command "
        f"ended {time.monotonic() - began:.1f} s after it"
    )
    nodes.start(before["host"])
    nodes.wait_for(3)


def test_what_a_frozen_node_commits_when_it_wakes_is_refused(
    nodes: ThreeNodes, files: list[str], alone: Path
) -> None:
    home = ingested(nodes, "frozen", files)
    process = nodes.trace(home, "diagnose")
    lock, before = item_elsewhere(process, home)
    machine = nodes.network.machines[before["host"]]
    frozen = next(pid for pid in machine.pids() if inner_pid(pid) == before["pid"])
    machine.send(signal.SIGSTOP)
    began = time.monotonic()
    assert holders(home).get(lock) == before, "it had ended before its node was frozen"
    assert wait_while(process, lambda: holders(home).get(lock, before) != before), finished(process)
    seconds = time.monotonic() - began
    # Only the worker wakes: its node would be told by the cluster to end it.
    os.kill(frozen, signal.SIGCONT)
    said = finished(process)
    print(
        f"\n{before['what']} began anew {seconds:.1f} s after {before['host']} was frozen; the command ended "
        f"{time.monotonic() - began:.1f} s after it"
    )
    assert wait_until(lambda: refusals(home), 60), said
    machine.send(signal.SIGCONT)
    assert wait_until(lambda: not Path(f"/proc/{frozen}").exists(), 120), "the lost node's worker goes on"
    same(alone, home)
    print(refusals(home)[0])
    machine.kill()
    nodes.start(before["host"])
    nodes.wait_for(3)


def inner_pid(pid: int) -> int:
    """Return the number of a process as its own machine counts."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("NSpid:"):
                return int(line.split()[-1])
    return 0


def wait_until(look: Callable[[], object], seconds: float) -> bool:
    give_up = time.monotonic() + seconds
    while not look():
        if time.monotonic() > give_up:
            return False
        time.sleep(0.1)
    return True


def refusals(home: Path) -> list[str]:
    """Return what runs of a home tell that were refused because their item was begun anew elsewhere."""
    told = []
    for database in (home / "dagster" / "history" / "runs").glob("*-*.db"):
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as events:
            rows = events.execute("select event from event_logs where event like '%STEP_FAILURE%'")
            told += [found[0] for (text,) in rows if (found := re.search(REFUSED, text))]
    return told
