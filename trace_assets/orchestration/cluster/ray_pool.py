"""The pool whose workers are the nodes of a Ray cluster. Ray is imported here and nowhere else."""

from __future__ import annotations

import logging
import os
import pickle
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar
from uuid import uuid4

import dagster as dg

from trace_assets.errors import Unavailable, require_extra
from trace_assets.orchestration.cluster.history import ACTOR, History, open_history
from trace_assets.orchestration.cluster.nodes import (
    Node,
    compare_clocks,
    compare_nodes,
    node_report,
    probe_home,
)
from trace_assets.orchestration.pool import SANDBOX, Needs, WorkerDied
from trace_assets.orchestration.worker_pool import HISTORY_VARIABLE
from trace_assets.settings.cluster import Cluster
from trace_assets.store import Home
from trace_assets.store.presence import CREW_VARIABLE, NODE_VARIABLE, dead_here, elsewhere, forget, withdraw
from trace_assets.study import CONFIG_VARIABLE

require_extra("ray", "cluster", '[cluster] engine = "ray"')

import ray  # noqa: E402
from ray import exceptions as failures  # noqa: E402
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: E402

T = TypeVar("T")

LOST = (
    failures.WorkerCrashedError,
    failures.NodeDiedError,
    failures.OutOfMemoryError,
    failures.ActorDiedError,
    failures.ActorUnavailableError,
    failures.ObjectLostError,
    failures.LocalRayletDiedError,
    failures.RaySystemError,
    failures.TaskCancelledError,
)
"""What Ray raises for a call whose process or node is gone."""
MOST_AT_ONCE = 256
"""Items under way: each is a thread of the driver and some events of Dagster's history."""
KNOCK_SECONDS = 10.0
"""Longest wait for the cluster's port."""
ENDING_SECONDS = 10.0
"""What worker processes are given to end when their driver or their call has ended."""
LOOK_SECONDS = 1.0
"""Between two looks at which nodes are alive, while calls are under way."""
SETTLED_SECONDS = 2.0
"""After its loss is known a node may still be sent calls by others that have not heard of it."""
NODE_SECONDS = 120.0
"""Longest wait for the answer of a node that Ray takes for alive."""


class Losses:
    """Which nodes the cluster takes for dead, looked up once a second for all who wait."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._looked = time.monotonic()
        self._since: dict[str, float] = dict.fromkeys(_dead(), float("-inf"))

    def nodes(self, since: float = float("-inf")) -> frozenset[str]:
        """Return the nodes whose loss was learnt of after some time (`time.monotonic`)."""
        with self._lock:
            if time.monotonic() > self._looked + LOOK_SECONDS:
                for node in _dead():
                    self._since.setdefault(node, time.monotonic())
                self._looked = time.monotonic()
            return frozenset(node for node, when in self._since.items() if when >= since)

    def answer(self, call: Any, node: str) -> Any:
        """Wait for what a call on a node returns.

        Raises:
            WorkerDied: The node was lost, or gave no answer for long.
        """
        give_up = time.monotonic() + NODE_SECONDS
        while not ray.wait([call], timeout=LOOK_SECONDS)[0]:
            if node in self.nodes() or time.monotonic() > give_up:
                raise WorkerDied(f"node {node[:12]} of the cluster is lost, or too slow to answer")
        return ray.get(call)


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
        cores = sum(node["Resources"].get("CPU", 0) for node in _alive())
        self._width = max(1, min(MOST_AT_ONCE, int(cores) if width is None else width))
        self._has_gpus = any(node["Resources"].get("GPU", 0) for node in _alive())
        self._free = threading.Semaphore(self._width)
        self._lock = threading.Lock()
        self._under_way: set[Any] = set()
        self._losses = Losses()
        self._closed = False
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
                .options(num_cpus=0, max_retries=0, scheduling_strategy=_on(node["NodeID"]))
                .remote(probe)
                for node in _alive()
            }
            found = []
            for node in _alive():
                resources = {
                    name: value
                    for name, value in node["Resources"].items()
                    if name in ("CPU", "GPU", SANDBOX, "memory")
                }
                name = f"{node['NodeName']} ({node['NodeManagerAddress']})"
                try:
                    report = self._losses.answer(asked[node["NodeID"]], node["NodeID"])
                    clock = compare_clocks(partial(self._time_on, node["NodeID"]))
                    found.append(Node.of(node["NodeID"], name, resources, report, probe, clock))
                except Exception as error:
                    said = (str(error).splitlines() or [type(error).__name__])[0]
                    found.append(Node(node["NodeID"], name, resources, f"gave no answer: {said}"))
            return found

    def _time_on(self, node: str) -> float:
        ask = ray.remote(_now).options(num_cpus=0, max_retries=0, scheduling_strategy=_on(node))
        return float(self._losses.answer(ask.remote(), node))

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
                answer = pickle.loads(self._call(work, arguments, needs))
            except BaseException as error:
                future.set_exception(error)
                return
            if isinstance(answer, _Raised):
                future.set_exception(answer.error)
            else:
                future.set_result(answer)

    def _call(self, work: Callable[..., Any], arguments: tuple[Any, ...], needs: Needs) -> bytes:
        if self._closed:
            raise WorkerDied("the pool has been shut down")
        gpus = needs.gpus if self._has_gpus else 0
        wanted = {"CPU": needs.cpus, "GPU": gpus, SANDBOX: needs.sandbox}
        wanted = {name: n for name, n in wanted.items() if n}
        if not any(
            all(node["Resources"].get(name, 0) >= n for name, n in wanted.items()) for node in _alive()
        ):
            raise Unavailable(
                f"no node of the cluster has {needs} at once; `trace cluster check` lists what each has: "
                f"add a node (with a sandbox: `ray start --address=... --resources='{{\"{SANDBOX}\": 4}}'`)."
            )
        options = {
            "num_cpus": needs.cpus,
            "num_gpus": gpus,
            "resources": {SANDBOX: needs.sandbox} if needs.sandbox else {},
        }
        while (answer := self._try(work, arguments, options)) is None:
            pass
        return answer

    def _try(
        self, work: Callable[..., Any], arguments: tuple[Any, ...], options: Mapping[str, Any]
    ) -> bytes | None:
        """Make a call; None where it may have been sent to a node that was lost before it began there.

        Of a machine that is gone, with its network, nobody tells Ray that the connection has ended: neither
        the answer of a task there nor the place that it asked for would be given up for minutes, also when
        Ray itself has long taken the node for dead.
        """
        with self._lock:
            if self._closed:
                raise WorkerDied("the pool has been shut down")
            if self._history is None and self._home is not None:
                self._history = (
                    ray.remote(History)
                    .options(name=ACTOR, num_cpus=0, max_concurrency=16, scheduling_strategy=_on(self._node))
                    .remote(str(self._home.dagster))
                )
            # A new remote function each time: for one that it knows Ray counts on the places it asked for.
            task = ray.remote(_answer).options(
                **options, max_retries=0, num_returns="streaming", scheduling_strategy="SPREAD"
            )
            sent = time.monotonic()
            call = task.remote(work, arguments)
            self._under_way.add(call)
        try:
            while not ray.wait([call], timeout=LOOK_SECONDS)[0]:
                if self._losses.nodes(sent - SETTLED_SECONDS):
                    ray.cancel(call, force=True)
                    return None
            node = str(ray.get(next(call)))
            while not ray.wait([call], timeout=LOOK_SECONDS)[0]:
                if node in self._losses.nodes():
                    raise WorkerDied(f"node {node[:12]} of the cluster is lost")
            answer: bytes = ray.get(next(call))
            return answer
        except StopIteration:
            raise WorkerDied("the call ended without an answer") from None
        except LOST as error:
            raise WorkerDied((str(error).splitlines() or [""])[0] or type(error).__name__) from None
        finally:
            with self._lock:
                self._under_way.discard(call)

    def bury(self, home: Home) -> list[str]:
        """Strike out the dead of other machines: the cluster knows lost nodes, a living node its own dead."""
        if not ray.is_initialized():
            return []
        strangers = elsewhere(home)
        alive = {node["NodeID"] for node in ray.nodes() if node["Alive"]}
        lost = {node["NodeID"] for node in ray.nodes() if not node["Alive"]}
        gone = [one.name for one in strangers if one.node in lost]
        for node in {one.node for one in strangers} & alive:
            ask = ray.remote(dead_here).options(num_cpus=0, max_retries=0, scheduling_strategy=_on(node))
            try:
                dead = set(self._losses.answer(ask.remote(home), node))
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
        with self._lock:
            if self._closed:
                return
            self._closed = True
            calls = list(self._under_way)
        for call in calls:
            ray.cancel(call, force=False)  # an interrupt: it puts its things in order
        give_up = time.monotonic() + grace_seconds
        while self._under_way and time.monotonic() < give_up:
            time.sleep(0.05)
        for call in calls:
            ray.cancel(call, force=True)
        while self._under_way and time.monotonic() < give_up + 10:
            time.sleep(0.05)
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


class _Raised:
    def __init__(self, error: BaseException) -> None:
        self.error = error


def _answer(work: Callable[..., Any], arguments: tuple[Any, ...]) -> Iterator[str | bytes]:
    """Call a function on a node: say first which node it is, then what the function returned.

    What it raises is an answer too, so that only losses are Ray's to report.
    """
    os.environ[NODE_VARIABLE] = node = ray.get_runtime_context().get_node_id()
    yield node
    answer: Any
    try:
        answer = work(*arguments)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        answer = _Raised(error)
    finally:
        withdraw()  # an idle worker is the cluster's, and may be ended at any time
    try:
        sent = pickle.dumps(answer)
    except (TypeError, AttributeError, ValueError, pickle.PicklingError) as error:
        sent = pickle.dumps(_Raised(RuntimeError(f"the answer cannot be sent: {error}")))
    yield sent


def _knock(address: str) -> None:
    """Fail at once where nobody listens: Ray itself would try again for minutes."""
    host, colon, port = address.rpartition(":")
    if colon and port.isdigit() and "/" not in host:
        socket.create_connection((host.strip("[]"), int(port)), timeout=KNOCK_SECONDS).close()


def _dead() -> list[str]:
    return [str(node["NodeID"]) for node in ray.nodes() if not node["Alive"]]


def _alive() -> list[dict[str, Any]]:
    return [node for node in ray.nodes() if node["Alive"]]


def _now() -> float:
    return time.time()


def _on(node: str) -> NodeAffinitySchedulingStrategy:
    return NodeAffinitySchedulingStrategy(node, soft=False)
