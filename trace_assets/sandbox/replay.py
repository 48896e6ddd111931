"""The second opinion on a reward: the same actions played again where nothing has run before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trace_assets.sandbox.pool import SandboxPool
from trace_assets.sandbox.session import Session


def replay(pool: SandboxPool, source: str, seed: int, actions: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Play recorded actions in a fresh container and return its verdict.

    Args:
        pool: Where the container comes from; it is started for this call and thrown away after it.
        source: The environment's source text.
        seed: Seed of the recorded episode.
        actions: Its assistant messages in order, as `Session.actions` holds them.

    Returns:
        The verdict, as `Session.verdict` gives it.

    Raises:
        SandboxError: The replay failed where the recorded episode did not.
    """
    environment = pool.environment(source)
    box = pool.fresh(environment)
    try:
        with Session(box.leaf, seed) as session:
            for action in actions:
                session.step(action)
            return session.verdict()
    finally:
        box.fail()
