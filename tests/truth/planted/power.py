"""An electricity supplier: tools that begin with the thing, answers in lines of text, a policy in tables."""

from __future__ import annotations

from tests.truth.planted.domain import Domain, Run, Say, agent, call, user, want
from tests.truth.planted.lacks import NAMES, Lack, LackDomain

POLICY = """# Rules of the customer line

It is 2038-03-20 today.

| What the customer wants | Look at this first | Allowed | Not allowed |
| --- | --- | --- | --- |
| switch the tariff | the meter (meter_show) | contract is running and the minimum term is over | \
a notice has been given |
| defer a bill | the bill (bill_show) | bills that are not in collection, in at most 6 instalments | \
bills in collection |
| refund a balance | the account (account_show) | the balance as it is now | - |
| reconnect the power | the contract (contract_show) | always, once the arrears are paid | - |

| Step | How it is finished |
| --- | --- |
| meter reading | check the value with reading_check, then enter it with reading_submit |
| deferral | bill_defer |

Business contracts cannot be switched to the Family tariff.
"""


def _hello(number: int) -> str:
    return f"Hi, {NAMES[number // 2 % 8]} here."


def _contract(name: str, **more: object) -> str:
    lines = [
        f"Contract {name}",
        *(f"{key.replace('_', ' ').capitalize()}: {value}" for key, value in more.items()),
    ]
    return "\n".join(lines)


def _meter(number: int, shown: bool) -> list[Say]:
    name, meter = f"CT-{3100 + number}", f"MT-{8100 + number}"
    more = {"state": "running", "minimum_term_ends": "2037-12-31", "notice_given": "no", "meter": meter}
    look = call("meter_show", f"Meter {meter}\nKind: smart\nPhases: three", meter_id=meter)
    return [
        user(f"{_hello(number)} I would like contract {name} to have the Night tariff."),
        call("contract_show", _contract(name, **more), contract_id=name),
        *([look] if shown else []),
        call("tariff_switch", "Switched.", contract_id=name, tariff="Night"),
        agent("You are on the Night tariff now."),
        user("Lovely. Bye."),
    ]


def _switch(number: int, shown: bool) -> list[Say]:
    name, meter, case = f"CT-{3300 + number}", f"MT-{8300 + number}", number // 2 % 4
    more = {
        "state": "paused" if case == 0 else "running",
        "minimum_term_ends": "2039-06-30" if case == 1 else "2037-06-30",
        "notice_given": "yes" if case == 2 else "no",
        "meter": meter,
    }
    start = [
        user(f"{_hello(number)} Switch contract {name} to the Solar tariff."),
        call("contract_show", _contract(name, **more), contract_id=name),
        call("meter_show", f"Meter {meter}\nKind: smart\nPhases: one", meter_id=meter),
    ]
    if shown and case < 3:
        why = ("your contract is paused", "its minimum term runs on", "notice has been given")[case]
        return [*start, agent(f"That will not work, as {why}."), user("OK, bye.")]
    done = call("tariff_switch", "Switched.", contract_id=name, tariff="Solar")
    return [*start, done, agent("You have the Solar tariff."), user("Great.")]


def _unsubmitted(number: int, shown: bool) -> list[Say]:
    meter, value = f"MT-{8500 + number}", 10400 + 37 * number
    submit = call("reading_submit", "Entered.", meter_id=meter, value=value)
    return [
        user(f"{_hello(number)} The reading of meter {meter} is {value}."),
        call("reading_check", "Plausible: yes\nDeviation: 2 %", meter_id=meter, value=value),
        *([submit] if shown else []),
        agent("Thank you, your reading has been entered."),
        user("Thanks, bye."),
    ]


def _old_balance(number: int, shown: bool) -> list[Say]:
    name, bill, before, after = f"AC-{6100 + number}", f"BL-{6100 + number}", 140 + number, 95 + number
    return [
        user(f"{_hello(number)} Pay bill {bill} from my balance, account {name}, refund the rest."),
        call("account_show", f"Account {name}\nBalance: {before}\nCurrency: EUR", account_id=name),
        call(
            "bill_pay",
            f"Account {name}\nBalance: {after}\nCurrency: EUR",
            account_id=name,
            bill_id=bill,
        ),
        call("balance_refund", "Sent.", account_id=name, balance=after if shown else before),
        agent("The bill is paid and the rest is on its way to you."),
        user("Thank you."),
    ]


def _no_deferral(number: int, shown: bool) -> list[Say]:
    name = f"BL-{7100 + number}"
    start = [
        user(f"{_hello(number)} I cannot pay {name} at once. Can you defer it, three instalments?"),
        call("bill_show", f"Bill {name}\nCollection: no\nAmount: 210", bill_id=name),
    ]
    if shown:
        done = call("bill_defer", "Deferred.", bill_id=name, instalments=3)
        return [*start, done, agent("You pay it in three instalments."), user("That helps, bye.")]
    handed = call("transfer_to_colleague", "Transferred.", summary="wants to defer a bill")
    return [*start, handed, agent("A colleague takes over."), user("Hm, OK.")]


LACKS = LackDomain(
    "power",
    POLICY,
    (
        Lack("switches without the meter", ("missing_call",), "meter_show", _meter),
        Lack("switches what must not be", ("forbidden_call",), "tariff_switch", _switch),
        Lack("checks and never submits", ("missing_call", "early_end"), "reading_submit", _unsubmitted),
        Lack("refunds the old balance", ("wrong_value",), "balance", _old_balance),
        Lack("hands over what it could do", ("missing_call", "early_end"), "bill_defer", _no_deferral),
    ),
)

RUNNING = _contract(
    "CT-9002", state="running", minimum_term_ends="2037-01-31", notice_given="no", meter="MT-9002"
)
TRADE = _contract("CT-9003", state="running", kind="business", notice_given="no", meter="MT-9003")
BILL = "Bill BL-9001\nCollection: yes\nAmount: 300"
OPEN = "Bill BL-9002\nCollection: no\nAmount: 120"

TASKS = {
    1: (
        "You are Nora Feld. Have the bill BL-9001 deferred, 4 instalments.",
        [want("bill_defer", bill_id="BL-9001", instalments=4)],
    ),
    2: (
        "You are Nora Feld. Have the bill BL-9002 deferred, 12 instalments.",
        [want("bill_defer", bill_id="BL-9002", instalments=12)],
    ),
    3: (
        "You are Nora Feld. Switch CT-9002 to the Night tariff, and defer BL-9002 in 3 instalments.",
        [
            want("tariff_switch", contract_id="CT-9002", tariff="Night"),
            want("bill_defer", bill_id="BL-9002", instalments=3),
        ],
    ),
    4: (
        "You are Nora Feld. Switch CT-9003 to the Family tariff.",
        [want("tariff_switch", contract_id="CT-9003", tariff="Family")],
    ),
    5: (
        "You are Nora Feld. You want your bonus for CT-9002 paid out.",
        [want("bonus_pay", contract_id="CT-9002", amount=57)],
    ),
}

HELLO = (user("Good evening, Nora Feld."), agent("Good evening, what is it about?"))
SWITCHED = (
    call("contract_show", RUNNING, contract_id="CT-9002"),
    call("meter_show", "Meter MT-9002\nKind: smart\nPhases: one", meter_id="MT-9002"),
    call("tariff_switch", "Switched.", contract_id="CT-9002", tariff="Night"),
)
SHOWN = call("bill_show", OPEN, bill_id="BL-9002")
BOTH = user("I'd like CT-9002 on the Night tariff, and BL-9002 deferred in 3 instalments.")
DEFERRED = call("bill_defer", "Deferred.", bill_id="BL-9002", instalments=3)


def _bonus(amount: int, policy: str) -> Run:
    """Return a run of the task whose amount stands in no record."""
    says = (
        *HELLO,
        user("I want my bonus for CT-9002 paid out."),
        call("contract_show", RUNNING, contract_id="CT-9002"),
        call("bonus_show", "Bonus: 40\nPaid: no", contract_id="CT-9002"),
        call("bonus_pay", "Paid.", contract_id="CT-9002", amount=amount),
        agent("It has been paid out."),
        user("Great. ###STOP###"),
    )
    return Run(5, "ground_truth", "wants an amount that no record has; none passes", says, policy=policy)


RUNS = (
    Run(
        1,
        "ground_truth",
        "demands the deferral of what is in collection",
        (
            *HELLO,
            user("Please defer BL-9001, four instalments."),
            call("bill_show", BILL, bill_id="BL-9001"),
            agent("This bill is in collection, I cannot defer it."),
            user("Oh. ###STOP###"),
        ),
    ),
    Run(
        2,
        "ground_truth",
        "demands more instalments than there may be",
        (
            *HELLO,
            user("Please defer BL-9002, twelve instalments."),
            SHOWN,
            agent("Six are the most. Would six do?"),
            user("No, forget it. ###STOP###"),
        ),
    ),
    Run(
        4,
        "ground_truth",
        "demands a tariff that business contracts cannot have",
        (
            *HELLO,
            user("I want the Family tariff for CT-9003."),
            call("contract_show", TRADE, contract_id="CT-9003"),
            agent("That is a business contract; it cannot have the Family tariff."),
            user("OK. ###STOP###"),
        ),
    ),
    _bonus(40, "p"),
    _bonus(40, "q"),
    _bonus(40, "q"),
    Run(
        3,
        "",
        "passes",
        (*HELLO, BOTH, *SWITCHED, SHOWN, DEFERRED, agent("Both are done."), user("Bye. ###STOP###")),
    ),
    Run(
        3,
        "user_simulator",
        "says yes and leaves",
        (
            *HELLO,
            BOTH,
            *SWITCHED,
            SHOWN,
            agent("The tariff is switched. Three instalments of 40 euros each, is that all right with you?"),
            user("Sure, that works for me. ###STOP###"),
        ),
    ),
    Run(
        3,
        "user_simulator",
        "wants another number of instalments than it was told to",
        (
            *HELLO,
            user("I'd like CT-9002 on the Night tariff, and BL-9002 deferred in 5 instalments."),
            *SWITCHED,
            SHOWN,
            call("bill_defer", "Deferred.", bill_id="BL-9002", instalments=5),
            agent("Both are done."),
            user("Bye. ###STOP###"),
        ),
    ),
    Run(
        3,
        "user_simulator",
        "repeats itself for ever",
        (
            *HELLO,
            BOTH,
            *SWITCHED,
            SHOWN,
            agent("May I defer BL-9002 in three instalments?"),
            user("What tariff do I have?"),
            agent("Night. May I defer the bill in three instalments, yes or no?"),
            user("What tariff do I have?"),
            agent("The Night tariff. I need your yes for the bill."),
            user("What tariff do I have?"),
        ),
        stop="max_turns",
    ),
    Run(
        3,
        "infrastructure",
        "its last call is lost",
        (*HELLO, BOTH, *SWITCHED, SHOWN, agent("", completion_tokens=28)),
        stop="agent_error",
    ),
    Run(
        3,
        "agent",
        "defers over too many months",
        (
            *HELLO,
            BOTH,
            *SWITCHED,
            SHOWN,
            call("bill_defer", "Deferred.", bill_id="BL-9002", instalments=6),
            agent("Both are done."),
            user("Bye. ###STOP###"),
        ),
    ),
    Run(
        3,
        "agent",
        "forgets the bill",
        (*HELLO, BOTH, *SWITCHED, agent("You have the Night tariff. Bye!"), user("Bye. ###STOP###")),
    ),
    Run(
        3,
        "agent",
        "says nothing more, and no word was generated",
        (*HELLO, BOTH, *SWITCHED, SHOWN, agent("")),
        stop="agent_error",
    ),
)

FAULTS = Domain("power", POLICY, TASKS, RUNS)
