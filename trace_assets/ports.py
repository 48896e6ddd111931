"""Where a server of our own can listen."""

from __future__ import annotations

import socket


def free_port() -> int:
    """Return a port of 127.0.0.1 that nothing listens on now; somebody else may take it before it is used."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
