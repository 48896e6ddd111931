"""Whether the reward means what it should: all for the oracle, nothing for idleness, more for more."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from trace_assets.environments.audit.adversarial import messy
from trace_assets.environments.audit.check import AuditCheck, Finding, Subject
from trace_assets.environments.audit.listed_values import (
    Place,
    choices,
    last_change,
    listed_values,
    shown_solution,
    things_changed,
)
from trace_assets.environments.audit.scripted_rollouts import (
    Action,
    Call,
    calls_in,
    closing,
    numbered,
    reads_everything,
    say,
)
from trace_assets.environments.learnability import forecast, seed_outcomes
from trace_assets.records import Trajectory
from trace_assets.stats.intervals import wilson

NO_WRITE = "no change"
MORE = 4
"""On so many times as many seeds a kind that prevails is counted again."""


def oracle_max(subject: Subject) -> Finding:
    """The oracle earns 1 and succeeds on every seed."""
    played = [subject.probe.best(seed) for seed in subject.seeds]
    short = [one for one in played if one.reward < 1.0 or not one.success]
    mean = fmean(one.reward for one in played)
    bound = "reward 1 and success on every seed"
    if short:
        failed = [check["name"] for check in short[0].verdict["checks"] if not check["passed"]]
        seen = (
            f"seed {short[0].seed} earns {short[0].reward:.3g} (not passed: {', '.join(failed) or 'none'}); "
        )
        return Finding(
            "fail", f"{seen}{len(short)} of {len(played)} seeds fall short", mean, len(played), bound
        )
    return Finding("pass", f"mean {mean:.3g}", mean, len(played), bound)


MANY_WORDS = "Goodbye, and thank you for your patience. " * 20
"""A goodbye of 840 characters: what it earns beyond a short one is paid for its length."""


def floor_gap(subject: Subject) -> Finding:
    """An agent that says goodbye at once, in few words or many, or nothing at all, earns next to nothing."""
    probe, rules = subject.probe, subject.rules
    best = fmean(probe.best(seed).reward for seed in subject.seeds)
    seeds = subject.seeds[: subject.sizes.floor]
    silent = [probe.play(seed, []).reward for seed in seeds]
    polite = [probe.play(seed, [say("Goodbye.")]).reward for seed in seeds]
    wordy = [probe.play(seed, [say(MANY_WORDS)]).reward for seed in seeds]
    floor = max(fmean(silent), fmean(polite), fmean(wordy))
    bound = f"floor <= {rules.max_floor}, oracle above it by >= {rules.min_floor_gap}"
    passed = floor <= rules.max_floor and best - floor >= rules.min_floor_gap
    evidence = (
        f"silence {fmean(silent):.3g}, goodbye {fmean(polite):.3g}, at length {fmean(wordy):.3g}, "
        f"oracle {best:.3g}"
    )
    return Finding("pass" if passed else "fail", evidence, floor, 3 * len(silent), bound)


def partial_credit(subject: Subject) -> Finding:
    """The reward never falls along the oracle's path: more of the work never earns less."""
    probe, levels = subject.probe, set()
    seeds = subject.seeds[: subject.sizes.attack]
    bound = "rewards of the oracle's first 0, 1, ... messages never fall"
    for seed in seeds:
        script = probe.oracle(seed)
        rewards = [probe.play(seed, script[:k]).reward for k in range(len(script) + 1)]
        levels |= {round(reward, 6) for reward in rewards}
        for k, (before, after) in enumerate(itertools.pairwise(rewards), start=1):
            if after < before - 1e-9:
                seen = f"seed {seed}: message {k} lowers the reward from {before:.3g} to {after:.3g}"
                return Finding("fail", seen, after - before, len(seeds), bound)
    shown = ", ".join(f"{level:.3g}" for level in sorted(levels)[:8])
    return Finding("pass", f"{len(levels)} levels of reward: {shown}", len(levels), len(seeds), bound)


def balance(subject: Subject) -> Finding:
    """Where seeds call for different changes, or for none, no kind prevails: guessing does not pay.

    Where one change prevails, that holds for the listed values that it is made with and for which of several
    things, if the request does not tell: who always makes it has yet to choose. Where all call for none, it
    holds for the answer.
    """
    found = _balance(subject, subject.seeds)
    # Of 32 tosses of a coin a quarter or fewer fall alike one time in 300; an audit ends with that.
    return found if found.status == "pass" else _balance(subject, subject.seeds_of(MORE * len(subject.seeds)))


def _balance(subject: Subject, seeds: Sequence[int]) -> Finding:
    n, most = len(seeds), subject.rules.max_same_kind
    kinds = _kinds(subject, seeds, frozenset())
    bound = f"no last change, value or answer on more than {most:.0%} of seeds"
    if len(kinds) == 1:
        finer = _answers(subject, seeds) if NO_WRITE in kinds else _kinds(subject, seeds, None)
        if len(finer) < 2:
            return Finding("pass", f"every seed calls for the same: {_counted(kinds)}", None, n, bound)
        kinds = finer
    elif kinds.most_common(1)[0][1] / n > most:
        kinds = _kinds(subject, seeds, choices(subject.probe), of_several=True)
    count = kinds.most_common(1)[0][1]
    low, high = wilson(count, n)
    passed = count / n <= most
    words = _counted(kinds) + ("" if passed else _no_choices(subject))
    return Finding("pass" if passed else "fail", words, count / n, n, bound, low=low, high=high)


def _no_choices(subject: Subject) -> str:
    """Say which listed values do not count as a decision, since the request tells them."""
    values = {place for seed in subject.seeds for place in listed_values(subject.probe, seed)}
    told = sorted(key for _, key in values - choices(subject.probe))
    return f"; {', '.join(told)} is told by the request, or has one value as a rule" if told else ""


def _counted(kinds: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in kinds.most_common(6))


def _answers(subject: Subject, seeds: Sequence[int]) -> Counter[str]:
    return Counter(closing(subject.probe.oracle(seed))[:MOST_TEXT] for seed in seeds)


def _kinds(
    subject: Subject, seeds: Sequence[int], told: frozenset[Place] | None, of_several: bool = False
) -> Counter[str]:
    """Return how often which last change is made, told apart by some of its listed values, or by all.

    With `of_several` also by which of the things that are shown are changed.
    """
    probe, found = subject.probe, Counter[str]()
    for seed in seeds:
        one = last_change(probe, seed)
        values = [
            f"{place[1]} {value}"
            for place, value in listed_values(probe, seed).items()
            if told is None or place in told
        ]
        which = [things_changed(probe, seed)] if of_several else []
        found[", ".join([one["name"] if one else NO_WRITE, *values, *filter(None, which)])] += 1
    return found


SEMANTIC_CHECKS = (
    AuditCheck(
        "semantic.oracle_max", "semantic", oracle_max, ("runtime.episode_isolation", "trace.oracle_ends")
    ),
    AuditCheck("semantic.floor_gap", "semantic", floor_gap, ("semantic.oracle_max",)),
    AuditCheck("trace.partial_credit", "semantic", partial_credit, ("semantic.floor_gap",)),
    AuditCheck("trace.balance", "semantic", balance, ("semantic.oracle_max",)),
)


# Whether the base policy can learn from the environment: it sometimes succeeds, and not always.


def signal(p: float, k: int) -> float:
    """Return the chance that a group of k rollouts holds both a success and a failure.

    >>> round(signal(0.05, 8), 2)
    0.34
    """
    return 1 - p**k - (1 - p) ** k


def _judged(subject: Subject) -> tuple[list[Trajectory], str]:
    """Return the rollouts that were judged, and words on those that broke."""
    judged = [t for t in subject.rollouts if t.success is not None and t.reward is not None]
    broken = [t for t in subject.rollouts if t.fault is not None]
    words = f"; {len(broken)} broke, such as: {broken[0].error}" if broken else ""
    return judged, words


def pass_band(subject: Subject) -> Finding:
    """The base policy's pass rate leaves room on both sides."""
    if subject.policy is None:
        return Finding("skip", subject.no_policy)
    low, high = subject.section.pass_low, subject.section.pass_high
    bound = f"in [{low}, {high}]"
    judged, words = _judged(subject)
    if not judged:
        return Finding("fail", f"no rollout was judged{words}", None, 0, bound)
    passed = sum(t.success is True for t in judged)
    rate = passed / len(judged)
    left, right = wilson(passed, len(judged))
    evidence = f"{passed} of {len(judged)} succeed, 95 % interval [{left:.3f}, {right:.3f}]{words}"
    inside = low <= rate <= high
    return Finding("pass" if inside else "fail", evidence, rate, len(judged), bound, low=left, high=right)


def _groups(judged: list[Trajectory]) -> list[list[Trajectory]]:
    groups: dict[str, list[Trajectory]] = {}
    for trajectory in judged:
        groups.setdefault(trajectory.task_id, []).append(trajectory)
    return list(groups.values())


def dead_groups(subject: Subject) -> Finding:
    """Not too many groups of rollouts have one and the same reward: those carry no gradient."""
    if subject.policy is None:
        return Finding("skip", subject.no_policy)
    judged, words = _judged(subject)
    groups = _groups(judged)
    bound = f"<= {subject.section.max_dead_groups}"
    if not groups:
        return Finding("fail", f"no rollout was judged{words}", None, 0, bound)
    rewards = [[t.reward or 0.0 for t in group] for group in groups]
    dead = sum(max(group) - min(group) < 1e-9 for group in rewards)
    share = dead / len(groups)
    low, high = wilson(dead, len(groups))
    counted = f"{dead} of {len(groups)} groups of {fmean(map(len, groups)):.3g} are constant"
    evidence = f"{counted}, 95 % interval [{low:.3f}, {high:.3f}]{words}"
    passed = share <= subject.section.max_dead_groups
    return Finding("pass" if passed else "fail", evidence, share, len(groups), bound, low=low, high=high)


def predicted_signal(subject: Subject) -> Finding:
    """Enough groups are expected to hold a success and a failure.

    The share is that of a beta-binomial fitted to the seeds' counts: 1 - E[p^K] - E[(1 - p)^K]. The formula
    at the overall p is what it would be were all seeds equally hard; a share far below it says that some
    kinds of seeds never (or always) succeed.
    """
    if subject.policy is None:
        return Finding("skip", subject.no_policy)
    bound = f">= {subject.rules.min_signal}"
    judged, words = _judged(subject)
    k = subject.section.audit_rollouts
    outcomes = seed_outcomes("", "", judged)
    foretold = forecast(outcomes, k)
    if foretold is None:
        return Finding("fail", f"no rollout was judged{words}", None, 0, bound)
    fit, value, low, high = foretold.success, *foretold.signal_interval()
    mixed = sum(0 < one.passed < one.n for one in outcomes)
    evidence = (
        f"Beta({fit.alpha:.3g}, {fit.beta:.3g}) by {fit.method}, 95 % interval [{low:.3f}, {high:.3f}] over "
        f"{fit.n_seeds} seeds; {mixed} of {len(outcomes)} groups held both outcomes; "
        f"{signal(fit.mean, k):.3f} were all seeds equally hard (p = {fit.mean:.3f}, K = {k}){words}"
    )
    passed = value >= subject.rules.min_signal
    return Finding("pass" if passed else "fail", evidence, value, fit.n_rollouts, bound, low=low, high=high)


_SOUND = ("semantic.floor_gap",)
STATISTICAL_CHECKS = (
    AuditCheck("trace.pass_band", "statistical", pass_band, _SOUND),
    AuditCheck("trace.dead_groups", "statistical", dead_groups, ("trace.pass_band",)),
    AuditCheck("trace.predicted_signal", "statistical", predicted_signal, ("trace.dead_groups",)),
)


# The hidden-answer search: no observation tells what the agent is to find out or do.


_MARKED = re.compile(
    r"(?:expected|answer|solution|oracle|gold|golden|ground[_ ]?truth|hint|hidden|secret|todo"
    r"|(?:next|right|correct|best)[_ ](?:step|action|tool|call))(?:_\w{1,30})?[\"'\])]?\s{0,3}"
    r"(?:[:=]|is\b)(.{1,80})",
    re.IGNORECASE | re.DOTALL,
)
_REWARD = re.compile(
    r"\b(?:reward|verdict)[\"']?\s{0,3}[:=]\s{0,3}(?:[01](?:\.\d+)?\b|true|false)", re.IGNORECASE
)
MOST_TEXT, MOST_WORDS = 20_000, 1_000
"""Characters of an observation and of the oracle's closing that are searched: the module decides how long
they are, and a search must end."""
_RUN = 4
"""So many words of the oracle's closing, in order, are no accident."""


@dataclass(frozen=True)
class Observation:
    """A text that an agent is shown, and what it must not tell.

    Attributes:
        role: Who says it. A user may name values ("the correct address is ..."): asking is no answer.
        coming: Calls of the oracle that were not made before.
        opening: It stands before all actions, where no tool can have told the closing's words.
    """

    text: str
    role: str
    coming: tuple[Call, ...]
    opening: bool = False


def no_solution_leakage(subject: Subject) -> Finding:
    """No observation holds a call still to be made, a marked answer, the reward, or the closing words.

    Searched are the first messages, what the oracle is told, what an agent is told that looks everything up,
    and the errors that an agent is told that makes a mess. Lines of the first messages that are the same on
    every seed (the policy) tell nothing about a seed and are left out.
    """
    probe = subject.probe
    seeds = subject.seeds[: subject.sizes.attack]
    seen = {seed: list(_observations(subject, seed)) for seed in seeds}
    lines = [{line for one in told if one.opening for line in one.text.split("\n")} for told in seen.values()]
    constant = set.intersection(*lines)
    talk = Counter(run for seed in seeds for run in set(_runs(closing(probe.oracle(seed)))))
    named = {seed: _named(probe.oracle(seed)) for seed in seeds}
    leaks, n = [], 0
    for seed, told in seen.items():
        answer = [run for run in _runs(closing(probe.oracle(seed))) if talk[run] == 1 or len(seeds) == 1]
        by_user = [run for run in answer if run in set(_runs(closing(probe.oracle(seed)), named[seed]))]
        for one in told:
            n += 1
            own = "\n".join(line for line in one.text.split("\n") if line not in constant)[:MOST_TEXT]
            leak = _leak(own, one, by_user if one.role == "user" else answer)
            if leak:
                leaks.append(f"seed {seed}, {one.role}: {leak}")
    bound = "no observation with a call to come, a marked answer, a reward or the closing words"
    if leaks:
        return Finding("fail", f"{leaks[0]}; {len(leaks)} of {n} observations", len(leaks), n, bound)
    if shown := shown_solution(subject):
        return Finding("fail", shown, None, n, bound)
    return Finding("pass", f"{n} observations searched", 0.0, n, bound)


def _observations(subject: Subject, seed: int) -> Iterator[Observation]:
    """Yield every text that an agent is shown on a seed before the episode ends."""
    probe, oracle = subject.probe, subject.probe.oracle(seed)
    every = tuple(calls_in(oracle))
    for message in probe.first(seed):
        yield Observation(message.get("content") or "", message["role"], every, opening=True)
    for script in (oracle, numbered(reads_everything(probe, seed)), messy(probe, seed)):
        made = []
        for action, answer in zip(script, probe.walk(seed, script), strict=False):
            made += [(one["name"], one["arguments"]) for one in action.get("tool_calls") or ()]
            coming = tuple(one for one in every if (one["name"], one["arguments"]) not in made)
            for message in answer["messages"]:
                yield Observation(message.get("content") or "", message["role"], coming)


def _leak(text: str, one: Observation, answer: Sequence[str]) -> str:
    """Return what a text gives away, empty when it is nothing."""
    found = _REWARD.search(text)
    if found:
        return f"it tells the reward: {_near(text, found.start())}"
    for call in one.coming:
        at = _call_at(text, call)
        if at is not None:
            return f"it holds the call of {call['name']}: {_near(text, at)}"
    values = [value for call in one.coming for value in call["arguments"].values()]
    parts = [call["name"] for call in one.coming] + (values if one.role != "user" else [])
    for found in _MARKED.finditer(text):
        if any(_holds(found[1], part) for part in parts):
            return f"it marks the answer: {_near(text, found.start())}"
    run = next((run for run in answer if one.opening and _has_run(text, run)), "")
    return f"it holds the oracle's closing words: {run}" if run else ""


def _call_at(text: str, call: Call) -> int | None:
    """Return where a text holds a call written out as one: its name, an opening sign, and all its values."""
    for found in re.finditer(rf"\b{re.escape(call['name'])}\b[\"']?\s{{0,3}}[(,{{:]", text):
        near = text[found.end() : found.end() + min(MOST_WORDS, 60 + 2 * len(json.dumps(call["arguments"])))]
        if call["arguments"] and all(_holds(near, value) for value in call["arguments"].values()):
            return found.start()
    return None


def _holds(text: str, value: object) -> bool:
    shown = value if isinstance(value, str) else json.dumps(value)
    return bool(shown.strip()) and re.search(rf"(?<!\w){re.escape(shown)}(?!\w)", text) is not None


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _runs(text: str, named: Sequence[str] = ()) -> list[str]:
    """Return all so many words of a text that follow each other, without those that reach into a value.

    >>> _runs("A permit for T 12 is granted", ["T 12"]), _runs("It is on its way", ["T 12"])
    ([], ['it is on its', 'is on its way'])
    """
    text = text[:MOST_WORDS]
    for value in sorted(named, key=len, reverse=True):
        text = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", "\0", text)
    parts = [_words(part) for part in text.split("\0")]
    return [" ".join(one[i : i + _RUN]) for one in parts for i in range(len(one) - _RUN + 1)]


def _named(script: Sequence[Action]) -> list[str]:
    """Return the values that the oracle passes: a user who asks for something names them too."""
    values = [value for one in calls_in(script) for value in one["arguments"].values()]
    return list({shown for value in values if (shown := str(value).strip())})


def _has_run(text: str, run: str) -> bool:
    return f" {run} " in f" {' '.join(_words(text))} "


def _near(text: str, at: int) -> str:
    return repr(text[max(0, at - 20) : at + 60])


LEAKAGE_CHECKS = (
    AuditCheck("semantic.no_solution_leakage", "semantic", no_solution_leakage, ("semantic.oracle_max",)),
)
