"""How an episode was judged: named checks, a reward, success."""

from __future__ import annotations

from typing import ClassVar, Literal

from trace_assets.records.base import Record

CheckKind = Literal["state", "action", "communicate", "judge", "milestone", "minefield", "protocol"]

Stop = Literal[
    "completed",  # the agent or its user ended the conversation
    "transferred",  # handed to a person
    "max_turns",
    "context_overflow",
    "agent_error",  # the agent's output could not be used
    "user_error",  # the user simulator failed
    "environment_error",  # the target failed
    "infrastructure_error",  # server, network, sandbox: nobody's answer
    "unknown",
]


class Check(Record):
    """One thing the grader looked at."""

    name: str
    kind: CheckKind
    passed: bool | None
    """None: the check did not run, so success may not be claimed."""
    score: float | None = None
    gates: bool = True
    """Whether success requires this check."""
    detail: str = ""


class CheckRow(Check):
    """Row of the table `checks`."""

    table: ClassVar[str] = "checks"
    key: ClassVar[tuple[str, ...]] = ("trajectory_id", "name")

    trajectory_id: str


class Verdict(Record):
    """What an episode earned."""

    reward: float | None
    """Finite; None when nothing may be said (a fault, a judge that did not run)."""
    success: bool | None
    checks: tuple[Check, ...] = ()
