"""Decisions of the proxy: made once an opening, remembered, and written down without the opening's text."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import json
import logging
import math
import os
import stat
import time
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from trace_assets.errors import InputError, Unavailable
from trace_assets.records import NO_ADAPTER
from trace_assets.routing.label_logits import LABELS, NAME, label_prompt
from trace_assets.routing.logistic import softmax
from trace_assets.routing.router import (
    UNNEEDED_COST,
    WEIGHED,
    Chooser,
    Router,
    all_choices,
    members_of,
    needed,
    one_alone,
    within,
)
from trace_assets.serving.router.upstream import Upstream
from trace_assets.store.content import text_version
from trace_assets.untrusted.json_text import check_cost

_log = logging.getLogger(__name__)
REMEMBERED = 10_000
"""Openings; one that is forgotten is decided again, the same way."""


@dataclass(frozen=True)
class Decision:
    """Where a conversation goes.

    Attributes:
        opening: Hash of its opening.
        choice: An adapter's name, several with `+` between them for their sum, or `none`.
        model: What the server calls it.
        probabilities: Choice -> probability.
    """

    opening: str
    choice: str
    model: str
    probabilities: Mapping[str, float]

    @property
    def probability(self) -> float:
        """Of the choice; of a sum's least probable member."""
        return min(self.probabilities[name] for name in members_of(self.choice) or (NO_ADAPTER,))


class Decisions:
    """Asks a decider, remembers, and records.

    Args:
        decider: Who decides.
        models: Choice -> name of the model on the server, for every choice of the decider. Where it names
            sums of adapters, an opening may be sent to one.
        record: File for one line of JSON a routed request; None records nothing.
        remembered: How many openings are kept in memory.
        unneeded_cost: What the router was fitted with, see `routing.sets`.
        set_cost: What decides which adapters act together; None takes that.

    Raises:
        InputError: A choice has no model.
    """

    def __init__(
        self,
        decider: Decider,
        models: Mapping[str, str],
        record: Path | None = None,
        remembered: int = REMEMBERED,
        unneeded_cost: float = UNNEEDED_COST,
        set_cost: float | None = None,
    ) -> None:
        missing = [choice for choice in decider.choices if choice not in models]
        if missing:
            raise InputError(
                f"the router may choose '{missing[0]}', which is no adapter that is served: fit the router "
                "again (trace sync --select routing), or release again."
            )
        self._sums = {name for name in models if set(members_of(name)) <= set(decider.choices)} - set(
            decider.choices
        )
        self.decider, self._unneeded_cost, self._set_cost = decider, unneeded_cost, set_cost
        base = models[NO_ADAPTER]
        one_for_all = all(models[choice] == base for choice in decider.choices)
        # An adapter that acts in sums only has the base model in its place.
        self._alone = {
            choice
            for choice in decider.choices
            if choice != NO_ADAPTER and (one_for_all or models[choice] != base)
        }
        self.models = {choice: models[choice] for choice in (*decider.choices, *sorted(self._sums))}
        self._record, self._remembered = record, remembered
        self._known: OrderedDict[str, Decision] = OrderedDict()
        self._unrecorded = 0
        if record is not None:
            try:
                record.parent.mkdir(parents=True, exist_ok=True)
                _append(record, b"")
            except OSError as error:
                raise InputError(f"decisions cannot be recorded in {record} ({error.strerror}).") from error

    async def of(self, text: str, headers: Mapping[str, str], turn: int = 0) -> Decision:
        """Return the decision on a conversation, and record it.

        Args:
            text: Its opening.
            headers: Of the request, for a decider that asks the server.
            turn: Replies that the conversation already holds.

        Raises:
            Refused: The server refused the routing question.
            Unavailable: The decider could not decide.
        """
        key = opening_hash(text)
        known = self._known.get(key)
        if known is None:
            row = await self.decider.decide(text, headers)
            choice = self._chosen(row)
            # Of several that were asked at once the first counts for all: a conversation has one adapter.
            known = self._known.setdefault(key, Decision(key, choice, self.models[choice], row))
            while len(self._known) > self._remembered:
                self._known.popitem(last=False)
            remembered = False
        else:
            self._known.move_to_end(key)
            remembered = True
        self._write(known, turn, remembered)
        return known

    def _chosen(self, row: Mapping[str, float]) -> str:
        weighed = self.decider.name == WEIGHED
        if self._sums:
            wanted = needed(row, self._unneeded_cost, weighed=weighed, set_cost=self._set_cost)
            return within(wanted, self._sums, self._alone)
        return one_alone(row, self._alone, self._unneeded_cost, weighed=weighed)

    def _write(self, decision: Decision, turn: int, remembered: bool) -> None:
        if self._record is None:
            return
        line = json.dumps(
            {
                "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "opening": decision.opening,
                "turn": turn,
                "choice": decision.choice,
                "model": decision.model,
                "probabilities": {name: round(value, 6) for name, value in decision.probabilities.items()},
                "router": self.decider.name,
                "version": self.decider.version,
                "remembered": remembered,
            }
        )
        try:
            _append(self._record, line.encode() + b"\n")
        except OSError as error:  # a full disk, a folder that was removed: conversations go on without
            if not self._unrecorded:
                _log.warning("decisions cannot be recorded in %s (%s)", self._record, error.strerror)
            self._unrecorded += 1
        else:
            self._unrecorded = 0


def opening_hash(text: str) -> str:
    """Return 16 hexadecimal digits that stand for an opening where its text must not be kept."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _append(path: Path, line: bytes) -> None:
    """Write in one go, to a file opened for appending: lines of several processes do not mix.

    Raises:
        OSError: It was not written, or half of it was: a disk that fills up takes what fits.
    """
    # Not blocking: of a pipe that nobody reads it is said so, and no client waits for it.
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK, 0o644)
    try:
        content = b"\n" + line if line and _is_torn(path, os.fstat(file)) else line
        if content and os.write(file, content) < len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    finally:
        os.close(file)


def _is_torn(path: Path, about: os.stat_result) -> bool:
    """Whether a file ends in half a line, which a further one would be joined to."""
    with suppress(OSError):
        if stat.S_ISREG(about.st_mode) and about.st_size:
            with path.open("rb") as file:
                file.seek(-1, os.SEEK_END)
                return file.read() != b"\n"
    return False


# Who decides in the proxy: a router that was fitted, or the served base model by its labels' logits.


MOST_MEMORY = 1 << 28
"""Bytes that reading the answer to it may take."""
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
        await self._turn.acquire()
        # A thread cannot be stopped: where the client leaves meanwhile, the next one waits for its end.
        self._reading = asyncio.ensure_future(asyncio.to_thread(self._router.probabilities, [text]))
        self._reading.add_done_callback(lambda _: self._turn.release())
        (row,) = await asyncio.shield(self._reading)
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
        except (KeyError, IndexError, TypeError, ValueError, OverflowError) as error:
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
        answer, content = await self._upstream.ask(
            "POST", url, own, json.dumps(body).encode(), seconds=ASK_SECONDS
        )
        if answer.status_code != 200:
            raise Refused(answer.status_code, content, answer.headers.get("content-type", "application/json"))
        try:
            check_cost(content, MOST_MEMORY)
            found = json.loads(content)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise Unavailable(f"{url} answered with something that is no JSON object.")
        return found
