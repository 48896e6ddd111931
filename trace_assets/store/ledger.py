"""What every materialization cost, one small file each: appending needs no lock."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from uuid import uuid4

from trace_assets.records import LedgerEntry
from trace_assets.store.tables import Store


class Spending:
    """What the running work reports beside its time."""

    def __init__(self) -> None:
        self.quantities: dict[tuple[str, str], float] = {}
        self.cost_usd = 0.0

    def add(self, kind: str, quantity: float, unit: str, cost_usd: float = 0.0) -> None:
        """Count a quantity, such as 800 `rollouts` in `episodes`."""
        key = (kind, unit)
        self.quantities[key] = self.quantities.get(key, 0.0) + quantity
        self.cost_usd += cost_usd


def _cpu_seconds() -> float:
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


@contextmanager
def metered(
    store: Store, *, stage: str, asset: str, partition: str = "", run_id: str = ""
) -> Iterator[Spending]:
    """Measure wall and CPU seconds of the body (its finished child processes included) and record them.

    Nothing is recorded when the body fails: the ledger counts what was materialized.
    """
    spending = Spending()
    wall, cpu = time.monotonic(), _cpu_seconds()
    yield spending
    spending.add("wall", time.monotonic() - wall, "s")
    spending.add("cpu", _cpu_seconds() - cpu, "s")
    record(
        store,
        spending.quantities,
        stage=stage,
        asset=asset,
        partition=partition,
        run_id=run_id,
        cost_usd=spending.cost_usd,
    )


def record(
    store: Store,
    quantities: Mapping[tuple[str, str], float],
    *,
    stage: str,
    asset: str,
    partition: str = "",
    run_id: str = "",
    cost_usd: float = 0.0,
) -> None:
    """Append one entry a quantity; the money is booked on the first."""
    now = datetime.now(UTC)
    entries = [
        LedgerEntry(
            recorded_at=now,
            stage=stage,
            asset=asset,
            partition=partition,
            kind=kind,
            quantity=quantity,
            unit=unit,
            cost_usd=cost_usd if index == 0 else 0.0,
            run_id=run_id,
        )
        for index, ((kind, unit), quantity) in enumerate(quantities.items())
    ]
    name = f"{now:%Y%m%dT%H%M%S.%f}-{os.getpid()}-{uuid4().hex[:6]}"
    store.write(entries, LedgerEntry, name)
