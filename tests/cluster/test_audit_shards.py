"""An audit on the pool of local processes and on a Ray cluster: one finding, row for row."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "environments"))
from served_door import ROLLOUTS, SEEDS, Knowing, audit_door, audit_elsewhere, door_study

from trace_assets.orchestration.worker_pool import SANDBOX, Needs, Pool, WorkerPool
from trace_assets.rollouts.parallel import FEWEST
from trace_assets.settings.operation import Cluster


@pytest.fixture(scope="module", params=["local", "ray"])
def pool(request: pytest.FixtureRequest) -> Iterator[Pool]:
    """A pool whose workers run generated code; of Ray's three nodes two do."""
    if request.param == "local":
        with WorkerPool(1) as local:
            yield local
        return
    cluster = request.getfixturevalue("ray_cluster")
    for resources in ({SANDBOX: 2}, {SANDBOX: 1}):
        cluster.add_node(num_cpus=1, resources=resources, object_store_memory=80 * 2**20)
    from trace_assets.orchestration.cluster.ray_pool import RayPool

    with RayPool(Cluster(engine="ray", address=cluster.address)) as nodes:
        yield nodes


@pytest.mark.slow
def test_an_audit_finds_the_same_on_each_pool(pool: Pool, tmp_path: Path) -> None:
    with Knowing() as server:
        with door_study(tmp_path / "alone", server):
            alone = audit_door()
        with door_study(tmp_path / "study", server) as variables:
            *found, shards = pool.submit(audit_elsewhere, variables, needs=Needs(1, 0, 1)).result(600)
    assert tuple(found) == alone
    assert shards == (0 if isinstance(pool, WorkerPool) else SEEDS * ROLLOUTS // FEWEST)
    band: Any = next(one for one in alone[0] if one.check_id == "trace.pass_band")
    assert band.n == SEEDS * ROLLOUTS and 0 < band.value < 1
