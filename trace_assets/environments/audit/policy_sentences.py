"""Whether what the oracle does, and what is paid, is what the policy's sentences say of the record.

A rule that is inverted in a corner, a condition that is left out, a bound that is off by one, an exception
that is not heard: oracle and reward agree on it, so that nothing else of the audit notices. What could not
be read is counted, and holds nothing against anybody.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trace_assets.environments.audit.check import AuditCheck, Finding, Subject
from trace_assets.environments.audit.decision_tree import answered, decided, now_of
from trace_assets.environments.audit.policy_rule import told_policy
from trace_assets.environments.audit.scripted_rollouts import Call, calls_in, properties, thing_of
from trace_assets.environments.contract.case_sentences import NOTHING_DONE, read_cases
from trace_assets.environments.contract.decisions import fields_of
from trace_assets.environments.contract.policy_cases import (
    NOTHING,
    Case,
    Cases,
    better_as,
)
from trace_assets.environments.contract.policy_words import frequent, known_words, told_apart
from trace_assets.environments.contract.record_reading import Records
from trace_assets.stats.intervals import wilson

MORE_SEEDS = 4
"""How many times as many seeds are looked at where something was read: bounds are met seldom."""
BORNE_OUT = 1 / 3
"""Share of the decisions a sentence is about that must follow it: below, it was not understood."""
NO_DECISION = "the oracle does not decide between deeds that the policy names"
NO_SENTENCE = "no sentence on what is done when could be read"


@dataclass(frozen=True)
class Done:
    """What the oracle did on a seed, and what it had been shown.

    Attributes:
        seed: The episode's.
        row: What looks told before, by field.
        deeds: The tools that changed something, and the listed values they were given, call by call.
    """

    seed: int
    row: Mapping[str, Any]
    deeds: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class _Against:
    done: Done
    deed: str
    rule: Case


def follows_its_sentences(subject: Subject) -> Finding:
    """What the oracle does is what each sentence of the policy says that can be read against the record.

    A sentence is read as: in which case (fields, bounds, exceptions) which tool, or which listed value, is
    right, forbidden, or for all the rest. One that most decisions do not follow was misread, and counts as
    unread. The seeds are four times those of other checks, as bounds are met seldom.
    """
    seeds = [one.seed for one in decided(subject)]
    reading = _Reading(subject, seeds)
    if not reading.cases.rules:
        return Finding("skip", f"{NO_SENTENCE} (0 of {reading.spoken})" if reading.spoken else NO_DECISION)
    more = subject.seeds_of(MORE_SEEDS * len(seeds))
    reading.see([seed for seed in more if seed not in set(seeds)])
    against, misread = reading.against()
    n = len(reading.done)
    low, high = wilson(len({one.done.seed for one in against}), n)
    words = reading.words(misread)
    if against:
        words = f"{_told(against)}; {words}"
    share = len({one.done.seed for one in against}) / n
    return Finding(
        "fail" if against else "pass",
        words,
        share,
        n,
        "none is against a sentence",
        low=low,
        high=high,
    )


def _told(against: Sequence[_Against]) -> str:
    """Return the worst sentence with a seed on which it is not followed."""
    counts = Counter(one.rule.sentence for one in against)
    sentence, n = counts.most_common(1)[0]
    one = next(one for one in against if one.rule.sentence == sentence)
    tested = {test.path for part in one.rule.condition.parts for test in part.tests}
    shown = ", ".join(f"{path} {value}" for path, value in sorted(one.done.row.items()) if path in tested)
    with_it = f" with {shown}" if shown else ""
    return f"'{one.deed}' on seed {one.done.seed}{with_it} ({n} such seeds) is not what '{sentence}' says"


class _Reading:
    """A policy's sentences held against what the oracle does."""

    def __init__(self, subject: Subject, seeds: Sequence[int]) -> None:
        self._subject = subject
        probe = subject.probe
        self._tools = {tool["function"]["name"]: tool for tool in probe.tools()}
        used = Counter(
            name for seed in seeds for name in {one["name"] for one in calls_in(probe.oracle(seed))}
        )
        always = {name for name in self._tools if used[name] == len(seeds)}
        self._listed = {name: self._values(name) for name in self._tools}
        self._deciding = {
            name for name in self._tools if probe.writes(name) and (name not in always or self._listed[name])
        }
        """Tools whose use, or whose listed value, is the decision."""
        self._always = always
        self.done = [self._done(seed) for seed in seeds]
        self.policy = told_policy(subject)
        self.named = self._forms()
        self.cases = self._read() if self.named else Cases()

    @property
    def spoken(self) -> int:
        """How many sentences say what is done when."""
        return len(self.cases.spoken)

    def see(self, seeds: Sequence[int]) -> None:
        """Look at what is done on further seeds."""
        self.done += [self._done(seed) for seed in seeds]

    def against(self) -> tuple[list[_Against], int]:
        """Return what is done against sentences that are borne out, and how many sentences were misread."""
        rows = told_apart([one.row for one in self.done])
        found: list[_Against] = []
        for one, row in zip(self.done, rows, strict=True):
            done = Done(one.seed, row, one.deeds)
            made = [deed for own in one.deeds for deed in own]
            for own in one.deeds:
                wrong = [
                    (deed, rule)
                    for deed in own
                    if (rule := self.cases.wrong(deed, row, made)) is not None
                    if len(one.deeds) == 1 or rule.never
                ]
                found += [_Against(done, deed, rule) for deed, rule in wrong[:1]]
        misread = {one.rule for one in found if not self._borne_out(one.rule, rows, found)}
        kept = [one for one in found if one.rule not in misread]
        return kept, len({one.sentence for one in misread})

    def words(self, misread: int) -> str:
        """Return how much of the policy was read."""
        spoken, read = len(self.cases.spoken), len(self.cases.read) - misread
        aside = f", {misread} misread" if misread else ""
        return f"{read} of {spoken} sentences on what is done when were read and held against it{aside}"

    def _borne_out(self, rule: Case, rows: Sequence[Mapping[str, Any]], found: Sequence[_Against]) -> bool:
        broken = sum(one.rule == rule for one in found)
        followed = 0
        for one, row in zip(self.done, rows, strict=True):
            made = {deed for own in one.deeds for deed in own}
            holds = rule.condition.holds(row)
            if rule.never:
                followed += holds is True and rule.deed not in made
            else:
                followed += holds is True and rule.deed in made
        return followed >= BORNE_OUT * (followed + broken) and followed > 0

    def _values(self, name: str) -> dict[str, list[str]]:
        found = {}
        for argument, schema in properties(self._tools[name]).items():
            listed = [one for one in schema.get("enum") or () if isinstance(one, str)]
            if len(listed) > 1:
                found[argument] = listed
        return found

    def _done(self, seed: int) -> Done:
        row: dict[str, Any] = {}
        about: dict[str, str] = {}
        made: list[Call] = []
        looked_at = set[str]()
        for call, text, is_error in answered(self._subject.probe, seed):
            if call["name"] in self._deciding:
                made += [] if is_error else [call]
            elif not made and not is_error:
                given = str(call["arguments"])
                looked_at.add(thing_of(call))
                if about.setdefault(call["name"], given) != given:
                    # Of several things that one tool shows it is not known which one is meant.
                    row = {path: v for path, v in row.items() if not _is_of(path, call["name"])}
                    continue
                row |= fields_of(call["name"], text)
        if len(made) > 1:  # what was looked at first may be another thing
            made = [one for one in made if {thing_of(one)} == looked_at]
            if not made:
                return Done(seed, row, ())
        deeds = [self._deeds(one) for one in made]
        return Done(seed, row, tuple(deeds) or ((NOTHING,),))

    def _deeds(self, one: Call) -> tuple[str, ...]:
        own = [] if one["name"] in self._always else [one["name"]]
        given = (one["arguments"].get(name) for name in self._listed[one["name"]])
        return (*own, *(value for value in given if isinstance(value, str)))

    def _forms(self) -> dict[str, re.Pattern[str]]:
        """Return the deeds between which the oracle decides, with how a policy names them."""
        happens = Counter(deed for one in self.done for own in one.deeds for deed in own)
        if len(happens) < 2:
            return {}
        forms = {}
        for name in self._deciding:
            if name not in self._always:
                forms[name] = re.compile(rf"[(`]*(?<![\w]){re.escape(name)}(?![\w])[)`]*")
            for values in self._listed[name].values():
                for value in values:
                    if len(value) > 2 or value.isupper():
                        forms[value] = re.compile(rf"(?<![\w]){re.escape(value)}(?![\w])")
        if NOTHING in happens:
            forms[NOTHING] = NOTHING_DONE
        return forms

    def _read(self) -> Cases:
        texts = list(self._tools)
        for tool in self._tools.values():
            texts += [str(tool["function"].get("description") or ""), *properties(tool)]
        words = known_words(text.replace("_", " ") for text in texts)
        about = frozenset(word for word in words if len(word) > 2)
        rows = told_apart([one.row for one in self.done])
        records = Records(rows, now_of(self._subject), about, frequent(self.policy))
        cases = read_cases(self.policy, self.named, records)
        sides = [better_as(cases, side) for side in ("least", "most")]
        cases = min(sides, key=lambda one: len(self._alone(one, rows)))
        ruled = {one.deed for one in cases.rules if not one.never} | cases.open
        happens = {deed for one in self.done for own in one.deeds for deed in own}
        if happens <= ruled and not any(one.rest for one in cases.rules):
            alone = self._alone(cases, rows)
            # Where the policy does not say what is done else, it is what is done most without a reason.
            cases.usual = Counter(alone).most_common(1)[0][0] if alone else ""
        return cases

    def _alone(self, cases: Cases, rows: Sequence[Mapping[str, Any]]) -> list[str]:
        """Return what is done against the rules where one thing is done."""
        return [
            deed
            for one, row in zip(self.done, rows, strict=True)
            if len(one.deeds) == 1
            for deed in one.deeds[0]
            if cases.wrong(deed, row, one.deeds[0]) is not None
        ]


def _is_of(path: str, tool: str) -> bool:
    return path == tool or path.startswith((f"{tool}.", f"{tool}[", f"{tool}#"))


SENTENCE_CHECKS = (
    AuditCheck(
        "trace.purpose.sentences",
        "semantic",
        follows_its_sentences,
        ("semantic.floor_gap",),
        ("trace.purpose.tools", "trace.purpose.looked_up", "trace.purpose.rule", "trace.purpose.policy"),
    ),
)
