"""An OpenAI-compatible server whose answers are files: it writes requests down and waits for answers."""

from __future__ import annotations

import json
import os
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from trace_assets.diagnosis.llm.recording import prompt_hash

BYTES_A_TOKEN = 4


class Bridge:
    """Listens from the start.

    A request that is made again, after a time-out for instance, waits for the same file; an answer that is
    there already is given at once. An answer whose first line is `!length` or `!refuse` is given as one that
    was cut off, or refused.

    Args:
        folder: Where `<hash>.request.json`, `<hash>.prompt.txt` and `<hash>.answer.txt` lie.
        port: To listen on; 0 takes any that is free.
        model: Name that answers bear; as asked for unless given.
        pause: Seconds between two looks for an answer.
    """

    def __init__(self, folder: Path, *, port: int = 0, model: str = "", pause: float = 0.2) -> None:
        self.folder, self.model, self.pause = folder, model, pause
        folder.mkdir(parents=True, exist_ok=True)
        self._ended = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                answer = outer.wait_for(body)
                if answer is not None:
                    outer.send(self, answer)

            def do_GET(self) -> None:
                outer.send(self, {"object": "list", "data": [{"id": outer.model or "bridge"}]})

            def log_message(self, format: str, *args: Any) -> None:
                pass

        class Http(ThreadingHTTPServer):
            daemon_threads = True

        self._http = Http(("127.0.0.1", port), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self._ended.set()
        self._http.shutdown()
        self._http.server_close()

    @property
    def open_requests(self) -> list[Path]:
        """Requests without an answer, oldest first."""
        found = sorted(self.folder.glob("*.request.json"), key=lambda path: (path.stat().st_mtime, path.name))
        return [path for path in found if not self._answer_file(path).is_file()]

    def answer(self, request: Path, text: str) -> None:
        """Answer a request, as whoever sits at the other side does."""
        _write(self._answer_file(request), text)

    def wait_for(self, body: dict[str, Any]) -> dict[str, Any] | None:
        """Write a request down and return its completion once there is an answer; None at the end."""
        name = prompt_hash(body)[:24]
        request = self.folder / f"{name}.request.json"
        if not request.is_file():
            words = "\n\n".join(f"[{one['role']}]\n{one['content']}" for one in body["messages"])
            _write(self.folder / f"{name}.prompt.txt", words)
            _write(request, json.dumps(body, ensure_ascii=False, indent=1))
        file = self._answer_file(request)
        while not file.is_file():
            if self._ended.wait(self.pause):
                return None
        return self._completion(body, file.read_text(encoding="utf-8"))

    def _completion(self, body: dict[str, Any], text: str) -> dict[str, Any]:
        first, _, rest = text.partition("\n")
        message: dict[str, Any] = {"role": "assistant", "content": text}
        finish = "stop"
        if first.strip() == "!length":
            message["content"], finish = rest, "length"
        elif first.strip() == "!refuse":
            message |= {"content": None, "refusal": rest.strip() or "no"}
        sent = sum(len(one["content"].encode()) for one in body["messages"]) // BYTES_A_TOKEN
        said = len(text.encode()) // BYTES_A_TOKEN + 1
        return {
            "id": "bridge",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": self.model or body.get("model", "bridge"),
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": {"prompt_tokens": sent, "completion_tokens": said, "total_tokens": sent + said},
        }

    def _answer_file(self, request: Path) -> Path:
        return request.with_name(request.name.replace(".request.json", ".answer.txt"))

    def send(self, handler: BaseHTTPRequestHandler, value: dict[str, Any]) -> None:
        """Send JSON to whoever still listens."""
        data = json.dumps(value).encode()
        try:
            handler.send_response(200)
            handler.send_header("Content-Type", "application/json")
            handler.send_header("Content-Length", str(len(data)))
            handler.end_headers()
            handler.wfile.write(data)
        except OSError:
            handler.close_connection = True


def _write(path: Path, text: str) -> None:
    """Write a file that appears whole."""
    partial = path.with_name(f"{path.name}.{threading.get_ident()}.partial")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, path)
