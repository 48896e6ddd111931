"""Who decides in the proxy: a router that was fitted, or the served base model by its labels' logits."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from trace_assets.errors import Unavailable
from trace_assets.routing.label_logits import LABELS, NAME, label_prompt
from trace_assets.routing.logistic import softmax
from trace_assets.routing.protocol import Chooser, Router, all_choices
from trace_assets.routing.proxy.upstream import Upstream
from trace_assets.store.content import text_version

ASK_SECONDS = 120.0
"""A question of one token; a server that is busy queues it."""


class Refused(Exception):
    """The server answered the routing question with an error, which is the client's to see.

    Attributes:
        status: HTTP status.
        body: The server's own words.
        content_type: Of the body.
    """

    def __init__(self, status: int, body: bytes, content_type: str) -> None:
        super().__init__(f"the model server answered the routing question with status {status}")
        self.status, self.body, self.content_type = status, body, content_type


class Decider(Chooser, Protocol):
    """Decides on one opening at a time, for a client that waits."""

    async def decide(self, text: str, headers: Mapping[str, str]) -> dict[str, float]:
        """Return choice -> probability for an opening, on behalf of a request with these headers."""
        ...


class FittedDecider:
    """A router of this program, such as the classifier, asked in a thread: one opening at a time."""

    def __init__(self, router: Router) -> None:
        self._router, self._turn = router, asyncio.Lock()
        self.name, self.version, self.choices = router.name, router.version, router.choices

    async def decide(self, text: str, headers: Mapping[str, str]) -> dict[str, float]:
        """Return choice -> probability."""
        async with self._turn:
            (row,) = await asyncio.to_thread(self._router.probabilities, [text])
        return row


class ServedLabels:
    """The label-logit router, the question put to the served base model itself.

    The question is that of `routing.label_logits`, so a server with the same weights decides the same. vLLM
    gives the log-probabilities of exactly the label tokens (`logprob_token_ids`). The client's key goes with
    the question.
    """

    name = NAME

    def __init__(self, upstream: Upstream, model: str, options: Mapping[str, str]) -> None:
        """Prepare; the server is asked for the labels' tokens at the first question.

        Args:
            upstream: The server.
            model: What it calls the base model.
            options: Choice -> its line, as from `option_lines`.
        """
        self.choices = all_choices(list(options))
        self._options = {name: options.get(name, name) for name in self.choices}
        self._upstream, self._model = upstream, model
        self._tokens: list[int] | None = None

    @property
    def version(self) -> str:
        """Content hash of the question, the options and the name of the model; its weights are not seen."""
        return text_version(self._model, label_prompt("", self._options), json.dumps(self._options))

    async def decide(self, text: str, headers: Mapping[str, str]) -> dict[str, float]:
        """Return the label tokens' probabilities, normalized among themselves.

        Raises:
            Refused: The server answered with an error.
            Unavailable: It is down, or gives no log-probabilities of tokens by their id.
        """
        if self._tokens is None:
            self._tokens = [await self._token(label, headers) for label in LABELS[: len(self.choices)]]
            if len(set(self._tokens)) < len(self._tokens):
                self._tokens = None
                raise Unavailable(
                    "two labels are the same token of the served model: use --router classifier."
                )
        asked = await self._ask(
            f"{self._upstream.base_url}/chat/completions",
            {
                "model": self._model,
                "messages": [{"role": "user", "content": label_prompt(text, self._options)}],
                "max_tokens": 1,
                "temperature": 1.0,
                "logprobs": True,
                "logprob_token_ids": self._tokens,
                "return_tokens_as_token_ids": True,
            },
            headers,
        )
        try:
            (first,) = asked["choices"][0]["logprobs"]["content"]
            told = {row["token"]: float(row["logprob"]) for row in first["top_logprobs"]}
            scores = [told[f"token_id:{token}"] for token in self._tokens]
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise Unavailable(
                f"the model server at {self._upstream.base_url} gives no log-probabilities of the label "
                "tokens (vLLM's logprob_token_ids); use --router classifier."
            ) from error
        if not all(math.isfinite(score) for score in scores):
            raise Unavailable("the model server's log-probabilities of the labels are no numbers.")
        row = softmax(np.array([scores]))[0]
        return dict(zip(self.choices, map(float, row), strict=True))

    async def _token(self, label: str, headers: Mapping[str, str]) -> int:
        asked = {"model": self._model, "prompt": label, "add_special_tokens": False}
        tokens = (await self._ask(f"{self._upstream.root}/tokenize", asked, headers)).get("tokens")
        if not isinstance(tokens, list) or len(tokens) != 1 or not isinstance(tokens[0], int):
            raise Unavailable(
                f"label '{label}' is not one token of the served model ({self._upstream.root}/tokenize): "
                "use --router classifier."
            )
        return tokens[0]

    async def _ask(self, url: str, body: dict[str, Any], headers: Mapping[str, str]) -> dict[str, Any]:
        own = {"content-type": "application/json", "accept-encoding": "identity"}
        if "authorization" in headers:
            own["authorization"] = headers["authorization"]
        answer = await self._upstream.send("POST", url, own, json.dumps(body).encode(), ASK_SECONDS)
        content = await self._upstream.read(answer)
        if answer.status_code != 200:
            raise Refused(answer.status_code, content, answer.headers.get("content-type", "application/json"))
        try:
            found = json.loads(content)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise Unavailable(f"{url} answered with something that is no JSON object.")
        return found
