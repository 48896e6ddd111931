"""Where a change is wrong by one half of a rule: it goes unpaid there, however seldom that half decides."""

from __future__ import annotations

from collections import Counter, defaultdict

from trace_assets.environments.audit.added_changes import ADDED, changes_in, other_writes, was_refused
from trace_assets.environments.audit.allowed_ways import as_good, told_to_agents
from trace_assets.environments.audit.check import Subject
from trace_assets.environments.audit.scripted_rollouts import Call, Played, calls_in, thing_of

MIN_SEEDS, MOST_SEEDS = 4, 6
"""Seeds of one reason that are held to the bounds by themselves, and that are played."""


def with_another_tool(subject: Subject) -> dict[str, list[Played]]:
    """Make another change in place of the oracle's only one, and hold each reason for that to the bounds.

    The reason is the oracle's tool, with those of its values that other seeds share. A change that is refused
    changes nothing, and what the texts leave to choose is not wrong.

    Returns:
        Episodes by the tool that is used and the reason against it.
    """
    probe, found = subject.probe, defaultdict[str, list[Played]](list)
    last: dict[int, Call] = {}
    for seed in subject.seeds_of(2 * subject.sizes.attack):
        made = [one for one in calls_in(probe.oracle(seed)) if probe.writes(one["name"])]
        if len(made) == 1:
            last[seed] = made[0]
    shared = Counter(
        (one["name"], key, str(v)) for one in last.values() for key, v in one["arguments"].items()
    )
    for seed, one in last.items():
        script = probe.oracle(seed)
        [(place, _)] = changes_in(probe, script)
        values = [f"{key} {v}" for key, v in one["arguments"].items() if shared[one["name"], key, str(v)] > 1]
        rng = probe.chance(f"half_rules/{seed}")
        for name, given in other_writes(probe, seed, thing_of(one), {one["name"]}, rng):
            words = f"{name} where the oracle's is {' '.join([one['name'], *values])}"
            if probe.hands_over(name) or probe.leaves_words(name) or len(found[words]) == MOST_SEEDS:
                continue
            if as_good(told_to_agents(subject), name, one["name"]):
                continue
            other = {"role": "assistant", "tool_calls": [{"id": ADDED, "name": name, "arguments": given}]}
            edited = [*script[:place], other, *script[place + 1 :]]
            played = probe.play(seed, edited)
            if not was_refused(edited, played):
                found[words].append(played)
    return {words: played for words, played in sorted(found.items()) if len(played) >= MIN_SEEDS}
