"""Whether a module runs: it starts, answers whatever an agent says in the agreed form, ends, and is quick."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from trace_assets.environments.audit.adversarial import hostile_values, messy
from trace_assets.environments.audit.check import MAX_TURNS, AuditCheck, Finding, Subject
from trace_assets.environments.audit.scripted_rollouts import Action, Played, Probe, calls_in
from trace_assets.environments.audit.strangers import stranger
from trace_assets.sandbox import EnvironmentFault
from trace_assets.sandbox.config import CLOCK, Conditions
from trace_assets.stats.intervals import wilson


def startup(subject: Subject) -> Finding:
    """The module is executed, names its tools and resets."""
    tools = subject.probe.tools()
    if not tools:
        return Finding("fail", "tools() is empty", bound="at least one tool")
    subject.probe.first(subject.seeds[0])
    return Finding("pass", f"{len(tools)} tools", bound="tools() and reset() answer")


def observation_schema(subject: Subject) -> Finding:
    """Whatever an agent says, steps answer in time with well-formed messages, one for every call."""
    probe, n = subject.probe, 0
    bound = "well-formed answers, one for every call"
    for seed in subject.seeds[: subject.sizes.compared]:
        for script in (Probe.oracle, messy, hostile_values):
            actions = script(probe, seed)
            problem = _unanswered(actions, probe.walk(seed, actions))
            if problem:
                return Finding("fail", f"seed {seed}: {problem}", None, n, bound)
            n += 1
    return Finding("pass", "no step raised, hung or answered out of shape", 0.0, n, bound)


def _unanswered(actions: Sequence[Action], answers: Sequence[dict[str, Any]]) -> str:
    """Return which calls of an episode were not answered by exactly one message, empty when all were."""
    for action, answer in zip(actions, answers, strict=False):
        asked = [call["id"] for call in action.get("tool_calls") or ()]
        told = [m.get("tool_call_id") for m in answer["messages"] if m["role"] == "tool"]
        if sorted(asked) != sorted(str(one) for one in told):
            return f"calls {asked} were answered as {told}"
    return ""


def reward_well_formed(subject: Subject) -> Finding:
    """Rewards are finite numbers in [0, 1], given once, also for agents that do nothing or make a mess."""
    probe, rewards = subject.probe, []
    for seed in subject.seeds[: subject.sizes.compared]:
        for script in ([], probe.oracle(seed), messy(probe, seed), hostile_values(probe, seed)):
            try:
                rewards.append(probe.play(seed, script).reward)
            except EnvironmentFault as fault:
                return Finding("fail", f"seed {seed}: {fault}", None, len(rewards) + 1, "in [0, 1], finite")
    return Finding(
        "pass", f"{min(rewards):.3g} to {max(rewards):.3g}", None, len(rewards), "in [0, 1], finite"
    )


def oracle_ends(subject: Subject) -> Finding:
    """The oracle's last message ends the episode, and it needs no more messages than an agent has."""
    probe, lengths = subject.probe, []
    bound = f"done after its last message, <= {MAX_TURNS} messages"
    for seed in subject.seeds:
        script, played = probe.oracle(seed), probe.best(seed)
        lengths.append(len(script))
        ended = bool(played.answers) and bool(played.answers[-1]["done"])
        if not ended or len(played.actions) < len(script) or len(script) > MAX_TURNS:
            seen = f"seed {seed}: {len(played.actions)} of {len(script)} messages played"
            return Finding("fail", f"{seen}, {'done' if ended else 'not done'}", None, len(lengths), bound)
    return Finding("pass", f"{min(lengths)} to {max(lengths)} messages", max(lengths), len(lengths), bound)


def latency(subject: Subject) -> Finding:
    """Episodes are cheap."""
    played = [subject.probe.best(seed) for seed in subject.seeds]
    reset = median(one.reset_seconds for one in played)
    step = median(one.step_seconds / max(1, len(one.answers)) for one in played)
    rules = subject.rules
    bound = f"reset <= {rules.max_seconds_reset} s, step <= {rules.max_seconds_step} s (medians)"
    passed = reset <= rules.max_seconds_reset and step <= rules.max_seconds_step
    evidence = "within the bound" if passed else "slower than the bound"
    timing = f"reset {1e3 * reset:.2f} ms, step {1e3 * step:.3f} ms"
    return Finding("pass" if passed else "fail", evidence, None, len(played), bound, timing)


_STATIC = ("trace.signatures", "trace.imports_allowed", "trace.dynamic_code", "trace.hidden_inputs")
RUNTIME_CHECKS = (
    AuditCheck("runtime.startup", "runtime", startup, _STATIC),
    AuditCheck("runtime.observation_schema", "runtime", observation_schema, ("runtime.startup",)),
    AuditCheck("runtime.reward_well_formed", "runtime", reward_well_formed, ("runtime.observation_schema",)),
    AuditCheck("trace.oracle_ends", "runtime", oracle_ends, ("runtime.reward_well_formed",)),
    AuditCheck("trace.latency", "runtime", latency, ("runtime.reward_well_formed",)),
)


WARMED = '''

_fresh_reset = reset


def reset(seed):
    """Play another episode in this process first: exports reset one process over and over."""
    other = int(seed) + 1
    _fresh_reset(other)
    for message in oracle(other):
        if step({"role": "assistant", "content": message.get("content"),
                 "tool_calls": message.get("tool_calls") or []})["done"]:
            break
    verdict()
    return _fresh_reset(seed)
'''
"""Appended to a module's source, so that every episode comes second in its process."""


def _compare(
    subject: Subject, part: Callable[[Played], object], words: str, again: str, bound: str
) -> Finding:
    """Compare one part of the same episodes between two fresh sandboxes."""
    once = _transcript(subject, "once")
    for first, second in zip(once, _transcript(subject, again), strict=True):
        a, b = json.dumps(part(first)), json.dumps(part(second))
        if a != b:
            at = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
            near = slice(max(0, at - 20), at + 40)
            return Finding(
                "fail", f"seed {first.seed}: …{a[near]} against …{b[near]}", None, len(once), bound
            )
    return Finding("pass", f"{words} are the same", None, len(once), bound)


def _transcript(subject: Subject, name: str) -> list[Played]:
    """Play the oracle and a mess on a few seeds in a sandbox of their own, once under each name."""
    if name not in subject.transcripts:
        probe = subject.probe
        seeds = subject.seeds[: subject.sizes.compared]
        scripts = [(s, script) for s in seeds for script in (probe.oracle(s), messy(probe, s))]
        box_of = _warmed(subject) if name == "second" else probe
        with box_of.fresh() as box:
            played = [box.play(*script) for script in (scripts[::-1] if name == "reversed" else scripts)]
        subject.transcripts[name] = played[::-1] if name == "reversed" else played
    return subject.transcripts[name]


def _warmed(subject: Subject) -> Probe:
    return Probe(subject.pool, subject.environment.source + WARMED, budget=subject.probe.budget)


def seed_control(subject: Subject) -> Finding:
    """The seed decides the first messages, in every process."""
    bound = "first messages equal in two fresh sandboxes"
    return _compare(subject, lambda played: played.first, "first messages", "again", bound)


def episode_determinism(subject: Subject) -> Finding:
    """Seed and actions decide every observation."""
    bound = "observations equal in two fresh sandboxes"
    return _compare(subject, lambda played: played.answers, "observations", "again", bound)


def episode_isolation(subject: Subject) -> Finding:
    """What was played before changes nothing: neither in other processes nor in the same one."""

    def whole(played: Played) -> object:
        return [played.first, played.answers]

    bound = "episodes equal in reversed order, and after another one in the same process"
    found = _compare(subject, whole, "episodes", "reversed", bound)
    if found.status == "fail":
        return found
    found = _compare(
        subject, lambda p: [p.first, p.answers, p.reward, p.success], "episodes", "second", bound
    )
    return Finding(found.status, found.evidence, None, 2 * (found.n or 0), bound)


def verifier_determinism(subject: Subject) -> Finding:
    """The reward of recorded actions is the same when a fresh sandbox computes it."""
    probe = subject.probe
    seeds = subject.seeds[: subject.sizes.replayed]
    played = [probe.play(seed, script(probe, seed)) for seed in seeds for script in (Probe.oracle, messy)]
    bound = "reward, success and checks equal in a fresh sandbox"
    with probe.fresh() as box:
        for one in played:
            again = box.play(one.seed, one.actions)
            if again.verdict != one.verdict:
                seen = f"seed {one.seed}: {one.reward!r}, then {again.reward!r} for the same actions"
                return Finding("fail", seen, None, len(played), bound)
    return Finding("pass", "all agree", None, len(played), bound)


def seed_diversity(subject: Subject) -> Finding:
    """Seeds give different episodes, and different in more than their numbers."""
    seeds = subject.seeds_of(subject.sizes.diversity)
    texts = [json.dumps(subject.probe.first(seed)) for seed in seeds]
    distinct = len(set(texts)) / len(texts)
    shapes = len({re.sub(r"\w+", _masked, text) for text in texts}) / len(texts)
    rules = subject.rules
    bound = f">= {rules.min_distinct:.0%} distinct, >= {rules.min_structures:.0%} without their numbers"
    passed = distinct >= rules.min_distinct and shapes >= rules.min_structures
    evidence = f"{distinct:.1%} of first messages are distinct, {shapes:.1%} with numbers masked"
    return Finding("pass" if passed else "fail", evidence, distinct, len(texts), bound)


def _masked(word: re.Match[str]) -> str:
    return "#" if any(character.isdigit() for character in word[0]) else word[0]


def structure_diversity(subject: Subject) -> Finding:
    """Seeds differ in what must be done, not only in names and numbers."""
    plans = Counter(_plan(subject, seed) for seed in subject.seeds)
    common, count = plans.most_common(1)[0]
    n = len(subject.seeds)
    share, (low, high) = count / n, wilson(count, n)
    bound = f"no plan on more than {subject.rules.max_same_plan:.0%} of seeds"
    passed = share <= subject.rules.max_same_plan
    evidence = f"{len(plans)} plans; the commonest is {common}"
    return Finding("pass" if passed else "fail", evidence, share, n, bound, low=low, high=high)


def _plan(subject: Subject, seed: int) -> str:
    """Return the oracle's calls without their values: tools, and which of them share their object."""
    names: dict[str, str] = {}
    steps = []
    for call in calls_in(subject.probe.oracle(seed)):
        thing = json.dumps(next(iter(call["arguments"].values()), None))
        steps.append(f"{call['name']}({names.setdefault(thing, chr(97 + len(names) % 26))})")
    return " ".join(steps) or "words only"


DETERMINISM_CHECKS = (
    AuditCheck("runtime.seed_control", "runtime", seed_control, ("runtime.reward_well_formed",)),
    AuditCheck("runtime.episode_determinism", "runtime", episode_determinism, ("runtime.seed_control",)),
    AuditCheck(
        "semantic.verifier_determinism", "semantic", verifier_determinism, ("runtime.episode_determinism",)
    ),
    AuditCheck("runtime.episode_isolation", "runtime", episode_isolation, ("semantic.verifier_determinism",)),
    AuditCheck("trace.seed_diversity", "runtime", seed_diversity, ("runtime.seed_control",)),
    AuditCheck("trace.structure_diversity", "runtime", structure_diversity, ("trace.seed_diversity",)),
)


# Whether anything beside seed and actions decides an episode: what the sandbox holds still is changed here.


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


CONDITION_CHECKS = (
    AuditCheck("trace.hidden_conditions", "runtime", hidden_conditions, ("runtime.episode_isolation",)),
)
