"""The project's own Dagster home: history is kept, telemetry is off."""

from __future__ import annotations

import os
import shutil
import subprocess

import dagster as dg

from trace_assets.assets.partitions import TASK_BATCH
from trace_assets.stages.ingest import batches
from trace_assets.stages.task_inbox import task_batches
from trace_assets.store import Home
from trace_assets.study import Study

DAGSTER_YAML = """\
# Written by trace-assets when this home was made; edit freely.
telemetry:
  enabled: false
concurrency:
  pools:
    # Steps of the pool `gpu` at once: one a GPU; without any, as many as share the processor well.
    default_limit: {limit}
    granularity: op
run_monitoring:
  enabled: false
"""


def prepare_instance(home: Home) -> dg.DagsterInstance:
    """Make the Dagster home if it is not there, and open its instance."""
    home.dagster.mkdir(parents=True, exist_ok=True)
    configuration = home.dagster / "dagster.yaml"
    if not configuration.exists():
        configuration.write_text(DAGSTER_YAML.format(limit=_heavy_steps()), encoding="utf-8")
    os.environ["DAGSTER_HOME"] = str(home.dagster)
    return dg.DagsterInstance.get()


def _heavy_steps() -> int:
    """Return how many training or rollout steps this machine can run at once."""
    program = shutil.which("nvidia-smi")
    if program is not None:
        listed = subprocess.run([program, "-L"], capture_output=True, text=True, timeout=60, check=False)
        gpus = sum(line.startswith("GPU ") for line in listed.stdout.splitlines())
        if gpus:
            return gpus
    return min(2, os.cpu_count() or 1)


def register_batches(instance: dg.DagsterInstance, study: Study, *, live: bool) -> list[str]:
    """Make the task batches of a study known to Dagster.

    Args:
        instance: Where to.
        study: Whose inboxes to look at.
        live: Also the batch of the live target's own tasks.

    Returns:
        All known batches, sorted.
    """
    known = set(instance.get_dynamic_partitions(str(TASK_BATCH.name)))
    wanted = {*batches(study), *task_batches(study), *([study.live_batch] if live else [])}
    if wanted - known:
        instance.add_dynamic_partitions(str(TASK_BATCH.name), sorted(wanted - known))
    return sorted(known | wanted)
