"""A small graph whose asset tells that it works and then sleeps: to be killed in the middle."""

import sys
import time

import dagster as dg

from trace_assets.orchestration.instance import prepare_instance
from trace_assets.orchestration.recovery import PROCESS_TAG
from trace_assets.orchestration.worker_pool import WorkerPool
from trace_assets.store import Home, Store
from trace_assets.store.history import metered
from trace_assets.store.item_locks import item_lock
from trace_assets.store.presence import announce


@dg.asset(pool="gpu", config_schema={"home": str, "seconds": float, "at": str})
def weights(context: dg.AssetExecutionContext):  # type: ignore[no-untyped-def]
    """Book what it cost, and be at work for a while: before it is recorded, once it is, or after all."""
    given = context.op_execution_context.op_config
    home = Home.open(given["home"])

    def work(moment: str) -> None:
        if given["at"] == moment:
            (home.path / "at_work").touch()
            time.sleep(given["seconds"])

    with item_lock(home, "weights", by=context.run.run_id) as lock:
        with metered(Store(home.tables), stage="test", asset="weights", run_id=context.run.run_id):
            pass
        work("before")
        yield dg.MaterializeResult(data_version=dg.DataVersion("1"))
        work("recorded")
        lock.settle()
        work("after")


def run(folder: str, seconds: float, at: str = "before", tagged: bool = True) -> bool:
    """Materialize the asset; tell whether it went well."""
    home = Home.open(folder)
    with prepare_instance(home) as instance:
        result = dg.materialize(
            [weights],
            instance=instance,
            run_config={
                "ops": {"weights": {"config": {"home": folder, "seconds": seconds, "at": at}}},
                "loggers": {"console": {"config": {"log_level": "CRITICAL"}}},
            },
            tags={PROCESS_TAG: announce(home)} if tagged else {},
        )
    return result.success


if __name__ == "__main__":
    folder, kind = sys.argv[1], sys.argv[2]
    if kind == "pool":
        WorkerPool(1).submit(run, folder, 600.0)
        time.sleep(600)
    run(folder, 600.0, kind if kind in ("recorded", "after") else "before", tagged=kind != "untagged")
