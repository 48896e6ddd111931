from __future__ import annotations

import math
from typing import Any

import pytest

from trace_assets.records import TrainingPoint
from trace_assets.settings import Training
from trace_assets.training.validation import readings

SOUND: dict[str, Any] = {
    "entropy": 1.0,
    "clip_ratio": 0.0,
    "grad_norm": 0.5,
    "sampler_kl": 1e-9,
    "sampler_difference": 1e-4,
    "outside_clip": 0.0,
}


def curve(n: int = 12, **changes: Any) -> list[TrainingPoint]:
    values = {"reward_mean": 0.2, "reward_std": 0.4, "success_rate": 0.2, "n": 40, "dead_groups": 0.3}
    return [
        TrainingPoint(
            name="a",
            iteration=number,
            **{
                key: value(number) if callable(value) else value
                for key, value in {**values, **SOUND, **changes}.items()
            },
        )
        for number in range(1, n + 1)
    ]


def unsound(points: list[TrainingPoint]) -> dict[str, str]:
    return {one.name: one.says for one in readings(points, Training()) if not one.sound}


def test_a_quiet_run_warns_of_nothing_and_says_n() -> None:
    assert unsound(curve()) == {}
    assert all("12 iterations" in one.says or one.name == "entropy" for one in readings(curve(), Training()))


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"sampler_kl": lambda i: 0.02 if i == 7 else 0.0}, {"sampler_kl"}),
        ({"sampler_kl": math.nan}, {"sampler_kl"}),
        ({"outside_clip": 0.06}, {"outside_clip"}),
        ({"clip_ratio": 0.31}, {"clip_ratio"}),
        ({"dead_groups": 0.81}, {"dead_groups"}),
        ({"grad_norm": 10.1}, {"grad_norm"}),
        ({"entropy": lambda i: 1.0 if i < 5 else 0.01}, {"entropy"}),
        ({"entropy": lambda i: 1.0 if i < 5 else 0.01, "success_rate": 0.9}, set()),
        ({"grad_norm": lambda i: 50.0 if i == 3 else 0.5}, set()),
        ({"dead_groups": lambda i: 1.0 if i > 6 else 0.3}, set()),
        ({"dead_groups": 0.95, "success_rate": 0.95}, set()),
        ({"dead_groups": 0.95, "success_rate": 0.02}, {"dead_groups"}),
        ({"grad_norm": 0.0}, set()),
    ],
)
def test_each_monitor_warns_of_its_own(changes: dict[str, Any], names: set[str]) -> None:
    assert set(unsound(curve(**changes))) == names


def test_an_old_curve_without_the_columns_is_not_condemned() -> None:
    nothing: dict[str, Any] = dict.fromkeys(SOUND)
    bare = curve(12, **nothing)
    assert unsound(bare) == {}
    assert [one.name for one in readings(bare, Training()) if one.value is not None] == ["dead_groups"]
    assert unsound([]) == {}
