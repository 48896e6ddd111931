"""A bank's service line; the customer has an app with tools of its own."""

from __future__ import annotations

from tests.truth.planted.domain import Domain, Run, agent, call, user, user_call, want, want_of_user

POLICY = """# Service line policy

The current time is 2031-11-20 08:00:00 UTC.

Before a change you list its details and obtain an explicit yes.

## Transfers
- Transfers may not exceed 2,000 EUR a day.
- Transfers can only be made from accounts whose status is 'active'.

## Cards
- A card can only be replaced if it has been blocked first.
- Business cards cannot be reissued by phone.

## Fees
You can refund a fee if any of the following is true:
- The fee was charged within the last 30 days
- The customer has a premium plan

## Standing orders
- A standing order can be changed without changing the payee.
- You should not change standing orders whose end date is in the past.
"""

UMA = {
    "customer_id": "C-71001",
    "name": "Uma Reyes",
    "plan": "basic",
    "accounts": ["AC-100001", "AC-100002"],
    "cards": ["CD-5001"],
}
VIC = {
    "customer_id": "C-72002",
    "name": "Vic Stone",
    "plan": "basic",
    "accounts": ["AC-200001"],
    "cards": ["CD-6001"],
}
AC1 = {"account_id": "AC-100001", "customer_id": "C-71001", "status": "active", "balance": 5100.0}
AC2 = {"account_id": "AC-100002", "customer_id": "C-71001", "status": "frozen", "balance": 900.0}
CD1 = {"card_id": "CD-5001", "customer_id": "C-71001", "type": "debit", "status": "active"}
CD6 = {"card_id": "CD-6001", "customer_id": "C-72002", "type": "business", "status": "blocked"}
FE1 = {
    "fee_id": "FE-301",
    "customer_id": "C-71001",
    "plan": "basic",
    "charged_at": "2031-09-01T00:00:00",
    "amount": 12.0,
}
FE2 = {
    "fee_id": "FE-302",
    "customer_id": "C-71001",
    "plan": "basic",
    "charged_at": "2031-11-10T00:00:00",
    "amount": 9.0,
}
SO1 = {
    "order_id": "SO-801",
    "customer_id": "C-71001",
    "payee": "PY-401",
    "amount": 50.0,
    "end_date": "2031-06-30",
}
SO2 = {
    "order_id": "SO-802",
    "customer_id": "C-71001",
    "payee": "PY-402",
    "amount": 75.0,
    "end_date": "2032-06-30",
}

TASKS = {
    1: (
        "You are Uma Reyes, customer C-71001. Send 1500 EUR from AC-100001 to PY-901.",
        [want("make_transfer", account_id="AC-100001", payee="PY-901", amount=1500)],
    ),
    2: (
        "You are Uma Reyes, customer C-71001. Send 3000 EUR from AC-100001 to PY-901 today.",
        [want("make_transfer", account_id="AC-100001", payee="PY-901", amount=3000)],
    ),
    3: (
        "You are Uma Reyes, customer C-71001. Send 200 EUR from AC-100002 to PY-901.",
        [want("make_transfer", account_id="AC-100002", payee="PY-901", amount=200)],
    ),
    4: (
        "You are Uma Reyes, customer C-71001. You were charged FE-301 unfairly and want it back.",
        [want("refund_fee", fee_id="FE-301")],
    ),
    5: (
        "You are Uma Reyes, customer C-71001. Get FE-302 back. You would also like to lower the standing "
        "order SO-802 to 60 EUR.",
        [want("refund_fee", fee_id="FE-302"), want("change_standing_order", order_id="SO-802", amount=60)],
    ),
    6: (
        "You are Vic Stone, customer C-72002. Your card CD-6001 was stolen; get a new one sent.",
        [want("reissue_card", card_id="CD-6001")],
    ),
    7: (
        "You are Uma Reyes, customer C-71001. Raise standing order SO-801 to 70 EUR.",
        [want("change_standing_order", order_id="SO-801", amount=70)],
    ),
    8: (
        "You are Uma Reyes, customer C-71001. Payments with your card CD-5001 fail on the web. You do not "
        "know why.",
        [want_of_user("toggle_online_payments")],
    ),
    9: (
        "You are Uma Reyes, customer C-71001. Ask for the balance of AC-100001 and how much is left "
        "after 1500.",
        [],
    ),
}

UMA_HERE = (
    user("Hi, Uma Reyes, C-71001."),
    call("get_customer", UMA, customer_id="C-71001"),
    agent("What can I do?"),
)
VIC_HERE = (
    user("Vic Stone, C-72002."),
    call("get_customer", VIC, customer_id="C-72002"),
    agent("What can I do?"),
)
SEE_1 = call("get_account", AC1, account_id="AC-100001")
SEE_2 = call("get_account", AC2, account_id="AC-100002")

RUNS = (
    Run(
        1,
        "",
        "passes",
        (
            *UMA_HERE,
            user("Send 1500 EUR from AC-100001 to PY-901."),
            SEE_1,
            agent("1500 EUR from AC-100001 to PY-901: yes?"),
            user("Yes."),
            call(
                "make_transfer", {"transfer_id": "TR-1"}, account_id="AC-100001", payee="PY-901", amount=1500
            ),
            agent("Sent. Anything else?"),
            user("No. ###STOP###"),
        ),
    ),
    Run(
        1,
        "agent",
        "mistypes the payee",
        (
            *UMA_HERE,
            user("Send 1500 EUR from AC-100001 to PY-901."),
            SEE_1,
            call(
                "make_transfer", {"transfer_id": "TR-1"}, account_id="AC-100001", payee="PY-910", amount=1500
            ),
            agent("Sent. Anything else?"),
            user("No. ###STOP###"),
        ),
    ),
    Run(
        1,
        "user_simulator",
        "gives another payee than it was told",
        (
            *UMA_HERE,
            user("Send 1500 EUR from AC-100001 to PY-910."),
            SEE_1,
            agent("1500 EUR from AC-100001 to PY-910: yes?"),
            user("Yes."),
            call(
                "make_transfer", {"transfer_id": "TR-1"}, account_id="AC-100001", payee="PY-910", amount=1500
            ),
            agent("Sent. Anything else?"),
            user("No. ###STOP###"),
        ),
    ),
    Run(
        1,
        "agent",
        "asks again and again for what it was told, until the user leaves",
        (
            *UMA_HERE,
            user("Send 1500 EUR from AC-100001 to PY-901."),
            agent("Which amount, please?"),
            user("1500 EUR."),
            agent("From which account, please?"),
            user("AC-100001, as I said already."),
            agent("And the amount?"),
            user("This is useless. I'll go to a branch. ###STOP###"),
        ),
    ),
    Run(
        2,
        "ground_truth",
        "demands more than the policy allows a day",
        (
            *UMA_HERE,
            user("Send 3000 EUR from AC-100001 to PY-901 today."),
            SEE_1,
            agent("2,000 EUR a day is the most. I cannot send 3000 EUR."),
            user("OK, then not. ###STOP###"),
        ),
    ),
    Run(
        3,
        "ground_truth",
        "demands a transfer from an account whose status forbids it",
        (
            *UMA_HERE,
            user("Send 200 EUR from AC-100002 to PY-901."),
            SEE_2,
            agent("AC-100002 is frozen, so nothing can be sent from it."),
            user("OK. ###STOP###"),
        ),
    ),
    Run(
        4,
        "ground_truth",
        "demands a refund that no condition allows",
        (
            *UMA_HERE,
            user("I want FE-301 back."),
            call("get_fee", FE1, fee_id="FE-301"),
            agent("It was charged in September and you have no premium plan, so I cannot refund it."),
            user("I see. ###STOP###"),
        ),
    ),
    Run(
        4,
        "agent",
        "the task is wrong, but the agent does something else that is not expected",
        (
            *UMA_HERE,
            user("I want FE-301 back."),
            call("get_fee", FE1, fee_id="FE-301"),
            call("make_transfer", {"transfer_id": "TR-2"}, account_id="AC-100001", payee="PY-901", amount=12),
            agent("I sent you 12 EUR."),
            user("Thanks. ###STOP###"),
        ),
    ),
    Run(
        5,
        "user_simulator",
        "never speaks of the standing order",
        (
            *UMA_HERE,
            user("I want FE-302 back."),
            call("get_fee", FE2, fee_id="FE-302"),
            agent("Refund FE-302 of 9 EUR: yes?"),
            user("Yes."),
            call("refund_fee", {"ok": True}, fee_id="FE-302"),
            agent("Refunded. Can I help you with anything else?"),
            user("That is all, thank you. ###STOP###"),
        ),
    ),
    Run(
        5,
        "agent",
        "does not ask, and the user is cut off by a hand over",
        (
            *UMA_HERE,
            user("I want FE-302 back, to begin with."),
            call("get_fee", FE2, fee_id="FE-302"),
            call("refund_fee", {"ok": True}, fee_id="FE-302"),
            call("transfer_to_human", "Transfer successful", summary="fee refunded"),
            agent("Refunded. I am handing you over."),
            user("###TRANSFER###"),
        ),
    ),
    Run(
        5,
        "",
        "passes",
        (
            *UMA_HERE,
            user("I want FE-302 back, and lower SO-802 to 60 EUR."),
            call("get_fee", FE2, fee_id="FE-302"),
            call("get_standing_order", SO2, order_id="SO-802"),
            agent("Refund FE-302 and lower SO-802 to 60 EUR: yes?"),
            user("Yes."),
            call("refund_fee", {"ok": True}, fee_id="FE-302"),
            call("change_standing_order", {**SO2, "amount": 60}, order_id="SO-802", amount=60),
            agent("Both done. Anything else?"),
            user("No. ###STOP###"),
        ),
    ),
    Run(
        6,
        "ground_truth",
        "demands what the policy forbids by type",
        (
            *VIC_HERE,
            user("My card CD-6001 was stolen, please send a new one."),
            call("get_card", CD6, card_id="CD-6001"),
            agent("Business cards cannot be reissued by phone. Please go to a branch."),
            user("Alright. ###STOP###"),
        ),
    ),
    Run(
        7,
        "ground_truth",
        "demands a change of what has ended",
        (
            *UMA_HERE,
            user("Raise SO-801 to 70 EUR."),
            call("get_standing_order", SO1, order_id="SO-801"),
            agent("SO-801 ended in June, so I cannot change it."),
            user("Oh. OK. ###STOP###"),
        ),
    ),
    Run(
        8,
        "user_simulator",
        "denies what its own app shows, without a look",
        (
            *UMA_HERE,
            user("Payments with my card CD-5001 fail on the web."),
            call("get_card", CD1, card_id="CD-5001"),
            agent("Is the payment switch for online purchases off in your app?"),
            user("No, it is not off, online payments are fine."),
            agent("Then please open the card page of your app."),
            user_call("open_card_page", "Card CD-5001. Online payments: switched OFF. Limit 500."),
            user("I opened it, everything is normal there."),
            agent("Then I have no other idea. Anything else?"),
            user("No. ###STOP###"),
        ),
    ),
    Run(
        8,
        "agent",
        "never asks for the switch",
        (
            *UMA_HERE,
            user("Payments with my card CD-5001 fail on the web."),
            call("get_card", CD1, card_id="CD-5001"),
            agent("Your card is active. Please try another browser."),
            user("It did not help."),
            agent("Then I am sorry. Anything else?"),
            user("No. ###STOP###"),
        ),
    ),
    Run(
        8,
        "",
        "passes",
        (
            *UMA_HERE,
            user("Payments with my card CD-5001 fail on the web."),
            call("get_card", CD1, card_id="CD-5001"),
            agent("Please open the card page of your app."),
            user_call("open_card_page", "Card CD-5001. Online payments: switched OFF. Limit 500."),
            user("It says online payments: switched off."),
            agent("Please switch them on."),
            user_call("toggle_online_payments", "Online payments: switched ON."),
            user("It works! ###STOP###"),
        ),
    ),
    Run(
        9,
        "agent",
        "names another figure than the right one",
        (
            *UMA_HERE,
            user("What is on AC-100001, and what would be left after 1500?"),
            SEE_1,
            agent("5,100 EUR, and 3,500 EUR would be left. Anything else?"),
            user("No. ###STOP###"),
        ),
        failed=("communicate",),
    ),
)

DOMAIN = Domain("bank", POLICY, TASKS, RUNS)
