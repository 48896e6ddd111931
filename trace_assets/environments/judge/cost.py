"""What a judged environment costs, before it is written: requests and tokens, at least and at the most."""

from __future__ import annotations

from dataclasses import dataclass

from trace_assets.environments.judge.agents import MOVES, TOLD
from trace_assets.environments.judge.asking import MOST_DISPUTES
from trace_assets.environments.judge.material import EPISODE_TOKENS, EPISODES

INSTRUCTIONS = 1_200
"""Prompt tokens of one question beside policy, tools and episodes."""
EPISODE = 350
"""Of a short episode as it is shown; the longest may take a share of `EPISODE_TOKENS`."""
REVIEW, PLAYS, MOVE, COMPARED = 2_500, 2_000, 500, 250
"""Reply tokens of a review, of solutions written down, of one move in all episodes, of a comparison."""
FEWEST_MOVES = 3
"""Requests in which an agent ends short episodes."""
COMPARING = 3
"""Checks that have solutions compared."""


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


def judging(desk: int) -> tuple[Judging, Judging]:
    """Return what is asked about one environment, at least and at the most.

    Args:
        desk: Tokens of its policy and tools.

    >>> [one.calls for one in judging(1000)]
    [9, 37]
    """
    return _judging(desk, EPISODE, FEWEST_MOVES, 0), _judging(
        desk, EPISODE_TOKENS // EPISODES, MOVES, 2 * MOST_DISPUTES * COMPARING
    )


def _judging(desk: int, episode: int, moves: int, comparisons: int) -> Judging:
    whole = 3 * (INSTRUCTIONS + desk + EPISODES * episode)
    played = 2 * moves * (INSTRUCTIONS // 2 + desk + TOLD * episode)
    compared = comparisons * (INSTRUCTIONS // 4 + desk + 2 * episode)
    return Judging(
        3 + 2 * moves + comparisons,
        whole + played + compared,
        REVIEW + 2 * PLAYS + 2 * moves * MOVE + comparisons * COMPARED,
    )
