"""A local OpenAI-compatible server that says what was recorded, one reply after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.diagnosis.llm.chat_server import Body, ChatServer

PASSING_TROUBLE = ("rate_limit", "error_500", "hang_up", "html", "no_choice")


@dataclass(frozen=True)
class Said:
    """One recorded reply."""

    text: str | None
    finish: str = "stop"
    refusal: str | None = None


class RecordedServer(ChatServer):
    """Gives the recorded replies in order, the last one for ever; or asks a function of the request.

    Attributes:
        given: How many replies were given.
    """

    def __init__(
        self, replies: Sequence[Said | str] | Callable[[Body], Said], *, rate: float = 0.0, **more: Any
    ) -> None:
        super().__init__(lambda _: {}, rate=rate, faults=PASSING_TROUBLE, **more)
        self.replies, self.given = replies, 0

    def _complete(self, handler: BaseHTTPRequestHandler, body: Body, fault: str, content: str) -> None:
        if fault == "no_choice":
            super()._complete(handler, body, fault, content)
            return
        with self._lock:
            number, self.given = self.given, self.given + 1
        if callable(self.replies):
            said: Said | str = self.replies(body)
        else:
            said = self.replies[min(number, len(self.replies) - 1)]
        said = Said(said) if isinstance(said, str) else said
        message = {"role": "assistant", "content": said.text, "refusal": said.refusal}
        prompt = sum(len(one["content"].encode()) for one in body["messages"]) // 4
        written = len(said.text or said.refusal or "") // 4
        self._send(
            handler,
            200,
            {
                "id": "x",
                "object": "chat.completion",
                "choices": [{"index": 0, "message": message, "finish_reason": said.finish}],
                "usage": {
                    "prompt_tokens": prompt,
                    "completion_tokens": written,
                    "total_tokens": prompt + written,
                },
            },
        )


def fenced(source: str) -> str:
    """Return a module as a talkative model wraps it."""
    return f"Here is the environment you asked for.\n\n```python\n{source}```\n\nIt covers every rule."
