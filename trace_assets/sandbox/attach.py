"""A container's stdin and stdout over the Docker API, as one stream of lines."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
from typing import Any, Self

from trace_assets.sandbox.channel import Closed, left, split_line
from trace_assets.sandbox.faults import ProtocolError, Timeout, TooLarge
from trace_assets.sandbox.protocol import MAX_LINE

_HEADER = struct.Struct(">BxxxL")


class AttachChannel:
    """Docker's attach stream: frames of stdout (1) and stderr (2) behind an 8-byte header each.

    Args:
        wrapper: What the SDK returns; it must be closed as well as the socket inside it, or a later
            removal of the container can hang for a minute.
        sock: The connected socket itself.
    """

    def __init__(self, wrapper: Any, sock: Any) -> None:
        self._wrapper, self._sock = wrapper, sock
        self._raw = b""
        self._lines = b""

    @classmethod
    def open(cls, client: Any, container_id: str) -> Self:
        """Attach to a container that was created and not yet started."""
        params = {"stdin": 1, "stdout": 1, "stderr": 0, "stream": 1, "logs": 0}
        wrapper = client.api.attach_socket(container_id, params)
        return cls(wrapper, getattr(wrapper, "_sock", wrapper))

    def send(self, data: bytes, deadline: float, fd: int | None = None) -> None:
        """See `Channel`; a descriptor cannot be sent this way."""
        if fd is not None:
            raise ValueError("an attached stream carries no descriptors")
        try:
            self._sock.settimeout(left(deadline))
            self._sock.sendall(data)
        except TimeoutError:
            raise Timeout("the sandbox did not read its request before the deadline and was killed") from None
        except OSError as error:
            raise Closed from error

    def receive(self, deadline: float) -> bytes:
        """See `Channel`."""
        while b"\n" not in self._lines:
            if len(self._lines) > MAX_LINE:
                raise TooLarge(f"the sandbox sent more than {MAX_LINE} bytes without an end of line")
            self._read(deadline)
        line, self._lines = split_line(self._lines), b""
        return line

    def _read(self, deadline: float) -> None:
        """One read from the daemon, its complete frames moved to the lines."""
        try:
            self._sock.settimeout(left(deadline))
            data = self._sock.recv(65536)
        except TimeoutError:
            left(deadline)
            return
        except OSError as error:
            raise Closed from error
        if not data:
            raise Closed
        self._raw += data
        while len(self._raw) >= _HEADER.size:
            kind, size = _HEADER.unpack_from(self._raw)
            if kind not in (1, 2):
                raise ProtocolError("the stream from Docker is not the one this program knows")
            end = _HEADER.size + size
            if len(self._raw) < end:
                return
            if kind == 1:
                self._lines += self._raw[_HEADER.size : end]
            self._raw = self._raw[end:]

    def quiet(self) -> None:
        """See `Channel`."""
        if self._raw or self._lines:
            raise ProtocolError("the sandbox sent bytes that nobody asked for")
        if select.select([self._sock], [], [], 0)[0]:
            try:
                self._sock.settimeout(0.0)
                data = self._sock.recv(65536)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                raise Closed from error
            if not data:
                raise Closed
            raise ProtocolError("the sandbox sent bytes that nobody asked for")

    def close(self) -> None:
        """See `Channel`."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        for one in (self._sock, self._wrapper):
            with contextlib.suppress(OSError):
                one.close()
