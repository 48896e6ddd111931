"""Whether tools answer as the target's do: the shapes of their results, and the form of their errors."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from statistics import fmean
from typing import Any

from trace_assets.synthesis.audit.check import AuditCheck, Finding, Subject
from trace_assets.synthesis.audit.fidelity.material import messy_episodes, oracle_episodes, with_reference
from trace_assets.synthesis.contract.answers import answered_calls, parsed
from trace_assets.synthesis.contract.json_schema import FORMATS, kind_of
from trace_assets.synthesis.contract.shapes import ResultShape
from trace_assets.synthesis.contract.target_contract import TargetContract

MIN_ANSWERS = 5
"""Answers of the real tool that must have been seen before its shape is held against an environment."""
MAX_ITEMS = 20
FEW_TEXTS = 3
"""A tool that was only ever seen to answer one of so many texts answers nothing else."""


@with_reference
def result_shape(subject: Subject, contract: TargetContract) -> Finding:
    """Results are built like those of the target's tools: fields, types and formats, at every depth."""
    seen: dict[str, list[float]] = defaultdict(list)
    worst: Counter[str] = Counter()
    unknown = set[str]()
    for episode in oracle_episodes(subject):
        for call, answer, is_error in answered_calls(episode):
            shape = contract.result(call.name)
            if is_error:
                continue
            if shape is None or shape.n < MIN_ANSWERS:
                unknown.add(call.name)
                continue
            distance, faults = answer_distance(answer, shape)
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


def answer_distance(answer: str, shape: ResultShape) -> tuple[float, list[str]]:
    """Return the share of places in an answer that are not as in the target's answers, and what is wrong."""
    value = parsed(answer)
    faults: list[str] = []
    if isinstance(value, str) and shape.json_schema.get("type") == "string":
        texts = shape.json_schema.get("enum", ())
        if 0 < len(texts) <= FEW_TEXTS and value not in texts:
            return 1.0, [f"says {value[:40]!r}, the target {texts[0][:40]!r}"]
    wrong, places = compare(value, shape.json_schema, "", faults)
    return wrong / places, faults


def compare(value: Any, schema: Mapping[str, Any], path: str, faults: list[str]) -> tuple[int, int]:
    """Count the places of a value that a schema does not know, and all places.

    Types, names of fields, required fields and formats count; which values there are does not.

    Args:
        value: A JSON value.
        schema: As `json_schema.infer_schema` makes them.
        path: Where the value stands.
        faults: Gets one sentence a wrong place.

    >>> compare({"id": 1, "new": 2}, {"type": "object", "properties": {"id": {"type": "string"}},
    ...     "required": ["id"]}, "", [])
    (2, 2)
    """
    if not schema:
        return 0, 1
    kind, allowed = kind_of(value), schema.get("type", [])
    kinds = {allowed} if isinstance(allowed, str) else set(allowed)
    if kind not in kinds and not (kind == "integer" and "number" in kinds):
        faults.append(f"{path or 'result'} is {kind} instead of {'/'.join(sorted(kinds))}")
        return 1, 1
    if kind == "object":
        return _compare_object(value, schema, path, faults)
    if kind == "array":
        counts = [compare(one, schema.get("items", {}), f"{path}[]", faults) for one in value[:MAX_ITEMS]]
        return sum(w for w, _ in counts), max(1, sum(n for _, n in counts))
    if kind == "string" and not _formatted(value, schema):
        faults.append(f"{path or 'result'} is not built like the target's")
        return 1, 1
    return 0, 1


def _compare_object(
    value: dict[str, Any], schema: Mapping[str, Any], path: str, faults: list[str]
) -> tuple[int, int]:
    known = schema.get("properties")
    wrong = places = 0
    if known is None:
        counts = [
            compare(one, schema.get("additionalProperties", {}), f"{path}.*", faults)
            for one in list(value.values())[:MAX_ITEMS]
        ]
        return sum(w for w, _ in counts), max(1, sum(n for _, n in counts))
    for name in schema.get("required", ()):
        if name not in value:
            faults.append(f"lacks {path}.{name}".replace(" .", " "))
            wrong, places = wrong + 1, places + 1
    for name, held in value.items():
        if name not in known:
            faults.append(f"adds {path}.{name}".replace(" .", " "))
            wrong, places = wrong + 1, places + 1
        else:
            more, of = compare(held, known[name], f"{path}.{name}".lstrip("."), faults)
            wrong, places = wrong + more, places + of
    return wrong, max(1, places)


def _formatted(value: str, schema: Mapping[str, Any]) -> bool:
    form = FORMATS.get(schema.get("format", ""))
    if form is not None and not form.fullmatch(value):
        return False
    pattern = schema.get("pattern")
    return pattern is None or re.fullmatch(pattern, value) is not None


@with_reference
def error_shape(subject: Subject, contract: TargetContract) -> Finding:
    """Errors have the form of the target's: text or JSON, its keys, and how it begins."""
    real = Counter(
        {
            error: n
            for shape in contract.results
            for error, n in ((one.text, one.n) for one in shape.error_texts)
        }
    )
    if not real:
        return Finding("skip", "no error of the target's tools was seen")
    forms = {error_form(text) for text in real}
    told = [
        answer
        for episode in [*oracle_episodes(subject), *messy_episodes(subject)]
        for _, answer, is_error in answered_calls(episode)
        if is_error
    ]
    if not told:
        return Finding("skip", "no call was answered by an error")
    foreign = Counter(answer[:80] for answer in told if error_form(answer) not in forms)
    value, bound = foreign.total() / len(told), f"<= {subject.rules.max_error_distance}"
    apart = fmean(min(_word_distance(answer, text) for text in real) for answer in told)
    words = f"words differ from the nearest real error by {apart:.2f} on average"
    if foreign:
        like = next(iter(real))
        words = f"{foreign.most_common(1)[0][0]!r} is not like {like[:80]!r}; {words}"
    passed = value <= subject.rules.max_error_distance
    return Finding("pass" if passed else "fail", words, value, len(told), bound)


def error_form(text: str) -> tuple[str, ...]:
    """Return the form of an error: JSON with its keys, or text with the word before its colon.

    >>> error_form('{"error": "no such loan"}'), error_form("Error: no such loan"), error_form("no such loan")
    (('json', 'error'), ('text', 'error:'), ('text', ''))
    """
    value = parsed(text)
    if isinstance(value, dict):
        return ("json", *sorted(value))
    match = re.match(r"\s*(\w+:)\s", text)
    return ("text", match.group(1).lower() if match else "")


def _word_distance(one: str, other: str) -> float:
    a, b = (set(re.findall(r"[a-z]+", text.lower())) for text in (one, other))
    return 1 - len(a & b) / len(a | b) if a | b else 0.0


CHECKS = (
    AuditCheck("trace.fidelity.result_shape", "fidelity", result_shape, ("semantic.oracle_max",)),
    AuditCheck("trace.fidelity.error_shape", "fidelity", error_shape, ("semantic.oracle_max",)),
)
