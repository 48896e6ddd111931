"""Rounds: which agent each came to, and what it found."""

from __future__ import annotations

from typing import ClassVar

from trace_assets.records.base import Record


class RoundAgent(Record):
    """Row of the table `round_agents`: the one model that stands for what this round taught."""

    table: ClassVar[str] = "round_agents"
    key: ClassVar[tuple[str, ...]] = ("base_id",)

    base_id: str
    agent_id: str
    """Content hash of the base model with these adapters merged in; empty where none was chosen."""
    members: tuple[str, ...]
    """The adapters of that sum, or the one for all capabilities."""
    adapter_ids: tuple[str, ...]
    """Their content hashes, in the same order."""
    path: str
    """The merged model's folder, relative to TRACE_HOME."""
    n_tasks: int
    """Validation tasks judged under both."""
    pass_rate: float | None
    """On validation tasks; of the best of several, so a little too high."""
    pass_rate_low: float | None
    pass_rate_high: float | None
    base_rate: float | None
    """The base model's, on the same tasks."""
    delta: float | None
    """`pass_rate` minus `base_rate`, with a bootstrap over tasks."""
    delta_low: float | None
    delta_high: float | None
    n_candidates: int
    """Single adapters, sums and adapters for all that were compared."""
    harmful: tuple[str, ...]
    """Candidates that are shown to lose on some skill, and were not chosen for it."""
    training_rollouts: int
    """Training episodes of all adapters of the round, chosen or not."""
    warm_started: tuple[str, ...] = ()
    """Adapters whose training began with demonstrations."""
    detail: str


class Round(Record):
    """Row of the table `rounds`: one round, as the study sees it."""

    table: ClassVar[str] = "rounds"
    key: ClassVar[tuple[str, ...]] = ("round",)
    volatile: ClassVar[frozenset[str]] = frozenset({"cpu_seconds", "rollouts"})

    round: int
    """From 1, the study's own."""
    place: str
    """Its home, relative to TRACE_HOME; empty for the first."""
    base_id: str
    n: int
    """Discovery episodes of its base model that were judged."""
    pass_rate: float | None
    """Theirs."""
    pass_rate_low: float | None
    pass_rate_high: float | None
    found: tuple[str, ...]
    """Names of the capabilities that were kept."""
    taught: tuple[str, ...]
    """Names of those whose adapter was trained."""
    warm_started: tuple[str, ...]
    """Names of those whose training began with demonstrations."""
    agent_id: str
    """The model that it came to; empty where none was chosen."""
    members: tuple[str, ...]
    """The adapters that it adds."""
    adapter_ids: tuple[str, ...]
    """Their content hashes."""
    paths: tuple[str, ...]
    """Their folders, relative to TRACE_HOME."""
    n_tasks: int
    """Validation tasks behind the three figures that follow."""
    base_rate: float | None
    """Share of them that its base model passes."""
    agent_rate: float | None
    """Share that its agent passes."""
    delta: float | None
    """The difference, with a bootstrap over tasks."""
    delta_low: float | None
    delta_high: float | None
    taken: bool
    """Whether its adapters are part of the study's agent."""
    last: bool
    """Whether no round follows."""
    detail: str
    training_rollouts: int
    """Training episodes of its adapters."""
    rollouts: int
    """Episodes that its ledger books, of every kind."""
    cpu_seconds: float
    """CPU seconds that its ledger books."""
