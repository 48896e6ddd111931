"""Mutants are harmful or harmless by rule; those that change nothing are not counted."""

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.audit_fixtures.broken_environment import sound_source
from tests.audit_fixtures.runner import ZOO_PERMUTATION, record
from trace_assets.environments.audit.check import Sizes, Subject
from trace_assets.environments.audit.mutation import MUTATIONS, harmless_kept, kill_rate
from trace_assets.environments.audit.scripted_rollouts import Action, Probe, calls_in, closing
from trace_assets.sandbox import SandboxPool
from trace_assets.settings import Synthesis

SEED = 2_000_000


def mutants(
    pool: SandboxPool, base: str, name: str, seed: int = SEED
) -> tuple[list[Action], list[list[Action]]]:
    probe = Probe(pool, sound_source(base))
    apply = next(one.apply for one in MUTATIONS if one.name == name)
    return probe.oracle(seed), list(apply(probe, seed, random.Random(0)))


def deeds(script: list[Action]) -> list[tuple[str, dict[str, Any]]]:
    return [(one["name"], one["arguments"]) for one in calls_in(script)]


Differs = Callable[[list[Action], list[Action]], bool]


@pytest.mark.parametrize(
    ("base", "name", "seed", "differs"),
    [
        ("bills", "drop_write", SEED, lambda a, b: len(deeds(b)) == len(deeds(a)) - 1),
        ("bills", "swap_id", SEED, lambda a, b: deeds(b)[-1][1]["bill"] != deeds(a)[-1][1]["bill"]),
        (
            "bills",
            "off_by_one",
            SEED + 1,
            lambda a, b: abs(deeds(b)[-1][1]["amount"] - deeds(a)[-1][1]["amount"]) == 1,
        ),
        (
            "lamps",
            "other_value",
            SEED,
            lambda a, b: deeds(a)[-1][0] == deeds(b)[-1][0] and deeds(a) != deeds(b),
        ),
        (
            "door",
            "other_tool",
            SEED,
            lambda a, b: deeds(a)[-1][1] == deeds(b)[-1][1] and deeds(a) != deeds(b),
        ),
        ("door", "extra_write", SEED, lambda a, b: deeds(b)[: len(deeds(a))] == deeds(a)),
        ("stock", "wrong_answer", SEED, lambda a, b: deeds(a) == deeds(b) and closing(a) != closing(b)),
        ("door", "repeat_read", SEED, lambda a, b: deeds(b)[:2] == [deeds(a)[0]] * 2),
        ("door", "late_read", SEED, lambda a, b: deeds(b) == [*deeds(a), deeds(a)[0]]),
        ("stock", "swap_reads", SEED, lambda a, b: deeds(a) != deeds(b) and len(deeds(a)) == len(deeds(b))),
        ("door", "other_call_ids", SEED, lambda a, b: deeds(a) == deeds(b) and a != b),
        ("bills", "other_key_order", SEED + 1, lambda a, b: deeds(a) == deeds(b) and str(a) != str(b)),
        (
            "door",
            "polite",
            SEED,
            lambda a, b: deeds(a) == deeds(b) and closing(a) in closing(b) != closing(a),
        ),
    ],
)
def test_each_operator_changes_what_it_says(
    base: str, name: str, seed: int, differs: Differs, pool: SandboxPool
) -> None:
    oracle, made = mutants(pool, base, name, seed)
    assert made
    assert all(differs(oracle, one) for one in made)
    assert all(json.dumps(one) != json.dumps(oracle) for one in made)


def test_a_read_whose_answer_the_next_one_needs_is_not_moved(pool: SandboxPool) -> None:
    assert mutants(pool, "library", "swap_reads", SEED)[1] == []


def test_a_value_that_never_varies_is_no_harm(pool: SandboxPool) -> None:
    _, made = mutants(pool, "claims", "other_value", SEED + 1)
    assert made == []  # the reason of a transfer is always 'amount'


def subject(pool: SandboxPool, source: str) -> Subject:
    return Subject(
        record(source, "x"),
        pool,
        Synthesis(audit_seeds=8),
        sizes=Sizes(mutated=4),
        permutation=ZOO_PERMUTATION,
    )


def test_an_added_change_that_is_refused_is_counted_apart(pool: SandboxPool) -> None:
    acts = '    episode["calls"].append(call["name"])\n'
    refusing = sound_source("door").replace(
        acts,
        '    if call["name"] != "get_door" and len(episode["calls"]) > 1:\n        return "no more", True\n'
        + acts,
    )
    found = kill_rate(subject(pool, refusing))
    assert found.status == "pass" and "extra_write" not in found.evidence
    assert "4 not counted: equivalent" in found.evidence
    assert "extra_write 4/4" in kill_rate(subject(pool, sound_source("door"))).evidence


def test_the_rate_has_n_an_interval_and_its_worst_operator_counts(pool: SandboxPool) -> None:
    found = kill_rate(subject(pool, sound_source("bills")))
    assert (found.status, found.value) == ("pass", 1.0)
    assert found.n is not None and found.n > 12
    assert found.low is not None and 0.3 < found.low < 0.8 and found.high == 1.0  # four seeds tell little
    kept = harmless_kept(subject(pool, sound_source("bills")))
    assert (kept.status, kept.value) == ("pass", 1.0)
    lax = sound_source("bills").replace('episode["writes"] == [wanted]', 'episode["writes"][:1] == [wanted]')
    lost = kill_rate(subject(pool, lax))
    assert lost.status == "fail" and lost.value is not None and 0.5 < lost.value < 0.95
    assert "extra_write 0/4" in lost.evidence and "such as extra_write on seed" in lost.evidence
