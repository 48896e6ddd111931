"""A target in its own process: what it says is checked, what it breaks is its own episode only."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.scripted_policies import ScriptedPolicy
from trace_assets.errors import InputError, Unavailable, UserFault
from trace_assets.records import Message, Task, ToolCall
from trace_assets.rollouts.episode import Trial
from trace_assets.rollouts.runner import run_rollouts
from trace_assets.targets.process.answers import TargetDied, TargetFault, TargetHung
from trace_assets.targets.process.target import ProcessConfig, ProcessEpisode, ProcessTarget
from trace_assets.targets.protocol import Target

Opened = Callable[..., ProcessTarget]
LOOK = '    if name == "get_loan":'


def call(name: str, **arguments: object) -> Message:
    return Message(role="assistant", tool_calls=(ToolCall(id="c1", name=name, arguments=arguments),))


def first(target: ProcessTarget) -> Task:
    return target.tasks("discovery")[0]


async def until(target: ProcessTarget, *messages: Message) -> ProcessEpisode:
    """Play messages and leave the episode open."""
    episode = target.episode(first(target), seed=0)
    await episode.reset()
    for message in messages:
        await episode.step(message)
    return episode


def test_speaks_the_protocol_of_all_targets(opened: Opened) -> None:
    target = opened()
    assert isinstance(target, Target)
    assert target.name == "library"
    assert [tool.name for tool in target.tools] == ["get_loan", "renew_loan"]
    assert [tool.mutates for tool in target.tools] == [False, True]
    assert {split: len(target.tasks(split)) for split in ("discovery", "validation", "test")} == {
        "discovery": 90,
        "validation": 30,
        "test": 60,
    }
    task = first(target)
    assert (task.task_id, task.target, task.payload["loan"]) == ("library/0", "library", "L0")


def test_limits_take_the_first_tasks_and_are_part_of_the_version(opened: Opened) -> None:
    whole, some = opened(), opened(limits={"discovery": 3})
    assert [t.task_id for t in some.tasks("discovery")] == [t.task_id for t in whole.tasks("discovery")[:3]]
    assert len(some.tasks("test")) == 60
    assert some.version != whole.version


def test_plays_the_oracle_and_a_do_nothing_agent(opened: Opened) -> None:
    target = opened()

    async def play(task: Task, script: list[Message]) -> bool | None:
        episode = target.episode(task, seed=0)
        await episode.reset()
        for message in script:
            if (await episode.step(message)).done:
                break
        verdict = await episode.verdict()
        await episode.close()
        return verdict.success

    for task in target.tasks("test"):
        assert asyncio.run(play(task, target.oracle(task))) is True
        assert asyncio.run(play(task, [Message(role="assistant", content="Goodbye.")])) is False


@pytest.mark.parametrize(
    ("edit", "fault", "says"),
    [
        (
            (
                '    if name == "get_loan":',
                '    if name == "get_loan":\n        9**9**9\n    if name == "get_loan":',
            ),
            TargetHung,
            "did not answer step() within 4 s",
        ),
        (
            (LOOK, "    import os\n    os._exit(7)\n" + LOOK),
            TargetDied,
            "ended in step()",
        ),
        (
            (LOOK, '    raise KeyError("shelf")\n' + LOOK),
            TargetFault,
            "failed in step(): KeyError: 'shelf'",
        ),
        (
            ('return {"messages": answers, "done": False', 'return {"messages": 7, "done": False'),
            TargetFault,
            "has not the form that the protocol asks for, at 'messages'",
        ),
    ],
    ids=["hangs holding the interpreter", "exits", "raises", "answers nonsense"],
)
def test_a_broken_step_is_a_fault_and_the_next_episode_is_sound(
    opened: Opened, edit: tuple[str, str], fault: type[Exception], says: str
) -> None:
    target = opened(edit, call_seconds=4.0 if fault is TargetHung else 60.0, processes=1)

    async def both() -> None:
        episode = await until(target)
        with pytest.raises(fault, match=says.replace("(", r"\(").replace(")", r"\)")):
            await episode.step(call("get_loan", loan="L0"))
        await episode.close()
        again = await until(target)  # the only process was replaced, or goes on
        assert (await again.verdict()).success is False
        await again.close()

    asyncio.run(both())


def test_printing_does_not_stand_among_the_replies(opened: Opened) -> None:
    target = opened(("    _Now.turns += 1\n", '    _Now.turns += 1\n    print("hello", flush=True)\n'))
    episode = asyncio.run(until(target, call("get_loan", loan="L0")))
    assert asyncio.run(episode.verdict()).success is False


@pytest.mark.parametrize(
    ("whose", "raised"), [("user", UserFault), ("infrastructure", Unavailable), ("input", InputError)]
)
def test_the_module_says_whose_fault_it_is(opened: Opened, whose: str, raised: type[Exception]) -> None:
    edit = (
        '    if name == "get_loan":',
        f'    error = RuntimeError("gone")\n    error.fault = "{whose}"\n    raise error\n'
        '    if name == "get_loan":',
    )
    target = opened(edit)
    with pytest.raises(raised, match="gone"):
        asyncio.run(until(target, call("get_loan", loan="L0")))


@pytest.mark.parametrize(
    ("whose", "fault", "stop"),
    [
        ("user", "user_simulator", "user_error"),
        ("infrastructure", "infrastructure", "infrastructure_error"),
        ("", "environment", "environment_error"),
    ],
)
def test_a_fault_is_never_a_reward(opened: Opened, whose: str, fault: str, stop: str) -> None:
    edit = (
        '    if name == "get_loan":',
        f'    error = RuntimeError("gone")\n    error.fault = "{whose}" or "environment"\n    raise error\n'
        '    if name == "get_loan":',
    )
    target = opened(edit)
    looks = ScriptedPolicy(lambda _: call("get_loan", loan="L0"), name="looks", version="1")
    [played] = run_rollouts(target, [Trial(first(target))], looks, max_turns=3)
    assert (played.fault, played.stop, played.reward, played.success) == (fault, stop, None, None)
    assert "gone" in (played.error or "")


def test_trajectories_say_where_the_target_comes_from(opened: Opened) -> None:
    target = opened(('"policy": POLICY', '"provenance": {"commit": "abc123"}, "policy": POLICY'))
    looks = ScriptedPolicy(lambda _: Message(role="assistant", content="No."), name="no", version="1")
    [played] = run_rollouts(target, [Trial(first(target))], looks, max_turns=3)
    assert played.metadata == {"target_version": target.version, "target_commit": "abc123"}


def test_many_episodes_share_few_processes(opened: Opened) -> None:
    target = opened(processes=2)
    policy = ScriptedPolicy(lambda _: Message(role="assistant", content="reserved"), name="no", version="1")
    trials = [Trial(task) for task in target.tasks("discovery")]
    played = run_rollouts(target, trials, policy, max_turns=3, concurrency=16)
    assert [one.fault for one in played] == [None] * 90
    assert sum(one.success is True for one in played) == 45
    children = subprocess.run(
        ["pgrep", "-P", str(os.getpid()), "-f", str(target.config.module)], capture_output=True, text=True
    ).stdout.split()
    assert 1 <= len(children) <= 3  # two of the pool, one for questions outside of episodes


def test_processes_end_with_the_target(opened: Opened) -> None:
    target = opened()
    episode = asyncio.run(until(target))
    worker = episode._worker
    assert worker is not None and worker.alive
    target.close()
    with pytest.raises(ProcessLookupError):
        os.kill(worker.pid, 0)


def test_a_process_deep_in_a_call_dies_with_its_host(library: Path, tmp_path: Path) -> None:
    module = tmp_path / "target.py"
    marker = tmp_path / "pid"
    source = library.read_text(encoding="utf-8").replace(
        '    return {"messages": answers',
        f"    import os; open({str(marker)!r}, 'w').write(str(os.getpid())); 9**9**9\n"
        '    return {"messages": answers',
    )
    module.write_text(source, encoding="utf-8")
    script = (
        "import asyncio, sys; from pathlib import Path\n"
        "from trace_assets.records import Message, ToolCall\n"
        "from trace_assets.targets.process.target import ProcessConfig, ProcessTarget\n"
        f"t = ProcessTarget(ProcessConfig(module=Path({str(module)!r}), python=Path(sys.executable)))\n"
        "async def main():\n"
        "    e = t.episode(t.tasks('discovery')[0], seed=0)\n"
        "    await e.reset()\n"
        "    call = ToolCall(id='1', name='get_loan', arguments={'loan': 'L0'})\n"
        "    await e.step(Message(role='assistant', tool_calls=(call,)))\n"
        "asyncio.run(main())\n"
    )
    host = subprocess.Popen([sys.executable, "-c", script])
    try:
        _wait(lambda: marker.is_file() and marker.read_text() != "", 300)
        worker = int(marker.read_text())
        host.kill()
        host.wait()
        _wait(lambda: not _runs(worker), 300)
    finally:
        host.kill()


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


def _wait(true: Callable[[], bool], seconds: float) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("edits", "says"),
    [
        ([('return {"name": "library", "version"', 'return {"name": "", "version"')], "at 'name'"),
        ([('"tools": TOOLS', '"tools": [{"description": "x"}]')], "a tool of 'library'"),
        ([('"id": str(number)', '"id": "same"')], "stands twice"),
        (
            [('found = {"discovery"', 'found = {"training": [], "discovery"')],
            "must return an object of the splits",
        ),
    ],
)
def test_what_a_module_says_of_itself_is_checked(
    opened: Opened, edits: list[tuple[str, str]], says: str
) -> None:
    target = opened(*edits)
    with pytest.raises(TargetFault, match=says):
        assert target.tools is not None
        target.tasks("discovery")


def test_a_module_that_cannot_be_imported_says_why(opened: Opened) -> None:
    target = opened(("MAX_TURNS = 8", "import no_such_package"))
    with pytest.raises(TargetFault, match="No module named 'no_such_package'"):
        _ = target.name


def test_a_missing_module_or_interpreter_is_named(tmp_path: Path, library: Path) -> None:
    with pytest.raises(InputError, match="trace targets new"):
        ProcessTarget(ProcessConfig(module=tmp_path / "none.py", python=Path(sys.executable)))
    target = ProcessTarget(ProcessConfig(module=library, python=tmp_path / "python"))
    with pytest.raises(Unavailable, match=r"targets\.python"):
        _ = target.name


def test_a_module_that_changes_while_it_is_used_is_noticed(opened: Opened) -> None:
    target = opened(processes=1)
    assert target.name == "library"
    target.config.module.write_text(
        target.config.module.read_text(encoding="utf-8") + "\n# edited\n", encoding="utf-8"
    )
    with pytest.raises(TargetFault, match="changed from version"):
        asyncio.run(until(target))


@pytest.mark.parametrize("fresh", [False, True])
def test_a_target_may_ask_for_a_fresh_process_for_every_episode(opened: Opened, fresh: bool) -> None:
    says_so = ('"tools": TOOLS', f'"tools": TOOLS, "fresh_process": {fresh}')
    tells = ('"content": _request(', '"content": str(__import__("os").getpid()) + " " + _request(')
    target = opened(says_so, tells, processes=1)

    async def process() -> str:
        episode = target.episode(first(target), seed=0)
        asked = (await episode.reset())[-1].content or ""
        await episode.close()
        return asked.split()[0]

    async def three() -> set[str]:
        return {await process() for _ in range(3)}

    assert len(asyncio.run(three())) == (3 if fresh else 1)
