"""Runs that Dagster's page starts, made on a Ray cluster by dagster-ray's RayRunLauncher."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from homes import contents, run, simulation_files

from tests.postgres_server import VARIABLES, Server, server, why_not
from trace_assets.orchestration.instance import prepare_instance
from trace_assets.store import Home
from trace_assets.store.database import database_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

LAUNCHER = """
run_launcher:
  module: dagster_ray
  class: RayRunLauncher
  config:
    ray:
      address: "{dashboard}"
      num_cpus: 1
      env_vars: [TRACE_HOME, PGUSER]
"""
"""As docs/cluster.md has users add it."""


@pytest.fixture(scope="module")
def own_server() -> Iterator[Server]:
    pytest.importorskip("ray", reason="the extra `cluster` (Ray) is not installed")
    pytest.importorskip("dagster_ray", reason="the extra `cluster` (dagster-ray) is not installed")
    pytest.importorskip("dagster_postgres", reason="the extra `cluster` (dagster-postgres) is not installed")
    if reason := why_not():
        pytest.skip(reason)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in VARIABLES.items():
            patch.setenv(name, value)
        with server() as found:
            yield found


@pytest.fixture(scope="module")
def head(own_server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A cluster of one node, with the part that takes jobs."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        # A job is the command `dagster api execute_run`.
        patch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
        node = {
            "num_cpus": 2,
            "object_store_memory": 80 * 2**20,
            "include_dashboard": True,
            "dashboard_port": 0,
        }
        cluster = Cluster(initialize_head=True, head_node_args=node)
        try:
            yield cluster
        finally:
            cluster.shutdown()


def ended(instance: dg.DagsterInstance, run_id: str, seconds: float = 300) -> dg.DagsterRun:
    give_up = time.monotonic() + seconds
    while True:
        found = instance.get_run_by_id(run_id)
        assert found is not None
        if found.is_finished:
            return found
        assert time.monotonic() < give_up, [entry.message for entry in instance.all_logs(run_id)][-5:]
        time.sleep(0.5)


def test_a_run_of_the_page_is_made_on_the_cluster_as_the_sync_makes_it(
    head: Any, own_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file,) = simulation_files(tmp_path, ("shop",))
    alone, home = tmp_path / "alone" / "home", tmp_path / "ray" / "home"
    for one in (alone, home):
        one.parent.mkdir()
    database = {"TRACE__CLUSTER__DATABASE": own_server.database(), **VARIABLES}
    run(alone, "ingest", file)
    run(home, "ingest", file, **database)
    run(alone, "sync", "--select", "triage")
    yaml = home / "dagster" / "dagster.yaml"
    assert "history_" in yaml.read_text() and not list((home / "dagster").rglob("*.db"))
    yaml.write_text(yaml.read_text() + LAUNCHER.format(dashboard=f"http://{head.webui_url}"))
    monkeypatch.setenv("TRACE_HOME", str(home))
    launched = subprocess.run(
        [sys.executable, "-c", LAUNCH, str(home)],
        capture_output=True, text=True, check=False, cwd=tmp_path, env={**os.environ, **VARIABLES},
    )  # fmt: skip
    assert launched.returncode == 0, launched.stderr[-3000:]
    (run_id,) = re.findall(r"^launched (\S+)$", launched.stdout, re.MULTILINE)
    with prepare_instance(Home.open(home)) as instance:
        assert ended(instance, run_id).is_success, [e.message for e in instance.all_logs(run_id)][-5:]
        hosts = [entry.message for entry in instance.all_logs(run_id)]
        assert any("Ray" in message for message in hosts)
    here, there = contents(alone), contents(home)
    assert list(here) == list(there) and all(here[name].equals(there[name]) for name in here)
    found = database_of(home)
    assert found is not None
    assert found.rows("SELECT 1 FROM trace.mark WHERE study = %s AND item LIKE 'triage%%'", found.study) == []
    assert found.rows("SELECT 1 FROM trace.lease WHERE study = %s AND life <> 0", found.study) == []


LAUNCH = """
import sys
import dagster as dg
from dagster._core.remote_representation.external import RemoteJob
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import ModuleTarget
from trace_assets.orchestration.instance import prepare_instance
from trace_assets.store import Home

with prepare_instance(Home.open(sys.argv[1])) as instance:
    target = ModuleTarget("trace_assets.definitions", None, None, "trace_assets.definitions")
    with WorkspaceProcessContext(instance, target) as process:
        workspace = process.create_request_context()
        location = workspace.get_code_location("trace_assets.definitions")
        (repository,) = location.get_repositories().values()
        job = repository.get_full_job("__ASSET_JOB")
        key = dg.AssetKey(["triage"])
        run = instance.create_run(
            job_name="__ASSET_JOB", run_id=None, run_config={}, status=dg.DagsterRunStatus.NOT_STARTED,
            tags={"dagster/partition": "shop"}, root_run_id=None, parent_run_id=None,
            step_keys_to_execute=None,
            execution_plan_snapshot=None, job_snapshot=job.job_snapshot,
            parent_job_snapshot=job.parent_job_snapshot,
            asset_selection=frozenset([key]), asset_check_selection=None, resolved_op_selection=None,
            op_selection=None, remote_job_origin=job.get_remote_origin(),
            job_code_origin=job.get_python_origin(), asset_graph=repository.asset_graph,
        )
        instance.launch_run(run.run_id, workspace)
        print("launched", run.run_id, flush=True)
"""
"""What the page does at the button, with Dagster's own code location and launcher."""
