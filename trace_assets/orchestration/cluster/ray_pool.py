"""The pool whose workers are the nodes of a Ray cluster. Ray is imported here and in `ray_tasks`."""

from __future__ import annotations

import logging
import os
import shutil
import socket
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar
from uuid import uuid4

import dagster as dg

from trace_assets.errors import Unavailable, require_extra
from trace_assets.orchestration.cluster.nodes import (
    Node,
    compare_clocks,
    compare_nodes,
    node_report,
    probe_home,
)
from trace_assets.orchestration.instance import ACTOR, HISTORY_VARIABLE, History, open_history
from trace_assets.orchestration.worker_pool import SANDBOX, Needs, WorkerDied
from trace_assets.settings.operation import Cluster
from trace_assets.store import Home
from trace_assets.store.presence import CREW_VARIABLE, NODE_VARIABLE, dead_here, elsewhere, forget
from trace_assets.study import CONFIG_VARIABLE

require_extra("ray", "cluster", '[cluster] engine = "ray"')

import ray  # noqa: E402
from ray import exceptions as failures  # noqa: E402

from trace_assets.orchestration.cluster.ray_tasks import LOST, MOST_AT_ONCE, Tasks, alive, on_node  # noqa: E402

T = TypeVar("T")

KNOCK_SECONDS = 10.0
"""Longest wait for the cluster's port."""
ENDING_SECONDS = 10.0
"""What worker processes are given to end when their driver or their call has ended."""


class RayPool:
    """Calls as Ray tasks, each on a node that has what it needs.

    Interface and behaviour are those of `WorkerPool`: a call that is lost with its worker or node raises
    `WorkerDied` and no other call notices. Ray repeats nothing by itself: that is the sync's to say.

    Args:
        settings: The cluster.
        width: Calls at once; None takes as many as the cluster has cores.

    Raises:
        Unavailable: No cluster answers at the address.
    """

    def __init__(self, settings: Cluster, width: int | None = None) -> None:
        self.crew = uuid4().hex[:12]
        address = settings.address or os.environ.get("RAY_ADDRESS") or "auto"
        try:
            _knock(address)
            ray.init(
                address=address,
                namespace=f"trace-{self.crew}",
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
        except Exception as error:  # of many types, some of them internal
            said = (str(error).splitlines() or [type(error).__name__])[0]
            raise Unavailable(
                f"no Ray cluster answers at '{address}' ({said}); start one on this machine with "
                "`ray start --head`, join the others with `ray start --address=HOST:6379`, or mend [cluster] "
                "address."
            ) from error
        self._node = ray.get_runtime_context().get_node_id()
        cores = sum(node["Resources"].get("CPU", 0) for node in alive())
        self._width = max(1, min(MOST_AT_ONCE, int(cores) if width is None else width))
        self._has_gpus = any(node["Resources"].get("GPU", 0) for node in alive())
        self._free = threading.Semaphore(self._width)
        self._lock = threading.Lock()
        self._tasks = Tasks()
        self._variables: dict[str, str] = {CREW_VARIABLE: self.crew}
        self._history: Any = None
        self._home: Home | None = None
        self._settings: Path | None = None
        self._before = {name: os.environ.get(name) for name in (CREW_VARIABLE, NODE_VARIABLE)}
        os.environ.update({CREW_VARIABLE: self.crew, NODE_VARIABLE: self._node})

    @property
    def width(self) -> int:
        """Calls at once."""
        return self._width

    @property
    def variables(self) -> Mapping[str, str]:
        """Variables that a worker opens the study with."""
        return self._variables

    def join(self, home: Home) -> None:
        """Make sure that all nodes can work on a home, and open its history to them.

        Raises:
            Unavailable: A node has other code, or does not see the home or its locks; the sentence names it.
        """
        nodes = self.nodes(home)
        compare_nodes(nodes, home)
        self._bury_all(home)
        folder = home.path / "locks" / "cluster"
        folder.mkdir(parents=True, exist_ok=True)
        # The nodes know neither this working directory nor its variables; an empty file holds the defaults.
        file = Path(os.environ.get(CONFIG_VARIABLE) or "trace.toml")
        self._settings = folder / f"{self.crew}.toml"
        if file.is_file():
            shutil.copyfile(file, self._settings)
        else:
            self._settings.write_text("", encoding="utf-8")
        said = {name: value for name, value in os.environ.items() if name.startswith("TRACE_")}
        here = {"TRACE_HOME", "TRACE_PROGRESS_DIR", NODE_VARIABLE}
        self._variables |= {name: value for name, value in said.items() if name not in here}
        self._variables |= {CONFIG_VARIABLE: str(self._settings), HISTORY_VARIABLE: f"trace-{self.crew}"}
        self._home = home

    def nodes(self, home: Home) -> list[Node]:
        """Ask every node what it is, what it has, and what it sees of a home."""
        with probe_home(home) as probe:
            asked = {
                node["NodeID"]: ray.remote(node_report)
                .options(num_cpus=0, max_retries=0, scheduling_strategy=on_node(node["NodeID"]))
                .remote(probe)
                for node in alive()
            }
            found = []
            for node in alive():
                resources = {
                    name: value
                    for name, value in node["Resources"].items()
                    if name in ("CPU", "GPU", SANDBOX, "memory")
                }
                name = f"{node['NodeName']} ({node['NodeManagerAddress']})"
                try:
                    report = self._tasks.losses.answer(asked[node["NodeID"]], node["NodeID"])
                    clock = compare_clocks(partial(self._time_on, node["NodeID"]))
                    found.append(Node.of(node["NodeID"], name, resources, report, probe, clock))
                except Exception as error:
                    said = (str(error).splitlines() or [type(error).__name__])[0]
                    found.append(Node(node["NodeID"], name, resources, f"gave no answer: {said}"))
            return found

    def _time_on(self, node: str) -> float:
        ask = ray.remote(_now).options(num_cpus=0, max_retries=0, scheduling_strategy=on_node(node))
        return float(self._tasks.losses.answer(ask.remote(), node))

    def submit(self, work: Callable[..., T], /, *arguments: Any, needs: Needs = Needs()) -> Future[T]:  # noqa: B008
        """Call a function of a module on a node; see `Pool.submit`."""
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()
        threading.Thread(target=self._serve, args=(future, work, arguments, needs), daemon=True).start()
        return future

    def _serve(
        self, future: Future[Any], work: Callable[..., Any], arguments: tuple[Any, ...], needs: Needs
    ) -> None:
        with self._free:
            try:
                future.set_result(self._call(work, arguments, needs))
            except BaseException as error:
                future.set_exception(error)

    def _call(self, work: Callable[..., Any], arguments: tuple[Any, ...], needs: Needs) -> Any:
        if self._tasks.is_closed:
            raise WorkerDied("the pool has been shut down")
        gpus = needs.gpus if self._has_gpus else 0
        wanted = {"CPU": needs.cpus, "GPU": gpus, SANDBOX: needs.sandbox}
        wanted = {name: n for name, n in wanted.items() if n}
        if not any(
            all(node["Resources"].get(name, 0) >= n for name, n in wanted.items()) for node in alive()
        ):
            raise Unavailable(
                f"no node of the cluster has {needs} at once; `trace cluster check` lists what each has: "
                f"add a node (with a sandbox: `ray start --address=... --resources='{{\"{SANDBOX}\": 4}}'`)."
            )
        with self._lock:
            if self._history is None and self._home is not None:
                self._history = (
                    ray.remote(History)
                    .options(
                        name=ACTOR, num_cpus=0, max_concurrency=16, scheduling_strategy=on_node(self._node)
                    )
                    .remote(str(self._home.dagster))
                )
        options = {
            "num_cpus": needs.cpus,
            "num_gpus": gpus,
            "resources": {SANDBOX: needs.sandbox} if needs.sandbox else {},
        }
        return self._tasks.call(work, arguments, options)

    def load_ahead(self) -> None:
        """Nothing: its workers are started by the cluster, each when it is first called."""

    def bury(self, home: Home) -> list[str]:
        """Strike out the dead of other machines: the cluster knows lost nodes, a living node its own dead."""
        if not ray.is_initialized():
            return []
        strangers = elsewhere(home)
        alive = {node["NodeID"] for node in ray.nodes() if node["Alive"]}
        lost = {node["NodeID"] for node in ray.nodes() if not node["Alive"]}
        gone = [one.name for one in strangers if one.node in lost]
        for node in {one.node for one in strangers} & alive:
            ask = ray.remote(dead_here).options(num_cpus=0, max_retries=0, scheduling_strategy=on_node(node))
            try:
                dead = set(self._tasks.losses.answer(ask.remote(home), node))
            except (*LOST, WorkerDied, failures.RayTaskError):
                continue  # whether it lives is not known then
            gone += [one.name for one in strangers if one.node == node and one.name in dead]
        for name in gone:
            forget(home, name)
        return gone

    def _bury_all(self, home: Home) -> None:
        """Strike out the dead, and wait a little for those who are just ending: of a killed driver, say."""
        give_up = time.monotonic() + ENDING_SECONDS
        while (self.bury(home), elsewhere(home))[1] and time.monotonic() < give_up:
            time.sleep(0.5)

    def shutdown(self, grace_seconds: float = 1.0) -> None:
        """End all calls, and leave the cluster."""
        if self._tasks.is_closed:
            return
        self._tasks.end(grace_seconds)
        if self._home is not None:
            self._bury_all(self._home)  # nobody else can once the cluster is left
        if self._settings is not None:
            self._settings.unlink(missing_ok=True)
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        ray.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()


def opened_history(namespace: str) -> dg.DagsterInstance:
    """Return the Dagster instance of a sync, in a worker on any of its nodes."""
    actor = ray.get_actor(ACTOR, namespace=namespace)

    def ask(storage: str, name: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        try:
            return ray.get(actor.ask.remote(storage, name, arguments, named))
        except failures.RayTaskError as error:
            raise error.cause from None

    return open_history(ask)


def _knock(address: str) -> None:
    """Fail at once where nobody listens: Ray itself would try again for minutes."""
    host, colon, port = address.rpartition(":")
    if colon and port.isdigit() and "/" not in host:
        socket.create_connection((host.strip("[]"), int(port)), timeout=KNOCK_SECONDS).close()


def _now() -> float:
    return time.time()
