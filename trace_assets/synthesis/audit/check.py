"""What a check of the audit is, and what it is handed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from trace_assets.policies.protocol import Policy
from trace_assets.records import Environment, Trajectory
from trace_assets.rollout.runner import Trial, run_rollouts
from trace_assets.sandbox import SandboxPool
from trace_assets.settings import Synthesis
from trace_assets.synthesis.audit.probe import Played, Probe
from trace_assets.synthesis.contract.target_contract import TargetContract
from trace_assets.targets.sandboxed import AUDIT_SEEDS, SandboxedTarget

MAX_TURNS = 12

Level = Literal["static", "runtime", "semantic", "adversarial", "statistical", "fidelity"]


@dataclass(frozen=True)
class Finding:
    """What one check saw.

    Attributes:
        status: `skip` only for what could not be checked, with the reason as evidence.
        evidence: What was seen, with the seed where there is one.
        value: The figure that was compared.
        n: Seeds or episodes behind it.
        bound: What was required.
        timing: What a clock measured; kept out of all that two equal audits must agree on.
    """

    status: Literal["pass", "fail", "skip"]
    evidence: str = ""
    value: float | None = None
    n: int | None = None
    bound: str = ""
    timing: str = ""


@dataclass
class Subject:
    """An environment under audit."""

    environment: Environment
    pool: SandboxPool
    section: Synthesis
    contract: TargetContract | None = None
    policy: Policy | None = None
    transcripts: dict[str, list[Played]] = field(default_factory=dict)
    """Episodes that several checks compare, by the sandbox they were played in."""

    @cached_property
    def probe(self) -> Probe:
        """Plays episodes of it, keeping what it has seen."""
        return Probe(self.pool, self.environment.source)

    @cached_property
    def rollouts(self) -> list[Trajectory]:
        """The base policy's episodes on the audit's seeds; empty without a policy."""
        if self.policy is None:
            return []
        target = SandboxedTarget(self.environment, self.pool, training_seeds=self.seeds, validation_seeds=())
        trials = [
            Trial(task, trial)
            for task in target.tasks("discovery")
            for trial in range(self.section.audit_rollouts)
        ]
        title = f"roll out on {self.environment.capability_id}"
        return run_rollouts(target, trials, self.policy, max_turns=MAX_TURNS, title=title)

    @property
    def seeds(self) -> range:
        """The seeds of the audit: nobody trains or validates on them."""
        return AUDIT_SEEDS[: self.section.audit_seeds]


@dataclass(frozen=True)
class AuditCheck:
    """A check, and the checks that must have passed for it to mean anything."""

    check_id: str
    level: Level
    run: Callable[[Subject], Finding]
    needs: tuple[str, ...] = ()
