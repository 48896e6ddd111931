"""A process that works on a scripted loop's home: `sync`, or a run of one item as the UI would start it.

python sync_process.py HOME sync|begin|ASSET[/PARTITION] [SLOW_ASSET SECONDS]
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.assets.scripted_loop import Loop, stand_ins
from trace_assets.cli.pipeline import DIAGNOSIS
from trace_assets.orchestration import dagster_asset
from trace_assets.orchestration.instance import prepare_instance, register_batches
from trace_assets.orchestration.materialization import materialize_here
from trace_assets.orchestration.planner import Item
from trace_assets.orchestration.sync import sync
from trace_assets.store.locks import Holder

BEGINNING = ("config/base_model", "config/targets", "config/rollouts", "base_model", "tasks")
PARTS = {"begin": BEGINNING, "sync": (*BEGINNING, *DIAGNOSIS)}
"""The base agent and the diagnosis: enough to meet in, and quick."""


@contextmanager
def slowed(asset: str, seconds: float, log: Path) -> Iterator[None]:
    """Let one asset's stage take longer, and note when it began and ended."""
    metered = dagster_asset.metered

    @contextmanager
    def slow(*arguments: object, **named: object) -> Iterator[object]:
        with metered(*arguments, **named) as spending:  # type: ignore[arg-type]
            began = time.time()
            if named["asset"] == asset:
                time.sleep(seconds)
            yield spending
        if named["asset"] == asset:
            with log.open("a") as file:
                file.write(f"{began} {time.time()}\n")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dagster_asset, "metered", slow)
        yield


def main() -> None:
    """Work, and print what was done as one JSON object."""
    home, what, *rest = sys.argv[1:]
    slow, seconds = (rest[0], float(rest[1])) if rest else ("", 0.0)
    logging.disable(logging.CRITICAL)
    loop = Loop(Path(home))
    study = loop.study()
    waited: list[str] = []

    def waiting(holder: Holder | None) -> None:
        waited.append(str(holder))
        print("waiting", file=sys.stderr, flush=True)

    with (
        stand_ins(),
        slowed(slow, seconds, Path(home) / "work.log"),
        prepare_instance(study.home) as instance,
    ):
        register_batches(instance, study, live=True)
        definitions = loop.definitions(study)
        if what in PARTS:
            part = PARTS[what]
            outcomes = sync(
                definitions, instance, study, {}, selection=part, jobs=0, waiting=waiting
            ).outcomes
        else:
            outcomes = materialize_here(definitions, study, instance, [Item(*what.split("/"))])
    made = [str(outcome.item) for outcome in outcomes if outcome.made]
    failed = {str(outcome.item): outcome.error for outcome in outcomes if not outcome.made}
    print(json.dumps({"made": made, "failed": failed, "waited": waited}))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
