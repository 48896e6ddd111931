"""What families read out of a policy and of runs: sums, figures to be told, looks, choices."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.diagnosis.detectors.dialogues import agent, call, transcript, user
from trace_assets.diagnosis.detectors import FAMILIES, Corpus, Detector, Proposal, Transcript
from trace_assets.records import Message

BY_NAME: dict[str, Detector] = {family.name: family for family in FAMILIES}
Parts = list[list[Message]]


def propose(name: str, policy: str, runs: Sequence[Parts]) -> list[Proposal]:
    made = [transcript(*parts, task=f"x/{number}") for number, parts in enumerate(runs)]
    for number, one in enumerate(made):
        one.trajectory_id = f"t{number}"
    return BY_NAME[name].propose(Corpus(made, policy=policy))


def labels(name: str, proposal: Proposal, runs: Sequence[Parts]) -> list[str]:
    return [BY_NAME[name].label(_made(parts), proposal.args).label for parts in runs]


def _made(parts: Parts) -> Transcript:
    return transcript(*parts)


def repaid(paid: float, back: float, *, said: str = "", express: bool = False) -> Parts:
    """A refund: what the record has, what was said before, what was paid back."""
    return [
        user("Please cancel booking B1007"),
        call(
            "get_booking", json.dumps({"booking": "B1007", "paid": paid, "on": "2031-05-02"}), booking="B1007"
        ),
        agent(said or "Shall I?"),
        user("Yes"),
        call("refund_booking", booking="B1007", amount=back, express=express),
    ]


KEPT = "A refund is what was paid less a handling fee of 18 euros."
RIGHT = [repaid(paid, paid - 18) for paid in (64, 72, 85, 90)]


def test_a_sum_less_the_policys_fee() -> None:
    (one,) = propose("other_sum", KEPT, [*RIGHT, repaid(70, 70)])
    assert (one.args["tool"], one.args["argument"], one.args["number"]) == ("refund_booking", "amount", 18.0)
    assert (one.args["way"], one.args["situation"]) == ("less", {})
    assert one.name == "Take the policy's 18 euros off the amount when refunding the booking"
    assert labels("other_sum", one, [RIGHT[0], repaid(70, 70), repaid(70, 11)]) == [
        "PRESENT",
        "LACKING",
        "NA",
    ]


@pytest.mark.parametrize(
    ("policy", "runs"),
    [
        ("Be kind.", RIGHT),  # no figure
        (KEPT, RIGHT[:2]),  # too few
        (KEPT, [repaid(64, 46)] * 4),  # always the same sum: it may be a price
        ("A refund takes 18 days.", RIGHT),  # no sum of money
        (KEPT, [repaid(paid, paid) for paid in (64, 72, 85, 90)]),  # nobody reckons so
    ],
)
def test_no_sum_is_made_of_less(policy: str, runs: Sequence[Parts]) -> None:
    assert propose("other_sum", policy, runs) == []


def test_a_charge_in_one_situation_alone() -> None:
    runs = [
        *(repaid(paid, paid + 29, express=True) for paid in (64, 72, 85)),
        *(repaid(paid, paid) for paid in (40, 50, 60, 70)),
    ]
    (one,) = propose("other_sum", "Express costs $29 extra.", runs)
    assert one.args["situation"] == {"argument": "express", "values": ["true"]}
    assert labels("other_sum", one, [repaid(66, 66, express=True), repaid(66, 66)]) == ["LACKING", "NA"]


@pytest.mark.parametrize(("kept", "way"), [(0.75, "part_less"), (0.25, "part"), (1.25, "part_plus")])
def test_a_share_of_a_sum(kept: float, way: str) -> None:
    runs = [repaid(paid, paid * kept) for paid in (64, 72, 88, 96)]
    (one,) = propose("other_sum", "A fee of 25% applies to refunds.", runs)
    assert (one.args["number"], one.args["way"]) == (0.25, way)


TELL = "A handling fee of 18 euros is kept. Before you refund a booking, tell the customer this figure."
TOLD = [repaid(paid, paid - 18, said="18 euros are kept.") for paid in (64, 72, 85)]


def test_a_figure_that_has_to_be_told() -> None:
    (one,) = propose("untold_figure", TELL, [*TOLD, repaid(70, 52)])
    assert (one.args["tool"], one.args["number"]) == ("refund_booking", 18.0)
    assert one.name == "Tell the user 18 euros before refunding the booking"
    assert labels("untold_figure", one, [TOLD[0], repaid(70, 52)]) == ["PRESENT", "LACKING"]


def test_a_field_that_has_to_be_told() -> None:
    policy = "Name the amount before you refund a booking."
    told = [repaid(paid, paid, said=f"You get {paid} back.") for paid in (64, 72, 85)]
    (one,) = propose("untold_figure", policy, [*told, repaid(70, 70)])
    assert one.args["field"] == "amount"
    assert labels("untold_figure", one, [told[0], repaid(70, 70)]) == ["PRESENT", "LACKING"]


@pytest.mark.parametrize(
    ("policy", "runs"),
    [
        ("A handling fee of 18 euros is kept.", TOLD),  # nobody has to be told
        (TELL, [repaid(70, 52)] * 5),  # nobody tells
        ("A fee of 18 euros is kept. Tell the customer this figure before you lend a book.", TOLD),
    ],
)
def test_no_figure_is_wanted_of_less(policy: str, runs: Sequence[Parts]) -> None:
    assert propose("untold_figure", policy, runs) == []


def rented(boat: str, *, looked: bool, kind: str = "open") -> Parts:
    look = [call("show_licence", f'{{"of": "C1007", "kind": "{boat}"}}', of="C1007")] if looked else []
    return [user(f"I want the {boat} boat"), *look, call("rent_boat", boat="B-1")]


SAIL = "Sailing boats are handed only to people with a licence."


def test_a_look_for_some_situations() -> None:
    runs = [
        *(rented("sailing", looked=True) for _ in range(4)),
        *(rented("rowing", looked=False) for _ in range(5)),
    ]
    (one,) = propose("situational_step", SAIL, runs)
    # What the look itself shows tells no situation: who did not take it did not see that.
    assert one.args == {
        "tool": "rent_boat",
        "step": "show_licence",
        "first": True,
        "situation": {"word": "saili"},
    }
    wrong = rented("sailing", looked=False)
    assert labels("situational_step", one, [runs[0], wrong, runs[-1]]) == ["PRESENT", "LACKING", "NA"]
    assert propose("situational_step", "Be kind.", runs) == []
    assert propose("situational_step", SAIL, [rented("sailing", looked=False)] * 9) == []


def bought(said: str, **given: Any) -> Parts:
    return [user(said), call("buy_mugs", **given)]


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (lambda n: bought(f"{n} mugs, please", count=n), bought("two mugs", count=9)),
        (lambda n: bought(f"for May {n}", day=f"2031-05-{n:02}"), bought("for May 2", day="2031-05-03")),
        (lambda n: bought(f"at {n} pm", time=f"{n + 12}:00"), bought("at 2 pm", time="11:00")),
        (
            lambda n: bought(f"to {n} Mill Lane", to=f"{n} Mill Lane"),
            bought("to 4 Mill Lane", to="5 Mill Lane"),
        ),
    ],
    ids=["count", "day", "time", "address"],
)
def test_what_users_name(right: Callable[[int], Parts], wrong: Parts) -> None:
    runs = [right(n) for n in range(2, 8)]
    (one,) = propose("other_than_asked", "", [*runs, wrong])
    assert labels("other_than_asked", one, [*runs, wrong]) == ["PRESENT"] * 6 + ["LACKING"]


def test_what_users_do_not_name_is_no_wish() -> None:
    runs = [bought("mugs, please", count=n, gift=True, note="x" * n) for n in range(2, 8)]
    assert propose("other_than_asked", "", runs) == []


def chosen(said: str, slot: int) -> Parts:
    rows = [{"slot": f"S-10{n}", "starts": f"2031-05-1{n}T1{n}:00"} for n in range(4)]
    return [user(said), call("list_slots", json.dumps(rows)), call("book_slot", slot=f"S-10{slot}")]


def test_the_record_that_fits_best() -> None:
    runs = [chosen(f"May 1{n} at 1{n}:00, please", n) for n in (0, 1, 2, 3)]
    (one,) = propose("other_choice_taken", "", runs)
    others = [chosen("May 12 at 12:00", 2), chosen("May 12 at 12:00", 3), chosen("soon", 3)]
    assert labels("other_choice_taken", one, others) == ["PRESENT", "LACKING", "NA"]
