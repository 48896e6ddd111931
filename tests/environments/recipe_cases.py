"""Instances of every detector family on four targets, as detectors name them."""

from __future__ import annotations

import os
import types
from functools import cache
from pathlib import Path
from typing import Any

from tests.formats.reading import read_trajectories
from trace_assets.environments.contract.description import TargetContract, contract_of, read_tools
from trace_assets.records import CapabilitySpec

REAL = "TRACE_TAU2_DATA"
"""Names a folder of tau2 simulation files; beside it lies `domains/` with the tool schemas."""

ANY: dict[str, dict[str, Any]] = {
    "claim_without_write": {"writes": []},
    "repeated_error": {},
    "idle_loop": {"limit": 3, "writes": []},
    "empty_turn": {},
}
CASES: dict[str, dict[str, dict[str, Any]]] = {
    "embedded": {
        "write_without_read": {"tool": "cancel_order", "read": "get_order"},
        "write_against_state": {
            "tool": "refund_item",
            "field": "window",
            "value": "closed",
            "instead": "transfer",
        },
        "write_on_kind": {
            "tool": "refund_item",
            "argument": "item",
            "values": ["mug", "rug"],
            "others": ["lamp", "desk", "chair"],
            "instead": "transfer",
        },
        "write_against_rule": {
            "tool": "refund_item",
            "argument": "order",
            "kind": "state",
            "field": "window",
            "values": ["open"],
            "only": True,
            "state": {},
        },
        "object_untouched": {"argument": "order"},
        "ended_with_work_open": {"tool": "update_address", "cues": ["address"]},
        "unsupported_argument": {"argument": "city", "tool": ""},
        "unanswered_state": {"read": "get_order", "field": "window", "value": "closed", "tool": "transfer"},
        "skipped_check": {"tool": "get_order", "cues": ["status"]},
        "unverified_write": {"writes": ["update_address", "exchange_item"], "reads": ["get_order"]},
        "unrecovered_error": {"tool": ""},
        **ANY,
    },
    "clinic": {
        "write_without_read": {"tool": "cancel_visit", "read": "get_visit"},
        "write_against_state": {
            "tool": "cancel_visit",
            "field": "status",
            "value": "over",
            "instead": "transfer_to_nurse",
        },
        "write_against_rule": {
            "tool": "cancel_visit",
            "argument": "visit_id",
            "kind": "state",
            "field": "status",
            "values": ["over"],
            "only": False,
            "state": {},
        },
        "object_untouched": {"argument": "visit_id"},
        "ended_with_work_open": {"tool": "move_visit", "cues": ["move"]},
        "unsupported_argument": {"argument": "room", "tool": ""},
        "unanswered_state": {
            "read": "get_visit",
            "field": "kind",
            "value": "first",
            "tool": "transfer_to_nurse",
        },
        "skipped_check": {"tool": "get_visit", "cues": ["kind"]},
        "write_after_refusal": {"tool": "cancel_visit", "words": ["cancel"]},
        "write_against_policy": {"tool": "move_visit", "argument": "visit_id"},
        "write_without_consent": {"tool": "drop_tests", "argument": "visit_id"},
        "unverified_write": {"writes": ["move_visit"], "reads": ["get_visit"]},
        "unrecovered_error": {"tool": "get_visit"},
        **ANY,
    },
    "tau2:retail": {
        "write_without_read": {"tool": "cancel_pending_order", "read": "get_order_details"},
        "write_against_state": {
            "tool": "return_delivered_order_items",
            "field": "status",
            "value": "pending",
            "instead": "",
        },
        "write_against_rule": {
            "tool": "modify_pending_order_address",
            "argument": "order_id",
            "kind": "state",
            "field": "status",
            "values": ["pending"],
            "only": True,
            "state": {},
        },
        "object_untouched": {"argument": "order_id"},
        "ended_with_work_open": {"tool": "return_delivered_order_items", "cues": ["return"]},
        "unsupported_argument": {"argument": "reason", "tool": ""},
        "unanswered_state": {
            "read": "get_order_details",
            "field": "status",
            "value": "processed",
            "tool": "transfer_to_human_agents",
        },
        "skipped_check": {"tool": "get_order_details", "cues": ["status"]},
        "write_after_refusal": {"tool": "cancel_pending_order", "words": ["cancel"]},
        "write_without_consent": {"tool": "modify_pending_order_address", "argument": "order_id"},
        "unverified_write": {"writes": ["cancel_pending_order"], "reads": ["get_order_details"]},
        "unrecovered_error": {"tool": "return_delivered_order_items"},
        **ANY,
    },
    "tau2:airline": {
        "write_without_read": {"tool": "cancel_reservation", "read": "get_reservation_details"},
        "write_against_state": {
            "tool": "update_reservation_flights",
            "field": "cabin",
            "value": "basic_economy",
            "argument": "reservation_id",
            "instead": "",
        },
        "write_against_rule": {
            "tool": "update_reservation_flights",
            "argument": "reservation_id",
            "kind": "state",
            "field": "cabin",
            "values": ["basic economy"],
            "only": False,
            "state": {},
        },
        "object_untouched": {"argument": "reservation_id"},
        "ended_with_work_open": {"tool": "cancel_reservation", "cues": ["cancel"]},
        "unsupported_argument": {"argument": "cabin", "tool": "update_reservation_flights"},
        "unanswered_state": {
            "read": "get_reservation_details",
            "field": "cabin",
            "value": "basic_economy",
            "tool": "transfer_to_human_agents",
        },
        "skipped_check": {"tool": "get_reservation_details", "cues": ["cabin"]},
        "write_against_policy": {"tool": "cancel_reservation", "argument": "reservation_id"},
        "write_after_refusal": {"tool": "cancel_reservation", "words": ["cancel"]},
        "write_without_consent": {"tool": "cancel_reservation", "argument": "reservation_id"},
        "unverified_write": {"writes": ["cancel_reservation"], "reads": ["get_reservation_details"]},
        "unrecovered_error": {"tool": "update_reservation_flights"},
        **ANY,
    },
    "tau2:telecom_solo": {
        "write_without_read": {"tool": "resume_line", "read": "get_details_by_id"},
        "write_against_state": {"tool": "resume_line", "field": "status", "value": "Active", "instead": ""},
        "write_against_rule": {
            "tool": "resume_line",
            "argument": "line_id",
            "kind": "past",
            "field": "contract_end_date",
            "now": "2025-02-25",
            "state": {},
        },
        "write_past_date": {
            "tool": "resume_line",
            "argument": "line_id",
            "field": "contract_end_date",
            "now": "2025-02-25 12:08:00",
            "state": {"status": "Suspended"},
        },
        "unverified_write": {
            "writes": ["resume_line", "toggle_data"],
            "reads": ["get_details_by_id", "check_status_bar"],
        },
        "object_untouched": {"argument": "line_id"},
        **ANY,
    },
}


def spec_of(target: str, family: str) -> CapabilitySpec:
    """Return the instance of a family on a target."""
    return CapabilitySpec(
        capability_id=family.replace("_", "-"),
        target=target,
        name=family,
        description="A capability.",
        detector=family,
        detector_args=CASES[target][family],
    )


def cases(*targets: str) -> list[tuple[str, str]]:
    """Return (target, family) of every case."""
    return [(target, family) for target in targets for family in sorted(CASES[target])]


@cache
def tau2_contract(target: str) -> TargetContract:
    """Return the contract of a tau2 domain, read off the simulation files."""
    domain = target.removeprefix("tau2:").removesuffix("_solo")
    folder = Path(os.environ[REAL]).parent / "domains" / domain
    runs = [t for t in _runs() if t.target == target]
    policy = folder / ("main_policy_solo.md" if target.endswith("_solo") else "policy.md")
    given = read_tools(folder / "tools.json")
    return contract_of(target, given.agent, policy.read_text(encoding="utf-8"), runs, user_tools=given.user)


@cache
def _runs() -> tuple[Any, ...]:
    return tuple(read_trajectories(sorted(Path(os.environ[REAL]).glob("*.json"))).trajectories)


def load(source: str) -> Any:
    """Execute a module of this project's own recipes here, to look at it closely."""
    module = types.ModuleType("environment")
    exec(compile(source, "environment.py", "exec"), module.__dict__)
    return module
