"""A local OpenAI-compatible server that misbehaves as often and in as many ways as it is told to."""

from __future__ import annotations

import hashlib
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Body = dict[str, Any]

FAULTS = (
    "rate_limit",
    "error_500",
    "hang",
    "hang_up",
    "html",
    "no_choice",
    "no_content",
    "prose",
    "cut_json",
    "cut_reply",
    "wrong_id",
    "missing",
    "disorder",
    "wild_evidence",
    "overflow",
)
"""Ways to misbehave."""


class ChatServer:
    """Answers chat completions with what `answer` says, or misbehaves.

    Whether a request meets a fault is drawn from its content and from how often it came before, never from
    time or threads.

    Attributes:
        bodies: Every request.
        seen: Faults that were committed, and `ok`.
        answered: How often each content was answered well.
        keys: Authorization headers.
    """

    def __init__(
        self,
        answer: Callable[[Sequence[dict[str, str]]], dict[str, Any]],
        *,
        rate: float = 0.0,
        faults: Sequence[str] = FAULTS,
        key: str = "",
        hang_seconds: float = 3.0,
        refuses: Sequence[str] = (),
        fenced: bool = False,
        context_bytes: int | None = None,
        delay: float = 0.0,
        seed: int = 0,
        port: int = 0,
    ) -> None:
        self.answer, self.rate, self.faults, self.key = answer, rate, list(faults), key
        self.hang_seconds, self.refuses, self.fenced, self.delay = hang_seconds, refuses, fenced, delay
        self.context_bytes, self.seed = context_bytes, seed
        self.bodies: list[Body] = []
        self.seen: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()
        self.keys: set[str] = set()
        self.times: list[float] = []
        self._tries: Counter[str] = Counter()
        self._systems: set[str] = set()
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.serve(self, body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        class Http(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, request: Any, client_address: Any) -> None:
                pass  # clients that gave up

        self._http = Http(("127.0.0.1", port), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def __enter__(self) -> ChatServer:
        return self

    def __exit__(self, *exc: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    def serve(self, handler: BaseHTTPRequestHandler, body: Body) -> None:
        content = hashlib.sha256(
            json.dumps([body["model"], body["messages"], body.get("seed")]).encode()
        ).hexdigest()
        with self._lock:
            self.bodies.append(body)
            self.times.append(time.monotonic())
            given = handler.headers.get("Authorization", "")
            self.keys.add(given)
            number = self._tries[content]
            self._tries[content] += 1
        if self.key and given != f"Bearer {self.key}":
            self._send(handler, 401, {"error": {"message": f"Incorrect API key provided: {given}"}})
            return
        fault = self._fault(body, content, number)
        with self._lock:
            self.seen[fault or "ok"] += 1
        time.sleep(self.delay)
        self._respond(handler, body, fault, content)

    def _fault(self, body: Body, content: str, number: int) -> str:
        for name in self.refuses:
            if name in body:
                return f"refuses {name}"
        size = sum(len(one["content"].encode()) for one in body["messages"])
        if self.context_bytes is not None and size > self.context_bytes:
            return "overflow"
        rng = random.Random(f"{self.seed}:{content}:{number}")
        return rng.choice(self.faults) if rng.random() < self.rate else ""

    def _respond(self, handler: BaseHTTPRequestHandler, body: Body, fault: str, content: str) -> None:
        echo = f"something broke for {handler.headers.get('Authorization')}"
        if fault.startswith("refuses "):
            name = fault.removeprefix("refuses ")
            self._send(
                handler, 400, {"error": {"message": f"Unsupported parameter: '{name}' is not supported"}}
            )
        elif fault == "rate_limit":
            self._send(handler, 429, {"error": {"message": "slow down"}}, {"Retry-After": "0"})
        elif fault == "error_500":
            self._send(handler, 500, {"error": {"message": echo}})
        elif fault == "overflow":
            self._send(
                handler,
                400,
                {"error": {"message": "maximum context length is small", "code": "context_length_exceeded"}},
            )
        elif fault == "hang":
            time.sleep(self.hang_seconds)
            handler.close_connection = True
        elif fault == "hang_up":
            handler.close_connection = True
            handler.connection.close()
        elif fault == "html":
            self._send(handler, 200, "<html>a proxy says hello</html>", {"Content-Type": "text/html"})
        else:
            self._complete(handler, body, fault, content)

    def _complete(self, handler: BaseHTTPRequestHandler, body: Body, fault: str, content: str) -> None:
        answer = spoil(self.answer(body["messages"]), fault)
        text = json.dumps(answer, ensure_ascii=False)
        finish = "stop"
        if fault in ("cut_json", "cut_reply"):
            text, finish = text[: len(text) // 2], "stop" if fault == "cut_json" else "length"
        elif len(text) > 4 * body.get("max_tokens", body.get("max_completion_tokens", 10**9)):
            text, finish = text[: 4 * body["max_tokens"]], "length"
        elif fault == "prose":
            text = "Happy to help! The agent did rather well, I would say."
        elif self.fenced:
            text = f"<think>Hm {{...}}</think>Here you are:\n```json\n{text}\n```\nAnything else?"
        message = {"role": "assistant", "content": None if fault == "no_content" else text}
        choices = [] if fault == "no_choice" else [{"index": 0, "message": message, "finish_reason": finish}]
        prompt = sum(len(one["content"].encode()) for one in body["messages"]) // 4
        system = body["messages"][0]["content"]
        with self._lock:
            cached = len(system.encode()) // 4 if system in self._systems else 0
            self._systems.add(system)
            self.answered[content] += not fault
        usage = {
            "prompt_tokens": prompt,
            "completion_tokens": len(text) // 4,
            "total_tokens": prompt + len(text) // 4,
            "prompt_tokens_details": {"cached_tokens": cached},
        }
        self._send(handler, 200, {"id": "x", "object": "chat.completion", "choices": choices, "usage": usage})

    def _send(
        self,
        handler: BaseHTTPRequestHandler,
        status: int,
        content: Any,
        headers: dict[str, str] | None = None,
    ) -> None:
        data = (content if isinstance(content, str) else json.dumps(content)).encode()
        try:
            handler.send_response(status)
            for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
                handler.send_header(name, value)
            handler.send_header("Content-Length", str(len(data)))
            handler.end_headers()
            handler.wfile.write(data)
        except OSError:
            handler.close_connection = True


def spoil(answer: dict[str, Any], fault: str) -> dict[str, Any]:
    """Make an honest answer wrong in one way; kinds without labels lose their first entry's names."""
    name, rows = next(iter(answer.items()))
    if not isinstance(rows, list) or not rows:
        return answer
    rows = [dict(row) for row in rows]
    if fault == "wrong_id":
        key = next(key for key in ("id", "transcripts", "members") if key in rows[0])
        rows[0][key] = "C99" if key == "id" else ["T99"]
    elif fault == "missing":
        rows = rows[1:] if name != "proposals" else [{**rows[0], "description": ""}]
    elif fault == "disorder":
        rows = rows[::-1] if name == "labels" and len(rows) > 1 else [{"unexpected": 1}]
    elif fault == "wild_evidence" and name == "labels":
        rows[0] |= {"evidence": [10_000], "label": "PRESENT"}
    elif fault == "wild_evidence":
        rows[0].pop("description")
    return {**answer, name: rows}
