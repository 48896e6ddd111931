"""What tells one decision from another by right: a wish, or a look that only one of them takes."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from trace_assets.environments.audit import told
from trace_assets.environments.audit.check import Subject
from trace_assets.environments.audit.decision_tree import Decided, looked_at_by_all
from trace_assets.environments.audit.severity import RULES

SEEDS = 60
BOOK, BAGS, NONE = "book_reservation", "update_reservation_baggages", "no change"


def subject(cases: list[Decided]) -> Subject:
    """An audit's subject that has played already."""
    return cast(Subject, SimpleNamespace(rules=RULES, purpose=None, _decided=cases))


def case(seed: int, text: str, kind: str, row: dict[str, Any]) -> Decided:
    writes = () if kind == NONE else (kind,)
    # The same answer everywhere: here only `row` and the opening may tell anything.
    raw = {"get_user": '{"member": true}'}
    return Decided(seed, [{"role": "user", "content": text}], row, raw, kind, writes, "A", frozenset())


def two_wishes(draw: int) -> list[Decided]:
    """A booking, or more bags, as wished; neither without a card. Flights are searched only to book."""
    rng = random.Random(draw)
    cases = []
    for seed in range(SEEDS):
        wish, card = rng.choice((BOOK, BAGS)), rng.random() < 0.7
        row: dict[str, Any] = {"get_user.member": rng.random() < 0.5, "get_user.trips#": rng.randint(1, 3)}
        if wish == BOOK:
            text = "- Please take my friend along.\n- On the same flights."
            row |= {"search_flight#": 3} if card else {}
        else:
            text = "Add two checked bags to my trip."
        cases.append(case(seed, text, wish if card else NONE, row | {"get_user.card": card}))
    return cases


def one_rule(
    draw: int, text: Callable[[str, random.Random], str], length: int | None = None
) -> list[Decided]:
    """Two changes between which the status of the order decides, that is always looked up."""
    rng = random.Random(draw)
    cases = []
    for seed in range(SEEDS):
        kind = rng.choice(("cancel_order", "return_order"))
        row = {
            "get_order.status": "pending" if kind == "cancel_order" else "delivered",
            "get_order.items#": rng.randint(1, 3) if length is None else length + (kind == "return_order"),
        }
        if kind == "return_order":
            row["get_policy.days"] = 30  # a look that only this one takes
        cases.append(case(seed, text(kind, rng), kind, row))
    return cases


def a_wish_a_thing(draw: int) -> list[Decided]:
    """Two orders in a request, each to be cancelled or refunded; only what was sent can be refunded."""
    rng = random.Random(draw)
    words = {
        "cancel_order": ("please cancel order {}", "can you call off order {}", "drop order {}, cancel it"),
        "refund_item": (
            "refund the mug of order {}",
            "i want my money back for the mug in order {}",
            "i do not like the mug of order {}, refund it",
        ),
    }
    cases = []
    for seed in range(SEEDS):
        kind, other = rng.choice(list(words)), rng.choice(list(words))
        text = rng.choice((" and ", ", then ")).join(
            (rng.choice(words[kind]).format("A17"), rng.choice(words[other]).format("B20"))
        )
        row = {"get_order.status": "pending" if kind == "cancel_order" else "delivered"}
        made = replace(case(seed, text, kind, row), thing="A17", things=frozenset({"A17", "B20"}))
        cases.append(made)
    return cases


def plain(kind: str, rng: random.Random) -> str:
    return rng.choice(("I no longer want it.", "Please undo my purchase.", "Take it off my hands!"))


def leaking(kind: str, rng: random.Random) -> str:
    return plain(kind, rng) + (" Thanks." if kind == "cancel_order" else " Cheers.")


@pytest.mark.parametrize("draw", range(10))
def test_two_wishes_are_no_leak(draw: int) -> None:
    asked = subject(two_wishes(draw))
    assert told.opening(asked).status != "fail"
    assert told.results(asked).status != "fail"


@pytest.mark.parametrize("draw", range(10))
def test_a_wish_for_each_of_two_things_is_no_leak(draw: int) -> None:
    assert told.opening(subject(a_wish_a_thing(draw))).status != "fail"


@pytest.mark.parametrize("draw", range(10))
def test_words_that_tell_what_only_a_look_should_are(draw: int) -> None:
    found = told.opening(subject(one_rule(draw, leaking)))
    assert found.status == "fail" and ("thanks" in found.evidence or "cheers" in found.evidence)
    assert told.opening(subject(one_rule(draw, plain))).status == "pass"


@pytest.mark.parametrize("draw", range(10))
def test_a_lists_length_that_every_decision_sees_is_a_leak_where_it_tells_it(draw: int) -> None:
    found = told.results(subject(one_rule(draw, plain, length=2)))
    assert found.status == "fail" and "get_order.items#" in found.evidence
    assert told.results(subject(one_rule(draw, plain))).status != "fail"


def test_a_look_that_one_decision_takes_as_a_rule_and_another_does_not_is_left_out() -> None:
    cases = one_rule(0, plain)
    paths = {path for row in looked_at_by_all(cases) for path in row}
    assert paths == {"get_order.status", "get_order.items#"}
    # One seed of many on which the look was not taken hides nothing.
    cases[0].row.clear()
    assert {path for row in looked_at_by_all(cases) for path in row} == paths
