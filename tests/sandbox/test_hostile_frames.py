"""Every frame that is no reply, on every channel: the sandbox ends, and nothing of it becomes a result."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from contextlib import suppress

import pytest

from tests.sandbox.test_host_side import Container, Played, ok
from trace_assets.sandbox import Died, EnvironmentFault, ProtocolError, SandboxConfig, SandboxError
from trace_assets.sandbox.channel import SocketChannel
from trace_assets.sandbox.errors import Timeout, TooLarge
from trace_assets.sandbox.protocol import MAX_DEPTH, MAX_LINE
from trace_assets.sandbox.sandbox import Sandbox

CONFIG = SandboxConfig(deadline_seconds=40.0, load_deadline_seconds=80.0, start_deadline_seconds=20.0)
PAID = '{"reward":1.0,"success":true,"checks":[]}'


def reply(number: object, rest: str = f'"ok":{PAID}') -> bytes:
    return f'{{"id":{number},{rest}}}\n'.encode()


Frame = Callable[[int], bytes]
BROKEN: dict[str, Frame] = {
    "twice": lambda n: reply(n) * 2,
    "twice, the first an error": lambda n: reply(n, '"err":"environment","msg":"x"') + reply(n),
    "the next one first": lambda n: reply(n + 1) + reply(n),
    "of the next request": lambda n: reply(n + 1),
    "of the last request": lambda n: reply(n - 1),
    "of request 0": lambda _: reply(0),
    "of a negative one": lambda n: reply(-n),
    "of 2**64 and it": lambda n: reply(2**64 + n),
    "id as a float": lambda n: reply(f"{n}.0"),
    "id as a power": lambda n: reply(f"{n}e0"),
    "id as text": lambda n: reply(f'"{n}"'),
    "id as true": lambda _: reply("true"),
    "id as null": lambda _: reply("null"),
    "id as a list": lambda n: reply(f"[{n}]"),
    "id with a zero before": lambda n: reply(f"0{n}"),
    "no id": lambda _: f'{{"ok":{PAID}}}\n'.encode(),
    "id twice": lambda n: reply(0, f'"id":{n},"ok":{PAID}'),
    "id twice, escaped": lambda n: reply(0, f'"\\u0069d":{n},"ok":{PAID}'),
    "ok twice": lambda n: reply(n, f'"ok":null,"ok":{PAID}'),
    "ok and err": lambda n: reply(n, f'"ok":{PAID},"err":"environment"'),
    "ok, err and msg": lambda n: reply(n, f'"ok":{PAID},"err":"environment","msg":""'),
    "a third key": lambda n: reply(n, f'"ok":{PAID},"x":1'),
    "err alone": lambda n: reply(n, '"err":"environment"'),
    "err that is no text": lambda n: reply(n, '"err":1,"msg":"x"'),
    "msg that is no text": lambda n: reply(n, '"err":"environment","msg":null'),
    "an unknown failure": lambda n: reply(n, '"err":"paid","msg":"1.0"'),
    "NaN": lambda n: reply(n, '"ok":{"reward":NaN}'),
    "infinity": lambda n: reply(n, '"ok":-Infinity'),
    "1e999": lambda n: reply(n, '"ok":1e999'),
    "a number of 5000 digits": lambda n: reply(n, f'"ok":{"9" * 5000}'),
    "2**63": lambda n: reply(n, f'"ok":{2**63}'),
    "half a pair": lambda n: reply(n, '"ok":"\\ud800"'),
    "a key of half a pair": lambda n: reply(n, '"ok":{"\\udfff":1}'),
    "not UTF-8": lambda n: reply(n, '"ok":"@"').replace(b"@", b"\xff"),
    "an overlong form": lambda n: reply(n, '"ok":"@"').replace(b"@", b"\xc0\xaf"),
    "a pair as two characters": lambda n: reply(n, '"ok":"@"').replace(b"@", b"\xed\xa0\x80\xed\xb0\x80"),
    "a mark of its encoding": lambda n: b"\xef\xbb\xbf" + reply(n),
    "NUL before": lambda n: b"\0" + reply(n),
    "NUL behind": lambda n: reply(n)[:-1] + b"\0\n",
    "an empty line": lambda _: b"\n",
    "blanks": lambda _: b"  \n",
    "null": lambda _: b"null\n",
    "a list": lambda n: b"[" + reply(n)[:-1] + b"]\n",
    "a text": lambda n: json.dumps(reply(n).decode()).encode() + b"\n",
    "two values": lambda n: reply(n)[:-1] + reply(n),
    "a comma too many": lambda n: reply(n, f'"ok":{PAID},'),
    "a comment": lambda n: reply(n)[:-1] + b"//\n",
    "single quotes": lambda n: reply(n).replace(b'"', b"'"),
    "too deep": lambda n: reply(n, f'"ok":{"[" * MAX_DEPTH}{"]" * MAX_DEPTH}'),
    "far too deep": lambda n: reply(n, f'"ok":{"[" * 300_000}{"]" * 300_000}'),
    "brackets that stay open": lambda n: reply(n, f'"ok":{"[" * 300_000}'),
    "too many nodes": lambda n: reply(n, f'"ok":[{"1," * 20_001}1]'),
    "more than a line may hold": lambda n: reply(n, f'"ok":"{"x" * MAX_LINE}"'),
    "no end of line": lambda n: reply(n)[:-1] + b" " * (MAX_LINE + 70_000),
    "the hello again": lambda _: b'{"hello":"trace-sandbox","protocol":3,"python":"3.11.2","worker":"x"}\n',
    "its own request": lambda n: f'{{"id":{n},"op":"verdict"}}\n'.encode(),
    "a word of the supervisor": lambda n: reply(n, '"ok":{"sealed":true,"clock":"fixed"},"session":1'),
    "a carriage return": lambda n: reply(n)[:-2] + b"}\r\n\r\n",
}
ENDING: dict[str, tuple[Frame, type[SandboxError]]] = {
    "nothing, and it closes": (lambda _: b"", Died),
    "half, and it closes": (lambda n: reply(n)[:20], Died),
    "all but the end of the line": (lambda n: reply(n)[:-1], Died),
}
FORGED = {
    "died": '"err":"died","msg":"{\\"exit\\": 0}"',
    "died of memory": '"err":"died","msg":"{\\"signal\\": 9, \\"oom_kills\\": 99}"',
    "died as no JSON": '"err":"died","msg":"x"',
    "died too deep": f'"err":"died","msg":"{"[" * 100_000}"',
    "fork": '"err":"fork","msg":"EAGAIN"',
    "protocol": '"err":"protocol","msg":"more than one line"',
    "order": '"err":"order","msg":"\'step\' may not come now"',
}
CHANNELS = ("supervisor", "own stream", "relayed")


class Asked:
    """A sandbox whose other side answers one request, on one of the channels, with the bytes of a frame."""

    def __init__(self, channel: str, frame: Frame, seconds: float = 40.0) -> None:
        self.frame = frame
        config = CONFIG.model_copy(update={"deadline_seconds": seconds})
        self.deaths: list[Sandbox] = []
        if channel == "own stream":
            played = Played(ok())
            self.box = Sandbox(Container(), played, True, config, self.deaths.append)
            self.leaf = self.box.leaf()
            self.leaf.begin("reset", seed=1)
            other, self.ask, self.mark = played.leaves[0], self.leaf.finish, b""
        else:
            ours, other = socket.socketpair()
            self.box = Sandbox(Container(), SocketChannel(ours), False, config, self.deaths.append)
            self.mark = b">" if channel == "relayed" else b""
            if channel == "relayed":
                self.leaf = self.box.leaf()
                self.ask = lambda: self.leaf.ask("reset", seed=1)
            else:
                self.ask = lambda: self.box.control("ping", seconds)
        self.other = other
        threading.Thread(target=self._answer, daemon=True).start()

    def _answer(self) -> None:
        with suppress(OSError), self.other, self.other.makefile("rb") as lines:
            sent = self.frame(json.loads(lines.readline())["id"])
            # Where the supervisor hands a leaf's bytes on, its mark stands before them, once.
            self.other.sendall(self.mark + sent if sent else b"")
            if not self.silent:
                return
            lines.readline()

    silent = False


CASES = [(name, channel) for channel in CHANNELS for name in BROKEN]


@pytest.mark.parametrize(("name", "channel"), CASES)
def test_what_is_no_reply_costs_the_sandbox(name: str, channel: str) -> None:
    asked = Asked(channel, BROKEN[name])
    with pytest.raises((ProtocolError, TooLarge)):
        asked.ask()
    assert asked.box.dead and asked.deaths == [asked.box]
    with pytest.raises(Died, match="play this one again"):
        asked.box.leaf()


@pytest.mark.parametrize(("name", "channel"), [(name, channel) for channel in CHANNELS for name in ENDING])
def test_a_stream_that_ends_is_a_death(name: str, channel: str) -> None:
    frame, kind = ENDING[name]
    asked = Asked(channel, frame)
    with pytest.raises(kind):
        asked.ask()
    assert asked.box.dead


@pytest.mark.parametrize("channel", CHANNELS)
@pytest.mark.parametrize("sent", [b"", b'{"id":', b'{"id":1,"ok":null}'])
def test_half_a_reply_is_waited_for_until_the_deadline(sent: bytes, channel: str) -> None:
    Asked.silent = True
    try:
        asked = Asked(channel, lambda _: sent, seconds=0.2)
        with pytest.raises(Timeout):
            asked.ask()
        assert asked.box.dead
    finally:
        Asked.silent = False


@pytest.mark.parametrize("channel", ["own stream", "relayed"])
@pytest.mark.parametrize("name", FORGED)
def test_a_leaf_cannot_tell_of_processes(name: str, channel: str) -> None:
    asked = Asked(channel, lambda n: reply(n, FORGED[name]))
    with pytest.raises(ProtocolError, match="refused a request"):
        asked.ask()
    assert asked.box.dead and asked.box._oom_kills == 0


@pytest.mark.parametrize("sent", [b">>", b"<", b"\t>", b"\xef\xbb\xbf>"])
def test_a_mark_stands_once_and_first(sent: bytes) -> None:
    asked = Asked("relayed", lambda n: sent + reply(n))
    asked.mark = b""
    with pytest.raises(ProtocolError):
        asked.ask()
    assert asked.box.dead


@pytest.mark.parametrize("channel", CHANNELS)
def test_the_reply_itself_is_a_result_on_each(channel: str) -> None:
    asked = Asked(channel, reply)
    assert asked.ask() == json.loads(PAID) and not asked.box.dead
    asked = Asked(channel, lambda n: reply(n, '"err":"environment","msg":"KeyError"'))
    with pytest.raises(EnvironmentFault, match="KeyError"):
        asked.ask()
    if channel != "relayed":  # there the end of the episode is asked for as well, of nobody
        assert not asked.box.dead


@pytest.mark.parametrize("channel", ["own stream", "supervisor"])
def test_bytes_between_two_requests_are_seen_before_the_second(channel: str) -> None:
    asked = Asked(channel, reply)
    asked.silent = True
    assert asked.ask()
    with suppress(OSError):
        asked.other.sendall(reply(2))
    with pytest.raises((ProtocolError, Died)):
        asked.leaf.ask("step") if channel == "own stream" else asked.box.ping()
    assert asked.box.dead


def test_what_an_earlier_episode_still_says_reaches_no_later_one() -> None:
    """Each has a stream of its own, and that of the earlier one is closed with it."""
    played = Played(ok())
    box = Sandbox(Container(), played, True, CONFIG)
    early = box.leaf()
    early.begin("reset", seed=1)
    number = json.loads(played.leaves[0].makefile("rb").readline())["id"]
    early.close()
    late = box.leaf()
    late.begin("reset", seed=2)
    assert json.loads(played.leaves[1].makefile("rb").readline())["id"] == number, "ids are an episode's own"
    with pytest.raises(OSError, match=r"pipe|reset"):
        played.leaves[0].sendall(reply(number) * 1000)
        played.leaves[0].sendall(reply(number))
    played.leaves[1].sendall(reply(number, '"ok":"late"'))
    assert late.finish() == "late" and not box.dead
    box.fail()
    for one in played.leaves:
        one.close()
