"""A server on this machine that answers posted JSON in the way a test wants."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

Answer = tuple[int, dict[str, str], Any]
"""Status, headers, and a body: text as it is, anything else as JSON. Status 0 hangs up without an answer."""
HANG_UP: Answer = (0, {}, None)


class AnsweringServer:
    """Listens from the start; a subclass says what it answers.

    Attributes:
        requests: The bodies that were posted.
        headers: Their headers, names in lower case.
        url: Where it listens, without a path.
        v1: Its base address as one of the OpenAI API.
    """

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.requests.append(body)
                outer.headers.append({name.lower(): value for name, value in self.headers.items()})
                status, headers, said = outer.answer(self.path, body)
                if status == 0:
                    self.connection.close()
                    return
                data = (said if isinstance(said, str) else json.dumps(said)).encode()
                self.send_response(status)
                for name, value in {"Content-Type": "application/json", **headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        class Http(ThreadingHTTPServer):
            request_queue_size = 128  # of five the sixth that comes at once waits for a second

        self._http = Http(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        self.v1 = f"{self.url}/v1"
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()

    def answer(self, path: str, body: dict[str, Any]) -> Answer:
        """Return what a request is answered with; called in the request's own thread."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.close()

    def as_policy(self, tasks: int) -> dict[str, str]:
        """Return the environment in which the agent answers here and plays so many tasks."""
        return {
            "OPENAI_API_KEY": "none",
            "TRACE__ROLLOUTS__ENGINE": "openai",
            "TRACE__ROLLOUTS__BASE_URL": self.v1,
            "TRACE__ROLLOUTS__MODEL": "parrot",
            "TRACE__TARGETS__DISCOVERY_TASKS": str(tasks),
        }

    def close(self) -> None:
        """Stop listening."""
        self._http.shutdown()
        self._http.server_close()


class InTurn(AnsweringServer):
    """Gives its answers one after the other; the last one stays."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        super().__init__()

    def answer(self, path: str, body: dict[str, Any]) -> Answer:
        """Return the next answer."""
        return self.answers[min(len(self.requests), len(self.answers)) - 1]


def completion(content: str | None, finish: str = "stop", **more: Any) -> Answer:
    """Return a chat completion of one choice, with further fields of the answer."""
    choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": finish}
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    return 200, {}, {"id": "x", "object": "chat.completion", "choices": [choice], "usage": usage, **more}


def failure(status: int, message: str = "no", code: str | None = None, **headers: str) -> Answer:
    """Return an error in the form of the API; underscores in headers become hyphens."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return status, named, {"error": {"message": message, "code": code}}
