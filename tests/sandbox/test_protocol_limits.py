"""Each limit of the strict reading at its very edge, by the fast reader and by the strict one."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from trace_assets.sandbox.errors import EnvironmentFault, ProtocolError
from trace_assets.sandbox.protocol import (
    INT_MAX,
    INT_MIN,
    MAX_DEPTH,
    MAX_LINE,
    MAX_NODES,
    MAX_SCHEMA_NODES,
    check_result,
    encode,
    parse,
)

Spelling = Callable[[object], bytes]


def compact(value: object) -> bytes:
    """As a worker writes it: the fast reader takes it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def spaced(value: object) -> bytes:
    """With blanks, which leaves it to the strict reader."""
    return json.dumps(value, ensure_ascii=False).encode() + b" "


both = pytest.mark.parametrize("spelt", [compact, spaced])


def nested(depth: int, wrap: Callable[[object, int], object]) -> object:
    value: object = 1
    for level in range(depth - 1):
        value = wrap(value, level)
    return value


WRAPS = {
    "lists": lambda value, _: [value],
    "objects": lambda value, _: {"a": value},
    "lists and objects": lambda value, level: [value] if level % 2 else {"a": value},
    "beside others": lambda value, _: [1, value, {}],
}


@both
@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
def test_depth(spelt: Spelling, wrap: Callable[[object, int], object]) -> None:
    deepest = nested(MAX_DEPTH, wrap)
    assert parse(spelt(deepest)) == deepest
    for depth in (MAX_DEPTH + 1, MAX_DEPTH + 2, 200):
        with pytest.raises(ProtocolError, match="deeper than 32"):
            parse(spelt(nested(depth, wrap)))


@both
@pytest.mark.parametrize(
    "made",
    [
        lambda n: [1] * (n - 1),
        lambda n: {f"k{i}": 1 for i in range(n - 1)},
        lambda n: [[1] * (n // 2 - 1), [1] * (n - n // 2 - 2)],  # no level alone has so many
        lambda n: {"a": {"b": [1] * (n - 3)}},
        lambda n: [[]] * (n - 1),
        lambda n: [{}] * (n - 1),
    ],
    ids=["one list", "one object", "two lists", "below", "lists", "objects"],
)
def test_nodes(spelt: Spelling, made: Callable[[int], object]) -> None:
    assert parse(spelt(made(MAX_NODES))) == made(MAX_NODES)
    with pytest.raises(ProtocolError, match="more than 20000 nodes"):
        parse(spelt(made(MAX_NODES + 1)))


@both
def test_nodes_of_all_levels_count_together(spelt: Spelling) -> None:
    levels: object = []
    for _ in range(8):
        levels = [levels, *[1] * (MAX_NODES // 8)]
    with pytest.raises(ProtocolError, match="nodes"):
        parse(spelt(levels))


@both
@pytest.mark.parametrize("number", [INT_MIN, INT_MIN + 1, INT_MAX, INT_MAX - 1, 10**18, -(10**18), 0])
def test_numbers_of_sixty_four_bits(spelt: Spelling, number: int) -> None:
    for value in (number, [number], {"a": number}):
        assert parse(spelt(value)) == value


@both
@pytest.mark.parametrize("number", [INT_MIN - 1, INT_MAX + 1, 2**64 - 1, 2**64, 10**19, 10**30])
def test_longer_numbers(spelt: Spelling, number: int) -> None:
    for value in (number, [0, number], {"a": {"b": number}}):
        with pytest.raises(ProtocolError, match="64 bits"):
            parse(spelt(value))


@both
def test_digits_in_a_text_are_no_number(spelt: Spelling) -> None:
    assert parse(spelt({"a": "9" * 40})) == {"a": "9" * 40}


@both
def test_length(spelt: Spelling) -> None:
    room = MAX_LINE - 1 - len(spelt(""))  # a line's newline counts, and is cut off before it is parsed
    assert len(parse(spelt("a" * room))) == room
    with pytest.raises(ProtocolError, match=f"a line of {MAX_LINE} bytes, past the limit of {MAX_LINE}"):
        parse(spelt("a" * (room + 1)))


def test_the_longest_request() -> None:
    room = MAX_LINE - len(encode({"id": 1, "text": ""}))
    assert len(encode({"id": 1, "text": "a" * room})) == MAX_LINE
    with pytest.raises(ValueError, match=f"it takes {MAX_LINE + 1} bytes, past the limit of {MAX_LINE}"):
        encode({"id": 1, "text": "a" * (room + 1)})


def test_values_of_all_parameters_of_all_tools_count_together() -> None:
    def declared(name: str, values: int) -> dict[str, object]:
        """Parameters of so many values: two tables and a word are three of them."""
        properties: dict[str, object] = {f"p{n}": {} for n in range(values - 4)}
        properties["p0"] = {"items": {}}
        parameters = {"type": "object", "properties": properties}
        return {
            "type": "function",
            "function": {"name": name, "description": "", "parameters": parameters},
        }

    half = MAX_SCHEMA_NODES // 2
    check_result("tools", [declared("one", half), declared("two", MAX_SCHEMA_NODES - half)])
    with pytest.raises(EnvironmentFault, match=f"of {MAX_SCHEMA_NODES + 1} values"):
        check_result("tools", [declared("one", half), declared("two", MAX_SCHEMA_NODES - half + 1)])
