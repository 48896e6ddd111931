"""Plays modules of this folder in this process: quick, for the checks that ask what an environment pays for."""
# ruff: noqa: E501

from __future__ import annotations

import copy
import itertools
import marshal
import sys
import types
from collections.abc import Collection
from typing import Any

from trace_assets.environments.audit.battery import CHECKS, _run
from trace_assets.environments.audit.check import Finding, Subject

_NUMBERS = itertools.count()


def module(source: str) -> Any:
    """Execute a module of this folder here."""
    found = types.ModuleType(f"environment_{next(_NUMBERS)}")
    sys.modules[found.__name__] = found  # data classes look their module up
    exec(compile(source, "environment.py", "exec"), found.__dict__)
    return found


def _copied(value: Any) -> Any:
    """Return a copy: as from a sandbox, for nothing that is handed over is the module's own any more."""
    try:
        return marshal.loads(marshal.dumps(value))  # a twentieth of what deepcopy takes
    except ValueError:  # not of plain values alone: what a broken module may say
        return copy.deepcopy(value)


class _Session:
    def __init__(self, played: Any, seed: int) -> None:
        self._played, self.seed = played, seed
        self.messages = _copied(played.reset(seed))
        self.actions: list[dict[str, Any]] = []
        self.done = self.truncated = False

    def step(self, action: dict[str, Any]) -> dict[str, Any]:
        self.actions.append(action)
        answer: dict[str, Any] = _copied(self._played.step(_copied(action)))
        self.done, self.truncated = answer["done"], answer["truncated"]
        return answer

    def verdict(self) -> dict[str, Any]:
        found: dict[str, Any] = _copied(self._played.verdict())
        return found

    def close(self) -> None:
        """Nothing is open."""

    def __enter__(self) -> _Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Here:
    def __init__(self, source: str) -> None:
        self._played = module(source)
        self._tools: Any = None

    def tools(self) -> Any:
        if self._tools is None:  # asked for once, as of a sandbox
            self._tools = _copied(self._played.tools())
        return self._tools

    def oracle(self, seed: int) -> Any:
        return _copied(self._played.oracle(seed))

    def reset(self, seed: int) -> _Session:
        return _Session(self._played, seed)


class HerePool:
    """Stands for a pool of sandboxes, and is none: for this project's own modules alone."""

    version, isolation_level = "here", "none"

    def environment(self, source: str) -> _Here:
        """Return a module, ready to be played."""
        return _Here(source)


WITH_THEIRS = (
    "semantic.oracle_max",
    "semantic.floor_gap",
    "trace.balance",
    "semantic.no_solution_leakage",
    "trace.fidelity.added_fields",
    "trace.fidelity.result_shape",
    "trace.purpose.tools",
    "trace.purpose.looked_up",
    "trace.purpose.rule",
    "trace.purpose.labelled_runs",
    "trace.told.opening",
    "trace.told.results",
    "trace.told.errors",
    "trace.attacker.same_tool",
    "trace.attacker.stranger",
    "trace.mutation.kill_rate",
    "trace.mutation.harmless",
    "trace.mutation.reworded",
)
"""Checks of what is paid, and what they stand on; those that need fresh sandboxes are left out."""


NEED_NO_SANDBOX = tuple(
    check.check_id
    for check in CHECKS
    if check.level in ("semantic", "fidelity", "adversarial", "mutation")
    and check.check_id != "semantic.verifier_determinism"
)
"""All checks that find the same in this process as in a sandbox."""


def findings(subject: Subject, names: Collection[str] = WITH_THEIRS) -> dict[str, Finding]:
    """Run some checks, all others taken for passed."""
    found: dict[str, Finding] = {}
    for check in CHECKS:
        passed = Finding("pass", "not run here")
        found[check.check_id] = _run(check, subject, found) if check.check_id in names else passed
    return {name: found[name] for name in names}
