"""OpenEnv servers as targets: the exported package on the real openenv, and a server of tool calls."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.environments.exports.conftest import Action, Export, interpreter_with, native, say_action, scripts
from tests.scripted_policies import ScriptedPolicy, always_say
from trace_assets.errors import InputError
from trace_assets.records import Message, ToolCall, Verdict
from trace_assets.rollouts.episode import Trial
from trace_assets.rollouts.runner import run_rollouts
from trace_assets.sandbox import SandboxPool
from trace_assets.settings import Targets
from trace_assets.system.machine import free_port
from trace_assets.targets.process.answers import TargetUnavailable
from trace_assets.targets.process.target import ProcessTarget
from trace_assets.targets.registry import open_target
from trace_assets.targets.sandboxed import wire

RECIPE = "write_against_state"
Serve = Callable[..., subprocess.Popen[bytes]]
Opened = Callable[..., ProcessTarget]


@pytest.fixture(scope="module")
def python() -> str:
    return interpreter_with("openenv.core")


@pytest.fixture
def serve(python: str) -> Iterator[Serve]:
    """Start a server and wait until it is healthy."""
    running: list[subprocess.Popen[bytes]] = []

    def started(port: int, *words: str, cwd: Path | None = None) -> subprocess.Popen[bytes]:
        running.append(subprocess.Popen([python, *words], cwd=cwd))
        until = time.monotonic() + 600
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=60)
                return running[-1]
            except OSError:
                assert time.monotonic() < until and running[-1].poll() is None, "the server did not start"
                time.sleep(0.1)

    yield started
    for one in running:
        one.kill()
        one.wait()


@pytest.fixture
def opened(python: str) -> Iterator[Opened]:
    targets: list[ProcessTarget] = []

    def make(port: int, name: str = "openenv", **options: Any) -> ProcessTarget:
        section = Targets(
            name=name, python=python, processes=2, options={"url": f"http://127.0.0.1:{port}", **options}
        )
        target = open_target(section)
        assert isinstance(target, ProcessTarget)
        targets.append(target)
        return target

    yield make
    for target in targets:
        target.close()


def message(action: Action) -> Message:
    calls = [ToolCall(**call) for call in action.get("tool_calls") or ()]
    return Message(role="assistant", content=action.get("content"), tool_calls=tuple(calls))


def play(target: ProcessTarget, number: int, actions: list[Message]) -> tuple[list[Any], list[Any], Verdict]:
    """Play one task's messages as they are."""

    async def played() -> tuple[list[Any], list[Any], Verdict]:
        episode = target.episode(target.tasks("discovery")[number], seed=99)
        first, answers = await episode.reset(), []
        for action in actions:
            step = await episode.step(action)
            answers.append(step)
            if step.done or step.truncated:
                break
        told = await episode.verdict()
        await episode.close()
        return list(first), answers, told

    return asyncio.run(played())


def as_told(values: list[dict[str, Any]]) -> list[Message]:
    """Return a sandbox's messages as records."""
    names = Message.model_fields
    return [
        Message.model_validate({k: v for k, v in one.items() if k in names and v is not None})
        for one in values
    ]


def test_an_exported_environment_plays_as_in_the_sandbox(
    export: Export, pool: SandboxPool, sources: dict[str, str], serve: Serve, opened: Opened
) -> None:
    port, folder = free_port(), export(RECIPE, "openenv")
    serve(port, "-m", "uvicorn", "server.app:app", "--port", str(port), "--log-level", "error", cwd=folder)
    target = opened(port, "openenv:orders", seeds={"discovery": [0, 3], "test": [1_000_000, 1_000_002]})
    assert target.name == "openenv:orders"
    assert {split: len(target.tasks(split)) for split in ("discovery", "validation", "test")} == {
        "discovery": 3,
        "validation": 0,
        "test": 2,
    }
    wanted = [tool["function"] for tool in pool.environment(sources[RECIPE]).tools()]
    assert [(tool.name, tool.parameters) for tool in target.tools] == [
        (tool["name"], tool["parameters"]) for tool in wanted
    ]
    rewards = set()
    for seed in range(3):
        for actions in scripts(pool, sources[RECIPE], seed):
            here = native(pool, sources[RECIPE], seed, actions)
            first, answers, verdict = play(target, seed, [message(one) for one in actions])
            assert [wire(one) for one in first] == [wire(one) for one in as_told(here["first"])]
            for step, answer in zip(answers, here["answers"], strict=True):
                assert list(step.messages) == as_told(answer["messages"])
                assert (step.done or step.truncated) == (answer["done"] or answer["truncated"])
            assert verdict.reward == here["verdict"]["reward"]
            assert verdict.success == here["verdict"]["success"]
            assert [check.name for check in verdict.checks] == [c["name"] for c in here["verdict"]["checks"]]
            rewards.add(verdict.reward)
    assert 1.0 in rewards and len(rewards) > 1


@pytest.mark.slow
def test_a_server_that_dies_is_infrastructure_and_one_that_breaks_is_the_environment(
    export: Export, sources: dict[str, str], serve: Serve, opened: Opened
) -> None:
    port, folder = free_port(), export(RECIPE, "openenv")
    text = sources[RECIPE].replace("def step(", "def _step(") + (
        "\n\ndef step(message):\n"
        "    if message.get('content') == 'break':\n        raise ValueError('broken')\n"
        "    return _step(message)\n"
    )
    (folder / "server" / "environment.txt").write_text(text, encoding="utf-8")
    words = ("-m", "uvicorn", "server.app:app", "--port", str(port), "--log-level", "error")
    server = serve(port, *words, cwd=folder)
    target = opened(port, seeds={"discovery": [0, 6]})
    trials = [Trial(task) for task in target.tasks("discovery")]

    def pull_the_plug(_: object) -> Message:
        server.kill()
        server.wait()
        return Message(role="assistant", content="Good-bye.")

    calm, rude = always_say("Good-bye."), always_say("break")
    plug = ScriptedPolicy(pull_the_plug, name="plug", version="1")
    rows = [
        run_rollouts(target, [trial], policy, max_turns=3)[0]
        for trial, policy in zip(trials, (calm, rude, calm, rude, plug, calm), strict=True)
    ]
    assert [one.fault for one in rows] == [None, "environment"] * 2 + ["infrastructure"] * 2
    assert [one.reward is None for one in rows] == [False, True, False, True, True, True]
    assert "the OpenEnv server is gone" in str(rows[4].error)
    assert "no OpenEnv server answers" in str(rows[5].error)
    serve(port, *words, cwd=folder)
    again = run_rollouts(target, trials[4:], calm, max_turns=3)
    assert [one.fault for one in again] == [None, None]


def test_a_server_of_single_tool_calls(serve: Serve, opened: Opened, tmp_path: Path) -> None:
    port = free_port()
    serve(port, str(Path(__file__).with_name("serve_calls.py")), str(port))
    tasks = {"discovery": [{"id": f"to-{n}", "seed": n, "instruction": f"Reach {n}."} for n in (3, 20)]}
    (tmp_path / "tasks.json").write_text(json.dumps(tasks), encoding="utf-8")
    target = opened(port, tasks=str(tmp_path / "tasks.json"))
    assert [tool.name for tool in target.tools] == ["add"]
    assert target.tools[0].parameters["required"] == ["number"]

    def add(number: object, name: str = "add") -> ToolCall:
        return ToolCall(id=f"c{number}", name=name, arguments={"number": number})

    def said(*calls: ToolCall) -> Message:
        return Message(role="assistant", tool_calls=calls)

    first, answers, verdict = play(target, 0, [said(add(1), add("x"), add(1, "sub")), said(add(2))])
    assert "Reach 3." in str(first[0].content)
    assert [one.is_error for one in answers[0].messages] == [False, True, True]
    assert json.loads(str(answers[0].messages[0].content)) == {"sum": 1}
    assert [step.done for step in answers] == [False, True]
    assert (verdict.reward, verdict.success) == (1.0, True)
    assert play(target, 0, [said(add(5))])[2] == Verdict(reward=0.0, success=False)
    # It stopped before the server said anything of a reward: not judged.
    assert play(target, 1, [message(say_action("Done."))])[2] == Verdict(reward=None, success=None)
    (broken,) = run_rollouts(
        target,
        [Trial(target.tasks("discovery")[0])],
        ScriptedPolicy(lambda _: said(add(13)), name="thirteen", version="1"),
        max_turns=3,
    )
    assert (broken.fault, broken.reward) == ("environment", None) and "thirteen" in str(broken.error)


@pytest.mark.skipif(find_spec("openenv") is not None, reason="this interpreter has openenv")
def test_an_interpreter_without_openenv_is_named() -> None:
    target = open_target(Targets(name="openenv", options={"url": "http://127.0.0.1:1"}))
    with pytest.raises(InputError, match=r"openenv is not installed in .*targets\.python"):
        _ = target.name


def test_what_cannot_be_opened_says_why(python: str, opened: Opened) -> None:
    gone = opened(free_port(), seeds={"discovery": [0, 2]})
    with pytest.raises(TargetUnavailable, match="no OpenEnv server answers"):
        _ = gone.name
    with pytest.raises(InputError, match=r"targets\.options\.url"):
        _ = open_target(Targets(name="openenv", python=python)).name
    with pytest.raises(InputError, match="unknown option sees"):
        _ = opened(1, sees={}).name
    with pytest.raises(InputError, match="first seed and the first not taken"):
        _ = opened(1, seeds={"discovery": [7]}).name
