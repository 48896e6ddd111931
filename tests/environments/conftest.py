"""Trajectories of the embedded target, played by an agent with the deficits that the tests teach away."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from trace_assets.environments.contract.description import TargetContract, extract_contract
from trace_assets.environments.writers.writer import write_environment
from trace_assets.records import CapabilitySpec, Message, Task, Trajectory
from trace_assets.sandbox import SandboxConfig, SandboxPool, open_pool
from trace_assets.settings import Targets
from trace_assets.targets.embedded.target import EmbeddedTarget

sys.path.insert(0, str(Path(__file__).parent))


def lacking(target: EmbeddedTarget, task: Task, rng: random.Random) -> list[Message]:
    """The oracle's messages, spoilt in 60 % of the tasks of the three deficient skills."""
    script = target.oracle(task)
    skill = task.tags[0]
    if skill not in ("cancel", "multi", "window") or rng.random() > 0.6:
        return script
    calls = [call for message in script for call in message.tool_calls]
    order = calls[0].arguments["order"]
    if skill == "multi":
        mine = [c for c in calls if c.arguments["order"] == order]
        return [Message(role="assistant", tool_calls=(c,)) for c in mine] + [script[-1]]
    if skill == "cancel":
        cancel = calls[0].model_copy(update={"name": "cancel_order", "arguments": {"order": order}})
        return [
            Message(role="assistant", tool_calls=(cancel,)),
            Message(role="assistant", content="The order is cancelled."),
        ]
    item = next(
        name for name in task.instruction.replace(",", " ").replace(".", " ").split() if name in ITEMS
    )
    refund = calls[0].model_copy(
        update={"id": "call_2", "name": "refund_item", "arguments": {"order": order, "item": item}}
    )
    return [
        script[0],
        Message(role="assistant", tool_calls=(refund,)),
        Message(role="assistant", content="The item is refunded."),
    ]


ITEMS = ("lamp", "desk", "chair", "mug", "vase", "clock", "rug", "kettle", "stool", "shelf")


async def play(target: EmbeddedTarget, task: Task, script: list[Message], trial: int) -> Trajectory:
    episode = target.episode(task, seed=trial)
    messages = list(await episode.reset())
    for message in script:
        step = await episode.step(message)
        messages += [message, *step.messages]
    verdict = await episode.verdict()
    return Trajectory(
        trajectory_id=f"{task.task_id}#{trial}",
        task_id=task.task_id,
        target=target.name,
        task_batch=task.task_batch,
        trial=trial,
        policy="spoilt-script",
        success=verdict.success,
        reward=verdict.reward,
        stop="completed",
        messages=tuple(messages),
        checks=verdict.checks,
    )


@pytest.fixture(scope="session")
def target() -> EmbeddedTarget:
    return EmbeddedTarget(Targets(discovery_tasks=300, validation_tasks=20, test_tasks=20))


@pytest.fixture(scope="session")
def trajectories(target: EmbeddedTarget) -> list[Trajectory]:
    rng = random.Random(5)

    async def every() -> list[Trajectory]:
        return [
            await play(target, t, lacking(target, t, rng), n)
            for t in target.tasks("discovery")
            for n in (0, 1)
        ]

    return asyncio.run(every())


@pytest.fixture(scope="session")
def contract_of_pairs() -> TargetContract:
    """Of desk `b`, where users ask for two things at once that conditions decide; nothing is spoilt there."""
    desk = EmbeddedTarget(
        Targets(discovery_tasks=200, validation_tasks=1, test_tasks=1, options={"desk": "b"})
    )

    async def every() -> list[Trajectory]:
        return [await play(desk, task, desk.oracle(task), 0) for task in desk.tasks("discovery")]

    return extract_contract(desk, asyncio.run(every()))


@pytest.fixture(scope="session")
def contract(target: EmbeddedTarget, trajectories: list[Trajectory]) -> TargetContract:
    return extract_contract(target, trajectories)


def spec(detector: str | None, **arguments: str) -> CapabilitySpec:
    return CapabilitySpec(
        capability_id=(detector or "free").replace("_", "-"),
        target="embedded",
        name=str(detector),
        description="A capability.",
        detector=detector,
        detector_args=arguments,
    )


SPECS = {
    "write_without_read": spec("write_without_read", tool="cancel_order", read="get_order"),
    "write_against_state": spec(
        "write_against_state", tool="refund_item", field="window", value="closed", instead="transfer"
    ),
    "object_untouched": spec("object_untouched", argument="order"),
}


@pytest.fixture(scope="session")
def specs() -> dict[str, CapabilitySpec]:
    return SPECS


@pytest.fixture(params=sorted(SPECS))
def capability(request: pytest.FixtureRequest) -> CapabilitySpec:
    return SPECS[request.param]


@pytest.fixture(scope="session")
def sources(contract: TargetContract) -> dict[str, str]:
    """The three recipes' modules."""
    return {name: write_environment(each, contract).source for name, each in SPECS.items()}


@pytest.fixture(scope="session")
def pool() -> Iterator[SandboxPool]:
    with pytest.warns(UserWarning, match="isolates nothing"):
        opened = open_pool(SandboxConfig(backend="unsafe-subprocess", deadline_seconds=300))
    with opened:
        yield opened
