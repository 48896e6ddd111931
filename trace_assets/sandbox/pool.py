"""The live sandboxes of a process: which isolates what, what is kept warm, what is thrown away."""

from __future__ import annotations

import os
import threading
import warnings
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from types import TracebackType
from typing import Literal, Protocol, Self

from trace_assets.errors import InputError
from trace_assets.sandbox.config import EVERYWHERE, Conditions, SandboxConfig
from trace_assets.sandbox.errors import SandboxUnavailable
from trace_assets.sandbox.sandbox import Leaf, Sandbox
from trace_assets.sandbox.session import SandboxedEnvironment
from trace_assets.system.progress import first_to_say

REQUIRE_DOCKER = "TRACE_REQUIRE_DOCKER"
"""Environment variable: set to anything but 0, nothing but Docker is taken for a sandbox."""

IsolationLevel = Literal["docker", "bubblewrap", "none"]


class Backend(Protocol):
    """Starts blank sandboxes of one kind."""

    isolation_level: IsolationLevel
    version: str
    """See `version.sandbox_version`."""

    def start(self) -> Sandbox:
        """A new blank sandbox that has said hello; may be called from any thread.

        Raises:
            SandboxUnavailable: It could not be started.
        """

    def close(self) -> None:
        """Let go of what the backend itself holds."""


def docker_required() -> bool:
    """Whether whoever started this program wants Docker or nothing."""
    return os.environ.get(REQUIRE_DOCKER, "0") not in ("", "0")


def make_backend(config: SandboxConfig) -> Backend:
    """The backend that the settings ask for, checked to be usable.

    Raises:
        SandboxUnavailable: It is not usable here; the message names the fix.
    """
    if docker_required() and config.backend in ("bubblewrap", "unsafe-subprocess"):
        raise SandboxUnavailable(
            f"sandbox.backend is '{config.backend}', and Docker is required (--require-docker, or "
            f"{REQUIRE_DOCKER}): drop one of the two"
        )
    if config.runtime and config.backend in ("bubblewrap", "unsafe-subprocess"):
        raise SandboxUnavailable(
            f"sandbox.runtime is '{config.runtime}', which only Docker has, and sandbox.backend is "
            f"'{config.backend}': drop one of the two"
        )
    if config.backend == "unsafe-subprocess":
        from trace_assets.sandbox.local import UnsafeBackend

        return UnsafeBackend(config)
    if config.backend == "bubblewrap":
        from trace_assets.sandbox.local import BubblewrapBackend

        return BubblewrapBackend(config)
    from trace_assets.sandbox.docker import DockerBackend

    try:
        return DockerBackend(config)
    except SandboxUnavailable as error:
        if config.backend == "docker" or docker_required() or config.runtime:
            raise
        from trace_assets.sandbox.local import BubblewrapBackend

        try:
            backend = BubblewrapBackend(config)
        except SandboxUnavailable as second:
            raise SandboxUnavailable(f"no sandbox can be had here: {error}; and {second}") from None
        if first_to_say("bubblewrap"):
            warnings.warn(f"bubblewrap isolates less than Docker and is used because {error}", stacklevel=3)
        return backend


def open_pool(config: SandboxConfig | None = None) -> SandboxPool:
    """Open a pool of sandboxes; close it, or use it as a context manager.

    Raises:
        SandboxUnavailable: The backend is not usable here; the message names the fix.
    """
    config = config or SandboxConfig()
    return SandboxPool(config, make_backend(config))


class SandboxPool:
    """Sandboxes by environment, the least recently used replaced first.

    A sandbox serves one key and no other: the hash of an environment's text and the sandbox's version. One
    that failed is killed in the background and
    never used again; one that has served `recycle_after` episodes takes no more and goes after its last one.

    Attributes:
        isolation_level: `docker`, `bubblewrap` or `none`; to be stored with whatever ran in it.
        version: The sandbox's version, part of the data version of what was audited in it.
        limit: Most sandboxes alive at once, those of `fresh` and the spares not counted.
    """

    def __init__(self, config: SandboxConfig, backend: Backend) -> None:
        self.config = config
        self.backend = backend
        self.isolation_level: IsolationLevel = backend.isolation_level
        self.version = backend.version
        self.limit = config.sandbox_limit
        self._lock = threading.RLock()
        self._live: list[Sandbox] = []  # least recently used first
        self._opening = threading.Lock()
        self._spares: list[Future[Sandbox]] = []
        self._starter = ThreadPoolExecutor(2, "sandbox-start")
        self._undertaker = ThreadPoolExecutor(2, "sandbox-kill")
        self._closed = False
        self._stock()

    def environment(self, source: str) -> SandboxedEnvironment:
        """The environment of this source text. Nothing runs until it is asked something."""
        return SandboxedEnvironment(self, source)

    def lease(self, environment: SandboxedEnvironment) -> Leaf:
        """A handle for one more episode of the environment.

        Raises:
            SandboxUnavailable: Every sandbox is full, or a new one cannot be started.
            EnvironmentFault: The source does not compile.
        """
        with self._lock:
            leaf = self._from_live(environment)
        if leaf is not None:
            return leaf
        with self._opening:  # one at a time, so that callers in many threads share what the first one opens
            with self._lock:
                leaf = self._from_live(environment)
                if leaf is not None:
                    return leaf
                if not self._make_room():
                    raise SandboxUnavailable(
                        f"all {self.limit} sandboxes are busy: end episodes, or raise max_sandboxes"
                    )
            box = self._loaded(environment)
            with self._lock:
                self._live.append(box)
                return self._take(box)

    def _from_live(self, environment: SandboxedEnvironment) -> Leaf | None:
        """A leaf in a sandbox that is there, unless another sandbox can be had and should share the load."""
        self._check_open()
        own = [box for box in self._live if box.key == self._key(environment) and self._usable(box)]
        if not own or (len(own) < self.config.spread and self._make_room()):
            return None
        return self._take(min(own, key=lambda box: len(box.leaves)))

    def _key(self, environment: SandboxedEnvironment) -> tuple[str, str]:
        return environment.key, self.version

    def _take(self, box: Sandbox) -> Leaf:
        self._live.remove(box)
        self._live.append(box)
        for old in [
            one for one in self._live if not one.leaves and one.episodes >= self.config.recycle_after
        ]:
            old.fail()
        return box.leaf()

    def _usable(self, box: Sandbox) -> bool:
        return (
            not box.dead
            and box.episodes < self.config.recycle_after
            and len(box.leaves) < self.config.max_sessions
        )

    def _make_room(self) -> bool:
        """Whether one more may be started; the idle one that was used longest ago makes way."""
        if len(self._live) < self.limit:
            return True
        idle = next((box for box in self._live if not box.leaves), None)
        if idle is None:
            return False
        idle.fail()
        return True

    def fresh(self, environment: SandboxedEnvironment, conditions: Conditions = EVERYWHERE) -> Sandbox:
        """A sandbox of the caller's own, never used before; call its `fail` to throw it away."""
        with self._lock:
            self._check_open()
        return self._loaded(environment, conditions)

    def _loaded(self, environment: SandboxedEnvironment, conditions: Conditions = EVERYWHERE) -> Sandbox:
        box = self._blank()
        try:
            box.load(environment.source, self._key(environment), conditions)
        except ValueError as error:
            box.fail()
            raise InputError(f"this environment's source cannot be sent to a sandbox: {error}") from None
        except BaseException:
            box.fail()
            raise
        return box

    def _start(self) -> Sandbox:
        box = self.backend.start()
        box.on_death = self._bury
        return box

    def _stock(self) -> None:
        with self._lock:
            while not self._closed and len(self._spares) < self.config.spares:
                self._spares.append(self._starter.submit(self._start))

    def _blank(self) -> Sandbox:
        with self._lock:
            spare = self._spares.pop(0) if self._spares else None
        try:
            if spare is None:
                return self._start()
            box = spare.result()
            return self._start() if box.dead else box
        finally:
            self._stock()

    def _bury(self, box: Sandbox) -> None:
        with self._lock:
            if box in self._live:
                self._live.remove(box)
            if not self._closed:
                with suppress(RuntimeError):  # at the interpreter's exit no thread takes work any more
                    self._undertaker.submit(box.container.kill)
                    return
        box.container.kill()

    def _check_open(self) -> None:
        if self._closed:
            raise SandboxUnavailable("this pool of sandboxes is closed: open another one")

    def close(self) -> None:
        """Kill every sandbox of this pool and wait until all are gone."""
        with self._lock:
            if self._closed:
                return
            boxes, spares = list(self._live), list(self._spares)
            self._spares.clear()
            for box in boxes:
                box.fail()
            for spare in spares:
                spare.cancel()
        self._starter.shutdown(wait=True)
        for spare in spares:
            if not spare.cancelled() and spare.exception() is None:
                spare.result().fail()
        with self._lock:
            self._closed = True
        self._undertaker.shutdown(wait=True)
        self.backend.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
