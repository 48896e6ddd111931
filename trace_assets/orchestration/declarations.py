"""What the assets declare, noted down for the next process, which then imports no module of an asset to look.

The modules of the assets import most of the program, more than half of what a command takes that finds
nothing to do. What they declare follows from the source alone, so it is kept beside the hashes of the source
and counts for that source only.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from importlib import import_module
from typing import Any

import trace_assets.records
from trace_assets.assets.asset import Asset, StageResult, as_in_source, asset_of
from trace_assets.code_versions import note, noted
from trace_assets.records import Record

FILE = "declarations.json"
_PLAIN = tuple(one.name for one in fields(Asset) if one.name not in ("work", "records", "parts"))


class Deferred:
    """The function of an asset, whose module is imported when it is called.

    Args:
        module: The module.
        name: Its name there.
        doc: Its docstring.
        parameters: Names of its parameters.
    """

    def __init__(self, module: str, name: str, doc: str, parameters: Sequence[str]) -> None:
        self.__module__, self.__name__, self.__doc__ = module, name, doc
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        self.__signature__ = inspect.Signature([inspect.Parameter(one, kind) for one in parameters])

    def __call__(self, *arguments: Any, **named: Any) -> StageResult:
        """Make the asset."""
        result: StageResult = getattr(import_module(self.__module__), self.__name__)(*arguments, **named)
        return result


def recalled() -> list[Asset] | None:
    """Return the assets as another process has noted them down; None where none has, of this source.

    A function whose module is imported already stands for itself.
    """
    global _rows
    if _rows is None:
        _rows = noted(FILE)
    return None if _rows is None else [_asset(row) for row in _rows]


_rows: list[dict[str, Any]] | None = None
_made: dict[str, Asset] = {}
"""Assets whose modules were not imported when they were asked for, by name: the same one each time."""


def note_down(assets: Sequence[Asset]) -> None:
    """Note down what the assets declare, where that is what the source declares.

    A function that was put in the place of an asset's would otherwise be run by every later command.
    """
    global _rows
    if not as_in_source(assets):
        return
    rows = [row for one in assets if (row := _row(one)) is not None]
    if len(rows) == len(assets):
        _rows = rows
        note(FILE, rows)


def _row(one: Asset) -> dict[str, Any] | None:
    """Return an asset as plain values; None where a table of it has no name among the records.

    What stands in the place of an asset's function for a time, as in a test, is none of the source.
    """
    own = getattr(sys.modules.get(one.work.__module__), one.work.__name__, None)
    named = (getattr(trace_assets.records, record.__name__, None) is record for record in one.records)
    if asset_of(own) is not one or not all(named):
        return None
    plain = {name: getattr(one, name) for name in _PLAIN}
    listed = {
        name: value if isinstance(value, Mapping | str) else _listed(value) for name, value in plain.items()
    }
    return listed | {
        "records": [record.__name__ for record in one.records],
        "parts": {record.__name__: name for record, name in one.parts.items()},
        "module": one.work.__module__,
        "function": one.work.__name__,
        "doc": one.work.__doc__ or "",
        "parameters": list(inspect.signature(one.work).parameters),
    }


def _listed(value: object) -> object:
    return list(value) if isinstance(value, Sequence) else value


def _asset(row: Mapping[str, Any]) -> Asset:
    module = sys.modules.get(row["module"])
    known = asset_of(getattr(module, row["function"], None))
    if known is not None:
        return known
    if (name := row["name"]) not in _made:
        _made[name] = _deferred(row)
    return _made[name]


def _deferred(row: Mapping[str, Any]) -> Asset:
    return Asset(
        work=Deferred(row["module"], row["function"], row["doc"], row["parameters"]),
        records=tuple(_record(name) for name in row["records"]),
        parts={_record(name): part for name, part in row["parts"].items()},
        **{name: row[name] for name in _PLAIN},
    )


def _record(name: str) -> type[Record]:
    found: type[Record] = getattr(trace_assets.records, name)
    return found
