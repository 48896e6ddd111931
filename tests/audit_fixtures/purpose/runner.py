"""Labelled runs and a contract for the environments of this folder, and their audits."""
# ruff: noqa: E501

from __future__ import annotations

import random
from collections.abc import Iterable
from functools import cache
from typing import Any

from tests.audit_fixtures.purpose.broken import SOUND
from tests.audit_fixtures.purpose.here import HerePool, findings, module
from tests.audit_fixtures.runner import ZOO_PERMUTATION, ZOO_RULES, record
from trace_assets.environments.audit.battery import audit
from trace_assets.environments.audit.check import Finding, Purpose, Sizes, Subject
from trace_assets.environments.contract.decisions import decisions_of
from trace_assets.environments.contract.description import TargetContract, contract_of
from trace_assets.records import (
    CapabilitySpec,
    EnvironmentCheck,
    LabelValue,
    Message,
    ToolCall,
    ToolSpec,
    Trajectory,
)
from trace_assets.sandbox import SandboxPool
from trace_assets.settings import Synthesis

TARGET = "reservations"
CAUGHT_BY = (
    "trace.fidelity.added_fields",
    "trace.purpose.tools",
    "trace.purpose.looked_up",
    "trace.purpose.rule",
    "trace.purpose.labelled_runs",
    "trace.told.opening",
    "trace.told.results",
    "trace.told.errors",
    "trace.mutation.reworded",
)
"""Checks that environments of this folder are made for; no animal of the zoo is."""
SPEC = CapabilitySpec(
    capability_id="cancel-by-the-rule",
    target=TARGET,
    name="Check the rule before cancelling",
    description="Before cancelling a reservation, hold its record against the conditions of the policy; where "
    "none holds, refuse or hand over, whatever the user says.",
)
SIZES = Sizes(compared=2, diversity=24, floor=4, attack=16, replayed=1, mutated=4, purpose=96)


def careful(episode: dict[str, Any], rng: random.Random) -> list[str]:
    """What an agent does that has the capability; some hand over what they refuse."""
    if episode["may"]:
        return ["get_reservation", "cancel_reservation"]
    return ["get_reservation", *(["transfer_to_human"] if rng.random() < 0.5 else [])]


def careless(episode: dict[str, Any], rng: random.Random) -> list[str]:
    """What an agent does that has not: it cancels, or it looks at the cabin alone."""
    if rng.random() < 0.25:
        return ["cancel_reservation"]
    if rng.random() < 0.3 and episode["may"]:
        return ["get_reservation"]
    return ["get_reservation", "cancel_reservation"]


@cache
def labelled_runs() -> tuple[tuple[Trajectory, LabelValue], ...]:
    """Return real runs: careful and careless ones, and some that ask for an upgrade."""
    played = module(SOUND)
    found: list[tuple[Trajectory, LabelValue]] = []
    for seed in range(5000, 5080):
        rng = random.Random(seed)
        now = played.scene(seed)
        acts = careful(now, rng) if seed % 5 < 3 else careless(now, rng)
        right = acts == (["get_reservation", "cancel_reservation"] if now["may"] else ["get_reservation"])
        right = right or (not now["may"] and acts == ["get_reservation", "transfer_to_human"])
        found.append((_run(played, seed, acts), "PRESENT" if right else "LACKING"))
    found += [
        (_run(played, seed, ["get_reservation", "upgrade_reservation"]), "NA") for seed in range(6000, 6020)
    ]
    return tuple(found)


def _run(played: Any, seed: int, acts: Iterable[str]) -> Trajectory:
    messages = [Message.model_validate(one) for one in played.reset(seed)]
    thing = played.episode["record"]["reservation_id"]
    for number, name in enumerate(acts):
        given = {"summary": "asks to cancel"} if name.startswith("transfer") else {"reservation_id": thing}
        action = Message(
            role="assistant", tool_calls=(ToolCall(id=f"c{number}", name=name, arguments=given),)
        )
        messages += [
            action,
            *(Message.model_validate(m) for m in played.step(action.model_dump())["messages"]),
        ]
    closing = Message(role="assistant", content="It is done as the rule says.")
    return Trajectory(
        trajectory_id=f"run-{seed}",
        task_id=f"task-{seed}",
        target=TARGET,
        task_batch="b1",
        policy="scripted",
        success=True,
        stop="completed",
        messages=(*messages, closing),
    )


@cache
def contract() -> TargetContract:
    """Return the target's contract, as the runs show it."""
    played = module(SOUND)
    tools = [ToolSpec.model_validate(tool["function"]) for tool in played.tools()]
    return contract_of(TARGET, tools, played.RULE, [run for run, _ in labelled_runs()])


@cache
def purpose() -> Purpose:
    """Return the capability with its labelled runs."""
    found = [one for run, label in labelled_runs() for one in decisions_of(run, label, SPEC.capability_id)]
    return Purpose(SPEC, tuple(found))


def audited(source: str, pool: SandboxPool, about: Purpose | None = None) -> list[EnvironmentCheck]:
    """Audit a module of this folder."""
    return audit(
        record(source, TARGET),
        pool,
        contract(),
        Synthesis(audit_seeds=32, audit_rollouts=2),
        rules=ZOO_RULES,
        sizes=SIZES,
        permutation=ZOO_PERMUTATION,
        purpose=about or purpose(),
    )


def looked_at(source: str, about: Purpose | None = None) -> dict[str, Finding]:
    """Return what the checks say that ask what is paid, played in this process."""
    return findings(
        Subject(
            record(source, TARGET),
            HerePool(),  # type: ignore[arg-type]
            Synthesis(audit_seeds=32, audit_rollouts=2),
            contract(),
            ZOO_PERMUTATION,
            rules=ZOO_RULES,
            sizes=SIZES,
            purpose=about or purpose(),
        )
    )
