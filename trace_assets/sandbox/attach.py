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
        self._header = b""
        self._left = 0  # bytes of the current frame that have not come yet
        self._wanted = False  # whether that frame is of stdout
        self._parts: list[bytes] = []
        self._size = 0

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
        ended = False
        while not ended:
            if self._size > MAX_LINE:
                raise TooLarge(f"the sandbox sent more than {MAX_LINE} bytes without an end of line")
            ended = self._read(deadline)
        line = split_line(b"".join(self._parts))
        self._parts, self._size = [], 0
        return line

    def _read(self, deadline: float) -> bool:
        """One read from the daemon, its frames taken apart; whether a newline was in it."""
        try:
            self._sock.settimeout(left(deadline))
            data = self._sock.recv(65536)
        except TimeoutError:
            left(deadline)
            return False
        except OSError as error:
            raise Closed from error
        if not data:
            raise Closed
        ended = False
        while data:
            if self._left == 0:
                data = self._begin_frame(data)
                continue
            part, data = data[: self._left], data[self._left :]
            self._left -= len(part)
            if self._wanted:
                self._parts.append(part)
                self._size += len(part)
                ended = ended or b"\n" in part
        return ended

    def _begin_frame(self, data: bytes) -> bytes:
        """Take the header of the next frame, or what has come of it, off the front of `data`."""
        missing = _HEADER.size - len(self._header)
        self._header += data[:missing]
        if len(self._header) == _HEADER.size:
            kind, self._left = _HEADER.unpack(self._header)
            self._header, self._wanted = b"", kind == 1
            if kind not in (1, 2):
                raise ProtocolError("the stream from Docker is not the one this program knows")
        return data[missing:]

    def quiet(self) -> None:
        """See `Channel`."""
        if self._parts or self._header or self._left:
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

    def hang_up(self) -> None:
        """See `Channel`."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """See `Channel`."""
        self.hang_up()
        for one in (self._sock, self._wrapper):
            with contextlib.suppress(OSError):
                one.close()
