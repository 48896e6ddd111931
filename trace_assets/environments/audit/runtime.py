"""Whether a module runs: it starts, answers whatever an agent says in the agreed form, ends, and is quick."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from trace_assets.environments.audit.adversarial import hostile_values, messy
from trace_assets.environments.audit.check import MAX_TURNS, AuditCheck, Finding, Subject
from trace_assets.environments.audit.scripted_rollouts import Action, Probe
from trace_assets.sandbox import EnvironmentFault


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
CHECKS = (
    AuditCheck("runtime.startup", "runtime", startup, _STATIC),
    AuditCheck("runtime.observation_schema", "runtime", observation_schema, ("runtime.startup",)),
    AuditCheck("runtime.reward_well_formed", "runtime", reward_well_formed, ("runtime.observation_schema",)),
    AuditCheck("trace.oracle_ends", "runtime", oracle_ends, ("runtime.reward_well_formed",)),
    AuditCheck("trace.latency", "runtime", latency, ("runtime.reward_well_formed",)),
)
