"""Episodes begun ahead: each is handed out once, faults go to whoever takes them, nothing is left over."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from trace_assets.sandbox import EnvironmentFault, SandboxUnavailable
from trace_assets.targets.timing import HeadStart


class Live:
    def __init__(self, seed: int, where: str) -> None:
        self.seed, self.where, self.closed = seed, where, False

    def close(self) -> None:
        self.closed = True


class Fake:
    """Resets that are told from which thread they were made; those begun ahead may be held at a gate."""

    def __init__(self, fault: Exception | None = None) -> None:
        self.made: list[Live] = []
        self.fault, self.gate, self.begun = fault, threading.Event(), threading.Event()
        self.gate.set()

    def reset(self, seed: int) -> Any:
        where = threading.current_thread().name.partition("_")[0]
        if where == "head-start":
            self.begun.set()
            assert self.gate.wait(600)
            if self.fault is not None:
                raise self.fault
        self.made.append(Live(seed, where))
        return self.made[-1]


def started(fake: Fake, seeds: list[int]) -> HeadStart:
    head_start = HeadStart(fake)  # type: ignore[arg-type]
    head_start.begin(seeds)
    return head_start


def test_each_begun_episode_is_handed_out_once() -> None:
    fake = Fake()
    head_start = started(fake, [3, 3, 5])
    wait_for(fake, 3)
    first, second, third, fresh = (head_start.take(seed) for seed in (3, 3, 5, 3))
    assert len({id(one) for one in (first, second, third, fresh)}) == 4
    assert [one.where for one in fake.made].count("head-start") == 3
    assert (third.seed, fake.made[-1].where) == (5, "MainThread")
    head_start.close()
    assert not any(one.closed for one in fake.made), "what was taken is the taker's"


def wait_for(fake: Fake, n: int) -> None:
    for _ in range(120_000):
        if len(fake.made) >= n:
            return
        threading.Event().wait(0.005)
    raise AssertionError(f"only {len(fake.made)} of {n} were begun")


def test_what_is_not_taken_is_ended() -> None:
    fake = Fake()
    head_start = started(fake, [1, 2])
    wait_for(fake, 2)
    head_start.begin([7])
    assert all(one.closed for one in fake.made[:2])
    head_start.close()
    assert all(one.closed for one in fake.made)


def test_one_that_has_not_begun_is_not_waited_for() -> None:
    fake = Fake()
    fake.gate.clear()
    head_start = started(fake, list(range(20)))
    assert head_start.take(19).where == "MainThread"  # type: ignore[attr-defined]
    fake.gate.set()
    head_start.close()


def test_a_fault_goes_to_the_taker_and_want_of_room_is_tried_again() -> None:
    fake = Fake(EnvironmentFault("it raised"))
    head_start = started(fake, [1])
    assert fake.begun.wait(600)
    with pytest.raises(EnvironmentFault, match="it raised"):
        head_start.take(1)
    head_start.close()
    fake = Fake(SandboxUnavailable("all are busy"))
    head_start = started(fake, [1])
    assert fake.begun.wait(600)
    assert head_start.take(1).where == "MainThread"  # type: ignore[attr-defined]
    head_start.close()


class Small(Fake):
    """Room for so many that are not closed."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room

    def reset(self, seed: int) -> Any:
        if sum(not one.closed for one in self.made) >= self.room:
            raise SandboxUnavailable("all are busy")
        return super().reset(seed)


def test_what_was_begun_ahead_makes_way_for_what_is_asked_for() -> None:
    fake = Small(2)
    head_start = started(fake, [1, 2])
    wait_for(fake, 2)
    taken = head_start.take(1), head_start.take(3)
    assert [one.seed for one in taken] == [1, 3]
    assert [one.seed for one in fake.made if one.closed] == [2]
    with pytest.raises(SandboxUnavailable, match="busy"):
        head_start.take(4)
    assert not any(one.closed for one in taken)  # type: ignore[attr-defined]
    head_start.close()
