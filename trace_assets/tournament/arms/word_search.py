"""GEPA's search: words beside the task evolve by reflection on episodes (its own package does the search).

Agrawal et al. 2025, arXiv 2507.19457. Importing this module does not load the package.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from trace_assets.diagnosis.llm.request import failed_checks
from trace_assets.errors import Unavailable, require_extra
from trace_assets.policies.protocol import AdvisedPolicy, Place, Policy
from trace_assets.records import Task, Trajectory
from trace_assets.store.content import text_version
from trace_assets.system.progress import Bar, progress
from trace_assets.tournament.arms.protocol import written
from trace_assets.training.episodes import Player, is_broken

if TYPE_CHECKING:
    from gepa.core.adapter import EvaluationBatch, ProposalFn
    from gepa.core.result import GEPAResult
    from gepa.core.state import GEPAState

Feedback = Literal["score", "checks"]
"""What is told of an episode's end: its reward, or which checks failed as well, which no GRPO is told."""

MINIBATCH = 3
"""Episodes that one proposal is made from, GEPA's own default."""
FEWEST_PROPOSALS = 3
PLAYS = 3
"""How often an episode is played that breaks: a fault is never a reward of 0, and GEPA must have a reward."""
PAID_IN_FULL = 1.0
WORDS = "words"
"""Name of the one text that evolves."""


class Writer(Protocol):
    """Who proposes other words."""

    @property
    def ended(self) -> str:
        """Why there is nothing more to propose; empty while there is."""
        ...

    def propose(self, told: str, episodes: Sequence[Mapping[str, Any]]) -> str:
        """Return other words.

        Args:
            told: The words under which the episodes were played.
            episodes: Each with its `task`, `transcript` and `feedback`.
        """
        ...


@dataclass(frozen=True)
class Found:
    """What a search came to.

    Attributes:
        words: All that were kept on the way, no two alike, those of the highest mean reward first.
        played: Rollouts.
        ended: Why it ended before its rollouts were spent; empty where they were.
    """

    words: tuple[str, ...]
    played: int
    ended: str


def fewest_rollouts(chosen_on: int) -> int:
    """Return the rollouts below which a search ends with its first word or two.

    Each proposal is tried on a few tasks and, where it is better there, on all that words are chosen on; the
    first of these are for no words at all (GEPA's issue 375: runs whose choice ate the budget).

    >>> fewest_rollouts(20)
    98
    """
    return chosen_on + FEWEST_PROPOSALS * (2 * MINIBATCH + chosen_on)


def split(tasks: Sequence[Task], most: int) -> tuple[list[Task], list[Task]]:
    """Divide discovery tasks between those that are read and those that words are chosen on, a third of them.

    Args:
        tasks: In their order.
        most: Tasks to choose on, at most.

    >>> of = {"target": "t", "split": "discovery", "task_batch": "all", "payload": {}}
    >>> read, chosen_on = split([Task(task_id=str(n), **of) for n in range(9)], 2)
    >>> [one.task_id for one in chosen_on], len(read)
    (['2', '5'], 7)
    """
    chosen_on = list(tasks)[2::3][:most]
    names = {one.task_id for one in chosen_on}
    return [one for one in tasks if one.task_id not in names], chosen_on


def search(
    player: Player,
    read: Sequence[Task],
    chosen_on: Sequence[Task],
    writer: Writer,
    *,
    place: Place,
    feedback: Feedback,
    budget: int,
    folder: Path,
) -> Found:
    """Search for words under which the player's policy is paid more.

    Args:
        player: Plays the episodes; its policy is the base model, which is told nothing.
        read: Tasks whose episodes are reflected on.
        chosen_on: Tasks on which words are compared.
        writer: Proposes.
        place: Where the words stand.
        feedback: What is told of an episode's end.
        budget: Rollouts, never exceeded.
        folder: For GEPA's state: a killed search goes on from its last proposal. The tasks that words are
            chosen on are played without any once more then, which is not counted.

    Raises:
        Unavailable: An episode broke time and again, or the package is not installed.
    """
    require_extra("gepa", "gepa", "the search for words")
    from gepa.api import optimize

    proposer = _Proposer(writer)
    with progress("words that GEPA finds", budget) as bar:
        episodes = _Episodes(player, place, feedback, bar)
        result: GEPAResult[str, Any] = optimize(
            seed_candidate={WORDS: ""},
            trainset=list(read),
            valset=list(chosen_on),
            adapter=episodes,
            custom_candidate_proposer=proposer,
            reflection_minibatch_size=MINIBATCH,
            # It asks before an iteration, which plays so many at most.
            max_metric_calls=budget - 2 * MINIBATCH - len(chosen_on),
            stop_callbacks=proposer.is_done,
            run_dir=str(folder),
            logger=_Silent(),
            seed=player.seed,
            raise_on_exception=True,
        )
    if proposer.failed is not None:
        raise proposer.failed
    found = zip(result.candidates, result.val_aggregate_scores, strict=True)
    best = sorted(found, key=lambda one: -one[1])  # of equals the earlier
    words = tuple(dict.fromkeys(one[WORDS] for one, _ in best))
    return Found(words, int(result.total_metric_calls or 0), proposer.ended)


class _Proposer:
    """Hands GEPA what a writer proposes, and ends the search where there is nothing more to be had.

    GEPA logs what is raised in a proposal and goes on: here it ends the search and is raised behind it, as
    otherwise a server that is down would spend the rollouts.
    """

    def __init__(self, writer: Writer) -> None:
        self._writer, self._perfect = writer, False
        self.failed: Exception | None = None

    def __call__(
        self,
        candidate: dict[str, str],
        reflective_dataset: Mapping[str, Sequence[Mapping[str, Any]]],
        components_to_update: list[str],
    ) -> dict[str, str]:
        if self.failed is not None:
            raise self.failed  # it is asked once more
        try:
            return {
                name: self._writer.propose(candidate[name], reflective_dataset[name])
                for name in components_to_update
            }
        except Exception as error:
            self.failed = error
            raise

    @property
    def ended(self) -> str:
        """Why the search ended before its rollouts were spent."""
        if self._perfect:
            return "every task that words are chosen on was paid in full"
        return self._writer.ended

    def is_done(self, gepa_state: GEPAState[Any, Any]) -> bool:
        """Whether nothing more can be had: GEPA itself would go on to play what it cannot improve."""
        scores = gepa_state.prog_candidate_val_subscores
        self._perfect = any(min(one.values(), default=0.0) >= PAID_IN_FULL for one in scores)
        return bool(self.failed or self.ended)


class _Silent:
    def log(self, message: str) -> None:
        """GEPA tells its every step; the folder keeps what matters of it."""


class _Episodes:
    """What GEPA asks of a system that it improves (`gepa.core.adapter.GEPAAdapter`)."""

    propose_new_texts: ProposalFn | None = None

    def __init__(self, player: Player, place: Place, feedback: Feedback, bar: Bar) -> None:
        self._player, self._place, self._feedback, self._bar = player, place, feedback, bar
        self._untold = player.policy

    def evaluate(
        self, batch: list[Task], candidate: dict[str, str], capture_traces: bool = False
    ) -> EvaluationBatch[Trajectory, str]:
        from gepa.core.adapter import EvaluationBatch

        played = self._play(batch, candidate[WORDS])
        self._bar.advance(len(batch))
        return EvaluationBatch(
            outputs=[one.trajectory_id for one in played],
            scores=[float(one.reward) for one in played if one.reward is not None],
            trajectories=played if capture_traces else None,
        )

    def make_reflective_dataset(
        self,
        candidate: dict[str, str],
        eval_batch: EvaluationBatch[Trajectory, str],
        components_to_update: list[str],
    ) -> dict[str, list[dict[str, str]]]:
        rows = [
            {
                "task": one.task_id,
                "transcript": written(one),
                "feedback": told_of(one, self._feedback),
            }
            for one in eval_batch.trajectories or []
        ]
        return {name: rows for name in components_to_update}

    def _play(self, tasks: Sequence[Task], words: str) -> list[Trajectory]:
        """Play an episode of each, under equal seeds whatever the words; none comes back without a reward."""
        self._player.policy = told(self._untold, words, self._place)
        name = f"gepa {text_version(*(one.task_id for one in tasks))}"
        played: dict[int, Trajectory] = {}
        broken, why = list(range(len(tasks))), "no reason given"
        for again in range(PLAYS):
            try:
                rollouts = self._player.play(
                    [tasks[n] for n in broken], f"{name}, {again}" if again else name
                )
            except Unavailable as error:  # most of them broke, which of so few may well be chance
                why = str(error)
                continue
            for n, rollout in zip(broken, rollouts, strict=True):
                played[n] = rollout.trajectory
            broken = [n for n in broken if is_broken(played[n])]
            if not broken:
                return [played[n] for n in range(len(tasks))]
            why = played[broken[0]].error or why
        names = ", ".join(sorted({tasks[n].task_id for n in broken}))
        raise Unavailable(
            f"episodes of {names} broke {2 * PLAYS} times, so nothing can be said of words under which they "
            f"are played ({why.rstrip('.')}): mend what breaks them, and run again; proposals are kept."
        )


def told(policy: Policy, words: str, place: Place) -> Policy:
    """Return a policy that is told words, or itself where there are none.

    Args:
        policy: It is told nothing so far.
        words: Them.
        place: Where they stand.
    """
    return AdvisedPolicy(policy, words, place) if words else policy


def told_of(one: Trajectory, feedback: Feedback) -> str:
    """Return what is told of an episode's end."""
    paid = f"The episode {'passed' if one.success else 'failed'} and was paid {one.reward:g}."
    return " ".join([paid, *(f"{line}." for line in failed_checks(one))]) if feedback == "checks" else paid


class ListedWords:
    """Draws from a closed list of sentences: for an agent that can follow these and no other words.

    Args:
        sentences: The list.
        seed: Decides what is drawn.
    """

    PROPOSALS = 8
    """For each sentence of the list."""

    def __init__(self, sentences: Sequence[str], seed: int) -> None:
        self._sentences, self._lots = list(dict.fromkeys(sentences)), random.Random(f"{seed}/listed words")
        self._proposed = 0

    @property
    def ended(self) -> str:
        """After so many proposals."""
        done = self._proposed >= self.PROPOSALS * len(self._sentences)
        return f"{self._proposed} proposals were drawn from a list of {len(self._sentences)}" if done else ""

    def propose(self, told: str, episodes: Sequence[Mapping[str, Any]]) -> str:
        """Add a sentence, or take one away."""
        self._proposed += 1
        said = [one for one in self._sentences if one in told]
        left = [one for one in self._sentences if one not in told]
        if said and (not left or self._lots.random() < 0.5):
            said.remove(self._lots.choice(said))
        else:
            said.append(self._lots.choice(left))
        return " ".join(one for one in self._sentences if one in said)
