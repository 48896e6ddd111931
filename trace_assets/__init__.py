"""TRACE as a declarative pipeline: find what an agent cannot do, teach it, route to what was taught."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trace_assets.store.warehouse import Warehouse


def warehouse(home: Path | str | None = None) -> Warehouse:
    """Open the tables of a home for SQL; `warehouse().query("SELECT ...")` gives a polars frame.

    Args:
        home: The folder; None reads `TRACE_HOME`, then falls back to `.trace`.
    """
    from trace_assets.store import Home
    from trace_assets.store.warehouse import Warehouse

    return Warehouse(Home.open(home, writable=False))
