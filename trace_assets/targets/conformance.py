"""What every target must hold to: a kit that anybody can run on a target of their own.

    trace targets check my_target/target.py

or in a test: `check_target(target)`. Each check has a name and fails for one reason. One that cannot tell,
because another failed before it or the target has no oracle, is reported as not run and is no pass.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from trace_assets.errors import CheckFailed, TraceError, Unavailable
from trace_assets.progress import progress
from trace_assets.targets.conformance_checks import CHECKS, Broken, Found, Subject, Undecided
from trace_assets.targets.protocol import Target


@dataclass(frozen=True)
class Finding:
    """What one check found.

    Attributes:
        check: Its name.
        passed: None when it could not tell.
        promise: What it demands.
        detail: What was seen: a figure with its n, what is wrong, or why it could not tell.
    """

    check: str
    passed: bool | None
    promise: str
    detail: str = ""


def examine_target(make: Callable[[], Target], *, tasks: int = 20, seed: int = 0) -> list[Finding]:
    """Run every check on a target.

    Args:
        make: Opens the target; called twice, so that two of them (for targets of their own interpreter: two
            processes) can be compared. Both are closed where they can be.
        tasks: How many tasks of each split are played, the first ones.
        seed: Of all episodes.

    Returns:
        One finding a check, in the order of `CHECKS`.

    Raises:
        Unavailable: A service that the target needs is not there.
        InputError: The target cannot be opened at all.
    """
    first, second = make(), None
    try:
        second = make()
        subject = Subject(first, second, tasks, seed)
        findings = []
        with progress(f"check target {first.name}", len(CHECKS)) as bar:
            for name, check in CHECKS.items():
                findings.append(_finding(name, check, subject))
                bar.advance(note=name)
        return findings
    finally:
        for target in (first, second):
            close = getattr(target, "close", None)
            if close is not None:
                close()


async def _await(found: Found) -> str:
    return await found


def _finding(name: str, check: Callable[[Subject], Found], subject: Subject) -> Finding:
    promise = " ".join((check.__doc__ or "").split())
    try:
        detail = asyncio.run(_await(check(subject)))
    except Undecided as reason:
        return Finding(name, None, promise, str(reason))
    except Broken as fault:
        subject.broken.add(name)
        return Finding(name, False, promise, str(fault))
    except Unavailable:
        raise
    except TraceError as fault:
        subject.broken.add(name)
        return Finding(name, False, promise, str(fault))
    except Exception as fault:  # a target in this process may raise anything
        subject.broken.add(name)
        return Finding(name, False, promise, f"{type(fault).__name__}: {fault}")
    return Finding(name, True, promise, detail)


def check_target(make: Callable[[], Target], *, tasks: int = 20) -> None:
    """Run every check and fail with the first broken promise: for a test of one's own.

    Raises:
        CheckFailed: A promise is broken; the message says which, and what was seen.
        Unavailable: A service that the target needs is not there.
    """
    broken = next((one for one in examine_target(make, tasks=tasks) if one.passed is False), None)
    if broken is not None:
        raise CheckFailed(
            f"this target does not conform ({broken.check}): {broken.detail}; see docs/targets.md."
        )


def verdict(findings: Sequence[Finding]) -> Mapping[str, int]:
    """Count findings: passed, failed, not_run."""
    states = [one.passed for one in findings]
    return {"passed": states.count(True), "failed": states.count(False), "not_run": states.count(None)}
