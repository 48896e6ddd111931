"""An S3 server of this machine (moto's) that does what real ones do at times: fails, loses answers."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

pytest.importorskip("obstore", reason="the extra `objects` (obstore) is not installed")
pytest.importorskip("moto", reason="moto, which plays the S3 server, is not installed")

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

BUCKET = "bucket"
KEY, SECRET = "AKIAOFTHETESTS00", "secret-of-the-tests-0123456789"
CONDITIONS = ("HTTP_IF_NONE_MATCH", "HTTP_IF_MATCH")

Fault = Callable[[dict[str, Any]], str]
"""Is given a request and says what is done with it: see `S3Server.fault`."""


class S3Server:
    """The server.

    Attributes:
        url: Its address.
        requests: Method and path of every request so far.
        fault: Says of each request what is done with it: nothing (it is answered), `503` or `409` (it is
            refused so), `lost` (it is carried out and never answered), `unconditional` (its condition is
            ignored), `slow` (it is answered after a while).
    """

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.fault: Fault = lambda request: ""
        logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
        self._app = DomainDispatcherApplication(create_backend_app)
        self._answering = threading.Lock()
        """Moto compares a condition and puts the object in two steps, a real store in one."""
        self._server = make_server("127.0.0.1", 0, self._answer, threaded=True)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def puts(self, part: str = "") -> list[str]:
        """Return the paths that were written to, of those that hold a text."""
        return [one.partition(" ")[2] for one in self.requests if one.startswith("PUT ") and part in one]

    def _answer(self, request: dict[str, Any], start: Any) -> Any:
        self.requests.append(f"{request['REQUEST_METHOD']} {request['PATH_INFO']}")
        what = self.fault(request)
        if what in ("503", "409"):
            reason = {"503": "Service Unavailable", "409": "Conflict"}[what]
            code = {"503": "SlowDown", "409": "ConditionalRequestConflict"}[what]
            request["wsgi.input"].read(int(request.get("CONTENT_LENGTH") or 0))
            start(f"{what} {reason}", [("Content-Type", "application/xml")])
            return [f"<Error><Code>{code}</Code><Message>later</Message></Error>".encode()]
        if what == "unconditional":
            for name in CONDITIONS:
                request.pop(name, None)
        if what == "slow":
            time.sleep(0.3)
        with self._answering:
            answer = self._app(request, start)
        if what == "lost":
            b"".join(answer)
            request["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
        return answer


@contextmanager
def serving() -> Iterator[S3Server]:
    """Serve one empty bucket, and name it and credentials for it in the environment."""
    import boto3
    import httpx

    server = S3Server()
    httpx.post(f"{server.url}/moto-api/reset").raise_for_status()  # what it holds is the whole process's
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", KEY)
        patch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        patch.setenv("AWS_REGION", "us-east-1")
        patch.setenv("AWS_ENDPOINT_URL", server.url)
        client = boto3.client("s3", endpoint_url=server.url, region_name="us-east-1")
        client.create_bucket(Bucket=BUCKET)
        try:
            yield server
        finally:
            server.close()


def first(what: str, method: str, part: str, times: int = 1) -> Fault:
    """Return a fault of the first requests of a method to a path that holds a text."""
    left = [times]

    def fault(request: dict[str, Any]) -> str:
        if left[0] and request["REQUEST_METHOD"] == method and part in request["PATH_INFO"]:
            left[0] -= 1
            return what
        return ""

    return fault
