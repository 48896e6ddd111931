"""Contracts of the four tau2 domains, held against counts made from the raw files by other means.

`TRACE_TAU2_DATA` names a folder of tau2 simulation files; beside it lies `domains/` with the tool schemas.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.formats.reading import read_trajectories
from trace_assets.environments.contract.description import TargetContract, contract_of, read_tools
from trace_assets.records import Trajectory

REAL = "TRACE_TAU2_DATA"
pytestmark = pytest.mark.skipif(REAL not in os.environ, reason=f"no {REAL}")

TARGETS = ("tau2:airline", "tau2:retail", "tau2:telecom", "tau2:telecom_solo")
COUNTED = {
    # runs, successes, answers that are no errors, errors: counted by hand, the agent's calls only
    "tau2:airline": (90, 32, 558, 81),
    "tau2:retail": (80, 68, 556, 35),
    "tau2:telecom": (80, 48, 853, 10),
    "tau2:telecom_solo": (80, 54, 1213, 2),
}


@pytest.fixture(scope="module")
def files() -> list[Path]:
    return sorted(Path(os.environ[REAL]).glob("*.json"))


@pytest.fixture(scope="module")
def runs(files: list[Path]) -> dict[str, list[Trajectory]]:
    found: dict[str, list[Trajectory]] = {}
    for trajectory in read_trajectories(files).trajectories:
        found.setdefault(trajectory.target, []).append(trajectory)
    return found


def extract(target: str, trajectories: list[Trajectory]) -> TargetContract:
    domain = target.removeprefix("tau2:").removesuffix("_solo")
    given = read_tools(Path(os.environ[REAL]).parent / "domains" / domain / "tools.json")
    return contract_of(target, given.agent, "policy", trajectories, user_tools=given.user)


@pytest.fixture(scope="module")
def contracts(runs: dict[str, list[Trajectory]]) -> dict[str, TargetContract]:
    start = time.process_time()
    made = {target: extract(target, runs[target]) for target in TARGETS}
    assert time.process_time() - start < 60, "330 trajectories take seconds"
    return made


def counted(files: list[Path], target: str) -> tuple[Counter[str], Counter[str], Counter[str], int]:
    """Count answers, errors and the user's calls in the raw files: no importer, no contract."""
    fine, errors, users = Counter[str](), Counter[str](), Counter[str]()
    n = 0
    for file in files:
        content: dict[str, Any] = json.loads(file.read_text())
        info = content["info"]
        solo = "_solo" if "solo" in info["agent_info"]["implementation"] else ""
        if f"tau2:{info['environment_info']['domain_name']}{solo}" != target:
            continue
        for simulation in content["simulations"]:
            n += 1
            asked: dict[str, tuple[str, str]] = {}
            for outer in simulation["messages"]:
                for message in outer.get("tool_messages") or [outer]:
                    for call in message.get("tool_calls") or []:
                        asked[call["id"]] = call["name"], message["role"]
                    if message["role"] == "tool":
                        name, by = asked[message["id"]]
                        bad = message["error"] or (message["content"] or "").startswith("Error")
                        if by == "user":
                            users[name] += 1
                        else:
                            (errors if bad else fine)[name] += 1
    return fine, errors, users, n


@pytest.mark.parametrize("target", TARGETS)
def test_counts_are_those_of_the_files(
    target: str, contracts: dict[str, TargetContract], files: list[Path]
) -> None:
    contract = contracts[target]
    fine, errors, users, n = counted(files, target)
    assert {shape.tool: shape.n for shape in contract.results if shape.n} == dict(fine)
    assert {shape.tool: shape.n_errors for shape in contract.results if shape.n_errors} == dict(errors)
    called = {shape.tool: shape.n + shape.n_errors for shape in contract.user_results}
    assert {name: times for name, times in called.items() if times} == dict(users)
    passed = contract.reference.n_successes
    assert (n, passed, fine.total(), errors.total()) == COUNTED[target]
    assert contract.n_trajectories == n
    assert contract.inferred == ()


@pytest.mark.parametrize("target", TARGETS)
def test_order_does_not_show(
    target: str, contracts: dict[str, TargetContract], runs: dict[str, list[Trajectory]]
) -> None:
    shuffled = random.Random(7).sample(runs[target], len(runs[target]))
    assert extract(target, shuffled).fingerprint() == contracts[target].fingerprint()


def test_retail_knows_which_state_its_writes_need(contracts: dict[str, TargetContract]) -> None:
    guards = {guard.tool: guard for guard in contracts["tau2:retail"].guards}
    cancel, exchange = guards["cancel_pending_order"], guards["exchange_delivered_order_items"]
    assert (cancel.read, cancel.field, cancel.allowed) == ("get_order_details", "status", ("pending",))
    assert cancel.refusal == "Error: Non-pending order cannot be cancelled"
    assert (exchange.allowed, exchange.forbidden) == (("delivered",), ("pending",))
    assert exchange.selects["item_ids"] == "items[].item_id"
    assert guards["modify_user_address"].read == "get_user_details"


def test_retail_shapes_are_nested(contracts: dict[str, TargetContract]) -> None:
    shape = contracts["tau2:retail"].result("get_user_details")
    assert shape is not None
    fields = shape.json_schema["properties"]
    assert fields["address"]["required"] == ["address1", "address2", "city", "country", "state", "zip"]
    assert "source" in fields["payment_methods"]["additionalProperties"]["required"]
    product = contracts["tau2:retail"].result("get_product_details")
    assert product is not None
    variants = product.json_schema["properties"]["variants"]
    assert variants["additionalProperties"]["properties"]["price"]["type"] == "number"
    assert len(json.dumps(shape.json_schema)) < 20_000


def test_telecom_users_have_tools_and_solo_agents_take_them(contracts: dict[str, TargetContract]) -> None:
    together, alone = contracts["tau2:telecom"], contracts["tau2:telecom_solo"]
    assert (len(together.tools), len(together.user_tools)) == (13, 30)
    assert (len(alone.tools), len(alone.user_tools)) == (43, 0)
    assert together.protocol.user_calls
    assert not alone.protocol.user_calls
    assert {guard.read_argument for guard in together.guards} == {"id"}
    suspended = next(guard for guard in alone.guards if guard.tool == "resume_line")
    assert (suspended.field, suspended.allowed) == ("status", ("Suspended",))
    assert together.protocol.end_signs == ("###STOP###", "###TRANSFER###")


def test_airline_errors_are_templates(contracts: dict[str, TargetContract]) -> None:
    shape = contracts["tau2:airline"].result("book_reservation")
    assert shape is not None
    assert (shape.error_texts[0].text, shape.error_texts[0].n) == (
        "Error: Payment method {payment_id} not found",
        17,
    )
    assert sum(error.n for error in shape.error_texts) == shape.n_errors == 34


def test_schemas_are_inferred_where_none_were_given(runs: dict[str, list[Trajectory]]) -> None:
    contract = contract_of("tau2:retail", [], "", runs["tau2:retail"])
    assert len(contract.tools) == len(contract.inferred) == 15
    cancel = contract.tool("cancel_pending_order")
    assert cancel.parameters["required"] == ["order_id", "reason"]
    assert cancel.mutates is True
