"""What an exported environment runs on: the sandbox, one call a message, the same rewards as here.

Exported packages import this module. Their environment's code runs in a sandbox of this program's and never
in the process that imports them.
"""

from __future__ import annotations

import atexit
import functools
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any, cast

from trace_assets.errors import InputError
from trace_assets.sandbox import SandboxConfig, SandboxedEnvironment, SandboxError, SandboxPool, Session
from trace_assets.sandbox import open_pool as open_sandboxes
from trace_assets.sandbox.config import Backend
from trace_assets.targets.sandboxed import checked_verdict
from trace_assets.targets.seeds import COLUMNS, ROWS, SeedPermutation

BACKEND_VARIABLE = "TRACE_SANDBOX_BACKEND"
"""Environment variable that names another sandbox than the one chosen at the export."""

_pools: dict[tuple[int, str], SandboxPool] = {}
_lock = threading.Lock()


def shared_pool(backend: str) -> SandboxPool:
    """Return this process's sandboxes, opened at the first call and closed at its exit."""
    name = os.environ.get(BACKEND_VARIABLE) or backend
    key = os.getpid(), name  # a fork must not talk over its parent's connections
    with _lock:
        if key not in _pools:
            pool = open_sandboxes(SandboxConfig(backend=cast(Backend, name)))
            atexit.register(pool.close)
            _pools[key] = pool
        return _pools[key]


class OneCallEpisode:
    """An episode whose assistant messages hold one call or a closing text each.

    Trainers that call tools one by one know no message with several calls, and none with a text beside
    calls; this is the form in which they play.

    Args:
        source: The environment's module.
        backend: Which sandbox; see `shared_pool`.
        seed_key: Key of its seed permutation, in hexadecimal digits; empty gives it the seeds as they are.

    Attributes:
        fault: What broke, when something did: the episode then has no reward.
    """

    def __init__(self, source: str, backend: str, seed_key: str = "") -> None:
        self._source, self._backend, self._seed_key = source, backend, seed_key
        self._session: Session | None = None
        self._verdict: dict[str, Any] | None = None
        self._calls = 0
        self.fault: SandboxError | None = None

    def reset(self, seed: int) -> list[dict[str, Any]]:
        """Begin the episode of a seed; return its first messages.

        Raises:
            SandboxError: The sandbox or the environment failed.
        """
        self.close()
        self._verdict, self._calls, self.fault = None, 0, None
        environment = _environment(self._source, self._backend)
        self._session = self._guarded(lambda: environment.reset(inner_seed(int(seed), self._seed_key)))
        return list(self._session.messages)

    def call(self, name: str, arguments: dict[str, Any]) -> str:
        """Call one tool; return what it answers.

        Raises:
            SandboxError: A fault.
        """
        session = self._open()
        if session.done or session.truncated:
            return '{"error": "the conversation is over"}'
        self._calls += 1
        action = call_action(self._calls, name, arguments)
        answer = self._guarded(lambda: session.step(action))
        told = [one for one in answer["messages"] if one["role"] == "tool"]
        return "\n".join(str(one.get("content") or "") for one in told or answer["messages"])

    def say(self, text: str) -> None:
        """End with words.

        Raises:
            SandboxError: A fault.
        """
        session = self._open()
        if not (session.done or session.truncated):
            self._guarded(lambda: session.step(say_action(text)))

    def verdict(self) -> dict[str, Any]:
        """Judge the episode as it stands; asked again, it gives the same.

        Raises:
            SandboxError: A fault: there is no reward.
        """
        if self._verdict is None:
            session = self._open()
            self._verdict = self._guarded(session.verdict)
            checked_verdict(self._verdict)
        return self._verdict

    def close(self) -> None:
        """Give the episode up; may be called twice."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def _open(self) -> Session:
        if self.fault is not None:
            raise self.fault
        if self._session is None:
            raise InputError("this episode was not reset; call reset() with a seed first.")
        return self._session

    def _guarded(self, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except SandboxError as fault:
            self.fault = fault
            raise


def call_action(number: int, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the assistant message that makes one call."""
    call = {"id": f"call_{number}", "name": name, "arguments": arguments}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def say_action(text: str) -> dict[str, Any]:
    """Return the assistant message that says something."""
    return {"role": "assistant", "content": text, "tool_calls": []}


def inner_seed(seed: int, seed_key: str) -> int:
    """Return what the environment is given for a seed; seeds past the permutation's range begin again."""
    if not seed_key:
        return seed
    return SeedPermutation(bytes.fromhex(seed_key))(seed % (COLUMNS * ROWS))


def judge(
    source: str, backend: str, seed: int, actions: Sequence[dict[str, Any]], seed_key: str = ""
) -> dict[str, Any]:
    """Play recorded actions and return the verdict.

    Args:
        source: The environment's module.
        backend: Which sandbox.
        seed: Of the recorded episode.
        actions: Its assistant messages, as `call_action` and `say_action` make them; those after the
            environment's end are left out, as they were in the episode.
        seed_key: Key of its seed permutation; see `OneCallEpisode`.

    Raises:
        SandboxError: A fault: there is no reward.
    """
    with _environment(source, backend).reset(inner_seed(int(seed), seed_key)) as session:
        for action in actions:
            if session.done or session.truncated:
                break
            session.step(action)
        verdict = session.verdict()
    checked_verdict(verdict)
    return verdict


def tool(method: Callable[..., str]) -> Callable[..., str]:
    """Make a tool of a method: it keeps its signature and docstring, and takes whatever a model passes.

    A wrong call is then answered by the environment, as it is anywhere else.
    """

    @functools.wraps(method)
    def called(self: Any, /, **arguments: Any) -> str:
        return cast(str, self._episode.call(method.__name__, arguments))

    return called


@functools.lru_cache(maxsize=64)
def _environment_of(pool: SandboxPool, source: str) -> SandboxedEnvironment:
    return pool.environment(source)


def _environment(source: str, backend: str) -> SandboxedEnvironment:
    return _environment_of(shared_pool(backend), source)
