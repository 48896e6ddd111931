"""A hotel's reservations desk."""

from __future__ import annotations

from tests.truth.planted.domain import Domain, Run, agent, call, user, want

POLICY = """# Reservations desk

The current date and time is 2031-09-01 18:30.

Always ask for a clear yes before changing a booking.

## Bookings
* Each room can take at most three guests.
* A stay that has already begun cannot be moved.
* Bookings at the saver rate cannot be cancelled.
* Only confirmed bookings can be upgraded.

## Vouchers
* The desk can issue a voucher of up to 80 EUR per booking.
* Guests who complain about noise get no voucher.

## Hand over
Hand the guest over to the manager when a request lies outside these rules.
"""

KIM = {
    "guest_id": "G-118",
    "name": "Kim Adeyemi",
    "email": "kim@mail.example",
    "bookings": ["BK-2001", "BK-2002"],
}
LEO = {"guest_id": "G-240", "name": "Leo Varga", "email": "leo@mail.example", "bookings": ["BK-3001"]}
BK2001 = {
    "booking_id": "BK-2001",
    "guest_id": "G-118",
    "room": "double",
    "rate": "flexible",
    "status": "confirmed",
    "arrival_date": "2031-09-20",
}
BK2002 = {**BK2001, "booking_id": "BK-2002", "rate": "saver", "arrival_date": "2031-10-02"}
BK3001 = {
    "booking_id": "BK-3001",
    "guest_id": "G-240",
    "room": "single",
    "rate": "flexible",
    "status": "waitlisted",
    "arrival_date": "2031-08-30",
}
ROOMS = [
    {"room_type": "RT-501", "name": "garden double", "view": "garden", "price": 140},
    {"room_type": "RT-502", "name": "harbour double", "view": "harbour", "price": 170},
]

TASKS = {
    1: (
        "Your name is Kim Adeyemi, guest G-118. Cancel BK-2001. If asked, you have no other wishes.",
        [want("cancel_booking", booking_id="BK-2001")],
    ),
    2: (
        "Your name is Kim Adeyemi, guest G-118. Cancel BK-2002, the cheap one.",
        [want("cancel_booking", booking_id="BK-2002")],
    ),
    3: (
        "Your name is Leo Varga, guest G-240. Move BK-3001 to 5 September.",
        [want("move_booking", booking_id="BK-3001", arrival_date="2031-09-05")],
    ),
    4: (
        "Your name is Leo Varga, guest G-240. Have BK-3001 upgraded to a harbour view.",
        [want("upgrade_booking", booking_id="BK-3001", room_type="RT-502")],
    ),
    5: (
        "Your name is Kim Adeyemi, guest G-118. Have BK-2001 upgraded to the garden room. Then send a "
        "voucher as the website promised one.",
        [
            want("upgrade_booking", booking_id="BK-2001", room_type="RT-501"),
            want("issue_voucher", booking_id="BK-2001", amount=120),
        ],
    ),
    6: (
        "Your name is Kim Adeyemi, guest G-118. Your phone number is 555-0190; have it put into your "
        "profile.",
        [want("update_guest", guest_id="G-118", phone="555-0190")],
    ),
    7: (
        "Your name is Kim Adeyemi, guest G-118. Add your three children (Ana, Bo, Cy) to BK-2001; you sleep "
        "there too.",
        [want("set_guests", booking_id="BK-2001", guests=["Kim", "Ana", "Bo", "Cy"])],
    ),
    8: (
        "Your name is Kim Adeyemi, guest G-118. Ask what the harbour room costs for BK-2001, then take it.",
        [want("upgrade_booking", booking_id="BK-2001", room_type="RT-502")],
    ),
}

KIM_HERE = (
    user("Hello, Kim Adeyemi, guest G-118."),
    call("get_guest", KIM, guest_id="G-118"),
    agent("How may we help?"),
)
LEO_HERE = (
    user("Leo Varga here, guest G-240."),
    call("get_guest", LEO, guest_id="G-240"),
    agent("How may we help?"),
)
READ_2001 = call("get_booking", BK2001, booking_id="BK-2001")
READ_2002 = call("get_booking", BK2002, booking_id="BK-2002")
READ_3001 = call("get_booking", BK3001, booking_id="BK-3001")
SEE_ROOMS = call("list_rooms", ROOMS, hotel="main")

RUNS = (
    Run(
        1,
        "",
        "passes",
        (
            *KIM_HERE,
            user("Cancel BK-2001 please."),
            READ_2001,
            agent("Cancel BK-2001? Please confirm."),
            user("Yes, confirmed."),
            call("cancel_booking", {**BK2001, "status": "cancelled"}, booking_id="BK-2001"),
            agent("It is cancelled. Anything else?"),
            user("No. ###STOP###"),
        ),
    ),
    Run(
        1,
        "agent",
        "cancels the other booking",
        (
            *KIM_HERE,
            user("Cancel BK-2001 please."),
            call("cancel_booking", {**BK2002, "status": "cancelled"}, booking_id="BK-2002"),
            agent("It is cancelled. Anything else?"),
            user("No. ###STOP###"),
        ),
    ),
    Run(
        1,
        "user_simulator",
        "names another booking than it was told to",
        (
            *KIM_HERE,
            user("I want to cancel BK-2011."),
            call("get_booking", "Error: booking BK-2011 not found", booking_id="BK-2011"),
            agent("I cannot find BK-2011. Could you check the number?"),
            user("It is BK-2011, I am sure. Then I'll call later. ###STOP###"),
        ),
    ),
    Run(
        1,
        "user_simulator",
        "both go on being polite until the limit, all being done",
        (
            *KIM_HERE,
            user("Cancel BK-2001 please."),
            READ_2001,
            agent("Cancel BK-2001? Please confirm."),
            user("Yes, confirmed."),
            call("cancel_booking", {**BK2001, "status": "cancelled"}, booking_id="BK-2001"),
            agent("It is cancelled."),
            user("Thank you so much!"),
            agent("You are welcome."),
            user("Have a lovely evening!"),
            agent("You too, Kim."),
            user("Thanks again!"),
            agent("With pleasure."),
            user("Goodbye!"),
            agent("Goodbye!"),
            user("Bye bye!"),
            agent("Bye!"),
        ),
        stop="max_turns",
    ),
    Run(
        1,
        "agent",
        "goes round in circles until the limit",
        (
            *KIM_HERE,
            user("Cancel BK-2001 please."),
            *(READ_2001,) * 12,
        ),
        stop="max_turns",
    ),
    Run(
        2,
        "ground_truth",
        "demands what the policy forbids by rate",
        (
            *KIM_HERE,
            user("Cancel BK-2002 please."),
            READ_2002,
            agent("BK-2002 was booked at the saver rate, so I cannot cancel it. Anything else?"),
            user("No, thanks. ###STOP###"),
        ),
    ),
    Run(
        3,
        "ground_truth",
        "demands a change of what has begun",
        (
            *LEO_HERE,
            user("Please move BK-3001 to 5 September."),
            READ_3001,
            agent("Your stay began on 2031-08-30, so I cannot move it."),
            user("Hm. Fine. ###STOP###"),
        ),
    ),
    Run(
        4,
        "ground_truth",
        "demands an upgrade that only another status allows",
        (
            *LEO_HERE,
            user("I'd like a harbour view for BK-3001."),
            READ_3001,
            SEE_ROOMS,
            agent("BK-3001 is on the waiting list. Only confirmed bookings can be upgraded."),
            user("Too bad. ###STOP###"),
        ),
    ),
    Run(
        5,
        "ground_truth",
        "demands more money than the policy allows",
        (
            *KIM_HERE,
            user("Upgrade BK-2001 to the garden room, and I was promised a voucher."),
            READ_2001,
            SEE_ROOMS,
            agent("Garden double, and a voucher of 80 EUR, the most that I can issue. Yes?"),
            user("Yes."),
            call(
                "upgrade_booking",
                {**BK2001, "room": "garden double"},
                booking_id="BK-2001",
                room_type="RT-501",
            ),
            call("issue_voucher", {"voucher": "VC-9001"}, booking_id="BK-2001", amount=80),
            agent("Both done. Anything else?"),
            user("No. ###STOP###"),
        ),
    ),
    Run(
        5,
        "agent",
        "forgets the upgrade",
        (
            *KIM_HERE,
            user("Upgrade BK-2001 to the garden room, and I was promised a voucher."),
            READ_2001,
            call("issue_voucher", {"voucher": "VC-9001"}, booking_id="BK-2001", amount=80),
            agent("Here is your voucher. Anything else?"),
            user("No. ###STOP###"),
        ),
    ),
    Run(
        6,
        "environment",
        "the tool breaks",
        (
            *KIM_HERE,
            user("Please put my phone number 555-0190 into my profile."),
            agent("Shall I set it to 555-0190?"),
            user("Yes."),
            call(
                "update_guest",
                "Error: AttributeError: 'NoneType' object has no attribute 'phone'",
                guest_id="G-118",
                phone="555-0190",
            ),
            agent("I am sorry, this does not work at the moment."),
            user("OK. ###STOP###"),
        ),
    ),
    Run(
        6,
        "environment",
        "the change is reported as made and is not in the record afterwards",
        (
            *KIM_HERE,
            user("Please put my phone number 555-0190 into my profile."),
            agent("Shall I set it to 555-0190?"),
            user("Yes."),
            call("update_guest", {"ok": True}, guest_id="G-118", phone="555-0190"),
            call("get_guest", {**KIM, "phone": "555-0000"}, guest_id="G-118"),
            agent("It is noted. Anything else?"),
            user("No. ###STOP###"),
        ),
    ),
    Run(
        7,
        "ground_truth",
        "demands more guests than a room takes",
        (
            *KIM_HERE,
            user("Please add Ana, Bo and Cy to BK-2001. I sleep there too."),
            READ_2001,
            agent("A room takes three guests at most, so four are not possible."),
            user("Oh. Then we will see. ###STOP###"),
        ),
    ),
    Run(
        8,
        "user_simulator",
        "falls out of its part",
        (
            *KIM_HERE,
            user("What is the harbour room?"),
            SEE_ROOMS,
            agent("The harbour double costs 170 a night. Do you want it for BK-2001?"),
            user("As an AI language model I cannot make bookings. How can I help you today?"),
            agent("Do you want the upgrade?"),
            user("###STOP###"),
        ),
    ),
    Run(
        8,
        "agent",
        "hands over what it could do",
        (
            *KIM_HERE,
            user("What is the harbour room for BK-2001? I'll take it."),
            call("transfer_to_manager", "Transfer successful", reason="room question"),
            agent("Please hold."),
            user("###TRANSFER###"),
        ),
    ),
    Run(
        8,
        "user_simulator",
        "leaves with its first words",
        (user("Hello, I am Kim Adeyemi and want the harbour room for BK-2001. ###STOP###"),),
    ),
)

DOMAIN = Domain("hotel", POLICY, TASKS, RUNS)
