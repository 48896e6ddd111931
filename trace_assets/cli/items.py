"""Names of assets and of their partitions, as they are given on the command line."""

from __future__ import annotations

from collections.abc import Sequence

from trace_assets.assets.instance import prepare_instance, register_batches
from trace_assets.assets.scope import Scope
from trace_assets.assets.staleness import Item, nodes_of
from trace_assets.definitions import build
from trace_assets.errors import InputError
from trace_assets.study import Study


def known_items(study: Study, names: Sequence[str]) -> list[Item]:
    """Return the items that names such as `routing`, `adapter` or `adapter[x]` stand for.

    Args:
        study: The study.
        names: Asset names, with or without a partition in brackets.

    Returns:
        The items; the name of a partitioned asset alone stands for all of its partitions.

    Raises:
        InputError: There is no such asset, or it has no such partition.
    """
    if not names:
        return []
    nodes = nodes_of(build(study))
    found: list[Item] = []
    with prepare_instance(study.home, to_look=True) as instance:
        scope = Scope(study, names)
        register_batches(instance, study, live=scope.live)
        for name in names:
            asset, bracket, rest = name.partition("[")
            if asset not in nodes:
                raise InputError(f"there is no asset '{asset}'; there are {', '.join(sorted(nodes))}.")
            dimension = nodes[asset].dimension
            keys = [""] if dimension is None else sorted(instance.get_dynamic_partitions(dimension))
            if not bracket:
                found += [Item(asset, key) for key in keys]
                continue
            partition = rest.removesuffix("]")
            if dimension is None:
                raise InputError(f"'{asset}' has no partitions; write '{asset}' in place of '{name}'.")
            if partition not in keys or not rest.endswith("]"):
                there = ", ".join(keys) or "none yet"
                raise InputError(f"'{name}' names no partition of '{asset}'; there are: {there}.")
            if scope(Item(asset, partition)) == "left out":
                raise InputError(f"'{name}' cannot be made with these settings. {' '.join(scope.notes())}")
            found.append(Item(asset, partition))
    return found
