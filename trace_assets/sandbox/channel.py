"""Lines of bytes to and from a sandbox, each with an absolute deadline."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import time
from typing import Protocol

from trace_assets.sandbox.errors import ProtocolError, Timeout, TooLarge
from trace_assets.sandbox.protocol import MAX_LINE


class Closed(Exception):
    """The other side has closed the stream; the caller finds out why."""


class Channel(Protocol):
    """One stream with at most one request in flight."""

    def send(self, data: bytes, deadline: float, fd: int | None = None) -> None:
        """Send all of `data`, and a descriptor along with it where the stream can carry one."""

    def receive(self, deadline: float) -> bytes:
        """The next line without its newline."""

    def quiet(self) -> None:
        """Make sure that nothing has arrived unasked."""

    def hang_up(self) -> None:
        """End the conversation and wake whoever waits for it: safe from another thread."""

    def close(self) -> None:
        """Let go of the stream; never blocks and may be called twice."""


def left(deadline: float) -> float:
    """Seconds until `deadline` (of `time.monotonic`).

    Raises:
        Timeout: It has passed.
    """
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise Timeout("the sandbox did not answer before its deadline and was killed")
    return seconds


def split_line(data: bytes) -> bytes:
    """The one line in `data`, which must end there."""
    end = data.index(b"\n")
    if end != len(data) - 1:
        raise ProtocolError("the sandbox sent more than the one reply it was asked for")
    return data[:end]


_EAGER_SECONDS = 100e-6
"""How long an answer is looked for before the thread is put to sleep, on a channel that lately answered as
fast: waking a sleeping thread on another core costs more than most steps. The core is offered to others."""


class SocketChannel:
    """A connected Unix socket."""

    def __init__(self, sock: socket.socket) -> None:
        self._eager = False
        sock.setblocking(False)  # once, with `poll` for the deadlines: half the system calls of `settimeout`
        self.sock = sock
        self._poll = select.poll()
        self._poll.register(sock.fileno(), select.POLLIN)

    def send(self, data: bytes, deadline: float, fd: int | None = None) -> None:
        """See `Channel`."""
        while data:
            try:
                if fd is None:
                    data = data[self.sock.send(data) :]
                else:
                    data, fd = data[socket.send_fds(self.sock, [data], [fd]) :], None
            except BlockingIOError:
                self._wait_to_send(deadline)
            except OSError as error:
                raise Closed from error

    def _wait_to_send(self, deadline: float) -> None:
        poll = select.poll()
        poll.register(self.sock.fileno(), select.POLLOUT)
        if not poll.poll(left(deadline) * 1000):
            raise Timeout("the sandbox did not read its request before the deadline and was killed")

    def receive(self, deadline: float) -> bytes:
        """See `Channel`."""
        began = time.monotonic()
        data = self._look(began + _EAGER_SECONDS) if self._eager else b""
        if not data:
            data = self._wait(deadline)
            self._eager = time.monotonic() - began < 2 * _EAGER_SECONDS
        if data[-1] == 10 and data.count(b"\n") == 1:  # the whole line at once, as it mostly comes
            return data[:-1]
        chunks, size = [data], len(data)
        while b"\n" not in data:
            if size > MAX_LINE:
                raise TooLarge(f"the sandbox sent more than {MAX_LINE} bytes without an end of line")
            data = self._wait(deadline)
            chunks.append(data)
            size += len(data)
        return split_line(b"".join(chunks))

    def _look(self, until: float) -> bytes:
        """What arrives before `until`, without sleeping; nothing if nothing does."""
        while (data := self._read()) is None:
            if time.monotonic() > until:
                return b""
            os.sched_yield()
        return data

    def _wait(self, deadline: float) -> bytes:
        """The next bytes, however long they take."""
        while True:
            if self._poll.poll(left(deadline) * 1000) and (data := self._read()) is not None:
                return data

    def _read(self) -> bytes | None:
        """What has arrived; None if nothing has."""
        try:
            data = self.sock.recv(65536)
        except BlockingIOError:
            return None
        except OSError as error:
            raise Closed from error
        if not data:
            raise Closed
        return data

    def quiet(self) -> None:
        """See `Channel`."""
        if self._poll.poll(0):
            try:
                if not self.sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT):
                    raise Closed
            except OSError as error:
                raise Closed from error
            raise ProtocolError("the sandbox sent bytes that nobody asked for")

    def hang_up(self) -> None:
        """End the conversation for both sides and keep the descriptor: safe from another thread."""
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """See `Channel`."""
        self.sock.close()
