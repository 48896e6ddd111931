"""Insurance claims, several agents: nested arguments, batches, codes that confirm, a policy of clauses."""

from __future__ import annotations

from typing import Any

from tests.truth.planted.domain import Domain, Run, Say, agent, call, user, want
from tests.truth.planted.lacks import NAMES, Lack, LackDomain

POLICY = """AGENT HANDBOOK, CLAIMS. Reference time: 2042-01-20T08:00:00Z.

1. "Handler" means you. "Adjuster" means the agent reached with agents.delegate.
2. A payment is made in two steps: payments.prepare returns a code, payments.confirm takes it. A payment
   that is not confirmed is void at midnight.
3. 3.1 The Handler shall not prepare a payment of more than 5000 unless the Adjuster has signed it off.
   3.2 The Handler shall not settle a claim for which the Adjuster reports an exclusion.
4. The Handler shall include every claim that the caller names in claims.batch_update.
5. Payees' accounts are taken from the claim file (claims.read); the Handler shall not guess them.
6. No claim is reopened later than 90 days after it was closed.
"""


def _ref(kind: int, number: int) -> str:
    return f"CL-{kind}{300 + number}-{'ABCDEFGH'[number // 2 % 8]}"


def _caller(number: int, text: str) -> Say:
    who = NAMES[number // 2 % 8]
    return user(
        (f"{who} calling. {text}", f"[intake agent -> handler] {text}", f"Hello! {text} ({who})")[number % 3]
    )


def _ok(**data: Any) -> dict[str, Any]:
    return {"meta": {"status": 200, "trace": "c0ffee"}, "data": data}


def _read(ref: str, **more: Any) -> Say:
    return call("claims.read", _ok(claim={"ref": ref, "stage": "assessed", **more}), selector={"ref": ref})


def _prepare(ref: str, amount: float, code: str, iban: str = "") -> Say:
    return call(
        "payments.prepare",
        _ok(code=code, expires="2042-01-20T23:59:00Z"),
        payment={
            "claim": {"ref": ref},
            "amount": {"value": amount, "ccy": "EUR"},
            **({"payee": {"iban": iban}} if iban else {}),
        },
    )


def _confirm(code: str) -> Say:
    return call("payments.confirm", _ok(booked=True), confirmation={"code": code})


def _unconfirmed(number: int, shown: bool) -> list[Say]:
    ref, amount, code = _ref(1, number), 210.5 + number, f"K{number}7-PX"
    return [
        _caller(number, f"Pay out {amount} for {ref}, please."),
        _read(ref, assessed={"value": amount, "ccy": "EUR"}),
        _prepare(ref, amount, code),
        *([_confirm(code)] if shown else []),
        agent(f"{amount} EUR for {ref} are on the way."),
        user("Good, thanks."),
    ]


def _old_code(number: int, shown: bool) -> list[Say]:
    ref, first, second = _ref(2, number), f"Q{number}1-AA", f"Q{number}9-ZT"
    return [
        _caller(number, f"Pay 300 for {ref}."),
        _prepare(ref, 300, first),
        agent("300 EUR are prepared. Shall I confirm?"),
        user("Wait, it has to be 340."),
        _prepare(ref, 340, second),
        _confirm(second if shown else first),
        agent("340 EUR are paid."),
        user("Thank you."),
    ]


def _short_batch(number: int, shown: bool) -> list[Say]:
    refs = [_ref(kind, number) for kind in (3, 4, 5)]
    taken = refs if shown else refs[: 1 + number % 2]
    items = [{"claim": {"ref": ref}, "patch": {"reserve": {"value": 900, "ccy": "EUR"}}} for ref in taken]
    return [
        _caller(number, f"Set the reserve of {refs[0]}, {refs[1]} and {refs[2]} to 900."),
        call("claims.batch_update", _ok(updated=len(items)), batch={"items": items}),
        agent("The reserves are set."),
        user("Fine."),
    ]


def _unsigned(number: int, shown: bool) -> list[Say]:
    ref, small = _ref(6, number), number // 2 == 3
    amount, code = 2300 if small else 6100 + 450 * number, f"S{number}3-RR"
    signed = call(
        "agents.delegate",
        {"from": "adjuster", "reply": {"ref": ref, "signed_off": True}},
        to="adjuster",
        brief={"ask": "sign_off", "claim": {"ref": ref}},
    )
    return [
        _caller(number, f"{ref} can be paid."),
        _read(ref, assessed={"value": amount, "ccy": "EUR"}),
        *([signed] if shown and not small else []),
        _prepare(ref, amount, code),
        _confirm(code),
        agent("It is paid."),
        user("Very good."),
    ]


def _excluded(number: int, shown: bool) -> list[Say]:
    ref, fine = _ref(7, number), number // 2 == 3
    report = {"ref": ref, "coverage": {"exclusion": None if fine else ("flood", "wear", "war")[number % 3]}}
    start = [
        _caller(number, f"Please settle {ref}."),
        _read(ref),
        call(
            "agents.delegate",
            {"from": "adjuster", "reply": report},
            to="adjuster",
            brief={"ask": "coverage", "claim": {"ref": ref}},
        ),
    ]
    if shown and not fine:
        return [*start, agent("The adjuster reports an exclusion, it cannot be settled."), user("A shame.")]
    settled = call(
        "claims.settle", _ok(stage="settled"), decision={"claim": {"ref": ref}, "outcome": "accept"}
    )
    return [*start, settled, agent(f"{ref} is settled."), user("Great.")]


def _guessed_iban(number: int, shown: bool) -> list[Say]:
    ref, iban, code = _ref(8, number), f"NL{20 + number}BANK0417164{300 + number}", f"T{number}5-WQ"
    guess = f"NL{20 + number}BANK0123456789"
    return [
        _caller(number, f"{ref}: 480 to the insured, please."),
        *([_read(ref, payee={"iban": iban})] if shown or number % 4 == 1 else []),
        _prepare(ref, 480, code, iban if shown else guess),
        _confirm(code),
        agent("480 EUR are paid."),
        user("Okay."),
    ]


LACKS = LackDomain(
    "claims",
    POLICY,
    (
        Lack("never confirms", ("missing_call", "early_end"), "payments.confirm", _unconfirmed),
        Lack("confirms with the old code", ("wrong_value",), "code", _old_code),
        Lack("leaves claims out of a batch", ("missing_call", "wrong_value", "early_end"), "", _short_batch),
        Lack("pays without a sign-off", ("missing_call", "forbidden_call"), "payments.prepare", _unsigned),
        Lack("settles what is excluded", ("forbidden_call",), "claims.settle", _excluded),
        Lack("guesses the account", ("wrong_value",), "", _guessed_iban),
    ),
)


def _pay(ref: str, value: float) -> Any:
    return want("payments.prepare", payment={"claim": {"ref": ref}, "amount": {"value": value, "ccy": "EUR"}})


TASKS = {
    1: (
        "You are Mara Quist. Have claim CL-9001-A paid (1200 EUR) and the reserve of CL-9002-B set to 50.",
        [
            _pay("CL-9001-A", 1200),
            want("payments.confirm", confirmation={"code": "M1-OK"}),
            want(
                "claims.batch_update",
                batch={
                    "items": [
                        {"claim": {"ref": "CL-9002-B"}, "patch": {"reserve": {"value": 50, "ccy": "EUR"}}}
                    ]
                },
            ),
        ],
    ),
    2: (
        "You are Mara Quist. You want claim CL-9003-C settled.",
        [want("claims.settle", decision={"claim": {"ref": "CL-9003-C"}, "outcome": "accept"})],
    ),
    3: (
        "You are Mara Quist. You want claim CL-9004-D reopened.",
        [want("claims.reopen", selector={"ref": "CL-9004-D"})],
    ),
    4: (
        "You are Mara Quist. You want claim CL-9005-E paid as it was assessed.",
        [_pay("CL-9005-E", 733.1)],
    ),
}

MARA = (
    user("Mara Quist. Two things, please: pay 1200 for CL-9001-A, and set the reserve of CL-9002-B to 50."),
    _read("CL-9001-A", assessed={"value": 1200, "ccy": "EUR"}),
)
PREPARED = _prepare("CL-9001-A", 1200, "M1-OK")
PAID = (PREPARED, _confirm("M1-OK"))


def _reserve(ref: str, value: float, result: Any = None) -> Say:
    items = [{"claim": {"ref": ref}, "patch": {"reserve": {"value": value, "ccy": "EUR"}}}]
    return call("claims.batch_update", result or _ok(updated=1), batch={"items": items})


SET = _reserve("CL-9002-B", 50)
BYE = user("Thanks, goodbye. [caller hangs up]")
DOWN = {
    "meta": {"status": 503, "trace": "dead"},
    "error": {"type": "upstream_unavailable", "detail": "no healthy upstream"},
}

RUNS = (
    Run(1, "", "passes", (*MARA, *PAID, SET, agent("Both are done."), BYE)),
    Run(1, "", "passes", (*MARA, SET, *PAID, agent("Paid, and the reserve is 50."), BYE), policy="q"),
    Run(
        2,
        "ground_truth",
        "demands to settle in spite of an exclusion",
        (
            user("Mara Quist. Please settle CL-9003-C."),
            _read("CL-9003-C"),
            call(
                "agents.delegate",
                {"from": "adjuster", "reply": {"ref": "CL-9003-C", "coverage": {"exclusion": "flood"}}},
                to="adjuster",
                brief={"ask": "coverage", "claim": {"ref": "CL-9003-C"}},
            ),
            agent("The adjuster reports an exclusion, so I may not settle it."),
            BYE,
        ),
    ),
    Run(
        3,
        "ground_truth",
        "demands to reopen what was closed long ago",
        (
            user("Mara Quist. Reopen CL-9004-D, please."),
            _read("CL-9004-D", closed_at="2041-06-02T10:00:00Z"),
            agent("It was closed more than 90 days ago and cannot be reopened."),
            BYE,
        ),
    ),
    Run(
        4,
        "ground_truth",
        "wants another amount than the one in the file",
        (
            user("Mara Quist. Pay CL-9005-E as it was assessed."),
            _read("CL-9005-E", assessed={"value": 371.1, "ccy": "EUR"}),
            _prepare("CL-9005-E", 371.1, "E5-OK"),
            _confirm("E5-OK"),
            agent("371.10 EUR are paid."),
            BYE,
        ),
    ),
    Run(
        1,
        "user_simulator",
        "names another claim than it was told",
        (
            user("Mara Quist. Two things: pay 1200 for CL-9001-A, and set the reserve of CL-9006-F to 50."),
            MARA[1],
            *PAID,
            _reserve("CL-9006-F", 50),
            agent("Both are done."),
            BYE,
        ),
    ),
    Run(
        1,
        "user_simulator",
        "never speaks of the reserve",
        (
            user("Mara Quist. Pay 1200 for CL-9001-A, please."),
            MARA[1],
            *PAID,
            agent("Paid. Can I do anything else for you?"),
            user("No, nothing else. [caller hangs up]"),
        ),
    ),
    Run(
        1,
        "user_simulator",
        "hangs up before the second step",
        (
            *MARA,
            PREPARED,
            agent(
                "1200 EUR are prepared for CL-9001-A, code M1-OK. May I confirm, and then set the reserve?"
            ),
            user("Yes, confirm it. [caller hangs up]"),
        ),
    ),
    Run(
        1,
        "environment",
        "the payments' service is down",
        (
            *MARA,
            PREPARED,
            call("payments.confirm", DOWN, confirmation={"code": "M1-OK"}),
            call("payments.confirm", DOWN, confirmation={"code": "M1-OK"}),
            agent("The payment cannot be confirmed, the service is down."),
            BYE,
        ),
    ),
    Run(
        1,
        "environment",
        "another agent's worker dies",
        (
            *MARA,
            call(
                "agents.delegate",
                {"from": "adjuster", "error": "WorkerCrashed: process exited with signal 9"},
                to="adjuster",
                brief={"ask": "coverage", "claim": {"ref": "CL-9001-A"}},
            ),
            agent("The adjuster does not answer, so I cannot go on."),
            BYE,
        ),
    ),
    Run(
        1,
        "infrastructure",
        "a call is lost",
        (*MARA, *PAID, agent("", completion_tokens=96)),
        stop="agent_error",
    ),
    Run(
        1,
        "infrastructure",
        "the model's server is overloaded",
        (*MARA, PREPARED),
        stop="infrastructure_error",
        error="OverloadedError: 529",
    ),
    Run(
        1,
        "agent",
        "sends a malformed batch and blames the service",
        (
            *MARA,
            *PAID,
            call(
                "claims.batch_update",
                {
                    "meta": {"status": 422},
                    "error": {"type": "validation", "detail": "batch.items: field required"},
                },
                batch={"claims": ["CL-9002-B"]},
            ),
            agent("The service does not accept reserves at the moment."),
            BYE,
        ),
    ),
    Run(1, "agent", "forgets the reserve", (*MARA, *PAID, agent("The claim is paid."), BYE)),
    Run(
        1,
        "agent",
        "sets ten times the reserve",
        (*MARA, *PAID, _reserve("CL-9002-B", 500), agent("Both are done."), BYE),
    ),
    Run(
        1,
        "agent",
        "asks for a sign-off that nobody needs and stops",
        (*MARA, agent("For that I need the adjuster's sign-off, I cannot pay it."), BYE),
    ),
)

FAULTS = Domain("claims", POLICY, TASKS, RUNS)
