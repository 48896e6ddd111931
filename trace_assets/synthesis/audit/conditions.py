"""Whether anything beside seed and actions decides an episode: what the sandbox holds still is changed here.

Everywhere else the clock stands at one moment, every process has one number, requests count from 1. Here they
do not, and the sandbox has served other episodes before: an environment that looks at one of them is found
out, though it would have looked in vain.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from trace_assets.sandbox.conditions import CLOCK, Conditions
from trace_assets.synthesis.audit.attackers import hostile_values, messy
from trace_assets.synthesis.audit.attackers.strangers import stranger
from trace_assets.synthesis.audit.check import AuditCheck, Finding, Subject
from trace_assets.synthesis.audit.probe import Action, Played, Probe

DAY = 86_400
VARIED: Mapping[str, tuple[Conditions, int]] = {
    "two days later": (Conditions(clock=CLOCK + 2 * DAY + 3_661, process=3, first_request=2), 1),
    "years later, in an old sandbox": (
        Conditions(clock=CLOCK + 3_650 * DAY, process=40_007, first_request=1_000_001),
        96,
    ),
    "years before": (Conditions(clock=CLOCK - 9_000 * DAY, process=901, first_request=4_001), 24),
    "beyond 2038": (Conditions(clock=2_200_000_000, process=2**22 - 1, first_request=2**31), 8),
}
"""Conditions by what they are called, and how many episodes the sandbox has served before."""


def hidden_conditions(subject: Subject) -> Finding:
    """Date, process, number of requests and what ran in the sandbox before decide nothing."""
    probe, bound = subject.probe, "episodes equal under four other dates, processes, counts and ages"
    scripts = [
        (seed, script) for seed in subject.seeds[: subject.sizes.compared] for script in _scripts(probe, seed)
    ]
    with probe.fresh() as box:
        usual = [box.play(seed, script) for seed, script in scripts]
    for words, (conditions, age) in VARIED.items():
        with probe.fresh(conditions) as box:
            box.age(age)
            for one in usual:
                again = box.play(one.seed, one.actions)
                if _whole(again) != _whole(one):
                    seen = f"seed {one.seed}, {words}: {_difference(one, again)}"
                    return Finding("fail", seen, None, len(usual), bound)
    return Finding("pass", "all agree", None, len(usual) * len(VARIED), bound)


def _scripts(probe: Probe, seed: int) -> Iterator[list[Action]]:
    yield []
    yield probe.oracle(seed)
    yield messy(probe, seed)
    yield hostile_values(probe, seed)
    yield stranger("looks", "a sentence")(probe, seed)
    yield stranger("does nothing", "a paragraph")(probe, seed)


def _whole(played: Played) -> str:
    return json.dumps([played.first, played.answers, played.verdict])


def _difference(one: Played, again: Played) -> str:
    if one.first != again.first:
        return "other first messages"
    if one.answers != again.answers:
        return "other observations"
    return f"reward {one.reward!r}, then {again.reward!r} for the same actions"


CHECKS = (
    AuditCheck("trace.hidden_conditions", "runtime", hidden_conditions, ("runtime.episode_isolation",)),
)
