"""The simulation of docs/cluster.md: its tables are those of the page, and right where one can reckon."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from scale import EPISODES, Training, shard_efficiency, shard_table, train, training_table

PAGE = Path(__file__).parents[2] / "docs" / "cluster.md"


def test_the_page_shows_what_the_simulation_gives() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for table in (shard_table(), training_table()):
        lines = list(table)
        assert "\n".join(lines) in page, "python tests/cluster/scale.py prints it:\n" + "\n".join(lines)


def test_one_worker_with_one_shard_waits_for_its_beginning_alone() -> None:
    # One draw of a shard's time: 1 by the gamma's mean, so the efficiency lies around it, never far.
    assert 0.4 < shard_efficiency(1, EPISODES) < 3.0
    many = shard_efficiency(1, 16)
    assert many == pytest.approx((16 / 1.5) / (16 / 1.5 + 3.0), rel=0.01)


def test_more_nodes_than_adapters_take_as_long_as_the_longest() -> None:
    few, more = train(Training(20, adapters=20), seed=3), train(Training(40, adapters=20), seed=3)
    assert few.hours == more.hours > 5.0 and few.lost == 0.0
    alone = train(Training(1, adapters=20), seed=3)
    assert alone.hours == pytest.approx(alone.work)


def test_a_taken_node_costs_what_was_done_since_the_last_checkpoint() -> None:
    often = train(Training(4, taken=0.3, checkpoint=0.05, adapters=12), seed=1)
    seldom = train(Training(4, taken=0.3, checkpoint=math.inf, adapters=12), seed=1)
    assert 0.0 < often.lost < seldom.lost and often.hours < seldom.hours
