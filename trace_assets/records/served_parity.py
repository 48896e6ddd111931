"""Whether a server says what the trained model says."""

from __future__ import annotations

from typing import ClassVar

from trace_assets.records.base import Record


class ServedParity(Record):
    """Row of the table `served_parities`: one adapter on one server, compared token by token."""

    table: ClassVar[str] = "served_parities"
    key: ClassVar[tuple[str, ...]] = ("adapter",)

    adapter: str
    adapter_id: str
    served_as: str
    """The `model` of a request that is answered with it."""
    server: str
    """Address of the server."""
    dtype: str
    n_tokens: int
    """Sampled tokens compared."""
    n_episodes: int
    max_difference: float
    """Largest difference of a token's log-probability between server and trained model, in nats."""
    mean_difference: float
    kl: float
    """Estimated KL divergence of the trained model from the server, per token, in nats."""
    effect: float
    """Largest change that the adapter makes to a log-probability: 0 for one that does nothing."""
    base_difference: float
    """Largest difference between server and base model: 0 for a server that leaves the adapter out."""
    tolerance: float
    passed: bool
    detail: str
