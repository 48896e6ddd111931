"""Calls as Ray tasks, and what becomes of them when a node is lost. Imports Ray, as `ray_pool` does."""

from __future__ import annotations

import os
import pickle
import queue
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from trace_assets.errors import Unavailable, require_extra
from trace_assets.orchestration.worker_pool import SANDBOX, WorkerDied
from trace_assets.rollouts.parallel import helped_by
from trace_assets.store.presence import NODE_VARIABLE, withdraw

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
LOOK_SECONDS = 1.0
"""Between two looks at which nodes are alive, while calls are under way."""
SETTLED_SECONDS = 2.0
"""After its loss is known a node may still be sent calls by others that have not heard of it."""
NODE_SECONDS = 120.0
"""Longest wait for the answer of a node that Ray takes for alive."""
MOST_AT_ONCE = 256
"""Calls under way: each is a thread."""
MOST_LOSSES = 3
"""After so many losses a divided work's call is not made anew."""


def alive() -> list[dict[str, Any]]:
    """Return the nodes that the cluster takes for alive."""
    return [node for node in ray.nodes() if node["Alive"]]


def on_node(node: str) -> NodeAffinitySchedulingStrategy:
    """Return what has a task run on one node and no other."""
    return NodeAffinitySchedulingStrategy(node, soft=False)


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


def _dead() -> list[str]:
    return [str(node["NodeID"]) for node in ray.nodes() if not node["Alive"]]


@dataclass
class Ticket:
    """A call as its caller sees it.

    Attributes:
        call: Ray's handle, once it was sent.
        has_begun: Whether a worker has said that it is at it.
        is_withdrawn: Whether the caller has taken it back.
    """

    call: Any = None
    has_begun: bool = False
    is_withdrawn: bool = False

    def withdraw(self) -> None:
        """Take the call back, whether it has begun or not."""
        self.is_withdrawn = True
        if self.call is not None:
            ray.cancel(self.call, force=True)


class Tasks:
    """The calls of one process, the driver or a worker; Ray repeats none of them by itself."""

    def __init__(self) -> None:
        self.losses = Losses()
        self._lock = threading.Lock()
        self._under_way: set[Any] = set()
        self.is_closed = False

    def call(
        self,
        work: Callable[..., T],
        arguments: tuple[Any, ...],
        options: Mapping[str, Any],
        ticket: Ticket | None = None,
    ) -> T:
        """Call a function of a module on a node, and wait for what it returns or raises.

        Args:
            work: The function.
            arguments: What it is called with.
            options: What the task takes, as Ray names it.
            ticket: Told how far it is.

        Raises:
            WorkerDied: Its process or node was lost in the middle of it, or it was withdrawn.
        """
        ticket = ticket or Ticket()
        while (sent := self._try(work, arguments, options, ticket)) is None:
            pass
        answer = pickle.loads(sent)
        if isinstance(answer, Raised):
            raise answer.error
        return answer  # type: ignore[no-any-return]

    def _try(
        self,
        work: Callable[..., Any],
        arguments: tuple[Any, ...],
        options: Mapping[str, Any],
        ticket: Ticket,
    ) -> bytes | None:
        """Make a call; None where it may have been sent to a node that was lost before it began there.

        Of a machine that is gone, with its network, nobody tells Ray that the connection has ended: neither
        the answer of a task there nor the place that it asked for would be given up for minutes, also when
        Ray itself has long taken the node for dead.
        """
        with self._lock:
            if self.is_closed or ticket.is_withdrawn:
                raise WorkerDied("the pool has been shut down, or does not wait for this call")
            # A new remote function each time: for one that it knows Ray counts on the places it asked for.
            task = ray.remote(_answer).options(
                **{"scheduling_strategy": "SPREAD", **options}, max_retries=0, num_returns="streaming"
            )
            sent = time.monotonic()
            call = ticket.call = task.remote(pickle.dumps((work, arguments)))
            self._under_way.add(call)
        try:
            while not ray.wait([call], timeout=LOOK_SECONDS)[0]:
                if ticket.is_withdrawn or self.losses.nodes(sent - SETTLED_SECONDS):
                    ray.cancel(call, force=True)
                    return None
            node = str(ray.get(next(call)))
            ticket.has_begun = True
            while not ray.wait([call], timeout=LOOK_SECONDS)[0]:
                if node in self.losses.nodes():
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

    def end(self, grace_seconds: float = 1.0) -> None:
        """End all calls; those at work are interrupted first, and given a time to put things in order."""
        with self._lock:
            self.is_closed = True
            calls = list(self._under_way)
        for call in calls:
            ray.cancel(call, force=False)
        give_up = time.monotonic() + grace_seconds
        while self._under_way and time.monotonic() < give_up:
            time.sleep(0.05)
        for call in calls:
            ray.cancel(call, force=True)
        while self._under_way and time.monotonic() < give_up + 10:
            time.sleep(0.05)


class Raised:
    """What a call raised, on its way to who called."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


def _answer(asked: bytes) -> Iterator[str | bytes]:
    """Call a function on a node: say first which node it is, then what the function returned.

    What it raises is an answer too, also where its module is not there: only losses are Ray's to report.
    """
    os.environ[NODE_VARIABLE] = node = ray.get_runtime_context().get_node_id()
    yield node
    answer: Any
    try:
        work, arguments = pickle.loads(asked)
        with helped_by(RayTeam(node) if not ray.get_gpu_ids() else None):
            answer = work(*arguments)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        answer = Raised(error)
    finally:
        withdraw()  # an idle worker is the cluster's, and may be ended at any time
    try:
        sent = pickle.dumps(answer)
    except (TypeError, AttributeError, ValueError, pickle.PicklingError) as error:
        sent = pickle.dumps(Raised(RuntimeError(f"the answer cannot be sent: {error}")))
    yield sent


class RayTeam:
    """Who helps a worker with an item that can be divided: all nodes with a free core, and its own core.

    The item holds its core for as long as it lasts. So one of the calls that it waits for takes none, on its
    own node: there is always one at work, however busy the cluster, and in the end it takes over what no
    other has begun.

    Args:
        node: The worker's.
        sandbox: Whether generated code runs in the calls: each then takes a sandbox of its node, but for the
            one on the worker's own, which has the item's.
    """

    def __init__(self, node: str, sandbox: bool = False) -> None:
        self._node, self._sandbox = node, sandbox

    @property
    def workers(self) -> int:
        """Calls that it makes at once, when nobody else is at work."""
        taken = ("CPU", SANDBOX) if self._sandbox else ("CPU",)
        places = sum(min(int(node["Resources"].get(name, 0)) for name in taken) for node in alive())
        return max(1, min(MOST_AT_ONCE, places))

    def with_sandbox(self) -> RayTeam:
        """Return the nodes that may run generated code."""
        return RayTeam(self._node, sandbox=True)

    def each(self, work: Callable[..., T], calls: Sequence[tuple[Any, ...]]) -> Iterator[T]:
        """Call a function with each of some arguments; see `Team.each`."""
        divided = _Divided(work, calls)
        own = {"num_cpus": 0, "scheduling_strategy": on_node(self._node)}
        helper = {"num_cpus": 1, "resources": {SANDBOX: 1} if self._sandbox else {}}
        helpers = [helper] * (min(len(calls), self.workers) - 1)
        for options in (own, *helpers):
            threading.Thread(target=divided.help, args=(options, options is own), daemon=True).start()
        try:
            for _ in calls:
                yield divided.next()
        finally:
            divided.tasks.end(0.0)


class _Divided:
    """Calls that are shared out to whoever is free."""

    def __init__(self, work: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> None:
        self.tasks = Tasks()
        self._work, self._calls = work, calls
        self._variables = {
            name: value
            for name, value in os.environ.items()
            if name.startswith("TRACE_") and name not in (NODE_VARIABLE, "TRACE_PROGRESS_DIR")
        }
        self._lock = threading.Lock()
        self._waiting = deque(range(len(calls)))
        self._tickets: dict[int, Ticket] = {}
        self._lost: Counter[int] = Counter()
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def next(self) -> Any:
        """Return what the next call returns that ends."""
        while True:
            try:
                answer = self._answers.get(timeout=LOOK_SECONDS)  # an interrupt does not end a longer wait
            except queue.Empty:
                continue
            if isinstance(answer, Raised):
                raise answer.error
            return answer

    def help(self, options: Mapping[str, Any], takes_over: bool) -> None:
        """Make one call after the other, until there are no more."""
        while not self.tasks.is_closed:
            taken = self._take(takes_over)
            if taken is not None:
                self._make(*taken, options)
            elif takes_over:
                time.sleep(LOOK_SECONDS)  # another's may be lost yet
            else:
                return

    def _take(self, takes_over: bool) -> tuple[int, Ticket] | None:
        with self._lock:
            if self._waiting:
                n = self._waiting.popleft()
            else:
                idle = [n for n, ticket in self._tickets.items() if not ticket.has_begun]
                if not takes_over or not idle:
                    return None
                n = idle[-1]
                self._tickets[n].withdraw()
            self._tickets[n] = Ticket()
            return n, self._tickets[n]

    def _make(self, n: int, ticket: Ticket, options: Mapping[str, Any]) -> None:
        arguments = (self._variables, self._work, self._calls[n])
        answer: Any
        try:
            answer = self.tasks.call(_in_study, arguments, options, ticket)
        except BaseException as error:
            answer = Raised(error)
        with self._lock:
            if ticket.is_withdrawn or self.tasks.is_closed:
                return
            del self._tickets[n]
            if isinstance(answer, Raised) and isinstance(answer.error, WorkerDied):
                self._lost[n] += 1
                if self._lost[n] < MOST_LOSSES:
                    self._waiting.append(n)
                    return
                answer = Raised(
                    Unavailable(
                        f"a part of this item was lost {MOST_LOSSES} times with the process that worked on "
                        f"it ({answer.error}), for want of memory perhaps; what was finished is kept."
                    )
                )
        self._answers.put(answer)


def _in_study(variables: Mapping[str, str], work: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Call a function in a process that opens the same study as who asked for it."""
    os.environ.update(variables)
    return work(*arguments)
