"""The host against whatever a sandbox may send: it takes a value that JSON can hold, or names the fault."""

from __future__ import annotations

import json
import math
import socket
import threading
import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.quick import examples
from trace_assets.errors import InputError
from trace_assets.sandbox import EnvironmentFault, ProtocolError, SandboxError, Timeout, TooLarge
from trace_assets.sandbox import protocol as wire
from trace_assets.sandbox.channel import Channel, Closed, SocketChannel
from trace_assets.sandbox.docker import AttachChannel
from trace_assets.sandbox.protocol import (
    MAX_DEPTH,
    MAX_LINE,
    MAX_NODES,
    check_action,
    check_result,
    encode,
    open_reply,
    parse,
)

QUICK = settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
PIECES = [
    *(b"NaN", b"Infinity", b"-Infinity", b"1e999", b"-1e999", b"1E400", b"9" * 19, b"9" * 400, b"-0", b"00"),
    *(
        b"1.",
        b".5",
        b"+1",
        b"0x1",
        b'"\\ud800"',
        b'"\\udc00\\ud800"',
        b'"\xed\xa0\x80"',
        b"\xff",
        b"\xc0\x80",
    ),
    *(b"[" * 40, b"]" * 40, b'{"a":' * 40, b'"a":1,"a":2', b'"\\u0061":1,"a":2', b",", b":", b"\x00", b"\t"),
    *(b'"', b"\\", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"null", b"tru", b"'a'", b"//", b"1e5", b"1e-5", b" "),
]
"""What JSON leaves open, forbids or costs, to be put into a reply anywhere."""
REPLIES = st.one_of(
    st.builds(lambda value: {"id": 1, "ok": value}, VALUES),
    st.builds(lambda text: {"id": 1, "err": "environment", "msg": text}, TEXT),
    st.builds(
        lambda text, done: {
            "id": 1,
            "ok": {"messages": [{"role": "tool", "content": text}], "done": done, "truncated": False},
        },
        TEXT,
        st.booleans(),
    ),
    st.builds(
        lambda reward: {"id": 1, "ok": {"reward": reward, "success": True, "checks": []}},
        st.floats(0, 1) | st.integers(-1, 2) | st.booleans(),
    ),
)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A valid reply in some spelling, with a few bytes changed, cut, doubled, or traps put in."""
    spelling = draw(st.sampled_from([{}, {"ensure_ascii": False}, {"separators": (",", ":")}, {"indent": 1}]))
    line = json.dumps(draw(REPLIES), **spelling).replace("\n", " ").encode()  # type: ignore[arg-type]
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(line)))
        end = draw(st.integers(start, min(len(line), start + 8)))
        how = draw(st.sampled_from(["trap", "cut", "byte", "twice", "swap"]))
        if how == "trap":
            line = line[:start] + draw(st.sampled_from(PIECES)) + line[end:]
        elif how == "cut":
            line = line[:start] + line[end:]
        elif how == "byte":
            line = line[:start] + bytes([draw(st.integers(0, 255))]) + line[start + 1 :]
        elif how == "twice":
            line = line[:end] + line[start:end] + line[end:]
        else:
            line = line[end:] + line[start:end] + line[:start]
    return line


def sound(value: Any) -> None:
    """Assert every promise of `parse` on a value that it has let through."""
    nodes, level, depth = 0, [value], 0
    while level:
        depth, nodes, below = depth + 1, nodes + len(level), []
        for one in level:
            assert type(one) in (dict, list, str, int, float, bool, type(None))
            if isinstance(one, dict):
                assert all(type(key) is str for key in one)
                below += [*one.values()]
            elif isinstance(one, list):
                below += one
            elif isinstance(one, float):
                assert math.isfinite(one)
            elif type(one) is int:
                assert -(2**63) <= one < 2**63
        level = below
    assert depth <= MAX_DEPTH and nodes <= MAX_NODES
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8", "strict")


def agree(line: bytes) -> None:
    """The fast reader never says anything else than the strict one."""
    try:
        strict = wire._strict(line)
    except ProtocolError:
        strict = ProtocolError
    try:
        value = parse(line)
    except ProtocolError:
        assert strict is ProtocolError
        return
    sound(value)
    assert strict is not ProtocolError and repr(value) == repr(strict)


@QUICK
@given(mutated())
def test_a_mutated_reply_is_read_as_the_strict_reader_does_or_refused(line: bytes) -> None:
    agree(line)
    try:
        kind, value = open_reply(line, 1)
    except ProtocolError as error:
        assert str(error).isprintable()
        return
    assert type(kind) is str
    for op in ("tools", "reset", "step", "verdict", "oracle"):
        try:
            check_result(op, value)
        except EnvironmentFault as fault:
            assert str(fault).isprintable()
            continue
        if op == "verdict":
            assert type(value["reward"]) in (int, float) and 0 <= value["reward"] <= 1


@QUICK
@given(st.binary(max_size=300))
def test_random_bytes_are_read_as_the_strict_reader_does_or_refused(line: bytes) -> None:
    agree(line)


@QUICK
@given(st.lists(st.sampled_from([*PIECES, b"{", b"}", b"[", b"]", b"1", b'"id":1', b'"ok"']), max_size=30))
def test_tokens_in_any_order_are_read_as_the_strict_reader_does_or_refused(tokens: list[bytes]) -> None:
    agree(b"".join(tokens))


@QUICK
@given(VALUES)
def test_a_request_is_what_the_strict_writer_makes_of_it(value: Any) -> None:
    request = {"id": 1, "op": "step", "message": value}
    assert json.loads(encode(request)) == json.loads(wire._encode(request))
    assert parse(encode(request)[:-1]) == request


@pytest.mark.parametrize("value", [math.nan, [math.inf], {"a": {1, 2}}, b"bytes", object(), "\ud800"])
def test_a_request_that_json_cannot_hold_is_refused_by_either_writer(value: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        encode({"id": 1, "message": value})


def test_a_tuple_is_sent_as_the_list_it_becomes() -> None:
    assert encode({"a": (1, 2)}) == b'{"a":[1,2]}\n'


def framed(data: bytes, draw: st.DrawFn) -> bytes:
    """The same bytes as Docker's attach stream brings them: in frames of any size, stderr in between."""
    frames = b""
    while data:
        size = draw(st.integers(1, max(1, len(data))))
        frames += bytes([1, 0, 0, 0]) + size.to_bytes(4, "big") + data[:size]
        data = data[size:]
        if draw(st.booleans()):
            noise = b"stderr\n"
            frames += bytes([2, 0, 0, 0]) + len(noise).to_bytes(4, "big") + noise
    return frames


@QUICK
@given(st.data())
def test_lines_in_any_pieces_come_out_whole_or_as_a_fault(data: st.DataObject) -> None:
    """Bytes arrive in any pieces over either transport: one line, or the fault that names what is wrong."""
    sent = data.draw(mutated()) + data.draw(
        st.sampled_from([b"\n", b"\n\n", b"", b"\n{}", b"\n" + b"x" * 70_000])
    )
    attach = data.draw(st.booleans())
    ours, theirs = socket.socketpair()
    channel: Channel = AttachChannel(ours, ours) if attach else SocketChannel(ours)
    stream = framed(sent, data.draw) if attach else sent
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=4)))
    with theirs:
        for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
            theirs.sendall(stream[start:end])
        theirs.shutdown(socket.SHUT_WR)
        try:
            line = channel.receive(time.monotonic() + 600)
        except ProtocolError:
            assert sent.count(b"\n") > 1 or not sent.endswith(b"\n")
        except Closed:
            assert b"\n" not in sent
        else:
            assert sent.startswith(line + b"\n") and b"\n" not in line
            with pytest.raises((ProtocolError, Closed)):
                channel.quiet()
        finally:
            channel.close()


@pytest.mark.parametrize("attach", [False, True])
def test_a_line_without_end_is_given_up_soon(attach: bool) -> None:
    ours, theirs = socket.socketpair()
    channel: Channel = AttachChannel(ours, ours) if attach else SocketChannel(ours)
    piece = b"x" * 65536
    frame = (bytes([1, 0, 0, 0]) + len(piece).to_bytes(4, "big") if attach else b"") + piece
    sent = 0

    def flood() -> None:
        nonlocal sent
        try:
            while sent < 64 * MAX_LINE:
                sent += theirs.send(frame)
        except OSError:
            pass

    sender = threading.Thread(target=flood)
    sender.start()
    with pytest.raises(TooLarge):
        channel.receive(time.monotonic() + 600)
    channel.close()
    theirs.close()
    sender.join()
    assert sent < 4 * MAX_LINE


@pytest.mark.parametrize("attach", [False, True])
def test_a_drip_of_bytes_does_not_move_the_deadline(attach: bool) -> None:
    ours, theirs = socket.socketpair()
    channel: Channel = AttachChannel(ours, ours) if attach else SocketChannel(ours)
    stop, dripping = threading.Event(), threading.Event()

    def drip() -> None:
        dripping.set()
        for _ in range(3000):  # a minute, on an idle machine
            if stop.wait(0.02):
                return
            theirs.sendall(bytes([1, 0, 0, 0, 0, 0, 0, 1]) + b"x" if attach else b"x")
        dripping.clear()

    sender = threading.Thread(target=drip)
    sender.start()
    dripping.wait()
    with pytest.raises(Timeout):
        channel.receive(time.monotonic() + 0.3)
    assert dripping.is_set(), "it was waited for until nothing came any more"
    stop.set()
    sender.join()
    channel.close()
    theirs.close()


@QUICK
@given(VALUES)
def test_an_action_of_any_shape_is_taken_or_refused_as_the_callers_fault(value: Any) -> None:
    try:
        check_action(value)
    except InputError:
        return
    assert value["role"] == "assistant"


def test_no_fault_is_a_number() -> None:
    """No result type of a failed call can be taken for a reward."""
    for fault in SandboxError.__subclasses__():
        assert not issubclass(fault, (int, float))
