"""The sandbox that a study opens, and the secret seeds that an environment is given in it.

A permutation is drawn once for each text and kept in the home, the same in every phase. One that is lost
makes the audit due again; nothing goes on under another one unsaid.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from trace_assets.assets.asset import StageCheck
from trace_assets.errors import InputError
from trace_assets.records import (
    ContractRow,
    Environment,
    EnvironmentCheck,
    Record,
    ToolSpec,
    UnconfirmedReward,
)
from trace_assets.store.content import text_version
from trace_assets.store.files import environment_file, keep_environment_file, read_environment_file
from trace_assets.store.item_locks import mark_due
from trace_assets.study import Study
from trace_assets.targets.seeds import KEY_BYTES, SeedPermutation

# Every command that looks what is due asks here which keys are lost; an audit and its rooms it does not need.
if TYPE_CHECKING:
    from trace_assets.environments.audit.severity import Rules
    from trace_assets.environments.contract.description import TargetContract
    from trace_assets.sandbox import SandboxConfig, SandboxPool
    from trace_assets.sandbox.reward_verification import Recomputed, RewardMismatch, Sample
    from trace_assets.targets.sandboxed import SandboxedTarget


def read_environment(study: Study, capability_id: str) -> Environment:
    """Return one capability's environment.

    Raises:
        InputError: It was not written yet.
    """
    rows = study.store.read(Environment, capability_id)
    if not rows:
        raise InputError(f"there is no environment for '{capability_id}' yet; run `trace sync` first.")
    return rows[0]


def require_made(study: Study, capability_id: str, record: type[Record], asset: str) -> None:
    """Refuse to go on from what was never made: an empty answer would pass for a finding.

    Args:
        study: Whose tables are asked.
        capability_id: The partition.
        record: What the asset writes; a partition without rows was made.
        asset: Who makes it.

    Raises:
        InputError: It was never made.
    """
    if not study.store.has(record, capability_id):
        raise InputError(
            f"{asset}[{capability_id}] was never made, and this is made from it; run `trace sync --select "
            f"{asset}` first."
        )


def sandbox_config(study: Study) -> SandboxConfig:
    """Return what the section `sandbox` asks for, with room for all episodes that training plays at once.

    What a machine's cores suggest is too little for them where it has one or two, or where a setting asks
    for more; one more may be on its way out.
    """
    from trace_assets.sandbox import SandboxConfig

    section = study.settings.sandbox
    config = SandboxConfig(
        backend=section.backend,
        runtime=section.runtime,
        memory_mb=section.memory_mb,
        cpus=section.cpus,
        deadline_seconds=section.deadline_seconds,
        recompute_share=section.recompute_share,
    )
    needed = math.ceil(study.settings.training.concurrency / config.max_sessions) + 1
    return config.model_copy(update={"max_sandboxes": max(config.sandbox_limit, needed)})


@contextmanager
def sandbox_pool(study: Study) -> Iterator[SandboxPool]:
    """Open the sandboxes that the settings ask for."""
    from trace_assets.sandbox import open_pool

    with open_pool(sandbox_config(study)) as pool:
        yield pool


def audit_source(
    study: Study, source: str, rules: Rules | None = None, target: str | None = None
) -> tuple[list[EnvironmentCheck], bool, list[str]]:
    """Audit a module that is not part of the pipeline; what needs a contract or policy is skipped without.

    Args:
        study: Whose sandbox, settings and target contract are taken.
        source: The module.
        rules: The severity policy; None takes the one that the pipeline has.
        target: Whose contract it is held to, as its trajectories show it now; None takes the live target's,
            where it was written.

    Returns:
        The findings, whether they accept the module, and why not.

    Raises:
        InputError: There are no trajectories of that target.
    """
    from trace_assets.environments.audit.battery import audit, verdict_of
    from trace_assets.environments.audit.severity import RULES
    from trace_assets.resources.contract import look_up_contract, read_contract

    environment = Environment(
        environment_id=text_version(source),
        capability_id="file",
        target=target or "file",
        writer="file",
        source=source,
    )
    if target is not None:
        contract: TargetContract | None = look_up_contract(study, target)
    else:
        known = {row.target for row in study.store.read(ContractRow)}
        contract = read_contract(study) if study.settings.targets.name in known else None
    permutation = permutation_for(study, environment.environment_id)
    with sandbox_pool(study) as pool:
        checks = audit(
            environment,
            pool,
            contract,
            study.settings.synthesis,
            rules=rules or RULES,
            permutation=permutation,
        )
    accepted, reasons = verdict_of(checks)
    return checks, accepted, list(reasons)


@contextmanager
def training_target(study: Study, environment: Environment) -> Iterator[SandboxedTarget]:
    """Open an environment as a target: training seeds as discovery tasks, held-out ones as validation.

    A mismatch is remembered: the environment's verdict is due, and rejects this text from then on. Some
    episodes of the audit are played again at once, and some of those played here when all is over.

    Raises:
        InputError: The key of its seeds is lost; the audit is due then.
        RewardMismatch: A fresh sandbox did not confirm a reward; raised from an episode, or at the end.
    """
    from trace_assets.sandbox.controls import controls_for
    from trace_assets.sandbox.reward_verification import RewardMismatch
    from trace_assets.targets.sandboxed import SandboxedTarget

    section = study.settings.training
    held_out = section.validation_seeds + section.validation_episodes
    permutation = known_permutation(study, environment)
    with sandbox_pool(study) as pool:
        target = SandboxedTarget(
            environment,
            pool,
            permutation,
            validation_seeds=held_out,
            controls=controls_for(_changes(study, environment)),
        )
        try:
            target.recomputation.recall(audited_episodes(study, environment.environment_id))
            yield target
            target.recomputation.settle()
        except RewardMismatch as mismatch:
            _remember(study, environment, pool.isolation_level, str(mismatch))
            raise
        finally:
            target.close()


def _changes(study: Study, environment: Environment) -> Callable[[str], bool]:
    """Return what tells of a tool's name whether it changes anything, by the contract or else by the name."""
    from trace_assets.environments.contract.description import mutation_marked
    from trace_assets.resources.contract import read_contract

    known = {row.target for row in study.store.read(ContractRow)}
    tools = read_contract(study, environment.target).tools if environment.target in known else ()
    marks = {tool.name: bool(tool.mutates) for tool in tools if tool.mutates is not None}

    def changes(name: str) -> bool:
        if name not in marks:
            marks[name] = bool(mutation_marked([ToolSpec(name=name)])[0].mutates)
        return marks[name]

    return changes


def _remember(study: Study, environment: Environment, isolation_level: str, detail: str) -> None:
    row = UnconfirmedReward(
        environment_id=environment.environment_id,
        capability_id=environment.capability_id,
        isolation_level=isolation_level,
        detail=detail,
    )
    study.store.write([row], UnconfirmedReward, environment.environment_id)
    mark_due(study.home, "environment_verdict", environment.capability_id, "a reward was not confirmed")


# What a stage says of the rewards that it used: how many were recomputed, and that they agree.


CHECK = "rewards_recomputed"


def recomputed_figures(found: Recomputed) -> dict[str, float | int]:
    """Return the figures of an asset whose rewards were sampled."""
    return {
        "episodes": found.episodes,
        "recomputed": found.recomputed,
        "recomputed_share": round(found.share, 4),
    }


def recomputed_check(found: Recomputed | RewardMismatch) -> StageCheck:
    """Return the check `rewards_recomputed`: a mismatch fails it, without a sample it was not run."""
    from trace_assets.sandbox.reward_verification import RewardMismatch

    if isinstance(found, RewardMismatch):
        return StageCheck(CHECK, False, str(found))
    if not found.episodes:
        return StageCheck(CHECK, None, "no episode was played, or sandbox.recompute_share is 0")
    if not found.recomputed:
        return StageCheck(CHECK, None, f"{found.unconfirmed} episodes found no sandbox to be played in again")
    lost = f"; {found.unconfirmed} could not be, for want of a sandbox" if found.unconfirmed else ""
    more = f", and {found.later} of them once more at the end" if found.later else ""
    more += f", {found.recalled} of the audit with theirs" if found.recalled else ""
    more += f"; of {found.controls} control episodes no more were paid than may be" if found.controls else ""
    return StageCheck(
        CHECK,
        True,
        f"{found.recomputed:,} of {found.episodes:,} episodes ({found.share:.1%}) were played again in fresh "
        f"sandboxes, all with the same verdict{more}{lost}.",
    )


AUDIT = "environment_audit"
LOST = "the key of its seeds is not there"
_SEEDS, _EPISODES = "seeds", "audit"


def permutation_for(study: Study, environment_id: str) -> SeedPermutation:
    """Return the permutation of an environment that is to be audited; one that is not there is drawn.

    Args:
        study: Whose home keeps the key.
        environment_id: Hash of the environment's text, which is fixed before the key is drawn.
    """
    known = _read(study, environment_id)
    if known is not None:
        return known
    drawn = SeedPermutation.draw()
    keep_environment_file(study.home, environment_id, _SEEDS, drawn.key.hex())
    return drawn


def known_permutation(study: Study, environment: Environment) -> SeedPermutation:
    """Return the permutation under which an environment was audited.

    Raises:
        InputError: It is lost: what would be trained on was never audited. The audit is due from now on.
    """
    known = _read(study, environment.environment_id)
    if known is None:
        mark_due(study.home, AUDIT, environment.capability_id, LOST)
        path = environment_file(study.home, environment.environment_id, _SEEDS)
        raise InputError(
            f"the environment of '{environment.capability_id}' has to be audited again before it is used: "
            f"the key of its seeds, {path}, is missing or damaged, or it was audited by a version that had "
            "none; run `trace sync`."
        )
    return known


def seeds_fingerprint(study: Study, environment_id: str) -> str:
    """Name the permutation of an environment without telling it; empty where there is none."""
    known = _read(study, environment_id)
    return "" if known is None else known.fingerprint


def lost_permutations(study: Study) -> dict[tuple[str, str], str]:
    """Return the audits that are due because the key of their environment is missing or damaged, with why."""
    audited = {row.environment_id for row in study.store.read(EnvironmentCheck)}
    return {
        (AUDIT, row.capability_id): LOST
        for row in study.store.read(Environment)
        if row.environment_id in audited and _read(study, row.environment_id) is None
    }


def keep_audited(study: Study, environment_id: str, samples: Sequence[Sample]) -> None:
    """Keep a few episodes of an audit, to be played again wherever the environment is used."""
    rows = [[one.seed, list(one.actions), one.verdict] for one in samples]
    keep_environment_file(study.home, environment_id, _EPISODES, rows)


def audited_episodes(study: Study, environment_id: str) -> list[Sample]:
    """Return the episodes that were kept of an environment's audit; none where there are none."""
    from trace_assets.sandbox.reward_verification import Sample

    rows = read_environment_file(study.home, environment_id, _EPISODES)
    return [Sample(seed, tuple(actions), verdict) for seed, actions, verdict in rows or ()]


def _read(study: Study, environment_id: str) -> SeedPermutation | None:
    text = read_environment_file(study.home, environment_id, _SEEDS)
    if type(text) is not str or len(text) != 2 * KEY_BYTES:
        return None
    return SeedPermutation(bytes.fromhex(text))
