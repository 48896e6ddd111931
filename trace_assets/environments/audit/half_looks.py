"""Agents that leave out a look, or half of one: they cannot know what it alone shows.

The scripted agents know what the oracle does. Where that holds a name or a figure that they have not been
shown, no real agent could do the same, so an environment that takes such a figure for proof of the look is
right. They have to do with another figure; where that is paid too, the figure proves nothing. And each look
that the decision hangs on is left out by itself: half of a look is not enough.
"""

from __future__ import annotations

import copy
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from trace_assets.diagnosis.detectors.values import leaves
from trace_assets.environments.audit.check import Subject
from trace_assets.environments.audit.decision_tree import (
    SURE,
    Decided,
    before_writes,
    decided,
    foretold,
    grow,
    now_of,
    with_ages,
)
from trace_assets.environments.audit.scripted_rollouts import (
    Action,
    Attacker,
    Played,
    Probe,
    calls_in,
    closing,
    numbered,
)
from trace_assets.environments.contract.decisions import fields_of

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


MOST_LOOKS = 6
"""Looks of an episode that are told apart: who goes through a long list needs all of it or none."""
MIXED = 0.9
"""Share of the usual decision, up to which what else is known does not tell the decision."""
LEAST = 4
"""Seeds on which a look has to be needed for it to be tried without."""
DEPTH, LEAF = 4, 4
_USUAL = 0.1
"""Share of requests that has a word, and that has not, for it to be looked at."""


def without_a_look(subject: Subject) -> dict[str, list[Played]]:
    """Play the oracle's script without one of its looks, where all else does not tell the decision.

    Whether they do is told by decision trees: a look is needed on a seed where those of its kind (all else
    that is shown being alike) are decided otherwise. Where trees cannot tell the decision from all looks
    together, nothing is said.

    Returns:
        By the look that is left out, the episodes on seeds on which it is needed.
    """
    cases = decided(subject)
    kinds = [one.kind for one in cases]
    shown = _shown(subject, cases)
    looks = sorted({look for rows in shown.values() for look in rows})
    if len(looks) < 2 or len(set(kinds)) < 2:
        return {}
    words = _words(cases)
    every = [_row(shown[one.seed], looks) for one in cases]
    if foretold(every, kinds) < SURE:
        return {}
    found: dict[str, list[Played]] = {}
    for look in looks:
        if len({one.kind for one in cases if look in shown[one.seed]}) < 2:
            continue  # it follows from the decision, and does not lead to it
        rows = [_row(shown[one.seed], looks, look) | words[one.seed] for one in cases]
        needed = [one for one in _undecided(rows, cases) if look in shown[one.seed]]
        tried = [one.seed for one in needed][: subject.sizes.attack]
        if len(tried) >= LEAST:
            played = _played_without(subject.probe, tried, look)
            if len(played) >= LEAST:
                found[f"without look {look[1] + 1} by {look[0]}"] = played
    return found


Look = tuple[str, int]
"""A tool, and how many of its looks came before."""


def _shown(subject: Subject, cases: Sequence[Decided]) -> dict[int, dict[Look, dict[str, Any]]]:
    """Return by seed and look what was told before the first change."""
    now, found = now_of(subject), dict[int, dict[Look, dict[str, Any]]]()
    for one in cases:
        counts: Counter[str] = Counter()
        own: dict[Look, dict[str, Any]] = {}
        for call, text, is_error in before_writes(subject.probe, one.seed)[:MOST_LOOKS]:
            look = call["name"], counts[call["name"]]
            counts[call["name"]] += 1
            path = f"{look[0]}/{look[1]}"
            own[look] = with_ages(fields_of(path, "error" if is_error else text), now)
        found[one.seed] = own
    return found


def _row(
    shown: Mapping[Look, Mapping[str, Any]], looks: Sequence[Look], but: Look | None = None
) -> dict[str, Any]:
    """Return what all looks told but one; that there was a look, or none, tells something too."""
    row = {path: value for look in looks if look != but for path, value in shown.get(look, {}).items()}
    return row | {f"{look[0]}/{look[1]}": look in shown for look in looks if look != but}


def _words(cases: Sequence[Decided]) -> dict[int, dict[str, bool]]:
    """Return by seed which words the user says, of those that neither all nor hardly any users do."""
    said = {
        one.seed: {
            word
            for m in one.first
            if m["role"] == "user"
            for word in re.findall(r"[^\W\d_]{2,}", str(m.get("content") or "").lower())
        }
        for one in cases
    }
    counts = Counter(word for own in said.values() for word in own)
    least, n = _USUAL * len(cases), len(cases)
    usual = [word for word, times in counts.items() if least <= times <= n - least]
    return {seed: {f"says '{word}'": word in own for word in usual} for seed, own in said.items()}


def _undecided(rows: Sequence[Mapping[str, Any]], cases: Sequence[Decided]) -> list[Decided]:
    """Return the cases whose kind is not told by some rows: alike ones are decided otherwise."""
    tree = grow(rows, [one.kind for one in cases], DEPTH, LEAF)
    leaves: dict[str, list[Decided]] = defaultdict(list)
    for one, row in zip(cases, rows, strict=True):
        leaf = tree.leaf(row)
        if leaf is not None:
            leaves[leaf[0]].append(one)
    found: list[Decided] = []
    for own in leaves.values():
        usual = Counter(one.kind for one in own).most_common(1)[0][1]
        if len(own) >= 2 * LEAF and usual / len(own) < MIXED:
            found += own
    return sorted(found, key=lambda one: one.seed)


def _played_without(probe: Probe, seeds: Sequence[int], look: Look) -> list[Played]:
    """Play seeds without a look, those left out on which what follows needs a name that it alone shows."""
    agent = with_what_it_knows(lambda own, seed: _left_out(own, seed, *look))
    scripts = {seed: agent(probe, seed) for seed in seeds}
    return [probe.play(seed, script) for seed, script in scripts.items() if script != probe.oracle(seed)]


def _left_out(probe: Probe, seed: int, tool: str, number: int) -> list[Action]:
    """Return the oracle's script without one look."""
    script, seen, found = probe.oracle(seed), 0, []
    for action in script:
        calls = []
        for one in calls_in((action,)):
            is_it = one["name"] == tool and seen == number
            seen += one["name"] == tool
            calls += [] if is_it else [one]
        if calls or action.get("content"):
            found.append({**action, "tool_calls": calls} if action.get("tool_calls") else action)
    return numbered(found)
