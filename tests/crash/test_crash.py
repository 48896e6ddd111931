"""Killed ten times at random moments and taken up again, the loop makes what an undisturbed one makes."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from loop_process import Loop

from trace_assets.store.locks import holder, is_held

pytestmark = [pytest.mark.slow, pytest.mark.train]

KILLS = 10
SEED = int(os.environ.get("TRACE_CRASH_SEED", "1"))


def leftover_containers() -> list[str]:
    import docker

    from trace_assets.sandbox.image import PROJECT, is_leftover

    with closing(docker.from_env(timeout=900)) as client:
        found = client.api.containers(all=True, filters={"label": f"{PROJECT}=1"})
    return [one["Id"][:12] for one in found if is_leftover(one.get("Labels") or {}, time.time())]


@pytest.mark.docker
@pytest.mark.timeout(3600)
def test_ten_kills_change_nothing(tmp_path: Path, docker_daemon: None) -> None:
    calm, hit = Loop(tmp_path / "calm"), Loop(tmp_path / "hit")
    began = time.monotonic()
    calm.finish()
    hit.know_the_seeds_of(calm)
    report: dict[str, object] = {"seed": SEED, "undisturbed_seconds": round(time.monotonic() - began, 1)}
    wanted = calm.tables()
    for table in ("adapters/mixed", "evaluations/test", "routes/all", "base_models/all"):
        assert table in wanted, f"the loop did not come to {table}"
    # beside the mixed one the arms, of which none is asked for: empty tables
    arms = {"adapters/mixed", "adapters/joint_adapters", "adapters/consolidated"}
    assert len({name for name in wanted if name.startswith("adapters/")} - arms) == 2

    began, kills = time.monotonic(), []
    for moment in calm.moments(KILLS, SEED):
        kills.append(hit.run_until(moment))
        print(json.dumps(kills[-1].told()), flush=True)
    hit.finish()
    report |= {"disturbed_seconds": round(time.monotonic() - began, 1)}
    report["kills"] = [kill.told() for kill in kills]
    report["hits"] = Counter(item.partition("@")[0] for kill in kills for item in kill.at_work or ["nothing"])
    print(json.dumps(report, indent=1), flush=True)
    if "TRACE_CRASH_REPORT" in os.environ:
        Path(os.environ["TRACE_CRASH_REPORT"]).write_text(json.dumps(report, indent=1))

    found = hit.tables()
    assert sorted(found) == sorted(wanted), "a table is missing, or one too many"
    assert {name for name in wanted if found[name] != wanted[name]} == set(), "the content differs"
    assert hit.weights() == calm.weights() and len(hit.weights()) == 3
    assert hit.ledger() == calm.ledger() and set(hit.ledger().values()) == {1}, "booked twice or not at all"
    assert set(hit.statuses()) == {"SUCCESS", "FAILURE"} and set(calm.statuses()) == {"SUCCESS"}
    assert hit.claims() == [] and hit.half_made() == [] and calm.half_made() == []
    assert hit.due() == []
    give_up = time.monotonic() + 120  # an orphaned container ends by itself, and is removed by the daemon
    while leftover_containers() and time.monotonic() < give_up:
        time.sleep(0.5)
    assert leftover_containers() == []


@pytest.mark.timeout(600)
def test_the_death_of_a_worker_is_made_up_for_in_the_same_sync(tmp_path: Path) -> None:
    loop = Loop(tmp_path / "home")
    process = loop.start(
        "--select", "base_model", "--select", "config/base_model", "--select", "config/targets"
    )
    lock, give_up = loop.home.path / "locks" / "items" / "base_model.lock", time.monotonic() + 600
    while not is_held(lock):
        assert process.poll() is None and time.monotonic() < give_up, loop.log.read_text()
        time.sleep(0.05)
    time.sleep(2)
    found = holder(lock)
    assert found is not None and found.pid != process.pid
    os.kill(found.pid, signal.SIGKILL)
    assert process.wait(400) in (0, 1), loop.log.read_text()
    assert loop.statuses()["FAILURE"] == 1 and set(loop.statuses()) == {"SUCCESS", "FAILURE"}
    assert list(loop.weights()) == [] and "base_models/all" in loop.tables()
    assert set(loop.ledger().values()) == {1} and loop.claims() == [] and loop.half_made() == []
    assert "died" not in loop.log.read_text(), "it was made up for, so nobody needs to hear of it"
