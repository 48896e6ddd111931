"""What runs did that were asked for something: whether they did it, by state and by the words of the request.

Nothing here knows an outcome: that runs refrain more in one case than in another is seen in what they do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from trace_assets.diagnosis.detectors.wording import named_after

CLEAR = 2.0
"""Standard errors by which runs must refrain more in one case than in the others."""
MIN_TASKS = 3
"""Tasks on either side of a comparison."""


class Decision(NamedTuple):
    """What a run did about an object that it was asked to use a tool on.

    Attributes:
        words: Those of the user's words that ask for the tool.
        state: The case: a value of a field, or of what was asked for.
        refrained: Whether the tool was not used.
        task: Trials of one task count as one.
    """

    words: frozenset[str]
    state: str
    refrained: bool
    task: str


def divided(decisions: Sequence[Decision], state: str) -> tuple[list[str], list[str]]:
    """Return the words with which a state lets runs refrain, and those with which it does not.

    Both are empty unless the two kinds of requests clearly differ in what runs do: what is lacked is then no
    rule of the state alone, but of the state and of what was asked. Forms of a word count together; a word
    whose runs lie within a standard error of no difference is of neither kind. As words are sorted into kinds
    by the same runs, the kinds must differ by twice the standard errors that one of them needs.

    >>> one = [Decision(frozenset({"refund"}), "shut", True, str(n)) for n in range(9)]
    >>> two = [Decision(frozenset({"return"}), "shut", False, str(n)) for n in range(9)]
    >>> here = one + two + [Decision(each.words, "open", not each.refrained, each.task) for each in one + two]
    >>> divided(here, "shut"), divided(one, "shut")
    ((['refund'], ['return']), ([], []))
    """
    words = sorted(frozenset().union(*(one.words for one in decisions)))
    asked, others = list[str](), list[str]()
    for word in words:
        forms = {one for one in words if one == word or named_after(word, one) or named_after(one, word)}
        effect = effect_of([one for one in decisions if one.words & forms], state)
        if effect is not None and abs(effect[0]) > effect[1]:
            (asked if effect[0] > 0 else others).append(word)
    kinds = [
        effect_of([one for one in decisions if one.words & own and not one.words & rest], state)
        for own, rest in ((set(asked), set(others)), (set(others), set(asked)))
    ]
    if kinds[0] is None or kinds[1] is None:
        return [], []
    (one, error), (other, its_error) = kinds[0], kinds[1]
    clear = one > CLEAR * error and one - other > 2 * CLEAR * math.hypot(error, its_error)
    return (asked, others) if clear else ([], [])


def shunned(decisions: Sequence[Decision]) -> list[str]:
    """Return the states in which runs clearly refrain more than elsewhere; none where all are alike.

    >>> mugs = [Decision(frozenset(), "mug", True, str(n)) for n in range(9)]
    >>> rugs = [one._replace(state="rug", refrained=False) for one in mugs]
    >>> shunned(mugs + rugs), shunned(rugs)
    (['mug'], [])
    """
    found = [
        state
        for state in sorted({one.state for one in decisions})
        if (effect := effect_of(decisions, state)) is not None and effect[0] > CLEAR * effect[1]
    ]
    together = [one._replace(state="found") if one.state in found else one for one in decisions]
    effect = effect_of(together, "found") if found else None
    return found if effect is not None and effect[0] > 2 * CLEAR * effect[1] else []


def effect_of(decisions: Sequence[Decision], state: str) -> tuple[float, float] | None:
    """Return by how much more runs refrain in a state than elsewhere, with its standard error over tasks.

    None where too few tasks lie on either side. A share counts as if one more task were divided, so that few
    tasks that all agree are no certainty.
    """
    sides = []
    for here in (True, False):
        tasks: dict[str, list[bool]] = {}
        for one in decisions:
            if (one.state == state) == here:
                tasks.setdefault(one.task, []).append(one.refrained)
        if len(tasks) < MIN_TASKS:
            return None
        n = len(tasks)
        share = (sum(sum(own) / len(own) for own in tasks.values()) + 0.5) / (n + 1)
        sides.append((share, share * (1 - share) / (n + 1)))
    return sides[0][0] - sides[1][0], math.sqrt(sides[0][1] + sides[1][1])
