"""What three families propose, word for word, and the edges of their labels."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.diagnosis.detectors.dialogues import (
    CANCEL,
    CLOSED,
    PENDING,
    REFUND,
    WINDOW,
    agent,
    call,
    transcript,
    user,
)
from trace_assets.diagnosis.detectors import Corpus
from trace_assets.diagnosis.detectors.answers import CallInProse
from trace_assets.diagnosis.detectors.consent import WriteWithoutConsent
from trace_assets.diagnosis.detectors.described_records import DescribedRecordLeft, OtherRecordTaken
from trace_assets.diagnosis.detectors.missing_looks import WriteWithoutRead
from trace_assets.diagnosis.detectors.protocol import Finding, Proposal
from trace_assets.diagnosis.detectors.refrained_writes import WriteAgainstState, is_ruled
from trace_assets.diagnosis.detectors.repeated_calls import UnrecoveredError
from trace_assets.diagnosis.detectors.unfinished_work import EndedWithWorkOpen
from trace_assets.diagnosis.detectors.write_against_rule import WriteAgainstRule
from trace_assets.records import Message

Parts = Sequence[list[Message]]


def corpus(*dialogues: Parts) -> Corpus:
    return Corpus([transcript(*parts, task=f"x/{number}") for number, parts in enumerate(dialogues)])


def labelled(family: object, args: dict[str, object], *parts: list[Message]) -> Finding:
    return family.label(transcript(*parts), args)  # type: ignore[attr-defined,no-any-return]


# --- ended_with_work_open


def test_what_users_name_for_one_tool_alone_asks_for_it() -> None:
    cells = ("B4", "C12", "D9", "AA7")
    runs = [[user(f"It is for {cell}"), call("fill_cell", at={"cell": cell})] for cell in cells]
    [found] = EndedWithWorkOpen().propose(corpus(*runs))
    assert found.args == {"tool": "fill_cell", "shapes": [r"[A-Z]+\d+"]}
    assert found.name == "When the user names the cell, fill the cell before ending"
    # What a look is given as well may be wanted for the look.
    both = [[*parts, call("get_cell", cell=cell)] for parts, cell in zip(runs, cells, strict=True)]
    assert EndedWithWorkOpen().propose(corpus(*both)) == []
    # So may what another tool is given in another run.
    assert EndedWithWorkOpen().propose(corpus(*runs, [user("Z1?"), call("get_cell", cell="Z1")])) == []


# --- other_record_taken


def test_a_time_is_described_by_its_part_of_the_day_and_its_weekday() -> None:
    slots = '[{"slot": "S101", "at": "2030-01-07 09:15"}, {"slot": "S102", "at": "2030-01-08 15:30"}]'
    look = call("list_slots", slots)
    runs = [
        [user(said), look, call("book_slot", slot=slot)]
        for said, slot in (
            ("in the afternoon please", "S102"),
            ("lieber vormittags", "S101"),
            ("el martes", "S102"),
            ("on Monday", "S101"),
        )
    ]
    [found] = OtherRecordTaken().propose(corpus(*runs))
    assert found.args == {"tool": "book_slot", "argument": "slot", "field": "at"}
    wrong = labelled(OtherRecordTaken(), found.args, user("afternoon"), look, call("book_slot", slot="S101"))
    assert wrong.label == "LACKING"


# --- write_against_rule


def test_a_date_that_a_tool_is_given_is_held_against_the_policy() -> None:
    policy = "Today is 2030-03-01. A loss must be reported no later than 30 days after it happened."
    runs = [
        transcript(user("a loss"), call("open_claim", claim={"loss": {"date": f"2030-02-{day}"}}))
        for day in (11, 12, 13)
    ]
    found = WriteAgainstRule().propose(Corpus(runs, policy=policy))
    assert [one.name for one in found] == [
        "Refrain from opening the claim more than 30 days after the loss date"
    ]


def test_what_a_shop_does_not_take_back_is_read_and_leaving_it_alone_shows_it() -> None:
    """The tool is called otherwise than the policy speaks, and no date or field is named in full."""
    policy = "Today is 2030-03-01. Final sale: no returns. Refunds are possible within 30 days."

    def asked(order: str, final: str, day: str, refunded: bool) -> Parts:
        shown = f'{{"order_id": "{order}", "final_sale": {final}, "purchased_on": "2030-{day}"}}'
        after = call("issue_refund", order_id=order) if refunded else agent("No.")
        return [user("I want to send it back"), call("get_order", shown, order_id=order), after]

    runs = [
        asked("K4821", "false", "02-20", refunded=True),
        asked("K4822", "true", "02-20", refunded=True),
        asked("K4823", "true", "02-20", refunded=False),
        asked("K4824", "false", "01-02", refunded=True),
        asked("K4825", "false", "01-02", refunded=False),
    ]
    given = Corpus([transcript(*parts, task=f"x/{n}") for n, parts in enumerate(runs)], policy=policy)
    labels = {
        one.name: [WriteAgainstRule().label(each, one.args).label for each in given.transcripts]
        for one in WriteAgainstRule().propose(given)
    }
    assert labels == {
        "Refrain from issuing the refund when its final sale is true": [
            "NA",
            "LACKING",
            "PRESENT",
            "NA",
            "NA",
        ],
        "Refrain from issuing the refund more than 30 days after it was purchased": [
            *("NA", "NA", "NA", "LACKING", "PRESENT")
        ],
    }


# --- unrecovered_error

REFUSED = call("cancel_order", "no", error=True, order="K4821")


def test_a_tool_is_proposed_from_three_trajectories_in_which_it_failed() -> None:
    twice = [[REFUND, REFUSED, REFUSED], [REFUND, REFUSED]]
    assert UnrecoveredError().propose(corpus(*twice)) == []
    any_tool, one = UnrecoveredError().propose(corpus(*twice, [REFUND, REFUSED]))
    assert any_tool == Proposal(
        args={"tool": ""},
        name="Recover from a refused call",
        description=(
            "When a tool refuses a call, use its message to get the arguments right and bring the call to "
            "success."
        ),
        subject=("any",),
    )
    assert one == Proposal(
        args={"tool": "cancel_order"},
        name="Recover from a refused attempt to cancel the order",
        description=(
            "When the tool cancel order refuses a call, use its message to get the arguments right and bring "
            "the call to success."
        ),
        subject=("cancel_order",),
    )


def test_every_tool_counts_alone_and_the_users_calls_not_at_all() -> None:
    other = call("refund_item", "no", error=True, order="K4821")
    by_user = call("cancel_order", "no", error=True, by_user=True)
    mixed = [[REFUSED, other]] * 3 + [[by_user]] * 3
    assert [one.subject for one in UnrecoveredError().propose(corpus(*mixed))] == [
        ("any",),
        ("cancel_order",),
        ("refund_item",),
    ]
    assert UnrecoveredError().propose(corpus([REFUSED], [other], [REFUSED], [other])) == []
    assert UnrecoveredError().propose(corpus(*[[by_user]] * 9)) == []


def test_failures_are_recovered_by_tool() -> None:
    family, fine = UnrecoveredError(), call("cancel_order", order="K4821")
    other = call("refund_item", "no", error=True, order="K4821")
    assert labelled(family, {"tool": ""}, REFUND, REFUSED, other, fine) == Finding(
        "LACKING", (4,), "refund_item failed and never succeeded afterwards"
    )
    assert labelled(family, {"tool": ""}, REFUND, REFUSED, other) == Finding(
        "LACKING", (2, 4), "cancel_order, refund_item failed and never succeeded afterwards"
    )
    assert labelled(family, {"tool": ""}, REFUND, REFUSED, REFUSED, fine, fine) == Finding(
        "PRESENT", (2, 6), "after each failure the tool was called successfully"
    )
    assert labelled(family, {"tool": ""}, REFUND, fine, REFUSED).label == "LACKING", "it had worked before"
    assert labelled(family, {"tool": "cancel_order"}, REFUND, other) == Finding("NA")
    assert labelled(family, {"tool": ""}, REFUND, fine) == Finding("NA")


def test_what_the_user_called_neither_fails_nor_recovers() -> None:
    family = UnrecoveredError()
    broke, worked = (call("cancel_order", "no", error=True, by_user=True), call("cancel_order", by_user=True))
    assert labelled(family, {"tool": ""}, REFUND, broke) == Finding("NA")
    assert labelled(family, {"tool": ""}, REFUND, REFUSED, worked).label == "LACKING"
    assert labelled(family, {"tool": "cancel_order"}, REFUND, broke, call("cancel_order")) == Finding("NA")


RED = call("shell", "1 failed", error=True, command="cd /app && python -m mypy -q")
GREEN = call("shell", "1 passed", command="/usr/bin/mypy tests")
LISTED = call("shell", "a.py", command="ls")


def test_each_program_that_a_tool_runs_counts_alone() -> None:
    family = UnrecoveredError()
    lost = call("shell", "no", error=True, command="ls /gone")
    found = family.propose(corpus(*[[REFUND, RED, lost]] * 3))
    assert [one.subject for one in found] == [
        ("any",),
        ("ls",),
        ("ls", "ls"),
        ("mypy",),
        ("mypy", "mypy"),
    ]
    assert found[-1] == Proposal(
        args={"tool": "mypy", "program": "mypy"},
        name="Recover from a failure of mypy",
        description=(
            "When mypy reports a failure, mend its cause and run it again until it succeeds, before going "
            "on to the end."
        ),
        subject=("mypy", "mypy"),
    )
    assert family.propose(corpus(*[[RED, RED, RED]] * 2, [lost])) == [], "none failed in three trajectories"
    of_mypy = {"tool": "", "program": "mypy"}
    assert labelled(family, of_mypy, RED, LISTED) == Finding(
        "LACKING", (1,), "mypy failed and never succeeded afterwards"
    )
    assert labelled(family, of_mypy, RED, LISTED, GREEN, lost).evidence == (1, 5)
    assert labelled(family, of_mypy, lost, GREEN) == Finding("NA")
    assert labelled(family, {"tool": ""}, lost, GREEN).label == "LACKING"


# --- other_record_taken, described_record_left


def test_records_are_told_apart_by_the_field_that_users_speak_of() -> None:
    def lost(kind: str, taken: int, number: int) -> list[Parts]:
        names = [f"DV-{number}{place}" for place in range(2)]
        rows = ", ".join(
            f'{{"device": "{name}", "kind": "{what}", "room": "attic{number}", "age": {at + 3}}}'
            for at, (name, what) in enumerate(zip(names, ("laptop", "phone"), strict=True))
        )
        look = call("list_devices", f'{{"devices": [{rows}]}}')
        return [user(f"my {kind} is gone, it was in attic{number}"), look, call("wipe", device=names[taken])]

    right = [lost("phone", 1, 30 + number) for number in range(2)]
    right += [lost("laptop", 0, 40 + number) for number in range(2)]
    wrong = [lost("phone", 0, 50 + number) for number in range(3)]
    (one,) = OtherRecordTaken().propose(corpus(*right, *wrong))
    assert one.args == {"tool": "wipe", "argument": "device", "field": "kind"}
    assert one.name == "Take the device that the user describes when calling 'wipe'"
    assert OtherRecordTaken().propose(corpus(*right[:3])) == [], "too few"
    assert OtherRecordTaken().propose(corpus(right[0], *wrong)) == [], "what is mostly so describes nothing"
    assert DescribedRecordLeft().propose(corpus(*right, *wrong)) == [], "nobody described two"


# --- write_without_consent


def test_a_write_on_no_named_object_needs_consent_too() -> None:
    family, send = WriteWithoutConsent(), call("send_mail", to="Bea", text="The deck is ready")
    asked = [user("write Bea"), agent("Shall I send it?"), user("yes"), send]
    (one,) = family.propose(corpus(asked, asked, [user("write Bea"), send]))
    assert one.name == "Ask the user before sending the mail"
    assert labelled(family, one.args, *asked).label == "PRESENT"
    assert labelled(family, one.args, user("write Bea"), send).label == "LACKING"
    told = [agent("I have opened the mail."), user("fine"), send]
    assert labelled(family, one.args, *told).label == "LACKING", "nothing was asked"
    assert family.propose(corpus(*[[user("help"), call("transfer_to_human")]] * 3)) == []


# --- write_without_read

ASK = user("kindly cancel K4821")
LOOK, WRITE = call("get_order", PENDING, order="K4821"), call("cancel_order", order="K4821")


def each(*parts: str, count: int, first: int = 1000) -> list[Parts]:
    """So many trajectories, each with an order of its own: an argument that names objects takes three."""
    made = []
    for number in range(first, first + count):
        order, other = f"K{number}", f"A{number}"
        steps = {
            "ask": user(f"kindly cancel {order}"),
            "refund": user(f"refund {order}"),
            "hello": user("hello"),
            "look": call("get_order", PENDING.replace("K4821", order), order=order),
            "find": call("find_order", PENDING.replace("K4821", order), order=order),
            "look at another": call("get_order", PENDING.replace("K4821", other), order=other),
            "write": call("cancel_order", order=order),
            "pay": call("refund_item", order=order, item="rug"),
        }
        made.append([steps[part] for part in parts])
    return made


def test_reads_of_the_same_object_are_proposed_from_three_trajectories_on() -> None:
    family = WriteWithoutRead()
    calm = each("hello", count=6)
    enough = [*each("ask", "look", "write", count=4), *calm]
    (one,) = family.propose(corpus(*enough))
    assert one.name == "Look up the order before cancelling the order"
    assert one.description == (
        "Before changing anything with 'cancel order', look at the same order with 'get order', so that what "
        "is done rests on how it really stands."
    )
    assert one.subject == ("cancel_order", "get_order")
    assert one.args == {
        "tool": "cancel_order",
        "read": "get_order",
        "argument": "order",
        "cues": one.args["cues"],
    }
    assert one.args["cues"] == corpus(*enough).cues("cancel_order") != []
    three, blind = each("ask", "look", "write", count=3), each("ask", "write", count=3, first=2000)
    assert len(family.propose(corpus(*three, *blind, *calm))) == 1
    assert family.propose(corpus(*three[:2], *blind, *calm)) == [], "the read was made only twice"


def test_the_write_itself_is_made_in_three() -> None:
    family, looks = WriteWithoutRead(), each("ask", "look", count=9, first=2000)
    assert len(family.propose(corpus(*each("ask", "look", "write", count=3), *looks))) == 1
    assert family.propose(corpus(*each("ask", "look", "write", count=2), *looks)) == []


def booked(mail: str, *, looked: bool, town: str = "Riga") -> list[Parts]:
    """A trip booked for somebody who goes by an address: no argument has identifiers."""
    look = [call("find_bookings", "[]", email=mail, town=town)] if looked else []
    return [user("I want to fly"), *look, call("book_trip", traveller=mail, town=town)]


def test_what_a_look_and_a_write_without_identifiers_are_both_given_is_the_object() -> None:
    family, mails = WriteWithoutRead(), [f"{name}@post.test" for name in ("ann", "bo", "cy", "dee")]
    (one,) = family.propose(corpus(*(booked(mail, looked=True) for mail in mails)))
    assert one.name == "Find the bookings before booking the trip"
    assert one.args["argument"] == "traveller", "the town is always alike"
    assert labelled(family, one.args, *booked("ann@post.test", looked=True)).label == "PRESENT"
    assert labelled(family, one.args, *booked("ann@post.test", looked=False)).label == "LACKING"
    of_another = call("find_bookings", "[]", email="bo@post.test", town="Riga")
    finding = labelled(family, one.args, of_another, *booked("ann@post.test", looked=False))
    assert finding.label == "LACKING"
    after = [[*booked(mail, looked=False), call("find_bookings", email=mail)] for mail in mails]
    assert family.propose(corpus(*after)) == [], "a look after the write comes too late"
    two = [booked(mail, looked=mail < "c") for mail in mails]
    assert family.propose(corpus(*two)) == [], "it was taken twice only"


def test_a_read_of_another_object_is_not_proposed() -> None:
    assert WriteWithoutRead().propose(corpus(*each("ask", "look at another", "write", count=5))) == []
    (one,) = WriteWithoutRead().propose(corpus(*each("ask", "look at another", "look", "write", count=3)))
    assert one.subject == ("cancel_order", "get_order")


def test_a_read_is_counted_once_a_trajectory_and_object() -> None:
    twice, blind = each("ask", "look", "look", "write", "write", count=2), each("ask", "write", count=3)
    assert WriteWithoutRead().propose(corpus(*twice, *blind)) == []


def test_two_reads_are_proposed_in_order() -> None:
    found = WriteWithoutRead().propose(corpus(*each("ask", "look", "find", "write", count=3)))
    assert [one.args["read"] for one in found] == ["find_order", "get_order"]


def test_a_look_counts_when_it_was_answered_before_the_write_by_the_agent_itself() -> None:
    family = WriteWithoutRead()
    assert labelled(family, CANCEL, ASK, LOOK, WRITE) == Finding(
        "PRESENT", (1, 3), "get_order came before each cancel_order"
    )
    users = call("get_order", PENDING, by_user=True, order="K4821")
    assert labelled(family, CANCEL, ASK, users, WRITE).evidence == (3,)
    refused = call("get_order", "no", error=True, order="K4821")
    assert labelled(family, CANCEL, ASK, refused, WRITE).label == "LACKING"
    # Both calls in one message: the answer of the look came after the write was sent.
    at_once = [
        Message(role="assistant", tool_calls=(*LOOK[0].tool_calls, *_named("w", WRITE[0]).tool_calls)),
        LOOK[1],
        WRITE[1].model_copy(update={"tool_call_id": "w"}),
    ]
    assert labelled(family, CANCEL, ASK, at_once) == Finding(
        "LACKING", (1,), "cancel_order was called on k4821 without get_order before"
    )


def _named(ident: str, said: Message) -> Message:
    return said.model_copy(
        update={"tool_calls": tuple(one.model_copy(update={"id": ident}) for one in said.tool_calls)}
    )


def test_each_write_needs_its_own_look_and_the_latest_one_is_shown() -> None:
    family, second = WriteWithoutRead(), call("cancel_order", order="A0007")
    look = call("get_order", PENDING, order="A0007")
    assert labelled(family, CANCEL, ASK, LOOK, WRITE, second).evidence == (5,)
    assert labelled(family, CANCEL, ASK, LOOK, LOOK, WRITE, look, second).evidence == (3, 5, 7, 9)


def test_the_users_own_write_is_nobodys_lack() -> None:
    users = call("cancel_order", by_user=True, order="K4821")
    assert labelled(WriteWithoutRead(), CANCEL, user("hello"), users) == Finding("NA")
    assert labelled(WriteWithoutRead(), CANCEL, user("hello"), users, WRITE).evidence == (3,)


def test_looking_and_leaving_it_is_shown_by_the_request_and_the_first_look() -> None:
    found = labelled(WriteWithoutRead(), CANCEL, user("hello"), ASK, LOOK, LOOK)
    assert found == Finding("PRESENT", (1, 2), "asked for, looked up, and cancel_order was not called")
    assert labelled(WriteWithoutRead(), {**CANCEL, "cues": []}, ASK, LOOK) == Finding("NA")
    without = {name: value for name, value in CANCEL.items() if name != "cues"}
    assert labelled(WriteWithoutRead(), without, ASK, LOOK) == Finding("NA")


# --- write_against_state

SHUT, OPEN = call("get_order", CLOSED, order="K4821"), call("get_order", PENDING, order="K4821")
PAID = call("refund_item", order="K4821", item="rug")
HANDED = call("transfer_case", order="K4821", reason="x")


def states(*dialogues: Parts) -> list[Proposal]:
    """Beside those who refund an open order, and twice as many who want nothing, so that there are cues."""
    paid = max(6, 2 * len(dialogues))
    others = [*each("refund", "look", "pay", count=paid), *each("hello", count=2 * paid)]
    return WriteAgainstState().propose(corpus(*others, *dialogues))


def of_closed(found: list[Proposal]) -> list[Proposal]:
    return [one for one in found if one.subject == ("refund_item", "window", "closed")]


def test_a_state_in_which_three_refrain_is_proposed() -> None:
    assert of_closed(states(*[[REFUND, SHUT, agent("no")]] * 2)) == []
    (one,) = of_closed(states(*[[REFUND, SHUT, agent("no")]] * 3))
    assert one.name == "Refrain from refunding the item when its window is closed"
    assert one.description == (
        "When the order was last seen with window 'closed', do not call 'refund item' on it even if the user "
        "asks for it."
    )
    assert one.args["instead"] == "" and one.args["argument"] == "order"
    assert one.args["cues"] == ["refund"] and one.args["tool"] == "refund_item"


@pytest.mark.parametrize(
    ("policy", "ruled"),
    [
        ("Refund an item only when nobody else has claimed it; otherwise say no.", True),
        ("Refund an item unless another customer has claimed it.", True),
        ("Refund an item only when it was claimed.", False),  # by whom it does not say
        ("Refund an item only where nobody else has paid.", False),
    ],
)
def test_the_others_of_a_field_are_anybody_else(policy: str, ruled: bool) -> None:
    runs = [*each("refund", "look", "pay", count=6), *each("hello", count=12)]
    made = [transcript(*parts, task=f"x/{number}") for number, parts in enumerate(runs)]
    assert is_ruled(Corpus(made, policy=policy), "refund_item", "claimed_by_others", "true") is ruled


@pytest.mark.parametrize(
    ("policy", "habit"),
    [
        ("", False),
        ("Greet the customer.", False),  # it gives no rules: these are found in what runs do
        ("Items may be refunded within a month, unless they were worn.", True),
        ("Items whose window is closed cannot be refunded.", False),
        ("## Refunding an item\nThis is only possible while the window is open.", False),
        ("## Refunding an item\nOnly unworn things.\nThe window cannot be extended.", True),
        ("An item can be refunded if any of these is true:\n- It is unworn\n- Its window is open", False),
        ("Items may be refunded once. Never cancel what is closed.", True),  # of another deed
    ],
)
def test_what_runs_do_is_no_rule_of_a_policy_that_rules_otherwise(policy: str, habit: bool) -> None:
    runs = [*each("refund", "look", "pay", count=6), *each("hello", count=12)]
    runs += [[REFUND, SHUT, agent("no")]] * 3
    made = [transcript(*parts, task=f"x/{number}") for number, parts in enumerate(runs)]
    (one,) = of_closed(WriteAgainstState().propose(Corpus(made, policy=policy)))
    assert (
        one.name == "Refrain from refunding the item when its window is closed" + ", as most runs do" * habit
    )
    assert one.description.startswith("No sentence of the policy says so") is habit


def test_the_other_way_of_half_of_those_who_refrain_is_named() -> None:
    bare, handed = [REFUND, SHUT, agent("no")], [REFUND, SHUT, HANDED]
    (one,) = of_closed(states(bare, bare, handed, handed))
    assert one.args["instead"] == "transfer_case"
    assert one.name == "Refrain from refunding the item when its window is closed; transfer the case instead"
    assert one.description.endswith("even if the user asks for it: use 'transfer case'.")
    (one,) = of_closed(states(bare, bare, bare, handed))
    assert one.args["instead"] == ""


@pytest.mark.parametrize(
    "other",
    [
        call("transfer_case", "no", error=True, order="K4821"),
        call("transfer_case", by_user=True, order="K4821"),
        call("transfer_case", order="A0007"),
        call("get_order", CLOSED, order="K4821"),
    ],
    ids=["refused", "by the user", "of another order", "a look"],
)
def test_what_is_no_other_way(other: list[Message]) -> None:
    (one,) = of_closed(states(*[[REFUND, SHUT, other]] * 3))
    assert one.args["instead"] == ""


def test_a_way_that_names_no_object_is_one_and_one_before_the_state_was_seen_is_not() -> None:
    bare = call("transfer_case", reason="x")
    (one,) = of_closed(states(*[[REFUND, SHUT, bare]] * 3))
    assert one.args["instead"] == "transfer_case"
    (one,) = of_closed(states(*[[REFUND, HANDED, SHUT]] * 3))
    assert one.args["instead"] == ""


def test_of_two_ways_the_commoner_then_the_later_name_is_taken() -> None:
    close = call("close_case", order="K4821")
    (one,) = of_closed(states(*[[REFUND, SHUT, HANDED, close]] * 3, [REFUND, SHUT, close]))
    assert one.args["instead"] == "close_case"
    (one,) = of_closed(states(*[[REFUND, SHUT, HANDED, close]] * 3))
    assert one.args["instead"] == "transfer_case"


def test_those_who_wrote_did_not_refrain() -> None:
    wrote = [REFUND, SHUT, PAID]
    refrained = [REFUND, SHUT, agent("no")]
    assert of_closed(states(refrained, refrained, wrote, wrote)) == []
    assert len(of_closed(states(refrained, refrained, refrained, wrote))) == 1


def test_without_a_cue_nothing_is_proposed() -> None:
    refrained = [[user("K4821"), SHUT, agent("no")]] * 3
    assert WriteAgainstState().propose(corpus(*each("hello", "look", "pay", count=9), *refrained)) == []


def test_without_a_cue_a_state_must_let_twice_as_many_refrain_as_another_does() -> None:
    broke = user("The mug of K4821 broke.")
    refunded = each("hello", "look", "pay", count=9)

    def proposed(left_open: int) -> list[str]:
        left = [[broke, SHUT, agent("no")]] * 3 + [[broke, OPEN, agent("no")]] * left_open
        found = WriteAgainstState().propose(corpus(*refunded, *left))
        return [one.subject[2] for one in found if one.subject[1] == "window"]

    assert proposed(0) == ["closed"]
    assert proposed(9) == ["closed"], "9 of 18 beside 3 of 3"
    assert proposed(10) == []


def test_a_field_with_one_value_or_more_than_eight_is_no_state() -> None:
    def proposed(kinds: int) -> set[str]:
        """All in one state `open`, and so many more."""
        seen = [
            call("get_order", CLOSED.replace("closed", f"w{'abcdefghij'[n % kinds]}"), order="K4821")
            for n in range(4 * kinds)
        ]
        found = states(*[[REFUND, one, agent("no")] for one in seen])
        return {one.subject[2] for one in found if one.subject[1] == "window"}

    assert proposed(1) == {"wa"}
    assert len(proposed(7)) == 7
    assert proposed(8) == set(), "with the open ones they are nine"
    alone = [*each("refund", "look", "pay", count=6), *each("hello", count=12)]
    refrained = [[REFUND, OPEN, agent("no")]] * 3
    assert WriteAgainstState().propose(corpus(*alone, *refrained)) == []


def test_a_value_is_counted_once_a_trajectory_and_needs_three() -> None:
    rare = call("get_order", CLOSED.replace("closed", "ajar"), order="K4821")
    twice = [[REFUND, rare, rare, agent("no")]] * 2
    found = states(*twice, *[[REFUND, SHUT, agent("no")]] * 3)
    assert {one.subject[2] for one in found if one.subject[1] == "window"} == {"closed"}


def test_numbers_are_no_states() -> None:
    priced = [
        call("get_order", CLOSED.replace('"closed"', f'"{n % 2}7 EUR"'), order="K4821") for n in range(6)
    ]
    found = states(*[[REFUND, one, agent("no")] for one in priced])
    assert {one.subject[1] for one in found} <= {"status"}


def test_only_the_last_state_before_the_write_counts() -> None:
    family = WriteAgainstState()
    assert labelled(family, WINDOW, REFUND, SHUT, OPEN, PAID) == Finding("NA")
    assert labelled(family, WINDOW, REFUND, OPEN, SHUT, PAID) == Finding(
        "LACKING", (4, 5), "refund_item was called on k4821 although window=closed had been seen"
    )
    assert labelled(family, WINDOW, REFUND, PAID, SHUT) == Finding("NA"), "it was seen afterwards"


def test_the_users_own_write_and_one_on_another_object_are_not_it() -> None:
    family = WriteAgainstState()
    users = call("refund_item", by_user=True, order="K4821")
    assert labelled(family, WINDOW, REFUND, SHUT, users).label == "NA"
    assert labelled(family, WINDOW, REFUND, SHUT, users, PAID).evidence == (2, 5)
    other = call("refund_item", order="A0007")
    assert labelled(family, WINDOW, REFUND, SHUT, other, PAID).evidence == (2, 5)


def test_refraining_needs_the_other_way_after_the_state_was_seen() -> None:
    family, handed = WriteAgainstState(), call("transfer", order="K4821")
    assert labelled(family, WINDOW, REFUND, SHUT, handed, handed) == Finding(
        "PRESENT", (2, 3), "window=closed was seen, then transfer"
    )
    assert labelled(family, WINDOW, REFUND, handed, SHUT) == Finding("NA")
    refused = call("transfer", "no", error=True, order="K4821")
    assert labelled(family, WINDOW, REFUND, SHUT, refused) == Finding("NA")
    alone = {**WINDOW, "instead": ""}
    assert labelled(family, alone, REFUND, SHUT) == Finding(
        "PRESENT", (0, 2), "window=closed was seen, and it was left alone"
    )


def test_refraining_is_from_what_was_asked_for_and_meant() -> None:
    family, alone = WriteAgainstState(), {**WINDOW, "instead": ""}
    assert labelled(family, alone, user("hello K4821"), SHUT) == Finding("NA"), "nobody asked"
    assert labelled(family, alone, user("refund something"), SHUT) == Finding("NA"), "it was not meant"
    told = agent("I shall refund K4821.")
    assert labelled(family, alone, user("refund something"), told, SHUT).label == "PRESENT"
    assert labelled(family, alone, REFUND, OPEN) == Finding("NA"), "another state"
    # Nobody named it by the argument by which the tool names what it acts on.
    elsewhere = call("get_order", CLOSED, number="K4821")
    assert labelled(family, alone, REFUND, elsewhere) == Finding("NA")
    # One object was written, another of the same request left alone.
    both = user("refund K4821 and A0007")
    other = call("get_order", CLOSED.replace("K4821", "A0007"), order="A0007")
    paid_open = [both, OPEN, PAID, other]
    assert labelled(family, alone, *paid_open) == Finding(
        "PRESENT", (0, 6), "window=closed was seen, and it was left alone"
    )


# --- write_against_state: a rule of the state and of what is asked for


def _asked(number: int, word: str, window: str, *, refunds: bool) -> list[Message]:
    """Return a run in which somebody asks to `word` an item of an order whose window is as told."""
    order = f"K{1000 + number}"
    look = call("get_order", f'{{"order": "{order}", "window": "{window}"}}', order=order)
    acts = call("refund_item" if refunds else "transfer", "{}", order=order)
    return [*user(f"kindly {word} my thing from order {order}"), *look, *acts, *agent("Done.")]


def _conflict(times: int, wavering: int) -> list[list[list[Message]]]:
    """Return runs of two opposite rules, of every `wavering`th of which the mistake is made."""
    cases = [(word, window) for word in ("refund", "restock") for window in ("open", "closed")]
    return [
        [
            _asked(
                number,
                word,
                window,
                refunds=((word == "refund") == (window == "open")) != (not number % wavering),
            )
        ]
        for number, (word, window) in enumerate(cases * times)
    ]


def test_opposite_rules_of_two_requests_are_two_proposals_and_label_their_own_requests_alone() -> None:
    family = WriteAgainstState()
    found = {one.subject: one.args for one in family.propose(corpus(*_conflict(30, 5)))}
    refund = found["refund_item", "window", "closed", "refund"]
    restock = found["refund_item", "window", "open", "restock"]
    assert (refund["cues"], refund["unless"], refund["instead"]) == (["refund"], ["restock"], "transfer")
    assert (restock["cues"], restock["unless"], restock["instead"]) == (["restock"], ["refund"], "transfer")
    for args, word, window in ((refund, "refund", "closed"), (restock, "restock", "open")):
        other = "restock" if word == "refund" else "refund"
        assert labelled(family, args, _asked(1, word, window, refunds=True)).label == "LACKING"
        assert labelled(family, args, _asked(1, word, window, refunds=False)).label == "PRESENT"
        assert labelled(family, args, _asked(1, other, window, refunds=True)).label == "NA"
        assert labelled(family, args, _asked(1, f"{word} or {other}", window, refunds=True)).label == "NA"


def test_a_rule_of_the_state_alone_is_not_divided_by_words() -> None:
    same = [
        [_asked(number, word, window, refunds=(window == "open") != (number % 5 == 0))]
        for number, (word, window) in enumerate(
            [(word, window) for word in ("refund", "restock") for window in ("open", "closed")] * 30
        )
    ]
    assert {one.args.get("unless") for one in WriteAgainstState().propose(corpus(*same))} == {None}


def test_a_call_in_prose_is_proposed_by_what_runs_call_and_how_they_close() -> None:
    clean = [[ASK, call("GET", url="http://a.example/o/K1"), agent('DONE(["K1"])')] for _ in range(6)]
    spoilt = [[ASK, agent('It is K1.\nDONE(["K1"])')], [ASK, agent("First:\nGET http://a.example/o/K1")]]
    (made,) = CallInProse().propose(corpus(*clean, *spoilt, spoilt[0]))
    assert made.args == {"marks": ["DONE", "GET"]}
    assert CallInProse().propose(corpus(*clean, *spoilt)) == [], "two runs are no habit"
    few = [[ASK, agent('DONE(["K1"])')], *([ASK, agent("Bye.")] for _ in range(6))]
    assert CallInProse().propose(corpus(*few, *[spoilt[0]] * 3)) == [], "a word of few runs is no mark"
