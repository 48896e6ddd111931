"""Two more right solutions of each sound one, in other orders and words than the oracle's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Scene = dict[str, Any]
Turn = str | tuple[str, dict[str, Any]]


def _refill(s: Scene) -> list[list[Turn]]:
    number, medicine = s["record"]["prescription"], s["record"]["medicine"]
    looks: list[Turn] = [
        ("get_prescription", {"prescription": number}),
        ("get_customer", {"customer": s["record"]["customer"]}),
    ]
    if s["may"]:
        done = ("refill", {"prescription": number})
        return [
            [*looks, done, "All done!"],
            [looks[1], looks[0], done, f"{number}: come by whenever you like."],
        ]
    return [
        [*looks, ("to_pharmacist", {"prescription": number, "summary": text}), said]
        for text, said in (
            (
                f"{medicine.upper()} - not allowed by our rule, customer waits",
                "Our pharmacist will call you.",
            ),
            (
                f"Prescription {number} ({medicine}); please decide.",
                "I have passed it on, since I may not do it.",
            ),
        )
    ]


def _refund(s: Scene) -> list[list[Turn]]:
    ticket, port = s["record"]["ticket"], s["record"]["port"]
    looks: list[Turn] = [("get_time", {}), ("get_ticket", {"ticket": ticket}), ("get_port", {"port": port})]
    if not s["due"]:
        return [
            [*looks, "Unfortunately there is no refund any more."],
            [*looks, *looks[:1], "Too late, sorry!"],
        ]
    pay = ("refund", {"ticket": ticket, "amount": s["due"] / 100})
    return [
        [*looks, pay, f"You get {s['due'] / 100:.2f} euros."],
        [*reversed(looks[1:]), looks[0], pay, "Done."],
    ]


def _returns(s: Scene) -> list[list[Turn]]:
    pages = range(1, (len(s["rows"]) + 1) // 2 + 1)
    looks: list[list[Turn]] = [[("list_objects", {"exhibition": s["name"], "page": page})] for page in pages]
    sent: list[Turn] = [("send_back", {"object": one}) for one in reversed(s["going"])]
    by_page: list[Turn] = []
    for page, look in zip(pages, looks, strict=True):
        rows = [row["object"] for row in s["rows"][2 * page - 2 : 2 * page]]
        by_page += look + [("send_back", {"object": one}) for one in rows if one in s["going"]]
    return [
        [*(turn for look in looks for turn in look), *sent, "Done."],
        [*by_page, f"Sent: {len(s['going'])}."],
    ]


def _valve(s: Scene) -> list[list[Turn]]:
    bed = s["state"]["bed"]
    look: Turn = ("get_bed", {"bed": bed})
    wait: Turn = ("wait", {})
    start: Turn = ("set_valve", {"bed": bed, "position": "open"})
    stop: Turn = ("set_valve", {"bed": bed, "position": "closed"})
    call: Turn = ("call_gardener", {"bed": bed})
    if s["kind"] == "wet":
        return [[look, "Nothing to do there."], [look, look, f"{bed} is wet enough."]]
    if s["kind"] == "blocked":
        return [
            [look, start, wait, look, call, stop, "Blocked."],
            [look, start, wait, look, stop, call, "Help comes."],
        ]
    times = -((s["state"]["moisture"] - s["state"]["target"]) // s["rate"])
    return [
        [look, start, *[wait, look] * times, stop, "Done."],
        [look, start, *[wait] * times, stop, look, f"{bed}!"],
    ]


def _release(s: Scene) -> list[list[Turn]]:
    release, database = s["shown"]["release"]["release"], s["shown"]["database"]["database"]
    looks: list[Turn] = [("get_release", {"release": release}), ("get_database", {"database": database})]
    steps = list(s["steps"])
    if steps[:2] == ["make_backup", "pause_replication"]:
        steps[:2] = steps[1::-1]
    done: list[Turn] = [
        (one, {"release": release} if one == "apply_release" else {"database": database}) for one in steps
    ]
    end = "Rolled out." if steps else f"{database} is frozen at the moment; please come back later."
    return [[looks[1], looks[0], *done, end], [*looks, looks[1], *done, f"{release}: {end}"]]


def _estimate(s: Scene) -> list[list[Turn]]:
    price = {row["kind"]: row for row in s["rows"]}
    look: Turn = ("list_treatments", {"complaint": s["complaint"]})
    found: list[list[Turn]] = []
    for first, second, end in (
        ("We would do all of it, {} EUR. Is that all right with you?", "Or less, for €{}?", "Bye then."),
        ("For €{}.00 we can treat it. Do you agree?", "What about {}, the small one?", "As you like."),
    ):
        turns: list[Turn] = [look, first.format(price["full"]["price"])]
        if s["takes"] != "full":
            turns.append(second.format(price["simple"]["price"]))
        if s["takes"] != "none":
            turns.append(("book", {"animal": s["animal"], "treatment": price[s["takes"]]["treatment"]}))
        found.append([*turns, end])
    return found


def _undo(s: Scene) -> list[list[Turn]]:
    change: Turn = ("get_change", {"change": s["record"]["change"]})
    shift: Turn = ("get_shift", {"shift": s["record"]["shift"]})
    if s["again"]:
        return [
            [change, shift, "Somebody meant it: I leave it."],
            [change, shift, shift, "It stays as it is now."],
        ]
    back: Turn = ("set_start", {"shift": s["record"]["shift"], "start": s["record"]["start_before"]})
    return [
        [change, shift, back, shift, "Undone."],
        [shift, change, back, f"{s['record']['start_before']} again."],
    ]


def _wishes(s: Scene) -> list[list[Turn]]:
    card = s["card"]["card"]
    looks: list[Turn] = [("get_card", {"card": card}), ("get_owner", {"owner": s["owner"]["owner"]})]
    new: Turn = ("order_card" if s["owner"]["address_confirmed"] else "hold_at_branch", {"card": card})
    limit: list[Turn] = [("set_limit", {"card": card, "limit": s["wanted"]})] if s["wanted"] else []
    end = "Both are done." if limit else "The card, yes; the limit, no."
    return [[*looks, *limit, new, end], [looks[1], looks[0], new, *limit, f"As for {card}: {end.lower()}"]]


def _meals(s: Scene) -> list[list[Turn]]:
    child, day = s["child"]["child"], s["meal"]["day"]
    looks: list[Turn] = [("get_meal", {"day": day}), ("get_child", {"child": child})]
    if not s["clash"]:
        done = ("sign_up", {"child": child, "day": day})
        return [[*looks, done, "Signed up."], [*reversed(looks), done, f"On {day} there is a place."]]
    return [
        [*looks, ("note_to_kitchen", {"child": child, "day": day, "text": text}), "The kitchen knows."]
        for text in (
            f"No {', no '.join(s['clash'])} for {child}, please!",
            f"Allergy: {' / '.join(s['clash']).upper()}. Please make something else on {day}.",
        )
    ]


WAYS: dict[str, Callable[[Scene], list[list[Turn]]]] = {
    "pharmacy_refill": _refill,
    "ferry_refund": _refund,
    "exhibit_returns": _returns,
    "greenhouse_valve": _valve,
    "migration_steps": _release,
    "vet_estimate": _estimate,
    "roster_undo": _undo,
    "card_two_wishes": _wishes,
    "school_meals": _meals,
}
