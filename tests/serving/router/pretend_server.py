"""Stands in for a model server: answers with the model that was asked for, streams, and fails on demand."""

from __future__ import annotations

import json
import math
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

KEY = "sk-secret-4711"
LABELS = {label: 100 + place for place, label in enumerate("ABCDEFGH")}
"""Token ids that `/tokenize` gives."""


class PretendServer:
    """The server; `asked` holds the requests that it got.

    Attributes:
        fault: "" or what goes wrong: `overloaded`, `cut_stream`, `killed_stream`
            (which ends as a whole one does), `cut_body`, `no_labels`, `key`, `endless`.
        left: Set when the reader of an endless stream has gone.
        favourite: Label that the base model prefers.
    """

    def __init__(self, port: int | None = 0) -> None:
        self.asked: list[tuple[str, dict[str, str], bytes]] = []
        self.fault, self.favourite = "", "A"
        self.left = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                outer.asked.append((self.path, dict(self.headers.items()), b""))
                if outer._refuses(self):
                    return
                rows = [
                    {"id": name, "object": "model"} for name in ("base", "cancel@0f3a9b2c", "multi@1c2d3e4f")
                ]
                self.whole(200, {"object": "list", "data": rows})

            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers["Content-Length"]))
                outer.asked.append((self.path, dict(self.headers.items()), content))
                if outer._refuses(self):
                    return
                body = json.loads(content)
                if self.path == "/tokenize":
                    return self.whole(200, {"tokens": [LABELS[body["prompt"]]], "count": 1})
                if body.get("logprob_token_ids"):
                    return self.whole(200, outer.labels(body))
                if body.get("stream"):
                    return self.streamed(body)
                if outer.fault == "cut_body":
                    self.send_response(200)
                    self.send_header("Content-Length", "1000")
                    self.end_headers()
                    self.wfile.write(b'{"id"')
                    self.close_connection = True
                    return None
                message = {"role": "assistant", "content": body["model"]}
                choice = {"index": 0, "finish_reason": "stop", "message": message}
                self.whole(200, {**_head("chat.completion", body), "choices": [choice]})
                return None

            def streamed(self, body: dict[str, Any]) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream; charset=utf-8")
                if outer.fault == "killed_stream":
                    self.end_headers()
                    self.wfile.write(b"".join(events(body["model"])[:3]))
                    self.close_connection = True
                    return None
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                if outer.fault == "endless":
                    return self.endless(body)
                parts = events(body["model"])
                for place, part in enumerate(parts):
                    if outer.fault == "cut_stream" and place == 2:
                        self.close_connection = True
                        return None
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
                    self.wfile.flush()
                self.wfile.write(b"0\r\n\r\n")
                return None

            def endless(self, body: dict[str, Any]) -> None:
                part = events(body["model"])[1]
                self.close_connection = True
                try:
                    for _ in range(1000):
                        self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
                        time.sleep(0.01)
                except OSError:
                    outer.left.set()

            def whole(self, status: int, body: object) -> None:
                content = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.send_header("X-Request-Id", "abc")
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port or 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def _refuses(self, handler: Any) -> bool:
        if self.fault == "overloaded":
            error = {"message": "no slot is free", "type": "overloaded", "param": None, "code": 429}
            handler.whole(429, {"error": error})
            return True
        if self.fault == "key" and handler.headers.get("Authorization") != f"Bearer {KEY}":
            error = {"message": "wrong key", "type": "auth", "param": None, "code": 401}
            handler.whole(401, {"error": error})
            return True
        return False

    def labels(self, body: dict[str, Any]) -> dict[str, Any]:
        """Answer a question of one token: the favourite at three times the others."""
        weights = {
            token: 3.0 if LABELS[self.favourite] == token else 1.0 for token in body["logprob_token_ids"]
        }
        total = 2 * sum(weights.values())  # half of the probability lies on other tokens
        rows = [
            {"token": f"token_id:{token}", "logprob": math.log(weight / total)}
            for token, weight in weights.items()
        ]
        first = {"token": rows[0]["token"], "logprob": rows[0]["logprob"], "top_logprobs": rows}
        logprobs = None if self.fault == "no_labels" else {"content": [first]}
        message = {"role": "assistant", "content": "A"}
        choice = {"index": 0, "finish_reason": "length", "message": message, "logprobs": logprobs}
        return {**_head("chat.completion", body), "choices": [choice]}

    def chats(self) -> list[dict[str, Any]]:
        """Return the bodies of the conversations that were asked for."""
        return [json.loads(content) for path, _, content in self.asked if path.endswith("/chat/completions")]

    def __enter__(self) -> PretendServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop answering; what listens is closed, once or twice."""
        self._server.shutdown()
        self._server.server_close()


def _head(kind: str, body: dict[str, Any]) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": kind, "created": 1, "model": body["model"]}


def events(model: str) -> list[bytes]:
    """Return the events of a stream, odd white space and a comment included."""
    texts = ["I ", "am ", model, " \u00e9"]
    chunks = [
        {
            **_head("chat.completion.chunk", {"model": model}),
            "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}],
        }
        for text in texts
    ]
    lines = [b"data: " + json.dumps(chunk, ensure_ascii=False).encode() + b"\n\n" for chunk in chunks]
    return [b": ping\r\n\r\n", *lines, b"data: [DONE]\n\n"]
