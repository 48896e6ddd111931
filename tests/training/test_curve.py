from __future__ import annotations

from pathlib import Path

import pytest

from trace_assets.records import TrainingPoint
from trace_assets.training.checkpoints import Curve, read_curve


def point(iteration: int) -> TrainingPoint:
    return TrainingPoint(
        name="a", iteration=iteration, reward_mean=0.5, reward_std=0.1, success_rate=0.5, n=8, dead_groups=0.0
    )


def test_points_survive_and_a_torn_line_does_not_hurt(tmp_path: Path) -> None:
    path = tmp_path / "work" / "curve.jsonl"
    curve = Curve(path)
    for iteration in (1, 2, 3):
        curve.append(point(iteration))
    with path.open("a") as file:
        file.write('{"name": "a", "iterat')
    assert [p.iteration for p in read_curve(path)] == [1, 2, 3]
    again = Curve(path)
    again.append(point(4))
    assert [p.iteration for p in read_curve(path)] == [1, 2, 3, 4]


def test_points_after_the_checkpoint_are_made_again(tmp_path: Path) -> None:
    path = tmp_path / "curve.jsonl"
    curve = Curve(path)
    for iteration in (1, 2, 3, 4, 5):
        curve.append(point(iteration))
    assert [p.iteration for p in Curve(path, upto=3).points] == [1, 2, 3]
    assert [p.iteration for p in read_curve(path)] == [1, 2, 3]


def test_an_iteration_is_never_written_twice(tmp_path: Path) -> None:
    curve = Curve(tmp_path / "curve.jsonl")
    curve.append(point(1))
    with pytest.raises(ValueError, match="not later"):
        curve.append(point(1))
