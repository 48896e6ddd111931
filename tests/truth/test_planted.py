"""Whose fault is it in domains that no reading has? Invented ones, with planted faults."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from tests.truth.planted import DOMAINS, Domain
from tests.truth.planted.further import (
    AGAIN_FAULTS,
    AGAIN_LACKS,
    FURTHER_FAULTS,
    FURTHER_LACKS,
    LAST_FAULTS,
    LAST_LACKS,
)
from tests.truth.planted.lacks import LACK_DOMAINS, LackDomain, find_lacks
from tests.truth.planted.later import LATER
from tests.truth.planted.rounds import (
    FIRST_FAULTS,
    FIRST_LACKS,
    FOURTH_FAULTS,
    FOURTH_LACKS,
    ROUND_LACKS,
    SECOND_FAULTS,
    SECOND_LACKS,
    THIRD_FAULTS,
    THIRD_LACKS,
)
from tests.truth.planted.score import score_planted
from tests.truth.planted.shapes import SHAPES, reshaped
from tests.truth.planted.strangers import STRANGE_FAULTS, STRANGE_LACKS
from trace_assets.diagnosis.detector_analyst import DetectorAnalyst
from trace_assets.settings import Discovery


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


@pytest.mark.parametrize("shape", SHAPES)
def test_faults_are_found_in_whatever_shape_records_come(shape: str) -> None:
    score = score_planted([reshaped(domain, shape) for domain in DOMAINS])
    wrong = [(name, run.task, run.why, row.fault, row.rule) for name, run, row in score.wrong]
    assert score.found.hits >= 0.9 * score.found.n, wrong
    assert score.true.hits == score.true.n, wrong
    assert score.accused.hits == 0


@pytest.mark.parametrize("domain", [*LACK_DOMAINS, *LATER], ids=lambda one: one.name)
def test_planted_capabilities_become_candidates(domain: LackDomain) -> None:
    rows = find_lacks(domain)
    missed = [row.lack for row in rows if not row.found]
    assert not missed, rows


def test_what_nobody_lacks_is_no_capability() -> None:
    played = LACK_DOMAINS[0]
    shown = [
        replace(one, play=lambda number, shown, play=one.play: play(number, True)) for one in played.lacks
    ]
    assert not any(row.found for row in find_lacks(replace(played, lacks=tuple(shown))))


def test_without_a_policy_no_rule_of_it_is_broken() -> None:
    played = LACK_DOMAINS[0].domain()
    for policy in ("", "Mietstelle. Überfällige Mieten werden nicht verlängert."):
        found = DetectorAnalyst(Discovery(), policy=policy).discover(played.trajectories())
        assert "write_against_rule" not in {one.detector for one in found}


HABITS = {
    "coder": "git_log",
    "browser": "scroll",
    "sheets": "lister_feuilles",
    "desk": "get_macros",
    "deploys": "terminal",
    "flat": "look",
    "consulta": "ver_clinica",
    "fleet": "WeatherAt",
    "forge": "get_repo",
}
"""By domain, the deed that mostly goes with passing and decides nothing."""


@pytest.mark.ci
def test_what_merely_goes_with_passing_is_no_candidate() -> None:
    for domain in ROUND_LACKS:
        habit = HABITS.get(domain.name)
        played = domain.domain()
        analyst = DetectorAnalyst(Discovery(), policy=played.policy)
        every = played.trajectories()
        assert habit is None or habit in analyst.corpus(every).agent_tools
        found = analyst.discover(every)
        asked = [
            str(one.detector_args.get(name)) for one in found for name in ("step", "read", "tool", "first")
        ]
        assert found
        assert not [one for one in asked if one == habit], domain.name


STRANGE_FOUND, STRANGE_N = 14, 15
"""Planted capabilities of the strange domains that are found, of how many."""
STRANGE_ACCUSED, STRANGE_OTHERS = 30, 31
"""Planted faults of other parties there that are found, of how many."""


def test_strange_domains_keep_the_score_that_was_reached() -> None:
    rows = [row for domain in STRANGE_LACKS for row in find_lacks(domain)]
    assert len(rows) == STRANGE_N
    assert sum(row.found for row in rows) >= STRANGE_FOUND, [row for row in rows if not row.found]


def test_faults_in_strange_domains_are_found_and_nobody_is_accused_wrongly() -> None:
    score = score_planted(STRANGE_FAULTS)
    wrong = [(name, run.task, run.why, row.fault, row.rule) for name, run, row in score.wrong]
    assert score.found.n == STRANGE_OTHERS
    assert score.found.hits >= STRANGE_ACCUSED, wrong
    assert score.true.hits == score.true.n, wrong
    assert score.accused.hits == 0


LATER_STRANGERS = (
    pytest.param(FURTHER_LACKS, FURTHER_FAULTS, (20, 24), (28, 37), id="further"),
    pytest.param(AGAIN_LACKS, AGAIN_FAULTS, (10, 10), (12, 14), id="again", marks=pytest.mark.ci),
    pytest.param(LAST_LACKS, LAST_FAULTS, (6, 10), (11, 14), id="last", marks=pytest.mark.ci),
    pytest.param(FIRST_LACKS, FIRST_FAULTS, (13, 17), (12, 21), id="first round", marks=pytest.mark.ci),
    pytest.param(SECOND_LACKS, SECOND_FAULTS, (10, 18), (16, 22), id="second round", marks=pytest.mark.ci),
    pytest.param(THIRD_LACKS, THIRD_FAULTS, (10, 16), (6, 17), id="third round", marks=pytest.mark.ci),
    pytest.param(FOURTH_LACKS, FOURTH_FAULTS, (5, 12), (8, 12), id="fourth round"),
)
"""Domains, planted capabilities that are found of how many, and faults of other parties."""


@pytest.mark.parametrize(("lacks", "faults", "found", "accused"), LATER_STRANGERS)
def test_further_domains_keep_the_score_that_was_reached(
    lacks: tuple[LackDomain, ...],
    faults: tuple[Domain, ...],
    found: tuple[int, int],
    accused: tuple[int, int],
) -> None:
    rows = [row for domain in lacks for row in find_lacks(domain)]
    assert len(rows) == found[1]
    assert sum(row.found for row in rows) >= found[0], [row for row in rows if not row.found]
    score = score_planted(faults)
    wrong = [(name, run.task, run.why, row.fault, row.rule) for name, run, row in score.wrong]
    assert score.found.n == accused[1]
    assert score.found.hits >= accused[0], wrong
    assert score.true.hits == score.true.n, wrong
    assert score.accused.hits == 0
