"""A sync on a Ray cluster with leases in a Postgres that is started again: the tables of one machine."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from homes import contents, made_how_often, run, same, simulation_files, trace

from tests.postgres_server import VARIABLES, Server, server, why_not
from trace_assets.store import Home
from trace_assets.store.database import database_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def own_server() -> Iterator[Server]:
    if reason := why_not():
        pytest.skip(reason)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in VARIABLES.items():
            patch.setenv(name, value)  # before the cluster: its workers have the environment of `ray start`
        with server() as found:
            yield found


def test_the_tables_are_those_of_one_machine_though_the_server_is_started_again(
    own_server: Server, ray_cluster: Any, tmp_path: Path
) -> None:
    files = simulation_files(tmp_path, ("shop",))
    alone, home = tmp_path / "alone" / "home", tmp_path / "ray" / "home"
    for one in (alone, home):
        one.parent.mkdir()
    run(alone, "ingest", *files)
    run(alone, "sync", "--select", "labels", "--select", "lack_causes")
    url = own_server.database()
    on_ray = {
        "TRACE__CLUSTER__ENGINE": "ray",
        "TRACE__CLUSTER__ADDRESS": ray_cluster.address,
        "TRACE__CLUSTER__DATABASE": url,
        **VARIABLES,
    }
    run(home, "ingest", *files, **on_ray)
    process = trace(home, "sync", "--select", "labels", "--select", "lack_causes", **on_ray)
    give_up, made = time.monotonic() + 300, len(contents(home))
    while len(contents(home)) == made and process.poll() is None:
        assert time.monotonic() < give_up
        time.sleep(0.1)
    assert process.poll() is None, process.communicate()[0]
    own_server.stop()
    time.sleep(5)
    own_server.start()
    said, _ = process.communicate(timeout=900)
    assert process.returncode == 0, said
    same(alone, home)
    database = database_of(home)
    assert database is not None and database.url == url
    epochs = dict(database.rows("SELECT item, epoch FROM trace.lease WHERE study = %s", database.study))
    assert epochs["labels@shop"] == made_how_often(home)["labels", "shop"] == 1
    assert not list((home / "locks").glob("epochs/*")) and not list((home / "locks").glob("items/*"))
    assert database.rows("SELECT 1 FROM trace.process WHERE study = %s", database.study) == []
    assert database.rows("SELECT 1 FROM trace.mark WHERE study = %s", database.study) == []
    assert Home.open(home).path == home
