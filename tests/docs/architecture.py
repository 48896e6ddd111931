"""The parts of `docs/architecture.md` that are read off the code: assets, floors, imports that go upward."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path

from tests.docs.floors import FLOORS, ROOMS, UPWARD
from tests.docs.imports import modules, room_of
from trace_assets.assets.asset import Asset
from trace_assets.definitions import pipeline

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
NOTHING = "–"

CALLED = tuple(room for room in ROOMS if room not in ("records", "store", "system", "untrusted"))
"""Rooms that do the work of an asset; records, tables and processes are everywhere."""


def assets_table() -> str:
    """Return a row for every asset of the pipeline: its function, what it reads and writes, its rooms."""
    rows = [
        "| asset | one for each | function | reads | writes | rooms that do the work |",
        "|---|---|---|---|---|---|",
    ]
    for one in pipeline():
        file = _file(one)
        place = f"trace_assets/{'/'.join(one.work.__module__.split('.')[1:])}.py"
        assert file.endswith(place), f"{one.name} is declared in {file}"
        cells = (
            f"`{one.name}`",
            (one.partitions or NOTHING).replace("_", " "),
            f"[`{one.work.__name__}`](../{place})",
            _code(one.deps),
            _code([record.table for record in one.records]),
            _code(rooms_of(one)),
        )
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def _file(one: Asset) -> str:
    """Return the file that an asset is declared in; its module may not be imported yet."""
    return inspect.getsourcefile(import_module(one.work.__module__)) or ""


def rooms_of(one: Asset) -> list[str]:
    """Return the rooms whose definitions an asset's function names, or a helper in its own file."""
    tree = ast.parse(Path(_file(one)).read_text(encoding="utf-8"))
    definitions = {
        node.name: node
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }
    imported = {
        name.asname or name.name: _full(node.module, name.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module
        for name in node.names
    }
    todo, met, rooms = [one.work.__name__], set[str](), set[str]()
    while todo:
        name = todo.pop()
        if name in met:
            continue
        met.add(name)
        for node in ast.walk(definitions[name]):
            if not isinstance(node, ast.Name):
                continue
            if node.id in definitions:
                todo.append(node.id)
            elif imported.get(node.id, "").startswith("trace_assets."):
                rooms.add(room_of(imported[node.id]))
    return sorted(rooms & set(CALLED), key=CALLED.index)


def _full(module: str, name: str) -> str:
    return f"{module}.{name}" if f"{module}.{name}" in modules() else module


def _code(names: object) -> str:
    return ", ".join(f"`{name}`" for name in names) or NOTHING  # type: ignore[attr-defined]


def floors_list() -> str:
    """Return the floors, the highest first."""
    numbered = list(enumerate(FLOORS, start=1))
    return "\n".join(f"| {number} | {_code(floor)} |" for number, floor in reversed(numbered))


def upward_list() -> str:
    """Return the imports that go upward, with their reasons."""
    return "\n".join(f"- `{one}` imports `{other}`: {why}" for (one, other), why in UPWARD.items())


PARTS: Mapping[str, Callable[[], str]] = {
    "floors": floors_list,
    "upward": upward_list,
    "assets": assets_table,
}


def rewritten(page: str) -> str:
    """Return a page with what stands between `<!-- NAME: begin -->` and `end` made anew.

    Raises:
        ValueError: A part has no place in the page.
    """
    for name, make in PARTS.items():
        place = re.compile(rf"(?<=<!-- {name}: begin -->\n).*?(?=<!-- {name}: end -->)", re.DOTALL)
        if not place.search(page):
            raise ValueError(f"the page has no place for '{name}'")
        text = make() + "\n"
        if name == "floors":
            text = "| floor | rooms |\n|--:|---|\n" + text
        page = place.sub(lambda _, text=text: text, page, count=1)  # type: ignore[misc]
    return page
