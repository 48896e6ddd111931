"""Whether oracle and reward keep to what the policy lists: the conditions of which one must hold."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from trace_assets.diagnosis.detectors.identity import looks_like_id, normal
from trace_assets.diagnosis.detectors.mutation import hands_over
from trace_assets.diagnosis.detectors.policy_text import PolicyText
from trace_assets.diagnosis.detectors.transcript import Observation
from trace_assets.diagnosis.detectors.values import leaves, outermost, scalars, scalars_of, time_of
from trace_assets.diagnosis.detectors.verbs import names_deed, spoken
from trace_assets.diagnosis.detectors.write_against_policy import read_condition
from trace_assets.diagnosis.detectors.write_past_date import is_of
from trace_assets.environments.audit.check import AuditCheck, Finding, Subject
from trace_assets.environments.audit.decision_tree import Decided, answered, decided
from trace_assets.environments.audit.scripted_rollouts import calls_in, thing_of
from trace_assets.environments.audit.told import clause_about
from trace_assets.environments.contract.answers import parsed
from trace_assets.environments.contract.record_rules import Breach, RecordRules
from trace_assets.stats.intervals import wilson

MIN_SEEDS = 8
NAMED = 0.8
"""Share of the requests for a change that name it, from which on one that does not is for something else."""
NO_RULE = "no list of conditions in the policy is about what the oracle changes"
_YES = frozenset({"yes", "true"})
_BESIDES = re.compile(r"\b(?:and|but|unless|if|when|where)\b")
"""Words behind which a condition asks for more than its field."""


def keeps_the_rule(subject: Subject) -> Finding:
    """Where the policy lists conditions of which one must hold for a change, the oracle goes by all of them.

    It makes the change nowhere where none of them holds, and not only where one of several does. Conditions
    are read as fields of the record (how long ago, a value, a yes); one that is none holds where a result
    shows its word as a value. Where a field's condition asks for something besides, it is not known whether
    it holds.
    """
    cases = [one for case in decided(subject) for one in _things(subject, case)]
    policy = PolicyText(policy_of(subject))
    tools = [tool["function"]["name"] for tool in subject.probe.tools()]
    now = time_of(policy.now)
    for tool in sorted({name for one in cases for name in one.made}):
        listed = policy.any_of(tool, tools)
        seen = [Observation(n, tool, one.fields) for n, one in enumerate(cases)]
        conditions = [read_condition(text, seen, policy.now) for text in listed]
        if sum("field" in one for one in conditions) < 2:
            continue
        met = [
            [_met(condition, text, one, now) for condition, text in zip(conditions, listed, strict=True)]
            for one in cases
        ]
        return _judged(tool, listed, cases, met)
    return Finding("skip", NO_RULE)


def policy_of(subject: Subject) -> str:
    """Return the policy that an environment's agents are told."""
    own = subject.contract.policy if subject.contract else ""
    return own or "\n".join(str(m.get("content") or "") for m in decided(subject)[0].first[:1])


@dataclass
class _Thing:
    """One object of an episode: a rule is about the one that is changed, whatever else was looked at.

    Attributes:
        seed: The episode's.
        raw: What was told of it before it was changed, by tool.
        aside: What was told of things that nothing was done to.
        made: The changes that were made to it.
        request: What the user said of it first in the episode.
    """

    seed: int
    request: str = ""
    raw: dict[str, str] = field(default_factory=dict)
    aside: list[str] = field(default_factory=list)
    made: set[str] = field(default_factory=set)

    @cached_property
    def fields(self) -> dict[str, str]:
        """What was told of it, by field."""
        found: dict[str, str] = {}
        for text in self.raw.values():
            found |= scalars(text) or {}
        return found


def _things(subject: Subject, case: Decided) -> list[_Thing]:
    """Return the objects of an episode that the oracle looked at, with what it did to each."""
    request = " ".join(str(m.get("content") or "") for m in case.first if m["role"] == "user")
    found: dict[str, _Thing] = {}
    for call, text, is_error in answered(subject.probe, case.seed):
        name = thing_of(call)
        one = found.setdefault(name, _Thing(case.seed, clause_about(name, case.things, request)))
        if subject.probe.writes(call["name"]):
            one.made.add(call["name"])
        elif not is_error and not one.made:
            one.raw.setdefault(call["name"], text)
    aside = [text for one in found.values() if not one.made for text in one.raw.values()]
    for one in found.values():
        one.aside = aside
    changed = [one for one in found.values() if one.made]
    return [one for one in changed or found.values() if one.raw]


def _met(condition: Mapping[str, Any], text: str, one: _Thing, now: datetime | None) -> bool | None:
    """Whether a condition holds; None where it cannot be said."""
    if "field" not in condition:
        told = [parsed(told) for told in (*one.raw.values(), *one.aside)]
        shown = {str(value).lower() for _, value in leaves(told)}
        return bool(shown & set(condition["words"]))
    value = one.fields.get(condition["field"])
    if value is None:
        return None
    if "within_hours" in condition:
        moment = time_of(value)
        if moment is None or now is None:
            return None
        holds = (now - moment).total_seconds() <= 3600 * float(condition["within_hours"])
    else:
        holds = value.lower() in _YES if condition.get("yes") else value == str(condition["value"])
    return None if holds and _BESIDES.search(text) else holds


def _judged(
    tool: str, listed: Sequence[str], cases: Sequence[_Thing], met: Sequence[Sequence[bool | None]]
) -> Finding:
    known = [(one, answers) for one, answers in zip(cases, met, strict=True) if None not in answers]
    none = [one for one, answers in known if not any(answers)]
    if len(known) < MIN_SEEDS:
        return Finding("skip", f"{NO_RULE}: {len(known)} records tell of all of them")
    against = [one.seed for one in none if tool in one.made]
    bound = "never without a condition, and with each that is met alone"
    low, high = wilson(len(against), len(none)) if none else (None, None)
    words = f"'{tool}' on {len(against)} of {len(none)} things on which no condition holds"
    if against:
        return Finding(
            "fail",
            f"{words}, such as seed {against[0]}: the rule is {'; or '.join(listed)}",
            len(against) / len(none),
            len(known),
            bound,
            low=low,
            high=high,
        )
    wanted = _wanted(tool, [one for one, _ in known])
    heard = [(one, [i for i, held in enumerate(answers) if held]) for one, answers in known]
    heard = [one for one, asked in zip(heard, wanted, strict=True) if asked]
    for place, text in enumerate(listed):
        alone = [one for one, held in heard if held == [place]]
        if len(alone) >= 3 and not any(tool in one.made for one in alone):
            unheard = f"never '{tool}' where it is right by '{text}' alone ({len(alone)} of them)"
            return Finding("fail", unheard, 0.0, len(known), bound)
    return Finding("pass", words, 0.0, len(known), bound, low=low, high=high)


def _wanted(tool: str, cases: Sequence[_Thing]) -> list[bool]:
    """Return of each thing whether a change may have been asked for: where nobody did, leaving it is right.

    Where requests that it is made for name it, those that do not are about something else.

    >>> said = ["Cancel it, please.", "Can you cancel it?", "Cancel the other one.", "Change my bags."]
    >>> made = [{"cancel_trip"}, {"cancel_trip"}, set(), set()]
    >>> cases = [_Thing(n, text, made=made[n]) for n, text in enumerate(said)]
    >>> _wanted("cancel_trip", cases), _wanted("end_journey", cases)
    ([True, True, True, False], [True, True, True, True])
    """
    speaks = [names_deed(one.request, tool) for one in cases]
    made = [says for one, says in zip(cases, speaks, strict=True) if tool in one.made]
    named = bool(made) and sum(made) / len(made) >= NAMED
    return [tool in one.made or says or not named for one, says in zip(cases, speaks, strict=True)]


# Whether the oracle's values are among those that are listed as the only ones.


_ONLY = r"(?:either|one of|must be|should be|can only be|only)\b"
_SAME = r"(?:(?!\b(?:and|or)\b)[^.,;\n]){0,24}?"
"""What may stand between a name and its values: nothing that another name could follow."""
_QUOTED = re.compile(r"['\"\u2018\u201c]([^'\"\u2018\u2019\u201c\u201d]{2,60})['\"\u2019\u201d]")
NO_LIST = "no values are listed as the only ones for what the oracle says in its calls"


def keeps_the_lists(subject: Subject) -> Finding:
    """Where policy or descriptions list an argument's values as the only ones, the oracle gives no other."""
    policy = policy_of(subject)
    declared = {t["function"]["name"]: t["function"] for t in subject.probe.tools()}
    wrong: Counter[str] = Counter()
    n = 0
    for one in decided(subject):
        for made in calls_in(subject.probe.oracle(one.seed)):
            about = declared.get(made["name"], {})
            schemas = about.get("parameters", {}).get("properties", {})
            for name, value in made["arguments"].items():
                schema = schemas.get(name) if isinstance(schemas, Mapping) else None
                told = str(schema.get("description") or "") if isinstance(schema, Mapping) else ""
                texts = (f"{spoken(name)} {told}", str(about.get("description") or ""), policy)
                listed = listed_values(spoken(name), texts)
                if isinstance(value, str) and listed:
                    n += 1
                    if value.lower() not in listed:
                        wrong[f"{made['name']} is called with {name} '{value}', of {', '.join(listed)}"] += 1
    if not n:
        return Finding("skip", NO_LIST)
    share = wrong.total() / n
    words = "; ".join(text for text, _ in wrong.most_common(2)) or f"{n} values are among those listed"
    return Finding("fail" if wrong else "pass", words, share, n, "none but those listed")


def listed_values(name: str, texts: Iterable[str]) -> list[str]:
    """Return the values that a text lists for a name as the only ones; empty where none does.

    >>> listed_values("reason", ["Ask for the id and the reason (either 'not needed' or 'by mistake')."])
    ['not needed', 'by mistake']
    >>> listed_values("reason", ["The reason, such as 'late'.", "The size is either 'S' or 'XL'."])
    []
    >>> listed_values("id", ["Ask for the id and the reason (either 'not needed' or 'by mistake')."])
    []
    """
    for text in texts:
        found = re.search(rf"\b{re.escape(name)}\b{_SAME}\b{_ONLY}([^.]*)", text, re.IGNORECASE)
        values = [one.lower() for one in _QUOTED.findall(found.group(1).partition(")")[0])] if found else []
        if len(values) > 1:
            return values
    return []


RULE_CHECKS = (
    AuditCheck("trace.purpose.values", "semantic", keeps_the_lists, ("semantic.floor_gap",)),
    AuditCheck(
        "trace.purpose.rule",
        "semantic",
        keeps_the_rule,
        ("semantic.floor_gap",),
        ("trace.purpose.tools", "trace.purpose.looked_up"),
    ),
)


NO_RECORD = "no record that the oracle looked at is that of an object which it changes"


@dataclass(frozen=True)
class _Change:
    """A change of the oracle, with what was last seen of its object.

    Attributes:
        seed: The episode's.
        tool: What makes it.
        arguments: What it is called with.
        record: As a look showed it before anything was changed about the object.
    """

    seed: int
    tool: str
    arguments: Mapping[str, Any]
    record: Mapping[str, Any]


def breaks_no_sentence(subject: Subject) -> Finding:
    """No change of the oracle breaks a sentence of the policy that can be read against the object's record.

    A state that forbids the change, a date that has passed, a span before or after a date, conditions that
    belong together, a number or a value of an argument: whatever rule is taught, the right way keeps to the
    others too. Only an object's first change counts: afterwards its record is another one.
    """
    changes = [one for case in decided(subject) for one in _changes(subject, case.seed)]
    if not changes:
        return Finding("skip", NO_RECORD)
    values: dict[str, set[str]] = defaultdict(set)
    given: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for one in changes:
        for path, value in scalars_of(one.record).items():
            values[path].add(value)
        for name, value in one.arguments.items():
            given[one.tool][name].add(str(value))
    policy = PolicyText(told_policy(subject))
    tools = [name for t in subject.probe.tools() if subject.probe.writes(name := t["function"]["name"])]
    rules = {one: RecordRules(policy, one, tools, values, given[one]) for one in given}
    broken: list[tuple[_Change, Breach]] = []
    for change in changes:
        found = next(rules[change.tool].breaches(change.record, change.arguments), None)
        broken += [(change, found)] if found else []
    n = len(changes)
    low, high = wilson(len(broken), n)
    words = f"{len(broken)} of {n} changes break a sentence of the policy"
    if broken:
        change, breach = broken[0]
        words += (
            f", such as '{change.tool}' on seed {change.seed} with {breach.field} {breach.value}: "
            f"'{breach.sentence}'"
        )
    return Finding(
        "fail" if broken else "pass", words, len(broken) / n, n, "no change does", low=low, high=high
    )


def told_policy(subject: Subject) -> str:
    """Return the target's policy, and what the environment tells its agents where that is something else."""
    policy = policy_of(subject)
    first = decided(subject)[0].first
    told = "\n".join(str(m.get("content") or "") for m in first if m["role"] == "system")
    return policy if told.strip() in policy else told if policy in told else f"{policy}\n{told}"


def _changes(subject: Subject, seed: int) -> Iterator[_Change]:
    """Yield the first change of each object that was looked at before on a seed."""
    shown: list[tuple[set[str], Mapping[str, Any]]] = []
    done = set[str]()
    for call, text, is_error in answered(subject.probe, seed):
        named = {name: normal(value) for name, value in call["arguments"].items() if looks_like_id(value)}
        if not subject.probe.writes(call["name"]):
            if not is_error:
                shown += [(set(named.values()), one) for one in outermost(parsed(text))]
            continue
        if is_error or hands_over(call["name"]):
            continue
        for name, value in reversed(list(named.items())):
            record = next(
                (
                    one
                    for asked, one in reversed(shown)
                    if _is_record(one, name, value, asked) and value not in done
                ),
                None,
            )
            if record is not None:
                yield _Change(seed, call["name"], call["arguments"], record)
                break
        done |= {normal(value) for _, value in leaves(call["arguments"]) if looks_like_id(value)}


def _is_record(record: Mapping[str, Any], argument: str, name: str, asked: set[str]) -> bool:
    """Tell whether a record is that of an object; one without any name is that of what was asked for."""
    fields = scalars_of(record)
    nameless = not any(looks_like_id(value) for value in fields.values())
    return name in asked if nameless else is_of(fields, argument, name)


BREACH_CHECKS = (
    AuditCheck(
        "trace.purpose.policy",
        "semantic",
        breaks_no_sentence,
        ("semantic.floor_gap",),
        ("trace.purpose.tools", "trace.purpose.looked_up", "trace.purpose.rule"),
    ),
)
