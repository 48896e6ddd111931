"""Failures that no candidate explains are read again, beside what is known and did not decide them.

The first discovery reads a sample of the failures and is asked for what they share. Whatever decided one run
alone, or no run of the sample, has no name after it; labels then show which failures that leaves open. These
alone are read here, whole where the sample's transcripts were cut, by somebody who is told what it is not.
"""

from __future__ import annotations

import json
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from trace_assets.diagnosis.llm.batches import Batch, Likeness, partners
from trace_assets.diagnosis.llm.cases import MOST_CASES, CaseAnswer, Grounds, about_cases
from trace_assets.diagnosis.llm.causes import lacks_of
from trace_assets.diagnosis.llm.client import ModelServer
from trace_assets.diagnosis.llm.discovery import (
    MOST,
    Known,
    ProposalAnswer,
    Proposed,
    Said,
    answer_about,
    case_said,
    habits_question,
    named_episodes,
    proposal_rows,
    shown_episodes,
)
from trace_assets.diagnosis.llm.request import Question, render
from trace_assets.records import Capability, Label, LackCause, Proposal, Trajectory
from trace_assets.settings import Discovery

LEAST_SUCCESSES = 2
"""Passed episodes beside a single failure."""


@dataclass(frozen=True)
class Open:
    """Failures that no candidate explains.

    Attributes:
        harmless: By failure: capability id to why it lacks that; said not to have decided its end.
    """

    harmless: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.harmless)


def unexplained(
    failures: Collection[str],
    labels: Sequence[Label],
    causes: Sequence[LackCause],
    capabilities: Sequence[Capability],
) -> Open:
    """Return the failures that lack nothing that is known, or only what did not decide their end.

    Args:
        failures: Of the agent. Only those count that have a label for every candidate: of others it is not
            known yet.
        labels: Of all labellers.
        causes: What is said of lacks; a lack of which nothing is said may be the cause.
        capabilities: The candidates. What a broader one lacks follows from its cases.
    """
    parents = {one.parent for one in capabilities if one.parent}
    counted = {one.capability_id for one in capabilities} - parents
    own = [row for row in labels if row.trajectory_id in failures and row.capability_id in counted]
    labelled: dict[str, set[str]] = {}
    for row in own:
        labelled.setdefault(row.trajectory_id, set()).add(row.capability_id)
    lacks, said = lacks_of(own), {(row.trajectory_id, row.capability_id): row.decisive for row in causes}
    found = {}
    for name in sorted(name for name, known in labelled.items() if known == counted):
        lacking = lacks.get(name, {})
        if all(said.get((name, one)) == "no" for one in lacking):
            found[name] = {one: label.rationale for one, label in lacking.items()}
    return Open(found)


@dataclass
class Further:
    """What came of reading open failures.

    Attributes:
        proposed: What is new, none merged yet.
        again: What is a known candidate after all, though labels say otherwise: it changes nothing, and is
            there to be read.
    """

    proposed: Proposed = field(default_factory=Proposed)
    again: list[Proposal] = field(default_factory=list)


def further_batches(trajectories: Sequence[Trajectory], section: Discovery, open_: Open) -> list[Batch]:
    """Return the open failures, each in one batch, with successes of the same tasks or of similar ones.

    Args:
        trajectories: Judged ones of one target.
        section: Sizes.
        open_: Which failures.
    """
    listed = sorted(trajectories, key=lambda one: one.trajectory_id)
    failed = [one for one in listed if one.trajectory_id in open_.harmless]
    passed = [one for one in listed if one.success is True]
    likeness, seen = Likeness(listed), set[str]()
    batches = []
    for number, start in enumerate(range(0, len(failed), section.failures), start=1):
        failures = failed[start : start + section.failures]
        most = min(section.successes, max(LEAST_SUCCESSES, len(failures)))
        rng = random.Random(f"{section.seed}:further:{number}")
        successes = partners(failures, passed, likeness, most, rng, seen)
        seen |= {one.trajectory_id for one in successes}
        batches.append(Batch(number, tuple(failures), tuple(successes)))
    return batches


def further_question(
    section: Discovery,
    batch: Batch,
    tokens: int,
    known: Known,
    candidates: Sequence[Capability],
    open_: Open,
    grounds: Grounds,
) -> tuple[Question[CaseAnswer] | Question[ProposalAnswer], int]:
    """Return the question of one batch, and how many of its transcripts were shortened.

    Args:
        section: What is proposed, model and temperature.
        batch: What is read.
        tokens: Budget of each transcript of a full batch; those of a smaller one have more.
        known: What the agent knew, and what was expected.
        candidates: All that are known.
        open_: Which of them the failures lack, for other reasons than their end.
        grounds: What cases may rest on.
    """
    named = _named(candidates)
    called = {one.capability_id: name for name, one in named.items()}
    each = tokens * (section.failures + section.successes) // (len(batch.failures) + len(batch.successes))
    transcripts, compacted = shown_episodes(batch, max(tokens, each), known)
    for one, (_, run) in zip(transcripts, named_episodes(batch), strict=True):
        one["known"] = [
            *one["known"],
            *(
                f"lacks {called[name]}, which did not decide it" + (f": {why}" if why else "")
                for name, why in open_.harmless.get(run.trajectory_id, {}).items()
                if name in called
            ),
        ]
    lines = [
        json.dumps({"id": name, "name": one.name, "description": one.description}, ensure_ascii=False)
        for name, one in named.items()
    ]
    by_case = section.size == "case"
    tools = grounds.lines(known.context, with_expected=True) if by_case else []
    most = MOST_CASES if by_case else MOST
    system = render(
        "further.md",
        by_case=by_case,
        most=most,
        context=known.context.text,
        has_user=known.context.has_user,
    )
    user = render("further_batch.md", known=lines, tools=tools, transcripts=transcripts)
    if not by_case:
        return habits_question(section, system, user, transcripts, batch.number), compacted
    names = {name: one.name for name, one in named.items()}
    return about_cases(section, system, user, transcripts, names, grounds, batch.number), compacted


def propose_further(
    server: ModelServer,
    section: Discovery,
    analyst: str,
    target: str,
    trajectories: Sequence[Trajectory],
    known: Known,
    candidates: Sequence[Capability],
    open_: Open,
    reading: int,
) -> Further:
    """Ask what decided the failures that no candidate explains.

    Args:
        server: Whom to ask.
        section: What is proposed, sizes of batches, model.
        analyst: As in `Proposal.analyst`.
        target: Of the trajectories.
        trajectories: Judged ones.
        known: What is told beside them.
        candidates: All of the target that are known, whoever named them.
        open_: The failures.
        reading: The number of this reading, the first discovery being 1.
    """
    done = Further()
    found: dict[int, tuple[list[Proposal], list[Proposal]]] = {}
    grounds = Grounds()
    if section.size == "case":
        grounds = Grounds.of(known.context, trajectories).with_expected(known.diffs.values())
    named = _named(candidates)

    async def work(batch: Batch) -> None:
        def asked(tokens: int) -> tuple[Question[CaseAnswer] | Question[ProposalAnswer], int]:
            return further_question(section, batch, tokens, known, candidates, open_, grounds)

        answer = await answer_about(server, section, batch, asked, done.proposed)
        if answer is not None:
            said, again = _said(answer, named)
            rows = proposal_rows([*said, *(one for _, one in again)], batch, analyst, target, reading)
            known_rows = zip(rows[len(said) :], again, strict=True)
            found[batch.number] = rows[: len(said)], [_as_known(row, one) for row, (one, _) in known_rows]

    done.proposed.complete = server.run(further_batches(trajectories, section, open_), work)
    for _, (new, again) in sorted(found.items()):
        done.proposed.proposals += new
        done.again += again
    return done


def _named(candidates: Sequence[Capability]) -> dict[str, Capability]:
    """Name the candidates as questions do; a broader one is left out, its cases say more."""
    parents = {one.parent for one in candidates if one.parent}
    own = (one for one in candidates if one.capability_id not in parents)
    return {f"K{place}": one for place, one in enumerate(own, start=1)}


def _said(
    answer: CaseAnswer | ProposalAnswer, named: Mapping[str, Capability]
) -> tuple[list[Said], list[tuple[Capability, Said]]]:
    """Return what is new in an answer, and what is a known candidate after all."""
    if isinstance(answer, ProposalAnswer):
        return [Said(one.name, one.description, one.transcripts) for one in answer.proposals], []
    again = [(named[one.id], one.transcripts) for one in answer.known]
    return (
        [case_said(one, one.transcripts) for one in answer.cases],
        [(one, Said(one.name, one.description, transcripts)) for one, transcripts in again],
    )


def _as_known(row: Proposal, one: Capability) -> Proposal:
    return row.model_copy(
        update={"merged_into": one.capability_id, "merged_by": "model", "recognised_by": "model"}
    )
