"""How a target in its own process fails: whose fault it is decides what becomes of the episode."""

from __future__ import annotations

from trace_assets.errors import TraceError, Unavailable


class TargetFault(TraceError):
    """The target's own code failed, or answered what cannot be used: an environment fault."""

    exit_code = 1


class TargetHung(TargetFault):
    """No answer before the deadline; the process was killed."""


class TargetDied(TargetFault):
    """The process ended in the middle of a call."""


class TargetUnavailable(Unavailable):
    """The target's interpreter, module or a server it needs is not there."""
