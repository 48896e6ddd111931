"""`trace sync`: materialize what is missing or stale, and nothing else, several items at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import dagster as dg

from trace_assets.errors import Unavailable
from trace_assets.orchestration.forecast import Scope
from trace_assets.orchestration.materialization import materialize_here, materialize_items
from trace_assets.orchestration.planner import Item, Planner, Standings
from trace_assets.orchestration.recovery import RecoveryReport, recover
from trace_assets.orchestration.removal import finish_removals
from trace_assets.orchestration.sync_run import Answer, AtRisk, Listener, Synced, SyncRun, is_setting
from trace_assets.orchestration.worker_pool import Needs, Pool, WorkerPool, needs_of
from trace_assets.store import Home
from trace_assets.store.locks import Holder, exclusive, holder, sync_lock
from trace_assets.store.presence import announce
from trace_assets.study import Study
from trace_assets.system.processes import whole_cores
from trace_assets.workflows.made_with import marked_items

WORKER_VARIABLES = {"HF_HUB_DISABLE_PROGRESS_BARS": "1"}  # the bars are ours


def open_pool(study: Study, jobs: int | None = None) -> Pool:
    """Return what the items of a study are handed to: see the section `cluster` of its settings.

    Raises:
        Unavailable: The cluster is not there, or one of its nodes cannot work on the home.
    """
    if study.settings.cluster.engine == "local" or jobs == 0:
        width = min(2, whole_cores()) if jobs is None else max(1, jobs)
        return WorkerPool(width, ("trace_assets.orchestration.loaded_ahead",))
    from trace_assets.orchestration.cluster.ray_pool import RayPool

    pool = RayPool(study.settings.cluster, jobs)
    try:
        pool.join(study.home)
    except BaseException:
        pool.shutdown()
        raise
    return pool


def sync(
    definitions: dg.Definitions,
    instance: dg.DagsterInstance,
    study: Study,
    environment: Mapping[str, str],
    *,
    selection: Iterable[str] | None = None,
    partitions: Iterable[str] | None = None,
    jobs: int | None = None,
    force: Mapping[Item, str] | None = None,
    listen: Listener = lambda *_: None,
    waiting: Callable[[Holder | None], None] | None = lambda _: None,
    mended: Callable[[RecoveryReport], None] = lambda _: None,
    standing: Standings | None = None,
    again: Collection[str] = (),
    ask: Callable[[Sequence[AtRisk]], Answer] = lambda _: "stop",
    pool: Pool | None = None,
) -> Synced:
    """Materialize what is due until nothing is.

    What is finished is not made again unless somebody says so: where something due would put new work in the
    place of played episodes, trained weights or paid answers, `ask` is asked, once before anything begins,
    and once more where it shows only later.

    An item runs when nothing before it is due any more: settings and light items in this process, all others,
    and environments that a model writes, in processes of their own. What failed is not tried again in the
    same call, and what depends on it is held back; everything else goes on. An item that another process is
    making (a run of the UI) is left to it.

    Args:
        definitions: The graph.
        instance: Its history.
        study: What the graph works on; one sync at a time works on its home.
        environment: Variables with which a worker process opens the same study.
        selection: Names of assets, or of items such as `adapter[x]`; None takes all.
        partitions: Task batches; None takes all.
        jobs: Items at once; None takes the smaller of two and the number of cores, or on a cluster as many
            as it has cores; 0 makes one after the other in this process.
        force: Items to make once even when they look fresh, with the reason.
        listen: Told of starts and ends.
        waiting: Told who is at work when another sync is, before waiting for it; None does not wait.
        mended: Told what a killed process had left behind, once it is put right.
        standing: How each item is taken; None takes what `Scope` says.
        again: Names of assets or items that are made also in the place of finished work.
        ask: Decides about finished work that is due and that `again` does not name.
        pool: What `open_pool` opened, and is shut down here; None opens it.

    Raises:
        Unavailable: Another sync is at work, and `waiting` is None.
    """
    with ExitStack() as stack:
        pool = stack.enter_context(pool or open_pool(study, jobs))
        environment = {
            **WORKER_VARIABLES,
            **environment,
            **pool.variables,
            **study.settings_as_they_are(),
        }
        stack.enter_context(_turn(study.home, waiting))
        announce(study.home)  # anew, where this process was taken for dead since its last sync
        planner = Planner(definitions, instance, selection, partitions, standing or Scope(study, selection))
        recovered = recover(instance, study.home)
        finish_removals(study, instance)
        lost = planner.mend_files()
        recovered = replace(recovered, forgotten=lost.forgotten, lineage=lost.lineage)
        if recovered or recovered.hashed:
            mended(recovered)
        from trace_assets.definitions import pipeline

        needs = {one.name: needs_of(one, study) for one in pipeline()}

        def put_right() -> None:
            pool.bury(study.home)
            recover(instance, study.home)

        stack.callback(put_right)  # after an interrupt no run seems to go on
        stack.callback(pool.shutdown)  # before that
        marked = {Item(*name): reason for name, reason in marked_items(study).items()}
        seen = None if recovered.forgotten or recovered.lineage else ()
        run = SyncRun(study, planner, {**marked, **(force or {})}, listen, again, seen)
        if run.settle(ask) == "stop":
            return run.finished()
        if jobs != 0 and run.needs_workers():
            pool.load_ahead()
        while True:
            made_here = False
            for step in run.ready(heavy=True):
                if len(run.running) >= pool.width:
                    break
                if run.start([step], study.home):
                    asked = run.is_asked(step.item)
                    if jobs == 0:
                        run.end(materialize_here(definitions, study, instance, [step.item], asked))
                        made_here = True  # others may be ready now: no time for a look at all of the history
                        break
                    needed = needs.get(step.item.asset, Needs())
                    future = pool.submit(materialize_items, environment, [step.item], asked, needs=needed)
                    run.running[future] = (step.item,)
            unit = run.ready(heavy=False)
            settings = [step for step in unit if is_setting(step.item)]
            unit = settings or unit[:1]
            if unit and run.start(unit, study.home):
                asked = any(run.is_asked(step.item) for step in unit)
                run.end(materialize_here(definitions, study, instance, [step.item for step in unit], asked))
            elif run.running:
                finished, _ = wait(run.running, return_when=FIRST_COMPLETED)
                run.take(finished, put_right, study.home)
            elif not made_here and not run.look_again(study.home) and run.settle(ask) != "go on":
                return run.finished()


@contextmanager
def _turn(home: Home, waiting: Callable[[Holder | None], None] | None) -> Iterator[None]:
    """Let one sync at a time work on a home; the operating system frees the lock of a dead one."""
    path, patience = sync_lock(home), None if waiting else 0.0
    with ExitStack() as stack:
        try:
            stack.enter_context(
                exclusive(path, "trace sync", waiting=waiting or (lambda _: None), patience=patience)
            )
        except TimeoutError as error:
            raise Unavailable(
                f"another `trace sync` is at work on {home.path} ({holder(path) or 'an unknown process'}); "
                "wait for it, or give this one another TRACE_HOME."
            ) from error
        yield
