"""What every analyst must hold to: a kit that anybody can run on an analyst of their own.

    trace analyst check my_package.my_module:make_analyst

or in a test: `check_analyst(MyAnalyst(...), trajectories)`. Each check has a name and fails for one reason.
Every call gets copies of its own, so a broken analyst cannot spoil the checks after it. A check that cannot
tell, because another one failed before it, is reported as not run and is no pass.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path

from trace_assets.conformance import Finding, carry_out, first_broken
from trace_assets.diagnosis.analyst import Analyst
from trace_assets.diagnosis.conformance_checks import CHECKS, Subject
from trace_assets.errors import CheckFailed, InputError, TraceError
from trace_assets.records import Capability, Trajectory


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
    return [carry_out(check, partial(check, subject)) for check in CHECKS.values()]


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
    broken = first_broken(examine_analyst(analyst, trajectories))
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
