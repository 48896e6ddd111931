"""Whether results are the target's: what they are built of, the states that they show, and nothing added."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from statistics import fmean
from typing import Any

from trace_assets.environments.audit.check import AuditCheck, Finding, Subject
from trace_assets.environments.audit.decision_tree import answers_of, decided, of_pair, pairs_of
from trace_assets.environments.audit.dependence import told_by
from trace_assets.environments.audit.fidelity_material import NO_CONTRACT, oracle_episodes, with_reference
from trace_assets.environments.contract.answers import answered_calls, parsed
from trace_assets.environments.contract.description import TargetContract
from trace_assets.environments.contract.json_schema import FORMATS, kind_of
from trace_assets.environments.contract.shapes import ResultShape

MIN_ANSWERS = 5
"""Answers of the real tool that must have been seen before its shape is held against an environment."""
MAX_ITEMS = 20
FEW_TEXTS = 3
"""A tool that was only ever seen to answer one of so many texts answers nothing else."""


@with_reference
def result_shape(subject: Subject, contract: TargetContract) -> Finding:
    """Results are built like those of the target's tools: fields, types, formats, states, at every depth.

    A state that the policy or a tool's description names may be shown, whether it was seen or not.
    """
    seen: dict[str, list[float]] = defaultdict(list)
    worst: Counter[str] = Counter()
    unknown = set[str]()
    named = named_in(contract)
    for episode in oracle_episodes(subject):
        for call, answer, is_error in answered_calls(episode):
            shape = contract.result(call.name)
            if is_error:
                continue
            if shape is None or shape.n < MIN_ANSWERS:
                unknown.add(call.name)
                continue
            distance, faults = answer_distance(answer, shape, named)
            seen[call.name].append(distance)
            worst.update(f"{call.name}: {fault}" for fault in faults)
    bound = f"<= {subject.rules.max_result_distance}"
    left = f"; too few real answers of {', '.join(sorted(unknown))}" if unknown else ""
    if not seen:
        return Finding("skip", f"no result to compare{left}")
    by_tool = {name: fmean(values) for name, values in seen.items()}
    value, n = fmean(by_tool.values()), sum(map(len, seen.values()))
    evidence = f"{len(seen)} tools, the same at every place"
    if worst:
        evidence = "; ".join(f"{fault} ({times} times)" for fault, times in worst.most_common(3))
    passed = value <= subject.rules.max_result_distance
    return Finding("pass" if passed else "fail", evidence + left, value, n, bound)


Named = Callable[[str], bool]
MOST_STATES, SEEN_EACH = 12, 5
"""A place with so few values, seen so often each, holds a state; others hold names, which are anybody's."""


def named_in(contract: TargetContract) -> Named:
    """Return what tells whether a target's policy, or the description of a tool, names a value."""
    said = " ".join([contract.policy, *(f"{t.description} {t.parameters}" for t in contract.tools)])
    text = f" {' '.join(re.findall(r'[a-z0-9]+', said.lower()))} "
    return lambda value: f" {' '.join(re.findall(r'[a-z0-9]+', value.lower()))} " in text


def answer_distance(
    answer: str, shape: ResultShape, named: Named = lambda value: False
) -> tuple[float, list[str]]:
    """Return the share of places in an answer that are not as in the target's answers, and what is wrong."""
    value = parsed(answer)
    faults: list[str] = []
    if isinstance(value, str) and shape.json_schema.get("type") == "string":
        texts = shape.json_schema.get("enum", ())
        if 0 < len(texts) <= FEW_TEXTS and value not in texts and not named(value):
            return 1.0, [f"says {value[:40]!r}, the target {texts[0][:40]!r}"]
    wrong, places = compare(value, shape.json_schema, "", faults, shape.n, named)
    return wrong / places, faults


def compare(
    value: Any,
    schema: Mapping[str, Any],
    path: str,
    faults: list[str],
    seen: int = 0,
    named: Named = lambda value: False,
) -> tuple[int, int]:
    """Count the places of a value that a schema does not know, and all places.

    Types, required fields, formats and states count; fields that are added are `added_in`'s.

    Args:
        value: A JSON value.
        schema: As `json_schema.infer_schema` makes them.
        path: Where the value stands.
        faults: Gets one sentence a wrong place.
        seen: Answers behind the schema.
        named: Whether the target names a value elsewhere.

    >>> compare({"id": 1, "new": 2}, {"type": "object", "properties": {"id": {"type": "string"}},
    ...     "required": ["id"]}, "", [])
    (1, 1)
    """
    if not schema:
        return 0, 1
    kind, allowed = kind_of(value), schema.get("type", [])
    kinds = {allowed} if isinstance(allowed, str) else set(allowed)
    if kind not in kinds and not (kind == "integer" and "number" in kinds):
        faults.append(f"{path or 'result'} is {kind} instead of {'/'.join(sorted(kinds))}")
        return 1, 1
    if kind == "object":
        return _compare_object(value, schema, path, faults, seen, named)
    if kind == "array":
        items = schema.get("items", {})
        counts = [compare(one, items, f"{path}[]", faults, seen, named) for one in value[:MAX_ITEMS]]
        return sum(w for w, _ in counts), max(1, sum(n for _, n in counts))
    if kind == "string" and not _formatted(value, schema) and not _is_named(value, named):
        faults.append(f"{path or 'result'} is not built like the target's")
        return 1, 1
    if kind == "string" and path and _is_no_state(value, schema, seen) and not named(value):
        faults.append(f"{path} is {value[:40]!r}, which neither the target's results nor its policy know")
        return 1, 1
    return 0, 1


def _is_named(value: str, named: Named) -> bool:
    return not any(c.isdigit() for c in value) and named(value)


def _is_no_state(value: str, schema: Mapping[str, Any], seen: int) -> bool:
    """Whether a place holds one of a few states, and this is none of them."""
    states = [one for one in schema.get("enum", ()) if one is not None]
    plain = states and not any(c.isdigit() for one in states for c in str(one))
    return (
        bool(plain) and len(states) <= MOST_STATES and seen >= SEEN_EACH * len(states) and value not in states
    )


def _compare_object(
    value: dict[str, Any],
    schema: Mapping[str, Any],
    path: str,
    faults: list[str],
    seen: int,
    named: Named,
) -> tuple[int, int]:
    known = schema.get("properties")
    wrong = places = 0
    if known is None:
        held_to = schema.get("additionalProperties", {})
        counts = [
            compare(one, held_to, f"{path}.*", faults, seen, named)
            for one in list(value.values())[:MAX_ITEMS]
        ]
        return sum(w for w, _ in counts), max(1, sum(n for _, n in counts))
    for name in schema.get("required", ()):
        if name not in value:
            faults.append(f"lacks {path}.{name}".replace(" .", " "))
            wrong, places = wrong + 1, places + 1
    for name, held in value.items():
        if name in known:
            more, of = compare(held, known[name], f"{path}.{name}".lstrip("."), faults, seen, named)
            wrong, places = wrong + more, places + of
    return wrong, max(1, places)


def _formatted(value: str, schema: Mapping[str, Any]) -> bool:
    form = FORMATS.get(schema.get("format", ""))
    if form is not None and not form.fullmatch(value):
        return False
    pattern = schema.get("pattern")
    return pattern is None or re.fullmatch(pattern, value) is not None


def added_in(value: Any, schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the fields of a value that a schema does not know, with what they hold.

    >>> schema = {"type": "object", "properties": {"id": {"type": "string"}}}
    >>> list(added_in({"id": "a", "may_go": True}, schema))
    [('may_go', True)]
    """
    if isinstance(value, dict):
        known = schema.get("properties")
        held_to = schema.get("additionalProperties")
        for name, held in value.items():
            here = f"{path}.{name}".lstrip(".")
            if known is not None and name not in known:
                yield here, held
            else:
                yield from added_in(held, (known or {}).get(name, held_to or {}), here)
    elif isinstance(value, list):
        for one in value[:MAX_ITEMS]:
            yield from added_in(one, schema.get("items", {}), f"{path}[]")


def added_fields(subject: Subject) -> Finding:
    """Results have no field that the target's results do not have: what is added is the writer's own word."""
    contract = subject.contract
    if contract is None:
        return Finding("skip", NO_CONTRACT)
    found: dict[str, dict[int, Any]] = defaultdict(dict)
    n, unknown = 0, set[str]()
    cases = decided(subject)
    shapes = {one.tool: one for one in contract.results if one.n >= MIN_ANSWERS}
    for case in cases:
        for name, answer in answers_of(subject, case.seed):
            if name not in shapes:
                unknown.add(name)
                continue
            n += 1
            for path, held in added_in(parsed(answer), shapes[name].json_schema):
                found[f"{name}: {path}"].setdefault(case.seed, held)
    if not n:
        return Finding("skip", f"too few real answers of {', '.join(sorted(unknown)) or 'any tool'}")
    bound = "no field that real results do not have"
    if not found:
        return Finding("pass", f"{n} results have the target's fields", 0.0, n, bound)
    place, held = max(found.items(), key=lambda item: (len(item[1]), item[0]))
    words = f"adds {', '.join(sorted(found)[:4])}"
    for pair in pairs_of(cases):
        own = of_pair(cases, pair)
        told = told_by(
            [{"it": repr(held.get(one.seed))} for one in own], [one.kind == pair[0] for one in own]
        )
        if told is not None and told.p <= subject.rules.max_told_p:
            words += f"; {place} tells '{pair[0]}' from '{pair[1]}' on {told.accuracy:.0%} of seeds"
    return Finding("fail", words, len(found), n, bound)


RESULT_CHECKS = (
    AuditCheck("trace.fidelity.added_fields", "fidelity", added_fields, ("semantic.oracle_max",)),
    AuditCheck(
        "trace.fidelity.result_shape",
        "fidelity",
        result_shape,
        ("semantic.oracle_max",),
    ),
)
