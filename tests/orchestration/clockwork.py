"""The daemon's automation loop without a daemon: evaluate, make what was requested, evaluate again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from unittest import mock

import dagster as dg
from dagster import AssetKey

from trace_assets.definitions import build
from trace_assets.orchestration.automation import is_heavy
from trace_assets.orchestration.instance import TASK_BATCH
from trace_assets.study import Study
from trace_assets.workflows.watch import look, pending

Request = tuple[str, str]


@dataclass
class Clockwork:
    """A home, its Dagster history and where the automation sensor of the light layers stands.

    Attributes:
        only: An asset that is asked about alone, in a tenth of the time: whether its inputs were requested in
            an earlier tick is then not known. Empty asks about all of the layers.
    """

    home: Path
    overrides: Sequence[str] = ()
    heavy: bool = False
    only: str = ""
    instance: dg.DagsterInstance = field(default_factory=dg.DagsterInstance.ephemeral)
    cursor: object = None

    @property
    def study(self) -> Study:
        return Study.open(self.home, None, list(self.overrides))

    def drop(self) -> str:
        """Take what lies in the watched folders, and copy it as the sensor's run does."""
        look(self.study, "trajectories")
        (one,) = pending(self.study)
        self.instance.add_dynamic_partitions(str(TASK_BATCH.name), [one.batch])
        self.make([AssetKey("tasks"), AssetKey("trajectories")], one.batch)
        return one.batch

    def begin(self, keys: Sequence[AssetKey], partition: str | None) -> str:
        """Record a run as under way; return its id."""
        definitions = build(self.study)
        run = self.instance.create_run_for_job(
            definitions.resolve_implicit_global_asset_job_def().get_subset(asset_selection=set(keys)),
            status=dg.DagsterRunStatus.STARTED,
            tags={"dagster/partition": partition} if partition else None,
            asset_selection=frozenset(keys),
        )
        return run.run_id

    def make(self, keys: Sequence[AssetKey], partition: str | None) -> None:
        definitions = build(self.study)
        result = dg.materialize(
            list(definitions.assets or []),  # type: ignore[arg-type]
            selection=list(keys),
            partition_key=partition,
            instance=self.instance,
            resources={"study": self.study},
        )
        assert result.success

    def tick(self) -> list[Request]:
        """Evaluate once; return what is requested, as (asset, partition)."""
        definitions = build(self.study)
        assets = [
            asset
            for asset in definitions.assets or []
            if isinstance(asset, dg.AssetsDefinition)
            and (asset.key.to_user_string() == self.only if self.only else is_heavy(asset) == self.heavy)
        ]
        # The daemon reads them once a tick; Dagster's own tester at every node of every condition.
        partitions = cache(self.instance.get_dynamic_partitions)
        with mock.patch.object(self.instance, "get_dynamic_partitions", partitions):
            result = dg.evaluate_automation_conditions(
                definitions,
                instance=self.instance,
                asset_selection=dg.AssetSelection.assets(*assets),
                cursor=self.cursor,  # type: ignore[arg-type]
            )
        self.cursor = result.cursor
        requested: list[Request] = []
        for key in definitions.resolve_asset_graph().toposorted_asset_keys:
            for partition in result.get_requested_partitions(key):
                requested.append(("/".join(key.path), partition or ""))
        return requested

    def run(self, most: int = 20) -> list[list[Request]]:
        """Tick until nothing is requested any more; return what each tick requested."""
        ticks: list[list[Request]] = []
        while requested := self.tick():
            by_partition: dict[str, list[AssetKey]] = defaultdict(list)
            for name, partition in requested:
                by_partition[partition].append(AssetKey(name.split("/")))
            runs = [self.begin(keys, partition or None) for partition, keys in by_partition.items()]
            early = self.tick()  # as the daemon does while the runs are under way
            for run in runs:
                self.instance.delete_run(run)
            assert not early, f"{early} did not wait for {requested}"
            for partition, keys in by_partition.items():
                self.make(keys, partition or None)
            ticks.append(requested)
            assert len(ticks) < most, ticks
        return ticks
