"""An attack that is more than a module: something done to the sandboxes from outside."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from trace_assets.sandbox.backend import IsolationLevel
from trace_assets.sandbox.battery.attack import Group
from trace_assets.sandbox.battery.outcome import Outcome, Played, Status, of_fault
from trace_assets.sandbox.faults import SandboxError, SandboxUnavailable
from trace_assets.sandbox.pool import SandboxPool


@dataclass(frozen=True)
class Scenario:
    """Something that is done to the sandboxes from outside.

    Attributes:
        name: Its name.
        group: Its group.
        tries: What is done, in one sentence.
        expected: The good outcomes.
        run: Does it in a pool.
        backends: Where it means something.
        why_not: Why it means nothing in the others.
    """

    name: str
    group: Group
    tries: str
    expected: tuple[str, ...]
    run: Callable[[SandboxPool], Outcome]
    backends: tuple[IsolationLevel, ...] = ("docker", "bubblewrap")
    why_not: str = ""

    def play(self, pool: SandboxPool) -> Played:
        """Do it and judge what came of it.

        Raises:
            SandboxUnavailable: There is no sandbox to do it to.
        """
        began = time.monotonic()
        if pool.isolation_level not in self.backends:
            reason = self.why_not or f"means nothing with isolation '{pool.isolation_level}'"
            return self._record("skip", Outcome("", reason), 0.0)
        try:
            outcome = self.run(pool)
        except SandboxUnavailable:
            raise
        except SandboxError as error:
            outcome = of_fault(error)
        good = any(outcome.name == one or outcome.name.startswith(f"{one} ") for one in self.expected)
        return self._record("pass" if good else "fail", outcome, time.monotonic() - began)

    def _record(self, status: Status, outcome: Outcome, seconds: float) -> Played:
        return Played(
            name=self.name,
            group=self.group,
            tries=self.tries,
            status=status,
            expected=" or ".join(self.expected),
            outcome=outcome.name,
            detail=" ".join(outcome.detail.split())[:1000],
            seconds=seconds,
        )
