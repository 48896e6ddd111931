"""What belongs to an environment's text for good: what it is given for seeds, and what its audit has seen.

A permutation is drawn once for each text and kept in the home, the same in every phase. One that is lost
makes the audit due again; nothing goes on under another one unsaid.
"""

from __future__ import annotations

from collections.abc import Sequence

from trace_assets.errors import InputError
from trace_assets.records import Environment, EnvironmentCheck
from trace_assets.sandbox.reward_verification import Sample
from trace_assets.store.files import environment_file, keep_environment_file, read_environment_file
from trace_assets.store.locks import mark_due
from trace_assets.study import Study
from trace_assets.targets.seeds import KEY_BYTES, SeedPermutation

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
    rows = read_environment_file(study.home, environment_id, _EPISODES)
    return [Sample(seed, tuple(actions), verdict) for seed, actions, verdict in rows or ()]


def _read(study: Study, environment_id: str) -> SeedPermutation | None:
    text = read_environment_file(study.home, environment_id, _SEEDS)
    if type(text) is not str or len(text) != 2 * KEY_BYTES:
        return None
    return SeedPermutation(bytes.fromhex(text))
