"""Adapters handed to vLLM servers while they run."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from trace_assets.errors import InputError, TraceError, Unavailable
from trace_assets.policies.openai_faults import conceal, public_url
from trace_assets.system.machine import certificates, through_proxies
from trace_assets.training.checkpoints import adapts_experts

LOAD_SECONDS = 600.0
"""For one server to read one adapter; that of a large mixture of experts has gigabytes."""
_ASK_SECONDS = 10.0
_KEY = "OPENAI_API_KEY"


@dataclass(frozen=True)
class Served:
    """What a server says of the base model that it serves.

    Attributes:
        name: What a request calls it.
        max_context: Longest conversation in tokens, None where the server does not say.
    """

    name: str
    max_context: int | None


class Uploads:
    """Servers of one base model, all of which are given the same adapters.

    Of several servers, one that cannot be reached is left out as long as another one is there; it is given
    the adapter when it is found to lack it (`mend`).

    Args:
        urls: Base addresses, such as http://127.0.0.1:8000/v1. They must see this machine's folders under the
            same paths.
    """

    def __init__(self, urls: Sequence[str]) -> None:
        self.urls = tuple(urls)
        self._lock = threading.Lock()
        key = os.environ.get(_KEY) or ""
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}

    def base(self) -> Served:
        """Return the base model that every server serves.

        Raises:
            Unavailable: None can be reached, or one fails.
            InputError: One refuses the key, an answer is no list of models, or the servers serve different
                ones.
        """
        found: dict[str, Served] = {}
        unreachable = ""
        for url in self.urls:
            try:
                found[url] = _base_of(self._models(url), _shown(url))
            except httpx.TransportError as error:
                unreachable = f"{_shown(url)} ({type(error).__name__})"
        if not found:
            raise Unavailable(
                f"no model server can be reached at {unreachable}: start it, or mend training.sampler_url."
            )
        names = sorted({served.name for served in found.values()})
        if len(names) > 1:
            raise InputError(
                f"the servers of training.sampler_url serve different base models ({', '.join(names)}): name "
                "servers of one model, under one name."
            )
        limits = [served.max_context for served in found.values() if served.max_context is not None]
        return Served(names[0], min(limits, default=None))

    def load(self, name: str, folder: Path) -> None:
        """Have every server act with an adapter when it is asked for by a name.

        Args:
            name: By the adapter's content, so that no server answers with another one.
            folder: Its PEFT folder.

        Raises:
            Unavailable: No server can be reached, or one fails.
            InputError: A server does not take it.
        """
        unreachable: list[str] = []
        for url in self.urls:
            try:
                self._load(url, name, folder)
            except httpx.TransportError as error:
                unreachable.append(f"{_shown(url)} ({type(error).__name__})")
        if len(unreachable) == len(self.urls):
            raise Unavailable(
                f"no model server could be given the adapter at {', '.join(unreachable)}: start it and run "
                "again, finished iterations are kept."
            )

    def mend(self, name: str, folder: Path) -> None:
        """Give an adapter to those servers that lack it: they were started again, or out of reach.

        May be called from several threads; one of them does it.

        Raises:
            Unavailable: One fails.
            InputError: A server does not take it.
        """
        with self._lock:
            for url in self.urls:
                try:
                    if name not in {row["id"] for row in self._models(url)}:
                        self._load(url, name, folder)
                except httpx.TransportError:
                    continue  # whoever asks it for a reply is told so

    def unload(self, name: str) -> None:
        """Take an adapter back; a server that has ended has none."""
        for url in self.urls:
            with suppress(httpx.TransportError):
                self.post(url, "/unload_lora_adapter", {"lora_name": name}, _ASK_SECONDS)

    def post(
        self, url: str, path: str, body: dict[str, Any], seconds: float = LOAD_SECONDS
    ) -> httpx.Response:
        """Send a request to one server.

        Raises:
            httpx.TransportError: There is no answer.
        """
        return httpx.post(
            f"{url}{path}",
            json=body,
            headers=self._headers,
            timeout=seconds,
            trust_env=(proxies := through_proxies(url)),
            verify=certificates(proxies),
        )

    def _models(self, url: str) -> list[dict[str, Any]]:
        answer = httpx.get(
            f"{url}/models",
            headers=self._headers,
            timeout=_ASK_SECONDS,
            trust_env=(proxies := through_proxies(url)),
            verify=certificates(proxies),
        )
        self.refuse_trouble(url, answer)
        try:
            rows: list[dict[str, Any]] = answer.raise_for_status().json()["data"]
            return [dict(row, id=str(row["id"])) for row in rows]
        except (httpx.HTTPStatusError, ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{_shown(url)}/models lists no models (HTTP {answer.status_code}): is training.sampler_url "
                "the address of a vLLM server, ending in /v1?"
            ) from error

    def _load(self, url: str, name: str, folder: Path) -> None:
        # After a training was killed, its name may stand for a folder that is gone: it is taken back first.
        # Not loaded in place: vLLM keeps that word with the name, and reads the folder at every model step.
        self.post(url, "/unload_lora_adapter", {"lora_name": name}, _ASK_SECONDS)
        body: dict[str, Any] = {"lora_name": name, "lora_path": str(folder), "load_inplace": False}
        body["is_3d_lora_weight"] = adapts_experts(folder)
        answer = self.post(url, "/load_lora_adapter", body)
        if answer.status_code != httpx.codes.INTERNAL_SERVER_ERROR:  # so vLLM says of one that does not fit
            self.refuse_trouble(url, answer)
        if not answer.is_success:
            raise self._refusal(url, answer, folder)

    def refuse_trouble(self, url: str, answer: httpx.Response) -> None:
        """Raise for an answer that does not depend on what was asked.

        Raises:
            InputError: The server refuses the key.
            Unavailable: The server fails.
        """
        server, status = f"the model server at {_shown(url)}", answer.status_code
        if status in (401, 403):
            raise InputError(f"{server} refuses the key (HTTP {status}): set {_KEY} to one that it accepts.")
        if status >= 500:
            raise Unavailable(
                f"{server} fails (HTTP {status}: {self._said(answer)}): look at its log and run again, "
                "finished iterations are kept."
            )

    def _said(self, answer: httpx.Response) -> str:
        return conceal(_said(answer), self._headers.get("Authorization", "").removeprefix("Bearer "))

    def _refusal(self, url: str, answer: httpx.Response, folder: Path) -> TraceError:
        said = self._said(answer)
        server = f"the model server at {_shown(url)}"
        if answer.status_code in (404, 405) and "adapter" not in said.lower():
            return InputError(
                f"{server} takes no adapters while it runs (HTTP {answer.status_code} from "
                "/load_lora_adapter): start it with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1."
            )
        if answer.status_code == 404:
            return InputError(
                f"{server} cannot read the adapter in {folder} ({said}): it must see that folder under the "
                "same path."
            )
        return InputError(
            f"{server} does not take the adapter (HTTP {answer.status_code}: {said}): compare its base model "
            "and --max-lora-rank with the training's."
        )


def _base_of(rows: Sequence[dict[str, Any]], url: str) -> Served:
    """Return the first model that has no parent."""
    row = next((row for row in rows if not row.get("parent")), None)
    if row is None:
        raise InputError(f"{url} serves no base model, only adapters of one: start it with the base model.")
    limit = row.get("max_model_len")
    return Served(row["id"], int(limit) if limit else None)


def _said(answer: httpx.Response) -> str:
    """Return what a server said of an error, short, in one line."""
    try:
        body: Any = answer.json()
        error = body.get("error", body)
        text = error.get("message") or error.get("detail") or answer.text
    except (ValueError, AttributeError):
        text = answer.text
    return " ".join(str(text).split())[:300]


def _shown(url: str) -> str:
    return public_url(url) or "training.sampler_url"
