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


def test_the_deed_may_be_named_in_an_earlier_sentence() -> None:
    policy = "Bookings are refunded by card. Be quick. Clients need to know of the fee of 18 euros first."
    (one,) = propose("untold_figure", policy, [*TOLD, repaid(70, 52)])
    assert one.args["tool"] == "refund_booking"


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


def moved(day: str, price: float) -> Parts:
    return [
        user("Move my things, please"),
        call("list_vans", '[{"van": "VAN-S", "rate": 140}, {"van": "VAN-L", "rate": 260}]'),
        call("create_job", day=day, price=price, van="VAN-S"),
    ]


def test_a_supplement_on_some_days() -> None:
    saturday, sunday, monday = "2034-04-08", "2034-04-09", "2034-04-10"
    runs = [moved(saturday, 225), moved(sunday, 345), moved(saturday, 345), *[moved(monday, 140)] * 4]
    (one,) = propose("other_sum", "On a Saturday or Sunday a supplement of £85 is added.", runs)
    assert one.args["situation"] == {"argument": "day", "values": ["saturday", "sunday"]}
    assert labels("other_sum", one, [moved(sunday, 140), moved(monday, 260)]) == ["LACKING", "NA"]


def test_a_fee_for_what_is_called_off_late() -> None:
    def late(starts: str, amount: float) -> Parts:
        row = json.dumps({"visit": "V1007", "starts": starts, "price": 120})
        return [
            user("Call it off"),
            call("get_visit", row, visit="V1007"),
            call("cancel_visit", visit="V1007", fee=amount),
        ]

    near, far = "2032-02-10 15:00", "2032-02-14 15:00"
    policy = "It is 2032-02-10 09:00. Visits called off less than 24 hours before they start cost 25%."
    runs = [late(near, 30), late(near, 30), late(near, 30.0), *(late(far, 120) for _ in range(4))]
    assert propose("other_sum", policy, runs) == []  # one sum alone may be a price
    rows = [*runs, [one for one in late(near, 0)]]
    rows[-1] = [
        user("Call it off"),
        call("get_visit", json.dumps({"visit": "V1007", "starts": near, "price": 80}), visit="V1007"),
        call("cancel_visit", visit="V1007", fee=20),
    ]
    (one,) = propose("other_sum", policy, rows)
    assert one.args["situation"]["test"] == {"field": "starts", "ahead": 24, "not": True}
    assert labels("other_sum", one, [late(near, 120), late(far, 120)]) == ["LACKING", "NA"]


def test_a_fact_that_has_to_be_asked_for() -> None:
    def told(fact: str, tool: str) -> Parts:
        return [user("Hello"), agent(f"Please give me your {fact}."), user("07700"), call(tool, job="J-1007")]

    policy = "Get the customer's mobile number before a job is created."
    runs = [*(told("mobile number", "create_job") for _ in range(4)), told("wish", "cancel_visit")]
    (one,) = propose("unasked_fact", policy, runs)
    assert one.args == {"words": ["mobile", "number"], "writes": ["create_job"]}
    assert labels("unasked_fact", one, [runs[0], told("wish", "create_job"), runs[-1]]) == [
        "PRESENT",
        "LACKING",
        "NA",
    ]
    assert propose("unasked_fact", "Be kind.", runs) == []


def assigned(text: str, *, looked: bool) -> Parts:
    look = [call("get_skills", '{"of": "T-1007", "sworn": true}', of="T-1007")] if looked else []
    return [user(f"A {text} text, please"), *look, call("assign_translator", translator="T-1007")]


def test_a_prerequisite_of_some_texts_alone() -> None:
    """Without its situation the rule would accuse every run that needs no look."""
    policy = "Check the skills of a translator before you assign one to a legal text."
    runs = [
        *(assigned("legal", looked=True) for _ in range(4)),
        *(assigned("short", looked=False) for _ in range(5)),
    ]
    (one,) = propose("unread_prerequisite", policy, runs)
    assert one.args["situation"] == {"word": "lega"}
    found = labels("unread_prerequisite", one, [runs[0], assigned("legal", looked=False), runs[-1]])
    assert found == ["PRESENT", "LACKING", "NA"]
    every = [*(assigned("legal", looked=True) for _ in range(4)), assigned("legal", looked=False)]
    (always,) = propose("unread_prerequisite", policy, every)
    assert "situation" not in always.args


def test_a_fact_that_only_some_changes_need() -> None:
    def closed(ask: str) -> Parts:
        return [
            user("Close it"),
            agent(f"What is the {ask}?"),
            user("amber"),
            call("close_project", of="P-1007"),
        ]

    def opened() -> Parts:
        return [user("Open one"), agent("Shall I?"), user("Yes"), call("open_project", of="P-1008")]

    policy = "Reveal nothing of a project before the client has told you the passphrase."
    runs = [*(closed("passphrase") for _ in range(4)), *(opened() for _ in range(6))]
    (one,) = propose("unasked_fact", policy, runs)
    assert one.args == {"words": ["passphrase"], "writes": ["close_project"]}
    assert labels("unasked_fact", one, [runs[0], closed("reason"), runs[-1]]) == ["PRESENT", "LACKING", "NA"]


def test_half_of_a_sum_in_words() -> None:
    runs = [repaid(paid, paid / 2) for paid in (64, 72, 88, 96)]
    (one,) = propose("other_sum", "Who cancels late gets half of the price back.", runs)
    assert (one.args["number"], labels("other_sum", one, [repaid(70, 70)])) == (0.5, ["LACKING"])
