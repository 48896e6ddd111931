"""Figures that a look alone shows: an agent that has not made that look cannot pass or say them.

The scripted agents know what the oracle does. Where that holds a name or a figure that they have not been
shown, no real agent could do the same, so an environment that takes such a figure for proof of the look is
right. They have to do with another figure; where that is paid too, the figure proves nothing.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from typing import Any

from trace_assets.diagnosis.detectors.values import leaves
from trace_assets.environments.audit.scripted_rollouts import (
    Action,
    Attacker,
    Probe,
    calls_in,
    closing,
    numbered,
)

_TOKEN = re.compile(r"\w[\w.:,/-]*")
LEAST_DIGITS, BESIDE_LETTERS = 3, 2
"""Digits from which on a figure is not guessed, by themselves and beside letters."""
OTHERS = (1, 4, 7)
"""What is added to a figure for another one."""


def with_what_it_knows(agent: Attacker) -> Attacker:
    """Return an agent that leaves out the seeds on which it would need a figure that nothing showed it.

    It plays them with another figure where that is paid all the same.
    """

    def attack(probe: Probe, seed: int) -> list[Action]:
        script = agent(probe, seed)
        if _answers(probe, seed, script):
            return probe.oracle(seed)
        unknown = _unknown(probe, seed, script)
        if not unknown:
            return script
        tried = [_with_others(script, unknown, by) for by in OTHERS]
        return next((one for one in tried if probe.play(seed, one).success), probe.oracle(seed))

    return attack


def _answers(probe: Probe, seed: int, script: Sequence[Action]) -> bool:
    """Whether words are the whole deed and hold a figure: the smallest one is an answer then."""
    if any(probe.writes(one["name"]) for one in calls_in(probe.oracle(seed))):
        return False
    said = set(re.findall(r"\d+", closing(list(script)))) - set(
        re.findall(r"\d+", _texts(probe.best(seed).first))
    )
    return bool(said) and any(closing(list(script)) != closing(probe.oracle(seed + by)) for by in (1, 2))


def _unknown(probe: Probe, seed: int, script: Sequence[Action]) -> list[str]:
    """Return the figures of a script that the oracle's looks show, and nothing the agent has seen by then."""
    best = probe.best(seed)
    looks = [
        answer
        for action, answer in zip(best.actions, best.answers, strict=False)
        if any(not probe.writes(one["name"]) for one in calls_in((action,)))
    ]
    shown = set(_figures(_texts(best.first)))
    of_looks = {figure for answer in looks for figure in _figures(_texts(answer["messages"]))} - shown
    if not of_looks:
        return []
    found: list[str] = []
    answers = probe.play(seed, script).answers
    for place, action in enumerate(script):
        used = [str(action.get("content") or "")]
        used += [str(value) for one in calls_in((action,)) for _, value in leaves(one["arguments"])]
        found += [one for one in _figures("\n".join(used)) if one in of_looks and one not in shown]
        if place < len(answers):  # what is only answered to the figure itself does not make it known
            shown |= set(_figures(_texts(answers[place]["messages"]))) - set(found)
    return sorted(set(found), key=len, reverse=True)


def _texts(messages: Sequence[dict[str, Any]]) -> str:
    return "\n".join(str(one.get("content") or "") for one in messages)


def _figures(text: str) -> list[str]:
    """Return what cannot be guessed.

    >>> _figures("Yes, U217 costs 84 euros, not 390.50, until 2026-05-04.")
    ['U217', '390.50', '2026-05-04']
    """
    found = (one.rstrip(".:,/-") for one in _TOKEN.findall(text))
    return [one for one in found if _digits(one) >= (BESIDE_LETTERS if _lettered(one) else LEAST_DIGITS)]


def _digits(token: str) -> int:
    return sum(one.isdigit() for one in token)


def _lettered(token: str) -> bool:
    return any(one.isalpha() for one in token)


def _with_others(script: Sequence[Action], unknown: Sequence[str], by: int) -> list[Action]:
    """Return a script with other figures, of the same build, in place of some."""
    others = {one: _other(one, by) for one in unknown}
    pattern = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, others))})(?!\w)")

    def changed(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: changed(one) for key, one in value.items()}
        if isinstance(value, list):
            return [changed(one) for one in value]
        if isinstance(value, str):
            return pattern.sub(lambda found: others[found[0]], value)
        if isinstance(value, int | float) and str(value) in others:
            return type(value)(others[str(value)])
        return value

    found = copy.deepcopy(list(script))
    for action in found:
        action["content"] = changed(action.get("content"))
        for one in action.get("tool_calls") or ():
            one["arguments"] = changed(one["arguments"])
    return numbered(found)


def _other(figure: str, by: int) -> str:
    """Return another figure of the same build.

    >>> _other("U217", 4), _other("2026-05-29", 4), _other("37.45", 7)
    ('U211', '2026-05-23', '37.42')
    """
    place = max(n for n, one in enumerate(figure) if one.isdigit())
    return f"{figure[:place]}{(int(figure[place]) + by) % 10}{figure[place + 1 :]}"
