"""Where a server of our own can listen."""

from __future__ import annotations

import socket
from ipaddress import ip_address
from urllib.parse import urlsplit


def free_port() -> int:
    """Return a port of 127.0.0.1 that nothing listens on now; somebody else may take it before it is used."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def through_proxies(url: str) -> bool:
    """Return whether `HTTP_PROXY` and the like hold for an address: for all but this machine's own.

    No proxy reaches a server that listens here alone, and `NO_PROXY` seldom says so; browsers and Go make the
    same exception. An encrypted connection takes everything from the environment: httpx knows only all or
    nothing of it, and `SSL_CERT_FILE` is there as well.

    >>> [through_proxies(f"http://{host}:8000/v1") for host in ("127.0.0.1", "localhost", "[::1]", "0.0.0.0")]
    [False, False, False, False]
    >>> [through_proxies(url) for url in ("http://a.com/v1", "https://localhost/v1", "localhost:8000", "http://[")]
    [True, True, True, True]
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        if parts.scheme == "https":
            return True
        if host == "localhost" or host.endswith(".localhost"):
            return False
        address = ip_address(host)
    except ValueError:
        return True
    return not (address.is_loopback or address.is_unspecified)
