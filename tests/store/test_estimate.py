"""Estimates rest on past runs, say on how many, and say so where there are none."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from trace_assets.records import LedgerEntry
from trace_assets.store.history import RECENT, Estimate, Past, Range, estimate, history, total

START = datetime(2026, 1, 1, tzinfo=UTC)


def booked(
    minute: int, asset: str, partition: str = "", usd: float = 0.0, **kinds: float
) -> list[LedgerEntry]:
    """Return the entries of one run, or of money alone when there is no `wall`."""
    return [
        LedgerEntry(
            recorded_at=START + timedelta(minutes=minute),
            stage="x",
            asset=asset,
            partition=partition,
            kind=kind,
            quantity=quantity,
            unit="s",
            cost_usd=usd if place == 0 else 0.0,
        )
        for place, (kind, quantity) in enumerate(kinds.items())
    ]


def test_runs_are_put_together_from_their_entries_in_order_of_time() -> None:
    entries = [
        *booked(2, "trajectories", "b", wall=30, cpu=50, rollouts=200, usd=0.5),
        *booked(1, "trajectories", "b", wall=10, cpu=50, rollouts=100, usd=0.1),
    ]
    assert history(entries) == {("trajectories", "b"): [Past(10, 100, 0.1), Past(30, 200, 0.5)]}
    assert history([]) == {}


def test_money_of_a_killed_attempt_is_not_lost() -> None:
    spent = booked(1, "labels", "b", completion_tokens=10, usd=2.0)
    done = booked(3, "labels", "b", wall=5)
    late = booked(4, "labels", "b", completion_tokens=1, usd=0.25)
    assert history([*spent, *done]) == {("labels", "b"): [Past(5, 0, 2.0)]}
    assert history([*done, *late]) == {("labels", "b"): [Past(5, 0, 0.25)]}
    assert history(spent) == {}  # nothing was made, so there is no time to estimate from


def test_own_runs_come_before_those_of_other_partitions() -> None:
    past = {("adapter", "a"): [Past(60, 8, 0)], ("adapter", "b"): [Past(20, 8, 0), Past(40, 8, 0)]}
    own = estimate(past, "adapter", "b")
    assert (own.seconds, own.n, own.basis) == (Range(30, 20, 40), 2, "itself")
    new = estimate(past, "adapter", "c")
    assert (new.seconds, new.n, new.basis) == (Range(40, 20, 60), 3, "others")
    assert estimate(past, "routing") == Estimate()


def test_only_recent_runs_count() -> None:
    runs = [Past(1000, 0, 0), *[Past(1, 0, 0)] * RECENT]
    assert estimate({("report", ""): runs}, "report").seconds == Range(1, 1, 1)


def test_a_sum_says_on_how_many_runs_it_rests() -> None:
    past = {("a", ""): [Past(1, 2, 3), Past(3, 2, 3)], ("b", ""): [Past(10, 0, 0)]}
    whole = total([estimate(past, "a"), estimate(past, "b"), estimate(past, "c")])
    assert (whole.seconds, whole.episodes.middle, whole.usd.middle, whole.n) == (Range(12, 11, 13), 2, 3, 3)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=12))
def test_the_middle_lies_between_the_bounds(seconds: list[float]) -> None:
    found = estimate({("x", "p"): [Past(one, 0, 0) for one in seconds]}, "x", "p")
    assert found.seconds.low <= found.seconds.middle <= found.seconds.high
    assert found.n == min(len(seconds), RECENT)
