"""The simulated users of tau2-bench: tau2's own by language model, and one that follows orders."""

from __future__ import annotations

import json
import os
import re
from typing import Any

from tau2.data_model.message import AssistantMessage, MultiToolMessage, ToolCall, ToolMessage, UserMessage
from tau2.user.user_simulator import UserSimulator
from tau2.user.user_simulator_base import STOP

WIRE = ("Connection", "Timeout", "RateLimit", "Service", "Internal", "API")
"""Parts of the names of litellm's exceptions that are about the wire: nobody's answer."""


class UserFailed(Exception):
    """The simulated user is at fault, not the agent and not the environment."""

    fault = "user"


class ServerGone(Exception):
    """The server behind the simulated user cannot be used: nobody's answer."""

    fault = "infrastructure"


class _Guarded:
    """tau2's simulator, its failures told apart."""

    def __init__(self, user: Any) -> None:
        self._user = user

    def get_init_state(self) -> Any:
        """Begin."""
        return self._user.get_init_state()

    def generate_next_message(self, message: Any, state: Any) -> Any:
        """Answer."""
        try:
            return self._user.generate_next_message(message, state)
        except Exception as error:
            name = type(error).__name__
            said = f"{name}: {str(error)[:300]}"
            if any(word in name for word in WIRE):
                raise ServerGone(f"the user simulator's server failed ({said})") from error
            raise UserFailed(said) from error


def model_user(options: Any, task: Any, tools: Any, seed: Any) -> Any:
    """Return tau2's own simulator on any OpenAI-compatible server."""
    arguments: dict[str, Any] = {
        "temperature": float(options.get("user_temperature", 0.0)),
        "num_retries": 3,
        # A connection for each request: litellm would read what a server says beyond an answer as the next.
        "extra_headers": {"Connection": "close"},
    }
    model = str(options["user_model"])
    if options.get("user_base_url"):
        arguments["api_base"] = str(options["user_base_url"])
        os.environ.setdefault("OPENAI_API_KEY", "not-needed")  # litellm asks for one, many servers do not
        if not model.startswith("openai/"):
            model = "openai/" + model
    user = UserSimulator(
        llm=model, instructions=str(task.user_scenario), tools=tools or None, llm_args=arguments
    )
    user.set_seed(seed)
    return _Guarded(user)


class ScriptedUser:
    """Says what it wants at once, does every call that the agent names, then waits for an end.

    The agent names a call as `tool_name {"argument": ...}`. A message that names none is answered with
    consent twice; after that, and after a goodbye, the user ends the conversation.
    """

    def __init__(self, scenario: Any, tools: Any) -> None:
        self._scenario, self._tools = scenario, set(tools)
        self._number = self._patience = 0

    def get_init_state(self) -> Any:
        """Begin."""
        self._number, self._patience = 0, 0
        return {"spoken": False}

    def generate_next_message(self, message: Any, state: Any) -> Any:
        """Answer."""
        if not state["spoken"]:
            state["spoken"] = True
            return UserMessage(role="user", content=self._scenario), state
        if isinstance(message, (ToolMessage, MultiToolMessage)):
            results = message.tool_messages if isinstance(message, MultiToolMessage) else [message]
            told = "; ".join(result.content or "" for result in results)
            return UserMessage(role="user", content=f"I did that. {told}"), state
        assert isinstance(message, AssistantMessage)
        calls = self._ordered(message.content or "")
        if calls:
            return UserMessage(role="user", content=None, tool_calls=calls), state
        self._patience += 1
        if self._patience > 2 or re.search(r"\bgoodbye\b", message.content or "", re.IGNORECASE):
            return UserMessage(role="user", content=STOP), state
        return UserMessage(role="user", content="Yes, please go ahead."), state

    def _ordered(self, text: Any) -> Any:
        calls = []
        for found in re.finditer(r"\b(\w+) (?=\{)", text):
            if found.group(1) not in self._tools:
                continue
            try:
                arguments, _ = json.JSONDecoder().raw_decode(text, found.end())
            except ValueError:
                continue
            self._number += 1
            call = ToolCall(
                id=f"user_{self._number}", name=found.group(1), arguments=arguments, requestor="user"
            )
            calls.append(call)
        return calls
