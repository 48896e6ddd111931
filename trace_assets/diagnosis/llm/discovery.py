"""Proposals of a model: several passes, each over its own batch of failures beside comparable successes."""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from trace_assets.diagnosis.llm.client import ModelServer, Unanswered
from trace_assets.diagnosis.llm.request import Answer, Question, render
from trace_assets.diagnosis.llm.transcript import view
from trace_assets.records import Proposal, Trajectory
from trace_assets.settings import Discovery

MOST = 8
"""Proposals that one pass may make."""
LONGEST_NAME = 120
LONGEST_DESCRIPTION = 1200
SMALLEST = 64


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


def discovery_question(section: Discovery, batch: Batch, tokens: int) -> tuple[Question[ProposalAnswer], int]:
    """Return the question of one pass, and how many of its transcripts were shortened.

    Args:
        section: Model and temperature.
        batch: What the pass reads.
        tokens: Budget of each transcript.
    """
    episodes = _episodes(batch)
    tasks = {
        name: f"K{place}" for place, name in enumerate(dict.fromkeys(one.task_id for _, one in episodes), 1)
    }
    drawn = [(name, one, view(one, tokens)) for name, one in episodes]
    transcripts = [
        {"id": name, "passed": one.success, "task": tasks[one.task_id], "text": shown.text}
        for name, one, shown in drawn
    ]
    failed = [name for name, one in episodes if not one.success]
    question = Question(
        kind="discover",
        model=section.model,
        system=render("discover.md", most=MOST),
        user=render("discover_batch.md", transcripts=transcripts),
        schema=ProposalAnswer,
        temperature=section.temperature,
        seed=batch.number,
        examine=lambda answer: _complaints(answer, failed),
    )
    return question, sum(shown.record.rule != "whole" for _, _, shown in drawn)


def _episodes(batch: Batch) -> list[tuple[str, Trajectory]]:
    """Name a batch's episodes, each failure followed by a success that belongs to it where there is one."""
    mixed: list[Trajectory] = []
    for place in range(max(len(batch.failures), len(batch.successes))):
        mixed += [*batch.failures[place : place + 1], *batch.successes[place : place + 1]]
    return [(f"T{place}", one) for place, one in enumerate(mixed, start=1)]


def _complaints(answer: ProposalAnswer, failed: Sequence[str]) -> list[str]:
    found = []
    if len(answer.proposals) > MOST:
        found.append(f"there are {len(answer.proposals)} proposals, at most {MOST} are allowed")
    for number, one in enumerate(answer.proposals, start=1):
        where = f"proposal {number}"
        if not 3 <= len(one.name.strip()) <= LONGEST_NAME:
            found.append(f"{where}: the name must have 3 to {LONGEST_NAME} characters")
        if not 10 <= len(one.description.strip()) <= LONGEST_DESCRIPTION:
            found.append(f"{where}: the description must have 10 to {LONGEST_DESCRIPTION} characters")
        unknown = [name for name in one.transcripts if name not in failed]
        if unknown or not one.transcripts:
            found.append(
                f"{where}: 'transcripts' must name failed episodes ({', '.join(failed)}), got {unknown}"
            )
    names = [" ".join(one.name.lower().split()) for one in answer.proposals]
    if len(set(names)) < len(names):
        found.append("two proposals have the same name")
    return found


def propose(
    server: ModelServer, section: Discovery, analyst: str, target: str, trajectories: Sequence[Trajectory]
) -> Proposed:
    """Ask for the proposals of all passes.

    Args:
        server: Whom to ask.
        section: Passes, sizes of batches, model.
        analyst: As in `Proposal.analyst`.
        target: Of the trajectories.
        trajectories: Judged ones.
    """
    done = Proposed()
    found: dict[int, list[Proposal]] = {}

    async def work(batch: Batch) -> None:
        tokens = section.transcript_tokens
        while True:
            question, compacted = discovery_question(section, batch, tokens)
            try:
                answer = await server.ask(question)
            except Unanswered as fault:
                tokens //= 2
                if fault.reason == "full" and tokens >= SMALLEST:
                    continue
                done.missing[batch.number] = fault.reason
                return
            done.n_compacted += compacted
            found[batch.number] = _rows(answer, batch, analyst, target)
            return

    done.complete = server.run(draw_batches(trajectories, section), work)
    done.proposals = [row for number in sorted(found) for row in found[number]]
    return done


def _rows(answer: ProposalAnswer, batch: Batch, analyst: str, target: str) -> list[Proposal]:
    ids = {name: one.trajectory_id for name, one in _episodes(batch)}
    return [
        Proposal(
            target=target,
            analyst=analyst,
            proposal_id=f"p{batch.number}-{number}",
            discovery_pass=batch.number,
            name=" ".join(one.name.split()),
            description=" ".join(one.description.split()),
            trajectories=tuple(sorted({ids[name] for name in one.transcripts})),
            n_failures=len(batch.failures),
            n_successes=len(batch.successes),
        )
        for number, one in enumerate(answer.proposals, start=1)
    ]


# Which episodes one discovery pass reads: some failures, and successes of the same or similar tasks.


_WORD = re.compile(r"[^\W\d_]{3,}")


@dataclass(frozen=True)
class Batch:
    """What one pass is shown.

    Attributes:
        number: The pass, from 1.
        failures: Failed trajectories, of as many different tasks as there are.
        successes: Passed ones: other trials of the same tasks first, then those of the most similar tasks.
    """

    number: int
    failures: tuple[Trajectory, ...]
    successes: tuple[Trajectory, ...]


def draw_batches(trajectories: Sequence[Trajectory], section: Discovery) -> list[Batch]:
    """Draw the batches of all passes.

    Each pass takes failures in an order of its own, tasks taking turns, so that passes are resamples of the
    same failures. Equal inputs in any order give equal batches.

    Args:
        trajectories: Of one target; those without a verdict are left out.
        section: Passes and sizes.

    Returns:
        None at all without failures or without successes: there is nothing to contrast.
    """
    listed = sorted(trajectories, key=lambda one: one.trajectory_id)
    failed = [one for one in listed if one.success is False]
    passed = [one for one in listed if one.success is True]
    if not failed or not passed:
        return []
    likeness = Likeness(listed)
    batches = []
    for number in range(1, section.passes + 1):
        rng = random.Random(f"{section.seed}:{number}")
        failures = _turns(failed, rng)[: section.failures]
        successes = _partners(failures, passed, likeness, section.successes, rng)
        batches.append(Batch(number, tuple(failures), tuple(successes)))
    return batches


def _turns(trajectories: Sequence[Trajectory], rng: random.Random) -> list[Trajectory]:
    """Shuffle, and let tasks take turns: a task with many trials is not read more than others."""
    shuffled = rng.sample(list(trajectories), len(trajectories))
    turn: Counter[str] = Counter()
    placed = []
    for place, one in enumerate(shuffled):
        placed.append((turn[one.task_id], place, one))
        turn[one.task_id] += 1
    return [one for _, _, one in sorted(placed, key=lambda row: row[:2])]


def _partners(
    failures: Sequence[Trajectory],
    passed: Sequence[Trajectory],
    likeness: Likeness,
    most: int,
    rng: random.Random,
) -> list[Trajectory]:
    """Choose successes that fit the failures, each failure in turn getting the best one that is left."""
    left = rng.sample(list(passed), len(passed))
    chosen: list[Trajectory] = []
    for place in range(min(most, len(left))):
        failure = failures[place % len(failures)]
        best = max(left, key=lambda one: (one.task_id == failure.task_id, likeness(one, failure)))
        left.remove(best)
        chosen.append(best)
    return chosen


class Likeness:
    """How alike two trajectories' tasks are: the cosine of the rare words in what the user opens with.

    Args:
        trajectories: Among which a word is rare or common.
    """

    def __init__(self, trajectories: Sequence[Trajectory]) -> None:
        self._words = {
            one.trajectory_id: Counter(_WORD.findall(opening(one).lower())) for one in trajectories
        }
        seen = Counter(word for words in self._words.values() for word in words)
        n = max(1, len(self._words))
        self._weight = {word: math.log((n + 1) / (count + 0.5)) for word, count in seen.items()}
        self._length = {name: math.sqrt(self._dot(words, words)) for name, words in self._words.items()}

    def __call__(self, one: Trajectory, other: Trajectory) -> float:
        """Return a number from 0 to 1."""
        length = self._length[one.trajectory_id] * self._length[other.trajectory_id]
        dot = self._dot(self._words[one.trajectory_id], self._words[other.trajectory_id])
        return dot / length if length else 0.0

    def _dot(self, one: Counter[str], other: Counter[str]) -> float:
        return sum(
            count * other[word] * self._weight[word] ** 2 for word, count in one.items() if word in other
        )


def opening(trajectory: Trajectory) -> str:
    """Return what the user said before the agent's first message."""
    said: list[str] = []
    for message in trajectory.messages:
        if message.role == "assistant" and said:
            break
        if message.role == "user" and message.content:
            said.append(message.content)
    return "\n".join(said)
