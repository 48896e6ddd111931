"""A release's routing inside LiteLLM's proxy, in the place of `trace router`.

Nothing here imports LiteLLM: it loads `litellm/trace_routing.py` of a release, whose hook asks this.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from trace_assets.errors import InputError, TraceError
from trace_assets.serving.router.app import RouterName, open_decisions, routing_of_release
from trace_assets.serving.router.asked import ROUTED, conversation_opening, turns_before
from trace_assets.serving.router.decisions import Refused
from trace_assets.serving.router.upstream import Upstream

UPSTREAM, UPSTREAM_KEY, ROUTER = "TRACE_UPSTREAM", "TRACE_UPSTREAM_KEY", "TRACE_ROUTER"
"""Variables: the model server's address, its key where it asks for one, `label_logits` or `classifier`."""


class NotRouted(Exception):
    """A request that cannot be routed.

    Attributes:
        status: HTTP status for the client.
    """

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


class LiteLLMRouting:
    """Says which model of the server a chat request goes to.

    Args:
        release: The release's folder; its digests are compared.
        upstream: The model server behind LiteLLM, which the router `label_logits` asks.
        router: Which router decides; None takes the release's own.
        key: Of the model server; empty where it asks for none.
        record: File for one line of JSON a routed request, as of `trace router`; None records nothing.

    Raises:
        InputError: The folder is no release, or is not as it was released.
        Unavailable: The router needs a package that is not installed.
    """

    def __init__(
        self,
        release: Path,
        upstream: str,
        router: RouterName | None = None,
        key: str = "",
        record: Path | None = None,
    ) -> None:
        routing = routing_of_release(release, router)
        self._decisions = open_decisions(routing, Upstream(upstream), record)
        self._headers = {"authorization": f"Bearer {key}"} if key else {}

    @classmethod
    def from_environment(cls, release: Path) -> LiteLLMRouting:
        """Open a release with the address, key and router that the environment's variables name.

        Raises:
            InputError: The address is not set, or the router is none.
        """
        upstream, named = os.environ.get(UPSTREAM, ""), os.environ.get(ROUTER, "")
        if not upstream:
            raise InputError(
                f"{UPSTREAM} is not set: give the model server's address, such as http://127.0.0.1:8000/v1."
            )
        if named and named not in get_args(RouterName):
            raise InputError(f"{ROUTER} is '{named}'; it may be {' or '.join(get_args(RouterName))}.")
        router = next((one for one in get_args(RouterName) if one == named), None)
        return cls(release, upstream, router, os.environ.get(UPSTREAM_KEY, ""))

    async def model_for(self, request: Mapping[str, Any]) -> str | None:
        """Return the model that a chat request goes to; None where it does not ask to be routed.

        Args:
            request: Its body: `model` and `messages`.

        Raises:
            NotRouted: It asks for it and cannot be: nothing to route by, or the model server said no.
        """
        if request.get("model") != ROUTED:
            return None
        body = dict(request)
        try:
            decision = await self._decisions.of(conversation_opening(body), self._headers, turns_before(body))
        except InputError as error:
            raise NotRouted(400, str(error)) from error
        except Refused as refused:
            raise NotRouted(refused.status, str(refused)) from refused
        except TraceError as error:
            raise NotRouted(502, str(error)) from error
        return decision.model
