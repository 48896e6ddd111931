"""Small dialogues at a library, a garage and a clinic for the families that a shop's desk asked for."""

from __future__ import annotations

from tests.diagnosis.detectors.dialogues import OK, agent, call, user
from trace_assets.records import Message

BARRED = {"tool": "move_visit_room", "after": "seal_visit_notes", "words": ["room"]}
MOVE = call("move_visit_room", visit="V-301", room="B2")
REFUSED = call("move_visit_room", "Error: the visit is sealed", error=True, visit="V-301", room="B2")
SEAL = call("seal_visit_notes", visit="V-301")
TWO_WISHES = user("Seal the notes of V-301, and move it to another room.")

WHOLE = {"tool": "cancel_booking", "argument": "booking"}
BOOKING = call(
    "get_booking",
    '{"booking": "B-77101", "services": [{"kind": "Oil change", "service": "SV-1"}, '
    '{"kind": "New tyres", "service": "SV-2"}]}',
    booking="B-77101",
)
GIVE_UP = call("cancel_booking", booking="B-77101")
TYRES = user("Please cancel the tyres.")

CARDS = {"tools": ["extend_pass"], "argument": "account"}
READER = call(
    "get_reader",
    '{"reader": "R-4410", "accounts": {"acc_9001": {"kind": "savings", "id": "acc_9001"}, '
    '"acc_9002": {"kind": "family_wallet", "id": "acc_9002"}}}',
    reader="R-4410",
)
EXTEND = call("extend_pass", reader="R-4410", account="acc_9002")
WISH = user("Extend my pass, please.")
ONE_ACCOUNT = call("get_reader", '{"reader": "R-4410", "accounts": {"acc_9002": {"kind": "wallet"}}}')

AGREED = {"writes": ["book_slot", "cancel_booking"]}
SHALL_I = agent("The slot at nine is free. Would you like me to book it?")
HAND_OVER = call("transfer_to_desk", summary="x")

SHELF = call(
    "list_copies",
    '{"title": "Salt", "copies": {"K7701": {"copy": "K7701", "on_shelf": true}, '
    '"K7702": {"copy": "K7702", "on_shelf": false}, "K7703": {"copy": "K7703", "on_shelf": true}}}',
    title="Salt",
)
HOW_MANY = user("How many copies of Salt do you have?")

ALIKE = {"tool": "renew_loan", "argument": "loan", "field": "state", "value": "running"}


def loan(name: str, state: str = "running") -> list[Message]:
    return call("get_loan", f'{{"loan": "{name}", "state": "{state}"}}', loan=name)


def renew(name: str, weeks: int = 3) -> list[Message]:
    return call("renew_loan", loan=name, weeks=weeks)


RENEW_ALL = user("Renew all my loans for three weeks.")
THREE = [loan("L-501"), loan("L-502"), loan("L-503")]

PARCELS = {"read": "get_parcel", "list": "goods", "names": ["hose", "lamp", "rake", "boot"]}
PARCEL_OF = {
    "lamp": call(
        "get_parcel",
        '{"parcel": "P-8801", "tracking": "778120034", "goods": [{"name": "Desk lamp", "good": "G-1001"}]}',
        parcel="P-8801",
    ),
    "boots": call(
        "get_parcel",
        '{"parcel": "P-8802", "tracking": "778129999", "goods": [{"name": "Winter boots", "good": "G-12"}]}',
        parcel="P-8802",
    ),
}
WHERE = user("Where is my lamp?")

LOST = call("get_visit", '{"visit": "V-301", "state": "cancelled", "refund": 24.5}', visit="V-301")
CLAIM = {"writes": ["cancel_visit"]}

ROOMS = call(
    "list_rooms",
    '{"house": "Lake Inn", "rooms": [{"room": "R1", "free": true, "price": 80, "side": "lake"}, '
    '{"room": "R2", "free": true, "price": 95.5, "side": "yard"}, '
    '{"room": "R3", "free": false, "price": 60, "side": "yard"}, '
    '{"room": "R4", "free": true, "price": 1120, "side": "lake"}]}',
)
CHEAP = user("Which room is the cheapest?")


def extremes(asked: list[Message], text: str) -> list[list[Message]]:
    return [asked, ROOMS, agent(text)]


CASES = [
    ("wrong_extreme", {}, extremes(CHEAP, "The cheapest room is $95.50."), "LACKING", (2, 3)),
    ("wrong_extreme", {}, extremes(CHEAP, "The cheapest of the rooms is $80."), "PRESENT", (2, 3)),
    ("wrong_extreme", {}, extremes(CHEAP, "The most expensive room is $1,120."), "PRESENT", (2, 3)),
    ("wrong_extreme", {}, extremes(CHEAP, "The cheapest rooms:\n- R3 at $60."), "NA", ()),  # it is not free
    (
        "wrong_extreme",
        {},
        extremes(CHEAP, "These are the cheapest rooms.\n- R2, to the yard: $95.50\n- R1: $80"),
        "LACKING",
        (2, 3),
    ),
    # A wish that some meet, a condition, another list, two figures, and none of the list's.
    (
        "wrong_extreme",
        {},
        extremes(user("The cheapest to the yard, please."), "The cheapest room is $95.50."),
        "PRESENT",
        (2, 3),
    ),
    ("wrong_extreme", {}, extremes(user("At most 100?"), "The cheapest room is $95.50."), "NA", ()),
    ("wrong_extreme", {}, extremes(CHEAP, "The next cheapest room is $95.50."), "NA", ()),
    ("wrong_extreme", {}, extremes(CHEAP, "The cheapest boat is $95.50."), "NA", ()),
    ("wrong_extreme", {}, extremes(CHEAP, "The cheapest room is $95.50, or $80."), "NA", ()),
    ("wrong_extreme", {}, extremes(CHEAP, "The cheapest room is $70."), "NA", ()),
    ("claim_without_write", CLAIM, [LOST, agent("V-301 has been rescheduled.")], "LACKING", (2,)),
    ("claim_without_write", CLAIM, [LOST, agent("I have cancelled V-301.")], "LACKING", (2,)),
    # A record says so itself, by its state or by a sum; and what was done is not what the sentence says.
    ("claim_without_write", CLAIM, [LOST, agent("V-301 has already been cancelled.")], "NA", ()),
    ("claim_without_write", CLAIM, [LOST, agent("The sum of $24.50 has been refunded.")], "NA", ()),
    ("claim_without_write", CLAIM, [LOST, agent("The sum of $42.50 has been paid.")], "LACKING", (2,)),
    ("claim_without_write", CLAIM, [LOST, agent("Have you listed all that is to be updated?")], "NA", ()),
    (
        "alike_left_out",
        ALIKE,
        [RENEW_ALL, *THREE, renew("L-501"), renew("L-502"), agent("All done.")],
        "LACKING",
        (9, 11),
    ),
    (
        "alike_left_out",
        ALIKE,
        [RENEW_ALL, *THREE, renew("L-501"), renew("L-502"), renew("L-503")],
        "PRESENT",
        (7, 11),
    ),
    (
        "alike_left_out",
        ALIKE,
        [RENEW_ALL, *THREE[:2], loan("L-503", "ended"), renew("L-501"), renew("L-502")],
        "PRESENT",
        (7, 9),
    ),
    # The user said which, wants one, or each another change; only one was changed.
    (
        "alike_left_out",
        ALIKE,
        [user("Renew my loans L-501 and L-502."), *THREE, renew("L-501"), renew("L-502")],
        "NA",
        (),
    ),
    ("alike_left_out", ALIKE, [user("Renew it."), *THREE, renew("L-501"), renew("L-502")], "NA", ()),
    ("alike_left_out", ALIKE, [RENEW_ALL, *THREE, renew("L-501"), renew("L-502", 1)], "NA", ()),
    ("alike_left_out", ALIKE, [RENEW_ALL, *THREE, renew("L-501")], "NA", ()),
    (
        "other_record_told",
        PARCELS,
        [WHERE, PARCEL_OF["boots"], agent("The number for your lamp is 778129999.")],
        "LACKING",
        (2, 3),
    ),
    (
        "other_record_told",
        PARCELS,
        [WHERE, PARCEL_OF["lamp"], agent("The number for your lamp is 778120034.")],
        "PRESENT",
        (2, 3),
    ),
    # No figure of a record, no thing, a comparison, and a figure that the user gave.
    ("other_record_told", PARCELS, [WHERE, PARCEL_OF["boots"], agent("Your lamp is 4 days late.")], "NA", ()),
    ("other_record_told", PARCELS, [WHERE, PARCEL_OF["boots"], agent("It is 778129999.")], "NA", ()),
    (
        "other_record_told",
        PARCELS,
        [WHERE, PARCEL_OF["boots"], agent("The lamp comes later than 778129999.")],
        "NA",
        (),
    ),
    (
        "other_record_told",
        PARCELS,
        [user("Is 778129999 my lamp?"), PARCEL_OF["boots"], agent("Your lamp is not 778129999.")],
        "NA",
        (),
    ),
    ("barred_by_own_change", BARRED, [TWO_WISHES, SEAL, REFUSED], "LACKING", (1, 3)),
    ("barred_by_own_change", BARRED, [TWO_WISHES, MOVE, SEAL], "PRESENT", (1, 3)),
    (
        "barred_by_own_change",
        BARRED,
        [TWO_WISHES, SEAL, agent("It is sealed. I can no longer change the room.")],
        "LACKING",
        (1, 3),
    ),
    # The other was asked for only when it was too late, is about another visit, or was never in the way.
    ("barred_by_own_change", BARRED, [user("Seal the notes."), SEAL, REFUSED], "NA", ()),
    (
        "barred_by_own_change",
        BARRED,
        [TWO_WISHES, SEAL, call("move_visit_room", "Error", error=True, visit="V-999")],
        "NA",
        (),
    ),
    ("barred_by_own_change", BARRED, [TWO_WISHES, SEAL, MOVE], "NA", ()),
    ("barred_by_own_change", BARRED, [TWO_WISHES, SEAL, agent("It is sealed.")], "NA", ()),
    ("whole_for_part", WHOLE, [BOOKING, TYRES, GIVE_UP], "LACKING", (2, 3)),
    (
        "whole_for_part",
        WHOLE,
        [BOOKING, TYRES, agent("That takes the whole booking. Go on?"), user("Yes."), GIVE_UP],
        "PRESENT",
        (2, 3, 5),
    ),
    (
        "whole_for_part",
        WHOLE,
        [BOOKING, TYRES, agent("I can only cancel the entire booking."), user("Then leave it.")],
        "PRESENT",
        (2, 3),
    ),
    ("whole_for_part", WHOLE, [BOOKING, user("Cancel the oil change and the tyres."), GIVE_UP], "NA", ()),
    ("whole_for_part", WHOLE, [BOOKING, user("Cancel my booking."), GIVE_UP], "NA", ()),
    ("whole_for_part", WHOLE, [BOOKING, user("Cancel B-77101, with the tyres."), GIVE_UP], "NA", ()),
    ("whole_for_part", WHOLE, [TYRES, GIVE_UP], "NA", ()),  # nobody knows its parts
    ("unnamed_choice", CARDS, [WISH, READER, EXTEND], "LACKING", (3,)),
    (
        "unnamed_choice",
        CARDS,
        [WISH, READER, agent("I would charge your family wallet."), user("Yes."), EXTEND],
        "PRESENT",
        (3, 5),
    ),
    ("unnamed_choice", CARDS, [user("From my wallet, please."), READER, EXTEND], "PRESENT", (0, 3)),
    (
        "unnamed_choice",
        CARDS,
        [user("Charge the usual account."), READER, EXTEND],
        "PRESENT",
        (0, 3),
    ),
    # Said in the same breath it is no question; the other one was named.
    ("unnamed_choice", CARDS, [WISH, READER, agent("I charge your wallet."), EXTEND], "LACKING", (4,)),
    ("unnamed_choice", CARDS, [user("From my savings."), READER, EXTEND], "LACKING", (3,)),
    ("unnamed_choice", CARDS, [user("The usual pass, please."), READER, EXTEND], "LACKING", (3,)),
    ("unnamed_choice", CARDS, [WISH, ONE_ACCOUNT, EXTEND], "NA", ()),
    ("unnamed_choice", CARDS, [WISH, READER, agent("Not today.")], "NA", ()),
    (
        "agreed_deed_left",
        AGREED,
        [SHALL_I, user("Yes, please. Can you call me before?"), agent("We do not call."), HAND_OVER],
        "LACKING",
        (1, 3),
    ),
    ("agreed_deed_left", AGREED, [SHALL_I, user("Yes."), call("book_slot", slot="S-1")], "PRESENT", (1, 2)),
    # It was tried; it cannot be done; it was taken back; nothing was agreed to; the user left with its yes.
    (
        "agreed_deed_left",
        AGREED,
        [SHALL_I, user("Yes."), call("book_slot", "Error: full", error=True, slot="S-1")],
        "PRESENT",
        (1, 2),
    ),
    (
        "agreed_deed_left",
        AGREED,
        [SHALL_I, user("Yes."), agent("I cannot book it any more."), HAND_OVER],
        "NA",
        (),
    ),
    (
        "agreed_deed_left",
        AGREED,
        [SHALL_I, user("Yes."), agent("At nine?"), user("No, never mind."), agent("Fine.")],
        "NA",
        (),
    ),
    ("agreed_deed_left", AGREED, [SHALL_I, user("How long is it?"), agent("An hour.")], "NA", ()),
    ("agreed_deed_left", AGREED, [agent("Is that you?"), user("Yes."), HAND_OVER], "NA", ()),
    ("agreed_deed_left", AGREED, [SHALL_I, user("Yes. Bye.")], "NA", ()),
    ("wrong_count", {}, [HOW_MANY, SHELF, agent("We have 4 copies of Salt.")], "LACKING", (2, 3)),
    ("wrong_count", {}, [HOW_MANY, SHELF, agent("There are three copies of Salt.")], "PRESENT", (2, 3)),
    ("wrong_count", {}, [HOW_MANY, SHELF, agent("We have 3 copies available.")], "LACKING", (2, 3)),
    ("wrong_count", {}, [HOW_MANY, SHELF, agent("We have two copies available.")], "PRESENT", (2, 3)),
    # Another condition, another thing, a result of another turn, and none.
    ("wrong_count", {}, [HOW_MANY, SHELF, agent("We have 5 worn copies.")], "NA", ()),
    ("wrong_count", {}, [HOW_MANY, SHELF, agent("There are 5 branches.")], "NA", ()),
    ("wrong_count", {}, [SHELF, user("How many?"), agent("We have 4 copies.")], "NA", ()),
    ("wrong_count", {}, [HOW_MANY, call("list_copies", OK), agent("We have 4 copies.")], "NA", ()),
]
