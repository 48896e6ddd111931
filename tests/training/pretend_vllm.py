"""Stands in for vLLM in training: a model behind HTTP that takes adapters while it runs, and can be wrong.

As a program it takes the arguments of `vllm serve`. Every request is computed alone, so that what it writes
depends on nothing but weights, ids and seed.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import torch

from trace_assets.policies.lora import Weights, load_model, merge_folder
from trace_assets.policies.token_policy import choose, uniforms

Answer = tuple[int, dict[str, Any]]
FAULTS = {
    "skips": "says that it took an adapter and acts without",
    "skips_later": "does so from the third adapter on",
    "stale": "acts with the second adapter for ever",
    "refuses": "takes no adapter of this rank",
    "no_endpoint": "was started without runtime updating",
    "locked": "wants a key",
    "fails": "has an engine that died",
    "cannot_see": "does not see the folder",
    "no_ids": "reports no token ids",
    "raw": "reports log-probabilities before temperature",
    "other_model": "answers under another name",
    "swaps": "continues another prompt",
}


class PretendVllm:
    """A server of one base model.

    Args:
        folder: The base model.
        name: Its served name.
        port: 0 takes a free one.
        fault: One of `FAULTS`.
        dies_at: Completion at which the whole process ends, 0 for never.
        forgets_at: Completions before which it was started again: it knows no adapter.
        closes_at: From which on nobody is answered: an adapter's loading, and a completion after it.
    """

    def __init__(
        self,
        folder: Path,
        *,
        name: str = "base",
        port: int = 0,
        fault: str = "",
        dies_at: int = 0,
        forgets_at: Sequence[int] = (),
        closes_at: tuple[int, int] = (0, 0),
    ) -> None:
        assert not fault or fault in FAULTS
        self.model, self.name, self.fault, self.dies_at = load_model(folder), name, fault, dies_at
        self.forgets_at, self.closes_at = forgets_at, closes_at
        self.base: Weights = dict(self.model.state_dict())
        self.adapters: dict[str, Weights] = {}
        self.loaded: list[str] = []
        self.asked: list[str] = []
        self.since = 0
        self.read_again: set[str] = set()
        """Adapters that were loaded in place: a real server reads their folders at every step."""
        self.reads_at_steps = 0
        self.closed = False
        self._first: Weights | None = None
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._say(outer.models())

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self._say(outer.answer(self.path, body))

            def _say(self, answer: Answer) -> None:
                if outer.closed:
                    self.close_connection = True
                    return
                data = json.dumps(answer[1]).encode()
                self.send_response(answer[0])
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"

    def start(self) -> Self:
        """Serve in a thread."""
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def serve(self) -> None:
        """Serve here."""
        self._http.serve_forever()

    def close(self) -> None:
        """Answer nobody any more."""
        self.closed = True
        self._http.shutdown()
        self._http.server_close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.close()

    def models(self) -> Answer:
        """Return what /v1/models says."""
        if self.fault == "locked":
            return _error(401, "Unauthorized")
        base = {"id": self.name, "parent": None, "max_model_len": 64}
        return 200, {"data": [base, *({"id": name, "parent": self.name} for name in self.adapters)]}

    def answer(self, path: str, body: dict[str, Any]) -> Answer:
        """Answer one request."""
        if self.fault == "fails":
            return _error(500, "EngineDeadError")
        with self._lock:
            if path == "/v1/completions":
                return self._complete(body)
            if path == "/v1/load_lora_adapter" and self.fault != "no_endpoint":
                return self._load(body["lora_name"], Path(body["lora_path"]), body.get("load_inplace", False))
            if path == "/v1/unload_lora_adapter":
                return (200, {}) if self.adapters.pop(body["lora_name"], None) else _error(404, "no adapter")
        return 404, {"detail": "Not Found"}

    def _load(self, name: str, folder: Path, in_place: bool) -> Answer:
        if name in self.adapters and not in_place:
            return _error(400, f"The lora adapter '{name}' has already been loaded.")
        if self.fault == "refuses":
            return _error(500, "LoRA rank 8 is greater than max_lora_rank 4.")
        if self.fault == "cannot_see" or not folder.is_dir():
            return _error(404, f"Loading lora {name} failed: No adapter found for {folder}")
        with torch.random.fork_rng():  # that of the training, in whose process this may run
            weights: Weights = dict(merge_folder(self.model, folder))
        if self.fault == "skips" or (self.fault == "skips_later" and len(self.loaded) >= 2):
            weights = self.base
        if self.fault == "stale" and self.loaded:
            self._first = weights = self._first or weights
        self.adapters[name] = weights
        self.loaded.append(name)
        self.since = 0
        self.read_again = (self.read_again - {name}) | ({name} if in_place else set())
        return 200, {}

    def _complete(self, body: dict[str, Any]) -> Answer:
        model = body["model"]
        self.asked.append(model)
        self.reads_at_steps += model in self.read_again
        if len(self.asked) in self.forgets_at:
            self.adapters.clear()
        self.since += 1
        self.closed = self.closed or (len(self.loaded), self.since) == self.closes_at
        if len(self.asked) == self.dies_at:
            print("RuntimeError: out of memory", flush=True)
            os._exit(1)
        weights = self.base if model == self.name else self.adapters.get(model)
        if weights is None:
            return _error(404, f"The model `{model}` does not exist.")
        ids, written, logprobs = list(body["prompt"]), list[int](), list[float]()
        while len(written) < body["max_tokens"]:
            with torch.no_grad():
                row = torch.func.functional_call(
                    self.model, weights, (torch.tensor([ids]),), tie_weights=False
                ).logits[:, -1]
            drawn = uniforms(np.array([body["seed"]], np.uint64), np.array([len(ids)], np.uint64))
            [token], [logprob] = choose(row, body["temperature"], drawn)
            scale = 1.0 if self.fault == "raw" else body["temperature"]
            scores = torch.log_softmax(row[0] / scale, -1)
            ids.append(token)
            written.append(token)
            logprobs.append(float(scores[token]) if self.fault == "raw" else logprob)
            if token in body["stop_token_ids"]:
                break
        told: dict[str, Any] = {"token_logprobs": logprobs, "tokens": [str(token) for token in written]}
        if body["logprobs"]:
            told["top_logprobs"] = [{"x": float(scores.max())}]
        choice = {"index": 0, "text": "", "finish_reason": "stop", "logprobs": told}
        if self.fault != "no_ids":
            choice["token_ids"] = written
        if body.get("return_token_ids"):
            choice["prompt_token_ids"] = [0, *body["prompt"]] if self.fault == "swaps" else body["prompt"]
        named = "somebody-else" if self.fault == "other_model" else model
        return 200, {
            "id": "x",
            "object": "text_completion",
            "created": 0,
            "model": named,
            "choices": [choice],
        }


def _error(status: int, message: str) -> Answer:
    return status, {"error": {"message": message, "code": status}}


def main() -> None:
    """Serve until killed, as `vllm serve MODEL --host ... --port ...`."""
    torch.set_num_threads(1)
    folder = Path(sys.argv[sys.argv.index("serve") + 1])
    port = int(sys.argv[sys.argv.index("--port") + 1])
    name = sys.argv[sys.argv.index("--served-model-name") + 1]
    dies_at = int(os.environ.get("PRETEND_DIES_AT", "0"))
    PretendVllm(folder, name=name, port=port, dies_at=dies_at).serve()


if __name__ == "__main__":
    main()
