"""Score the rules of triage on invented domains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.truth.outcome import as_failed
from tests.truth.planted.domain import Domain, Run
from tests.truth.scores import Share, share
from trace_assets.diagnosis.attribution.case import Known
from trace_assets.diagnosis.triage import triage
from trace_assets.records import Triage


@dataclass(frozen=True)
class PlantedScore:
    """What rules say of invented domains.

    Attributes:
        right: The party is the planted one.
        found: Of faults that are not the agent's, those put down to somebody else than the agent.
        true: Of those put down to somebody else, those that are not the agent's.
        accused: Passed runs, each looked at as if it had failed, that are put down to somebody else.
        wrong: (domain, run, what was said) of every wrong one.
    """

    right: Share
    found: Share
    true: Share
    accused: Share
    wrong: Sequence[tuple[str, Run, Triage]] = ()


def score_planted(domains: Sequence[Domain]) -> PlantedScore:
    """Put the failures of invented domains down to somebody, each domain by itself.

    Suspicions count as accusations: how often a rule sees what was planted says nothing of how often what it
    sees on strangers' runs is what sank them.
    """
    rows: list[tuple[str, Run, Triage]] = []
    accused: list[bool] = []
    for domain in domains:
        every, tasks = domain.trajectories(), domain.known_tasks()
        known = Known.of(every, tasks)
        for planted, one in zip(domain.runs, every, strict=True):
            if planted.party:
                rows.append((domain.name, planted, triage([one], known=known, suspicions=())[0]))
            else:
                accused.append(triage([as_failed(one)], known=known, suspicions=())[0].fault != "agent")
    return PlantedScore(
        right=share(row.fault == planted.party for _, planted, row in rows),
        found=share(row.fault != "agent" for _, planted, row in rows if planted.party != "agent"),
        true=share(planted.party != "agent" for _, planted, row in rows if row.fault != "agent"),
        accused=share(accused),
        wrong=[one for one in rows if one[2].fault != one[1].party],
    )
