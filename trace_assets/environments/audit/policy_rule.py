"""Whether the oracle keeps to what the policy lists: the conditions of which one must hold for a change."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from trace_assets.diagnosis.detectors.policy_text import PolicyText
from trace_assets.diagnosis.detectors.transcript import Observation
from trace_assets.diagnosis.detectors.values import leaves, scalars, time_of
from trace_assets.diagnosis.detectors.wording import spoken
from trace_assets.diagnosis.detectors.write_against_policy import read_condition
from trace_assets.environments.audit.check import AuditCheck, Finding, Subject
from trace_assets.environments.audit.oracle_decisions import Decided, decided
from trace_assets.environments.audit.scripts import calls_in
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


# Whether the oracle's values are among those that are listed as the only ones.


_ONLY = r"(?:either|one of|must be|should be|can only be|only)\b"
_SAME = r"(?:(?!\b(?:and|or)\b)[^.,;\n]){0,24}?"
"""What may stand between a name and its values: nothing that another name could follow."""
_QUOTED = re.compile(r"['\"\u2018\u201c]([^'\"\u2018\u2019\u201c\u201d]{2,60})['\"\u2019\u201d]")
NO_LIST = "no values are listed as the only ones for what the oracle says in its calls"


def keeps_the_lists(subject: Subject) -> Finding:
    """Where policy or descriptions list an argument's values as the only ones, the oracle gives no other."""
    policy = _policy(subject)
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
