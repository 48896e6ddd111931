"""Agents that a model plays, told to exercise the capability or to do without it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from trace_assets.diagnosis.llm.request import Answer
from trace_assets.environments.audit.check import (
    MAX_TURNS,
    AuditCheck,
    Finding,
    Judge,
    NotJudged,
    Subject,
)
from trace_assets.environments.audit.scripted_rollouts import Action, Played
from trace_assets.environments.judge.asking import (
    MOST_DISPUTES,
    asked,
    by_model,
    is_paid,
    right_beside,
    shown_of,
)
from trace_assets.environments.judge.material import (
    EPISODE_TOKENS,
    EPISODES,
    Calls,
    Episode,
    EpisodeNumber,
    JudgeQuestion,
    Material,
    Unplayable,
    arguments_in,
    render,
    transcript,
)
from trace_assets.environments.judge.partial import SHOWN, WAYS
from trace_assets.stats.intervals import wilson

TOLD = 6
"""Episodes that an agent plays."""
MOVES = 8
"""Requests that one agent may take: each holds a move in every open episode."""
Role = Literal["with", "without"]


class Move(Answer):
    """What an agent does next in one episode."""

    episode: EpisodeNumber
    calls: Calls
    say: str


class Moves(Answer):
    """The same in all open episodes."""

    moves: list[Move]


@dataclass
class _Game:
    episode: Episode
    script: list[Action] = field(default_factory=list)
    last: Played | None = None

    @property
    def over(self) -> bool:
        answers = self.last.answers if self.last else []
        return bool(answers) and bool(answers[-1]["done"] or answers[-1]["truncated"])


def play_question(
    material: Material, role: Role, open_ones: Sequence[tuple[int, str]], left: int, model: str
) -> JudgeQuestion[Moves]:
    """Return the question for the next moves.

    Args:
        material: Of the environment; its episodes are not shown.
        role: What the agent is told of the capability.
        open_ones: Number of each open episode, and how it stands.
        left: Moves that are left after this one.
        model: Who is asked.
    """
    numbers = [number for number, _ in open_ones]

    def mend(given: Moves) -> Moves:
        moves = {one.episode: one for one in given.moves if one.episode in numbers}
        return Moves(moves=[moves[number] for number in numbers if number in moves])

    def join(before: Moves, after: Moves) -> Moves:
        return Moves(moves=[*before.moves, *after.moves])

    def examine(given: Moves) -> list[str]:
        there = {one.episode for one in given.moves}
        wrong = [f"episode {number} has no move" for number in numbers if number not in there]
        for one in given.moves:
            try:
                _action(one, 0)
            except Unplayable as why:
                wrong.append(f"episode {one.episode}: {why}")
        return wrong

    return JudgeQuestion(
        kind="play",
        model=model,
        system=render("play.md", role=role, shared=material.shared()),
        user=render("play_ask.md", open=open_ones, left=left),
        schema=Moves,
        examine=examine,
        mend=mend,
        join=join,
    )


def _action(move: Move, number: int) -> Action:
    """Return a move as a message.

    Raises:
        Unplayable: It is none.
    """
    if not move.calls and not move.say.strip():
        raise Unplayable("there is neither a call nor a word in the move")
    calls = [
        {"id": f"told_{number}_{place}", "name": one.tool, "arguments": arguments_in(one.arguments)}
        for place, one in enumerate(move.calls)
    ]
    if not calls:
        return {"role": "assistant", "content": move.say}
    return {"role": "assistant", "content": move.say or None, "tool_calls": calls}


def _told(subject: Subject, judge: Judge, role: Role) -> list[_Game]:
    """Let a model play some episodes to their end.

    Raises:
        NotJudged: An answer could not be had.
    """
    material = shown_of(subject)
    games = [_Game(one) for one in material.episodes[:TOLD]]
    for turn in range(MOVES):
        open_ones = [one for one in games if not one.over]
        if not open_ones:
            break
        shown = [(one.episode.number, _as_it_stands(subject, one, not material.policy)) for one in open_ones]
        question = play_question(material, role, shown, MOVES - turn - 1, judge.model)
        moves = {one.episode: one for one in asked(subject, judge, question).moves}
        for game in open_ones:
            if len(game.script) < MAX_TURNS:
                game.script.append(_action(moves[game.episode.number], turn))
                game.last = subject.probe.play(game.episode.seed, game.script)
    return games


def _as_it_stands(subject: Subject, game: _Game, with_system: bool) -> str:
    first = Played(game.episode.seed, subject.probe.first(game.episode.seed))
    return transcript(game.last or first, with_system=with_system)


def _paid(games: Sequence[_Game]) -> list[bool]:
    return [one.last is not None and one.over and is_paid(one.last, one.episode.best) for one in games]


@by_model
def told_with(subject: Subject, judge: Judge) -> Finding:
    """An agent that a model plays, told to exercise the capability, is paid.

    An episode in which it is not counts where, compared by a model that is not told which is the oracle's,
    what it did is right; otherwise it is the agent's own mistake. One that mostly makes these says nothing.
    """
    games = _told(subject, judge, "with")
    paid = _paid(games)
    n, total = len(games), sum(paid)
    low, high = wilson(total, n)
    bound = "no right solution goes unpaid"
    mistakes, disputed = 0, ""
    lost = [one for one, good in zip(games, paid, strict=True) if not good]
    for game in lost[:MOST_DISPUTES]:
        if game.last is None or not game.over:
            mistakes += 1
            continue
        try:
            verdict = right_beside(subject, judge, game.episode, game.last)
        except NotJudged as error:
            disputed = disputed or f"on seed {game.episode.seed}: {error}"
            continue
        if verdict.right:
            also = {True: ", and the oracle's as well", False: ", and the oracle's is not", None: ""}
            only = also[verdict.oracle]
            words = (
                f"{total} of {n} paid; on seed {game.episode.seed} the agent is right{only}: {verdict.why}"
            )
            return Finding("fail", words, total / n, n, bound, low=low, high=high)
        mistakes += 1
    words = f"{total} of {n} paid" + (f"; {mistakes} were the agent's own mistakes" if mistakes else "")
    if disputed:
        return Finding(
            "skip", f"{words}; of an unpaid one it could not be told {disputed}", total / n, n, bound
        )
    if 2 * total <= n:
        return Finding("skip", f"{words}: the model that played says nothing of it", total / n, n, bound)
    return Finding("pass", words, total / n, n, bound, low=low, high=high)


@by_model
def told_without(subject: Subject, judge: Judge) -> Finding:
    """An agent that a model plays, told to do all right but the capability, is mostly not paid."""
    games = _told(subject, judge, "without")
    n, total = len(games), sum(_paid(games))
    low, high = wilson(total, n)
    most = subject.rules.max_lacking
    ended = sum(one.over for one in games)
    if 2 * ended <= n:
        raise NotJudged(f"only {ended} of {n} episodes were played to their end")
    status: Literal["pass", "fail"] = "fail" if total / n > most else "pass"
    return Finding(
        status, f"{total} of {n} paid without it", total / n, n, f"<= {most:.0%}", low=low, high=high
    )


AGENT_CHECKS = (
    AuditCheck("trace.judge.told_with", "judged", told_with, ("semantic.floor_gap",)),
    AuditCheck("trace.judge.told_without", "judged", told_without, ("semantic.floor_gap",)),
)


# What a judged environment costs, before it is written: requests and tokens, at least and at the most.


INSTRUCTIONS = 1_200
"""Prompt tokens of one question beside policy, tools and episodes."""
EPISODE = 350
"""Of a short episode as it is shown; the longest may take a share of `EPISODE_TOKENS`."""
REVIEW, PLAYS, MOVE, COMPARED = 2_500, 2_000, 500, 250
"""Reply tokens of a review, of solutions written down, of one move in all episodes, of a comparison."""
FEWEST_MOVES = 3
"""Requests in which an agent ends short episodes."""
COMPARING = 3
"""Checks that have solutions compared: each in both orders, and once alone where the two differ."""
WRITTEN = 3
"""Questions that have solutions of all episodes written down."""
REPAIR = 1_100
"""Prompt tokens by which a request grows that is made again: the answer, and what is wrong with it."""


@dataclass(frozen=True)
class Judging:
    """What is asked about one environment.

    Attributes:
        calls: Requests.
        prompt: Tokens of all of them.
        completion: Tokens of the replies.
    """

    calls: int
    prompt: int
    completion: int

    def repaired(self, times: int) -> Judging:
        """Return the same where every question is asked again so many times."""
        again = self.calls * times
        return Judging(
            self.calls + again,
            self.prompt * (1 + times) + again * REPAIR,
            self.completion * (1 + times),
        )


def judging(desk: int, repairs: int = 0) -> tuple[Judging, Judging]:
    """Return what is asked about one environment, at least and at the most.

    At least: a sound one, each question answered at once. At the most: every solution disputed, every way
    paid and accused, records that differ, and every answer sent back as often as the settings allow.

    Args:
        desk: Tokens of its policy and tools.
        repairs: How often an unusable answer is sent back at the most.

    >>> [one.calls for one in judging(1000)], [one.calls for one in judging(1000, 1)]
    ([10, 57], [10, 114])
    """
    most = _judging(desk, EPISODE_TOKENS // EPISODES, MOVES, disputed=True)
    return _judging(desk, EPISODE, FEWEST_MOVES, disputed=False), most.repaired(repairs)


def _judging(desk: int, episode: int, moves: int, *, disputed: bool) -> Judging:
    asked = 1 + WRITTEN + WAYS * disputed  # the review, what is written down, and each way in other episodes
    compared = 3 * MOST_DISPUTES * COMPARING if disputed else 0
    alone = (WAYS + MOST_DISPUTES + 1) * disputed  # ways judged, oracles seen alone, records
    small = INSTRUCTIONS // 4 + desk
    prompt = (
        asked * (INSTRUCTIONS + desk + EPISODES * episode)
        + 2 * moves * (INSTRUCTIONS // 2 + desk + TOLD * episode)
        + compared * (small + 2 * episode)
        + alone * (small + SHOWN * episode)
    )
    completion = REVIEW + (asked - 1) * PLAYS + 2 * moves * MOVE + (compared + alone) * COMPARED
    return Judging(asked + 2 * moves + compared + alone, prompt, completion)
