"""Doubts about a task that demands what its own policy forbids: the policy held against the expected calls.

Nothing is read from what runs did but the records that they saw. Where a record is not known, or the policy's
sentence cannot be read, nothing is said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from trace_assets.diagnosis.detectors.identity import looks_like_id, normal
from trace_assets.diagnosis.detectors.policy_limits import given_bans, is_among
from trace_assets.diagnosis.detectors.policy_windows import dates_meant, windows
from trace_assets.diagnosis.detectors.transcript import Observation
from trace_assets.diagnosis.detectors.values import leaves, scalars_of, time_of
from trace_assets.diagnosis.detectors.verbs import same_verb, spoken, things, verb_of
from trace_assets.diagnosis.detectors.write_against_policy import met_by_record, read_condition
from trace_assets.diagnosis.expected.doubts import Doubt, record_of
from trace_assets.diagnosis.expected.facts import Facts, Thing, objects
from trace_assets.records import ExpectedAction

_WORD = re.compile(r"[a-z]+")


def protected_field(facts: Facts, task_id: str) -> Iterator[Doubt]:
    """An expected call changes what the policy says must stay as it is."""
    for place, action in facts.expected_writes(task_id):
        names, sentence = facts.policy.protected(action.name)
        record = record_of(facts, task_id, action) if names else None
        if record is None:
            continue
        fields = record.keys() & {name.replace(" ", "_") for name in names}
        after = _after(facts, task_id, action, record)
        for field in sorted(fields):
            values = after.get(field, set())
            if values and normal(record[field]) not in values:
                before = f"{spoken(field)} from {record[field]}"
                detail = f"{action.name} is to change the {before}, but the policy says: '{sentence}'"
                yield Doubt("wrong", "protected_field", detail, (place,), reading=(action.name, sentence))
                break


def _after(facts: Facts, task_id: str, action: ExpectedAction, record: Thing) -> Mapping[str, set[str]]:
    """Return by field what its value could be after a call: given to it, or of what it names."""
    own = {normal(value) for value in record.values() if looks_like_id(value)}
    found: dict[str, set[str]] = {}
    for name, value in action.arguments.items():
        if isinstance(value, str):
            found.setdefault(name, set()).add(normal(value))
    nested = [
        (key, normal(value))
        for part in list(objects(action.arguments))[1:]
        for key, value in part.items()
        if looks_like_id(value)
    ]
    plain = [
        (name, normal(value))
        for name, value in action.arguments.items()
        if looks_like_id(value) and normal(value) not in own
    ]
    for pairs in (nested, plain):
        parts = [facts.parts.get(pair, []) for pair in pairs]
        if not parts or not all(parts):
            continue
        for thing in (thing for part in parts for thing in part):
            for field, value in thing.items():
                if isinstance(value, str | int | float):
                    found.setdefault(field, set()).add(normal(value))
    return found


def past_object(facts: Facts, task_id: str) -> Iterator[Doubt]:
    """An expected call acts on what lies in the past although the policy forbids that."""
    today = facts.policy.clock
    if today is None:
        return
    for place, action in facts.expected_writes(task_id):
        for sentence in facts.policy.forbids_past(action.name):
            record = record_of(facts, task_id, action)
            if record is None:
                break
            past = [
                (path, value)
                for path, value in dates_meant(sentence, leaves(record))
                if value < today and value[:2] in ("19", "20")
            ]
            if past:
                path, value = past[0]
                detail = (
                    f"{action.name} is to be called on what has {spoken(path)} {value}, before {today}, but "
                    f"the policy says: '{sentence.text}'"
                )
                yield Doubt("wrong", "past_object", detail, (place,), reading=(action.name, sentence.text))
                break


def missing_prerequisite(facts: Facts, task_id: str) -> Iterator[Doubt]:
    """An expected call may by the policy be made only after another, and no such other is expected."""
    wanted = facts.expected_writes(task_id)
    task = facts.tasks.get(task_id)
    told = task.instruction.lower() if task else ""
    for place, action in wanted:
        for rule in facts.policy.only_after(action.name, sorted(facts.writes)):
            applies = not rule.only_if or any(f"{word} {noun[:4]}" in told for word, noun in rule.only_if)
            done = any(other.name in rule.before for number, other in wanted if number < place)
            if applies and not done and not _was_done(rule.before, told):
                others = ", ".join(sorted(rule.before))
                detail = (
                    f"{action.name} is expected without any of {others} before it, but the policy says: "
                    f"'{rule.sentence}'"
                )
                reading = (action.name, rule.sentence)
                yield Doubt("wrong", "missing_prerequisite", detail, (place,), reading=reading)
                break


def _was_done(tools: frozenset[str], told: str) -> bool:
    """Tell whether a task says that what a tool does was done before."""
    done = [word for word in _WORD.findall(told) if word.endswith("ed")]
    return any(
        same_verb(verb_of(tool), word)
        and re.search(rf"\b(?:was|were|been|already|had|have|has|just) (?:\w+ )?{re.escape(word)}\b", told)
        for tool in tools
        for word in done
    )


def banned_object(facts: Facts, task_id: str) -> Iterator[Doubt]:
    """An expected call acts on what the policy, by a value of its record, excludes from just that.

    A call that another expected one repeats with the same arguments was a try: the tool refuses it.
    """
    for place, action, fields in _first_writes(facts, task_id):
        if any(
            other.name != action.name and other.arguments == action.arguments
            for _, other in facts.expected_writes(task_id)
        ):
            continue
        for ban in facts.bans(action.name):
            given = action.arguments.get(ban.field)
            # A call that changes the very field is not judged by the value that it does away with.
            if (given is None or normal(given) == normal(fields.get(ban.field))) and ban.forbids(
                fields, action.arguments
            ):
                detail = (
                    f"{action.name} is to be called on what has {spoken(ban.field)} "
                    f"{fields[ban.field]!r}, but the policy says: '{ban.sentence}'"
                )
                yield Doubt("wrong", "banned_object", detail, (place,), reading=(action.name, ban.sentence))
                break


def beyond_limit(facts: Facts, task_id: str) -> Iterator[Doubt]:
    """An expected call has more, or more of them, than the policy allows."""
    for place, action in facts.expected_writes(task_id):
        for most in facts.limits(action.name):
            name = most.broken_by(action.arguments)
            if name is not None:
                value = action.arguments[name]
                shown = len(value) if isinstance(value, list | tuple) else value
                detail = (
                    f"{action.name} is to be called with {spoken(name)} {shown}, but the policy says: "
                    f"'{most.sentence}'"
                )
                yield Doubt("wrong", "beyond_limit", detail, (place,), (name,), (action.name, most.sentence))
                break


def no_condition_holds(facts: Facts, task_id: str) -> Iterator[Doubt]:
    """None of the conditions holds of which, by the policy, one has to hold for an expected call.

    A condition that no field of the record shows counts as met when the task or any of its runs speaks of it.
    """
    told = facts.tasks[task_id].instruction.lower()
    for place, action, fields in _first_writes(facts, task_id):
        listed = facts.policy.any_of(action.name)
        if not listed:
            continue
        alike = [Observation(0, "", one) for one in facts.records_like(fields)]
        conditions = [read_condition(text, alike, facts.policy.now) for text in listed]
        if not any("field" in one for one in conditions):
            continue
        if any(
            met_by_record(one, fields, str(facts.policy.now))
            if "field" in one
            else _is_told(one["words"], action.name, told) or facts.shows(task_id, one["words"])
            for one in conditions
        ):
            continue
        detail = f"{action.name} is expected, but none of the policy's conditions holds: {'; '.join(listed)}"
        yield Doubt("wrong", "no_condition_holds", detail, (place,), reading=(action.name, "; ".join(listed)))


def clauses_broken(facts: Facts, task_id: str) -> Iterator[Doubt]:
    """The policy makes an expected call depend on several conditions, and they do not hold for certain.

    Where the call itself changes a field that they read, they must not hold with its new value either.
    """
    for place, action, fields in _first_writes(facts, task_id):
        rule = facts.clauses(action.name, fields)
        if rule is None or not rule.broken_by(fields, facts.policy.now):
            continue
        given = {field: action.arguments.get(field.rpartition(".")[2]) for field in rule.fields}
        after = {**fields, **{field: str(value) for field, value in given.items() if value is not None}}
        if not rule.broken_by(after, facts.policy.now):
            continue
        shown = ", ".join(
            f"{spoken(field.rpartition('.')[2])} {fields[field]}" for field in rule.fields if field in fields
        )
        detail = (
            f"{action.name} is to be called on what has {shown}, but the policy says: "
            f"'{' '.join(rule.sentences)}'"
        )
        yield Doubt("wrong", "clauses_broken", detail, (place,), reading=(action.name, rule.words))


def outside_window(facts: Facts, task_id: str) -> Iterator[Doubt]:
    """An expected call comes too late after a date, or too soon before one, for the policy to allow it."""
    now = facts.policy.now
    for place, action, fields in _first_writes(facts, task_id) if now else ():
        dated = [field for field, value in fields.items() if time_of(value) is not None]
        for window in windows(facts.policy, action.name):
            field = next(
                (one for one in window.fields(dated) if window.is_missed(fields[one], str(now))), None
            )
            given = action.arguments.get(field.rpartition(".")[2]) if field else None
            if field is not None and given is None:
                detail = (
                    f"{action.name} is to be called on what has {spoken(field)} {fields[field]}, on {now}, "
                    f"but the policy says: '{window.sentence}'"
                )
                yield Doubt(
                    "wrong", "outside_window", detail, (place,), reading=(action.name, window.sentence)
                )
                break


def banned_value(facts: Facts, task_id: str) -> Iterator[Doubt]:
    """An expected call is to be given a value that the policy, by its name, excludes."""
    for place, action in facts.expected_writes(task_id):
        for ban in given_bans(facts.policy, action.name, facts.given[action.name]):
            if is_among(action.arguments.get(ban.argument), ban.values):
                detail = (
                    f"{action.name} is to be called with {spoken(ban.argument)} "
                    f"{action.arguments[ban.argument]!r}, but the policy says: '{ban.sentence}'"
                )
                yield Doubt("wrong", "banned_value", detail, (place,), reading=(action.name, ban.sentence))
                break


def _is_told(words: list[str], tool: str, told: str) -> bool:
    """Tell whether a text has a word of a condition that is not about what the tool does anyway."""
    acted = {thing[:4] for thing in things(tool)}
    own = [word for word in words if word[:4] not in acted and not same_verb(verb_of(tool), word)]
    return any(re.search(rf"\b{re.escape(word[: max(4, len(word) - 3)])}", told) for word in own)


def _first_writes(facts: Facts, task_id: str) -> Iterator[tuple[int, ExpectedAction, Mapping[str, str]]]:
    """Yield (place, call, fields) of expected calls on objects that no earlier expected call has changed."""
    changed = set[str]()
    for place, action in facts.expected_writes(task_id):
        named = {normal(value) for _, value in leaves(action.arguments) if looks_like_id(value)}
        record = record_of(facts, task_id, action)
        if record is not None and named.isdisjoint(changed):
            yield place, action, scalars_of(record)
        changed |= named
