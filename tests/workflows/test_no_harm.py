"""Harm is flagged, bars an adapter that gains nothing from routers, and stops only where none is left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trace_assets.assets import routing
from trace_assets.assets.adapter_validation import _no_harm_check
from trace_assets.records import NoHarm
from trace_assets.study import Study


def harm(adapter: str, verdict: str, own_low: float | None) -> NoHarm:
    figures: dict[str, Any] = {
        f"{side}_{name}": 0.5
        for side in ("own", "other")
        for name in ("base", "adapter", "delta", "delta_low", "delta_high")
    }
    figures |= {"own_n": 10, "other_n": 10, "own_delta_low": own_low, "own_skills": ()}
    return NoHarm.model_validate(
        {"adapter": adapter, "verdict": verdict, "reason": f"{adapter} is {verdict}", **figures}
    )


GOOD, BRUTE, USELESS = (
    harm("good", "harmless", 0.1),
    harm("brute", "harmful", 0.1),
    harm("useless", "harmful", -0.1),
)


def test_harmless_adapters_pass() -> None:
    check = _no_harm_check([GOOD], ["good"], [])
    assert check.passed and check.severity == "warning" and "good is harmless" in check.detail


def test_harm_behind_a_router_is_a_warning() -> None:
    check = _no_harm_check([GOOD, BRUTE], ["brute", "good"], [])
    assert (check.passed, check.severity) == (False, "warning") and "No router" not in check.detail


def test_one_barred_adapter_leaves_the_others() -> None:
    check = _no_harm_check([GOOD, USELESS], ["good", "useless"], ["useless"])
    assert (check.passed, check.severity) == (False, "warning")
    assert "No router may choose useless" in check.detail and "stays closed" not in check.detail


def test_without_any_adapter_left_the_test_split_stays_closed() -> None:
    check = _no_harm_check([USELESS], ["useless"], ["useless"])
    assert (check.passed, check.severity) == (False, "error") and "stays closed" in check.detail
    untrained = _no_harm_check([], [], [])
    assert untrained.severity == "warning" and "no adapter was trained" in untrained.detail


def test_router_chooses_among_accepted_adapters_that_are_not_barred(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routing, "accepted_adapters", lambda study: ["brute", "good", "useless"])
    study = Study.open(tmp_path, overrides=[])
    assert routing.usable_adapters(study) == ["brute", "good", "useless"]  # nothing was validated yet
    study.store.write([GOOD, BRUTE, USELESS], NoHarm)
    assert routing.usable_adapters(study) == ["brute", "good"]


def test_a_later_round_that_leaves_no_adapter_takes_none_and_stops_nothing() -> None:
    """No router and no test split follow it: what stands is the agent of the round before."""
    check = _no_harm_check([USELESS], ["useless"], ["useless"], routed=False)
    assert (check.passed, check.severity) == (False, "warning")
    assert "this round takes none" in check.detail and "stays closed" not in check.detail
