"""What a judged environment costs, before it is written: requests and tokens, at least and at the most."""

from __future__ import annotations

from dataclasses import dataclass

from trace_assets.environments.judge.agents import MOVES, TOLD
from trace_assets.environments.judge.asking import MOST_DISPUTES
from trace_assets.environments.judge.material import EPISODE_TOKENS, EPISODES
from trace_assets.environments.judge.partial import SHOWN, WAYS

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
