"""Episodes of a generated environment: whose process ends when, what a message may be, and every verdict."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.targets.test_sandboxed import SEEDS, SOURCE, environment
from trace_assets.errors import InputError
from trace_assets.records import Message, ToolCall
from trace_assets.sandbox import EnvironmentFault, SandboxConfig, SandboxPool, open_pool
from trace_assets.targets import sandboxed
from trace_assets.targets.protocol import Episode
from trace_assets.targets.sandboxed import SandboxedTarget, checked_verdict, wire
from trace_assets.targets.seeds import TRAINING_SEEDS, VALIDATION_SEEDS, SeedPermutation


@pytest.fixture(scope="module")
def pool() -> Iterator[SandboxPool]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        opened = open_pool(
            SandboxConfig(backend="unsafe-subprocess", deadline_seconds=60, recompute_share=0.0)
        )
    with opened:
        yield opened


def target(
    pool: SandboxPool, *edits: tuple[str, str], reward: str = "float(right)", **seeds: Any
) -> SandboxedTarget:
    made = environment(reward)
    source = made.source
    for old, new in edits:
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    given = {"training_seeds": range(40), "validation_seeds": range(100, 110), **seeds}
    return SandboxedTarget(made.model_copy(update={"source": source}), pool, SEEDS, **given)


def ring(times: int) -> Message:
    return Message(role="assistant", tool_calls=(ToolCall(id="1", name="ring", arguments={"times": times}),))


def asked(message: Message) -> int:
    """How often the bell is to be rung."""
    return int((message.content or "").split()[1])


def lives(episode: Episode) -> Callable[[], bool]:
    """Whether the process that an episode has now still lives, by its sandbox's own account."""
    assert isinstance(episode, sandboxed.SandboxedEpisode) and episode._session is not None
    leaf = episode._session._leaf
    return lambda: leaf.session in leaf.sandbox.control("alive", 60)


async def ended(alive: Callable[[], bool]) -> bool:
    for _ in range(6000):
        if not alive():
            return True
        await asyncio.sleep(0.05)
    return False


def test_a_second_reset_ends_the_process_of_the_first(pool: SandboxPool) -> None:
    bells = target(pool)

    async def twice() -> None:
        episode = bells.episode(bells.tasks("discovery")[0], seed=0)
        await episode.reset()
        first = lives(episode)
        assert first()
        await episode.reset()
        second = lives(episode)
        assert await ended(first) and second()
        await episode.close()
        assert await ended(second)
        with pytest.raises(InputError, match="not reset"):
            await episode.step(ring(1))

    asyncio.run(twice())


def test_fields_that_are_empty_or_unknown_are_left_out_of_messages(pool: SandboxPool) -> None:
    odd = (
        '"tool_name": "ring",\n            "is_error": False}',
        '"tool_name": None,\n            "is_error": True, "name": "bell", "error": True, "requestor": None}',
    )
    bells = target(pool, odd)

    async def play() -> tuple[Message, ...]:
        episode = bells.episode(bells.tasks("discovery")[0], seed=0)
        await episode.reset()
        step = await episode.step(ring(1))
        await episode.close()
        return tuple(step.messages)

    assert asyncio.run(play()) == (Message(role="tool", content="ding", tool_call_id="1", is_error=True),)


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"role": "bell"}, "role"),
        ({"role": "tool", "content": 7}, "content"),
        (
            {"role": "user", "tool_calls": [{"id": "1", "name": "ring", "arguments": 3}]},
            r"tool_calls\.0\.arguments",
        ),
    ],
)
def test_a_message_that_cannot_be_read_names_its_place(value: dict[str, Any], place: str) -> None:
    fine = {"role": "user", "content": "hi"}
    assert len(sandboxed._messages([fine, fine], "reset")) == 2
    with pytest.raises(EnvironmentFault, match=rf"environment's step\(\) is not usable at '{place}'"):
        sandboxed._messages([fine, value], "step")


@pytest.mark.parametrize(
    "reward", ["2.0", "float('nan')", "float('inf')", "True", "None", "'1'", "-0.1", "1.0000001"]
)
def test_a_reward_that_is_none_is_the_environments_fault_and_named(pool: SandboxPool, reward: str) -> None:
    """The same episode is sound with a reward that is one, so that nothing else is at fault."""
    for given, sound in ((reward, False), ("1.0", True), ("0.0", True), ("1", True)):
        bells = target(pool, reward=given, training_seeds=[1], validation_seeds=[])

        async def play(bells: SandboxedTarget = bells, given: str = given) -> float | None:
            episode = bells.episode(bells.tasks("discovery")[0], seed=0)
            times = asked((await episode.reset())[-1])
            try:
                if given != "0.0":  # which would be no success's reward
                    await episode.step(ring(times))
                return (await episode.verdict()).reward
            finally:
                await episode.close()

        if sound:
            assert asyncio.run(play()) == float(given)
        else:
            with pytest.raises(EnvironmentFault, match=r"reward|verdict"):
                asyncio.run(play())


def verdict(**changes: Any) -> dict[str, Any]:
    return {"reward": 1.0, "success": True, "checks": [], **changes}


def gate(passed: bool | None, gates: bool = True, name: str = "g") -> dict[str, Any]:
    return {"name": name, "kind": "state", "passed": passed, "score": None, "gates": gates, "detail": ""}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"reward": -0.0001}, "reward is -0.0001"),
        ({"reward": 1.0001}, "reward is 1.0001"),
        ({"reward": None}, "reward is None"),
        ({"reward": float("nan")}, "reward"),
        ({"success": "maybe"}, "verdict is malformed"),
        ({"checks": [gate(True), gate(False, name="x")]}, "its check 'x' did not pass"),
        ({"checks": [gate(None)]}, "its check 'g' did not pass"),
    ],
)
def test_what_is_no_verdict(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(EnvironmentFault, match=says):
        checked_verdict(verdict(**changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"checks": [gate(False, gates=False), gate(None, gates=False), gate(True)]},
        {"success": False, "reward": 0.0, "checks": [gate(False)]},
        {"success": False, "reward": 0.5, "checks": [gate(None)]},
        {"reward": 1},
    ],
)
def test_what_is_a_verdict(changes: dict[str, Any]) -> None:
    found = checked_verdict(verdict(**changes))
    assert found.success is changes.get("success", True) and found.reward == changes.get("reward", 1.0)


def test_messages_as_environments_read_them() -> None:
    assert wire(Message(role="assistant")) == {"role": "assistant"}
    assert wire(Message(role="assistant", content="", metadata={"a": 1})) == {
        "role": "assistant",
        "content": "",
    }
    assert wire(ring(2)) == {
        "role": "assistant",
        "tool_calls": [{"id": "1", "name": "ring", "arguments": {"times": 2}}],
    }


def test_numbers_of_seeds_take_them_from_their_own_ranges(pool: SandboxPool) -> None:
    bells = target(pool, training_seeds=3, validation_seeds=2)
    train = [one.payload["seed"] for one in bells.tasks("discovery")]
    valid = [one.payload["seed"] for one in bells.tasks("validation")]
    assert len(train) == 3 and len(valid) == 2 and not set(train) & set(valid)
    assert train == list(TRAINING_SEEDS)[:3] and valid == list(VALIDATION_SEEDS)[:2]
    whole = SandboxedTarget(environment(), pool, SEEDS)
    assert len(whole.tasks("discovery")) == len(TRAINING_SEEDS)
    assert len(whole.tasks("validation")) == len(VALIDATION_SEEDS)


def test_a_task_says_whose_it_is(pool: SandboxPool) -> None:
    bells = target(pool)
    one = bells.tasks("validation")[0]
    assert (one.task_id, one.target, one.split, one.task_batch) == (
        "env:bells/100",
        "env:bells",
        "validation",
        "env:bells-validation",
    )
    assert bells.task(7).split == "discovery" and bells.tasks("validation") is bells.tasks("validation")
    for payload in ({"seed": True}, {"seed": "1"}, {"seed": 1.0}, {}):
        with pytest.raises(InputError, match="must hold an integer 'seed'"):
            bells.episode(one.model_copy(update={"payload": payload}), seed=0)
    with pytest.raises(InputError, match="is not one of 'env:bells'"):
        bells.episode(one.model_copy(update={"target": "another"}), seed=0)


def test_rules_tools_and_version(pool: SandboxPool) -> None:
    bells = target(pool)
    (tool,) = bells.tools
    assert (tool.name, tool.description) == ("ring", "Ring the bell.")
    assert tool.parameters == {"type": "object", "properties": {"times": {"type": "integer"}}}
    silent = target(pool, ('"description": "Ring the bell.",', ""))
    assert silent.tools[0].description == ""
    bare = target(pool, ('{"role": "system", "content": "Ring as asked."}, ', ""))
    assert bare.policy == "" and bells.policy == "Ring as asked."
    only_valid = target(pool, training_seeds=[])
    assert only_valid.policy == "Ring as asked."
    versions = {
        bells.version,
        only_valid.version,
        target(pool, validation_seeds=range(100, 111)).version,
        SandboxedTarget(
            environment().model_copy(update={"environment_id": "f"}),
            pool,
            SEEDS,
            training_seeds=range(40),
            validation_seeds=range(100, 110),
        ).version,
    }
    other = SandboxedTarget(
        environment(),
        pool,
        SeedPermutation.draw(),
        training_seeds=range(40),
        validation_seeds=range(100, 110),
    )
    assert other.version not in versions
    assert len(versions) == 4 and all(len(one) == 16 for one in versions)
    assert target(pool).version == bells.version
    assert (bells.isolation_level, bells.sandbox_version) == ("none", pool.version)


def test_waiting_time_is_metered_and_a_verdict_is_seen_by_the_recomputation(pool: SandboxPool) -> None:
    bells = target(pool)
    seen: list[dict[str, Any]] = []
    bells.recomputation.see = lambda session, value: seen.append(value)  # type: ignore[method-assign, assignment]

    async def play() -> None:
        episode = bells.episode(bells.tasks("discovery")[0], seed=0)
        await episode.step(ring(asked((await episode.reset())[-1])))
        await episode.verdict()
        await episode.close()

    asyncio.run(play())
    assert [one["reward"] for one in seen] == [1.0]
    assert "def verdict" in SOURCE


class Noted:
    """A session that notes what is asked of it and when."""

    messages = ({"role": "user", "content": "hi"},)

    def __init__(self, name: int, log: list[str]) -> None:
        self.name, self.log = name, log

    def begin_step(self, message: dict[str, Any]) -> None:
        self.log.append(f"step {self.name}")

    def finish_step(self) -> dict[str, Any]:
        self.log.append(f"stepped {self.name}")
        return {"messages": [], "done": True, "truncated": False}

    def begin_verdict(self) -> None:
        self.log.append(f"verdict {self.name}")

    def finish_verdict(self) -> dict[str, Any]:
        self.log.append(f"judged {self.name}")
        return {"reward": 1.0, "success": True, "checks": []}


def test_all_episodes_ask_before_any_waits_and_go_on_in_their_order() -> None:
    log, metered = list[str](), list[str]()

    class Meter:
        def __enter__(self) -> None:
            metered.append("in")

        def __exit__(self, *_: object) -> None:
            metered.append("out")

    class Begun:
        def take(self, seed: int) -> Noted:
            return Noted(seed, log)

    class Recomputed:
        def see(self, session: Noted, value: dict[str, Any]) -> None:
            log.append(f"seen {session.name} {value['reward']}")

    async def play(episode: sandboxed.SandboxedEpisode) -> None:
        await episode.reset()
        step = await episode.step(Message(role="assistant", content="x"))
        assert step.done and not step.truncated and step.messages == ()
        assert (await episode.verdict()).reward == 1.0

    async def all_of_them() -> None:
        made = [
            sandboxed.SandboxedEpisode(Begun(), Meter(), Recomputed(), (), seed)  # type: ignore[arg-type]
            for seed in range(3)
        ]
        await asyncio.gather(*map(play, made))

    asyncio.run(all_of_them())
    asks = [one for one in log if not one.startswith("seen")]
    assert asks == [
        *(f"step {n}" for n in range(3)),
        *(f"{what} {n}" for n in range(3) for what in ("stepped", "verdict")),
        *(f"judged {n}" for n in range(3)),
    ]
    assert [one for one in log if one.startswith("seen")] == [f"seen {n} 1.0" for n in range(3)]
    assert metered == ["in", "out"] * 15, "every call of the sandbox is metered"


def test_closing_ends_what_was_begun_and_what_is_recomputed_and_leaves_the_pool(
    pool: SandboxPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    bells, ended_parts = target(pool), list[str]()
    for name in ("_head_start", "recomputation"):
        part = getattr(bells, name)
        monkeypatch.setattr(
            part, "close", lambda name=name, close=part.close: (ended_parts.append(name), close())
        )
    bells.prepare(bells.tasks("discovery")[:2])
    bells.close()
    assert sorted(ended_parts) == ["_head_start", "recomputation"]
    assert target(pool).policy == "Ring as asked.", "the pool is open"
