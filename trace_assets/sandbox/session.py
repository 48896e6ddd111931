"""An environment in the sandbox, and one episode of it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from trace_assets.errors import InputError
from trace_assets.sandbox.errors import Died, EnvironmentFault, SandboxError
from trace_assets.sandbox.protocol import check_action, check_result
from trace_assets.sandbox.sandbox import Leaf

if TYPE_CHECKING:
    from trace_assets.sandbox.pool import SandboxPool

_BATCH = 16
"""Steps in flight at once in `step_many`: enough for every core, few enough for one deadline."""
_REVIVALS = 3


def _begin(leaf: Leaf, op: str, **fields: Any) -> None:
    try:
        leaf.begin(op, **fields)
    except ValueError as error:
        raise InputError(f"this cannot be sent to the environment's {op}(): {error}") from None


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

    The environment never sees an agent's own ids of its tool calls, by which it could tell who plays: they
    are `call_1`, `call_2`, ... there, whoever makes them, and the agent's own in what comes back.

    When the sandbox is killed for a fault of *another* episode in it, this one is played again from its seed
    and actions in a new sandbox, and goes on.

    Attributes:
        seed: What it was reset with.
        messages: First messages for the agent.
        actions: Assistant messages played so far; with `seed` all that `replay` needs.
        done: The environment has ended the episode.
        truncated: It ended at the environment's own limit.
    """

    def __init__(self, lease: Callable[[], Leaf], seed: int) -> None:
        """Start the episode; `lease` gives a fresh leaf, and another one if the first is lost.

        Raises:
            SandboxError: As its type says.
        """
        self._lease = lease
        self._lost = False
        self._revivals = 0
        self._request: tuple[str, dict[str, Any]] = ("reset", {"seed": seed})
        self._last: Any = None
        self._verdict: dict[str, Any] | None = None
        self._closed = False
        self._sent: list[dict[str, Any]] = []  # the actions as the environment has seen them
        self._own_ids: dict[str, str] = {}  # id of a call there -> the agent's own
        self._action: dict[str, Any] = {}
        self.seed = seed
        self.actions: list[dict[str, Any]] = []
        self.done = False
        self.truncated = False
        self._leaf = lease()
        try:
            self._begin("reset", seed=seed)
            self.messages: list[dict[str, Any]] = self._finish()
        except BaseException:
            self.close()
            raise

    def step(self, message: dict[str, Any]) -> dict[str, Any]:
        """Play one assistant message.

        Args:
            message: `{"role": "assistant", "content", "tool_calls": [{"id", "name", "arguments"}]}`; the
                environment always sees all three keys.

        Returns:
            `{"messages": new messages for the agent, "done", "truncated"}`.

        Raises:
            InputError: The message is malformed, or the episode is over.
            SandboxError: A fault: the episode has no outcome.
        """
        self.begin_step(message)
        return self.finish_step()

    def begin_step(self, message: dict[str, Any]) -> None:
        """Send one assistant message and do not wait: other episodes' requests can be sent meanwhile.

        Raises:
            InputError: As `step`.
            SandboxError: As `step`.
        """
        check_action(message)
        if self._closed or self.done or self.truncated:
            raise InputError("this episode is over: reset the environment for another one")
        calls = message.get("tool_calls") or []
        self._action = {"role": "assistant", "content": message.get("content"), "tool_calls": calls}
        ids = [f"call_{len(self._own_ids) + n}" for n in range(1, len(calls) + 1)]
        self._own_ids.update(zip(ids, (call["id"] for call in calls), strict=True))
        same = [{**call, "id": one} for call, one in zip(calls, ids, strict=True)]
        self._begin("step", message={**self._action, "tool_calls": same})

    def finish_step(self) -> dict[str, Any]:
        """Wait for the answer to what `begin_step` has sent, and return it as `step` does."""
        result: dict[str, Any] = self._finish()
        self.actions.append(self._action)
        self._sent.append(self._request[1]["message"])
        self._last = result
        self.done, self.truncated = result["done"], result["truncated"]
        return {**result, "messages": [self._as_the_agent_knows(one) for one in result["messages"]]}

    def _as_the_agent_knows(self, message: dict[str, Any]) -> dict[str, Any]:
        own = self._own_ids.get(message.get("tool_call_id") or "")
        return message if own is None else {**message, "tool_call_id": own}

    def verdict(self) -> dict[str, Any]:
        """What the episode earned; given once by the sandbox, which then forgets the episode.

        Returns:
            `{"reward": float in [0, 1], "success", "checks"}`, each check with `name`, `kind`, `passed`,
            `score`, `gates` and `detail`.

        Raises:
            InputError: The episode was closed before.
            SandboxError: A fault: the episode has no outcome.
        """
        self.begin_verdict()
        return self.finish_verdict()

    def begin_verdict(self) -> None:
        """Ask for the verdict and do not wait; see `begin_step`."""
        if self._verdict is None:
            if self._closed:
                raise InputError("this episode was closed before its verdict: play it again")
            self._begin("verdict")

    def finish_verdict(self) -> dict[str, Any]:
        """Wait for the verdict that `begin_verdict` has asked for, and return it as `verdict` does."""
        if self._verdict is None:
            self._verdict = self._finish()
            self.close()
        return self._verdict

    def _begin(self, op: str, **fields: Any) -> None:
        self._request = op, fields
        try:
            _begin(self._leaf, op, **fields)
        except Died as error:
            self._mourn(error)

    def _finish(self) -> Any:
        while True:
            if self._lost:
                self._revive()
                _begin(self._leaf, self._request[0], **self._request[1])
            try:
                return _finish(self._leaf, self._request[0])
            except Died as error:
                self._mourn(error)

    def _mourn(self, error: Died) -> None:
        """Let a death pass that was another episode's doing."""
        self._lost = error.reason == "killed" and not self._closed and self._revivals < _REVIVALS
        if not self._lost:
            raise error

    def _revive(self) -> None:
        """Bring a fresh leaf to where the lost one was."""
        self._lost = False
        self._revivals += 1
        self._leaf = self._lease()
        if self._request[0] == "reset":
            return
        messages, last = self._leaf.ask("reset", seed=self.seed), None
        for action in self._sent:
            last = self._leaf.ask("step", message=action)
        if messages != self.messages or last != self._last:
            self._leaf.close()
            raise EnvironmentFault(
                "the environment is not deterministic: the same seed and actions led elsewhere this time"
            )

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
        return Session(lambda: self._pool.lease(self), seed)

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
                    session.begin_step(message)
                    faults.append(None)
                except SandboxError as error:
                    faults.append(error)
            for (session, _message), fault in zip(batch, faults, strict=True):
                try:
                    results.append(fault or session.finish_step())
                except SandboxError as error:
                    results.append(error)
        return results
