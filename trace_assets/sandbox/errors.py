"""What can go wrong between a sandbox and the host, each its own type. None of them is ever a reward."""

from __future__ import annotations

from trace_assets.errors import TraceError, Unavailable
from trace_assets.untrusted.printable import one_line


class SandboxError(TraceError):
    """Something in or around a sandbox failed; the episode has no outcome.

    Attributes:
        kind: Short name for tables and logs, such as `timeout`.
    """

    kind: str = "sandbox"

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class Timeout(SandboxError):
    """No complete answer before the deadline; the sandbox was killed."""

    kind = "timeout"


class Died(SandboxError):
    """The process behind the answer is gone; the sandbox was killed.

    Attributes:
        reason: `oom`, `exit <status>`, `signal <number>`, `fork` (no process was to be had), `killed`
            (another episode of the same sandbox broke a rule), or `unknown`.
    """

    kind = "died"

    def __init__(self, message: str, reason: str = "unknown") -> None:
        super().__init__(message)
        self.reason = reason


class ProtocolError(SandboxError):
    """The bytes received are not a reply the protocol allows; the sandbox was killed."""

    kind = "protocol"


class TooLarge(SandboxError):
    """A reply grew past the longest line allowed; the sandbox was killed."""

    kind = "too_large"


class EnvironmentFault(SandboxError):
    """The environment's own failure: it raised, or returned something of the wrong shape.

    The episode is over; the sandbox lives on.
    """

    kind = "environment"


class SandboxUnavailable(SandboxError, Unavailable):
    """No sandbox could be had: no daemon, no image, a refused start, or every sandbox is busy."""

    kind = "unavailable"
