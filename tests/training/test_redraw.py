from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from trace_assets.records import Task
from trace_assets.training.episodes import Redrawn, Row, is_dead, redraw
from trace_assets.training.plan import Plan

POOL = tuple(Task(task_id=f"t/{index}", target="t", task_batch="b") for index in range(6))
SIZE = 4


def group(live: bool, token: int) -> list[Row]:
    rewards = [0.0, 1.0, 0.0, 0.0] if live else [0.0] * SIZE
    return [Row([1], [token], [0.0], [1], reward, bool(reward)) for reward in rewards]


class Dice:
    """Plays tasks; the groups come out as told, in order."""

    def __init__(self, outcomes: Sequence[bool]) -> None:
        self.outcomes, self.played, self.batches = list(outcomes), list[str](), list[str]()

    def __call__(self, tasks: Sequence[Task], batch: str) -> list[Row]:
        names = [task.task_id for task in tasks]
        assert all(len(set(names[start : start + SIZE])) == 1 for start in range(0, len(names), SIZE))
        self.played += names[::SIZE]
        self.batches.append(batch)
        return [row for _ in range(0, len(tasks), SIZE) for row in group(self._next(), 100)]

    def _next(self) -> bool:
        return self.outcomes.pop(0) if self.outcomes else False


def run(first: Sequence[bool], later: Sequence[bool], rounds: int, affordable: int) -> tuple[Redrawn, Dice]:
    dice = Dice(later)
    rows = [row for number, live in enumerate(first) for row in group(live, number)]
    plan = Plan(3, (), SIZE, len(first), POOL)
    return redraw(rows, plan, dice, rounds=rounds, affordable=affordable, seed="0/1"), dice


def test_dead_groups_are_replaced_and_live_ones_stay() -> None:
    found, dice = run([True, False, False, True], [False, True, True], rounds=3, affordable=99)
    tokens = [row.completion_ids[0] for row in found.rows[::SIZE]]
    assert tokens == [0, 100, 100, 3]
    assert (found.drawn, found.live) == (3, 1.0)
    assert dice.batches == ["redraw 1", "redraw 2"]


def test_without_luck_the_batch_stays_and_says_so() -> None:
    found, _ = run([True, False, False, True], [], rounds=2, affordable=99)
    assert [row.completion_ids[0] for row in found.rows[::SIZE]] == [0, 1, 2, 3]
    assert (found.drawn, found.live) == (4, 0.5)


def test_groups_without_two_judged_episodes_are_dead() -> None:
    broken = [Row([1], [1], [0.0], [0], None, None)] * 3 + group(True, 1)[1:2]
    assert is_dead(broken)
    assert not is_dead([*broken[:2], *group(True, 1)[:2]])


@given(
    first=st.lists(st.booleans(), min_size=1, max_size=6),
    later=st.lists(st.booleans(), max_size=30),
    rounds=st.integers(0, 5),
    affordable=st.integers(-2, 20),
)
def test_it_never_spends_more_than_it_may_nor_makes_a_batch_worse(
    first: list[bool], later: list[bool], rounds: int, affordable: int
) -> None:
    found, dice = run(first, later, rounds, affordable)
    assert found.drawn == len(dice.played) <= max(0, affordable)
    assert len(found.rows) == len(first) * SIZE
    assert len(dice.batches) <= rounds
    assert found.live >= sum(first) / len(first)
    again, same = run(first, later, rounds, affordable)
    assert (same.played, again.rows) == (dice.played, found.rows)
