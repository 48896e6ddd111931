import asyncio
import warnings

import pytest

from trace_assets.errors import InputError
from trace_assets.records import Environment, Message, ToolCall
from trace_assets.sandbox import EnvironmentFault, SandboxConfig, open_pool
from trace_assets.targets.protocol import Episode, Target
from trace_assets.targets.sandboxed import SandboxedTarget, checked_verdict
from trace_assets.targets.seeds import SeedPermutation

SEEDS = SeedPermutation(b"a key of as many bytes as wanted")

SOURCE = """
state = {}

def tools():
    return [{"type": "function", "function": {"name": "ring", "description": "Ring the bell.",
             "parameters": {"type": "object", "properties": {"times": {"type": "integer"}}}}}]

def reset(seed):
    state.update(want=seed % 3 + 1, rung=0)
    return [{"role": "system", "content": "Ring as asked."}, 
            {"role": "user", "content": f"Ring {seed % 3 + 1} times."}]

def step(message):
    calls = message.get("tool_calls") or []
    if not calls:
        return {"messages": [], "done": True, "truncated": False}
    if calls[0]["name"] == "explode":
        raise RuntimeError("boom")
    state["rung"] += sum(call["arguments"]["times"] for call in calls)
    return {"messages": [{"role": "tool", "content": "ding", "tool_call_id": call["id"], "tool_name": "ring",
            "is_error": False} for call in calls], "done": False, "truncated": False}

def verdict():
    right = state["rung"] == state["want"]
    return {"reward": REWARD, "success": right, "checks": [{"name": "rung", "kind": "state", "passed": right,
            "score": None, "gates": True, "detail": ""}]}

def oracle(seed):
    return [{"role": "assistant", "tool_calls": [
                {"id": "1", "name": "ring", "arguments": {"times": seed % 3 + 1}}]},
            {"role": "assistant", "content": "Done."}]
"""


def environment(reward: str = "float(right)") -> Environment:
    return Environment(
        environment_id="e",
        capability_id="bells",
        target="embedded",
        writer="test",
        source=SOURCE.replace("REWARD", reward),
    )


@pytest.fixture(scope="module")
def pool():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        opened = open_pool(SandboxConfig(backend="unsafe-subprocess", deadline_seconds=300))
    with opened:
        yield opened


@pytest.fixture()
def bells(pool) -> SandboxedTarget:
    return SandboxedTarget(
        environment(), pool, SEEDS, training_seeds=range(40), validation_seeds=range(100, 110)
    )


async def play(target: SandboxedTarget, task, script) -> tuple[float | None, bool | None]:
    episode = target.episode(task, seed=0)
    try:
        await episode.reset()
        for message in script:
            await episode.step(message)
        verdict = await episode.verdict()
        return verdict.reward, verdict.success
    finally:
        await episode.close()
        await episode.close()


def test_it_is_a_target_of_seeds(bells: SandboxedTarget) -> None:
    assert isinstance(bells, Target)
    assert [t.payload["seed"] for t in bells.tasks("validation")] == list(range(100, 110))
    assert len(bells.tasks("discovery")) == 40
    assert bells.tasks("test") == ()
    assert [tool.name for tool in bells.tools] == ["ring"]
    assert bells.policy == "Ring as asked."
    task = bells.tasks("discovery")[0]
    assert isinstance(bells.episode(task, seed=0), Episode)


def test_oracle_earns_all_and_silence_nothing(bells: SandboxedTarget) -> None:
    for task in bells.tasks("validation"):
        assert asyncio.run(play(bells, task, bells.oracle(task))) == (1.0, True)
        assert asyncio.run(play(bells, task, [Message(role="assistant", content="no")])) == (0.0, False)


def test_many_episodes_live_at_once_and_do_not_mix(bells: SandboxedTarget) -> None:
    tasks = [*bells.tasks("discovery")] * 3

    async def every() -> list[tuple[float | None, bool | None]]:
        episodes = [bells.episode(task, seed=0) for task in tasks]
        firsts = [await episode.reset() for episode in episodes]
        assert len({first[-1].content for first in firsts}) == 3
        for turn in range(2):
            for task, episode in zip(tasks, episodes, strict=True):
                await episode.step(bells.oracle(task)[turn])
        return [((v := await episode.verdict()).reward, v.success) for episode in episodes]

    assert set(asyncio.run(every())) == {(1.0, True)}


def test_the_environments_own_failure_is_raised(bells: SandboxedTarget) -> None:
    broken = Message(role="assistant", tool_calls=(ToolCall(id="1", name="explode"),))
    with pytest.raises(EnvironmentFault, match="boom"):
        asyncio.run(play(bells, bells.tasks("discovery")[0], [broken]))


@pytest.mark.parametrize("reward", ["2.0", "float('nan')", "float('inf')", "True", "None", "'1'", "-0.1"])
def test_a_reward_out_of_range_is_never_returned(pool, reward: str) -> None:
    target = SandboxedTarget(environment(reward), pool, SEEDS, training_seeds=[1], validation_seeds=[])
    with pytest.raises(
        EnvironmentFault,
        match=r"verdict(\(\) returned the wrong shape: reward| returned what JSON cannot hold)",
    ):
        asyncio.run(play(target, target.tasks("discovery")[0], []))


def test_success_against_a_failed_gate_is_refused() -> None:
    gate = {"name": "g", "kind": "state", "passed": False, "score": None, "gates": True, "detail": ""}
    with pytest.raises(EnvironmentFault, match="check 'g' did not pass"):
        checked_verdict({"reward": 1.0, "success": True, "checks": [gate]})


def test_shared_seeds_are_refused(pool) -> None:
    with pytest.raises(InputError, match="seed 3 is both"):
        SandboxedTarget(environment(), pool, SEEDS, training_seeds=range(5), validation_seeds=[3])


def test_foreign_tasks_and_order_of_calls(bells: SandboxedTarget) -> None:
    task = bells.tasks("discovery")[0]
    with pytest.raises(InputError, match="not one of"):
        bells.episode(task.model_copy(update={"payload": {}}), seed=0)
    with pytest.raises(InputError, match="not reset"):
        asyncio.run(bells.episode(task, seed=0).verdict())


def test_version_follows_source_and_seeds(bells: SandboxedTarget, pool) -> None:
    seeds = {"training_seeds": range(40), "validation_seeds": range(100, 110)}
    assert SandboxedTarget(environment(), pool, SEEDS, **seeds).version == bells.version
    more = SandboxedTarget(environment(), pool, SEEDS, **{**seeds, "training_seeds": range(41)})
    moved = SandboxedTarget(environment(), pool, SeedPermutation.draw(), **seeds)
    assert len({bells.version, more.version, moved.version}) == 3


def test_the_environment_is_never_told_the_seed_of_a_task(bells: SandboxedTarget, pool) -> None:
    """Nor does its first message depend on it but through the permutation."""
    for task in bells.tasks("discovery")[:6]:
        episode = bells.episode(task, seed=0)
        first = asyncio.run(episode.reset())[-1].content
        assert first == f"Ring {SEEDS(task.payload['seed']) % 3 + 1} times."
        asyncio.run(episode.close())


def test_a_seed_out_of_range_is_refused(bells: SandboxedTarget) -> None:
    for seed in (-1, 10**9):
        with pytest.raises(InputError, match="is not one of 0 to"):
            bells.episode(bells.task(seed), seed=0)
