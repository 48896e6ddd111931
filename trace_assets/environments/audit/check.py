"""What a check of the audit is, and what it is handed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, wraps
from typing import Literal, Protocol

from trace_assets.diagnosis.llm.request import A, Question
from trace_assets.environments.audit.scripted_rollouts import Budget, Played, Probe
from trace_assets.environments.audit.severity import RULES, Rules
from trace_assets.environments.contract.description import TargetContract
from trace_assets.policies.protocol import Policy
from trace_assets.records import CapabilitySpec, DecisionPattern, Environment, Trajectory
from trace_assets.rollouts.episode import Trial
from trace_assets.rollouts.runner import run_rollouts
from trace_assets.sandbox import SandboxPool
from trace_assets.settings import Synthesis
from trace_assets.targets.sandboxed import SandboxedTarget
from trace_assets.targets.seeds import SeedPermutation, audited

MAX_TURNS = 12

Elsewhere = Callable[[SandboxedTarget, Sequence[Trial]], list[Trajectory] | None]
"""Has the base policy's trials played in other processes too, and shows the target's recomputation what was
drawn of them; None where nobody helps."""

NO_JUDGE = "no model is set that judges environments (synthesis.judge)"

Level = Literal[
    "static", "runtime", "semantic", "adversarial", "mutation", "statistical", "fidelity", "judged"
]


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
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Sizes:
    """How many seeds the checks look at. Checks that need all seeds of the section take `Subject.seeds`.

    Attributes:
        compared: Seeds whose episodes are compared message by message between fresh sandboxes.
        diversity: Seeds whose first messages are compared with each other.
        floor: Seeds on which nothing is done.
        attack: Seeds that every attacker is tried on.
        replayed: Seeds whose rewards are computed again in a fresh sandbox.
        mutated: Seeds whose oracle scripts are mutated.
        purpose: Seeds on which it is looked for what the oracle decides by.
    """

    compared: int = 6
    diversity: int = 128
    floor: int = 32
    attack: int = 24
    replayed: int = 8
    mutated: int = 16
    purpose: int = 96


@dataclass(frozen=True)
class Purpose:
    """What an environment is for.

    Attributes:
        spec: The capability that it teaches.
        runs: What agents decided in real runs that were labelled for it.
    """

    spec: CapabilitySpec
    runs: Sequence[DecisionPattern] = ()


class NotJudged(Exception):
    """A model gave no usable answer, or could not be asked; the message says why."""


class Judge(Protocol):
    """A model that judges environments."""

    model: str

    def ask(self, question: Question[A]) -> A:
        """Return its answer.

        Raises:
            NotJudged: There is none.
            TraceError: Its server cannot be used.
        """
        ...


@dataclass
class Subject:
    """An environment under audit.

    Attributes:
        section: Seeds, rollouts and the pass band.
        contract: Of the target; None where it is not known.
        permutation: What the environment is given for a seed, here and wherever it is used.
        policy: The base policy, rolled out for the statistical checks; None skips them.
        no_policy: Why there is no base policy, for the skips.
        rules: The severity policy with its thresholds.
        sizes: Seeds a check.
        purpose: What it is for; None where nobody says.
        judge: A model that is asked what no program can tell; None skips that.
        no_judge: Why there is none, for the skips.
        late_policy: Opens the base policy once it is needed; None where it is open, or there is none.
        elsewhere: Has others play the base policy's episodes too; None has all played in this process.
    """

    environment: Environment
    pool: SandboxPool
    section: Synthesis
    contract: TargetContract | None = None
    permutation: SeedPermutation = field(default_factory=SeedPermutation.draw)
    policy: Policy | None = None
    no_policy: str = "no base policy was given to roll out"
    rules: Rules = RULES
    sizes: Sizes = Sizes()
    purpose: Purpose | None = None
    judge: Judge | None = None
    no_judge: str = NO_JUDGE
    late_policy: Callable[[], Policy | None] | None = None
    elsewhere: Elsewhere | None = None
    transcripts: dict[str, list[Played]] = field(default_factory=dict)
    """Episodes that several checks compare, by the sandbox they were played in."""
    kept: dict[str, object] = field(default_factory=dict)
    """What a judge is shown and has answered, for the checks that share it."""
    _seeds_of: dict[int, tuple[int, ...]] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def probe(self) -> Probe:
        """Plays episodes of it, keeping what it has seen."""
        known = self.contract.tools if self.contract else ()
        return Probe(
            self.pool,
            self.environment.source,
            known,
            Budget(self.rules.max_seconds_audit),
            self.permutation.key.hex(),
        )

    @cached_property
    def rollouts(self) -> list[Trajectory]:
        """The base policy's episodes on the audit's seeds; empty without a policy.

        Raises:
            RewardMismatch: A fresh sandbox did not confirm one of their rewards.
        """
        if self.policy is None:
            return []
        target = audited_target(self.environment, self.pool, self.permutation, self.section)
        trials = [
            Trial(task, trial)
            for task in target.tasks("discovery")
            for trial in range(self.section.audit_rollouts)
        ]
        title = f"roll out on {self.environment.capability_id}"
        try:
            played = self.elsewhere(target, trials) if self.elsewhere else None
            if played is None:
                played = run_rollouts(target, trials, self.policy, max_turns=MAX_TURNS, title=title)
            target.recomputation.settle()
        finally:
            target.close()
        return played

    @property
    def played(self) -> Sequence[Trajectory]:
        """Those of `rollouts` that a check has asked for: none where all were skips."""
        found: Sequence[Trajectory] = self.__dict__.get("rollouts", ())
        return found

    @cached_property
    def seeds(self) -> tuple[int, ...]:
        """The audit's seeds as the environment is given them, some of training and validation among them."""
        return self.seeds_of(self.section.audit_seeds)

    def seeds_of(self, n: int) -> tuple[int, ...]:
        """Return so many of them."""
        if n not in self._seeds_of:  # a thousand questions an audit, each a permutation of so many seeds
            self._seeds_of[n] = self.permutation.inside(audited(self.permutation, n))
        return self._seeds_of[n]


def audited_target(
    environment: Environment, pool: SandboxPool, permutation: SeedPermutation, section: Synthesis
) -> SandboxedTarget:
    """Open an environment as the target that a base policy is rolled out on in its audit."""
    return SandboxedTarget(
        environment,
        pool,
        permutation,
        training_seeds=audited(permutation, section.audit_seeds),
        validation_seeds=(),
    )


@dataclass(frozen=True)
class AuditCheck:
    """A check.

    Attributes:
        needs: Checks that must have passed for it to mean anything.
        after: Checks whose failure would be reported once more by this one: it is a skip after them. That
            they could not be tried is no hindrance.
    """

    check_id: str
    level: Level
    run: Callable[[Subject], Finding]
    needs: tuple[str, ...] = ()
    after: tuple[str, ...] = ()

    @property
    def demand(self) -> str:
        """What it demands, in one sentence."""
        return " ".join((self.run.__doc__ or "").split("\n\n")[0].split())


NO_PURPOSE = "nobody said which capability it is for"
About = Callable[[Subject, Purpose], Finding]


def with_purpose(check: About) -> Callable[[Subject], Finding]:
    """Make a check of what an environment is for one that is skipped by name where nobody says it."""

    @wraps(check)
    def run(subject: Subject) -> Finding:
        if subject.purpose is None:
            return Finding("skip", NO_PURPOSE)
        return check(subject, subject.purpose)

    return run
