"""Ray clusters on this machine: raylets with few cores and a small object store."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

NODE = {"num_cpus": 2, "object_store_memory": 80 * 2**20, "include_dashboard": False}
SOON = {
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "3",
    "RAY_USAGE_STATS_ENABLED": "0",
}
"""A lost node is noticed in seconds, as the templates set it."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "ray_cluster" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(scope="module")
def ray_cluster() -> Iterator[Any]:
    """A cluster of one node with two cores; further ones may be added."""
    pytest.importorskip("ray", reason="the extra `cluster` (Ray) is not installed")
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        folders = [
            str(HERE),
            str(HERE.parent / "environments"),
            str(HERE.parents[1]),
            *filter(None, [os.environ.get("PYTHONPATH")]),
        ]
        patch.setenv("PYTHONPATH", os.pathsep.join(folders))
        for name, value in SOON.items():
            patch.setenv(name, value)
        cluster = Cluster(initialize_head=True, head_node_args=NODE)
        try:
            yield cluster
        finally:
            cluster.shutdown()
