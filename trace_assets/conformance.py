"""What the kits for targets and for analysts share: a check passes, is broken, or cannot tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from trace_assets.errors import TraceError, Unavailable


class Broken(Exception):
    """A promise is broken; says what was seen."""


class Undecided(Exception):
    """The check could not tell, such as after another one failed; says why."""


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


def carry_out(check: Callable[..., object], run: Callable[[], str | None]) -> Finding:
    """Run one check; whatever the code under examination raises breaks the promise.

    Args:
        check: The check; its name is the finding's and its docstring is what it demands.
        run: Carries it out and returns what was seen, if that is worth saying.

    Raises:
        Unavailable: A service that the code under examination needs is not there.
    """
    name, promise = check.__name__, " ".join((check.__doc__ or "").split())
    try:
        return Finding(name, True, promise, run() or "")
    except Undecided as reason:
        return Finding(name, None, promise, str(reason))
    except Unavailable:
        raise
    except (Broken, TraceError) as fault:
        return Finding(name, False, promise, str(fault))
    except Exception as fault:  # what is examined runs in this process and may raise anything
        return Finding(name, False, promise, f"{type(fault).__name__}: {fault}")


def first_broken(findings: Sequence[Finding]) -> Finding | None:
    """Return the first finding that says that a promise is broken."""
    return next((one for one in findings if one.passed is False), None)


def tally(findings: Sequence[Finding]) -> Mapping[str, int]:
    """Count findings.

    >>> tally([Finding("a", True, ""), Finding("b", None, "")])
    {'passed': 1, 'failed': 0, 'not_run': 1}
    """
    states = [one.passed for one in findings]
    return {"passed": states.count(True), "failed": states.count(False), "not_run": states.count(None)}
