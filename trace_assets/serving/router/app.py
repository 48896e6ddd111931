"""The endpoint: `/v1/chat/completions`, `/v1/models` and `/health`, in front of a model server."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from trace_assets.errors import InputError, Unavailable, require_extra
from trace_assets.routing.router import UNNEEDED_COST
from trace_assets.serving.release.manifest import Release, checked, read_release
from trace_assets.serving.router.asked import ROUTED, WrongModel, json_object, read_request, with_model
from trace_assets.serving.router.decisions import (
    Decider,
    Decision,
    Decisions,
    FittedDecider,
    Refused,
    ServedLabels,
)
from trace_assets.serving.router.limits import Bodies, TooMuch, check_request
from trace_assets.serving.router.upstream import Upstream, handed_back, handed_on

HEALTH_SECONDS, LIST_SECONDS = 5.0, 30.0
"""For the whole answer of the server to a question of the router's own."""


class RouterProxy:
    """The handlers; `app` makes the ASGI application.

    A request for the model `routed` goes to the model of the decision on its conversation; every other
    request goes to the server unchanged. Bodies come back byte for byte, whole or as a stream.
    """

    def __init__(self, upstream: Upstream, decisions: Decisions, names: Collection[str] = ()) -> None:
        """Prepare the handlers.

        Args:
            upstream: The model server.
            decisions: Who decides, and what is remembered.
            names: Host names that the endpoint is known by, beside addresses; see `limits.is_known`.
        """
        self.upstream, self.decisions, self.names = upstream, decisions, names
        self._bodies = Bodies()

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
            middleware=[Middleware(_Guard, names=self.names)],
            lifespan=closing,
        )

    async def chat(self, request: Request) -> Response:
        """Send a conversation on."""
        try:
            content = await self._bodies.read(request)
        except TooMuch as error:
            return _refusal(error)
        answering = asyncio.create_task(self._chat(content, handed_on(request.headers.items())))
        leaving = asyncio.create_task(_left(request))
        try:
            await asyncio.wait((answering, leaving), return_when=asyncio.FIRST_COMPLETED)
            if answering.done():
                return answering.result()
            # Nobody waits any more: the server's work ends with the connection to it, and the body is let go.
            answering.cancel()
            await asyncio.wait((answering,))
            return Response(status_code=499)
        finally:
            leaving.cancel()
            answering.cancel()
            self._bodies.give_back(len(content))

    async def _chat(self, content: bytes, headers: dict[str, str]) -> Response:
        told: dict[str, str] = {}
        try:
            asked = read_request(content)
            wrong: WrongModel | None = None
            if asked.opening is not None:
                decision = await self.decisions.of(asked.opening, headers, asked.turns)
                # Read once more, rather than held while others are decided on.
                content, told = with_model(content, decision.model), self._told(decision)
                wrong = WrongModel(decision.model, self.decisions.models)
            url = f"{self.upstream.base_url}/chat/completions"
            answer = await self.upstream.send("POST", url, headers, content)
            back = [pair for pair in handed_back(answer) if pair[0] not in told] + [*told.items()]
            if _is_stream(answer.headers.get("content-type", ""), asked.streams):
                parts = self.upstream.stream(answer, _stream_error, asked.choices, wrong)
                return _with_headers(StreamingResponse(parts, answer.status_code), back)
            return _with_headers(
                Response(await self.upstream.read_object(answer, wrong), answer.status_code), back
            )
        except InputError as error:
            return _error(400, str(error), "invalid_request_error")
        except Refused as refused:
            return Response(refused.body, refused.status, {"content-type": refused.content_type})
        except Unavailable as error:
            return _error(502, str(error), "upstream_error", told)

    async def models(self, request: Request) -> Response:
        """List `routed` and what the server lists."""
        try:
            answer, content = await self.upstream.ask(
                "GET", f"{self.upstream.base_url}/models", _plain(request), seconds=LIST_SECONDS
            )
            listed = json_object(content)
        except (Unavailable, InputError) as error:
            return _error(502, str(error), "upstream_error")
        if answer.status_code != 200 or listed is None or not isinstance(listed.get("data"), list):
            return _with_headers(Response(content, answer.status_code), handed_back(answer))
        own = {"id": ROUTED, "object": "model", "created": 0, "owned_by": "trace"}
        return JSONResponse({**listed, "object": "list", "data": [own, *listed["data"]]})

    async def health(self, request: Request) -> Response:
        """Say whether conversations can be routed: the server answers and serves every choice's model."""
        decider = self.decisions.decider
        about = {"router": decider.name, "version": decider.version, "choices": list(decider.choices)}
        problem = ""
        try:
            answer, content = await self.upstream.ask(
                "GET", f"{self.upstream.base_url}/models", _plain(request), seconds=HEALTH_SECONDS
            )
            listed = json_object(content) or {}
            if answer.status_code == 200:
                rows = listed.get("data")
                rows = rows if isinstance(rows, list) else []
                served = {str(row.get("id")) for row in rows if isinstance(row, dict)}
                missing = sorted(set(self.decisions.models.values()) - served)
                problem = f"the model server does not serve {', '.join(missing)}." if missing else ""
            elif answer.status_code not in (401, 403):  # alive; what it serves needs a key to be seen
                problem = f"the model server answers with status {answer.status_code}."
        except (Unavailable, InputError) as error:
            problem = str(error)
        state = {"status": "unwell", "problem": problem} if problem else {"status": "ok"}
        return JSONResponse({**state, **about}, 503 if problem else 200)

    def _told(self, decision: Decision) -> dict[str, str]:
        decider = self.decisions.decider
        return {
            "x-trace-choice": quote(decision.choice),
            "x-trace-model": quote(decision.model, safe="/@"),
            "x-trace-probability": f"{decision.probability:.6f}",
            "x-trace-router": quote(f"{decider.name}@{decider.version}", safe="/@"),
            "x-trace-opening": decision.opening,
        }


async def _left(request: Request) -> None:
    """Wait until the client has gone; its request must have been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _plain(request: Request) -> dict[str, str]:
    """Return a question's headers: the key alone, and no encoding, since the answer is read here."""
    key = request.headers.get("authorization")
    return {"accept-encoding": "identity", **({"authorization": key} if key else {})}


def _is_stream(content_type: str, asked: bool) -> bool:
    """Tell whether an answer is handed on as it comes, also where the server does not say what it is."""
    kind = content_type.lower()
    return kind.startswith("text/event-stream") or (asked and "json" not in kind)


class _Guard:
    """Turns away what is not meant for this endpoint, before anything of it is read."""

    def __init__(self, app: ASGIApp, names: Collection[str]) -> None:
        self._app, self._names = app, names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                check_request(Headers(scope=scope), self._names)
            except TooMuch as error:
                await _refusal(error)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _refusal(error: TooMuch) -> Response:
    # The rest of what was not taken is not read either.
    headers = {"connection": "close", **({"retry-after": "1"} if error.status == 503 else {})}
    kind = "overloaded_error" if error.status == 503 else "invalid_request_error"
    return _error(error.status, str(error), kind, headers)


def _error_body(status: int, message: str, kind: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": status}}


def _error(status: int, message: str, kind: str, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse(_error_body(status, message, kind), status, headers)


def _stream_error(error: Unavailable) -> bytes:
    # An event that was not sent off is ended first.
    return b"\n\ndata: " + json.dumps(_error_body(502, str(error), "upstream_error")).encode() + b"\n\n"


def _with_headers(response: Response, headers: Iterable[tuple[str, str]]) -> Response:
    for name, value in headers:  # some may be there several times (Set-Cookie)
        response.headers.append(name, value)
    return response


async def _no_route(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    message = (
        f"{request.method} {request.url.path} is not served here; there are POST /v1/chat/completions, "
        "GET /v1/models and GET /health."
    )
    allowed = error.headers if isinstance(error, HTTPException) and error.headers else {}
    return _error(status, message, "invalid_request_error", {**allowed})


async def _unexpected(request: Request, error: Exception) -> Response:
    """Answer in the form that clients read; the traceback goes to the log."""
    message = f"the router failed ({type(error).__name__}); its log says where."
    return _error(500, message, "router_error")


# A proxy's decider and models, from a release or from a study.


RouterName = Literal["classifier", "label_logits"]


@dataclass(frozen=True)
class ServedRouting:
    """What a proxy is told.

    Attributes:
        router: Which router decides.
        options: Choice -> the line that describes it, `none` last.
        models: Choice -> name on the server; `none` is the base model, names with `+` between them a sum.
        fitted: Folder of the classifier.
        base: Folder of the base model, which the classifier reads.
        unneeded_cost: What the router was fitted with.
        set_cost: What decides which adapters act together; None takes that.
    """

    router: RouterName
    options: Mapping[str, str]
    models: Mapping[str, str]
    fitted: Path
    base: Path | None
    unneeded_cost: float = UNNEEDED_COST
    set_cost: float | None = None


def routing_of_release(folder: Path, router: RouterName | None = None) -> ServedRouting:
    """Read what a release says of routing; its digests are compared.

    Args:
        folder: The release.
        router: Which router; None takes the release's own.

    Raises:
        InputError: The folder is no release, or a file is not the one that was released.
    """
    release = read_release(folder)
    for name in ("router/router.json", "router/weights.npz"):
        checked(folder, name)
    return ServedRouting(
        router=router or release.router.router,
        options=release.router.options,
        models=release.models,
        fitted=folder / "router",
        base=_base(folder, release),
        unneeded_cost=release.router.unneeded_cost,
        set_cost=release.choice.set_cost,
    )


def _base(folder: Path, release: Release) -> Path | None:
    named = os.environ.get("BASE_MODEL")
    if named:
        return Path(named)
    return folder / release.base.folder if release.base.folder else None


def open_decisions(routing: ServedRouting, upstream: Upstream, record: Path | None) -> Decisions:
    """Open the router with all that decides beside it.

    Args:
        routing: Of a release or a study.
        upstream: The model server, which the router `label_logits` asks.
        record: File for one line of JSON a routed request; None records nothing.

    Raises:
        InputError: The base model's folder is not known or is another model, or the router is not whole.
        Unavailable: The train extra is missing, which the classifier needs.
    """
    return Decisions(
        open_decider(routing, upstream),
        routing.models,
        record,
        unneeded_cost=routing.unneeded_cost,
        set_cost=routing.set_cost,
    )


def open_decider(routing: ServedRouting, upstream: Upstream) -> Decider:
    """Open the router.

    Raises:
        InputError: The base model's folder is not known or is another model, or the router is not whole.
        Unavailable: The train extra is missing, which the classifier needs.
    """
    if routing.router == "label_logits":
        return ServedLabels(upstream, routing.models["none"], routing.options)
    require_extra("torch", "train", "the router 'classifier'")
    from trace_assets.routing.classifier import load_classifier

    if routing.base is None:
        raise InputError(
            "the classifier reads the base model, which is not in this release: set BASE_MODEL to "
            "its folder, or use --router label_logits."
        )
    return FittedDecider(load_classifier(routing.fitted, routing.base))
