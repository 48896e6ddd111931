"""Whether a server says what the trained model says."""

from __future__ import annotations

from typing import ClassVar

from trace_assets.records.base import Record


class ServedParity(Record):
    """Row of the table `served_parities`: one adapter on one server, compared token by token."""

    table: ClassVar[str] = "served_parities"
    key: ClassVar[tuple[str, ...]] = ("adapter",)
    restored_by: ClassVar[str] = "trace serve --check"

    adapter: str
    """The adapter's name: its capability's id, or `mixed`."""
    adapter_id: str
    """Content hash of its PEFT folder."""
    served_as: str
    """The `model` of a request that is answered with it."""
    server: str
    """Address of the server."""
    dtype: str
    """In which the server computes, as `serving.dtype` says."""
    n_tokens: int
    """Sampled tokens compared."""
    n_episodes: int
    """Validation episodes that they come from."""
    max_difference: float
    """Largest difference of a token's log-probability between server and trained model, in nats."""
    mean_difference: float
    """Mean difference, in nats."""
    kl: float
    """Estimated KL divergence of the trained model from the server, per token, in nats."""
    effect: float
    """Largest change that the adapter makes to a log-probability: 0 for one that does nothing."""
    base_difference: float
    """Largest difference between server and base model: 0 for a server that leaves the adapter out."""
    tolerance: float
    """Largest difference that is put down to rounding, in nats."""
    passed: bool
    """Whether the server says what the trained model says, and the adapter does something."""
    detail: str
    """What was found, in one sentence."""
