"""A server on a bare socket: what it says on a connection is for those who derive from it."""

from __future__ import annotations

import re
import socket
import threading
from abc import ABC, abstractmethod
from contextlib import suppress


class RawServer(ABC):
    """Takes connections, each in a thread of its own.

    Args:
        backlog: Connections that may wait.
    """

    def __init__(self, backlog: int) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=backlog)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._take, args=(client,), daemon=True).start()

    def _take(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            self.speak(client)

    @abstractmethod
    def speak(self, client: socket.socket) -> None:
        """Say what is to be said on a connection, which is closed then."""

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # else the thread in `accept` holds the port
        self._listener.close()


def whole_request(client: socket.socket) -> bytes:
    """Read a request to its end: a socket that is closed over unread bytes resets the connection.

    What was said on it is then lost.
    """
    came = client.recv(1 << 20)
    while came and not _ended(came):
        more = client.recv(1 << 20)
        if not more:
            break
        came += more
    return came


def _ended(request: bytes) -> bool:
    head, gap, body = request.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
    return bool(gap) and len(body) >= (int(length[1]) if length else 0)
