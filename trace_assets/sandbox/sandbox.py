"""One live sandbox: a zygote that forks a leaf for every episode, and the host's handle on each leaf."""

from __future__ import annotations

import itertools
import re
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from trace_assets.sandbox.channel import Channel, Closed, SocketChannel
from trace_assets.sandbox.config import EVERYWHERE, Conditions, SandboxConfig, worker_hash
from trace_assets.sandbox.errors import (
    Died,
    EnvironmentFault,
    ProtocolError,
    SandboxError,
    SandboxUnavailable,
)
from trace_assets.sandbox.protocol import PROTOCOL_VERSION, encode, open_reply, parse

_KILLED = "the sandbox was killed for a fault of another episode in it: play this one again"
_PYTHON = re.compile(r"\d+\.\d+\.\d+[\w.+-]{0,20}")
GRACE_SECONDS = 2.0
"""How long the process of an episode may take to end when it is over: a busy machine needs some of it."""
FROM_LEAF = b">"
"""Before what a leaf has written, where one stream serves all: the rest is the supervisor's own word."""


class Container(Protocol):
    """What a backend has started."""

    name: str

    def kill(self) -> None:
        """End it and remove every trace; may block, never raises, may be called twice."""

    def post_mortem(self) -> str | None:
        """Why its first process ended, as a `Died.reason`, where that can be told."""


class Sandbox:
    """A container that serves at most one environment.

    A process that is still there `GRACE_SECONDS` after its episode costs the container its life, as any other
    broken rule does.

    Args:
        container: What runs the worker.
        channel: Stream to the supervisor, before its hello.
        direct: Whether descriptors can be sent along, so that every leaf gets a stream of its own.
        config: Limits.
        on_death: Called once, from the thread that found the fault, when the sandbox must be killed.

    Attributes:
        must_seal: Whether it is of no use where its episodes cannot give up the kernel.
    """

    def __init__(
        self,
        container: Container,
        channel: Channel,
        direct: bool,
        config: SandboxConfig,
        on_death: Callable[[Sandbox], None] = lambda _: None,
    ) -> None:
        self.container = container
        self.channel = channel
        self.direct = direct
        self.config = config
        self.on_death = on_death
        self.lock = threading.RLock()
        self.dead = False
        self.key: tuple[str, str] | None = None
        self.episodes = 0
        self.leaves: set[Leaf] = set()
        self._ordered: list[tuple[int, SocketChannel]] = []
        self.python = ""
        self.must_seal = True
        self.conditions = EVERYWHERE
        self._ids = itertools.count(1)
        self._oom_kills = 0
        self._parting: dict[int, float] = {}  # session of an episode that is over -> until when it may linger
        self._look_back: threading.Timer | None = None

    def greet(self) -> None:
        """Read the hello and make sure that the other side is the worker shipped with this package.

        Raises:
            SandboxUnavailable: It did not come up, or is another version.
        """
        deadline = time.monotonic() + self.config.start_deadline_seconds
        try:
            hello = parse(self.channel.receive(deadline))
        except (Closed, SandboxError) as error:
            self.fail()
            raise SandboxUnavailable(
                f"the sandbox {self.container.name} started but said no hello "
                f"({str(error) or 'it closed the stream'}): run `trace doctor`"
            ) from None
        if (
            type(hello) is not dict
            or set(hello) != {"hello", "protocol", "python", "worker"}
            or hello["hello"] != "trace-sandbox"
            or hello["protocol"] != PROTOCOL_VERSION
            or hello["worker"] != worker_hash()
            or type(hello["python"]) is not str
            or not _PYTHON.fullmatch(hello["python"])
        ):
            self.fail()
            raise SandboxUnavailable(
                "the sandbox's image holds another version of the worker than this package: "
                "remove the image, it is built again at the next start"
            )
        self.python = hello["python"]

    def fail(self) -> None:
        """Take the sandbox out of use and wake whoever waits for it; killing it is left to `on_death`."""
        with self.lock:
            if self.dead:
                return
            self.dead = True
            leaves, ordered = list(self.leaves), list(self._ordered)
            self._ordered.clear()
            self._parting.clear()
            if self._look_back is not None:
                self._look_back.cancel()
        self.channel.hang_up()
        self.channel.close()
        for leaf in leaves:
            leaf.hang_up()
        for _session, channel in ordered:
            channel.close()
        self.on_death(self)

    def load(self, source: str, key: tuple[str, str], conditions: Conditions = EVERYWHERE) -> None:
        """Give a blank sandbox its environment.

        Args:
            source: The module's text.
            key: Its hash and the version of the sandbox; see `SandboxPool`.
            conditions: What its episodes find of the world.

        Raises:
            EnvironmentFault: The source does not compile.
            SandboxUnavailable: This machine cannot keep the kernel and the clock from an episode.
            SandboxError: The sandbox failed and was killed.
        """
        state = self.control(
            "load",
            self.config.load_deadline_seconds,
            source=source,
            leaf_bytes=self.config.memory_mb << 20,
            clock=conditions.clock,
            process=conditions.process,
            sealed=conditions.sealed,
        )
        if (
            type(state) is not dict
            or set(state) != {"sealed", "clock"}
            or type(state["sealed"]) is not bool
            or state["clock"] not in ("fixed", "deadly", "real")
        ):
            self.fail()
            raise ProtocolError("the sandbox did not say how its episodes are held")
        if self.must_seal and conditions.sealed and (not state["sealed"] or state["clock"] == "real"):
            self.fail()
            lacks = "stop the clock of" if state["sealed"] else "filter the system calls of"
            raise SandboxUnavailable(
                f"this machine's kernel does not let the sandbox {lacks} an episode, so an environment could "
                "tell an audit from a training: use Linux 4.14 or later on x86-64 or ARM64, with seccomp"
            )
        self.key, self.conditions = key, conditions

    def ping(self) -> None:
        """Ask the supervisor for a sign of life."""
        if self.control("ping", self.config.deadline_seconds) is not None:
            self.fail()
            raise ProtocolError("the sandbox answered a ping with more than that")

    def control(self, op: str, seconds: float, **fields: Any) -> Any:
        """One request to the supervisor itself."""
        request_id = next(self._ids)
        deadline = time.monotonic() + seconds
        try:
            with self.lock:
                self.check_alive()
                self.channel.quiet()
                self.channel.send(encode({"id": request_id, "op": op, **fields}), deadline)
                return self.account(*open_reply(self.channel.receive(deadline), request_id))
        except (Closed, SandboxError) as error:
            raise self.explain(error, None) from None

    def account(self, kind: str, value: Any) -> Any:
        """The supervisor's reply: a result, or its failure raised. It alone may say that a process died."""
        if kind == "died":
            raise died(self.read_fate(parse(value.encode())) or "unknown")
        if kind == "fork":
            raise Died(f"the sandbox could not start another episode: {value}", "fork")
        return interpret(kind, value)

    def check_alive(self) -> None:
        """Refuse when another episode has already brought the sandbox down."""
        if self.dead:
            raise Died(_KILLED, "killed")

    def explain(self, error: Closed | SandboxError, session: int | None) -> SandboxError:
        """Turn a failure into the one to raise; all but the environment's own end the sandbox."""
        if isinstance(error, EnvironmentFault) or self.dead:
            if isinstance(error, Closed):
                return Died(_KILLED, "killed")
            return error
        if isinstance(error, Closed):
            answered, reason = self._fate(session) if session is not None else (False, None)
            error = died(reason or (None if answered else self.container.post_mortem()) or "unknown")
        self.fail()
        return error

    def _fate(self, session: int) -> tuple[bool, str | None]:
        """Whether the supervisor lives and answers, and how it says that a leaf has ended, if it has."""
        request_id = next(self._ids)
        deadline = time.monotonic() + 1.0
        try:
            with self.lock:
                self.channel.send(encode({"id": request_id, "op": "fate", "session": session}), deadline)
                fate = interpret(*open_reply(self.channel.receive(deadline), request_id))
        except (Closed, SandboxError):
            return False, None
        return True, self.read_fate(fate)

    def read_fate(self, fate: Any) -> str | None:
        """The supervisor's word on how a leaf ended, as a `Died.reason`."""
        if type(fate) is not dict:
            return None
        kills = fate.get("oom_kills")
        if fate.get("signal") == 9 and type(kills) is int and kills > self._oom_kills:
            self._oom_kills = kills
            return "oom"
        if type(fate.get("refused")) is str:
            return "fork"
        for how in ("signal", "exit"):
            if type(fate.get(how)) is int:
                return f"{how} {fate[how]}"
        return None

    def order(self, deadline: float) -> None:
        """Have a leaf bound to a stream of its own, for whoever asks next; nothing is waited for.

        Raises:
            Closed: The supervisor has gone.
            SandboxError: It sent what nobody asked for, or does not read.
        """
        ours, theirs = socket.socketpair()
        channel = SocketChannel(ours)
        try:
            with theirs, self.lock:
                self.check_alive()
                session = next(self._ids)
                line = encode({"id": session, "op": "leaf", "session": session})
                self.channel.quiet()
                self.channel.send(line, deadline, theirs.fileno())
                self._ordered.append((session, channel))
        except BaseException:
            channel.close()
            raise

    def claim(self, deadline: float) -> tuple[int, SocketChannel]:
        """The session and the stream of a leaf that serves nobody yet; raises as `order` does."""
        with self.lock:
            while True:
                self.check_alive()
                if not self._ordered:
                    self.order(deadline)
                session, channel = self._ordered.pop(0)
                try:
                    channel.quiet()
                    return session, channel
                except Closed:  # it was killed while it waited, for want of memory perhaps
                    channel.close()
                except BaseException:
                    channel.close()
                    raise

    def leaf(self) -> Leaf:
        """A handle for one episode; its process is forked by the first request."""
        with self.lock:
            self.check_alive()
            leaf = Leaf(self, next(self._ids))
            self.leaves.add(leaf)
            self.episodes += 1
            return leaf

    def part(self, session: int, seconds: float) -> None:
        """Note that an episode is over: its process must be gone after so many seconds and the grace."""
        with self.lock:
            if self.dead:
                return
            self._parting[session] = time.monotonic() + seconds + GRACE_SECONDS
            self._look_back_later()

    def _look_back_later(self) -> None:
        if self._look_back is None and self._parting:
            wait = max(0.05, min(self._parting.values()) - time.monotonic())
            self._look_back = threading.Timer(wait, self._look_for_survivors)
            self._look_back.daemon = True
            self._look_back.start()

    def _look_for_survivors(self) -> None:
        """End the sandbox when the process of an episode that is over is still there."""
        with self.lock:
            self._look_back = None
            if self.dead:
                return
            try:
                alive = self.control("alive", self.config.deadline_seconds)
            except SandboxError:
                return  # it has failed, and was taken out of use
            now = time.monotonic()
            if type(alive) is not list or any(type(one) is not int for one in alive):
                survived = True
            else:
                self._parting = {s: until for s, until in self._parting.items() if s in set(alive)}
                survived = any(until < now for until in self._parting.values())
            if not survived:
                self._look_back_later()
                return
        self.fail()


def died(reason: str) -> Died:
    """The exception for an ended process."""
    if reason == "fork":
        return Died(
            "the sandbox could not start another process and was killed: have fewer episodes at once", reason
        )
    story = {"oom": "ran out of memory", "unknown": "ended"}.get(reason, f"ended with {reason}")
    return Died(
        f"the sandboxed process {story} in the middle of a request, and its sandbox was killed", reason
    )


def interpret(kind: str, value: Any) -> Any:
    """The result of a reply, or its failure raised."""
    if kind == "ok":
        return value
    if kind == "environment":
        raise EnvironmentFault(f"the environment failed {value}")
    raise ProtocolError(f"the sandbox refused a request: {kind}: {value}"[:500])


class Leaf:
    """The host's handle on one forked process; one request in flight."""

    def __init__(self, sandbox: Sandbox, session: int) -> None:
        self.sandbox = sandbox
        self.session = session
        self.channel: SocketChannel | None = None
        self._ids = itertools.count(sandbox.conditions.first_request)
        self._request: tuple[int, bytes, float] | None = None
        self._started = False
        self._closed = False

    def ask(self, op: str, **fields: Any) -> Any:
        """One request and its reply.

        Raises:
            SandboxError: As its type says; the episode is over.
        """
        self.begin(op, **fields)
        return self.finish()

    def begin(self, op: str, **fields: Any) -> None:
        """Send a request, so that several leaves can work at the same time; `finish` takes the reply."""
        sandbox = self.sandbox
        request_id = next(self._ids)  # an episode's own: it is not told how many there were in the sandbox
        relayed = {} if sandbox.direct else {"session": self.session}
        line = encode({"id": request_id, "op": op, **relayed, **fields})
        deadline = time.monotonic() + sandbox.config.deadline_seconds
        self._request = request_id, line, deadline
        if not sandbox.direct:
            return
        try:
            sandbox.check_alive()
            if self.channel is not None:
                # Bytes that came unasked are a process that talks out of turn: its next reply cannot be
                # trusted.
                self.channel.quiet()
                self.channel.send(line, deadline)
                return
            self.session, self.channel = sandbox.claim(deadline)
            self.channel.send(line, deadline)
            with sandbox.lock:
                if not sandbox._ordered:
                    sandbox.order(deadline)  # the next one is made ready while this one works
        except (Closed, SandboxError) as error:
            raise self._over(error) from None

    def finish(self) -> Any:
        """The result of the request that `begin` has sent."""
        if self._request is None:
            raise RuntimeError("finish() without begin()")
        request_id, line, deadline = self._request
        self._request = None
        sandbox = self.sandbox
        try:
            if self.channel is not None:
                return interpret(*open_reply(self.channel.receive(deadline), request_id))
            with sandbox.lock:
                sandbox.check_alive()
                sandbox.channel.quiet()
                sandbox.channel.send(line, deadline)
                self._started = True
                reply = sandbox.channel.receive(deadline)
            if reply.startswith(FROM_LEAF):
                return interpret(*open_reply(reply.removeprefix(FROM_LEAF), request_id))
            return sandbox.account(*open_reply(reply, request_id))
        except (Closed, SandboxError) as error:
            raise self._over(error) from None

    def _over(self, error: Closed | SandboxError) -> SandboxError:
        explained = self.sandbox.explain(error, self.session)
        self.close()
        return explained

    def hang_up(self) -> None:
        """Wake whoever waits for this leaf; called from other threads, so the descriptor stays open."""
        if self.channel is not None:
            self.channel.hang_up()

    def close(self) -> None:
        """End the episode's process; never blocks on it. One that does not go is noticed later."""
        if self._closed:
            return
        self._closed = True
        begun = self.channel is not None or self._started
        if self.channel is not None:
            self.channel.close()
        elif self._started and not self.sandbox.dead:
            self._end()
        with self.sandbox.lock:
            self.sandbox.leaves.discard(self)
            if begun:  # one that was given up in the middle of a request may still be busy with it
                left = self._request[2] - time.monotonic() if self._request is not None else 0.0
                self.sandbox.part(self.session, max(0.0, left))

    def _end(self) -> None:
        """Without a stream of its own a leaf must be told to go; one that has gone already is no fault."""
        sandbox = self.sandbox
        request_id = next(self._ids)
        deadline = time.monotonic() + sandbox.config.deadline_seconds
        try:
            with sandbox.lock:
                sandbox.channel.quiet()
                sandbox.channel.send(
                    encode({"id": request_id, "op": "end", "session": self.session}), deadline
                )
                sandbox.account(*open_reply(sandbox.channel.receive(deadline), request_id))
        except (Closed, SandboxError) as error:
            sandbox.explain(error, None)
