"""Whether the oracle keeps to what the policy lists: the conditions of which one must hold for a change."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from trace_assets.diagnosis.detectors.policy_text import PolicyText
from trace_assets.diagnosis.detectors.transcript import Observation
from trace_assets.diagnosis.detectors.values import leaves, scalars, time_of
from trace_assets.diagnosis.detectors.write_against_policy import read_condition
from trace_assets.environments.audit.check import AuditCheck, Finding, Subject
from trace_assets.environments.audit.oracle_decisions import Decided, decided
from trace_assets.environments.contract.answers import parsed
from trace_assets.stats.intervals import wilson

MIN_SEEDS = 8
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
    cases = decided(subject)
    policy = PolicyText(_policy(subject))
    tools = [tool["function"]["name"] for tool in subject.probe.tools()]
    now = time_of(policy.now)
    for tool in sorted({name for one in cases for name in one.writes}):
        listed = policy.any_of(tool, tools)
        records = {one.seed: _record(one) for one in cases}
        seen = [Observation(n, tool, fields) for n, fields in enumerate(records.values())]
        conditions = [read_condition(text, seen, policy.now) for text in listed]
        if sum("field" in one for one in conditions) < 2:
            continue
        met = {
            one.seed: [
                _met(condition, text, records[one.seed], one, now)
                for condition, text in zip(conditions, listed, strict=True)
            ]
            for one in cases
        }
        made = {one.seed: tool in one.writes for one in cases}
        return _judged(subject, tool, listed, met, made)
    return Finding("skip", NO_RULE)


def _policy(subject: Subject) -> str:
    own = subject.contract.policy if subject.contract else ""
    return own or "\n".join(str(m.get("content") or "") for m in decided(subject)[0].first[:1])


def _record(one: Decided) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for tool, text in one.raw.items():
        if tool in one.reads:
            found |= scalars(text) or {}
    return found


def _met(
    condition: Mapping[str, Any], text: str, fields: Mapping[str, str], one: Decided, now: datetime | None
) -> bool | None:
    """Whether a condition holds; None where it cannot be said."""
    if "field" not in condition:
        shown = {str(value).lower() for _, value in leaves([parsed(told) for told in one.raw.values()])}
        return bool(shown & set(condition["words"]))
    value = fields.get(condition["field"])
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
    subject: Subject,
    tool: str,
    listed: Sequence[str],
    met: Mapping[int, Sequence[bool | None]],
    made: Mapping[int, bool],
) -> Finding:
    known = [seed for seed, answers in met.items() if None not in answers]
    none = [seed for seed in known if not any(met[seed])]
    if len(known) < MIN_SEEDS:
        return Finding("skip", f"{NO_RULE}: {len(known)} records tell of all of them")
    against = [seed for seed in none if made[seed]]
    bound = "never without a condition, and with each that is met alone"
    low, high = wilson(len(against), len(none)) if none else (None, None)
    words = f"'{tool}' on {len(against)} of {len(none)} seeds on which no condition holds"
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
    for place, text in enumerate(listed):
        alone = [s for s in known if [i for i, held in enumerate(met[s]) if held] == [place]]
        if len(alone) >= 3 and not any(made[seed] for seed in alone):
            unheard = f"never '{tool}' where it is right by '{text}' alone ({len(alone)} seeds)"
            return Finding("fail", unheard, 0.0, len(known), bound)
    return Finding("pass", words, 0.0, len(known), bound, low=low, high=high)


RULE_CHECKS = (
    AuditCheck(
        "trace.purpose.rule",
        "semantic",
        keeps_the_rule,
        ("semantic.floor_gap",),
        ("trace.purpose.tools", "trace.purpose.looked_up"),
    ),
)
