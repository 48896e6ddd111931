"""TRACE as a declarative pipeline: find what an agent cannot do, teach it, route to what was taught."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trace_assets.store.warehouse import Warehouse


def warehouse(home: Path | str | None = None) -> Warehouse:
    """Open the tables of a home for SQL; `warehouse().query("SELECT ...")` gives a polars frame.

    Args:
        home: The folder, or the address of an object store (`s3://BUCKET/PREFIX`), whose tables are fetched;
            None reads `TRACE_HOME`, then falls back to `.trace`.
    """
    import os
    import warnings

    from trace_assets.store import Home
    from trace_assets.store.unfinished import words_on_removals
    from trace_assets.store.warehouse import Warehouse
    from trace_assets.system.object_address import is_address

    named = str(home or os.environ.get("TRACE_HOME") or "")
    if is_address(named):
        from trace_assets.store.objects.download import mirror

        home = mirror(named)
    opened = Home.open(home, writable=False)
    if words := words_on_removals(opened.path):
        warnings.warn(words, stacklevel=2)
    return Warehouse(opened)
