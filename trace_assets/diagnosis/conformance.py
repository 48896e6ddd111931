"""What every analyst must hold to: a kit that anybody can run on an analyst of their own.

    trace analyst check my_package.my_module:make_analyst
    python -m trace_assets.diagnosis.conformance my_package.my_module:make_analyst

or in a test: `check_analyst(MyAnalyst(...), trajectories)`. Each check has a name and fails for one reason.
Every call gets copies of its own, so a broken analyst cannot spoil the checks after it. A check that cannot
tell, because another one failed before it, is reported as not run and is no pass.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from trace_assets.diagnosis.analyst import Analyst
from trace_assets.diagnosis.conformance_checks import CHECKS, Broken, Subject, Undecided
from trace_assets.errors import CheckFailed, InputError, TraceError
from trace_assets.records import Capability, Trajectory


@dataclass(frozen=True)
class Finding:
    """What one check found.

    Attributes:
        check: Its name.
        passed: None when it could not tell.
        promise: What it demands.
        detail: What is wrong, or why it could not tell.
    """

    check: str
    passed: bool | None
    promise: str
    detail: str = ""


def examine_analyst(analyst: Analyst, trajectories: Sequence[Trajectory]) -> list[Finding]:
    """Run every check on an analyst.

    Args:
        analyst: The analyst.
        trajectories: Judged ones of one target, some of them successes and some failures, such as those of
            `trace_assets.diagnosis.rehearsal.rehearse`.

    Returns:
        One finding a check, in the order of `CHECKS`.

    Raises:
        InputError: The trajectories cannot show anything.
        Unavailable: A service that the analyst needs is not there.
    """
    outcomes = {one.success for one in trajectories}
    if not {True, False} <= outcomes or len({one.target for one in trajectories}) != 1:
        raise InputError(
            "an analyst is checked on trajectories of one target, successes and failures among them."
        )
    subject = Subject(analyst, trajectories)
    return [_finding(name, check, subject) for name, check in CHECKS.items()]


def _finding(name: str, check: Callable[[Subject], None], subject: Subject) -> Finding:
    promise = " ".join((check.__doc__ or "").split())
    try:
        check(subject)
    except Undecided as reason:
        return Finding(name, None, promise, str(reason))
    except Broken as fault:
        return Finding(name, False, promise, str(fault))
    return Finding(name, True, promise)


def check_analyst(analyst: Analyst, trajectories: Sequence[Trajectory]) -> list[Capability]:
    """Run every check and fail with the first broken promise.

    Args:
        analyst: The analyst.
        trajectories: As for `examine_analyst`.

    Returns:
        The capabilities it proposed, for further checks of one's own.

    Raises:
        CheckFailed: A promise is broken; the message says which, and where.
    """
    findings = examine_analyst(analyst, trajectories)
    broken = next((one for one in findings if one.passed is False), None)
    if broken is not None:
        raise CheckFailed(
            f"this analyst does not conform ({broken.check}): {broken.detail}; "
            "see trace_assets.diagnosis.analyst."
        )
    return analyst.discover(trajectories)


def load_analyst(spec: str) -> Analyst:
    """Return the analyst that `module:factory` makes.

    Args:
        spec: An importable module (the working directory counts) and a callable in it without arguments.

    Raises:
        InputError: There is no such module or factory, or it fails.
    """
    module, colon, name = spec.partition(":")
    if not colon or not module or not name:
        raise InputError(f"'{spec}' is not of the form module:factory, such as my_package.analyst:make.")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        factory: Callable[[], Analyst] = getattr(import_module(module), name)
        return factory()
    except TraceError:
        raise
    except Exception as error:
        raise InputError(
            f"'{spec}' makes no analyst ({type(error).__name__}: {error}); it must name a callable without "
            "arguments whose result has the members of trace_assets.diagnosis.analyst.Analyst."
        ) from error


def verdict(findings: Sequence[Finding]) -> Mapping[str, int]:
    """Count findings: passed, failed, not_run."""
    states = [one.passed for one in findings]
    return {"passed": states.count(True), "failed": states.count(False), "not_run": states.count(None)}


def main(arguments: Sequence[str]) -> int:
    """Check the analyst that one argument names; 0 when it conforms, 1 when not, 2 and 3 as `trace` does."""
    from trace_assets.diagnosis.rehearsal import rehearse

    if len(arguments) != 1:
        print("usage: python -m trace_assets.diagnosis.conformance module:factory", file=sys.stderr)
        return 2
    try:
        findings = examine_analyst(load_analyst(arguments[0]), rehearse(60).trajectories)
    except TraceError as error:
        print(f"trace: {error}", file=sys.stderr)
        return error.exit_code
    words = {True: "passed ", False: "FAILED ", None: "not run"}
    for one in findings:
        print(f"{words[one.passed]}  {one.check}: {one.detail or one.promise}")
    return 1 if any(one.passed is False for one in findings) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
