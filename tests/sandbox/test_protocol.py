from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_assets.errors import InputError
from trace_assets.sandbox.errors import EnvironmentFault, ProtocolError
from trace_assets.sandbox.protocol import MAX_LINE, check_action, check_result, encode, open_reply, parse

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
)
VALUES = st.recursive(
    SCALARS | TEXT, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXT, inner)
)


@given(VALUES)
def test_every_json_value_survives_the_trip(value: object) -> None:
    line = encode({"id": 1, "ok": value})
    assert line.count(b"\n") == 1 and line.endswith(b"\n")
    assert parse(line[:-1]) == {"id": 1, "ok": value}


@given(VALUES)
def test_escaped_text_reads_the_same(value: object) -> None:
    assert parse(json.dumps(value).encode()) == value


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(line: bytes) -> None:
    try:
        value = parse(line)
    except ProtocolError:
        return
    json.dumps(value, allow_nan=False, ensure_ascii=False).encode("utf-8", "strict")


@given(VALUES, st.data())
def test_a_damaged_line_is_read_as_clean_json_or_refused(value: object, data: st.DataObject) -> None:
    line = bytearray(json.dumps({"id": 1, "ok": value}).encode())
    place = data.draw(st.integers(0, len(line) - 1))
    line[place] = data.draw(st.integers(0, 255))
    try:
        kind, payload = open_reply(bytes(line), 1)
    except ProtocolError:
        return
    assert kind == "ok"
    json.dumps(payload, allow_nan=False, ensure_ascii=False).encode("utf-8", "strict")


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"NaN", "NaN"),
        (b"[-Infinity]", "Infinity"),
        (b"[1e999]", "not finite"),
        (b"[-1e999]", "not finite"),
        (b'{"a":1,"a":2}', "repeated key"),
        (b'{"x":{"a":1,"\\u0061":2}}', "repeated key"),
        (b"[" * 40 + b"]" * 40, "nested deeper"),
        (b"[" * 200_000, "nested deeper"),
        (b"[" + b"1," * 20_000 + b"1]", "nodes"),
        (str(2**63).encode(), "64 bits"),
        (str(-(2**63) - 1).encode(), "64 bits"),
        (b"9" * 5000, "not JSON"),
        (b'"\\ud800"', "surrogate"),
        (b'{"\\udfff":1}', "surrogate"),
        (b'"\xed\xa0\x80"', "UTF-8"),
        (b'"\xff"', "UTF-8"),
        (b'\xef\xbb\xbf{"id":1,"ok":1}', "not JSON"),
        (b"", "not JSON"),
        (b"1 2", "not JSON"),
        (b'"' + b"a" * MAX_LINE + b'"', "past the limit"),
    ],
)
def test_what_json_leaves_open_is_refused(line: bytes, complaint: str) -> None:
    with pytest.raises(ProtocolError, match=complaint):
        parse(line)


def test_the_limits_themselves_are_allowed() -> None:
    assert parse(b"[" * 32 + b"]" * 32)
    assert parse(str(2**63 - 1).encode()) == 2**63 - 1
    assert len(parse(b"[" + b"1," * 19_998 + b"1]")) == 19_999
    assert parse(b'"\\ud83d\\ude00"') == "\U0001f600"


@pytest.mark.parametrize(
    "line",
    [
        b'{"id":2,"ok":1}',
        b'{"id":true,"ok":1}',
        b'{"id":1.0,"ok":1}',
        b'{"id":"1","ok":1}',
        b'{"ok":1}',
        b'{"id":1}',
        b'{"id":1,"ok":1,"err":"x"}',
        b'{"id":1,"ok":1,"more":1}',
        b'{"id":1,"err":"environment"}',
        b'{"id":1,"err":1,"msg":"x"}',
        b'{"id":1,"err":"x","msg":null}',
        b"[1]",
        b"null",
    ],
)
def test_only_the_reply_to_the_request_is_taken(line: bytes) -> None:
    with pytest.raises(ProtocolError):
        open_reply(line, 1)


def test_a_reply_is_a_result_or_a_failure_with_its_message() -> None:
    assert open_reply(b'{"id":1,"ok":[2]}', 1) == ("ok", [2])
    assert open_reply(b'{"id":1,"err":"environment","msg":"no"}', 1) == ("environment", "no")


def test_a_request_that_the_quick_way_cannot_write_is_as_short() -> None:
    assert encode({"id": 1, "n": [2**70]}) == b'{"id":1,"n":[1180591620717411303424]}\n'


@pytest.mark.parametrize("value", [math.nan, math.inf, "\ud800", {1, 2}, "a" * MAX_LINE])
def test_a_request_that_cannot_be_sent_is_a_value_error(value: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        encode({"id": 1, "message": value})


def declared(*names: str, **parameters: Any) -> list[dict[str, Any]]:
    return [{"type": "function", "function": {"name": name, "parameters": parameters}} for name in names]


def verdict(reward: float, success: bool) -> dict[str, Any]:
    return {"reward": reward, "success": success, "checks": []}


@pytest.mark.parametrize(
    ("op", "value", "complaint"),
    [
        ("reset", 1, r"reset\(\) returned the wrong shape: Input should be a valid list"),
        ("reset", [], "at least 1 item"),
        ("reset", [{"role": "nobody"}], "wrong shape: 0.role: "),
        ("oracle", [{"role": "user", "content": "x"}], "0.role"),
        ("step", {"messages": [], "done": 1, "truncated": False}, "done"),
        ("verdict", {**verdict(1.0, True), "more": 1}, "more"),
        ("verdict", verdict(1.5, True), "reward"),
        ("verdict", verdict(0.49, True), "a success earns 0.49, less than 0.5"),
        ("verdict", verdict(1.0, False), "the whole reward was paid for no success"),
        ("tools", declared("get", "get"), "bad or repeated name: 'get'"),
        ("tools", declared("1st"), "bad or repeated name"),
        ("tools", declared("get\n"), "bad or repeated name"),
        ("tools", declared("a" * 65), "bad or repeated name"),
        ("tools", declared("get", type="thing"), "tool get are no JSON schema"),
    ],
)
def test_what_an_environment_may_not_return_is_its_fault(op: str, value: Any, complaint: str) -> None:
    with pytest.raises(EnvironmentFault, match=complaint):
        check_result(op, value)


@pytest.mark.parametrize(
    ("op", "value"),
    [
        ("reset", [{"role": "user", "content": "x"}]),
        ("oracle", []),
        ("step", {"messages": [], "done": True, "truncated": False}),
        ("verdict", verdict(0.5, True)),
        ("verdict", verdict(0.99, False)),
        ("verdict", verdict(0.0, False)),
        ("tools", declared("get", "a" * 64, "_a.b-c", type="object")),
        ("tools", []),
    ],
)
def test_what_an_environment_may_return(op: str, value: Any) -> None:
    check_result(op, value)


def test_only_an_assistant_message_is_played() -> None:
    check_action({"role": "assistant", "content": "x"})
    with pytest.raises(InputError, match="can be given: role: "):
        check_action({"role": "user", "content": "x"})
