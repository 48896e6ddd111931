"""Whose fault is it in domains that no reading has? Invented ones, with planted faults."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.truth.planted import DOMAINS, Domain
from tests.truth.planted.score import score_planted


def test_most_planted_faults_are_found_and_nobody_is_accused_wrongly() -> None:
    score = score_planted(DOMAINS)
    wrong = [(name, run.task, run.why, row.fault, row.rule) for name, run, row in score.wrong]
    assert score.found.n >= 30
    assert score.found.hits >= 0.9 * score.found.n, wrong
    assert score.true.hits == score.true.n, wrong
    assert (score.accused.hits, score.accused.n) == (0, 8)
    assert score.right.hits >= 0.9 * score.right.n, wrong


@pytest.mark.parametrize("domain", DOMAINS, ids=lambda one: one.name)
def test_every_domain_has_faults_of_several_parties(domain: Domain) -> None:
    parties = Counter(run.party for run in domain.runs)
    assert parties["agent"] >= 3
    assert parties["ground_truth"] >= 2
    assert parties[""] >= 1


def test_without_a_policy_no_task_is_said_to_break_it() -> None:
    for domain in DOMAINS:
        mute = Domain(domain.name, "", domain.tasks, domain.runs)
        rules = {row.rule for _, _, row in score_planted([mute]).wrong if row.fault == "ground_truth"}
        assert not rules
