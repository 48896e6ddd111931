"""Whether a module runs: same seed same episode, different seeds different ones, nothing left behind."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from statistics import median

from trace_assets.sandbox import EnvironmentFault
from trace_assets.synthesis.audit.attackers import messy
from trace_assets.synthesis.audit.check import AuditCheck, Finding, Subject
from trace_assets.synthesis.audit.probe import Played


def startup(subject: Subject) -> Finding:
    """The module is executed, names its tools and resets."""
    tools = subject.probe.tools()
    if not tools:
        return Finding("fail", "tools() is empty", bound="at least one tool")
    subject.probe.first(subject.seeds[0])
    return Finding("pass", f"{len(tools)} tools", bound="tools() and reset() answer")


def tools_equal(subject: Subject) -> Finding:
    """The tools are the target's: names, descriptions and schemas, in any order."""
    if subject.contract is None:
        return Finding("skip", "no target contract was given to compare with")
    wanted = {tool.name: tool.openai()["function"] for tool in subject.contract.tools}
    given = {tool["function"]["name"]: tool["function"] for tool in subject.probe.tools()}
    differences = [f"lacks {name}" for name in wanted if name not in given]
    differences += [f"adds {name}" for name in given if name not in wanted]
    differences += [f"differs in {name}" for name in wanted if name in given and wanted[name] != given[name]]
    bound = f"equal to the {len(wanted)} tools of '{subject.contract.target}'"
    if differences:
        return Finding("fail", "; ".join(differences[:5]), len(differences), len(wanted), bound)
    return Finding("pass", "no difference", 0.0, len(wanted), bound)


def observation_schema(subject: Subject) -> Finding:
    """Whatever an agent says, steps answer with well-formed messages, and in time."""
    probe, n = subject.probe, 0
    for seed in subject.seeds[: subject.sizes.compared]:
        for script in (probe.oracle(seed), messy(probe, seed)):
            probe.walk(seed, script)
            n += 1
    return Finding("pass", "no step raised, hung or answered out of shape", 0.0, n, "well-formed answers")


def reward_well_formed(subject: Subject) -> Finding:
    """Rewards are finite numbers in [0, 1], also for agents that do nothing or make a mess."""
    probe, rewards = subject.probe, []
    for seed in subject.seeds[: subject.sizes.compared]:
        for script in ([], probe.oracle(seed), messy(probe, seed)):
            try:
                rewards.append(probe.play(seed, script).reward)
            except EnvironmentFault as fault:
                return Finding("fail", f"seed {seed}: {fault}", None, len(rewards) + 1, "in [0, 1], finite")
    return Finding(
        "pass", f"{min(rewards):.3g} to {max(rewards):.3g}", None, len(rewards), "in [0, 1], finite"
    )


def _compare(
    subject: Subject, part: Callable[[Played], object], words: str, *, reverse: bool = False
) -> Finding:
    """Compare one part of the same episodes between two fresh sandboxes."""
    once = _transcript(subject, "once")
    again = _transcript(subject, "reversed" if reverse else "again")
    bound = f"{words} equal in two fresh sandboxes" + (", episodes in reversed order" if reverse else "")
    for first, second in zip(once, again, strict=True):
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
        scripts = [
            (s, script)
            for s in subject.seeds[: subject.sizes.compared]
            for script in (probe.oracle(s), messy(probe, s))
        ]
        backwards = name == "reversed"
        with probe.fresh() as box:
            played = [box.play(*script) for script in (scripts[::-1] if backwards else scripts)]
        subject.transcripts[name] = played[::-1] if backwards else played
    return subject.transcripts[name]


def seed_control(subject: Subject) -> Finding:
    """The seed decides the first messages, in every process."""
    return _compare(subject, lambda played: played.first, "first messages")


def episode_determinism(subject: Subject) -> Finding:
    """Seed and actions decide every observation."""
    return _compare(subject, lambda played: played.answers, "observations")


def episode_isolation(subject: Subject) -> Finding:
    """What was played before changes nothing."""
    return _compare(subject, lambda played: [played.first, played.answers], "episodes", reverse=True)


def seed_diversity(subject: Subject) -> Finding:
    """Seeds give different episodes, and different in more than their numbers."""
    seeds = range(subject.seeds[0], subject.seeds[0] + subject.sizes.diversity)
    texts = [json.dumps(subject.probe.first(seed)) for seed in seeds]
    distinct = len(set(texts)) / len(texts)
    shapes = len({re.sub(r"\w*\d\w*", "#", text) for text in texts}) / len(texts)
    rules = subject.rules
    bound = f">= {rules.min_distinct:.0%} distinct, >= {rules.min_structures:.0%} without their numbers"
    passed = distinct >= rules.min_distinct and shapes >= rules.min_structures
    evidence = f"{distinct:.1%} of first messages are distinct, {shapes:.1%} with numbers masked"
    return Finding("pass" if passed else "fail", evidence, distinct, len(texts), bound)


def latency(subject: Subject) -> Finding:
    """Episodes are cheap."""
    played = [subject.probe.best(seed) for seed in subject.seeds]
    reset = median(one.reset_seconds for one in played)
    step = median(one.step_seconds / max(1, len(one.answers)) for one in played)
    bound = (
        f"reset <= {subject.rules.max_seconds_reset} s, step <= {subject.rules.max_seconds_step} s (medians)"
    )
    passed = reset <= subject.rules.max_seconds_reset and step <= subject.rules.max_seconds_step
    evidence = "within the bound" if passed else "slower than the bound"
    timing = f"reset {1e3 * reset:.2f} ms, step {1e3 * step:.3f} ms"
    return Finding("pass" if passed else "fail", evidence, None, len(played), bound, timing)


_STATIC = ("trace.declares_functions", "trace.imports_allowed")
CHECKS = (
    AuditCheck("runtime.startup", "runtime", startup, _STATIC),
    AuditCheck("runtime.tool_declaration_accuracy", "fidelity", tools_equal, ("runtime.startup",)),
    AuditCheck("runtime.observation_schema", "runtime", observation_schema, ("runtime.startup",)),
    AuditCheck("runtime.reward_well_formed", "runtime", reward_well_formed, ("runtime.observation_schema",)),
    AuditCheck("runtime.seed_control", "runtime", seed_control, ("runtime.reward_well_formed",)),
    AuditCheck("runtime.episode_determinism", "runtime", episode_determinism, ("runtime.seed_control",)),
    AuditCheck("runtime.episode_isolation", "runtime", episode_isolation, ("runtime.episode_determinism",)),
    AuditCheck("trace.seed_diversity", "runtime", seed_diversity, ("runtime.seed_control",)),
    AuditCheck("trace.latency", "runtime", latency, ("runtime.reward_well_formed",)),
)
