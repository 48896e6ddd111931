"""What a candidate promises that is not kept: held against chance, or told to be undecided."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.diagnosis.test_selection import row, study
from tests.simulations.world import Planted, World, draw
from trace_assets.diagnosis.chance import Findings, Null, chance_null, shuffled, standard_score
from trace_assets.diagnosis.contrast import contrast_matrix
from trace_assets.diagnosis.label_matrix import LabelMatrix
from trace_assets.diagnosis.promises import MOST_CHANCE, promise
from trace_assets.diagnosis.selection import select_matrix
from trace_assets.diagnosis.thresholds import is_evident
from trace_assets.settings import ContrastSection, Selection

MATRIX = LabelMatrix.build(*study({"c": range(30)}), "t")
SELDOM, OFTEN = Null(np.ones(99), np.zeros(99)), Null(np.ones(99), np.full(99, 100.0))
QUICK = ContrastSection(resamples=200, permutations=300)
IDLE = World("idle", tasks=30, trials=1, planted=tuple(Planted(f"c{n}", lack=0.3) for n in range(12)))


@pytest.mark.parametrize(
    ("changes", "null", "verdict", "words"),
    [
        ({}, None, "promising", "promising: about 40 more tasks"),
        ({}, SELDOM, "promising", "promising: about 40 more tasks"),
        (
            {},
            OFTEN,
            "undecided",
            "undecided: with outcomes shuffled something as clear is found in 100 % of studies, 10 % at most "
            "is promising; about 40 more tasks like these",
        ),
        (
            {"p_value": 0.3},
            SELDOM,
            "undecided",
            "undecided: chance shows so wide a gap in 30 of 100 cases; about 40 more tasks like these",
        ),
        ({"p_value": 0.3, "gap": 0.1}, SELDOM, "rejected", "only 5 relevant successes"),
    ],
)
def test_what_chance_shows_as_well_is_undecided(
    changes: dict[str, Any], null: Null | None, verdict: str, words: str
) -> None:
    told = row(n_passed_relevant=5, gap_low=-0.1, **changes)
    (found,) = select_matrix([told], MATRIX, Selection(), null=None if null is None else lambda _: null)
    assert (found.verdict, found.kept) == (verdict, False)
    assert found.reason.startswith(words)
    assert (found.more_tasks == 40) is (verdict != "rejected"), "what would decide is told of both"
    asked = verdict != "rejected" and null is not None and "p_value" not in changes
    assert found.chance == (pytest.approx(0.01 if null is SELDOM else 1) if asked else None)


def test_where_chance_is_not_asked_the_evidence_alone_decides() -> None:
    told = row(n_passed_relevant=5, gap_low=-0.1)
    (found,) = select_matrix([told], MATRIX, Selection(max_chance=1), null=lambda _: OFTEN)
    assert found.verdict == "promising"


def test_chance_is_asked_only_where_it_can_matter() -> None:
    def never(_: float) -> Null:
        raise AssertionError("nothing here is evidence")

    (found,) = select_matrix(
        [row(n_passed_relevant=5, gap_low=-0.1, p_value=0.3)], MATRIX, Selection(), null=never
    )
    assert found.verdict == "undecided"


def share_of_promising(seed: int, studies: int) -> float:
    """Return in which share of studies of a world where nothing is lacking something is promising."""
    hits = 0
    for number in range(studies):
        matrix = draw(IDLE, np.random.default_rng([seed, number])).matrix
        rows = contrast_matrix(matrix, QUICK, "w")
        findings = Findings.of_candidates(matrix)
        null = chance_null(matrix, findings, QUICK, Selection(), 0, shuffles=99)
        decided = select_matrix(rows, matrix, Selection(), null=lambda _: null)  # noqa: B023
        hits += any(one.verdict == "promising" for one in decided)
    return hits / studies


def test_where_nothing_is_lacking_little_is_promising() -> None:
    """At most `MOST_CHANCE` by construction; of 40 studies 11 or more would be one case in a thousand."""
    assert share_of_promising(1, 40) < 11 / 40


@pytest.mark.slow
def test_where_nothing_is_lacking_a_tenth_of_studies_promise_something() -> None:
    assert share_of_promising(2, 300) <= MOST_CHANCE + 0.02


def test_a_deficit_in_few_runs_is_promising() -> None:
    world = replace(IDLE, planted=(Planted("deep", needed=0.4, lack=0.5, cost=0.9), *IDLE.planted[:5]))
    found = []
    for number in range(20):
        matrix = draw(world, np.random.default_rng([3, number])).matrix
        rows = contrast_matrix(matrix, QUICK, "w")
        null = chance_null(matrix, Findings.of_candidates(matrix), QUICK, Selection(), 0.05, shuffles=99)
        decided = select_matrix(rows, matrix, Selection(), null=lambda _: null)  # noqa: B023
        found += [one.verdict for one in decided if one.capability_id == "deep"]
    assert sum(one in ("kept", "promising") for one in found) >= 10, found


@given(st.integers(0, 10**6), st.booleans())
def test_a_score_is_standard_under_shuffles_and_knows_no_names(seed: int, several: bool) -> None:
    rng = np.random.default_rng(seed)
    matrix = draw(replace(IDLE, tasks=20, planted=IDLE.planted[:3]), rng).matrix
    if several:
        matrix = replace(matrix, policy=rng.integers(0, 2, len(matrix.failed)), policies=("a", "b"))
    order = rng.permutation(3)
    turned = matrix.take(order)
    for name in matrix.capabilities:
        assert standard_score(turned, name) == pytest.approx(standard_score(matrix, name))
    flipped = replace(matrix, failed=~matrix.failed)
    for name in matrix.capabilities:
        assert standard_score(flipped, name) == pytest.approx(-standard_score(matrix, name))


def test_scores_of_shuffles_have_mean_0_and_deviation_1() -> None:
    matrix = draw(replace(IDLE, tasks=60), np.random.default_rng(5)).matrix
    scores = [
        standard_score(
            replace(matrix, failed=shuffled(matrix.tasks, matrix.failed, np.random.default_rng(turn))), "c0"
        )
        for turn in range(400)
    ]
    assert abs(np.mean(scores)) < 0.2 and 0.85 < np.std(scores) < 1.15


@given(st.floats(0, 0.499), st.floats(0, 0.499))
def test_what_is_clearer_is_evident_too(one: float, other: float) -> None:
    least, most = sorted((one, other))
    assert is_evident(row(p_value=least)) or not is_evident(row(p_value=most))


def test_what_the_failures_of_one_task_lack_asks_no_chance() -> None:
    labels, triage = study({"c": range(3)})
    triage = [one.model_copy(update={"task_id": f"x/{0 if n < 3 else n}"}) for n, one in enumerate(triage)]
    found = promise(row(p_value=0.3), LabelMatrix.build(labels, triage, "t"), Selection(), OFTEN)
    assert found is not None and (found.verdict, found.chance) == ("seen once", None)
