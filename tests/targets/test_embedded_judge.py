"""What the desk's judge lets pass and what it does not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.quick import examples
from trace_assets.records import ToolCall, Verdict
from trace_assets.targets.embedded.desk import TOOLS, Case, Item, Order, Request, solve
from trace_assets.targets.embedded.target import judge

LAMP = Item(name="lamp", colour="red")
MUG = Item(name="mug", colour="blue")


def order(number: str, status: str = "pending", window: str = "open") -> Order:
    return Order.model_validate(
        {"order": number, "status": status, "window": window, "city": "Rome", "items": (LAMP, MUG)}
    )


def case(*requests: Request, **first: str) -> Case:
    return Case(orders=(order("A0001", **first), order("B0002"), order("C0003")), requests=requests)


CANCEL = Request(wish="cancel", order="A0001")
REFUND = Request(wish="window", order="A0001", item="lamp")
STATUS = Request(wish="status", order="A0001")
MOVE = Request(wish="address", order="B0002", city="Oslo")


def run(of: Case, calls: Sequence[tuple[str, dict[str, str]]], reply: str) -> Verdict:
    desk = of.desk()
    for name, arguments in calls:
        desk.call(ToolCall(id="x", name=name, arguments=arguments))
    return judge(of, desk, reply)


def failed(verdict: Verdict) -> set[str]:
    return {check.name for check in verdict.checks if not check.passed}


LOOK = ("get_order", {"order": "A0001"})


def test_cancelling_a_pending_order_after_looking_succeeds() -> None:
    verdict = run(case(CANCEL), [LOOK, ("cancel_order", {"order": "A0001"})], "It is cancelled.")
    assert (verdict.success, verdict.reward) == (True, 1.0)


def test_cancelling_without_looking_fails_on_that_alone() -> None:
    verdict = run(case(CANCEL), [("cancel_order", {"order": "A0001"})], "It is cancelled.")
    assert not verdict.success
    assert failed(verdict) == {"looked_up_first:A0001"}
    assert verdict.reward == pytest.approx(0.5 * 4 / 5)


def test_looking_after_acting_does_not_mend_it() -> None:
    verdict = run(case(CANCEL), [("cancel_order", {"order": "A0001"}), LOOK], "It is cancelled.")
    assert failed(verdict) == {"looked_up_first:A0001"}


def test_a_shipped_order_is_transferred_not_cancelled() -> None:
    shipped = case(CANCEL, status="shipped")
    handed = ("transfer", {"order": "A0001", "reason": "not_pending"})
    assert run(shipped, [LOOK, handed], "The case is transferred.").success
    assert failed(run(shipped, [LOOK, handed, handed], "transferred")) == {"transfer:A0001"}
    wrong = run(shipped, [LOOK, ("cancel_order", {"order": "A0001"})], "It is cancelled.")
    assert failed(wrong) == {"state:A0001", "transfer:A0001", "reply:A0001"}


def test_a_closed_window_forbids_the_refund() -> None:
    closed = case(REFUND, window="closed")
    refund = ("refund_item", {"order": "A0001", "item": "lamp"})
    assert failed(run(closed, [LOOK, refund], "The item is refunded.")) >= {"state:A0001", "transfer:A0001"}
    assert run(case(REFUND), [LOOK, refund], "The item is refunded.").success
    other = ("refund_item", {"order": "A0001", "item": "mug"})
    assert failed(run(case(REFUND), [LOOK, other], "The item is refunded.")) == {"state:A0001"}


def test_the_second_of_two_requests_counts() -> None:
    both = case(STATUS, MOVE)
    verdict = run(both, [LOOK], "The order is pending.")
    assert failed(verdict) == {"looked_up_first:B0002", "state:B0002", "reply:B0002"}


def test_touching_an_order_that_nobody_named_fails() -> None:
    calls = [LOOK, ("update_address", {"order": "C0003", "city": "Oslo"})]
    assert failed(run(case(STATUS), calls, "It is pending.")) == {"nothing_else_touched"}
    handed = [LOOK, ("transfer", {"order": "C0003", "reason": "other"})]
    assert failed(run(case(STATUS), handed, "It is pending.")) == {"nothing_else_touched"}


def test_naming_every_status_is_no_answer() -> None:
    verdict = run(case(STATUS), [LOOK], "It is pending, shipped or delivered.")
    assert failed(verdict) == {"reply:A0001"}


def test_refused_calls_cost_and_change_nothing() -> None:
    bad = [
        ("get_order", {"order": "Z9999"}),
        ("open_safe", {}),
        ("refund_item", {"order": "A0001"}),
        ("refund_item", {"order": "A0001", "item": "piano"}),
        ("transfer", {"order": "A0001", "reason": "bored"}),
    ]
    verdict = run(case(STATUS), [*bad, LOOK], "It is pending.")
    assert verdict.success
    assert verdict.reward == pytest.approx(0.75)


calls = st.lists(
    st.tuples(
        st.sampled_from([tool.name for tool in TOOLS]),
        st.fixed_dictionaries(
            {"order": st.sampled_from(["A0001", "B0002", "C0003", "D0004"])},
            optional={
                "item": st.sampled_from(["lamp", "rug"]),
                "city": st.just("Oslo"),
                "colour": st.just("pink"),
                "reason": st.sampled_from(["other", "not_pending"]),
            },
        ),
    ),
    max_size=7,
)
wishes = st.sampled_from([CANCEL, REFUND, STATUS])


@settings(max_examples=examples(200), deadline=None)
@given(calls, wishes, st.sampled_from(["pending", "shipped"]), st.sampled_from(["open", "closed"]), st.text())
def test_rewards_are_graded_and_only_success_reaches_more_than_half(
    made: list[tuple[str, dict[str, str]]], wish: Request, status: str, window: str, reply: str
) -> None:
    verdict = run(case(wish, status=status, window=window), made, reply)
    assert verdict.reward is not None
    assert 0.0 <= verdict.reward <= 1.0
    assert verdict.success == all(check.passed for check in verdict.checks)
    assert verdict.success or verdict.reward <= 0.5


@given(wishes, st.sampled_from(["pending", "shipped", "delivered"]), st.sampled_from(["open", "closed"]))
def test_the_oracle_leaves_no_check_open(wish: Request, status: str, window: str) -> None:
    of = case(wish, MOVE, status=status, window=window)
    turns = solve(of)
    made = [(call.name, call.arguments) for turn in turns for call in turn.tool_calls]
    verdict = run(of, made, turns[-1].content or "")
    assert (verdict.success, verdict.reward) == (True, 1.0)
