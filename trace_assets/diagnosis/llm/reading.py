"""A reply's JSON brought into the form of an answer: wrappers, names and spellings as people would read them.

Nothing is decided here for a model. A word that is none of the schema's, under any spelling of it, is left to
the schema to refuse, and an item that is refused takes no other item with it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from trace_assets.diagnosis.llm.json_reply import names_in, numbers_in, plain, values_in, word_of

_DEEP = 6
"""Wrappers around an answer that are looked into."""
MOST_ITEMS = 2000
SAME_WORDS: Mapping[str, tuple[str, ...]] = {
    "id": ("capability_id", "capability", "cap_id", "key", "number", "code", "c"),
    "rationale": ("reason", "reasoning", "explanation", "justification", "why", "comment", "analysis"),
    "evidence": (
        *("indices", "indexes", "index", "messages", "message_indices", "evidence_indices", "message"),
        *("evidence_messages", "message_ids", "turns", "cited"),
    ),
    "label": ("value", "verdict", "status", "judgement", "judgment", "decision", "assessment", "answer"),
    "name": ("title", "capability", "capability_name", "label"),
    "description": ("definition", "details", "desc", "explanation", "text"),
    "transcripts": ("failed_transcripts", "episodes", "transcript_ids", "failures", "evidence", "examples"),
    "members": ("proposals", "member_ids", "ids", "proposal_ids", "items", "groups", "children"),
    "new": ("n", "new_id", "new_capability"),
    "known": ("k", "known_id", "known_capability", "old"),
    "fault": ("blame", "verdict", "party", "label", "answer", "decision", "who"),
    "decisive": ("would_have_changed", "changed", "answer", "verdict", "label", "causal", "cause"),
}
"""Other names that models give to a field."""


def read_reply(text: str, schema: type[BaseModel]) -> tuple[list[BaseModel], list[str]]:
    """Return the answers that a reply holds, bad items left out, and what is wrong with those.

    Args:
        text: All that the model said.
        schema: Form of the answer. With one field that is a list of models its items are read one by one.

    Returns:
        Answers in the order in which they were given, several where a reply gives a draft before its answer,
        or parts one after the other; and complaints.
    """
    values = values_in(text)
    answers: list[BaseModel] = []
    complaints: list[str] = []
    loose: list[Any] = []
    for value in values:
        found = _unwrapped(value, schema)
        if found is None:
            loose.append(value)
            continue
        answer, wrong = _validated(found, schema)
        complaints += wrong
        if answer is not None:
            answers.append(answer)
    if not answers and loose and (name := list_field(schema)):
        items = [one for one in loose if isinstance(one, Mapping) and _looks_like(one, item_of(schema, name))]
        if items:  # one object a line
            answer, wrong = _validated({name: items}, schema)
            return ([answer] if answer is not None else []), [*complaints, *wrong]
    if not answers and not complaints:
        complaints = ["there is no JSON object of the form that was asked for in it"]
    return answers, complaints


def list_field(schema: type[BaseModel]) -> str:
    """Return the name of the first field that is a list of models; empty where there is none."""
    return next((name for name, field in schema.model_fields.items() if _item(field) is not None), "")


def item_of(schema: type[BaseModel], name: str) -> type[BaseModel]:
    """Return the model of a list's items."""
    found = _item(schema.model_fields[name])
    assert found is not None
    return found


def _item(field: FieldInfo) -> type[BaseModel] | None:
    if get_origin(field.annotation) is not list:
        return None
    (inner,) = get_args(field.annotation)
    return inner if isinstance(inner, type) and issubclass(inner, BaseModel) else None


def _named(row: Mapping[str, Any], model: type[BaseModel]) -> dict[str, Any]:
    """Return a row under the model's own names; what it does not know is left out."""
    given = {plain(name): value for name, value in row.items()}
    out: dict[str, Any] = {}
    for name in model.model_fields:
        if name in given:
            out[name] = given[name]
    for name in model.model_fields:
        if name not in out:
            for other in SAME_WORDS.get(name, ()):
                if other in given and other not in model.model_fields:
                    out[name] = given[other]
                    break
    return out


def _looks_like(row: Mapping[str, Any], model: type[BaseModel]) -> bool:
    """Whether an object is an item rather than a wrapper: it has the fields that cannot be empty."""
    found = _named(row, model)
    needed = [name for name, field in model.model_fields.items() if _empty(field) is None]
    if needed:
        return all(name in found and not isinstance(found[name], Mapping | list) for name in needed)
    firm = [name for name, field in model.model_fields.items() if field.annotation is str]
    return bool(found) and all(name in found for name in firm[:2])


def _empty(field: FieldInfo) -> Any:
    """Return what stands for a field that was left out because it is empty; None where none may be."""
    if get_origin(field.annotation) is list:
        return []
    return "" if field.annotation is str else None


def _unwrapped(value: Any, schema: type[BaseModel], depth: int = 0) -> dict[str, Any] | None:
    """Find the answer in a value: itself, in a wrapper, or in the arguments of a tool call."""
    if depth > _DEEP:
        return None
    name = list_field(schema)
    if isinstance(value, str):
        for inner in values_in(value) if "{" in value or "[" in value else ():
            found = _unwrapped(inner, schema, depth + 1)
            if found is not None:
                return found
        return None
    if isinstance(value, list):
        if name and value and any(isinstance(one, Mapping) for one in value):
            model = item_of(schema, name)
            wrappers = [one for one in value if isinstance(one, Mapping)]
            if any(_looks_like(one, model) for one in wrappers):
                return {name: value}
            merged: list[Any] = []  # a list of wrappers, or of {id: row}
            for wrapper in wrappers:
                found = _unwrapped(wrapper, schema, depth + 1)
                merged += found[name] if found else []
            return {name: merged} if merged else None
        if not name and len(value) == 1:
            return _unwrapped(value[0], schema, depth + 1)
        return None
    if not isinstance(value, Mapping):
        return None
    row = {plain(key): one for key, one in value.items()}
    if not name:
        if _looks_like(value, schema):
            return dict(value)
        return _first(value, schema, depth)
    if name in row:
        given = row[name]
        rest = {key: one for key, one in row.items() if key in schema.model_fields}
        if isinstance(given, str):
            parsed = values_in(given)
            given = parsed[0] if parsed else given
        if isinstance(given, Mapping):
            rows: list[Any] = list(_by_id(given, item_of(schema, name)))
            given = rows or [given]
        if given is None:
            given = []
        if isinstance(given, list):
            return {**rest, name: given}
        return None
    if _looks_like(value, item_of(schema, name)):
        return None  # one item: it may be one of several
    if named := _by_id(value, item_of(schema, name)):
        return {name: named}
    return _first(value, schema, depth)


def _first(value: Mapping[str, Any], schema: type[BaseModel], depth: int) -> dict[str, Any] | None:
    for inner in value.values():
        if isinstance(inner, Mapping | list | str):
            found = _unwrapped(inner, schema, depth + 1)
            if found is not None:
                return found
    return None


_ID = re.compile(r"\s*[\[(]?[A-Z]{1,3}[-_ ]?\d+\b", re.IGNORECASE)


def _by_id(value: Mapping[str, Any], model: type[BaseModel]) -> list[dict[str, Any]]:
    """Return the rows of an object whose keys are the ids, or the names, of its rows."""
    key = next(iter(model.model_fields))
    rows: list[dict[str, Any]] = []
    for name, inner in value.items():
        if isinstance(inner, str) and "label" in model.model_fields and _ID.match(str(name)):
            inner = {"label": inner}  # {"C1": "PRESENT"}
        if not isinstance(inner, Mapping):
            return []
        named = _named(inner, model)
        if key not in named:
            named = {key: name, **named}
        if not _looks_like(named, model):
            return []
        rows.append({**inner, **({} if key in _named(inner, model) else {key: name})})
    return rows


def _validated(value: Mapping[str, Any], schema: type[BaseModel]) -> tuple[BaseModel | None, list[str]]:
    complaints: list[str] = []
    row: dict[str, Any] = {}
    for name, field in schema.model_fields.items():
        model = _item(field)
        given = value.get(name)
        if model is None:
            continue
        rows = given if isinstance(given, list) else []
        good: list[BaseModel] = []
        for place, one in enumerate(rows[:MOST_ITEMS]):
            if isinstance(one, str) and values_in(one):
                one = values_in(one)[0]
            item, wrong = _one(one, model)
            complaints += [f"{name}.{place}.{words}" for words in wrong]
            good += [item] if item is not None else []
        row[name] = good
        if rows and not good and name == list_field(schema):
            return None, complaints
    scalars = {name for name, field in schema.model_fields.items() if _item(field) is None}
    if scalars:
        plain, wrong = _coerced(value, schema, scalars)
        row |= plain
        complaints += wrong
    try:
        return schema.model_validate(row), complaints
    except ValidationError as error:
        return None, [*complaints, *_told(error)]


def _one(value: Any, model: type[BaseModel]) -> tuple[BaseModel | None, list[str]]:
    if not isinstance(value, Mapping):
        return None, ["it: an object is expected"]
    row, _ = _coerced(value, model, set(model.model_fields))
    try:
        return model.model_validate(row), []
    except ValidationError as error:
        return None, _told(error)


def _told(error: ValidationError) -> list[str]:
    return [
        f"{'.'.join(str(part) for part in one['loc']) or 'the answer'}: {one['msg']}"
        for one in error.errors()
    ]


def _coerced(
    value: Mapping[str, Any], model: type[BaseModel], names: set[str]
) -> tuple[dict[str, Any], list[str]]:
    named = _named(value, model)
    row: dict[str, Any] = {}
    for name in model.model_fields:
        if name not in names:
            continue
        field = model.model_fields[name]
        given = named.get(name)
        if given is None:
            empty = _empty(field)
            if empty is not None:
                given = empty
            elif "NA" in get_args(field.annotation) and name in named:
                given = "NA"  # null, where "not applicable" is one of the words
            else:
                continue
        row[name] = _as_asked(given, field)
    return row, []


def _as_asked(value: Any, field: FieldInfo) -> Any:
    kind = field.annotation
    if get_origin(kind) is Literal:
        return word_of(value, [str(one) for one in get_args(kind)])
    if kind is str:
        if isinstance(value, list) and all(isinstance(one, str) for one in value):
            return " ".join(value)
        return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
    if get_origin(kind) is list and get_args(kind) == (int,):
        return numbers_in(value)
    if get_origin(kind) is list and get_args(kind) == (str,):
        return names_in(value)
    if kind is float and isinstance(value, int):
        return float(value)
    return value


def refusal_in(text: str) -> str:
    """Return a reply's words where it refuses instead of answering, shortened; empty where it does not.

    >>> refusal_in("I'm sorry, but I can't help with that.")
    "I'm sorry, but I can't help with that."
    >>> refusal_in("I cannot tell whether the agent asked: NA")
    ''
    """
    spoken = " ".join(text.split())
    return spoken[:200] if _REFUSAL.search(spoken[:600]) and len(spoken) < 3000 else ""


_REFUSAL = re.compile(
    r"\b(?:(?:can(?:no|['\u2019])t|cannot|can not|unable to|won['\u2019]t|will not|not able to)\s+"
    r"(?:help|assist|comply|do that|provide|fulfill?|continue|answer|label|analy[sz]e|process)"
    r"|i(?:['\u2019]m| am)\s+sorry,? (?:but|i)|against my (?:guidelines|polic)|i (?:must )?decline"
    r"|as an ai\b.{0,60}\b(?:can(?:no|['\u2019])t|cannot|unable))",
    re.IGNORECASE,
)


def dumped(answer: BaseModel) -> str:
    """Return an answer as the JSON that it stands for."""
    return json.dumps(answer.model_dump(mode="json"), ensure_ascii=False)
