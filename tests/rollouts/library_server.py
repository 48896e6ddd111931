"""A chat server whose model solves every task of the template target, and fails some of them as it is told.

python library_server.py PORT DELAY
"""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler
from typing import Any

if __name__ == "__main__":
    from pathlib import Path

    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.diagnosis.llm.chat_server import Body, ChatServer

MODEL = "librarian"


class LibraryServer(ChatServer):
    """Answers as an agent that is always right, so that every reward below 1 would be a fault's.

    Attributes:
        fault: What happens to requests of the afflicted loans, from their second turn on; empty: nothing.
        afflicted: Numbers of loans.
        asked: Requests by loan.
    """

    def __init__(self, fault: str = "", afflicted: frozenset[int] = frozenset(), **settings: Any) -> None:
        self.fault, self.afflicted = fault, afflicted
        self.asked: Counter[int] = Counter()
        super().__init__(lambda _: {}, **settings)

    def _fault(self, body: Body, content: str, number: int) -> str:
        loan = loan_of(body)
        with self._lock:
            self.asked[loan] += 1
        begun = any(message["role"] == "assistant" for message in body["messages"])
        return self.fault if begun and loan in self.afflicted else ""

    def _respond(self, handler: BaseHTTPRequestHandler, body: Body, fault: str, content: str) -> None:
        whole = json.dumps(completion(body, fault))
        if fault == "drip":
            _head(handler, len(whole))
            for letter in whole:
                try:
                    handler.wfile.write(letter.encode())
                except OSError:
                    break
                time.sleep(0.05)
            handler.close_connection = True
        elif fault == "half_body":
            _head(handler, len(whole))
            handler.wfile.write(whole[: len(whole) // 2].encode())
            handler.close_connection = True
        elif fault == "half_json":
            self._send(handler, 200, whole[: len(whole) // 2])
        elif fault == "half_stream":
            events = f"data: {whole}\n\ndata: {whole[:40]}"
            self._send(handler, 200, events, {"Content-Type": "text/event-stream"})
        elif fault == "no_choice":
            self._send(handler, 200, {"id": "x", "object": "chat.completion", "choices": []})
        elif fault == "storm":
            self._send(handler, 429, {"error": {"message": "slow down"}}, {"Retry-After": "0.01"})
        elif fault in ("hang", "hang_up", "html", "error_500", "overflow"):
            super()._respond(handler, body, fault, content)
        else:
            self._send(handler, 200, whole)


def loan_of(body: Body) -> int:
    """Return which loan a request is about."""
    return int(re.findall(r"L(\d+)", request_of(body))[0])


def request_of(body: Body) -> str:
    """Return what the user asks for."""
    return str(next(one["content"] for one in body["messages"] if one["role"] == "user"))


def completion(body: Body, fault: str = "") -> dict[str, Any]:
    """Return the right next message, or a spoilt one."""
    loan, told = f"L{loan_of(body)}", [one["content"] for one in body["messages"] if one["role"] == "tool"]
    words, call = None, ""
    if not told:
        call = "get_loan"
    elif json.loads(told[0])["reserved_by_others"]:
        words = "Somebody has reserved it."
    elif "renew" not in request_of(body):
        words = "Nobody is waiting for it."
    elif len(told) == 1:
        call = "renew_loan"
    else:
        words = "It is renewed."
    arguments, finish = json.dumps({"loan": loan}), "tool_calls" if call else "stop"
    if fault in ("cut_call", "cut_call_length"):
        call, words, arguments = call or "get_loan", None, arguments[: len(arguments) // 2]
        finish = "length" if fault == "cut_call_length" else finish
    if fault == "deep_call":
        call, words, arguments = call or "get_loan", None, '{"a":' * 300 + "1" + "}" * 300
    message: dict[str, Any] = {"role": "assistant", "content": words}
    if call:
        function = {"name": call, "arguments": arguments}
        message["tool_calls"] = [{"id": "c1", "type": "function", "function": function}]
    return {
        "id": "x",
        "object": "chat.completion",
        "created": 1,
        "model": "somebody-else" if fault == "other_model" else body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12},
    }


def _head(handler: BaseHTTPRequestHandler, length: int) -> None:
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(length))
    handler.end_headers()


if __name__ == "__main__":
    with LibraryServer(port=int(sys.argv[1]), delay=float(sys.argv[2])):
        print("ready", flush=True)
        threading.Event().wait()
