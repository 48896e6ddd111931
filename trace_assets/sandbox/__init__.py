"""Where code that nobody has reviewed runs: isolated, bounded, and spoken to in a strict protocol."""

from trace_assets.sandbox.config import SandboxConfig
from trace_assets.sandbox.errors import (
    Died,
    EnvironmentFault,
    ProtocolError,
    SandboxError,
    SandboxUnavailable,
    Timeout,
    TooLarge,
)
from trace_assets.sandbox.pool import SandboxPool, open_pool
from trace_assets.sandbox.reward_verification import replay
from trace_assets.sandbox.session import SandboxedEnvironment, Session

__all__ = [
    "Died",
    "EnvironmentFault",
    "ProtocolError",
    "SandboxConfig",
    "SandboxError",
    "SandboxPool",
    "SandboxUnavailable",
    "SandboxedEnvironment",
    "Session",
    "Timeout",
    "TooLarge",
    "open_pool",
    "replay",
]
