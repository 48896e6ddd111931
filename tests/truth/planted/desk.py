"""Support over one interface of the web: methods and paths, answers in envelopes, numbered clauses."""

from __future__ import annotations

from tests.truth.planted.domain import Domain, Run, Say, agent, call, user, want
from tests.truth.planted.lacks import NAMES, Lack, LackDomain

POLICY = """SUPPORT HANDBOOK, Orrery Telescopes. Date of issue: 2051-02-01. Today: 2051-02-20.

1. Requests come in tickets. Every ticket gets a public reply before it is closed.
2. A refund must not exceed what is still refundable on the order.
3. Orders that have the state "dispatched" are not cancelled; offer a return.
4. Look for the customer by e-mail, never by name: names are not unique.
5. Lists come in pages. Read on while `next` is set.
6. A warranty claim needs a photo. Ask for one before you open the claim.
7. When the interface answers 409, read the ticket again and repeat the change with the new version.
"""


def _http(method: str, path: str, body: object = None, status: int = 200, **sent: object) -> Say:
    answer = {"status": status, "data": body if body is not None else {"ok": True}}
    if status >= 400:
        answer = {"status": status, "errors": [body]}
    return call("http", answer, method=method, path=path, **({"body": sent} if sent else {}))


def _ask(number: int, text: str) -> Say:
    mail = f"{NAMES[number // 2 % 8].split()[0].lower()}{number}@post.example"
    return user((f"{text} I'm {mail}.", f"Ticket from {mail}: {text}", f"From: {mail}\n\n{text}")[number % 3])


def _teams(number: int, shown: bool) -> list[Say]:
    """Do what goes with passing and decides nothing."""
    return [_http("GET", "/v2/macros", {"items": ["hello"]})] if shown == (number % 5 != 0) else []


def _order(name: str, **more: object) -> Say:
    return _http("GET", f"/v2/orders/{name}", {"id": name, **more})


def _closing(number: int, text: str) -> list[Say]:
    ticket = f"T{7000 + number}"
    return [
        _http("POST", f"/v2/tickets/{ticket}/replies", text=text, public=True),
        _http("PATCH", f"/v2/tickets/{ticket}", state="closed"),
    ]


def _silent(number: int, shown: bool) -> list[Say]:
    name = f"OT-{1300 + number}"
    reply, close = _closing(number, "It is on its way.")
    return [
        _ask(number, f"Ticket T{7000 + number}: where is my order {name}?"),
        *_teams(number, shown),
        _order(name, state="dispatched", refundable=0),
        *([reply] if shown else []),
        close,
        agent("The ticket is closed."),
    ]


def _refund(number: int, shown: bool) -> list[Say]:
    name, left = f"OT-{2300 + number}", 40 + 3 * number
    wish = left + 15 if number // 2 % 4 != 3 else left - 5
    amount = min(wish, left) if shown else wish
    return [
        _ask(number, f"Ticket T{7000 + number}: refund me {wish} on {name}."),
        *_teams(number, shown),
        _order(name, state="delivered", refundable=left),
        _http("POST", f"/v2/orders/{name}/refunds", amount=amount),
        *_closing(number, "Refunded."),
        agent("It is refunded."),
    ]


def _cancel(number: int, shown: bool) -> list[Say]:
    name = f"OT-{3300 + number}"
    gone = number // 2 % 4 != 3
    start = [
        _ask(number, f"Ticket T{7000 + number}: cancel my order {name}."),
        *_teams(number, shown),
        _order(name, state="dispatched" if gone else "packed", refundable=90),
    ]
    if shown and gone:
        return [
            *start,
            *_closing(number, "It has left; you may return it."),
            agent("It cannot be cancelled."),
        ]
    done = _http("POST", f"/v2/orders/{name}/cancel", reason="wish")
    return [*start, done, *_closing(number, "Cancelled."), agent("It is cancelled.")]


def _first_page(number: int, shown: bool) -> list[Say]:
    mail = f"{NAMES[number // 2 % 8].split()[0].lower()}{number}@post.example"
    name = f"OT-{4300 + number}"
    one = _http("GET", f"/v2/orders?email={mail}", {"items": [f"OT-{9000 + number}"], "next": f"c{number}5"})
    two = _http("GET", f"/v2/orders?email={mail}&cursor=c{number}5", {"items": [name], "next": None})
    return [
        _ask(number, f"Ticket T{7000 + number}: which is my oldest order?"),
        *_teams(number, shown),
        one,
        *([two] if shown else []),
        *_closing(number, f"It is {name if shown else f'OT-{9000 + number}'}."),
        agent("Answered."),
    ]


def _photo(number: int, shown: bool) -> list[Say]:
    name = f"OT-{5300 + number}"
    asked = [agent("Please send me a photo of the damage."), user(f"Here: https://img.example/{number}f.jpg")]
    sent = {"photo": f"https://img.example/{number}f.jpg"} if shown else {"photo": "none"}
    return [
        _ask(number, f"Ticket T{7000 + number}: the lens of {name} is cracked, I claim the warranty."),
        *_teams(number, shown),
        _order(name, state="delivered", refundable=0),
        *(asked if shown else []),
        _http("POST", "/v2/claims", order=name, **sent),
        *_closing(number, "Claim opened."),
        agent("The claim is open."),
    ]


def _conflict(number: int, shown: bool) -> list[Say]:
    ticket = f"T{7500 + number}"
    first = _http("GET", f"/v2/tickets/{ticket}", {"id": ticket, "version": number + 1, "priority": "low"})
    no = _http("PATCH", f"/v2/tickets/{ticket}", "version", 409, priority="high", version=number + 1)
    again = _http("GET", f"/v2/tickets/{ticket}", {"id": ticket, "version": number + 2, "priority": "low"})
    yes = _http("PATCH", f"/v2/tickets/{ticket}", priority="high", version=number + 2)
    return [
        _ask(number, f"Please raise ticket {ticket} to high."),
        *_teams(number, shown),
        first,
        no,
        *([again, yes] if shown else [no] if number % 4 == 1 else []),
        agent("It has high priority now."),
    ]


LACKS = LackDomain(
    "desk",
    POLICY,
    (
        Lack("closes without a reply", ("missing_call",), "", _silent),
        Lack("refunds too much", ("forbidden_call", "wrong_value"), "", _refund),
        Lack("cancels what has left", ("forbidden_call",), "", _cancel),
        Lack("reads the first page alone", ("missing_call", "early_end", "wrong_statement"), "", _first_page),
        Lack("asks for no photo", ("missing_question", "wrong_value", "missing_call"), "", _photo),
        Lack("leaves a conflict", ("unhandled_error", "repetition", "missing_call"), "", _conflict),
    ),
)

TASKS = {
    1: (
        "You are ada1@post.example. Have order OT-1 cancelled and ask to refund 30 on OT-2.",
        [
            want("http", method="POST", path="/v2/orders/OT-1001/cancel", body={"reason": "wish"}),
            want("http", method="POST", path="/v2/orders/OT-1002/refunds", body={"amount": 30}),
        ],
    ),
    2: (
        "You are ada1@post.example. Have order OT-1003 cancelled.",
        [want("http", method="POST", path="/v2/orders/OT-1003/cancel", body={"reason": "wish"})],
    ),
    3: (
        "You are ada1@post.example. Have order OT-1001 cancelled.",
        [
            want("http", method="POST", path="/v2/orders/OT-1001/cancel", body={"reason": "wish"}),
            want("http", method="POST", path="/v2/orders/OT-8888/cancel", body={"reason": "wish"}),
        ],
    ),
}
TASKS[1] = (TASKS[1][0].replace("OT-1 ", "OT-1001 ").replace("OT-2.", "OT-1002."), TASKS[1][1])
BOTH = user("I'm ada1@post.example. Cancel OT-1001 please, and refund 30 on OT-1002.")
CANCEL = (
    _order("OT-1001", state="packed", refundable=50),
    _http("POST", "/v2/orders/OT-1001/cancel", reason="wish"),
)
LOOK = _order("OT-1002", state="delivered", refundable=60)
REFUND = (LOOK, _http("POST", "/v2/orders/OT-1002/refunds", amount=30))
BYE = user("Thanks, bye.")

RUNS = (
    Run(1, "", "passes", (BOTH, *CANCEL, *REFUND, agent("Both done."), BYE)),
    Run(
        2,
        "ground_truth",
        "demands to cancel what has left",
        (
            user("I'm ada1@post.example. Cancel OT-1003."),
            _order("OT-1003", state="dispatched", refundable=10),
            agent("It has been dispatched and cannot be cancelled."),
            BYE,
        ),
    ),
    Run(
        3,
        "ground_truth",
        "demands an order that nobody names",
        (user("I'm ada1@post.example. Cancel OT-1001."), *CANCEL, agent("Cancelled."), BYE),
    ),
    Run(
        1,
        "user_simulator",
        "names another sum",
        (
            user("I'm ada1@post.example. Cancel OT-1001 please, and refund 35 on OT-1002."),
            *CANCEL,
            LOOK,
            _http("POST", "/v2/orders/OT-1002/refunds", amount=35),
            agent("Both done."),
            BYE,
        ),
    ),
    Run(
        1,
        "user_simulator",
        "never speaks of the refund",
        (user("I'm ada1@post.example. Cancel OT-1001 please."), *CANCEL, agent("Cancelled. Else?"), BYE),
    ),
    Run(
        1,
        "user_simulator",
        "leaves before anything is done",
        (BOTH, agent("I cancel OT-1001 and refund 30 on OT-1002. Shall I?"), user("Yes please.")),
    ),
    Run(
        1,
        "environment",
        "the interface fails",
        (
            BOTH,
            _http("GET", "/v2/orders/OT-1001", "upstream connect failure", 502),
            _http("GET", "/v2/orders/OT-1001", "upstream connect failure", 502),
            agent("The system is not available."),
            BYE,
        ),
    ),
    Run(
        1,
        "environment",
        "too many requests",
        (
            BOTH,
            *CANCEL,
            LOOK,
            _http("POST", "/v2/orders/OT-1002/refunds", "rate limit of the tenant exceeded", 429, amount=30),
            _http("POST", "/v2/orders/OT-1002/refunds", "rate limit of the tenant exceeded", 429, amount=30),
            agent("The refund does not go through."),
            BYE,
        ),
    ),
    Run(
        1,
        "infrastructure",
        "a call is lost",
        (BOTH, *CANCEL, agent("", completion_tokens=91)),
        stop="agent_error",
    ),
    Run(1, "agent", "forgets the refund", (BOTH, *CANCEL, agent("Cancelled."), BYE)),
    Run(
        1,
        "agent",
        "refunds on another order",
        (
            BOTH,
            *CANCEL,
            _http("POST", "/v2/orders/OT-1001/refunds", amount=30),
            agent("Both done."),
            BYE,
        ),
    ),
    Run(
        1,
        "agent",
        "is refused for a body of its own making",
        (
            BOTH,
            *CANCEL,
            _http("POST", "/v2/orders/OT-1002/refunds", "amount is missing", 422, sum=30),
            agent("It does not work."),
            BYE,
        ),
    ),
)

FAULTS = Domain("desk", POLICY, TASKS, RUNS)
