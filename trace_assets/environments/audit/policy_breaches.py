"""Whether the oracle's changes break a sentence of the policy, also one that the capability is not about."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trace_assets.diagnosis.detectors.identity import looks_like_id, normal
from trace_assets.diagnosis.detectors.mutation import hands_over
from trace_assets.diagnosis.detectors.policy_text import PolicyText
from trace_assets.diagnosis.detectors.values import leaves, outermost, scalars_of
from trace_assets.diagnosis.detectors.write_past_date import is_of
from trace_assets.environments.audit.check import AuditCheck, Finding, Subject
from trace_assets.environments.audit.oracle_decisions import answered, decided
from trace_assets.environments.audit.policy_rule import policy_of
from trace_assets.environments.contract.answers import parsed
from trace_assets.environments.contract.record_rules import Breach, RecordRules
from trace_assets.stats.intervals import wilson

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
        for field, value in scalars_of(one.record).items():
            values[field].add(value)
        for name, value in one.arguments.items():
            given[one.tool][name].add(str(value))
    policy = PolicyText(_told(subject))
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


def _told(subject: Subject) -> str:
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
