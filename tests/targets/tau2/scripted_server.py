"""An OpenAI-compatible server that plays tau2's agent, user and judge, the same way every time.

It is asked for one conversation after another, in an order that it is told: in telecom nothing that agent
and user are shown tells all tasks apart. Within a conversation it keeps no state: what it answers follows
from the messages it is sent.
"""

from __future__ import annotations

import json
import re
import threading
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tests.answering import Answer, AnsweringServer, completion
from trace_assets.records import Message

Manner = Literal["right", "null", "chatty", "stopper", "erring", "endless", "empty", "half"]
"""How an agent plays: as the reference; nothing at all; saying only beside calls; with tau2's word
for the end in its first message; calls that fail; never ending; an empty reply; a call of half a JSON."""
STOP = "###STOP###"
JUDGE = "gpt-4.1-2025-04-14"


@dataclass
class Script:
    """What the agent says, turn by turn, in one task."""

    task: str
    reference: Sequence[Message]
    manner: Manner = "right"

    def reply(self, turn: int, *, solo: bool) -> dict[str, Any]:
        """Return the message of a turn, counted from 0."""
        goodbye = called("done", {}, turn) if solo else {"content": "Goodbye."}
        if self.manner == "null":
            return goodbye
        if self.manner == "erring":
            return called("get_nothing", {"number": turn}, turn)
        if self.manner == "endless":
            return (
                called("get_customer_by_id", {"customer_id": "C1001"}, turn) if solo else {"content": "Hm."}
            )
        if self.manner == "empty" and turn == 1:
            return {"content": ""}
        if self.manner == "half" and turn == 1:
            return called("get_nothing", '{"number": ', turn)
        if self.manner == "stopper" and not solo:
            if turn == 0:
                return {"content": f"I could say {STOP} but it is not mine to say."}
            turn -= 1
        if turn >= len(self.reference):
            return goodbye
        said = self.reference[turn]
        if not said.tool_calls:
            last = turn == len(self.reference) - 1
            return goodbye if self.manner == "chatty" and last else {"content": said.content}
        reply = called(said.tool_calls[0].name, said.tool_calls[0].arguments, turn)
        if self.manner == "chatty":
            reply["content"] = self.reference[-1].content or "Let me see."
        return reply


def called(name: str, arguments: Any, number: int) -> dict[str, Any]:
    """Return a message with one call; the ids are the server's own."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    call = {"id": f"chat-{number}", "type": "function", "function": {"name": name, "arguments": text}}
    return {"content": None, "tool_calls": [call]}


@dataclass
class Asked:
    """A request."""

    who: str
    task: str
    body: dict[str, Any]


class ScriptedServer(AnsweringServer):
    """The server.

    Args:
        scripts: By task.
        order: Tasks in the order in which their conversations begin.
        solo: Whether there is no user.
    """

    def __init__(self, scripts: Mapping[str, Script], order: Sequence[str], *, solo: bool) -> None:
        self.scripts, self.solo = dict(scripts), solo
        self.asked: list[Asked] = []
        self.spoilt: dict[int, Manner] = {}
        """Manner of the conversations that begin at these places, whatever their script says."""
        self.begun = 0
        self.order = list(order)
        self.patience = 1000
        """Turns after which the user ends the conversation."""
        self._lock = threading.Lock()
        super().__init__()

    def answer(self, path: str, body: dict[str, Any]) -> Answer:
        """Return a completion with the message that the request asks for."""
        with self._lock:
            message = self.message(body)
        finish = "tool_calls" if message.get("tool_calls") else "stop"
        choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", **message}}
        return completion(None, created=0, model=body["model"], choices=[choice])

    def message(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the message that a request is answered with."""
        messages = body["messages"]
        if body["model"] == JUDGE:
            return {"content": judged(messages[-1]["content"])}
        turn = sum(message["role"] == "assistant" for message in messages)
        if body["model"] == "user":
            if turn == 0:
                self.begun += 1
            self.asked.append(Asked("user", self.task, body))
            if turn >= self.patience:
                return {"content": f"That is enough. {STOP}"}
            return user_reply(messages, {tool["function"]["name"] for tool in body.get("tools") or ()})
        if self.solo and turn == 0:
            self.begun += 1
        self.asked.append(Asked("agent", self.task, body))
        script = self.scripts[self.task]
        manner = self.spoilt.get(self.begun - 1, script.manner)
        # The greeting is not the agent's.
        number = turn if self.solo else turn - 1
        return Script(script.task, script.reference, manner).reply(number, solo=self.solo)

    @property
    def task(self) -> str:
        """The task of the conversation that began last."""
        return self.order[self.begun - 1]


def user_reply(messages: Sequence[dict[str, Any]], tools: set[str]) -> dict[str, Any]:
    """Say what is wanted, do every call that the agent spells out, consent, and end after a goodbye."""
    last = messages[-1]
    if len(messages) == 2:
        number = zlib.crc32(messages[0]["content"].encode()) % 1000
        return {"content": f"Hello, I have request {number}."}
    if last["role"] == "tool":
        return {"content": f"I did that. {last['content']}"}
    said = last["content"] or ""
    calls = []
    for found in re.finditer(r"\b(\w+) (?=\{)", said):
        if found.group(1) in tools:
            arguments, _ = json.JSONDecoder().raw_decode(said, found.end())
            calls += called(found.group(1), arguments, len(messages))["tool_calls"]
    if calls:
        return {"content": None, "tool_calls": calls}
    return {"content": f"Thank you. {STOP}" if "goodbye" in said.lower() else "Yes, please go ahead."}


def judged(text: str) -> str:
    """Judge as tau2's judge answers: met where the agent came to its last sentence."""
    result = {"expectedOutcome": "all", "reasoning": "by rule", "metExpectation": "All done." in text}
    return json.dumps({"results": [result]})
