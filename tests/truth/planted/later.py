"""A second pair of invented domains with planted capabilities, written when the first ones had been mended.

What was found in them at first sight is out of sample; the page says what, and what was mended since.
"""

from __future__ import annotations

from tests.truth.planted.domain import Say, agent, call, user
from tests.truth.planted.lacks import NAMES, Lack, LackDomain

TICKETS = """# Ticket office
Current date: 2035-05-10.

- Promotional tickets are non-refundable.
- Only confirmed bookings may be transferred to another guest.
- Exchanges must be made at least 2 days before the event.
- Wheelchair seats must not be sold to guests who do not need them.

Give each guest the full amount back that they name, never more than they paid.
"""


def _hello(number: int) -> str:
    return f"Good day, this is {NAMES[number // 2 % 8]}."


def _refund_promo(number: int, shown: bool) -> list[Say]:
    name = f"TK-{1010 + number}"
    start = [
        user(f"{_hello(number)} I want a refund for ticket {name}."),
        call("fetchTicket", {"ticketId": name, "fare": {"kind": "promotional"}}, ticketId=name),
    ]
    if shown:
        return [*start, agent("That is a promotional ticket, there is no refund."), user("Oh. Bye.")]
    return [*start, call("refundTicket", {"done": True}, ticketId=name), agent("Refunded."), user("Thanks.")]


def _transfer_waiting(number: int, shown: bool) -> list[Say]:
    name, state = f"BK-{2010 + number}", ("waitlisted", "draft")[number // 2 % 2]
    if number // 2 % 4 == 3:
        state = "confirmed"
    start = [
        user(f"{_hello(number)} Please transfer booking {name} to my sister Ida."),
        call("fetchBooking", {"bookingId": name, "state": state}, bookingId=name),
    ]
    moved = [
        call("transferBooking", {"done": True}, bookingId=name, guest="Ida"),
        agent("Done."),
        user("Bye."),
    ]
    if shown and state != "confirmed":
        return [*start, agent("Only confirmed bookings can go to somebody else."), user("I see, bye.")]
    return [*start, *moved]


def _late_exchange(number: int, shown: bool) -> list[Say]:
    name = f"TK-{3010 + number}"
    start = [
        user(f"{_hello(number)} I need to exchange ticket {name}."),
        call("fetchTicket", {"ticketId": name, "eventDate": "2035-05-11"}, ticketId=name),
    ]
    if shown:
        return [*start, agent("The event is tomorrow: it is too late for that."), user("A pity.")]
    return [*start, call("exchangeTicket", {"done": True}, ticketId=name), agent("Exchanged."), user("Bye.")]


def _wrong_amount(number: int, shown: bool) -> list[Say]:
    name, amount = f"BK-{4010 + number}", 35 + number
    paid = amount if shown else amount * 10
    return [
        user(f"{_hello(number)} Please pay {amount} euros of my deposit for {name} back."),
        call("fetchBooking", {"bookingId": name, "state": "confirmed"}, bookingId=name),
        call("payBack", {"done": True}, bookingId=name, amount=paid),
        agent("It is on its way."),
        user("Thanks, bye."),
    ]


PRACTICE = """# Medical practice
It is 2031-09-01.

## Results
Verify the patient's identity with verify_identity before you release results.

## Appointments
Cancelled appointments cannot be rescheduled; make a new one.
"""


def _unverified(number: int, shown: bool) -> list[Say]:
    name = f"RS-{5010 + number}"
    check = call("verify_identity", '{"verified": true}', birth_date="1980-01-01")
    return [
        user(f"{_hello(number)} I would like my results {name}. Born 1980-01-01."),
        *([check] if shown else []),
        call("release_results", '{"ok": true}', result_id=name),
        agent("They have been sent to you."),
        user("Thank you."),
    ]


def _cancelled_in_text(number: int, shown: bool) -> list[Say]:
    name = f"AP-{6010 + number}"
    start = [
        user(f"{_hello(number)} Please reschedule appointment {name} to Friday."),
        call("show_appointment", f"Appointment {name}\nStatus: cancelled\nDoctor: Wu", appointment_id=name),
    ]
    if shown:
        return [*start, agent("It was cancelled; I would have to make a new one."), user("No, thanks.")]
    moved = call("reschedule_appointment", "Moved.", appointment_id=name, day="Friday")
    return [*start, moved, agent("It is on Friday now."), user("Good.")]


def _half_done(number: int, shown: bool) -> list[Say]:
    one, two = f"AP-{7010 + number}", f"AP-{7110 + number}"
    first = call("confirm_appointment", "Confirmed.", appointment_id=one)
    second = call("confirm_appointment", "Confirmed.", appointment_id=two)
    return [
        user(f"{_hello(number)} Please confirm my appointments {one} and {two}."),
        first,
        *([second] if shown else []),
        agent("All is confirmed."),
        user("Lovely, bye."),
    ]


def _only_said(number: int, shown: bool) -> list[Say]:
    name = f"PR-{8010 + number}"
    done = call("renew_prescription", "Renewed.", prescription_id=name)
    return [
        user(f"{_hello(number)} Please renew my prescription {name}."),
        call("show_prescription", f"Prescription {name}\nDrug: ibuprofen", prescription_id=name),
        *([done] if shown else []),
        agent("Your prescription has been renewed."),
        user("Great, bye."),
    ]


def _left_at_error(number: int, shown: bool) -> list[Say]:
    name = f"BL-{9010 + number}"
    wrong = call(
        "pay_invoice", "Error: unknown method 'card', use 'debit' or 'cash'", invoice_id=name, method="card"
    )
    right = call("pay_invoice", "Paid.", invoice_id=name, method="debit")
    end = [right, agent("Paid by debit card."), user("Thanks.")]
    return [
        user(f"{_hello(number)} I want to pay invoice {name} by debit card."),
        wrong,
        *(end if shown else [agent("I am sorry, I cannot take the payment."), user("What a pity.")]),
    ]


LATER: tuple[LackDomain, ...] = (
    LackDomain(
        "ticket_office",
        TICKETS,
        (
            Lack("refunds promotional tickets", ("forbidden_call",), "refundTicket", _refund_promo),
            Lack(
                "transfers what is not confirmed", ("forbidden_call",), "transferBooking", _transfer_waiting
            ),
            Lack("exchanges too late", ("forbidden_call",), "exchangeTicket", _late_exchange),
            Lack("pays another amount", ("wrong_value",), "amount", _wrong_amount),
        ),
    ),
    LackDomain(
        "practice",
        PRACTICE,
        (
            Lack("releases unverified", ("missing_call",), "verify_identity", _unverified),
            Lack(
                "moves what was cancelled", ("forbidden_call",), "reschedule_appointment", _cancelled_in_text
            ),
            Lack("does half", ("missing_call", "early_end"), "", _half_done),
            Lack("says it is done", ("wrong_statement", "early_end", "missing_call"), "", _only_said),
            Lack("leaves it at an error", ("unhandled_error",), "", _left_at_error),
        ),
    ),
)
