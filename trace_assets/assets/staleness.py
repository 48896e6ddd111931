"""What is not up to date, and why. The one place that needs a private Dagster import."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import dagster as dg
from dagster._core.definitions.data_version import (  # no public equivalent in dagster 1.13
    CachingStaleStatusResolver,
    StaleCause,
    StaleCauseCategory,
    StaleStatus,
)
from dagster._core.loader import LoadingContextForTest


@dataclass(frozen=True, order=True)
class Item:
    """One asset, or one partition of it.

    Attributes:
        asset: Asset name, such as `config/labels`.
        partition: Partition key, empty when the asset has none.
    """

    asset: str
    partition: str = ""

    def __str__(self) -> str:
        return f"{self.asset}[{self.partition}]" if self.partition else self.asset


@dataclass(frozen=True)
class Step:
    """An item that is not up to date.

    Attributes:
        item: What to materialize.
        reason: Why, in words.
        waits_for: Items of the same plan that come first; whether this one is then still due is seen then.
    """

    item: Item
    reason: str
    waits_for: tuple[Item, ...]


def plan(
    definitions: dg.Definitions,
    instance: dg.DagsterInstance,
    selection: Iterable[str] | None = None,
    partitions: Iterable[str] | None = None,
    force: Collection[Item] = (),
) -> list[Step]:
    """Return what is missing or stale, in an order in which it can be made.

    Staleness is seen one hop at a time: what lies further down becomes due, or not, when the steps before it
    have run and their content turned out different or equal.

    Args:
        definitions: The graph.
        instance: Its history.
        selection: Asset names to look at; None takes all.
        partitions: Task batches to look at; None takes all. Capabilities are not narrowed.
        force: Items that are due whatever Dagster thinks: their files outside its sight changed.
    """
    graph = definitions.resolve_asset_graph()
    resolver = CachingStaleStatusResolver(
        instance=instance, asset_graph=graph, loading_context=LoadingContextForTest(instance)
    )
    wanted = None if selection is None else set(selection)
    batches = None if partitions is None else set(partitions)
    steps: dict[Item, Step] = {}
    upstream: dict[str, set[str]] = {}
    dimension: dict[str, str | None] = {}
    for asset_key in graph.toposorted_asset_keys:
        name = "/".join(asset_key.path)
        node = graph.get(asset_key)
        parents = {"/".join(parent.path) for parent in node.parent_keys}
        upstream[name] = parents.union(*(upstream[parent] for parent in parents)) if parents else set()
        dimension[name] = getattr(node.partitions_def, "name", None)
        if wanted is not None and name not in wanted:
            continue
        for partition in _partitions(node.partitions_def, instance, batches):
            item = Item(name, partition)
            status = resolver.get_status(asset_key, partition or None)
            if status == StaleStatus.FRESH and item not in force:
                continue
            causes = resolver.get_stale_causes(asset_key, partition or None)
            reason = _reason(causes, "never materialized" if status == StaleStatus.MISSING else "new files")
            before = tuple(
                other
                for other in steps
                if other.asset in upstream[name]
                and (other.partition == partition or dimension[other.asset] != dimension[name])
            )
            steps[item] = Step(item, reason, before)
    return list(steps.values())


def _partitions(
    definition: dg.PartitionsDefinition[str] | None, instance: dg.DagsterInstance, batches: set[str] | None
) -> list[str]:
    if definition is None:
        return [""]
    assert isinstance(definition, dg.DynamicPartitionsDefinition)
    keys = sorted(instance.get_dynamic_partitions(str(definition.name)))
    if definition.name == "task_batch" and batches is not None:
        keys = [key for key in keys if key in batches]
    return keys


def _reason(causes: Iterable[StaleCause], without_cause: str) -> str:
    words: list[str] = []
    for cause in causes:
        where = ""
        if cause.dependency is not None:
            where = "/".join(cause.dependency.asset_key.path)
            where += f"[{cause.dependency.partition_key}]" if cause.dependency.partition_key else ""
        if cause.category == StaleCauseCategory.CODE:
            words.append("its settings or code changed")
        elif cause.category == StaleCauseCategory.DATA:
            words.append(f"{where} changed")
        else:
            words.append(cause.reason)
    return "; ".join(dict.fromkeys(words)) or without_cause
