"""An environment in the sandbox, and one episode of it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from trace_assets.errors import InputError
from trace_assets.sandbox.faults import EnvironmentFault, SandboxError
from trace_assets.sandbox.sandbox import Leaf
from trace_assets.sandbox.shapes import check_action, check_result

if TYPE_CHECKING:
    from trace_assets.sandbox.pool import SandboxPool

_BATCH = 16
"""Steps in flight at once in `step_many`: enough for every core, few enough for one deadline."""


def _begin(leaf: Leaf, op: str, **fields: Any) -> None:
    try:
        leaf.begin(op, **fields)
    except ValueError as error:
        raise InputError(
            f"what was given to the environment's {op}() cannot be sent to it: {error}"
        ) from None


def _finish(leaf: Leaf, op: str) -> Any:
    value = leaf.finish()
    try:
        check_result(op, value)
    except EnvironmentFault:
        leaf.close()
        raise
    return value


class Session:
    """One live episode. It is a context manager; `verdict` ends it.

    Attributes:
        seed: What it was reset with.
        messages: First messages for the agent.
        actions: Assistant messages played so far; with `seed` all that `replay` needs.
        done: The environment has ended the episode.
        truncated: It ended at the environment's own limit.
    """

    def __init__(self, leaf: Leaf, seed: int, messages: list[dict[str, Any]]) -> None:
        self._leaf = leaf
        self._verdict: dict[str, Any] | None = None
        self._closed = False
        self.seed = seed
        self.messages = messages
        self.actions: list[dict[str, Any]] = []
        self.done = False
        self.truncated = False

    @classmethod
    def start(cls, leaf: Leaf, seed: int) -> Self:
        """Reset the environment in a fresh leaf.

        Raises:
            SandboxError: As its type says; the leaf is closed.
        """
        try:
            _begin(leaf, "reset", seed=seed)
            return cls(leaf, seed, _finish(leaf, "reset"))
        except BaseException:
            leaf.close()
            raise

    def step(self, message: dict[str, Any]) -> dict[str, Any]:
        """Play one assistant message.

        Args:
            message: `{"role": "assistant", "content", "tool_calls": [{"id", "name", "arguments"}]}`.

        Returns:
            `{"messages": new messages for the agent, "done", "truncated"}`.

        Raises:
            InputError: The message is malformed, or the episode is over.
            SandboxError: A fault: the episode has no outcome.
        """
        self._begin_step(message)
        return self._finish_step()

    def _begin_step(self, message: dict[str, Any]) -> None:
        check_action(message)
        if self._closed or self.done or self.truncated:
            raise InputError("this episode is over: reset the environment for another one")
        _begin(self._leaf, "step", message=message)
        self.actions.append(message)

    def _finish_step(self) -> dict[str, Any]:
        result: dict[str, Any] = _finish(self._leaf, "step")
        self.done, self.truncated = result["done"], result["truncated"]
        return result

    def verdict(self) -> dict[str, Any]:
        """What the episode earned; given once by the sandbox, which then forgets the episode.

        Returns:
            `{"reward": float in [0, 1], "success", "checks"}`, each check with `name`, `kind`, `passed`,
            `score`, `gates` and `detail`.

        Raises:
            SandboxError: A fault: the episode has no outcome.
        """
        if self._verdict is None:
            if self._closed:
                raise InputError("this episode was closed before its verdict: play it again")
            _begin(self._leaf, "verdict")
            self._verdict = _finish(self._leaf, "verdict")
            self.close()
        return self._verdict

    def close(self) -> None:
        """Give the episode up; may be called twice."""
        self._closed = True
        self._leaf.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class SandboxedEnvironment:
    """An environment module that runs only in sandboxes.

    Attributes:
        source: The module's text.
        key: SHA-256 of the text.
    """

    def __init__(self, pool: SandboxPool, source: str) -> None:
        self._pool = pool
        self._tools: list[dict[str, Any]] | None = None
        self.source = source
        self.key = hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()

    def tools(self) -> list[dict[str, Any]]:
        """Tools of the environment as OpenAI function schemas; asked for once.

        Raises:
            SandboxError: The module cannot be executed, or its tools are malformed.
        """
        if self._tools is None:
            self._tools = self._once("tools")
        return self._tools

    def oracle(self, seed: int) -> list[dict[str, Any]]:
        """Assistant messages that solve the episode of `seed`, by the environment's own account.

        Raises:
            SandboxError: The environment failed or broke a rule.
        """
        actions: list[dict[str, Any]] = self._once("oracle", seed=seed)
        return actions

    def _once(self, op: str, **fields: Any) -> Any:
        leaf = self._pool.lease(self)
        try:
            _begin(leaf, op, **fields)
            return _finish(leaf, op)
        finally:
            leaf.close()

    def reset(self, seed: int) -> Session:
        """Start an episode.

        Raises:
            SandboxError: As its type says; `SandboxUnavailable` when every sandbox is full.
        """
        return Session.start(self._pool.lease(self), seed)

    def step_many(
        self, steps: Sequence[tuple[Session, dict[str, Any]]]
    ) -> list[dict[str, Any] | SandboxError]:
        """Play one message in each of several episodes at the same time.

        Returns:
            In the order of `steps`, what `Session.step` returns, or the fault it would raise.

        Raises:
            InputError: A message is malformed or an episode is over; nothing after it was played.
        """
        results: list[dict[str, Any] | SandboxError] = []
        for start in range(0, len(steps), _BATCH):
            batch = steps[start : start + _BATCH]
            faults: list[SandboxError | None] = []
            for session, message in batch:
                try:
                    session._begin_step(message)
                    faults.append(None)
                except SandboxError as error:
                    faults.append(error)
            for (session, _message), fault in zip(batch, faults, strict=True):
                try:
                    results.append(fault or session._finish_step())
                except SandboxError as error:
                    results.append(error)
        return results
