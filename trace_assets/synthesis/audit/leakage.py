"""The hidden-answer search: no observation tells what the agent is to find out or do."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trace_assets.synthesis.audit.attackers import calls_in, closing, messy
from trace_assets.synthesis.audit.attackers.script import Call, numbered, reads_everything
from trace_assets.synthesis.audit.check import AuditCheck, Finding, Subject

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
    leaks, n = [], 0
    for seed, told in seen.items():
        answer = [run for run in _runs(closing(probe.oracle(seed))) if talk[run] == 1 or len(seeds) == 1]
        for one in told:
            n += 1
            own = "\n".join(line for line in one.text.split("\n") if line not in constant)[:MOST_TEXT]
            leak = _leak(own, one, answer)
            if leak:
                leaks.append(f"seed {seed}, {one.role}: {leak}")
    bound = "no observation with a call to come, a marked answer, a reward or the closing words"
    if leaks:
        return Finding("fail", f"{leaks[0]}; {len(leaks)} of {n} observations", len(leaks), n, bound)
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


def _runs(text: str) -> list[str]:
    plain = _words(text[:MOST_WORDS])
    return [" ".join(plain[i : i + _RUN]) for i in range(len(plain) - _RUN + 1)]


def _has_run(text: str, run: str) -> bool:
    return f" {run} " in f" {' '.join(_words(text))} "


def _near(text: str, at: int) -> str:
    return repr(text[max(0, at - 20) : at + 60])


CHECKS = (
    AuditCheck("semantic.no_solution_leakage", "semantic", no_solution_leakage, ("semantic.oracle_max",)),
)
