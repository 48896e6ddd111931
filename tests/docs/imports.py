"""Who imports whom in `trace_assets`, read off the text: nothing is run."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import trace_assets

ROOT = Path(trace_assets.__file__).parent


class Import(NamedTuple):
    """One import as it stands in the text."""

    module: str
    """Full name: of a module of ours where it is one, otherwise as written."""
    at_module_level: bool


@cache
def modules() -> Mapping[str, Path]:
    """Return every module of the package by its full name."""
    found = {}
    for file in sorted(ROOT.rglob("*.py")):
        parts = ("trace_assets", *file.relative_to(ROOT).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


@cache
def imports_of(module: str) -> frozenset[Import]:
    """Return what a module imports, but for type checking alone."""
    tree = ast.parse(modules()[module].read_text(encoding="utf-8"))
    return frozenset(_imports(tree, at_module_level=True))


def _imports(node: ast.AST, *, at_module_level: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
            continue
        if isinstance(child, ast.Import):
            yield from (Import(one.name, at_module_level) for one in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0 and child.module, "imports of this package name their module in full"
            for one in child.names:
                full = f"{child.module}.{one.name}"
                yield Import(full if full in modules() else child.module, at_module_level)
        else:
            inner = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from _imports(child, at_module_level=at_module_level and not inner)


def room_of(module: str) -> str:
    """Return the folder, or the file beside the folders, that a module of ours lies in.

    >>> room_of("trace_assets.stats.paired"), room_of("trace_assets.study")
    ('stats', 'study')
    """
    return [*module.split("."), "__init__"][1]


def circles() -> list[list[str]]:
    """Return the groups of modules that import one another at module level (Tarjan's algorithm)."""
    graph = {
        module: sorted(
            {one.module for one in imports_of(module) if one.at_module_level and one.module in modules()}
        )
        for module in modules()
    }
    return _strongly_connected(graph)


def _strongly_connected(graph: Mapping[str, list[str]]) -> list[list[str]]:
    """
    >>> _strongly_connected({"a": ["b"], "b": ["c"], "c": ["b"], "d": ["a"]})
    [['b', 'c']]
    >>> _strongly_connected({"a": ["a"]})
    [['a']]
    """
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    waiting: list[str] = []
    found = []

    def visit(one: str) -> None:
        order[one] = low[one] = len(order)
        waiting.append(one)
        for other in graph[one]:
            if other not in order:
                visit(other)
                low[one] = min(low[one], low[other])
            elif other in waiting:
                low[one] = min(low[one], order[other])
        if low[one] == order[one]:
            group = waiting[waiting.index(one) :]
            del waiting[waiting.index(one) :]
            if len(group) > 1 or one in graph[one]:
                found.append(sorted(group))

    for one in graph:
        if one not in order:
            visit(one)
    return sorted(found)
