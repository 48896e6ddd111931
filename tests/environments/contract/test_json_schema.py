"""Schemas inferred from examples: every example fits, and neither order nor grouping shows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tests.quick import examples
from trace_assets.environments.contract import json_schema
from trace_assets.environments.contract.json_schema import Shape, infer_schema

KEYS = st.sampled_from(["id", "name", "a1", "card_11", "card_27", "card_35", "when"]) | st.text(max_size=4)
WORDS = st.sampled_from(["open", "2024-05-01", "2024-05-01T10:00:00", "ann@x.org", "W-12", "x" * 300, ""])
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | WORDS
    | st.text(max_size=12).filter(lambda text: text.isprintable())
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=12,
)
PARTS = st.lists(st.lists(VALUES, max_size=4), min_size=3, max_size=3)
CALM = settings(
    max_examples=examples(150),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture(params=["usual", "tight"])
def bounds(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The module's bounds, and ones so tight that every sketch and map overflows."""
    if request.param == "tight":
        tight = {
            "MAX_ENUM": 2,
            "MAX_LENGTH": 6,
            "MAX_PATTERNS": 1,
            "MAX_KEYS": 2,
            "FEW_KEYS": 1,
            "MAX_DEPTH": 2,
        }
        for name, value in tight.items():
            monkeypatch.setattr(json_schema, name, value)


@CALM
@given(values=st.lists(VALUES, min_size=1, max_size=8))
def test_every_value_seen_validates(bounds: None, values: list[Any]) -> None:
    schema = infer_schema(values)
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    for value in values:
        assert validator.is_valid(value), (value, schema)


@CALM
@given(parts=PARTS)
def test_merging_is_associative_and_order_does_not_show(bounds: None, parts: list[list[Any]]) -> None:
    a, b, c = (Shape.of(part) for part in parts)
    whole = Shape.of([value for part in parts for value in part])
    backwards = Shape.of([value for part in reversed(parts) for value in reversed(part)])
    assert a.merge(b).merge(c) == a.merge(b.merge(c)) == c.merge(a).merge(b) == whole == backwards
    texts = {
        json.dumps(shape.schema(), sort_keys=True)
        for shape in (whole, backwards, a.merge(b).merge(c), c.merge(b).merge(a))
    }
    assert len(texts) == 1


@CALM
@given(parts=PARTS)
def test_merging_leaves_its_parts_as_they_were(parts: list[list[Any]]) -> None:
    a, b = Shape.of(parts[0]), Shape.of(parts[1])
    a.merge(b)
    assert (a, b) == (Shape.of(parts[0]), Shape.of(parts[1]))


def test_a_record_of_real_life() -> None:
    orders = [
        {
            "id": f"#W{number:07d}",
            "status": "pending" if number % 3 else "delivered",
            "due": "2024-05-01" if number % 2 else None,
            "total": number + 0.5,
            "cards": {f"card_{number}{digit}": {"last": "12", "brand": "visa"} for digit in range(2)},
            "items": [{"sku": "a"}] * (number % 3),
            **({"note": "late"} if number == 7 else {}),
        }
        for number in range(100)
    ]
    schema = infer_schema(orders)
    fields = schema["properties"]
    assert list(fields) == ["id", "status", "due", "total", "cards", "items", "note"]
    assert "note" not in schema["required"]
    assert fields["id"]["pattern"] == r"^(?:\#[A-Z]+\d+)$"
    assert len(fields["id"]["examples"]) == json_schema.MAX_ENUM
    assert fields["status"]["enum"] == ["delivered", "pending"]
    assert fields["due"] == {"type": ["null", "string"], "enum": ["2024-05-01", None], "format": "date"}
    assert fields["total"] == {"type": "number", "minimum": 0.5, "maximum": 99.5}
    assert fields["cards"]["additionalProperties"]["required"] == ["last", "brand"]
    assert "properties" not in fields["cards"]
    assert (fields["items"]["minItems"], fields["items"]["maxItems"]) == (0, 2)


def test_size_is_bounded() -> None:
    shape = Shape()
    for number in range(3000):
        shape.add({f"key{number}": {"text": f"{number}" * 3, "long": "x" * (number + 190)}})
    assert len(json.dumps(shape.schema())) < 10_000
    assert not shape.properties


def test_whole_numbers_are_written_alike_whichever_came_first() -> None:
    assert json.dumps(infer_schema([1, 1.0, 2.5])) == json.dumps(infer_schema([1.0, 2.5, 1]))
    assert infer_schema([float("nan"), float("inf")]) == {"type": "number"}


def test_deep_values_end_somewhere() -> None:
    value: Any = 1
    for _ in range(200):
        value = [value]
    schema = infer_schema([value])
    assert Draft202012Validator(schema).is_valid(value)
