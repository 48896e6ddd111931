"""Small dialogues, and what each detector family makes of them: family, arguments, parts, label, evidence."""

from __future__ import annotations

from typing import Any

from trace_assets.diagnosis.detectors import Transcript
from trace_assets.records import Message, ToolCall, Trajectory

PENDING = '{"order": "K4821", "status": "pending", "window": "open"}'
CLOSED = '{"order": "K4821", "status": "shipped", "window": "closed"}'
OK = '{"ok": true}'


def user(text: str) -> list[Message]:
    return [Message(role="user", content=text)]


def agent(text: str) -> list[Message]:
    return [Message(role="assistant", content=text)]


def call(
    tool: str, result: str = OK, *, error: bool = False, by_user: bool = False, **arguments: Any
) -> list[Message]:
    role, requestor = ("user", "user") if by_user else ("assistant", "assistant")
    made = ToolCall(id="c", name=tool, arguments=arguments)
    return [
        Message(role=role, tool_calls=(made,)),  # type: ignore[arg-type]
        Message(
            role="tool",
            content=result,
            tool_call_id="c",
            tool_name=tool,
            is_error=error,
            requestor=requestor,  # type: ignore[arg-type]
        ),
    ]


def transcript(*parts: list[Message], task: str = "x/0") -> Transcript:
    messages = tuple(message for part in parts for message in part)
    values = {"trajectory_id": "t", "task_id": task, "target": "x", "task_batch": "b", "policy": "p"}
    return Transcript(Trajectory(**values, messages=messages))  # type: ignore[arg-type]


CANCEL = {"tool": "cancel_order", "read": "get_order", "argument": "order", "cues": ["cancel"]}
RUGS = {
    "tool": "refund_item",
    "argument": "item",
    "values": ["rug"],
    "others": ["mug"],
    "instead": "transfer",
    "cues": ["refund"],
}
WINDOW = {
    "tool": "refund_item",
    "field": "window",
    "value": "closed",
    "instead": "transfer",
    "argument": "order",
    "cues": ["refund"],
}
EVERY = {"argument": "order", "pattern": "[A-Z][0-9]{4}"}
QUESTION = user("Who made the film?")
FOUND = call("search", "The film was made by Nick Park of Aardman.", query="film")
CANCELLED = call("cancel", order="K1")
DEVICE = {"tool": "wipe", "argument": "device", "field": "kind"}
DEVICES = call(
    "list_devices",
    '{"owner": "E1", "devices": [{"device": "DV-2001", "kind": "work laptop"}, '
    '{"device": "DV-2002", "kind": "work phone"}]}',
)
WIPE_FIRST = call("wipe", device="DV-2001")
ASK, REFUND, BOTH = user("cancel K4821"), user("refund K4821"), user("send K4821 and A0007 to Rome")

PAID = '{"order": "K4821", "paid": 64, "made_on": "2031-05-02"}'
LESS = {
    "tool": "repay",
    "argument": "amount",
    "number": 18.0,
    "shown": "18 euros",
    "way": "less",
    "situation": {},
}
FEE = {"tool": "cancel_order", "number": 18.0, "shown": "18 euros", "situation": {}}
CANCEL_IT = call("cancel_order", order="K4821")
REFUSED = call("cancel_order", '{"error": "it was sent on Monday"}', error=True, order="K4821")
CANCELLING = {"tool": "cancel_order", "words": ["cancel"]}
CHANGING = {"writes": ["cancel_order"]}
SAIL = {"tool": "rent_boat", "step": "show_licence", "first": True, "situation": {"word": "sail"}}
RENT = call("rent_boat", boat="B-1")
COUNT = {"tool": "buy", "argument": "count", "kind": "count", "known": []}
SLOT = {"tool": "book", "argument": "slot"}
SLOTS = call(
    "list_slots",
    '[{"slot": "S-1", "starts": "2031-05-15T10:00"}, {"slot": "S-2", "starts": "2031-05-15T14:00"}]',
)
BORN = {"words": ["date", "birth"], "writes": ["cancel_order"]}
MAIL = {"tool": "send_receipt"}
FIGURES = {"figures": [18.0]}
PRICES = call("list_classes", '[{"class": "yoga", "monthly": 12}, {"class": "boxing", "monthly": 19}]')


def made(day: str, insured: str) -> str:
    return f'{{"order": "K4821", "made_at": "{day}T10:00:00", "insured": "{insured}"}}'


def until(day: str) -> str:
    return f'{{"order": "K4821", "end_date": "{day}", "status": "ended"}}'


def used(amount: float, more: float = 0.0, plan: str = "P1002") -> str:
    return (
        f'{{"line_id": "L1002", "plan_id": "{plan}", "data_used_gb": {amount}, "data_refueling_gb": {more}}}'
    )


RULE = {
    "tool": "cancel_order",
    "argument": "order",
    "conditions": [
        {"field": "made_at", "within_hours": 48},
        {"field": "insured", "yes": True},
        {"words": ["parcel", "lost"]},
    ],
    "fields": ["insured", "made_at"],
    "now": "2024-05-15 15:00",
}
ENDED = {"tool": "renew_order", "argument": "order", "field": "end_date", "now": "2024-05-15", "state": {}}
SHIPPED = {
    "tool": "cancel_order",
    "argument": "order",
    "kind": "state",
    "field": "status",
    "values": ["shipped"],
    "only": False,
    "state": {},
}
CELL = {"tool": "fill", "shapes": [r"[A-Z]+\d+"]}
DAYS = {"tool": "renew_pass", "argument": "order", "kind": "most", "number": 14, "noun": "days"}
LIMIT = {
    "used": "data_used_gb",
    "more": "data_refueling_gb",
    "link": "plan_id",
    "limits": {"p1002": 15.0},
    "tool": "refuel_data",
}
NEED = {"tool": "cancel_order", "reads": ["get_quota"]}
CLAUSES = {
    "tool": "cancel_order",
    "argument": "order",
    "allowed": [
        [
            {"field": "status", "value": "pending", "not": False},
            {"field": "window", "value": "closed", "not": True},
        ]
    ],
    "forbidden": [],
    "fields": ["status", "window"],
    "now": None,
    "state": {},
}
HOLD = {"first": "hold_slot", "tool": "confirm_hold"}
ABROAD = {"stems": ["travel"], "topics": ["data"]}
LISTED = {"list": "orders", "read": "get_order", "argument": "order", "writes": ["cancel_order"]}
PROFILE = call("get_user", '{"user": "ann_lee_12", "orders": ["K4821", "A0007"]}', user="ann_lee_12")

CASES = [
    ("write_without_read", CANCEL, [ASK, call("cancel_order", order="K4821")], "LACKING", (1,)),
    (
        "write_without_read",
        CANCEL,
        [ASK, call("get_order", PENDING, order="K4821"), call("cancel_order", order="K4821")],
        "PRESENT",
        (1, 3),
    ),
    (
        "write_without_read",
        CANCEL,
        [ASK, call("get_order", PENDING, order="A0007"), call("cancel_order", order="K4821")],
        "LACKING",
        (3,),
    ),
    (
        "write_without_read",
        CANCEL,
        [
            ASK,
            call("get_order", "no such order", error=True, order="K4821"),
            call("cancel_order", order="K4821"),
        ],
        "LACKING",
        (3,),
    ),
    ("write_without_read", CANCEL, [ASK, call("get_order", CLOSED, order="K4821")], "PRESENT", (0, 1)),
    ("write_without_read", CANCEL, [ASK, agent("no")], "NA", ()),
    ("write_without_read", CANCEL, [REFUND, call("get_order", CLOSED, order="K4821")], "NA", ()),
    ("write_on_kind", RUGS, [REFUND, call("refund_item", order="K4821", item="rug")], "LACKING", (1,)),
    ("write_on_kind", RUGS, [REFUND, call("refund_item", order="K4821", item="mug")], "NA", ()),
    ("write_on_kind", RUGS, [user("refund the rug"), call("transfer", order="K4821")], "PRESENT", (0, 1)),
    ("write_on_kind", RUGS, [user("refund the rug"), agent("Done.")], "NA", ()),
    ("write_on_kind", RUGS, [user("exchange the rug"), call("transfer", order="K4821")], "NA", ()),
    (
        "write_against_state",
        WINDOW,
        [REFUND, call("get_order", CLOSED, order="K4821"), call("refund_item", order="K4821", item="rug")],
        "LACKING",
        (2, 3),
    ),
    (
        "write_against_state",
        WINDOW,
        [REFUND, call("get_order", CLOSED, order="K4821"), call("transfer", order="K4821", reason="x")],
        "PRESENT",
        (2, 3),
    ),
    (
        "write_against_state",
        WINDOW,
        [REFUND, call("get_order", PENDING, order="K4821"), call("refund_item", order="K4821", item="rug")],
        "NA",
        (),
    ),
    (
        "write_against_state",
        WINDOW,
        [REFUND, call("get_order", CLOSED, order="K4821"), agent("bye")],
        "NA",
        (),
    ),
    (
        "write_against_state",
        WINDOW,
        [ASK, call("get_order", CLOSED, order="K4821"), call("transfer", order="K4821", reason="x")],
        "NA",
        (),
    ),
    (
        "write_against_state",
        {**WINDOW, "instead": ""},
        [REFUND, call("get_order", CLOSED, order="K4821"), agent("That is not possible.")],
        "PRESENT",
        (0, 2),
    ),
    (
        "object_untouched",
        EVERY,
        [BOTH, call("update_address", order="K4821", city="Rome"), agent("done")],
        "LACKING",
        (0, 3),
    ),
    (
        "object_untouched",
        EVERY,
        [BOTH, call("update_address", order="K4821"), call("update_address", order="A0007")],
        "PRESENT",
        (0, 1, 3),
    ),
    ("object_untouched", EVERY, [ASK, agent("done")], "NA", ()),
    (
        "unsupported_argument",
        {"argument": "order", "tool": ""},
        [ASK, call("get_order", PENDING, order="K4812")],
        "LACKING",
        (1,),
    ),
    (
        "unsupported_argument",
        {"argument": "pay.id", "tool": "buy"},
        [ASK, call("get_user", '{"card": "visa_77"}'), call("buy", pay=[{"id": "visa_77"}])],
        "PRESENT",
        (3,),
    ),
    (
        "unsupported_argument",
        {"argument": "pay.id", "tool": "buy"},
        [ASK, call("get_order", order="K4821")],
        "NA",
        (),
    ),
    (
        "ended_with_work_open",
        {"tool": "cancel_order", "cues": ["cancel"]},
        [ASK, agent("bye")],
        "LACKING",
        (0, 1),
    ),
    (
        "ended_with_work_open",
        {"tool": "cancel_order", "cues": ["cancel"]},
        [ASK, call("cancel_order", "no", error=True, order="K4821"), agent("bye")],
        "LACKING",
        (0, 3),
    ),
    (
        "ended_with_work_open",
        {"tool": "cancel_order", "cues": ["cancel"]},
        [ASK, call("cancel_order", order="K4821")],
        "PRESENT",
        (0, 1),
    ),
    ("ended_with_work_open", {"tool": "cancel_order", "cues": ["cancel"]}, [REFUND, agent("bye")], "NA", ()),
    *(
        ("ended_with_work_open", CELL, [user(said), *done, agent("It is 12.")], *what)
        for said, done, what in (
            ("The sum goes into B4.", [call("sum_up")], ("LACKING", (0, 3))),
            ("The sum goes into B4.", [call("fill", into={"cell": "B4"})], ("PRESENT", (0, 1))),
            ("The sum of AB4-x, v1.B4.2", [call("sum_up")], ("NA", ())),
            ("What is in B4?", [call("look", cell="B4")], ("NA", ())),
        )
    ),
    (
        "unanswered_state",
        {"read": "", "field": "", "value": "Airplane mode is ON", "tool": "toggle_airplane_mode"},
        [ASK, call("check_bar", "Bar: x\nAirplane mode is ON", by_user=True), agent("bye")],
        "LACKING",
        (2, 3),
    ),
    (
        "unanswered_state",
        {"read": "get_line", "field": "state.kind", "value": "suspended", "tool": "resume_line"},
        [ASK, call("get_line", '{"state": {"kind": "suspended"}}'), call("resume_line")],
        "PRESENT",
        (2, 3),
    ),
    (
        "unanswered_state",
        {"read": "get_line", "field": "state.kind", "value": "suspended", "tool": "resume_line"},
        [ASK, call("resume_line"), call("get_line", '{"state": {"kind": "active"}}')],
        "NA",
        (),
    ),
    (
        "skipped_check",
        {"tool": "check_sim", "cues": ["signal"]},
        [user("no signal"), agent("bye")],
        "LACKING",
        (0, 1),
    ),
    (
        "skipped_check",
        {"tool": "check_sim", "cues": ["signal"]},
        [user("no signal"), call("check_sim")],
        "PRESENT",
        (0, 1),
    ),
    (
        "write_after_refusal",
        {"tool": "cancel_order", "words": ["cancel"]},
        [ASK, agent("I cannot cancel it."), user("do it"), call("cancel_order", order="K4821")],
        "LACKING",
        (1, 3),
    ),
    (
        "write_after_refusal",
        {"tool": "cancel_order", "words": ["cancel"]},
        [ASK, agent("I'm unable to cancel it."), user("oh"), agent("Sorry.")],
        "PRESENT",
        (1,),
    ),
    (
        "write_after_refusal",
        {"tool": "cancel_order", "words": ["cancel"]},
        [ASK, agent("I cannot refund it. Shall I cancel?"), user("yes"), call("cancel_order", order="K4821")],
        "NA",
        (),
    ),
    (
        "write_without_consent",
        {"tool": "cancel_order", "argument": "order"},
        [ASK, call("get_order", PENDING, order="K4821"), call("cancel_order", order="K4821")],
        "LACKING",
        (3,),
    ),
    (
        "write_without_consent",
        {"tool": "cancel_order", "argument": "order"},
        [
            ASK,
            agent("Cancel #K4821?"),
            user("yes"),
            call("get_order", order="K4821"),
            call("cancel_order", order="K4821"),
        ],
        "PRESENT",
        (1, 5),
    ),
    (
        "claim_without_write",
        {"writes": ["cancel_order"]},
        [ASK, call("get_order", PENDING, order="K4821"), agent("Your order has been cancelled.")],
        "LACKING",
        (3,),
    ),
    (
        "claim_without_write",
        {"writes": ["cancel_order"]},
        [ASK, call("cancel_order", order="K4821"), agent("Your order has been cancelled.")],
        "PRESENT",
        (2, 3),
    ),
    ("claim_without_write", {"writes": ["cancel_order"]}, [ASK, agent("I have looked at it.")], "NA", ()),
    (
        "unverified_write",
        {"writes": ["reboot"], "reads": ["check_bar"]},
        [ASK, call("check_bar"), call("reboot"), agent("bye")],
        "LACKING",
        (3, 5),
    ),
    (
        "unverified_write",
        {"writes": ["reboot"], "reads": ["check_bar"]},
        [ASK, call("reboot"), call("check_bar", by_user=True)],
        "PRESENT",
        (1, 3),
    ),
    (
        "unasked_deletion",
        {},
        [user("Delete src/old.py."), call("bash", command="cd /app && git rm src/old.py src/new.py")],
        "LACKING",
        (1,),
    ),
    (
        "unasked_deletion",
        {},
        [
            user("Delete the folder build in /app, and logs/."),
            call("bash", command="echo 1 > check.txt"),
            call("bash", command="rm -rf /app/build logs/a.log check.txt /tmp/x src/__pycache__"),
        ],
        "PRESENT",
        (3,),
    ),
    (
        "request_left_unmentioned",
        CANCELLING,
        [user("Move K4821, and A1007 will have to be cancelled."), call("move_order"), agent("Moved.")],
        "LACKING",
        (0, 3),
    ),
    (
        "request_left_unmentioned",
        CANCELLING,
        [user("Please cancel A1007."), agent("Cancelling it is not possible.")],
        "PRESENT",
        (0, 1),
    ),
    ("request_left_unmentioned", CANCELLING, [user("Please cancel it."), CANCEL_IT], "PRESENT", (0, 1)),
    # Nobody asks for it: a question about it, and one that was cancelled already.
    ("request_left_unmentioned", CANCELLING, [user("I do not want to cancel it."), agent("Fine.")], "NA", ()),
    (
        "request_left_unmentioned",
        CANCELLING,
        [user("Where is what was cancelled?"), agent("Here.")],
        "NA",
        (),
    ),
    ("change_against_request", CHANGING, [user("REVIEW ONLY: how is K4821?"), CANCEL_IT], "LACKING", (0, 1)),
    ("change_against_request", CHANGING, [user("Dry run, please."), call("get_order")], "PRESENT", (0,)),
    # Asked for after all.
    (
        "change_against_request",
        CHANGING,
        [user("A dry run first."), agent("It would go."), user("Then cancel it."), CANCEL_IT],
        "PRESENT",
        (0,),
    ),
    ("change_against_request", CHANGING, [user("Cancel K4821."), CANCEL_IT], "NA", ()),
    ("refusal_untold", CHANGING, [ASK, REFUSED, agent("All done.")], "LACKING", (2,)),
    ("refusal_untold", CHANGING, [ASK, REFUSED, agent("It could not be cancelled.")], "PRESENT", (2,)),
    ("refusal_untold", CHANGING, [ASK, REFUSED, CANCEL_IT, agent("All done.")], "PRESENT", (2,)),
    # A name that nobody had spoken of was mistyped.
    ("refusal_untold", CHANGING, [user("Cancel my order"), REFUSED, agent("All done.")], "NA", ()),
    ("empty_result_believed", {}, [ASK, call("find", "(0 rows)"), agent("None.")], "LACKING", (2,)),
    (
        "empty_result_believed",
        {},
        [ASK, call("find", '{"count": 0, "results": []}'), call("find", '{"count": 1}', like="k")],
        "PRESENT",
        (2, 3),
    ),
    ("empty_result_believed", {}, [ASK, call("find", '{"count": 2, "results": [1]}')], "NA", ()),
    ("unseen_answer", {}, [QUESTION, FOUND, agent("Nick Park")], "PRESENT", (3,)),
    ("unseen_answer", {}, [QUESTION, FOUND, agent("Peter Lord")], "LACKING", (3,)),
    ("unseen_answer", {}, [QUESTION, FOUND, agent("Peter Lord"), user("No.")], "NA", ()),
    ("unseen_answer", {}, [QUESTION, agent("Peter Lord")], "NA", ()),
    ("unseen_answer", {}, [QUESTION, FOUND, agent("three of them")], "NA", ()),
    ("no_answer", {}, [QUESTION, FOUND, agent("Nick Park")], "PRESENT", (3,)),
    ("no_answer", {}, [QUESTION, FOUND, FOUND], "LACKING", (3,)),
    ("no_answer", {}, [QUESTION, FOUND, user("Well?")], "NA", ()),
    ("no_answer", {}, [QUESTION, agent("Nick Park")], "NA", ()),
    ("unasked_deletion", {}, [user("Tidy up."), call("bash", command="rm a.py")], "NA", ()),
    (
        "repeated_error",
        {},
        [
            ASK,
            call("get_order", "no", error=True, order="K1"),
            call("get_order", "no", error=True, order="K1"),
        ],
        "LACKING",
        (2, 3),
    ),
    (
        "repeated_error",
        {},
        [ASK, call("get_order", "no", error=True, order="K1"), call("get_order", PENDING, order="K4821")],
        "PRESENT",
        (2,),
    ),
    ("repeated_error", {}, [ASK, call("get_order", PENDING, order="K4821")], "NA", ()),
    (
        "unrecovered_error",
        {"tool": ""},
        [ASK, call("cancel_order", '{"error": "shipped"}', order="K4821"), agent("bye")],
        "LACKING",
        (2,),
    ),
    (
        "unrecovered_error",
        {"tool": "cancel_order"},
        [ASK, call("cancel_order", "no", error=True, order="K1"), call("cancel_order", order="K4821")],
        "PRESENT",
        (2, 4),
    ),
    (
        "idle_loop",
        {"limit": 3, "writes": ["reboot"]},
        [ASK, *[call("get_order", PENDING, order="K4821") for _ in range(3)]],
        "LACKING",
        (1, 3, 5),
    ),
    (
        "idle_loop",
        {"limit": 3, "writes": ["reboot"]},
        [ASK, *[part for _ in range(3) for part in (call("check_bar"), call("reboot"))]],
        "PRESENT",
        (11,),
    ),
    (
        "call_in_prose",
        {"marks": ["GET", "DONE"]},
        [ASK, agent("I look it up.\nGET http://a.example/orders/K4821")],
        "LACKING",
        (1,),
    ),
    (
        "call_in_prose",
        {"marks": ["GET", "DONE"]},
        [ASK, agent('It is sent.\nDONE("K4821")')],
        "LACKING",
        (1,),
    ),
    ("call_in_prose", {"marks": ["GET", "DONE"]}, [ASK, agent('DONE("GET it")')], "PRESENT", (1,)),
    ("call_in_prose", {"marks": ["GET"]}, [ASK, agent("Fine.\nGET well soon.")], "PRESENT", (1,)),
    ("call_in_prose", {"marks": ["GET"]}, [ASK], "NA", ()),
    ("empty_turn", {}, [ASK, agent("")], "LACKING", (1,)),
    ("empty_turn", {}, [ASK, agent("hello")], "PRESENT", (1,)),
    # A rule of several conditions: one of them is enough.
    (
        "write_against_policy",
        RULE,
        [
            ASK,
            call("get_order", made("2024-05-01", "no"), order="K4821"),
            call("cancel_order", order="K4821"),
        ],
        "LACKING",
        (2, 3),
    ),
    (
        "write_against_policy",
        RULE,
        [
            ASK,
            call("get_order", made("2024-05-14", "no"), order="K4821"),
            call("cancel_order", order="K4821"),
        ],
        "PRESENT",
        (2, 3),
    ),
    (
        "write_against_policy",
        RULE,
        [
            ASK,
            call("get_order", made("2024-05-01", "yes"), order="K4821"),
            call("cancel_order", order="K4821"),
        ],
        "PRESENT",
        (2, 3),
    ),
    # The call's own result tells what was never looked at.
    (
        "write_against_policy",
        RULE,
        [ASK, call("cancel_order", made("2024-05-01", "no"), order="K4821")],
        "LACKING",
        (1,),
    ),
    # What a third party did shows in another result.
    (
        "write_against_policy",
        RULE,
        [
            ASK,
            call("get_order", made("2024-05-01", "no"), order="K4821"),
            call("get_parcel", '{"parcel": "lost"}', parcel="P1"),
            call("cancel_order", order="K4821"),
        ],
        "PRESENT",
        (2, 5),
    ),
    (
        "write_against_policy",
        RULE,
        [ASK, call("get_order", made("2024-05-01", "no"), order="K4821"), agent("I may not.")],
        "PRESENT",
        (0, 2),
    ),
    ("write_against_policy", RULE, [ASK, call("cancel_order", order="K4821")], "NA", ()),
    ("write_against_policy", RULE, [REFUND, agent("no")], "NA", ()),
    (
        "write_past_date",
        ENDED,
        [ASK, call("get_order", until("2024-05-01"), order="K4821"), call("renew_order", order="K4821")],
        "LACKING",
        (2, 3),
    ),
    (
        "write_past_date",
        ENDED,
        [ASK, call("get_order", until("2024-06-01"), order="K4821"), call("renew_order", order="K4821")],
        "NA",
        (),
    ),
    (
        "write_past_date",
        ENDED,
        [ASK, call("get_order", until("2024-05-01"), order="K4821"), agent("It has ended.")],
        "PRESENT",
        (2,),
    ),
    (
        "write_past_date",
        ENDED | {"state": {"status": "open"}},
        [ASK, call("get_order", until("2024-05-01"), order="K4821"), agent("It has ended.")],
        "NA",
        (),
    ),
    *(
        (
            "write_against_rule",
            SHIPPED,
            [ASK, call("get_order", record, order="K4821"), *rest],
            label,
            evidence,
        )
        for record, rest, label, evidence in (
            (CLOSED, [call("cancel_order", order="K4821")], "LACKING", (2, 3)),
            (CLOSED, [call("cancel_order", "Error: shipped", order="K4821")], "PRESENT", (2,)),
            (CLOSED, [agent("It has left already.")], "PRESENT", (2,)),
            (PENDING, [call("cancel_order", order="K4821")], "NA", ()),
        )
    ),
    (
        "write_against_rule",
        ENDED | {"kind": "past", "state": {"status": "open"}},
        [REFUND, call("get_order", until("2024-05-01"), order="K4821"), agent("It has ended.")],
        "NA",
        (),
    ),
    *(
        (
            "write_against_rule",
            ENDED | {"kind": "given_window", "field": "of.on", "hours": 48, "ahead": False},
            [ASK, call("renew_order", order="K4821", of={"on": day})],
            label,
            (1,),
        )
        for day, label in (("2024-05-12", "LACKING"), ("2024-05-13", "PRESENT"))
    ),
    (
        "write_against_rule",
        ENDED | {"kind": "past"},
        [ASK, call("get_order", until("2024-05-01"), order="K4821"), call("renew_order", order="K4821")],
        "LACKING",
        (2, 3),
    ),
    *(
        (
            "write_against_rule",
            ENDED | {"kind": "window", "hours": 48, "ahead": ahead},
            [ASK, call("get_order", until(day), order="K4821"), call("renew_order", order="K4821")],
            label,
            evidence,
        )
        for ahead, day, label, evidence in (
            (True, "2024-05-16", "LACKING", (2, 3)),
            (True, "2024-05-17", "NA", ()),
            (False, "2024-05-12", "LACKING", (2, 3)),
            (False, "2024-05-13", "NA", ()),
            (False, "2024-05-20", "NA", ()),
        )
    ),
    *(
        (
            "write_against_rule",
            ENDED | {"kind": "past"},
            [user("renew it"), call("list_orders", shown, user="ann"), agent("That is over.")],
            label,
            evidence,
        )
        for shown, label, evidence in (
            (until("2024-05-01"), "PRESENT", (2,)),
            (f"[{until('2024-05-01')}, {until('2024-05-02').replace('K4821', 'A0007')}]", "NA", ()),
        )
    ),
    ("unread_prerequisite", NEED, [ASK, call("cancel_order", order="K4821")], "LACKING", (1,)),
    (
        "unread_prerequisite",
        NEED,
        [ASK, call("get_quota", project="P1"), call("cancel_order", order="K4821")],
        "PRESENT",
        (2, 3),
    ),
    (
        "unread_prerequisite",
        NEED,
        [ASK, call("get_quota", "Error: gone", error=True), call("cancel_order", order="K4821")],
        "LACKING",
        (3,),
    ),
    *(
        (
            "write_against_clauses",
            CLAUSES,
            [ASK, call("get_order", record, order="K4821"), *rest],
            label,
            evidence,
        )
        for record, rest, label, evidence in (
            (CLOSED, [call("cancel_order", order="K4821")], "LACKING", (2, 3)),
            (CLOSED, [call("cancel_order", "Error: shipped", order="K4821")], "PRESENT", (2,)),
            (CLOSED, [agent("It has left already.")], "PRESENT", (2,)),
            (PENDING, [call("cancel_order", order="K4821")], "NA", ()),
            ('{"order": "K4821", "window": "open"}', [call("cancel_order", order="K4821")], "NA", ()),
        )
    ),
    (
        "customary_step",
        {"step": "check_stock", "beside": "cancel_order", "first": True},
        [call("check_stock", "3 left", order="K4821"), call("cancel_order", order="K4821")],
        "PRESENT",
        (0, 2),
    ),
    (
        "customary_step",
        {"step": "check_stock", "beside": "cancel_order", "first": True},
        [call("cancel_order", order="K4821"), call("check_stock", "3 left", order="K4821")],
        "LACKING",
        (0,),
    ),
    (
        "customary_step",
        {"step": "log_change", "beside": "cancel_order", "first": False},
        [call("cancel_order", order="K4821"), agent("Done.")],
        "LACKING",
        (0, 2),
    ),
    (
        "customary_step",
        {"step": "log_change", "beside": "cancel_order", "first": False},
        [call("log_change", "logged", order="K4821")],
        "NA",
        (),
    ),
    (
        "unread_pages",
        {"tool": "list_orders"},
        [
            call("list_orders", '{"items": ["K1"], "next": "c5"}', page=1),
            call("list_orders", '{"items": ["K2"], "next": null}', page=2),
        ],
        "PRESENT",
        (1, 2),
    ),
    (
        "unread_pages",
        {"tool": "list_orders"},
        [call("list_orders", '{"items": ["K1"], "next": "c5"}', page=1), agent("There is no K2.")],
        "LACKING",
        (1,),
    ),
    (
        "unread_pages",
        {"tool": "list_orders"},
        [call("list_orders", '{"items": ["K1"], "next": null}', page=1)],
        "NA",
        (),
    ),
    (
        "unfinished_deed",
        HOLD,
        [ASK, call("hold_slot", '{"hold": "H1001"}', slot="S1"), agent("It is booked.")],
        "LACKING",
        (1, 3),
    ),
    (
        "unfinished_deed",
        HOLD,
        [ASK, call("hold_slot", '{"hold": "H1001"}', slot="S1"), call("confirm_hold", hold="H1001")],
        "PRESENT",
        (1, 3),
    ),
    *(
        (
            "stale_value",
            {"argument": "revision"},
            [
                ASK,
                call("get_order", '{"order": "K4821", "revision": "r1"}', order="K4821"),
                call("edit_order", '{"order": "K4821", "revision": "r2"}', order="K4821", revision="r1"),
                *said,
                call("edit_order", order="K4821", revision=given),
            ],
            label,
            evidence,
        )
        for said, given, label, evidence in (
            ([], "r1", "LACKING", (4, 5)),
            ([], "r2", "PRESENT", (4, 5)),
            ([], "r3", "NA", ()),
            ([user("No, back to R1, please.")], "r1", "PRESENT", (4, 6)),
        )
    ),
    ("write_against_rule", DAYS, [ASK, call("renew_pass", order="K4821", days=30)], "LACKING", (1,)),
    ("write_against_rule", DAYS, [ASK, call("renew_pass", order="K4821", days=14)], "PRESENT", (1,)),
    ("write_against_rule", DAYS, [ASK, call("renew_pass", order="K4821")], "NA", ()),
    *(
        ("denied_without_look", {"tools": ["search_bays"], "thing": "bay"}, said, label, evidence)
        for said, label, evidence in (
            ([user("A bay?"), agent("I am sorry, there are no bays left.")], "LACKING", (1,)),
            ([user("A bay?"), agent("Are there no bays in your street?")], "NA", ()),
            ([user("A bay?"), agent("If there are no bays, I shall say so.")], "NA", ()),
            ([user("A bay?"), call("search_bays", "[]"), agent("There is no bay.")], "PRESENT", (1,)),
            ([ASK, call("get_street", '{"bays": 0}'), agent("There are no bays.")], "NA", ()),
        )
    ),
    (
        "limit_exceeded",
        LIMIT,
        [ASK, call("get_line", used(15.1), line="L1002"), agent("All is well.")],
        "LACKING",
        (2, 3),
    ),
    (
        "limit_exceeded",
        LIMIT,
        [ASK, call("get_line", used(15.1), line="L1002"), call("refuel_data", line="L1002")],
        "PRESENT",
        (3,),
    ),
    ("limit_exceeded", LIMIT, [ASK, call("get_line", used(15.1, 2.0), line="L1002")], "NA", ()),
    ("limit_exceeded", LIMIT, [ASK, call("get_line", used(3), line="L1002")], "NA", ()),
    ("limit_exceeded", LIMIT, [ASK, call("get_line", used(99, plan="P9999"), line="L1002")], "NA", ()),
    (
        "unasked_condition",
        ABROAD,
        [
            user("my data is slow"),
            agent("Restart it."),
            user("no"),
            agent("Then?"),
            user("no"),
            agent("Bye."),
        ],
        "LACKING",
        (0, 5),
    ),
    (
        "unasked_condition",
        ABROAD,
        [user("my data is slow"), agent("Are you travelling?"), user("no"), agent("Then?"), user("no")],
        "PRESENT",
        (1,),
    ),
    # Said by the agent without a question, it was not asked; by the user, it need not be.
    (
        "unasked_condition",
        ABROAD,
        [user("my data is slow"), agent("Travel data costs."), user("no"), agent("Then."), user("no")],
        "LACKING",
        (0, 3),
    ),
    (
        "unasked_condition",
        ABROAD,
        [user("my data is slow, I travel"), agent("Restart it."), user("no"), agent("Then."), user("no")],
        "PRESENT",
        (0,),
    ),
    ("unasked_condition", ABROAD, [user("my bill"), agent("a"), user("b"), agent("c"), user("d")], "NA", ()),
    ("unasked_condition", ABROAD, [user("my data is slow"), agent("Bye.")], "NA", ()),
    ("listed_unopened", LISTED, [user("my order"), PROFILE, agent("Which one?")], "LACKING", (2, 3)),
    (
        "listed_unopened",
        LISTED,
        [user("my order"), PROFILE, call("get_order", PENDING, order="K4821"), agent("Which one?")],
        "LACKING",
        (2, 5),
    ),
    (
        "listed_unopened",
        LISTED,
        [
            user("my order"),
            PROFILE,
            call("get_order", PENDING, order="K4821"),
            call("cancel_order", order="K4821"),
        ],
        "PRESENT",
        (2, 5),
    ),
    (
        "listed_unopened",
        LISTED,
        [
            user("my order"),
            PROFILE,
            call("get_order", PENDING, order="K4821"),
            call("get_order", CLOSED, order="A0007"),
        ],
        "PRESENT",
        (2, 5),
    ),
    ("listed_unopened", LISTED, [ASK, PROFILE, agent("Which one?")], "NA", ()),
    *(
        ("second_request_left", {"writes": ["cancel", "send"]}, [user(said), *done, agent("Done.")], *what)
        for said, done, what in (
            ("Cancel K1. Also, send me the bill.", [CANCELLED], ("LACKING", (0, 3))),
            ("Cancel K1, and send the bill too", [CANCELLED, CANCELLED], ("LACKING", (0, 5))),
            ("Cancel K1 and K2 as well.", [CANCELLED, call("cancel", order="K2")], ("PRESENT", (0, 1, 3))),
            ("Cancel K1.\nThen send the bill", [CANCELLED, call("send")], ("PRESENT", (0, 1, 3))),
            ("Cancel K1. And also the bill!", [call("look")], ("NA", ())),
            ("Cancel K1, it is much too late.", [CANCELLED], ("NA", ())),
            ("Cancel K1. The bill is wanted too please.", [CANCELLED], ("LACKING", (0, 3))),
            ("Bitte K1 stornieren. Außerdem die Rechnung!", [CANCELLED], ("LACKING", (0, 3))),
            ("Anule K1; también la factura", [CANCELLED], ("LACKING", (0, 3))),
            ("I am away and would like to cancel K1", [CANCELLED], ("NA", ())),
            # A report on somebody who does not speak.
            ("The user has no signal, and K1 was cancelled too.", [CANCELLED], ("NA", ())),
        )
    ),
    *(
        ("second_request_left", {"writes": []}, [user("Count A. Also count B."), *looks], *what)
        for looks, what in (
            ([call("describe", of="A"), call("count", of="A")], ("LACKING", (0, 3))),
            ([call("count", of="A"), call("count", of="B")], ("PRESENT", (0, 1, 3))),
        )
    ),
    ("other_record_taken", DEVICE, [user("my phone was stolen"), DEVICES, WIPE_FIRST], "LACKING", (3,)),
    (
        "other_record_taken",
        DEVICE,
        [user("my Phone was stolen"), DEVICES, call("wipe", device="DV-2002")],
        "PRESENT",
        (3,),
    ),
    ("other_record_taken", DEVICE, [user("wipe it"), DEVICES, WIPE_FIRST], "NA", ()),
    ("other_record_taken", DEVICE, [user("phone and laptop are gone"), DEVICES, WIPE_FIRST], "NA", ()),
    ("other_record_taken", DEVICE, [user("my phone"), WIPE_FIRST, DEVICES], "NA", ()),
    ("other_record_taken", DEVICE, [DEVICES, WIPE_FIRST, user("Not that, my phone!")], "NA", ()),
    (
        "described_record_left",
        DEVICE,
        [user("phone and laptop are gone"), DEVICES, WIPE_FIRST, agent("Done.")],
        "LACKING",
        (3, 5),
    ),
    (
        "described_record_left",
        DEVICE,
        [user("phone and laptop are gone"), DEVICES, WIPE_FIRST, call("wipe", device="DV-2002")],
        "PRESENT",
        (3, 5),
    ),
    ("described_record_left", DEVICE, [user("my laptop is gone"), DEVICES, WIPE_FIRST], "NA", ()),
    (
        "other_sum",
        LESS,
        [ASK, call("get_order", PAID, order="K4821"), call("repay", order="K4821", amount=64)],
        "LACKING",
        (3,),
    ),
    (
        "other_sum",
        LESS,
        [ASK, call("get_order", PAID, order="K4821"), call("repay", order="K4821", amount="46.00")],
        "PRESENT",
        (3,),
    ),
    ("other_sum", LESS, [ASK, call("repay", order="K4821", amount=64)], "NA", ()),
    # Neither what the record has nor what the policy makes of it.
    (
        "other_sum",
        LESS,
        [ASK, call("get_order", PAID, order="K4821"), call("repay", order="K4821", amount=10)],
        "NA",
        (),
    ),
    (
        "other_sum",
        {**LESS, "number": 0.25, "way": "part", "situation": {"argument": "early", "values": ["true"]}},
        [call("get_order", PAID, order="K4821"), call("repay", order="K4821", amount=64, early=False)],
        "NA",
        (),
    ),
    (
        "other_sum",
        {**LESS, "number": 6.5, "way": "plus"},
        [call("get_price", '{"unit": 18.0}', of="tart"), call("repay", quantity=3, amount=60.5)],
        "PRESENT",
        (2,),
    ),
    ("untold_figure", FEE, [ASK, agent("Shall I?"), user("Yes."), CANCEL_IT], "LACKING", (3,)),
    ("untold_figure", FEE, [ASK, agent("18 euros are kept."), user("Yes."), CANCEL_IT], "PRESENT", (1, 3)),
    ("untold_figure", FEE, [user("I know of the 18 euros"), CANCEL_IT], "PRESENT", (0, 1)),
    ("untold_figure", FEE, [ASK, agent("18 euros are kept."), user("No.")], "NA", ()),
    (
        "untold_figure",
        {"tool": "repay", "field": "amount", "situation": {}},
        [ASK, agent("You get 46 back."), user("Yes."), call("repay", order="K4821", amount=46)],
        "PRESENT",
        (1, 3),
    ),
    (
        "untold_figure",
        {"tool": "cancel_order", "field": "paid", "situation": {}},
        [ASK, call("get_order", PAID, order="K4821"), agent("Shall I?"), user("Yes."), CANCEL_IT],
        "LACKING",
        (5,),
    ),
    ("situational_step", SAIL, [user("a sailing boat, please"), RENT], "LACKING", (1,)),
    (
        "situational_step",
        SAIL,
        [user("a sailing boat, please"), call("show_licence", of="C7"), RENT],
        "PRESENT",
        (1, 3),
    ),
    ("situational_step", SAIL, [user("a rowing boat, please"), RENT], "NA", ()),
    # Said after the call.
    ("situational_step", SAIL, [RENT, user("a sailing boat, please")], "NA", ()),
    ("other_than_asked", COUNT, [user("three mugs, please"), call("buy", count=2)], "LACKING", (1,)),
    ("other_than_asked", COUNT, [user("3 mugs, please"), call("buy", count=3)], "PRESENT", (1,)),
    ("other_than_asked", COUNT, [user("mugs, please"), call("buy", count=3)], "NA", ()),
    # What was proposed and answered may have been agreed.
    (
        "other_than_asked",
        COUNT,
        [user("three mugs"), agent("Only 2 are left."), user("Well, yes."), call("buy", count=2)],
        "NA",
        (),
    ),
    (
        "other_than_asked",
        {**COUNT, "argument": "day", "kind": "moment"},
        [user("for Saturday"), call("buy", day="2031-06-13")],
        "LACKING",
        (1,),
    ),
    (
        "other_than_asked",
        {
            **COUNT,
            "argument": "to",
            "kind": "text",
            "known": ["3 quarry lane, bath", "8 forge street, leeds"],
        },
        [user("Send it to 8 Forge Street, Leeds"), call("buy", to="3 Quarry Lane, Bath")],
        "LACKING",
        (1,),
    ),
    (
        "other_than_asked",
        {**COUNT, "argument": "to", "kind": "text", "known": []},
        [user("Send it to ann@a.test"), call("buy", to="bo@a.test")],
        "LACKING",
        (1,),
    ),
    (
        "other_choice_taken",
        SLOT,
        [user("Thursday at 2 pm"), SLOTS, call("book", slot="S-1")],
        "LACKING",
        (3,),
    ),
    (
        "other_choice_taken",
        SLOT,
        [user("Thursday at 2 pm"), SLOTS, call("book", slot="S-2")],
        "PRESENT",
        (3,),
    ),
    ("other_choice_taken", SLOT, [user("any time"), SLOTS, call("book", slot="S-2")], "NA", ()),
    (
        "other_choice_taken",
        SLOT,
        [user("Thursday at 2 pm"), SLOTS, agent("At 10:00?"), user("Fine"), call("book", slot="S-1")],
        "NA",
        (),
    ),
    ("promise_unkept", MAIL, [ASK, agent("I will send the receipt."), user("Thanks")], "LACKING", (1,)),
    ("promise_unkept", MAIL, [ASK, agent("I've sent the receipt."), call("send_receipt")], "PRESENT", (1, 2)),
    ("promise_unkept", MAIL, [ASK, agent("I will send a receipt if you pay.")], "NA", ()),
    ("promise_unkept", MAIL, [ASK, agent("Shall I send the receipt?")], "NA", ()),
    ("unasked_fact", BORN, [ASK, agent("When were you born?"), user("1990"), CANCEL_IT], "LACKING", (3,)),
    ("unasked_fact", BORN, [ASK, agent("Your date of birth?"), user("1990"), CANCEL_IT], "PRESENT", (1, 3)),
    ("unasked_fact", BORN, [user("My birth date is 1990-02-03, cancel it"), CANCEL_IT], "PRESENT", (0, 1)),
    ("unasked_fact", BORN, [ASK, agent("Your date of birth?")], "NA", ()),
    ("wrong_figure", FIGURES, [PRICES, agent("Yoga costs 19 a month.")], "LACKING", (2,)),
    ("wrong_figure", FIGURES, [PRICES, agent("Yoga costs 12 a month, boxing 19.")], "PRESENT", (2,)),
    ("wrong_figure", FIGURES, [PRICES, agent("Yoga costs 36 for 3 months.")], "NA", ()),
    ("wrong_figure", FIGURES, [agent("Yoga costs 19 a month."), PRICES], "NA", ()),
]
