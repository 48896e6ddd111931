"""What every target must hold to: a kit that anybody can run on a target of their own.

    trace targets check my_target/target.py

or in a test: `check_target(target)`. Each check has a name and fails for one reason. One that cannot tell,
because another failed before it or the target has no oracle, is reported as not run and is no pass.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from trace_assets.blocking import finish
from trace_assets.conformance import Finding, carry_out, first_broken
from trace_assets.errors import CheckFailed
from trace_assets.progress import progress
from trace_assets.targets.conformance_checks import CHECKS, Check, Subject
from trace_assets.targets.protocol import Target


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
                findings.append(carry_out(check, partial(_run, check, subject)))
                if findings[-1].passed is False:
                    subject.broken.add(name)
                bar.advance(note=name)
        return findings
    finally:
        for target in (first, second):
            close = getattr(target, "close", None)
            if close is not None:
                close()


def _run(check: Check, subject: Subject) -> str:
    return finish(check(subject))


def check_target(make: Callable[[], Target], *, tasks: int = 20) -> None:
    """Run every check and fail with the first broken promise: for a test of one's own.

    Raises:
        CheckFailed: A promise is broken; the message says which, and what was seen.
        Unavailable: A service that the target needs is not there.
    """
    broken = first_broken(examine_target(make, tasks=tasks))
    if broken is not None:
        raise CheckFailed(
            f"this target does not conform ({broken.check}): {broken.detail}; see docs/targets.md."
        )
