"""The simulated users of ToolSandbox: one by language model on any server, one scripted, and none."""

from __future__ import annotations

import http.client
import json
import os
import re
import time
import urllib.error
import urllib.request
from typing import Any

from openai.types.chat import ChatCompletion
from tool_sandbox.common.execution_context import RoleType
from tool_sandbox.common.message_conversion import Message
from tool_sandbox.roles.base_role import BaseRole
from tool_sandbox.roles.openai_api_user import OpenAIAPIUser

TRIES = 3
PATIENCE = 2
"""Messages without a goodbye that the scripted user answers before it ends the conversation."""
END = "\n".join(
    (
        "call_end_parameters = {}",
        "call_end_response = end_conversation(**call_end_parameters)",
        "print(repr(call_end_response))",
    )
)


LARGEST = 32 << 20
"""Bytes of an answer."""


class _Stays(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: the conversation and the key go where they were meant to go, or nowhere."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Leave it at the answer, which is an error then."""


class UserFailed(Exception):
    """The simulated user is at fault, not the agent and not the environment."""

    fault = "user"


class ServerGone(Exception):
    """The server behind the simulated user cannot be used: nobody's answer."""

    fault = "infrastructure"


def end_conversation() -> None:
    """Let the user call the one tool that it has."""
    ending = Message(sender=RoleType.USER, recipient=RoleType.EXECUTION_ENVIRONMENT, content=END)
    BaseRole.add_messages([ending])


class SilentUser(BaseRole):  # type: ignore[misc]
    """Asked once and does not answer: whatever the agent says ends the conversation."""

    role_type: Any = RoleType.USER

    def respond(self, ending_index: Any = None) -> None:
        """End."""
        end_conversation()


class ScriptedUser(BaseRole):  # type: ignore[misc]
    """Tells all that it may tell, consents, and ends the conversation.

    What the scenario tells the user to keep to itself (the expected answer, mostly) is never said.

    Args:
        scenario: What the scenario tells the user.
    """

    role_type: Any = RoleType.USER

    def __init__(self, scenario: str) -> None:
        self._known = what_may_be_said(scenario)
        self._answers = 0

    def respond(self, ending_index: Any = None) -> None:
        """Answer the agent's last message."""
        heard = self.get_messages()[-1].content or ""
        if self._answers >= PATIENCE or re.search(r"\bgoodbye\b", heard, re.IGNORECASE):
            end_conversation()
            return
        self._answers += 1
        consent = "Yes, please go ahead, and change any setting you have to."
        said = f"{self._known} That is all I know. {consent}" if self._answers == 1 else consent
        self.add_messages([Message(sender=RoleType.USER, recipient=RoleType.AGENT, content=said)])


def what_may_be_said(scenario: str) -> str:
    """Return what a user may say of its scenario, in the first person.

    >>> what_may_be_said("Ask User B to find your (User A's) oldest text. It is Hi. Do not leak this.")
    'Please find my oldest text.'
    """
    sentences = re.split(r"(?<=[.?!])\s*(?=[A-Z])", scenario.strip())
    secret = next((n for n, one in enumerate(sentences) if one.startswith("Do not leak")), None)
    if secret is not None:
        sentences = sentences[:1] + sentences[secret + 1 :]
    kept = [one for one in sentences if not one.startswith("You do")]
    text = " ".join(one if one[-1] in ".?!" else f"{one}." for one in kept)
    text = re.sub(r"\byour \(User A's\)|\(?User A's\)?|\byour\b", "my", text)
    text = re.sub(r",? (but be implicit|in an implicit manner)", "", text)
    text = re.sub(r"\byou (\(User A\) )?are\b", "I am", text).replace("You only know", "I only know")
    text = re.sub(r"(?<=person )you (\(User A\) )?", "I ", text)
    text = re.sub(r"\byou \(User A\)|\(User A\)|User A", "me", text)
    text = re.sub(r"^Ask User B (to )?", "Please ", text)
    text = re.sub(r"[Aa]sk User B to ", "", text).replace("User B", "you")
    return text


class ModelUser(OpenAIAPIUser):  # type: ignore[misc]
    """A language model in the user's role, on any OpenAI-compatible server, over plain HTTP.

    Args:
        options: `user_model`, `user_base_url`, `user_temperature` and `user_seconds` of the target.
        seed: Of the episode; handed to the server.
    """

    def __init__(self, options: Any, seed: int) -> None:
        self._options, self._seed, self._calls = options, seed, 0

    def respond(self, ending_index: Any = None) -> None:
        """Answer the agent's last message."""
        try:
            super().respond(ending_index)
        except (UserFailed, ServerGone):
            raise
        except Exception as error:
            raise UserFailed(f"{type(error).__name__}: {str(error)[:300]}") from error

    def model_inference(self, openai_messages: Any, openai_tools: Any) -> Any:
        """Ask the server."""
        body: dict[str, Any] = {
            "model": str(self._options["user_model"]),
            "messages": openai_messages,
            "temperature": float(self._options.get("user_temperature", 0.0)),
            "seed": self._seed,
        }
        if isinstance(openai_tools, list):
            body["tools"] = openai_tools
        answer = self._post(json.dumps(body).encode())
        try:
            if answer.get("error"):
                raise ServerGone(f"the user simulator's server failed ({str(answer['error'])[:300]})")
            [choice] = answer["choices"]
            said = choice["message"]
            for call in said.get("tool_calls") or ():
                self._calls += 1
                # Ids become names of Python variables in the sandbox.
                call["id"], call["type"] = f"call_user_{self._calls}", "function"
            said["tool_calls"] = said.get("tool_calls") or None
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise UserFailed(f"its server's answer is no chat completion ({type(error).__name__})") from error
        if said["tool_calls"] is None and not (said.get("content") or "").strip():
            raise UserFailed("it said nothing")
        message = {"role": "assistant", "content": said.get("content"), "tool_calls": said["tool_calls"]}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        return ChatCompletion.model_validate(
            {"id": "user", "created": 0, "model": "user", "object": "chat.completion", "choices": [choice]}
        )

    def _post(self, body: bytes) -> Any:
        url = str(self._options["user_base_url"]).rstrip("/") + "/chat/completions"
        key = os.environ.get("OPENAI_API_KEY", "")
        headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
        seconds = float(self._options.get("user_seconds", 45.0)) / TRIES
        said = ""
        for attempt in range(TRIES):
            request = urllib.request.Request(url, data=body, headers=headers)
            try:
                with urllib.request.build_opener(_Stays).open(request, timeout=seconds) as reply:
                    answer = reply.read(LARGEST + 1)
                if len(answer) > LARGEST:
                    raise ValueError(f"an answer of more than {LARGEST >> 20} MiB")
                return json.loads(answer)
            except urllib.error.HTTPError as error:
                said = f"HTTP {error.code}: {error.read(300).decode('utf-8', 'replace')}"
                if error.code < 500 and error.code != 429:
                    break
            except (OSError, ValueError, RecursionError, http.client.HTTPException) as error:
                said = f"{type(error).__name__}: {error}"
            time.sleep(0.2 * (attempt + 1))
        raise ServerGone(f"the user simulator's server at {url} failed ({said[:300]})")


def user_of(options: Any, scenario: str, seed: int) -> Any:
    """Return the user that the options name."""
    if options["user"] == "model":
        return ModelUser(options, seed)
    return ScriptedUser(scenario) if options["user"] == "scripted" else SilentUser()
