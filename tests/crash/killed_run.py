"""A small graph whose asset tells that it works and then sleeps: to be killed in the middle."""

import sys
import time

import dagster as dg

from trace_assets.assets.crew import Crew
from trace_assets.assets.heal import PROCESS_TAG
from trace_assets.assets.instance import prepare_instance
from trace_assets.store import Home, Store
from trace_assets.store.ledger import metered
from trace_assets.store.locks import item_lock
from trace_assets.store.presence import announce


@dg.asset(pool="gpu", config_schema={"home": str, "seconds": float, "after": bool})
def weights(context: dg.AssetExecutionContext):  # type: ignore[no-untyped-def]
    """Book what it cost, then be at work for a while, before or after it is recorded."""
    home, seconds = (
        Home.open(context.op_execution_context.op_config["home"]),
        context.op_execution_context.op_config["seconds"],
    )
    with item_lock(home, "weights") as lock:
        with metered(Store(home.tables), stage="test", asset="weights", run_id=context.run.run_id):
            pass
        if not context.op_execution_context.op_config["after"]:
            (home.path / "at_work").touch()
            time.sleep(seconds)
        yield dg.MaterializeResult(data_version=dg.DataVersion("1"))
        lock.settle()
        (home.path / "at_work").touch()
        time.sleep(seconds)


def run(folder: str, seconds: float, after: bool = False, tagged: bool = True) -> bool:
    """Materialize the asset; tell whether it went well."""
    home = Home.open(folder)
    with prepare_instance(home) as instance:
        result = dg.materialize(
            [weights],
            instance=instance,
            run_config={
                "ops": {"weights": {"config": {"home": folder, "seconds": seconds, "after": after}}},
                "loggers": {"console": {"config": {"log_level": "CRITICAL"}}},
            },
            tags={PROCESS_TAG: announce(home)} if tagged else {},
        )
    return result.success


if __name__ == "__main__":
    folder, kind = sys.argv[1], sys.argv[2]
    if kind == "crew":
        Crew(1).submit(run, folder, 60.0)
        time.sleep(60)
    run(folder, 60.0, after=kind == "after", tagged=kind != "untagged")
