"""Proposals of a model: several passes, each over its own batch of failures beside comparable successes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trace_assets.diagnosis.llm.batches import Batch, draw_batches
from trace_assets.diagnosis.llm.cases import (
    LONGEST_NAME,
    CaseAnswer,
    Grounds,
    Rule,
    cases_question,
    described,
    grounds_of,
    rules_question,
)
from trace_assets.diagnosis.llm.client import Incomplete, ModelServer, Unanswered
from trace_assets.diagnosis.llm.json_reply import id_of, within
from trace_assets.diagnosis.llm.request import (
    NOTHING_KNOWN,
    Answer,
    Context,
    Question,
    difference_lines,
    failed_checks,
    render,
)
from trace_assets.diagnosis.llm.transcript import STEPS, view
from trace_assets.records import ActionDiff, Proposal, Trajectory
from trace_assets.settings import Discovery

MOST = 8
"""Proposals that one pass may make."""
LONGEST_DESCRIPTION = 1200
SMALLEST = 64
WHOLE = {step.name for step in STEPS[:2]}
"""Steps of the compaction rule that leave nothing unsaid."""


class OneProposal(Answer):
    """One capability that failed episodes of a batch lack."""

    name: str
    description: str
    transcripts: list[str]


class ProposalAnswer(Answer):
    """What one pass proposes."""

    proposals: list[OneProposal]


@dataclass
class Proposed:
    """What came of the passes.

    Attributes:
        proposals: In the order of passes, none merged yet.
        missing: Passes without a usable answer, with the reason.
        complete: False when the cap stopped it.
        n_compacted: Transcripts that were shortened to fit.
    """

    proposals: list[Proposal] = field(default_factory=list)
    missing: dict[int, str] = field(default_factory=dict)
    complete: bool = True
    n_compacted: int = 0


@dataclass(frozen=True)
class Known:
    """What discovery is told beside the runs: outcomes are known there, so what was expected is too.

    Attributes:
        context: What the agent knew.
        diffs: How failed runs differ from what was expected, by trajectory.
        expected: Failed runs of which it is known what was expected.
        explained: Failed runs of which an earlier diagnosis says what decided them: they are read last.
    """

    context: Context = NOTHING_KNOWN
    diffs: Mapping[str, Sequence[ActionDiff]] = field(default_factory=dict)
    expected: frozenset[str] = frozenset()
    explained: frozenset[str] = frozenset()

    def lines(self, one: Trajectory) -> list[str]:
        """Return what is told of one run's end."""
        if one.success is not False:
            return []
        diffs = self.diffs.get(one.trajectory_id, ())
        return [*failed_checks(one), *difference_lines(diffs, one.trajectory_id in self.expected)]


def discovery_question(
    section: Discovery, batch: Batch, tokens: int, known: Known | None = None
) -> tuple[Question[ProposalAnswer], int]:
    """Return the question of one pass, and how many of its transcripts were shortened.

    Args:
        section: Model and temperature.
        batch: What the pass reads.
        tokens: Budget of each transcript.
        known: What is told beside.
    """
    known = known or Known()
    transcripts, n_compacted = shown_episodes(batch, tokens, known)
    system = render("discover.md", most=MOST, context=known.context.text, has_user=known.context.has_user)
    user = render("discover_batch.md", transcripts=transcripts)
    return habits_question(section, system, user, transcripts, batch.number), n_compacted


def habits_question(
    section: Discovery, system: str, user: str, transcripts: Sequence[Mapping[str, Any]], number: int
) -> Question[ProposalAnswer]:
    """Return a question that is answered by proposals for failed episodes.

    Args:
        section: Model and temperature.
        system: What is asked for.
        user: What it is asked about.
        transcripts: As they are shown, for their ids.
        number: The pass.
    """
    failed = {str(one["id"]): "" for one in transcripts if not one["passed"]}
    return Question(
        kind="discover",
        model=section.model,
        system=system,
        user=user,
        schema=ProposalAnswer,
        temperature=section.temperature,
        seed=number,
        examine=lambda answer: _complaints(answer, failed),
        mend=lambda answer: _mended(answer, failed),
        rest=lambda answer: _mended(answer, failed, strictly=True) if _some(answer, failed) else None,
    )


def shown_episodes(batch: Batch, tokens: int, known: Known) -> tuple[list[dict[str, Any]], int]:
    """Return a batch's episodes as a question shows them, and how many of them were shortened."""
    episodes = named_episodes(batch)
    tasks = {
        name: f"K{place}" for place, name in enumerate(dict.fromkeys(one.task_id for _, one in episodes), 1)
    }
    drawn = [
        (name, one, view(one, tokens, blind=False, above=known.context.policy)) for name, one in episodes
    ]
    transcripts = [
        {
            "id": name,
            "passed": one.success,
            "task": tasks[one.task_id],
            "known": known.lines(one),
            "text": shown.text,
        }
        for name, one, shown in drawn
    ]
    return transcripts, sum(shown.record.rule not in WHOLE for _, _, shown in drawn)


def named_episodes(batch: Batch) -> list[tuple[str, Trajectory]]:
    """Name a batch's episodes, each failure followed by a success that belongs to it where there is one."""
    mixed: list[Trajectory] = []
    for place in range(max(len(batch.failures), len(batch.successes))):
        mixed += [*batch.failures[place : place + 1], *batch.successes[place : place + 1]]
    return [(f"T{place}", one) for place, one in enumerate(mixed, start=1)]


def _mended(answer: ProposalAnswer, failed: Mapping[str, str], *, strictly: bool = False) -> ProposalAnswer:
    """Return the proposals that can be used, with ids as they were given; of equal names the first.

    Args:
        answer: As it was read.
        failed: Ids of failed episodes.
        strictly: Leave proposals out that name no failed episode, instead of having them complained about.
    """
    kept: dict[str, OneProposal] = {}
    spoilt: list[OneProposal] = []
    for one in answer.proposals:
        name, words = within(one.name, LONGEST_NAME), within(one.description, LONGEST_DESCRIPTION)
        named = [found for said in one.transcripts if (found := id_of(said, failed))]
        mended = OneProposal(name=name, description=words, transcripts=list(dict.fromkeys(named)))
        if _problems(mended, failed):
            spoilt.append(mended)
        else:
            kept.setdefault(" ".join(name.lower().split()), mended)
    proposals = list(kept.values())[:MOST]
    return ProposalAnswer(proposals=proposals if proposals or strictly else spoilt)


def _some(answer: ProposalAnswer, failed: Mapping[str, str]) -> bool:
    return any(not _problems(one, failed) for one in answer.proposals)


def _problems(one: OneProposal, failed: Mapping[str, str]) -> list[str]:
    found = []
    if len(one.name) < 3:
        found.append(f"the name must have 3 to {LONGEST_NAME} characters")
    if len(one.description) < 10:
        found.append(f"the description must have 10 to {LONGEST_DESCRIPTION} characters")
    if not one.transcripts:
        found.append(f"'transcripts' must name failed episodes ({', '.join(failed)})")
    return found


def _complaints(answer: ProposalAnswer, failed: Mapping[str, str]) -> list[str]:
    return [
        f"proposal {number}: {words}"
        for number, one in enumerate(answer.proposals, start=1)
        for words in _problems(one, failed)
    ]


def propose(
    server: ModelServer,
    section: Discovery,
    analyst: str,
    target: str,
    trajectories: Sequence[Trajectory],
    known: Known | None = None,
) -> Proposed:
    """Ask for the proposals of all passes.

    Args:
        server: Whom to ask.
        section: Passes, sizes of batches, model.
        analyst: As in `Proposal.analyst`.
        target: Of the trajectories.
        trajectories: Judged ones.
        known: What is told beside them.
    """
    done = Proposed()
    found: dict[int, list[Proposal]] = {}
    known = known or Known()
    by_case = section.size == "case"
    grounds = Grounds.of(known.context, trajectories) if by_case else Grounds()
    rules = _rules(server, section, known, grounds, done) if by_case and known.context.policy else {}

    async def work(batch: Batch) -> None:
        def asked(tokens: int) -> tuple[Question[CaseAnswer] | Question[ProposalAnswer], int]:
            if not by_case:
                return discovery_question(section, batch, tokens, known)
            transcripts, compacted = shown_episodes(batch, tokens, known)
            question = cases_question(section, known.context, transcripts, rules, grounds, batch.number)
            return question, compacted

        answer = await answer_about(server, section, batch, asked, done)
        if answer is not None:
            found[batch.number] = proposal_rows(_said(answer, rules), batch, analyst, target)

    batches = draw_batches(trajectories, section, known.explained)
    done.complete = server.run(batches, work) and done.complete
    if batches:
        policy = Batch(READ, (), ())
        found[READ] = proposal_rows([case_said(one) for one in rules.values()], policy, analyst, target)
    done.proposals = [row for number in sorted(found, key=_last) for row in found[number]]
    return done


async def answer_about(
    server: ModelServer,
    section: Discovery,
    batch: Batch,
    asked: Callable[[int], tuple[Question[CaseAnswer] | Question[ProposalAnswer], int]],
    done: Proposed,
) -> CaseAnswer | ProposalAnswer | None:
    """Ask about a batch, with shorter transcripts where it does not fit the model's context.

    Args:
        server: Whom to ask.
        section: Budget of a transcript.
        batch: What is asked about.
        asked: Returns the question for a budget, and how many transcripts were shortened.
        done: Takes why there is no answer.
    """
    tokens = section.transcript_tokens
    while True:
        question, compacted = asked(tokens)
        try:
            answer: CaseAnswer | ProposalAnswer = await server.ask(question)  # type: ignore[arg-type]
        except Incomplete as fault:
            answer = fault.answer
        except Unanswered as fault:
            tokens //= 2
            if fault.reason == "full" and tokens >= SMALLEST:
                continue
            done.missing[batch.number] = fault.reason
            return None
        done.n_compacted += compacted
        return answer


READ = 0
"""The pass that reads the policy alone."""


def _last(number: int) -> tuple[bool, int]:
    """Put what the policy alone gives behind what failures show."""
    return number == READ, number


def _rules(
    server: ModelServer, section: Discovery, known: Known, grounds: Grounds, done: Proposed
) -> dict[str, Rule]:
    """Return the cases that the policy gives, by what questions call them."""
    try:
        answer = server.ask_alone(rules_question(section, known.context, grounds))
    except Incomplete as fault:
        answer = fault.answer
    except Unanswered as fault:
        done.missing[READ] = fault.reason
        return {}
    if answer is None:
        done.complete = False
        return {}
    return {f"R{place}": one for place, one in enumerate(answer.cases, start=1)}


@dataclass(frozen=True)
class Said:
    """What one pass says, whether habit or case."""

    name: str
    description: str
    transcripts: Sequence[str] = ()
    grounds: Mapping[str, str] = field(default_factory=dict)


def _said(answer: CaseAnswer | ProposalAnswer, rules: Mapping[str, Rule]) -> list[Said]:
    """Return what a pass says; a rule that is known has the policy's words, whoever names it."""
    if isinstance(answer, ProposalAnswer):
        return [Said(one.name, one.description, one.transcripts) for one in answer.proposals]
    again = [case_said(rules[one.id], one.transcripts) for one in answer.known]
    return [*(case_said(one, one.transcripts) for one in answer.cases), *again]


def case_said(one: Rule, transcripts: Sequence[str] = ()) -> Said:
    """Return a case as what a pass says."""
    return Said(one.name, described(one), transcripts, grounds_of(one))


def proposal_rows(
    said: Sequence[Said], batch: Batch, analyst: str, target: str, reading: int = 1
) -> list[Proposal]:
    """Return what was said of a batch as rows, episodes by their trajectory's id."""
    where = "" if reading == 1 else f"r{reading}-"
    ids = {name: one.trajectory_id for name, one in named_episodes(batch)}
    return [
        Proposal(
            target=target,
            analyst=analyst,
            proposal_id=f"{where}p{batch.number}-{number}",
            discovery_pass=batch.number,
            reading=reading,
            name=" ".join(one.name.split()),
            description=" ".join(one.description.split()),
            grounds=dict(one.grounds),
            trajectories=tuple(sorted({ids[name] for name in one.transcripts})),
            n_failures=len(batch.failures),
            n_successes=len(batch.successes),
        )
        for number, one in enumerate(said, start=1)
    ]
