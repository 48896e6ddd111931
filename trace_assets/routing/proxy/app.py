"""The endpoint: `/v1/chat/completions`, `/v1/models` and `/health`, in front of a model server."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from trace_assets.errors import InputError, Unavailable
from trace_assets.routing.proxy.deciders import Refused
from trace_assets.routing.proxy.decisions import Decision, Decisions
from trace_assets.routing.proxy.opening import conversation_opening, turns_before
from trace_assets.routing.proxy.upstream import Upstream, handed_back, handed_on

ROUTED = "routed"
"""The model that a request names to be routed."""
HEALTH_SECONDS = 5.0


class RouterProxy:
    """The handlers; `app` makes the ASGI application.

    A request for the model `routed` goes to the model of the decision on its conversation; every other
    request goes to the server unchanged. Bodies come back byte for byte, whole or as a stream.
    """

    def __init__(self, upstream: Upstream, decisions: Decisions) -> None:
        self.upstream, self.decisions = upstream, decisions

    def app(self) -> Starlette:
        """Return the ASGI application; the server's connections are closed when it ends."""

        @asynccontextmanager
        async def closing(app: Starlette) -> AsyncIterator[None]:
            yield
            await self.upstream.client.aclose()

        return Starlette(
            routes=[
                Route("/v1/chat/completions", self.chat, methods=["POST"]),
                Route("/v1/models", self.models, methods=["GET"]),
                Route("/health", self.health, methods=["GET"]),
            ],
            exception_handlers={HTTPException: _no_route, Exception: _unexpected},
            lifespan=closing,
        )

    async def chat(self, request: Request) -> Response:
        """Send a conversation on."""
        content, headers = await request.body(), handed_on(request.headers.items())
        body, told = _object(content), {}
        try:
            if body is not None and body.get("model") == ROUTED:
                decision = await self.decisions.of(conversation_opening(body), headers, turns_before(body))
                content, told = json.dumps({**body, "model": decision.model}).encode(), self._told(decision)
            url = f"{self.upstream.base_url}/chat/completions"
            answer = await self.upstream.send("POST", url, headers, content)
            back = {**handed_back(answer), **told}
            if answer.headers.get("content-type", "").startswith("text/event-stream"):
                parts = self.upstream.stream(answer, _broken_stream(self.upstream))
                return StreamingResponse(parts, answer.status_code, back)
            return Response(await self.upstream.read(answer), answer.status_code, back)
        except InputError as error:
            return _error(400, str(error), "invalid_request_error")
        except Refused as refused:
            return Response(refused.body, refused.status, {"content-type": refused.content_type})
        except Unavailable as error:
            return _error(502, str(error), "upstream_error", told)

    async def models(self, request: Request) -> Response:
        """List `routed` and what the server lists."""
        try:
            answer = await self.upstream.send(
                "GET", f"{self.upstream.base_url}/models", _plain(request), seconds=30.0
            )
            content = await self.upstream.read(answer)
        except Unavailable as error:
            return _error(502, str(error), "upstream_error")
        listed = _object(content)
        if answer.status_code != 200 or listed is None or not isinstance(listed.get("data"), list):
            return Response(content, answer.status_code, handed_back(answer))
        own = {"id": ROUTED, "object": "model", "created": 0, "owned_by": "trace"}
        return JSONResponse({**listed, "object": "list", "data": [own, *listed["data"]]})

    async def health(self, request: Request) -> Response:
        """Say whether conversations can be routed: the server answers and serves every choice's model."""
        decider = self.decisions.decider
        about = {"router": decider.name, "version": decider.version, "choices": list(decider.choices)}
        problem = ""
        try:
            answer = await self.upstream.send(
                "GET", f"{self.upstream.base_url}/models", _plain(request), seconds=HEALTH_SECONDS
            )
            listed = _object(await self.upstream.read(answer)) or {}
            if answer.status_code == 200:
                rows = listed.get("data")
                served = {row.get("id") for row in rows if isinstance(row, dict)} if rows else set()
                missing = sorted(set(self.decisions.models.values()) - served)
                problem = f"the model server does not serve {', '.join(missing)}." if missing else ""
            elif answer.status_code not in (401, 403):  # alive; what it serves needs a key to be seen
                problem = f"the model server answers with status {answer.status_code}."
        except Unavailable as error:
            problem = str(error)
        state = {"status": "unwell", "problem": problem} if problem else {"status": "ok"}
        return JSONResponse({**state, **about}, 503 if problem else 200)

    def _told(self, decision: Decision) -> dict[str, str]:
        decider = self.decisions.decider
        return {
            "x-trace-choice": quote(decision.choice),
            "x-trace-model": quote(decision.model, safe="/@"),
            "x-trace-probability": f"{decision.probabilities[decision.choice]:.6f}",
            "x-trace-router": quote(f"{decider.name}@{decider.version}", safe="/@"),
            "x-trace-opening": decision.opening,
        }


def _plain(request: Request) -> dict[str, str]:
    """Return a question's headers: the key alone, and no encoding, since the answer is read here."""
    key = request.headers.get("authorization")
    return {"accept-encoding": "identity", **({"authorization": key} if key else {})}


def _object(content: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _error_body(status: int, message: str, kind: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": status}}


def _error(status: int, message: str, kind: str, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse(_error_body(status, message, kind), status, headers)


def _broken_stream(upstream: Upstream) -> bytes:
    message = f"the model server at {upstream.base_url} broke the stream off; what came before is not whole."
    # A stream that was cut inside a line is ended first.
    return b"\n\ndata: " + json.dumps(_error_body(502, message, "upstream_error")).encode() + b"\n\n"


async def _no_route(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    message = (
        f"{request.method} {request.url.path} is not served here; there are POST /v1/chat/completions, "
        "GET /v1/models and GET /health."
    )
    return _error(status, message, "invalid_request_error")


async def _unexpected(request: Request, error: Exception) -> Response:
    """Answer in the form that clients read; the traceback goes to the log."""
    message = f"the router failed ({type(error).__name__}); its log says where."
    return _error(500, message, "router_error")
