"""Audits the zoo's environments, each with the company it needs: contract, base policy, real trajectories."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tests.audit_fixtures.broken import ANIMALS
from tests.audit_fixtures.broken_environment import Animal, sound_names, sound_source
from trace_assets.environments.audit.adversarial import messy
from trace_assets.environments.audit.battery import audit
from trace_assets.environments.audit.check import MAX_TURNS, Sizes
from trace_assets.environments.audit.scripted_rollouts import Action, Probe, say
from trace_assets.environments.audit.severity import RULES, SEVERITIES, Rules
from trace_assets.environments.contract.description import TargetContract, extract_contract
from trace_assets.environments.contract.protocol import Reference
from trace_assets.policies.protocol import Conversation, Reply
from trace_assets.records import Environment, EnvironmentCheck, Message
from trace_assets.rollouts.episode import Trial
from trace_assets.rollouts.runner import run_rollouts
from trace_assets.sandbox import SandboxedEnvironment, SandboxPool
from trace_assets.sandbox.config import BARE, EVERYWHERE, Conditions
from trace_assets.sandbox.sandbox import Sandbox
from trace_assets.settings import Synthesis
from trace_assets.store.content import text_version
from trace_assets.system.progress import progress
from trace_assets.targets.sandboxed import SandboxedTarget
from trace_assets.targets.seeds import SeedPermutation, audited

ZOO_SECTION = Synthesis(audit_seeds=8, audit_rollouts=2)
ZOO_SIZES = Sizes(compared=2, diversity=24, floor=4, attack=8, replayed=1, mutated=2, purpose=32)
"""Fewer seeds than in earnest: the faults of the zoo are not rare ones."""
ZOO_RULES = RULES.model_copy(update={"max_seconds_reset": 30.0, "max_seconds_step": 30.0})
"""A busy machine is not an animal's fault; those that are slow on purpose are slower than this."""
REAL_SEEDS = range(24)
ZOO_PERMUTATION = SeedPermutation(b"the animals know nothing of this")
"""The same for all, so that the zoo's findings are the same in every run."""


Script = Callable[[int, int], list[Action]]
"""(seed, trial) -> the assistant messages that are played."""


class Novice:
    """A base policy that reads its lines from a script.

    Args:
        probe: Of the environment that is played.
        seeds: Those that will be played; the first messages tell which one it is.
        script: What it says on (seed, trial); trials of a seed are counted in the order they come.
    """

    name, version = "novice", "1"

    def __init__(self, probe: Probe, seeds: Sequence[int], script: Script) -> None:
        self._script = script
        self._seeds = {_said(probe.first(seed)): seed for seed in seeds}
        self._trials: dict[int, int] = {}
        self._lines: dict[str, list[Action]] = {}

    async def act(self, conversation: Conversation) -> Reply:
        """Say the script's next line; goodbye where it has no more."""
        key = conversation.conversation_id
        if key not in self._lines:
            seed = self._seeds[_said([{"content": message.content} for message in conversation.messages])]
            trial = self._trials[seed] = self._trials.get(seed, -1) + 1
            self._lines[key] = self._script(seed, trial)
        spoken = sum(message.role == "assistant" for message in conversation.messages)
        line = [*self._lines[key][spoken : spoken + 1], say("Goodbye.")][0]
        return Reply(Message.model_validate(line))

    async def forget(self, conversation: Conversation) -> None:
        """Nothing is kept that would have to be dropped."""

    async def close(self) -> None:
        """Nothing is open."""


def _said(messages: Sequence[dict[str, object]]) -> str:
    return "\n".join(str(message.get("content")) for message in messages)


class Keeper:
    """Audits animals in one pool of sandboxes.

    Args:
        pool: Where they run.
        rules: The severity policy that they are judged by.
        sizes: How many seeds each check looks at.
    """

    def __init__(self, pool: SandboxPool, rules: Rules = ZOO_RULES, sizes: Sizes = ZOO_SIZES) -> None:
        self.pool, self.rules, self.sizes = pool, rules, sizes
        self._contracts: dict[str, TargetContract] = {}

    def contract(self, base: str) -> TargetContract:
        """Return the contract as if a sound environment were the target; made once.

        Its trajectories are the oracle's, and those of an agent that makes a mess.
        """
        if base not in self._contracts:
            source = sound_source(base)
            target = SandboxedTarget(
                record(source, base),
                self.pool,
                ZOO_PERMUTATION,
                training_seeds=REAL_SEEDS,
                validation_seeds=(),
            )
            probe = Probe(self.pool, source)
            actor = Novice(
                probe,
                ZOO_PERMUTATION.inside(REAL_SEEDS),
                lambda seed, trial: messy(probe, seed) if trial else probe.oracle(seed),
            )
            trials = [Trial(task, trial) for task in target.tasks("discovery") for trial in (0, 1)]
            trajectories = run_rollouts(target, trials, actor, max_turns=MAX_TURNS, concurrency=1)
            self._contracts[base] = extract_contract(target, trajectories)
        return self._contracts[base]

    def audit_sound(self, base: str) -> list[EnvironmentCheck]:
        """Audit a sound environment with all the company there is: it must fail nothing."""
        return self._audit(
            sound_source(base),
            Animal(base, "", base, (), knows=lambda seed, trial: trial % 2 == 0, real=True),
        )

    def audit(self, animal: Animal) -> list[EnvironmentCheck]:
        """Audit a broken environment: it must fail its own check and no other."""
        return self._audit(animal.source(), animal)

    def _audit(self, source: str, animal: Animal) -> list[EnvironmentCheck]:
        section = ZOO_SECTION.model_copy(update=dict(animal.section))
        contract = self.contract(animal.base)
        environment = record(source, animal.base)
        policy = None
        if animal.knows is not None:
            probe, knows = Probe(self.pool, source), animal.knows
            outside = {ZOO_PERMUTATION(seed): seed for seed in audited(ZOO_PERMUTATION, section.audit_seeds)}
            policy = Novice(
                probe,
                list(outside),
                lambda seed, trial: probe.oracle(seed) if knows(outside[seed], trial) else [],
            )
        # Whoever breaks anything is also less like the target: only those made for it are compared with it.
        if not animal.real:
            contract = contract.model_copy(update={"reference": Reference()})
        rules = self.rules.model_copy(update=dict(animal.rules))
        return audit(
            environment,
            self.pool if animal.held else _Loose(self.pool),
            contract,
            section,
            policy,
            rules=rules,
            sizes=self.sizes,
            permutation=ZOO_PERMUTATION,
        )


class _Loose(SandboxPool):
    """The same sandboxes with episodes that keep the kernel, its clock and its chance."""

    def __init__(self, pool: SandboxPool) -> None:
        vars(self).update(vars(pool))

    def environment(self, source: str) -> SandboxedEnvironment:
        """See `SandboxPool`; nothing that runs so shares a sandbox with what does not."""
        return super().environment(f"{source}\n# loose\n")

    def _loaded(self, environment: SandboxedEnvironment, conditions: Conditions = EVERYWHERE) -> Sandbox:
        return super()._loaded(environment, BARE)


def failed(checks: Sequence[EnvironmentCheck]) -> dict[str, str]:
    """Return the checks that failed with what they saw."""
    return {check.check_id: check.evidence for check in checks if check.status == "fail"}


def record(source: str, base: str) -> Environment:
    """Return a module of the zoo as the record that is audited."""
    return Environment(
        environment_id=text_version(source), capability_id=base, target=base, writer="zoo", source=source
    )


def checks_failing(*failed: str) -> list[EnvironmentCheck]:
    """Return an audit's findings of which all but some pass."""
    return [
        EnvironmentCheck(
            environment_id="e",
            capability_id="c",
            check_id=name,
            level="statistical",
            status="fail" if name in failed else "pass",
            severity=severity,
            evidence="seen",
        )
        for name, severity in SEVERITIES.items()
    ]


# A walk through the zoo: does every check see its fault, and nothing else, in this sandbox?


@dataclass(frozen=True)
class Visit:
    """One environment of the zoo and what its audit said.

    Attributes:
        base: The sound environment that it is, or was made of.
        expected: The check that it must fail; empty for a sound one.
        failed: Checks that it failed, with what they saw.
    """

    name: str
    base: str
    expected: str
    failed: dict[str, str]

    @property
    def right(self) -> bool:
        """Whether it failed exactly what it must."""
        return set(self.failed) == ({self.expected} if self.expected else set())


def tour(pool: SandboxPool) -> Iterator[Visit]:
    """Audit every environment of the zoo, the sound ones first.

    Args:
        pool: Sandboxes of the kind that is to be relied on.

    Raises:
        SandboxUnavailable: There is none.
    """
    keeper = Keeper(pool)
    names = sound_names()
    with progress("zoo", len(names) + len(ANIMALS)) as bar:
        for name in names:
            yield Visit(name, name, "", failed(keeper.audit_sound(name)))
            bar.advance(note=name)
        for animal in ANIMALS:
            yield Visit(animal.name, animal.base, animal.check_id, failed(keeper.audit(animal)))
            bar.advance(note=animal.name)
