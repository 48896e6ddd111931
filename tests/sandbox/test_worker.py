"""The worker and the host's handles on it, without isolation: what does not depend on where it runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from pathlib import Path

import pytest

from trace_assets.errors import InputError
from trace_assets.sandbox import (
    Died,
    EnvironmentFault,
    ProtocolError,
    SandboxPool,
    Timeout,
    TooLarge,
    replay,
)
from trace_assets.sandbox.sandbox import Sandbox
from trace_assets.sandbox.session import Session

Act = Callable[..., dict[str, object]]
Hostile = Callable[[str, str], str]
Bare = Callable[[SandboxPool, str], AbstractContextManager[Sandbox]]
Hurry = Callable[[Session], None]


def test_an_episode_from_reset_to_verdict(unsafe_pool: SandboxPool, counter: str) -> None:
    environment = unsafe_pool.environment(counter)
    assert [tool["function"]["name"] for tool in environment.tools()] == ["add"]
    with environment.reset(7) as session:
        assert session.messages[0]["content"].startswith("Reach ")
        for action in environment.oracle(7):
            result = session.step(action)
        assert result["done"] and session.done
        verdict = session.verdict()
        assert verdict["reward"] == 1.0 and verdict["success"]
        assert session.verdict() is verdict
        with pytest.raises(InputError, match="over"):
            session.step(environment.oracle(7)[0])
    assert replay(unsafe_pool, counter, 7, session.actions) == verdict


def test_many_episodes_live_side_by_side(unsafe_pool: SandboxPool, counter: str, act: Act) -> None:
    environment = unsafe_pool.environment(counter)
    sessions = [environment.reset(seed) for seed in range(40)]
    for _ in range(2):
        results = environment.step_many([(one, act(seed % 2)) for seed, one in enumerate(sessions)])
    contents = [result["messages"][0]["content"] for result in results if isinstance(result, dict)]
    assert contents == [str(2 * (seed % 2)) for seed in range(40)]
    for one in sessions:
        one.close()


def test_episodes_beyond_one_sandbox_go_to_the_next(unsafe_pool: SandboxPool, counter: str) -> None:
    environment = unsafe_pool.environment(counter)
    sessions = [environment.reset(seed) for seed in range(unsafe_pool.config.max_sessions + 1)]
    assert len({one._leaf.sandbox.container.name for one in sessions}) == 2
    for one in sessions:
        one.close()


def test_nothing_leaks_between_episodes(unsafe_pool: SandboxPool, hostile: Hostile, act: Act) -> None:
    source = hostile(
        "step", "import sys\nsys.leak = getattr(sys, 'leak', 0) + 1\nSTATE['total'] += sys.leak * 100"
    )
    environment = unsafe_pool.environment(source)
    totals = []
    for _ in range(3):
        with environment.reset(1) as session:
            totals.append(session.step(act(0))["messages"][0]["content"])
    assert totals == ["100"] * 3


def test_the_module_is_seeded_before_reset(unsafe_pool: SandboxPool, hostile: Hostile) -> None:
    source = hostile("reset", "return [{'role': 'user', 'content': str(random.random()) + str(hash('a'))}]")
    environment = unsafe_pool.environment(source)
    first, again, other = (environment.reset(seed).messages for seed in (5, 5, 6))
    assert first == again != other


@pytest.mark.parametrize(
    ("where", "code", "complaint"),
    [
        ("step", "1 / 0", "ZeroDivisionError: division by zero .line 2[0-9] in step"),
        ("step", "raise SystemExit(0)", "SystemExit"),
        ("step", "raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("step", "return {'messages': [], 'done': 1, 'truncated': False}", "done"),
        ("step", "return {'messages': [], 'done': True}", "truncated"),
        ("step", "return {'messages': [{'role': 'god', 'content': ''}], 'done': 1, 'truncated': 0}", "role"),
        ("step", "return {1, 2}", "JSON cannot hold"),
        ("step", "return float('nan')", "JSON cannot hold"),
        ("step", "a = []\na.append(a)\nreturn a", "JSON cannot hold"),
        ("step", "return '\\ud800'", "JSON cannot hold"),
        ("step", "def f(): f()\nf()", "RecursionError"),
        ("verdict", "return {'reward': 2.0, 'success': True, 'checks': []}", "reward"),
        ("verdict", "return {'reward': True, 'success': True, 'checks': []}", "reward"),
        ("verdict", "return {'reward': '1', 'success': True, 'checks': []}", "reward"),
        ("verdict", "return {'reward': float('nan'), 'success': True, 'checks': []}", "JSON cannot hold"),
        ("verdict", "return {'reward': 1e308 * 10, 'success': True, 'checks': []}", "JSON cannot hold"),
        ("verdict", "return {'reward': -0.1, 'success': True, 'checks': []}", "reward"),
        ("verdict", "return {'reward': 1.0, 'success': 1, 'checks': []}", "success"),
    ],
)
def test_the_environments_own_faults_leave_the_sandbox_alive(
    unsafe_pool: SandboxPool, hostile: Hostile, act: Act, where: str, code: str, complaint: str
) -> None:
    environment = unsafe_pool.environment(hostile(where, code))
    session = environment.reset(1)
    box = session._leaf.sandbox
    with pytest.raises(EnvironmentFault, match=complaint):
        session.step(act(1)) if where == "step" else session.verdict()
    assert not box.dead
    environment.reset(2).close()


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("def tools(:", "does not compile: SyntaxError.*line 1"),
        ("tools = 1", "defines no tools, reset"),
        ("import no_such_module", "ModuleNotFoundError.*line 1"),
        ("x = " + "(" * 5000 + ")" * 5000, "does not compile"),
        ("\0", "does not compile"),
    ],
)
def test_a_module_that_cannot_be_executed(unsafe_pool: SandboxPool, source: str, complaint: str) -> None:
    with pytest.raises(EnvironmentFault, match=complaint):
        unsafe_pool.environment(source).tools()


def test_source_and_messages_that_cannot_be_sent(unsafe_pool: SandboxPool, counter: str, act: Act) -> None:
    with pytest.raises(InputError, match="source"):
        unsafe_pool.environment("#" * (1 << 21)).tools()
    session = unsafe_pool.environment(counter).reset(1)
    with pytest.raises(InputError, match="role"):
        session.step({"role": "user", "content": "hello"})
    with pytest.raises(InputError, match="arguments"):
        session.step({"role": "assistant", "tool_calls": [{"id": "a", "name": "b", "arguments": "{}"}]})
    with pytest.raises(InputError, match="step"):
        session.step({"role": "assistant", "content": "\ud800"})
    assert session.step(act(1))["messages"]


def comes_true(condition: Callable[[], bool]) -> bool:
    """Whether it holds before long; a minute, for a machine that is busy with something else."""
    until = time.monotonic() + 600
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


LEAVES_AHEAD = 24
"""`MAX_SPARES` of the worker."""


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("while True: pass", Timeout),
        ("import os\nos._exit(0)", Died),
        ("import ctypes\nctypes.string_at(0)", Died),
        ('_send(b\'{"id":1,"ok":null}\\n\')', ProtocolError),
        ("_send(b'garbage\\n')", ProtocolError),
        ("_send(b'NaN\\n')", ProtocolError),
        ("_send(b'x' * 50_000_000)", TooLarge),
        (
            "return {'messages': [{'role': 'tool', 'content': 'a' * 2_000_000}], 'done': 0, 'truncated': 0}",
            TooLarge,
        ),
    ],
    ids=["loop", "exit", "crash", "forged-id", "garbage", "nan", "flood", "huge-reply"],
)
def test_a_broken_rule_costs_the_sandbox(
    unsafe_pool: SandboxPool, hostile: Hostile, act: Act, hurry: Hurry, code: str, fault: type[Exception]
) -> None:
    send = "def _send(data):\n    import os\n    while data:\n        data = data[os.write(3, data):]\n"
    environment = unsafe_pool.environment(hostile("step", code) + send)
    session = environment.reset(2)
    box = session._leaf.sandbox
    if fault is Timeout:
        hurry(session)
    with pytest.raises(fault):
        session.step(act(1))
    assert box.dead
    box.container.kill()
    again = environment.reset(3)
    assert again._leaf.sandbox is not box
    again.close()


def test_a_bystander_goes_on_in_another_sandbox(unsafe_pool: SandboxPool, hostile: Hostile, act: Act) -> None:
    environment = unsafe_pool.environment(hostile("step", "if message['content']: import os; os._exit(1)"))
    bystanders = [environment.reset(4) for _ in range(20)]
    for one in bystanders[:10]:
        assert one.step(act(1))["messages"][0]["content"] == "1"
    offender = environment.reset(1)
    box = offender._leaf.sandbox
    with pytest.raises(Died, match="exit 1"):
        offender.step({"role": "assistant", "content": "die"})
    assert box.dead
    results = environment.step_many([(one, act(1)) for one in bystanders])
    contents = [result["messages"][0]["content"] for result in results if isinstance(result, dict)]
    assert contents == ["2"] * 10 + ["1"] * 10
    assert [len(one.actions) for one in bystanders] == [2] * 10 + [1] * 10
    assert bystanders[0]._leaf.sandbox is not box
    assert bystanders[0].verdict()["reward"] == 0.0


def test_a_bystander_that_cannot_be_played_again_is_a_fault(
    unsafe_pool: SandboxPool, hostile: Hostile, act: Act
) -> None:
    code = (
        "import ctypes, os\n"
        "if message['content']: os._exit(1)\n"
        "libc = ctypes.CDLL(None)\n"
        "libc.getauxval.restype, libc.getauxval.argtypes = ctypes.c_void_p, [ctypes.c_ulong]\n"
        "STATE['total'] += int.from_bytes(ctypes.string_at(libc.getauxval(25), 7), 'little')\n"
    )
    environment = unsafe_pool.environment(hostile("step", code).replace('>= STATE["target"]', "< 0"))
    bystander, offender = environment.reset(4), environment.reset(1)
    bystander.step(act(1))
    with pytest.raises(Died):
        offender.step({"role": "assistant", "content": "die"})
    with pytest.raises(EnvironmentFault, match="not deterministic"):
        bystander.step(act(1))


def test_callers_in_many_threads_share_a_sandbox(unsafe_pool: SandboxPool, hostile: Hostile) -> None:
    environment = unsafe_pool.environment(hostile("module", "# threads"))
    with ThreadPoolExecutor(8) as threads:
        sessions = list(threads.map(environment.reset, range(32)))
    assert len({one._leaf.sandbox for one in sessions}) == 1
    for one in sessions:
        one.close()


def processes(session: Session) -> tuple[int, int]:
    """Numbers of a sandbox's supervisor and of its zygote."""
    supervisor = session._leaf.sandbox.container.process.pid  # type: ignore[attr-defined]
    return supervisor, children(supervisor)[0]


def children(pid: int) -> list[int]:
    """The living children of a process."""
    found = []
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        # It may end before its file is opened, or while it is read.
        with suppress(FileNotFoundError, ProcessLookupError):
            if ") Z " not in Path(f"/proc/{child}/stat").read_text():
                found.append(int(child))
    return found


def test_hundreds_of_episodes_leave_nothing_behind(unsafe_pool: SandboxPool, counter: str) -> None:
    environment = unsafe_pool.environment(counter)
    with environment.reset(0) as session:
        inside = processes(session)

    def held() -> list[int]:
        return [len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in ("self", *inside)]

    before = held()
    for seed in range(400):
        environment.reset(seed).close()

    def settled() -> bool:
        """The last leaves have ended, the next ones are forked ahead."""
        after = held()
        few = after[1] <= before[1] + LEAVES_AHEAD and len(children(inside[1])) <= LEAVES_AHEAD + 4
        # other threads of the pool may hold a few at any moment
        return few and after[2] <= before[2] + 1 and after[0] < before[0] + 20

    assert comes_true(settled)


def test_leaves_are_forked_ahead_of_demand(unsafe_pool: SandboxPool, hostile: Hostile) -> None:
    environment = unsafe_pool.environment(hostile("module", "# ahead"))
    with environment.reset(0) as session:
        zygote = processes(session)[1]
        assert comes_true(lambda: len(children(zygote)) == 2)  # who plays, and the next
        both = set(children(zygote))

    def waiting() -> set[int]:
        return set(children(zygote))

    for seed in range(2):
        assert comes_true(lambda: len(waiting()) == 1)  # who played has gone
        ready = waiting()
        assert ready < both  # who is there came while the last one played
        with environment.reset(seed):
            assert waiting() >= ready  # and plays now
            assert comes_true(lambda: len(waiting()) == 2)
            both = waiting()
    with ThreadPoolExecutor(16) as threads:
        for one in list(threads.map(environment.reset, range(48))):
            one.close()
    assert comes_true(lambda: len(waiting()) <= LEAVES_AHEAD + 1)  # one more is bound to a stream already


@pytest.mark.slow
def test_waiting_leaves_go_when_nobody_asks_for_them(unsafe_pool: SandboxPool, hostile: Hostile) -> None:
    environment = unsafe_pool.environment(hostile("module", "# calm"))
    for _ in range(4):
        with ThreadPoolExecutor(16) as threads:
            for one in list(threads.map(environment.reset, range(48))):
                one.close()
    with environment.reset(0) as session:
        zygote = processes(session)[1]
    assert comes_true(lambda: len(children(zygote)) > 3)
    time.sleep(27)
    assert comes_true(lambda: len(children(zygote)) == 1)  # the one that is bound to a stream already
    environment.reset(1).close()


def test_an_episode_cannot_become_another_program(
    unsafe_pool: SandboxPool, hostile: Hostile, bare: Bare
) -> None:
    """Refused by the worker's own filters, by each of the two alone."""
    source = hostile("reset", "import os\nos.execv('/bin/sh', ['sh', '-c', 'sleep 9'])")
    with pytest.raises(EnvironmentFault, match="PermissionError"):
        unsafe_pool.environment(source).reset(1)
    with bare(unsafe_pool, source) as box, pytest.raises(EnvironmentFault, match="PermissionError"):
        Session(box.leaf, 1)


def test_the_oracle_is_seeded_as_the_episode_is(unsafe_pool: SandboxPool, hostile: Hostile) -> None:
    code = "call = {'id': str(random.random()), 'name': 'add', 'arguments': {'n': 1}}\n"
    code += "return [{'role': 'assistant', 'content': None, 'tool_calls': [call]}]"
    environment = unsafe_pool.environment(hostile("oracle", code))
    assert environment.oracle(5) == environment.oracle(5) != environment.oracle(6)


def test_an_extra_reply_is_found_before_the_next_request(
    unsafe_pool: SandboxPool, hostile: Hostile, act: Act
) -> None:
    code = (
        "import os, sys\n"
        'os.write(3, b\'{"id":%d,"ok":{"messages":[],"done":false,"truncated":false}}\\n\'\n'
        "         % sys._getframe(1).f_locals['request']['id'])\n"
    )
    session = unsafe_pool.environment(hostile("step", code)).reset(1)
    with pytest.raises(ProtocolError, match=r"more than the one|nobody asked|something else"):
        for _ in range(2):
            session.step(act(1))


def test_how_a_process_ended_is_told(unsafe_pool: SandboxPool, hostile: Hostile, act: Act) -> None:
    for code, reason in (
        ("import os\nos._exit(3)", "exit 3"),
        ("import ctypes\nctypes.string_at(0)", "signal 11"),
    ):
        session = unsafe_pool.environment(hostile("step", code)).reset(1)
        with pytest.raises(Died) as caught:
            session.step(act(1))
        assert caught.value.reason == reason


def test_a_fault_in_one_of_many_is_reported_in_its_place(
    unsafe_pool: SandboxPool, hostile: Hostile, act: Act
) -> None:
    environment = unsafe_pool.environment(hostile("step", "1 / (STATE['target'] - 5)"))
    sessions = [environment.reset(seed) for seed in range(12)]
    fives = [one.messages[0]["content"] == "Reach 5." for one in sessions]
    assert any(fives) and not all(fives)
    results = environment.step_many([(one, act(1)) for one in sessions])
    assert [isinstance(result, EnvironmentFault) for result in results] == fives
