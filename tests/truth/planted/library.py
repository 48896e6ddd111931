"""A lending library."""

from __future__ import annotations

from tests.truth.planted.domain import Domain, Run, agent, call, user, want

POLICY = """# Lending desk
Today is Thursday, 2031-03-13.

You help members with loans, holds and fines. Confirm every change with the member before you make it.

## Renewals
A loan can be renewed only if its status is 'on loan'.
A loan may be renewed for no more than 28 days.

## Holds
A member can have at most 3 holds. Holds on reference copies are not possible.

## Fines
You may waive a fine after the item has been returned. Fines for lost items cannot be waived.

## Contact data
Members can change their email and phone. The card number cannot be changed.
"""

ADA = {
    "member_id": "M-4410",
    "name": "Ada Kovac",
    "email": "ada@post.example",
    "loans": ["L-801", "L-802"],
    "holds": ["H-31"],
    "fines": ["F-77"],
}
BEN = {
    "member_id": "M-5522",
    "name": "Ben Osei",
    "email": "ben@post.example",
    "loans": ["L-901"],
    "holds": [],
    "fines": ["F-90"],
}
L801 = {
    "loan_id": "L-801",
    "member_id": "M-4410",
    "title": "The Long Ships",
    "status": "on loan",
    "due": "2031-03-20",
}
L802 = {
    "loan_id": "L-802",
    "member_id": "M-4410",
    "title": "Kitchen Gardens",
    "status": "recalled",
    "due": "2031-03-15",
}
L901 = {
    "loan_id": "L-901",
    "member_id": "M-5522",
    "title": "Harbour Lights",
    "status": "on loan",
    "due": "2031-03-18",
}
F77 = {"fine_id": "F-77", "member_id": "M-4410", "kind": "late", "amount": 6.5, "returned": True}
F90 = {"fine_id": "F-90", "member_id": "M-5522", "kind": "lost", "amount": 32.0, "returned": False}

TASKS = {
    1: (
        "You are Ada Kovac, card M-4410. Renew The Long Ships for two weeks. Also have your email changed to "
        "ada.kovac@mail.example.",
        [
            want("renew_loan", loan_id="L-801", days=14),
            want("update_contact", member_id="M-4410", email="ada.kovac@mail.example"),
        ],
    ),
    2: (
        "You are Ada Kovac, card M-4410. Ask for Kitchen Gardens to be renewed by 14 days.",
        [want("renew_loan", loan_id="L-802", days=14)],
    ),
    3: (
        "You are Ben Osei, card M-5522. You lost a book and want the fine waived.",
        [want("waive_fine", fine_id="F-90")],
    ),
    4: (
        "You are Ada Kovac, card M-4410. Get the late fine F-77 waived and place a hold on Night Trains.",
        [want("waive_fine", fine_id="F-77"), want("place_hold", member_id="M-4410", title_id="T-2201")],
    ),
    5: (
        "You are Ben Osei, card M-5522. Renew Harbour Lights for 14 days.",
        [want("renew_loan", loan_id="L-901", days=14)],
    ),
}

HELLO_ADA = (user("Hi, my card is M-4410."), call("get_member", ADA, member_id="M-4410"))
HELLO_BEN = (user("Hello, card M-5522 here, Ben Osei."), call("get_member", BEN, member_id="M-5522"))

RUNS = (
    Run(
        1,
        "",
        "passes",
        (
            *HELLO_ADA,
            agent("Hello Ada, what can I do for you?"),
            user("Please renew The Long Ships for 14 days and set my email to ada.kovac@mail.example."),
            call("get_loan", L801, loan_id="L-801"),
            agent("Renew L-801 by 14 days and change the email to ada.kovac@mail.example: shall I?"),
            user("Yes."),
            call("renew_loan", {**L801, "due": "2031-04-03"}, loan_id="L-801", days=14),
            call(
                "update_contact",
                {**ADA, "email": "ada.kovac@mail.example"},
                member_id="M-4410",
                email="ada.kovac@mail.example",
            ),
            agent("Both done. Anything else?"),
            user("No, thanks. ###STOP###"),
        ),
    ),
    Run(
        1,
        "user_simulator",
        "never tells the second wish, although it is asked for more",
        (
            *HELLO_ADA,
            agent("Hello Ada, what can I do for you?"),
            user("Could you renew The Long Ships by 14 days?"),
            call("get_loan", L801, loan_id="L-801"),
            agent("I can renew L-801 by 14 days. Do you confirm?"),
            user("Yes please."),
            call("renew_loan", {**L801, "due": "2031-04-03"}, loan_id="L-801", days=14),
            agent("It is renewed until 2031-04-03. Is there anything else I can help you with?"),
            user("No, that's everything. ###STOP###"),
        ),
    ),
    Run(
        1,
        "agent",
        "is told the second wish and forgets it",
        (
            *HELLO_ADA,
            agent("Hello Ada, what can I do for you?"),
            user("Renew The Long Ships by 14 days, and my new email is ada.kovac@mail.example."),
            call("get_loan", L801, loan_id="L-801"),
            agent("I can renew L-801 by 14 days. Do you confirm?"),
            user("Yes please."),
            call("renew_loan", {**L801, "due": "2031-04-03"}, loan_id="L-801", days=14),
            agent("It is renewed until 2031-04-03. Is there anything else I can help you with?"),
            user("No, that's everything. ###STOP###"),
        ),
    ),
    Run(
        1,
        "agent",
        "ends by itself before the second wish could be told",
        (
            *HELLO_ADA,
            agent("Hello Ada, what can I do for you?"),
            user("First of all, renew The Long Ships by 14 days."),
            call("get_loan", L801, loan_id="L-801"),
            call("transfer_to_librarian", "Transfer successful", summary="member wants a renewal"),
            agent("A colleague takes over."),
            user("###TRANSFER###"),
        ),
    ),
    Run(
        2,
        "ground_truth",
        "demands what the policy forbids by status",
        (
            *HELLO_ADA,
            agent("Hello Ada, what can I do for you?"),
            user("Please renew Kitchen Gardens by 14 days."),
            call("get_loan", L802, loan_id="L-802"),
            agent("Kitchen Gardens was recalled, so I cannot renew it. I am sorry."),
            user("Pity. Bye then. ###STOP###"),
        ),
    ),
    Run(
        3,
        "ground_truth",
        "demands what the policy forbids by kind",
        (
            *HELLO_BEN,
            agent("Hello Ben, how can I help?"),
            user("I lost a book. Can you waive the fine?"),
            call("get_fine", F90, fine_id="F-90"),
            agent("Fines for lost items cannot be waived, I am afraid."),
            user("Understood. ###STOP###"),
        ),
    ),
    Run(
        4,
        "agent",
        "refuses what the policy allows",
        (
            *HELLO_ADA,
            agent("Hello Ada, what can I do for you?"),
            user("Please waive F-77, and place a hold on Night Trains."),
            call("get_fine", F77, fine_id="F-77"),
            agent("I cannot waive fines. Anything else?"),
            user("And the hold?"),
            call("search_titles", [{"title_id": "T-2201", "title": "Night Trains"}], words="Night Trains"),
            agent("Place a hold on Night Trains (T-2201)?"),
            user("Yes."),
            call(
                "place_hold", {"hold_id": "H-40", "title_id": "T-2201"}, member_id="M-4410", title_id="T-2201"
            ),
            agent("Done. Anything else?"),
            user("No. ###STOP###"),
        ),
    ),
    Run(
        4,
        "user_simulator",
        "says yes and hangs up in one message",
        (
            *HELLO_ADA,
            agent("Hello Ada, what can I do for you?"),
            user("Please waive F-77, and place a hold on Night Trains."),
            call("get_fine", F77, fine_id="F-77"),
            call("search_titles", [{"title_id": "T-2201", "title": "Night Trains"}], words="Night Trains"),
            agent("I would waive the fine of 6.50 and place a hold on Night Trains. Shall I go ahead?"),
            user("Yes, go ahead, that would be great. ###STOP###"),
        ),
    ),
    Run(
        4,
        "environment",
        "the tools cannot be reached",
        (
            *HELLO_ADA,
            agent("Hello Ada, what can I do for you?"),
            user("Please waive F-77, and place a hold on Night Trains."),
            call("get_fine", "Error: HTTP 503 Service Unavailable", fine_id="F-77"),
            call("get_fine", "Error: HTTP 503 Service Unavailable", fine_id="F-77"),
            call("search_titles", "Error: HTTP 503 Service Unavailable", words="Night Trains"),
            agent("Our system does not answer at the moment. Please try again later."),
            user("All right. ###STOP###"),
        ),
    ),
    Run(
        5,
        "agent",
        "takes the wrong number of days",
        (
            *HELLO_BEN,
            agent("Hello Ben, how can I help?"),
            user("Renew Harbour Lights by 14 days please."),
            call("get_loan", L901, loan_id="L-901"),
            call("renew_loan", {**L901, "due": "2031-04-08"}, loan_id="L-901", days=21),
            agent("Renewed. Anything else?"),
            user("No. ###STOP###"),
        ),
    ),
    Run(
        5,
        "user_simulator",
        "asks for other days than it was told to",
        (
            *HELLO_BEN,
            agent("Hello Ben, how can I help?"),
            user("Renew Harbour Lights by 21 days please."),
            call("get_loan", L901, loan_id="L-901"),
            agent("Renew L-901 by 21 days, until 2031-04-08?"),
            user("Yes."),
            call("renew_loan", {**L901, "due": "2031-04-08"}, loan_id="L-901", days=21),
            agent("Renewed. Anything else?"),
            user("No. ###STOP###"),
        ),
    ),
    Run(
        5,
        "",
        "passes",
        (
            *HELLO_BEN,
            agent("Hello Ben, how can I help?"),
            user("Renew Harbour Lights by 14 days please."),
            call("get_loan", L901, loan_id="L-901"),
            agent("Renew L-901 by 14 days?"),
            user("Yes."),
            call("renew_loan", {**L901, "due": "2031-04-01"}, loan_id="L-901", days=14),
            agent("Renewed. Anything else?"),
            user("No. ###STOP###"),
        ),
    ),
)

DOMAIN = Domain("library", POLICY, TASKS, RUNS)
