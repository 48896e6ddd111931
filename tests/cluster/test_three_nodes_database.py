"""A node that is lost in the middle of an item, on three nodes whose leases are in a Postgres beside them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from homes import DESKS, run, same, simulation_files
from namespaces import why_not
from three_nodes import ThreeNodes

from tests.postgres_server import VARIABLES, Server, server
from tests.postgres_server import why_not as why_no_postgres
from trace_assets.store.database import database_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

MADE = ("--select", "labels", "--select", "lack_causes")


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreeNodes]:
    pytest.importorskip("ray", reason="the extra `cluster` (Ray) is not installed")
    if reason := why_not() or why_no_postgres():
        pytest.skip(reason)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in VARIABLES.items():
            patch.setenv(name, value)
        cluster = ThreeNodes(tmp_path_factory.mktemp("shared"), tmp_path_factory.mktemp("logs"))
        try:
            yield cluster
        finally:
            cluster.close()


@pytest.fixture(scope="module")
def beside(nodes: ThreeNodes) -> Iterator[Server]:
    """A server that all nodes reach over their network."""
    with server(f"{nodes.network.prefix}.1") as found:
        yield found


def test_the_item_of_a_killed_node_begins_anew_on_another(
    nodes: ThreeNodes, beside: Server, tmp_path_factory: pytest.TempPathFactory
) -> None:
    files = simulation_files(nodes.shared, DESKS[:2])
    alone = tmp_path_factory.mktemp("alone") / "home"
    run(alone, "ingest", *files)
    run(alone, "sync", *MADE)
    home = nodes.shared / "home"
    said = {"TRACE__CLUSTER__DATABASE": beside.database()}
    ingest = nodes.trace(home, "ingest", *files, TRACE__CLUSTER__ENGINE="local", **said)
    assert ingest.wait(300) == 0, ingest.communicate()[0]
    database = database_of(home)
    assert database is not None
    process = nodes.trace(home, "sync", *MADE, **said)

    def leases(where: str, *values: Any) -> list[tuple[Any, ...]]:
        assert database is not None
        return database.rows(
            f"SELECT item, epoch, holder->>'host' FROM trace.lease WHERE study = %s AND {where}",
            database.study, *values,
        )  # fmt: skip

    give_up = time.monotonic() + 400
    while not (held := leases("life <> 0 AND holder->>'host' IN ('n2', 'n3')")):
        assert process.poll() is None and time.monotonic() < give_up, process.communicate()[0]
        time.sleep(0.01)
    item, epoch, host = held[0]
    nodes.network.machines[host].kill()
    began = time.monotonic()
    assert leases("item = %s AND epoch = %s AND life <> 0", item, epoch), "it had ended before"
    while not leases("item = %s AND epoch > %s", item, epoch):
        assert process.poll() is None and time.monotonic() < give_up, process.communicate()[0]
        time.sleep(0.05)
    print(f"\n{item} began anew {time.monotonic() - began:.1f} s after the loss of {host}")
    told, _ = process.communicate(timeout=400)
    assert process.returncode == 0, told
    same(alone, home)
    assert leases("life <> 0") == []
