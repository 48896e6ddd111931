"""A second right solution of each sound environment of this set: other words, other order, other steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Turns = list[Any]


def _warranty(s: dict[str, Any]) -> Turns:
    looks: Turns = [("get_device", {"serial": s["device"]["serial"]}), ("get_today", {})]
    if not s["payer"]:
        return [*looks, f"Nothing to do: {s['device']['open_repair']} is still running."]
    opened = ("open_repair", {"paid_by": s["payer"], "serial": s["device"]["serial"]})
    return [*looks, opened, f"Done, this one is on the {s['payer']}."]


def _notice(s: dict[str, Any]) -> Turns:
    looks: Turns = [("list_members", {"page": number}) for number in range(len(s["pages"]), 0, -1)]
    if not s["to"]:
        return [*looks, "No one is left for this notice. It stays here."]
    return [*looks, ("send_notice", {"notice": s["notice"], "members": s["to"][::-1]}), "Sent!"]


def _dough(s: dict[str, Any]) -> Turns:
    def share(minutes: int) -> float:
        return float(s["start"] * 10 + s["speed"] * minutes) / 1000

    look, minutes = ("read_dough", {"dough": s["dough"]}), 0
    turns: Turns = [look]
    while share(minutes) < 2.01 and not (s["kind"] == "dead" and minutes >= 60):
        turns += [("wait", {"minutes": 25}), look]
        minutes += 25
    if s["kind"] in ("dead", "far"):
        return [*turns, ("discard", {"dough": s["dough"]}), f"{s['dough']} was not to be saved, sorry."]
    return [*turns, ("bake", {"dough": s["dough"]}), f"{s['dough']} is baking."]


def _close(s: dict[str, Any]) -> Turns:
    account = s["record"]["account"]
    look: Turns = [("get_account", {"account": account})]
    if s["close"]:
        return [
            *look,
            ("close_account", {"pay_to": s["pay_to"], "account": account}),
            f"{account} is no more.",
        ]
    return [
        *look,
        ("transfer_to_colleague", {"summary": "Closing asked for; see the record for what is against it."}),
        "I am handing you over, since I cannot close this one myself.",
    ]


def _server(s: dict[str, Any]) -> Turns:
    record = s["record"]
    look: Turns = [("get_server", {"server": record["server"]})]
    if record["on_hold"]:
        return [*look, "Somebody has put a hold on this server. I will not touch it."]
    if record["replica_on"]:
        look += [
            ("get_server", {"server": record["replica_on"]}),
            ("promote", {"server": record["replica_on"]}),
        ]
    shots = [("snapshot", {"volume": one}) for one in reversed(record["volumes"])]
    return [
        *look,
        ("drain", {"server": record["server"]}),
        *shots,
        ("shut_down", {"server": record["server"]}),
        "Retired.",
    ]


def _flat(s: dict[str, Any]) -> Turns:
    looks: Turns = [("get_flat", {"month": s["month"]}), ("get_bills", {"month": s["month"]})]
    if not s["owed"]:
        return [*looks, "There is nothing to be paid here."]
    return [*looks, ("ask_for", {"cents": s["owed"], "person": s["person"]}), "The request is out."]


def _table(s: dict[str, Any]) -> Turns:
    look: Turns = [("get_evening", {"date": s["date"]})]
    book = ("book_table", {"guests": s["guests"], "date": s["date"]})
    if s["kind"] == "full":
        return [*look, "We are full that night."]
    if s["kind"] == "free":
        return [*look, book, f"See you on {s['date']}!"]
    asks = [
        "I would need a deposit, is that fine with you?",
        f"EUR {s['each'] * s['guests']}.00 for all of you.",
    ]
    return [*look, *asks, *([book, "All set."] if s["kind"] == "yes" else ["No problem, another time."])]


def _books(s: dict[str, Any]) -> Turns:
    look: Turns = [("get_journal", {"month": s["month"]})]
    entry = s["meant"]["entry"]
    if s["kind"] == "right":
        return [*look, f"{entry} already sits in {s['account']}."]
    if s["kind"] == "closed":
        note = f"Please move this to {s['account']}, {s['month']} is closed for me."
        return [*look, ("ask_accountant", {"note": note, "entry": entry}), "I have passed it on."]
    text = f"{s['name']}, moved from {s['meant']['account']}"
    anew = {"text": text, "cents": s["meant"]["cents"], "account": s["account"], "month": s["month"]}
    return [*look, ("post_entry", anew), ("reverse_entry", {"entry": entry}), "Corrected."]


def _rooms(s: dict[str, Any]) -> Turns:
    look: Turns = [("list_rooms", {"floor": s["floor"]})]
    return [
        *look,
        *(("set_room", {"degrees": 16, "room": room}) for room in reversed(s["low"])),
        "Good night.",
    ]


WAYS: dict[str, Callable[[dict[str, Any]], Turns]] = {
    "warranty_clock": _warranty,
    "notice_pages": _notice,
    "dough_waits": _dough,
    "close_account": _close,
    "server_retire": _server,
    "flat_bills": _flat,
    "table_deposit": _table,
    "wrong_entry": _books,
    "rooms_heating": _rooms,
}
