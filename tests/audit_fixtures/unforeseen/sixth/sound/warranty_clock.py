"""A workshop: who pays for a repair, by the date of the sale, the registration and the damage."""

import datetime
import json
import random


def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You take devices in for repair. Today is the date that get_today shows. Look the device up, then open its repair with open_repair. The maker pays for a device that was sold less than two years ago, or less than three
years ago if it is registered. The maker never pays where there is water damage. In all other cases the owner pays. A device whose repair is open already gets no second one: say so."""

TOOLS = [
    _t("get_today", "Show today's date.", []),
    _t("get_device", "Show a device.", ["serial"], serial="string"),
    _t("open_repair", "Open a repair.", ["serial", "paid_by"], serial="string", paid_by={"type": "string", "enum": ["maker", "owner"]}),
]

KINDS = ["new", "new", "registered", "registered", "late", "late", "old", "wet", "open", "open"]


def scene(seed):
    rng = random.Random(f"warranty|{seed}")
    kind = rng.choice(KINDS)
    today = datetime.date(rng.randint(2030, 2034), rng.randint(1, 12), rng.randint(1, 28))
    months = {"new": (2, 23), "registered": (25, 35), "late": (25, 35), "old": (37, 50), "wet": (2, 34), "open": (2, 50)}[kind]
    sold = today - datetime.timedelta(days=round(30.44 * rng.randint(*months)))
    known = kind in ("registered", "old") or (kind != "late" and rng.random() < 0.5)
    damage = rng.choice(["water", "water", "screen"]) if kind == "open" else "water" if kind == "wet" else rng.choice(["screen", "battery", "hinge"])
    serial = "".join(rng.choice("BCDFGHKLMN") for _ in range(3)) + str(rng.randint(1000, 9999))
    maker = kind in ("new", "registered")
    text = rng.choice(["My device {s} is broken, please have it repaired.", "Can you take in {s} for repair?", "{s} does not work any more. I would like to have it mended."])
    device = {"serial": serial, "sold_on": sold.isoformat(), "registered": known, "damage": damage, "open_repair": f"R{rng.randint(100, 999)}" if kind == "open" else None}
    return {"request": text.format(s=serial), "today": today.isoformat(), "device": device, "payer": None if kind == "open" else "maker" if maker else "owner", "seen": set()}


def act(name, given):
    if name == "get_today":
        S["seen"].add("today")
        return json.dumps({"today": S["today"]}), False
    if given["serial"] != S["device"]["serial"]:
        return json.dumps({"error": "no such device"}), True
    if name == "get_device":
        S["seen"].add("device")
        return json.dumps(S["device"]), False
    S["log"].append((given["paid_by"], len(S["seen"])))
    return json.dumps({"serial": given["serial"], "status": "opened", "paid_by": given["paid_by"]}), False


def judge():
    looked = "device" in S["seen"] and ("today" in S["seen"] or not S["payer"])
    right = looked and S["log"] == ([(S["payer"], 2)] if S["payer"] else [])
    return [("looked", "action", looked, 1), ("opened", "state", right, 3), ("told", "communicate", right and bool(S["said"] and S["said"][-1].strip()), 1)]


def solve(s):
    looks = [("get_device", {"serial": s["device"]["serial"]})]
    if not s["payer"]:
        return [*looks, "A repair of this device is open already, so I have opened no other."]
    return [("get_today", {}), *looks, ("open_repair", {"serial": s["device"]["serial"], "paid_by": s["payer"]}), f"The repair is open, and the {s['payer']} pays for it."]


def user(text):
    return ""


S = {}
