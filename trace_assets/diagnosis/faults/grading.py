"""Rules on the grader and the tools: what the environment owed the agent."""

from __future__ import annotations

import re

from trace_assets.diagnosis.faults.case import Case, Ruling

_EXCEPTION = re.compile(
    r"Traceback \(most recent call last\)|Internal Server Error|Segmentation fault|Service Unavailable|"
    r"Bad Gateway|Gateway Time-?out|Connection (?:refused|reset|aborted|timed out)|"
    # What a bug raises. ValueError, TypeError and their like are left out: tools refuse with them.
    r"\b(?:Key|Attribute|Index|Name|ZeroDivision|Runtime|Assertion|Recursion|Memory|Connection|Timeout|"
    r"JSONDecode|Operational|UnboundLocal|NotImplemented|ModuleNotFound|Import)(?:Error|Exception)\b"
)
_START = 400
"""Characters of a result in which an exception is looked for: longer results are data."""


def not_judged(case: Case) -> Ruling | None:
    """There is no verdict, or a check that success requires did not run and none that ran failed."""
    one = case.trajectory
    if one.success is None:
        return Ruling("environment", "reward_missing", (), "the grader gave no reward")
    gates = [check for check in one.checks if check.gates]
    silent = [check.name for check in gates if check.passed is None]
    if silent and not any(check.passed is False for check in gates):
        return Ruling("environment", "check_missing", (), f"these checks did not run: {', '.join(silent)}")
    return None


def tool_exception(case: Case) -> Ruling | None:
    """A tool broke rather than refused, and was never called successfully afterwards."""
    transcript = case.transcript
    for step in transcript.steps:
        if step.answer is None:
            continue
        found = _EXCEPTION.search(step.result[:_START])
        if found is None or not (
            step.failed or step.result.lstrip().startswith(("Traceback", found.group(0)))
        ):
            continue
        if any(later.index > step.index for later in transcript.calls(step.tool, ok=True)):
            continue
        detail = f"{step.tool} broke: {step.result[:_START].strip().splitlines()[-1][:200]}"
        return Ruling("environment", "tool_exception", (step.index, step.answer), detail)
    return None
