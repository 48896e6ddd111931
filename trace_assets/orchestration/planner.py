"""What is not up to date, and why, by content alone.

Dagster stores with every materialization the version of its code, of its content and of the content of
everything that it read. An item is due when one of the last two differs from what is there now. That is the
same question as the UI's "unsynced" answers, asked of all items at once (a few queries instead of a few an
item), and answered also where the UI leaves off: an upstream partition that is gone, and a hundred or more of
them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import dagster as dg

from trace_assets.orchestration.asset_files import FILES, ItemFiles
from trace_assets.orchestration.dagster_asset import BLOCKED_BY, UNFINISHED
from trace_assets.orchestration.recovery import RecoveryReport
from trace_assets.study import Study
from trace_assets.workflows.finished_work import Cause
from trace_assets.workflows.lineage.edges import mend_lineage

CODE, VERSION = "dagster/code_version", "dagster/data_version"
READ, POINTER = "dagster/input_data_version/", "dagster/input_event_pointer/"
NOTHING = "INITIAL"
"""What Dagster notes as the version of an input that was never made."""
LATER = 1 << 62
"""Stands for the number of a record that comes after all that are there."""
MANY = 100
"""From so many partitions on, Dagster notes the version of the last one made in place of all."""


NEVER = "never materialized"
"""Why an item is due that was not made yet."""


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
        held_by: Items before it whose blocking check failed: it is not made before that is mended.
        causes: What differs from when it was made, in words, and of which kind; empty where it is only
            asked for.
    """

    item: Item
    reason: str
    waits_for: tuple[Item, ...]
    held_by: tuple[Item, ...] = ()
    causes: Mapping[str, Cause] = field(default_factory=dict)


Standing = Literal["planned", "settled", "left out"]
"""How a plan takes an item: as any other; only while it is missing or asked for; not at all."""
Standings = Callable[[Item], Standing]


@dataclass(frozen=True)
class Node:
    """An asset's place in the graph.

    Attributes:
        key: Its key.
        code: Its code version.
        parents: Names of the assets it reads.
        upstream: These and all before them.
        dimension: Name of its partitions, None when it has none.
        tags: Its tags.
    """

    key: dg.AssetKey
    code: str | None
    parents: tuple[str, ...]
    upstream: frozenset[str]
    dimension: str | None
    tags: Mapping[str, str]


@dataclass(frozen=True)
class Made:
    """The last materialization of an item."""

    storage_id: int
    tags: Mapping[str, str]

    @property
    def version(self) -> str:
        """The version of its content."""
        return self.tags.get(VERSION, NOTHING)


WRITTEN_FROM = ("capability_spec", "decision_patterns", "target_contract")
"""What environments are written from. It costs nothing, so a selection that reads it has it made where it is
missing: `trace sync --select environment` after `trace diagnose` does what it says."""


class Planner:
    """Says what is due, again and again while things are being made.

    Args:
        definitions: The graph.
        instance: Its history.
        selection: Asset names, or items such as `adapter[x]`, to look at, with the settings that they read
            (a result made of settings that are not written down would be due, and paid for, once they
            are) and what is missing of `WRITTEN_FROM`; None takes all.
        partitions: Task batches to look at; None takes all. Capabilities are not narrowed.
        standing: How each item is taken; None plans all of them.
    """

    def __init__(
        self,
        definitions: dg.Definitions,
        instance: dg.DagsterInstance,
        selection: Iterable[str] | None = None,
        partitions: Iterable[str] | None = None,
        standing: Standings | None = None,
    ) -> None:
        self.nodes = nodes_of(definitions)
        self._instance = instance
        self._wanted = None if selection is None else self._with_settings(selection)
        self._needed = self._needed_for(selection or ())
        self._batches = None if partitions is None else set(partitions)
        study = (definitions.resources or {}).get("study")
        self._files = ItemFiles(study) if isinstance(study, Study) else None
        self._standing: Standings = standing or (lambda _: "planned")
        self.spared: Callable[[Item, Mapping[str, Cause]], bool] = lambda *_: False
        """Says of an item that is due whether it is left as it is: then nothing waits for it."""
        self.supposed_keys: dict[str, list[str]] = {}
        """Partitions by dimension in place of those that are recorded, for a rehearsal."""
        self._keys: dict[str | None, list[str]] = {}
        self._made: dict[str, dict[str, Made]] = {}
        self._supposed: set[Item] = set()

    def look(
        self, touched: Collection[str] | None = None, force: Mapping[Item, str] | None = None
    ) -> list[Step]:
        """Return what is missing or stale, in an order in which it can be made.

        Staleness is seen one hop at a time: what lies further down becomes due, or not, when the steps before
        it have run and their content turned out different or equal. Settings are content that is known
        beforehand, so what reads a section that was edited is due at once.

        Args:
            touched: Assets that were made since the last look; None reads the history of all.
            force: Items that are due whatever their versions say, with the reason.
        """
        dimensions = {node.dimension for node in self.nodes.values() if node.dimension is not None}
        self._keys = {None: [""]} | {
            name: self.supposed_keys[name]
            if name in self.supposed_keys
            else sorted(self._instance.get_dynamic_partitions(name))
            for name in dimensions
        }
        self._read(list(self.nodes) if touched is None else [name for name in touched if name in self.nodes])
        if self._files is not None:
            self._files.look(touched)
        steps: dict[Item, Step] = {}
        blocked = self._blocked()
        for name, node in self.nodes.items():
            for partition in self._keys[node.dimension]:
                item = Item(name, partition)
                if not self._is_wanted(item, node):
                    continue
                causes, asked = self.causes(item), (force or {}).get(item, "")
                if asked and "missing" in causes.values():
                    causes = dict.fromkeys(causes, "other")  # its tables are newer than what is recorded
                if (causes or asked) and not self.spared(item, causes):
                    before, held = self._before(item, node, steps), self._before(item, node, blocked)
                    steps[item] = Step(item, "; ".join(causes) or asked, before, held, causes)
        return list(steps.values())

    def mend_files(self) -> RecoveryReport:
        """Strike out lost files that nothing makes any more, and record lost lineage again.

        Without this the tables that they belong to could never be read again. It looks at everything, so that
        a plan that comes right after it need not.
        """
        self.look()
        if self._files is None:
            return RecoveryReport()
        items = [(name, key) for name, node in self.nodes.items() for key in self._keys[node.dimension]]
        forgotten = self._files.orphans(items)
        self._files.manifest.forget(forgotten)
        made = [(name, key) for name, key in items if key in self._made[name]]
        return RecoveryReport(
            forgotten=tuple(forgotten), lineage=tuple(mend_lineage(self._files.study, made))
        )

    def _blocked(self) -> list[Item]:
        """Return the items whose blocking check failed when they were made last."""
        return [
            Item(name, partition)
            for name, node in self.nodes.items()
            for partition in self._keys[node.dimension]
            if (made := self._made[name].get(partition)) is not None and BLOCKED_BY in made.tags
        ]

    def items_after(self, steps: Sequence[Step]) -> list[Item]:
        """Return the items that are up to date now and may become due once these steps were made."""
        due, begun = {step.item for step in steps}, {step.item.asset for step in steps}
        return [
            item
            for name, node in self.nodes.items()
            for partition in self._keys[node.dimension]
            if (item := Item(name, partition)) not in due
            and self._is_wanted(item, node)
            and any(
                other in node.upstream
                and (self.nodes[other].dimension != node.dimension or self._same_partition(other, item, due))
                for other in begun
            )
        ]

    def _same_partition(self, other: str, item: Item, due: Collection[Item]) -> bool:
        return not item.partition or Item(other, item.partition) in due

    def _with_settings(self, selection: Iterable[str]) -> set[str]:
        wanted = set(selection)
        nodes = (self.nodes.get(name.partition("[")[0]) for name in wanted)
        read = (parent for node in nodes if node is not None for parent in node.parents)
        return wanted | {parent for parent in read if parent.startswith("config/")}

    def _needed_for(self, selection: Iterable[str]) -> frozenset[tuple[str, str]]:
        """Return (asset, partition asked for, or empty) of what a selection is written from."""
        found = set()
        for asked in selection:
            name, _, rest = asked.partition("[")
            if name in self.nodes:
                reads = set(self.nodes[name].parents) & set(WRITTEN_FROM)
                found |= {(one, rest.removesuffix("]")) for one in reads}
        return frozenset(found)

    def _is_needed(self, item: Item) -> bool:
        """Whether an item was never made, and what was asked for cannot be made without it."""
        anybody = (item.asset, "") in self._needed or not item.partition
        named = any(
            asset == item.asset and (anybody or asked == item.partition) for asset, asked in self._needed
        )
        return named and item.partition not in self._made[item.asset]

    def _is_wanted(self, item: Item, node: Node) -> bool:
        asked = self._wanted is None or bool({item.asset, str(item)} & self._wanted)
        if not asked and not self._is_needed(item):
            return False
        if self._standing(item) == "left out":
            return False
        return node.dimension != "task_batch" or self._batches is None or item.partition in self._batches

    def wants(self, item: Item) -> bool:
        """Tell whether an item is among those that are looked at."""
        return item.asset in self.nodes and self._is_wanted(item, self.nodes[item.asset])

    def made_all(self, names: Iterable[str]) -> bool:
        """Tell whether every partition of some assets was made."""
        return all(set(self._keys[self.nodes[name].dimension]) <= set(self._made[name]) for name in names)

    def _before(self, item: Item, node: Node, others: Iterable[Item]) -> tuple[Item, ...]:
        return tuple(
            other
            for other in others
            if other.asset in node.upstream
            and (other.partition == item.partition or self.nodes[other.asset].dimension != node.dimension)
        )

    def _read(self, names: Sequence[str]) -> None:
        """Read the last materialization of every partition of some assets."""
        made = {name: dict[str, Made]() for name in names}
        keys = [self.nodes[name].key for name in names]
        for record in self._instance.get_asset_records(keys) if keys else ():
            last = record.asset_entry.last_materialization_record
            if last is None:
                continue
            name, node = "/".join(record.asset_entry.asset_key.path), self.nodes
            if node[name].dimension is None:
                made[name] = {"": Made(last.storage_id, last.event_log_entry.tags or {})}
            else:
                known = {
                    partition: one
                    for partition, one in self._made.get(name, {}).items()
                    if Item(name, partition) not in self._supposed
                }
                made[name] = _last_by_partition(self._instance, node[name].key, known)
        self._made |= made

    def causes(self, item: Item) -> dict[str, Cause]:
        """Return why an item is due, each reason with its kind; nothing when it is up to date.

        Only what was read by the last `look` counts.
        """
        node, made = self.nodes[item.asset], self._made[item.asset].get(item.partition)
        if made is None:
            return {NEVER: "missing"}
        settled, words = self._standing(item) == "settled", dict[str, Cause]()
        if not settled and node.code is not None and made.tags.get(CODE) != node.code:
            if item.asset.startswith("config/"):
                words[self._changed(item, made)] = "settings"
            else:
                words["its code changed"] = "code"
        if UNFINISHED in made.tags:
            words[f"its check {made.tags.get(BLOCKED_BY, '')} failed"] = "other"
        if (
            self._files is not None
            and item not in self._supposed  # it has no files yet
            and (said := self._files.said(item.asset, item.partition, made.tags.get(FILES)))
        ):
            words[said] = "other"
        if settled:
            return words
        for parent in node.parents:
            if word := self._moved(made, node, parent, item.partition):
                words[word] = "settings" if parent.startswith("config/") else "input"
        read = {tag.removeprefix(READ) for tag in made.tags if tag.startswith(READ)}
        if new := sorted(set(node.parents) - read):
            words[f"it reads {_several(new)} now"] = "other"
        if gone := sorted(read - set(node.parents)):
            words[f"it reads {_several(gone)} no longer"] = "other"
        return words

    def _changed(self, item: Item, made: Made) -> str:
        """Say that a section of the settings changed, or that its defaults did and nobody set anything."""
        name, moved = item.asset.removeprefix("config/"), ""
        if self._files is not None:
            moved = self._files.study.settings.section(name).moved_since(made.tags.get(CODE, ""), name)
        return f"a default changed: {moved}" if moved else "its settings changed"

    def made(self, item: Item) -> Made | None:
        """Return the last materialization of an item as the last `look` read it."""
        return self._made[item.asset].get(item.partition)

    def suppose(self, item: Item, version: str) -> None:
        """Take an item for made just now, of all that is there, with some content."""
        self._supposed.add(item)
        node, before = self.nodes[item.asset], self.made(item)
        same = before is not None and before.version == version
        tags = {VERSION: version, **({CODE: node.code} if node.code is not None else {})}
        for parent in node.parents:
            tags |= {
                READ + parent: self._version_of(parent, node, item.partition),
                POINTER + parent: str(LATER),
            }
        self._made[item.asset][item.partition] = Made(before.storage_id if same and before else LATER, tags)

    def _moved(self, made: Made, node: Node, parent: str, partition: str) -> str:
        """Say how a parent differs from what an item was made of; empty when it does not."""
        noted = made.tags.get(READ + parent)
        if noted is None:
            return ""
        above, now = self.nodes[parent], self._made[parent]
        if above.dimension is None:
            return f"{parent} changed" if noted != self._version_of(parent, node, partition) else ""
        keys = self._read_keys(parent, node, partition)
        # An item that reads MANY partitions or more is recorded by Dagster without their versions: only the
        # storage id of the latest one that it saw is known, so what was made after that one counts as
        # changed.
        pointer = int(made.tags.get(POINTER + parent, "0").replace("NULL", "0"))
        newer = [key for key in keys if key in now and now[key].storage_id > pointer]
        changed = bool(newer) if len(keys) >= MANY else noted != self._version_of(parent, node, partition)
        if not changed:
            return ""
        if not newer:
            return f"a partition of {parent} is gone"
        return _several([f"{parent}[{key}]" for key in newer]) + " changed"

    def _read_keys(self, parent: str, node: Node, partition: str) -> list[str]:
        """Return the partitions of a parent that an item reads."""
        above = self.nodes[parent]
        return [partition] if above.dimension == node.dimension else self._keys[above.dimension]

    def _version_of(self, parent: str, node: Node, partition: str) -> str:
        """Return what is noted as a parent's version when an item is made of what is there now."""
        above, now = self.nodes[parent], self._made[parent]
        if parent.startswith("config/") and above.code is not None:
            return above.code  # its version, as it is or is about to be made
        if above.dimension is None:
            return now[""].version if now else NOTHING
        there = {key: now[key] for key in self._read_keys(parent, node, partition) if key in now}
        joined = "".join(there[key].version for key in sorted(there))
        return hashlib.sha256(joined.encode()).hexdigest() if now else NOTHING


def plan(
    definitions: dg.Definitions,
    instance: dg.DagsterInstance,
    selection: Iterable[str] | None = None,
    partitions: Iterable[str] | None = None,
    force: Mapping[Item, str] | None = None,
) -> list[Step]:
    """Return what is missing or stale; see `Planner`, for those who look once."""
    return Planner(definitions, instance, selection, partitions).look(force=force)


def nodes_of(definitions: dg.Definitions) -> dict[str, Node]:
    """Return the graph's assets by name, in topological order."""
    graph = definitions.resolve_asset_graph()
    nodes: dict[str, Node] = {}
    for key in graph.toposorted_asset_keys:
        asset = graph.get(key)
        if not asset.is_materializable:
            continue
        parents = tuple(sorted("/".join(parent.path) for parent in asset.parent_keys))
        parents = tuple(parent for parent in parents if parent in nodes)
        upstream = frozenset(parents).union(*(nodes[parent].upstream for parent in parents))
        dimension = getattr(asset.partitions_def, "name", None)
        nodes["/".join(key.path)] = Node(key, asset.code_version, parents, upstream, dimension, asset.tags)
    return nodes


def _last_by_partition(
    instance: dg.DagsterInstance, key: dg.AssetKey, known: Mapping[str, Made]
) -> dict[str, Made]:
    """Return the last materialization of each partition; those `known` are not read again: none changes."""
    kind = dg.DagsterEventType.ASSET_MATERIALIZATION
    latest = instance.get_latest_storage_id_by_partition(key, kind)
    found = {
        partition: known[partition]
        for partition, place in latest.items()
        if partition in known and known[partition].storage_id == place
    }
    new = sorted(place for partition, place in latest.items() if partition not in found)
    for start in range(0, len(new), MANY):
        some = new[start : start + MANY]
        chosen = dg.AssetRecordsFilter(asset_key=key, storage_ids=some)
        for record in instance.fetch_materializations(chosen, limit=len(some)).records:
            found[record.partition_key or ""] = Made(record.storage_id, record.event_log_entry.tags or {})
    return found


def _several(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{', '.join(names[:2])} and {len(names) - 2} more"
