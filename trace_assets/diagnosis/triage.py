"""To whom a failure is put down, before anybody looks for what the agent lacks.

Rules in order, the first that applies decides; a failure that no rule claims is the agent's. A simulated
user, the environment and the infrastructure are accused only on evidence in the record or the messages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from trace_assets.diagnosis.detectors.mutation import mutating_tools
from trace_assets.diagnosis.detectors.transcript import Transcript
from trace_assets.records import Fault, Trajectory, Triage
from trace_assets.records.verdict import Stop

# English only; in other languages the simulator is simply not accused.
_CONSENT = re.compile(
    r"^\W*(yes|yeah|yep|sure|ok|okay|go ahead|that works|confirmed?|"
    r"please (do|go|proceed|confirm|transfer|complete))\b"
)
_ASKING = re.compile(
    r"\?\W*$|\b(confirm|would you like|shall i|do you want|let me know if|once you|please reply)\b"
)
_HANDOVER = re.compile(r"transfer|human|escalat|representative|hand_?over")
_CONTROL = re.compile(r"#{2,}[\w-]+#{2,}")
_EXCEPTION = re.compile(r"Traceback \(most recent call last\)|Internal Server Error", re.IGNORECASE)

_STOP_FAULTS: Mapping[Stop, tuple[Fault, str]] = {
    "infrastructure_error": ("infrastructure", "infrastructure_stop"),
    "environment_error": ("environment", "environment_stop"),
    "user_error": ("user_simulator", "simulator_error"),
    "agent_error": ("agent", "agent_error"),
    "context_overflow": ("agent", "context_overflow"),
    "max_turns": ("agent", "step_limit"),
}
REPEATS = 3
"""Equal messages in a row from which a simulated user counts as stuck."""


class Ruling(NamedTuple):
    """What one rule says about a trajectory."""

    fault: Fault
    rule: str
    evidence: tuple[int, ...] = ()
    detail: str = ""


def _recorded(trajectory: Trajectory, transcript: Transcript) -> Ruling | None:
    """The program that ran or recorded the episode said that something broke."""
    if trajectory.fault is None:
        return None
    return Ruling(trajectory.fault, "recorded_fault", (), trajectory.error or f"stopped by {trajectory.stop}")


def _broken_stop(trajectory: Trajectory, transcript: Transcript) -> Ruling | None:
    """The episode was stopped by something other than the agent."""
    fault, rule = _STOP_FAULTS.get(trajectory.stop, ("agent", ""))
    if not rule or fault == "agent":
        return None
    return Ruling(fault, rule, (), trajectory.error or f"stopped by {trajectory.stop}")


def _not_judged(trajectory: Trajectory, transcript: Transcript) -> Ruling | None:
    """There is no verdict, or a check that success requires did not run and none that ran failed."""
    if trajectory.success is None:
        return Ruling("environment", "reward_missing", (), "the grader gave no reward")
    gates = [check for check in trajectory.checks if check.gates]
    silent = [check.name for check in gates if check.passed is None]
    if silent and not any(check.passed is False for check in gates):
        return Ruling("environment", "check_missing", (), f"these checks did not run: {', '.join(silent)}")
    return None


def _tool_exception(trajectory: Trajectory, transcript: Transcript) -> Ruling | None:
    """A tool broke rather than refused, and was never called successfully afterwards."""
    for step in transcript.steps:
        if step.answer is not None and _EXCEPTION.search(step.result):
            if any(later.index > step.index for later in transcript.calls(step.tool, ok=True)):
                continue
            return Ruling("environment", "tool_exception", (step.index, step.answer), f"{step.tool} broke")
    return None


def _simulator_stopped_first(trajectory: Trajectory, transcript: Transcript) -> Ruling | None:
    """The simulated user agreed to what the agent offered to do and ended the conversation in one message."""
    messages = trajectory.messages
    if trajectory.user_policy is None or len(messages) < 3 or trajectory.stop == "max_turns":
        return None
    last, before = messages[-1], messages[-2]
    if last.role != "user" or before.role != "assistant" or not last.content or not before.content:
        return None
    words = _CONTROL.sub("", last.content).strip().lower()
    if not _CONSENT.match(words) or not _ASKING.search(before.content.lower()[-400:]):
        return None
    missing = _missing_writes(trajectory, transcript)
    if _HANDOVER.search(words):
        # Agreeing to be handed over spoils the run only where handing over was what the task wanted.
        missing = [tool for tool in missing or () if _HANDOVER.search(tool)]
    if missing is not None and not missing:
        return None
    detail = "the user agreed and ended before the agent could act"
    detail += f" (never called: {', '.join(missing)})" if missing else ""
    return Ruling("user_simulator", "simulator_stopped_first", (len(messages) - 2, len(messages) - 1), detail)


def _missing_writes(trajectory: Trajectory, transcript: Transcript) -> list[str] | None:
    """Return the writing tools that the grader expected and nobody called; None when it names no actions."""
    actions = [check for check in trajectory.checks if check.kind == "action"]
    if not actions:
        return None
    expected = {check.name.rpartition("/")[2] for check in actions if check.passed is False}
    writes = mutating_tools([transcript], names=expected)
    return sorted(tool for tool in expected & writes if not transcript.calls(tool, ok=True))


def _simulator_stuck(trajectory: Trajectory, transcript: Transcript) -> Ruling | None:
    """The simulated user said the same thing again and again to different messages of the agent."""
    if trajectory.user_policy is None:
        return None
    said = [
        (i, one.content) for i, one in enumerate(trajectory.messages) if one.role == "user" and one.content
    ]
    tail = said[-REPEATS:]
    if len(tail) < REPEATS or len({content for _, content in tail}) > 1:
        return None
    answers = {
        one.content for one in trajectory.messages[tail[0][0] :] if one.role == "assistant" and one.content
    }
    if len(answers) < REPEATS - 1:
        return None
    evidence = tuple(index for index, _ in tail)
    return Ruling("user_simulator", "simulator_stuck", evidence, f"the user repeated itself {REPEATS} times")


def _agent(trajectory: Trajectory, transcript: Transcript) -> Ruling:
    """Everything else is the agent's, with the way it ended where that says more."""
    _, rule = _STOP_FAULTS.get(trajectory.stop, ("agent", ""))
    last = (transcript.last,) if transcript.last >= 0 else ()
    failed = [check.name for check in trajectory.checks if check.gates and check.passed is False]
    detail = f"checks that failed: {', '.join(failed[:5])}" if failed else ""
    return Ruling("agent", rule or "agent", last if rule else (), detail)


RULES: tuple[Callable[[Trajectory, Transcript], Ruling | None], ...] = (
    _recorded,
    _broken_stop,
    _not_judged,
    _tool_exception,
    _simulator_stopped_first,
    _simulator_stuck,
    _agent,
)


def triage(trajectories: Iterable[Trajectory]) -> list[Triage]:
    """Put each failure down to the agent, its user simulator, the environment or the infrastructure.

    Deterministic: the same trajectory gets the same ruling. A fault of infrastructure, or a missing reward,
    makes the outcome `unjudged`: it is nobody's failure to learn from.

    Args:
        trajectories: Of any targets, judged or not.

    Returns:
        One row a trajectory, in their order; the fault is None exactly for passed ones.
    """
    return [_triage(trajectory) for trajectory in trajectories]


def _triage(trajectory: Trajectory) -> Triage:
    if trajectory.success:
        ruling = None
    else:
        transcript = Transcript(trajectory)
        rulings = (rule(trajectory, transcript) for rule in RULES)
        ruling = next(found for found in rulings if found is not None)
    unjudged = ruling is not None and (trajectory.success is None or ruling.fault == "infrastructure")
    return Triage(
        trajectory_id=trajectory.trajectory_id,
        target=trajectory.target,
        task_id=trajectory.task_id,
        outcome="passed" if ruling is None else "unjudged" if unjudged else "failed",
        fault=ruling.fault if ruling else None,
        rule=ruling.rule if ruling else "passed",
        evidence=ruling.evidence if ruling else (),
        detail=ruling.detail if ruling else "",
    )
