"""The host's half of a sandbox against a zygote that is played here: what it asks, believes, and lets go."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from trace_assets.sandbox import (
    Died,
    EnvironmentFault,
    ProtocolError,
    SandboxConfig,
    SandboxError,
    SandboxUnavailable,
    config,
)
from trace_assets.sandbox.channel import Closed, SocketChannel
from trace_assets.sandbox.config import CLOCK
from trace_assets.sandbox.errors import Timeout
from trace_assets.sandbox.protocol import PROTOCOL_VERSION
from trace_assets.sandbox.sandbox import Sandbox, died, interpret

HELLO = {
    "hello": "trace-sandbox",
    "protocol": PROTOCOL_VERSION,
    "worker": config.worker_hash(),
    "python": "3.11.9",
}
HELD = {"sealed": True, "clock": "fixed"}
Answer = Callable[[dict[str, Any]], Any]


class Container:
    """Remembers that it was asked how it ended."""

    name = "played"

    def __init__(self, ended: str | None = None) -> None:
        self.ended, self.asked = ended, 0

    def kill(self) -> None:
        pass

    def post_mortem(self) -> str | None:
        self.asked += 1
        return self.ended


class Played:
    """A channel to a zygote: a function that answers each request, or raises what the channel would."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.sent: list[dict[str, Any]] = []
        self.deadlines: list[float] = []
        self.waiting: list[bytes] = []
        self.asked_quiet = self.hung_up = self.closed = 0
        self.leaves: list[socket.socket] = []

    def send(self, data: bytes, deadline: float, fd: int | None = None) -> None:
        request = json.loads(data)
        self.sent.append(request)
        self.deadlines.append(deadline - time.monotonic())
        if fd is not None:
            self.leaves.append(socket.socket(fileno=os.dup(fd)))
            return
        reply = self.answer(request)
        if isinstance(reply, BaseException):
            raise reply
        self.waiting.append(json.dumps({"id": request["id"], **reply}).encode())

    def receive(self, deadline: float) -> bytes:
        if not self.waiting:
            raise Closed
        return self.waiting.pop(0)

    def quiet(self) -> None:
        self.asked_quiet += 1
        if self.waiting:
            raise ProtocolError("the sandbox sent bytes that nobody asked for")

    def hang_up(self) -> None:
        self.hung_up += 1

    def close(self) -> None:
        self.closed += 1


CONFIG = SandboxConfig(deadline_seconds=40.0, load_deadline_seconds=80.0, start_deadline_seconds=20.0)


def sandbox(answer: Answer, *, direct: bool = False, ended: str | None = None) -> Sandbox:
    deaths: list[Sandbox] = []
    made = Sandbox(Container(ended), Played(answer), direct, CONFIG, deaths.append)
    made.deaths = deaths  # type: ignore[attr-defined]
    return made


def ok(value: Any = None) -> Answer:
    return lambda _: {"ok": value}


def raises(error: BaseException) -> Answer:
    return lambda _: error


# --- the hello


def greeted(hello: Any) -> Sandbox:
    box = sandbox(ok())
    if hello is not None:
        box.channel.waiting.append(json.dumps(hello).encode())  # type: ignore[attr-defined]
    box.greet()
    return box


def test_the_hello_of_this_packages_worker_is_taken() -> None:
    box = greeted(HELLO)
    assert box.python == "3.11.9" and not box.dead


@pytest.mark.parametrize(
    "hello",
    [
        HELLO | {"protocol": PROTOCOL_VERSION + 1},
        HELLO | {"protocol": None},
        HELLO | {"worker": "0" * 64},
        HELLO | {"hello": "another"},
        HELLO | {"python": "3.11\x1b[2J"},
        HELLO | {"python": 3},
        HELLO | {"more": 1},
        {name: value for name, value in HELLO.items() if name != "worker"},
        [HELLO],
        "hello",
    ],
)
def test_any_other_hello_is_another_version(hello: Any) -> None:
    with pytest.raises(SandboxUnavailable, match=r"another version of the worker.*remove the image"):
        greeted(hello)


@pytest.mark.parametrize("first", [None, b"", b"NaN", b"\xff"])
def test_no_hello_is_no_sandbox(first: bytes | None) -> None:
    box = sandbox(ok())
    if first is not None:
        box.channel.waiting.append(first)  # type: ignore[attr-defined]
    with pytest.raises(SandboxUnavailable, match="the sandbox played started but said no hello"):
        box.greet()
    assert box.dead and box.deaths == [box]  # type: ignore[attr-defined]


def test_a_stream_that_was_closed_is_said() -> None:
    with pytest.raises(
        SandboxUnavailable, match=r"said no hello \(it closed the stream\): run `trace doctor`"
    ):
        greeted(None)


# --- what a reply may say


def test_what_a_reply_says_is_told_apart() -> None:
    assert interpret("ok", [1]) == [1]
    with pytest.raises(EnvironmentFault, match="the environment failed KeyError: 'a'"):
        interpret("environment", "KeyError: 'a'")


def test_the_supervisor_alone_tells_of_processes() -> None:
    box = sandbox(lambda _: {"err": "fork", "msg": "EAGAIN"})
    with pytest.raises(Died, match="could not start another episode: EAGAIN") as caught:
        box.ping()
    assert caught.value.reason == "fork"
    box = sandbox(lambda _: {"err": "died", "msg": '{"signal": 11}'})
    with pytest.raises(Died) as caught:
        box.ping()
    assert caught.value.reason == "signal 11"


@pytest.mark.parametrize("message", ["x", "[" * 300_000, "9" * 5000, '{"signal": NaN}', '{"a":1,"a":2}'])
def test_a_death_that_is_told_wrongly_is_a_broken_rule(message: str) -> None:
    box = sandbox(lambda _: {"err": "died", "msg": message})
    with pytest.raises(SandboxError):
        box.ping()
    assert box.dead


@pytest.mark.parametrize("kind", ["", "OK", "okay", "internal", "Environment", "done", "died", "fork"])
def test_a_failure_of_no_known_kind_is_no_result(kind: str) -> None:
    with pytest.raises(ProtocolError, match="refused a request") as caught:
        interpret(kind, "x" * 10_000)
    assert len(str(caught.value)) <= 500


def test_how_it_ended_is_worded() -> None:
    assert "ran out of memory" in str(died("oom")) and died("oom").reason == "oom"
    assert "process ended in the middle" in str(died("unknown"))
    assert "ended with signal 11" in str(died("signal 11"))
    assert "fewer episodes at once" in str(died("fork")) and died("fork").reason == "fork"


# --- requests to the zygote


def test_the_environment_is_sent_with_its_limits() -> None:
    box = sandbox(lambda request: {"ok": HELD if request["op"] == "load" else None})
    box.load("source = 1", ("hash", "version"))
    (sent,) = box.channel.sent  # type: ignore[attr-defined]
    assert (sent["op"], sent["source"], sent["leaf_bytes"]) == ("load", "source = 1", 256 << 20)
    assert (sent["clock"], sent["process"], sent["sealed"]) == (CLOCK, 2, True)
    assert box.key == ("hash", "version")
    assert 79 < box.channel.deadlines[0] <= 80  # type: ignore[attr-defined]
    box.ping()
    assert box.channel.sent[1]["op"] == "ping"  # type: ignore[attr-defined]
    assert 39 < box.channel.deadlines[1] <= 40  # type: ignore[attr-defined]
    assert len({one["id"] for one in box.channel.sent}) == 2  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("held", "says"),
    [
        ({"sealed": False, "clock": "real"}, "filter the system calls"),
        ({"sealed": True, "clock": "real"}, "stop the clock"),
    ],
)
def test_a_machine_that_holds_no_episode_is_no_sandbox(held: dict[str, Any], says: str) -> None:
    box = sandbox(ok(held))
    with pytest.raises(SandboxUnavailable, match=says):
        box.load("", ("hash", "version"))
    assert box.dead and box.key is None


@pytest.mark.parametrize(
    "held",
    [
        None,
        True,
        {},
        {"sealed": 1, "clock": "fixed"},
        {"sealed": True, "clock": "slow"},
        {"sealed": True, "clock": ["fixed"]},
        HELD | {"more": 1},
    ],
)
def test_what_is_not_said_of_how_episodes_are_held(held: Any) -> None:
    box = sandbox(ok(held))
    with pytest.raises(ProtocolError, match="did not say how"):
        box.load("", ("hash", "version"))
    assert box.dead


def test_a_process_that_outlives_its_episode_costs_the_sandbox() -> None:
    def answer(request: dict[str, Any]) -> Any:
        return {"ok": [leaf.session] if request["op"] == "alive" else None}

    box = sandbox(answer)
    leaf = box.leaf()
    leaf.ask("reset", seed=1)
    leaf.close()
    box._parting[leaf.session] = time.monotonic() + 60
    box._look_for_survivors()
    assert not box.dead, "it may take its time"
    box._parting[leaf.session] = time.monotonic() - 1
    box._look_for_survivors()
    assert box.dead


@pytest.mark.parametrize("begun", [False, True])
def test_an_episode_that_is_over_is_looked_back_at(begun: bool) -> None:
    box = sandbox(ok())
    leaf = box.leaf()
    if begun:
        leaf.ask("reset", seed=1)
    before = time.monotonic()
    leaf.close()
    assert set(box._parting) == ({leaf.session} if begun else set())
    assert all(before + 1 < until < time.monotonic() + 60 for until in box._parting.values())
    assert (box._look_back is not None) is begun
    box.fail()


def test_one_that_is_given_up_in_the_middle_has_until_its_deadline() -> None:
    box = sandbox(ok(), direct=True)
    leaf = box.leaf()
    leaf.begin("reset", seed=1)
    leaf.close()
    assert box._parting[leaf.session] > time.monotonic() + CONFIG.deadline_seconds / 2
    box.fail()
    for one in box.channel.leaves:  # type: ignore[attr-defined]
        one.close()


@pytest.mark.parametrize(("alive", "lives"), [([], True), ([999], True), (None, False), (["1"], False)])
def test_who_lives_is_told_strictly(alive: Any, lives: bool) -> None:
    box = sandbox(ok(alive))
    box._parting[7] = time.monotonic() - 1
    box._look_for_survivors()
    assert box.dead is not lives and not box._parting


def test_a_sandbox_that_is_given_up_leaves_no_timer_behind() -> None:
    box = sandbox(ok([7]))
    box.part(7, 600.0)
    timer = box._look_back
    assert timer is not None and timer.is_alive()
    box.fail()
    timer.join(300.0)
    assert not timer.is_alive(), "it would wait for ten minutes"


def test_an_environment_that_does_not_compile_leaves_the_sandbox_blank() -> None:
    box = sandbox(lambda _: {"err": "environment", "msg": "SyntaxError: x"})
    with pytest.raises(EnvironmentFault, match="SyntaxError"):
        box.load("x x", ("hash", "version"))
    assert box.key is None and not box.dead


@pytest.mark.parametrize(
    "answer",
    [
        lambda _: {"err": "internal", "msg": "x"},
        raises(Timeout("late")),
        raises(Closed()),
        lambda _: {"id": 0, "ok": 1},
    ],
    ids=["refused", "late", "closed", "another request's"],
)
def test_whatever_else_goes_wrong_ends_the_sandbox_once(answer: Answer) -> None:
    box = sandbox(answer)
    with pytest.raises((ProtocolError, Timeout, Died)):
        box.ping()
    assert box.dead and box.deaths == [box]  # type: ignore[attr-defined]
    assert box.channel.hung_up == 1 and box.channel.closed == 1  # type: ignore[attr-defined]
    box.fail()
    assert len(box.deaths) == 1  # type: ignore[attr-defined]
    with pytest.raises(Died, match="killed for a fault of another episode") as caught:
        box.ping()
    assert caught.value.reason == "killed"
    with pytest.raises(Died):
        box.leaf()


def test_bytes_that_nobody_asked_for_end_it_before_the_next_request() -> None:
    box = sandbox(ok())
    box.channel.waiting.append(b'{"id":1,"ok":1}')  # type: ignore[attr-defined]
    with pytest.raises(ProtocolError, match="nobody asked for"):
        box.ping()
    assert box.channel.sent == [] and box.dead  # type: ignore[attr-defined]


# --- an episode without a stream of its own


def test_an_episode_over_the_zygotes_stream() -> None:
    box = sandbox(lambda request: {"ok": [request["op"], request.get("seed")]})
    leaf = box.leaf()
    other = box.leaf()
    assert box.episodes == 2 and box.leaves == {leaf, other} and leaf.session != other.session
    assert leaf.ask("reset", seed=7) == ["reset", 7]
    leaf.begin("step", message={})
    assert [one["op"] for one in box.channel.sent] == ["reset"]  # type: ignore[attr-defined]
    assert leaf.finish() == ["step", None]
    sent = box.channel.sent  # type: ignore[attr-defined]
    assert [one["op"] for one in sent] == ["reset", "step"]
    assert {one["session"] for one in sent} == {leaf.session}
    assert box.channel.asked_quiet == 2  # type: ignore[attr-defined]
    leaf.close()
    assert box.channel.asked_quiet == 3  # type: ignore[attr-defined]
    assert (sent[2]["op"], sent[2]["session"]) == ("end", leaf.session)
    assert 39 < box.channel.deadlines[2] <= 40  # type: ignore[attr-defined]
    leaf.close()
    assert len(sent) == 3 and box.leaves == {other}
    other.close()  # no process was ever forked for it
    assert len(sent) == 3 and box.leaves == set() and not box.dead


def test_a_result_is_taken_once() -> None:
    leaf = sandbox(ok()).leaf()
    with pytest.raises(RuntimeError, match="without begin"):
        leaf.finish()
    leaf.ask("reset", seed=1)
    with pytest.raises(RuntimeError, match="without begin"):
        leaf.finish()


def test_the_environments_own_fault_ends_the_episode_alone() -> None:
    box = sandbox(
        lambda request: {"ok": 1} if request["op"] == "end" else {"err": "environment", "msg": "no"}
    )
    leaf = box.leaf()
    with pytest.raises(EnvironmentFault):
        leaf.ask("reset", seed=1)
    assert box.leaves == set() and not box.dead
    assert box.channel.sent[-1]["op"] == "end"  # type: ignore[attr-defined]


def test_a_farewell_that_fails_ends_the_sandbox() -> None:
    box = sandbox(lambda request: Closed() if request["op"] in ("end", "fate") else {"ok": 1})
    leaf = box.leaf()
    leaf.ask("reset", seed=1)
    leaf.close()
    assert box.dead and box.leaves == set()


@pytest.mark.parametrize(
    ("fate", "reason"),
    [
        ({"signal": 11}, "signal 11"),
        ({"exit": 3}, "exit 3"),
        ({"signal": 9, "oom_kills": 1}, "oom"),
        ({"signal": 9, "oom_kills": 0}, "signal 9"),
        ({"signal": 9, "oom_kills": "1"}, "signal 9"),
        ({"signal": 15, "oom_kills": 1}, "signal 15"),
        ({"exit": 0, "oom_kills": 1}, "exit 0"),
        ({"refused": "EAGAIN"}, "fork"),
        ({"refused": 1}, "unknown"),
        ({"signal": "9", "exit": None}, "unknown"),
        ({"signal": True}, "unknown"),
        ([], "unknown"),
        ("signal 9", "unknown"),
        (None, "unknown"),
    ],
)
def test_the_zygote_is_asked_how_a_leaf_ended(fate: Any, reason: str) -> None:
    def answer(request: dict[str, Any]) -> Any:
        return {"ok": fate} if request["op"] == "fate" else Closed()

    box = sandbox(answer, ended="exit 99")
    leaf = box.leaf()
    with pytest.raises(Died) as caught:
        leaf.ask("reset", seed=1)
    asked = box.channel.sent[-1]  # type: ignore[attr-defined]
    assert (asked["op"], asked["session"]) == ("fate", leaf.session)
    assert 0 < box.channel.deadlines[-1] <= 1  # type: ignore[attr-defined]
    assert caught.value.reason == reason, "the container's own end is not asked for while the zygote answers"
    assert box.container.asked == 0 and box.dead  # type: ignore[attr-defined]


def test_kills_for_want_of_memory_count_once_each() -> None:
    box = sandbox(ok())
    assert box.read_fate({"signal": 9, "oom_kills": 2}) == "oom"
    assert box.read_fate({"signal": 9, "oom_kills": 2}) == "signal 9"
    assert box.read_fate({"signal": 9, "oom_kills": 3}) == "oom"


@pytest.mark.parametrize(("ended", "reason"), [("oom", "oom"), ("exit 137", "exit 137"), (None, "unknown")])
def test_where_the_zygote_is_gone_the_container_is_asked(ended: str | None, reason: str) -> None:
    box = sandbox(raises(Closed()), ended=ended)
    with pytest.raises(Died) as caught:
        box.leaf().ask("reset", seed=1)
    assert caught.value.reason == reason and box.container.asked == 1  # type: ignore[attr-defined]


def test_a_bystander_of_a_fault_is_told_to_play_again() -> None:
    box = sandbox(ok(), ended="exit 1")
    leaf = box.leaf()
    leaf.begin("step")
    box.fail()
    with pytest.raises(Died, match="play this one again") as caught:
        leaf.finish()
    assert caught.value.reason == "killed"
    told = box.explain(Closed(), leaf.session)
    assert isinstance(told, Died) and told.reason == "killed" and box.container.asked == 0  # type: ignore[attr-defined]
    late = Timeout("late")
    assert box.explain(late, None) is late


# --- an episode with a stream of its own


@pytest.fixture
def direct() -> Iterator[Sandbox]:
    box = sandbox(ok(), direct=True)
    yield box
    for leaf in box.channel.leaves:  # type: ignore[attr-defined]
        leaf.close()


def serve(stream: socket.socket, *replies: dict[str, Any]) -> threading.Thread:
    """Answer so many requests on a leaf's stream."""

    def run() -> None:
        with suppress(OSError), stream.makefile("rwb") as lines:
            for reply in replies:
                request = json.loads(lines.readline())
                lines.write(json.dumps({"id": request["id"], **reply}).encode() + b"\n")
                lines.flush()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def test_a_leaf_is_ordered_and_the_next_one_is_made_ready(direct: Sandbox) -> None:
    zygote = direct.channel
    leaf = direct.leaf()
    leaf.begin("reset", seed=1)
    assert [one["op"] for one in zygote.sent] == ["leaf", "leaf"]  # type: ignore[attr-defined]
    assert leaf.session == zygote.sent[0]["session"] == zygote.sent[0]["id"]  # type: ignore[attr-defined]
    assert len(direct._ordered) == 1 and zygote.asked_quiet == 2  # type: ignore[attr-defined]
    serve(zygote.leaves[0], {"ok": "hello"}, {"err": "environment", "msg": "no"})  # type: ignore[attr-defined]
    assert leaf.finish() == "hello"
    with pytest.raises(EnvironmentFault):
        leaf.ask("step")
    assert len(zygote.sent) == 2 and not direct.dead  # type: ignore[attr-defined]
    assert direct.leaves == set() and leaf.channel is not None and leaf.channel.sock.fileno() == -1
    second = direct.leaf()
    second.begin("reset", seed=2)
    assert second.session == zygote.sent[1]["session"]  # type: ignore[attr-defined]
    second.close()


def test_a_leaf_that_spoke_while_it_waited_is_a_broken_rule(direct: Sandbox) -> None:
    direct.order(time.monotonic() + 600)
    direct.channel.leaves[0].send(b"x")  # type: ignore[attr-defined]
    waiting = direct._ordered[0][1]
    with pytest.raises(ProtocolError, match="nobody asked for"):
        direct.leaf().begin("reset", seed=1)
    assert direct.dead and waiting.sock.fileno() == -1


def test_a_leaf_that_died_while_it_waited_is_passed_over(direct: Sandbox) -> None:
    direct.order(time.monotonic() + 600)
    direct.order(time.monotonic() + 600)
    gone = direct._ordered[0][1]
    direct.channel.leaves[0].close()  # type: ignore[attr-defined]
    leaf = direct.leaf()
    leaf.begin("reset", seed=1)
    assert leaf.session == direct.channel.sent[1]["session"] and not direct.dead  # type: ignore[attr-defined]
    assert gone.sock.fileno() == -1, "its stream is let go of"
    leaf.close()


def test_a_request_before_the_last_reply_was_taken_is_seen(direct: Sandbox) -> None:
    leaf = direct.leaf()
    leaf.begin("reset", seed=1)
    serve(direct.channel.leaves[0], {"ok": 1}).join()  # type: ignore[attr-defined]
    with pytest.raises(ProtocolError, match="nobody asked for"):
        leaf.begin("step")
    assert direct.dead and direct.leaves == set()


def test_an_order_that_cannot_be_sent_leaves_no_stream_behind(direct: Sandbox) -> None:
    before = len(os.listdir("/proc/self/fd"))
    direct.channel.waiting.append(b"{}")  # type: ignore[attr-defined]
    with pytest.raises(ProtocolError):
        direct.order(time.monotonic() + 600)
    assert direct._ordered == [] and len(os.listdir("/proc/self/fd")) == before


def test_a_fault_wakes_all_who_wait_and_closes_what_was_ordered(direct: Sandbox) -> None:
    leaf = direct.leaf()
    leaf.begin("reset", seed=1)
    told: list[BaseException] = []

    def wait() -> None:
        try:
            leaf.finish()
        except BaseException as error:
            told.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    ordered: SocketChannel = direct._ordered[0][1]
    direct.fail()
    waiting.join(60)
    (error,) = told
    assert isinstance(error, Died) and error.reason == "killed"
    assert ordered.sock.fileno() == -1 and direct._ordered == []
