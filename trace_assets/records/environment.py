"""A generated training environment and what its audit found."""

from __future__ import annotations

from typing import ClassVar, Literal

from trace_assets.records.base import Json, Record


class Environment(Record):
    """Row of the table `environments`."""

    table: ClassVar[str] = "environments"
    key: ClassVar[tuple[str, ...]] = ("capability_id",)

    environment_id: str
    """Hash of the source: the same code is the same environment."""
    capability_id: str
    target: str
    writer: str
    """`recipe:<name>` or `model:<name>`."""
    source: str
    """The module's Python source. It only ever runs in the sandbox."""
    n_versions: int = 1
    """Versions written before this one was kept, this one included."""


class EnvironmentCheck(Record):
    """Row of the table `environment_checks`: one finding of the audit."""

    table: ClassVar[str] = "environment_checks"
    key: ClassVar[tuple[str, ...]] = ("capability_id", "check_id")
    volatile: ClassVar[frozenset[str]] = frozenset({"timing"})

    environment_id: str
    capability_id: str
    check_id: str
    """OpenEnv RFC 008 id where one exists (`semantic.oracle_max`), `trace.*` otherwise."""
    level: Literal["static", "runtime", "semantic", "adversarial", "mutation", "statistical", "fidelity"]
    status: Literal["pass", "fail", "skip"]
    severity: Literal["error", "warning", "info"]
    """A failed `error` rejects the environment."""
    value: float | None = None
    low: float | None = None
    """Lower end of the 95 % interval of `value`, where it is an estimate."""
    high: float | None = None
    """Upper end of that interval."""
    n: int | None = None
    """How many seeds or episodes are behind `value`."""
    bound: str = ""
    """What was required, such as `in [0.1, 0.9]`."""
    evidence: str = ""
    timing: str = ""
    """What a clock measured: it differs between equal audits, so nothing that counts stands here."""
    sandbox_version: str = ""
    isolation_level: str = ""
    policy_version: str = ""
    """Version of the severity policy that the finding was judged by."""

    @property
    def seen(self) -> str:
        """Evidence and, where a clock ran, its figures."""
        return "; ".join(text for text in (self.evidence, self.timing) if text)


class ContractRow(Record):
    """Row of the table `target_contracts`: what every environment of a target is held to."""

    table: ClassVar[str] = "target_contracts"
    key: ClassVar[tuple[str, ...]] = ("target",)

    target: str
    fingerprint: str
    n_trajectories: int
    """Discovery trajectories that it was read from."""
    contract: Json
    """A `TargetContract`."""
