"""Courier: work out what a parcel costs before it is booked."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}

POLICY = """You book parcels for a courier. The price of a parcel is the price of its zone as the price list has it, and 2 more for
every whole kilogram above 5. A parcel of more than 30 kilograms is not carried: tell the customer and book nothing. Work the price out yourself; book it with book_parcel."""

TOOLS = [
    _t("get_parcel", "Show weight and zone of a parcel.", ["parcel_id"], parcel_id="string"),
    _t("get_zone", "Show what a zone covers.", ["zone"], zone="string"),
    _t("book_parcel", "Book a parcel at a price.", ["parcel_id", "price"], parcel_id="string", price="integer"),
]

ZONES = {"A": ("city", 7), "B": ("region", 11), "C": ("country", 16), "D": ("neighbouring countries", 28)}


def scene(seed):
    rng = random.Random(f"courier|{seed}")
    kilos = rng.randint(31, 44) if seed % 3 == 0 else rng.randint(1, 30)
    zone = rng.choice("ABCD")
    parcel = f"PX{rng.randint(100000, 999999)}"
    text = rng.choice(["Please send {p}.", "Can {p} go out today?", "I would like to have parcel {p} picked up."])
    price = ZONES[zone][1] + 2 * max(0, kilos - 5)
    return {"request": text.format(p=parcel), "parcel": {"parcel_id": parcel, "kilograms": kilos, "zone": zone}, "price": 0 if kilos > 30 else price, "looked": False}


def act(name, given):
    if name == "get_zone":
        if given["zone"] not in ZONES:
            return json.dumps({"error": "no such zone"}), True
        return json.dumps({"zone": given["zone"], "covers": ZONES[given["zone"]][0]}), False
    if given["parcel_id"] != S["parcel"]["parcel_id"]:
        return json.dumps({"error": "no such parcel"}), True
    if name == "get_parcel":
        S["looked"] = True
        return json.dumps(S["parcel"]), False
    S["log"].append(given["price"])
    return json.dumps({"parcel_id": given["parcel_id"], "status": "booked"}), False


def user(text):
    return ""


def judge():
    right = S["looked"] and S["log"] == ([S["price"]] if S["price"] else [])
    return [("looked", "action", S["looked"], 1), ("booked", "state", right, 2), ("told", "communicate", right and bool(S["said"] and S["said"][-1].strip()), 1)]


def solve(s):
    key = {"parcel_id": s["parcel"]["parcel_id"]}
    looks = [("get_parcel", key), ("get_zone", {"zone": s["parcel"]["zone"]})]
    if not s["price"]:
        return [*looks, "That is too heavy for us, I am sorry."]
    return [*looks, ("book_parcel", {**key, "price": s["price"]}), f"It is booked, for {s['price']}."]


S = {}


_KINDS = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list, "object": dict}


def _mistake(name, given):
    for tool in TOOLS:
        if tool["function"]["name"] != name:
            continue
        spec = tool["function"]["parameters"]
        for key in spec["required"]:
            if key not in given:
                return f"missing argument '{key}'"
        for key, value in given.items():
            if key not in spec["properties"]:
                return f"unexpected argument '{key}'"
            kind = spec["properties"][key].get("type", "string")
            if not isinstance(value, _KINDS[kind]) or (isinstance(value, bool) and kind != "boolean"):
                return f"argument '{key}' must be of type {kind}"
            allowed = spec["properties"][key].get("enum")
            if allowed and value not in allowed:
                return f"argument '{key}' must be one of {allowed}"
        return ""
    return f"unknown tool '{name}'"


def tools():
    return TOOLS


def reset(seed):
    S.clear()
    S.update(scene(int(seed)))
    S.update(log=[], bad=0, turns=0, said=[], over=False)
    return [{"role": "system", "content": POLICY}, {"role": "user", "content": S["request"]}]


def step(message):
    S["turns"] += 1
    calls = message.get("tool_calls") or []
    messages = []
    for call in calls:
        given = call.get("arguments") or {}
        mistake = _mistake(call["name"], given)
        content, failed = (json.dumps({"error": mistake}), True) if mistake else act(call["name"], given)
        S["bad"] += bool(failed)
        one = {"role": "tool", "tool_call_id": call["id"], "tool_name": call["name"], "content": content}
        messages.append({**one, "is_error": True} if failed else one)
    if not calls:
        text = message.get("content") or ""
        S["said"].append(text)
        answer = user(text)
        if answer:
            messages.append({"role": "user", "content": answer})
        else:
            S["over"] = True
    return {"messages": messages, "done": S["over"], "truncated": not S["over"] and S["turns"] >= 18}


def verdict():
    rows = judge()
    rows.append(("closed", "protocol", S["over"], 0))
    success = all(passed for _, _, passed, _ in rows)
    weight = sum(w for *_, w in rows)
    share = sum(w for _, _, passed, w in rows if passed) / weight
    reward = max(0.5 * share + 0.5 * success - 0.05 * S["bad"], 0.5 * success, 0.0)
    checks = []
    for name, kind, passed, _ in rows:
        detail = "as it should be" if passed else "not so"
        checks.append(
            {"name": name, "kind": kind, "passed": bool(passed), "score": None, "gates": True, "detail": detail}
        )
    return {"reward": min(1.0, float(reward)), "success": bool(success), "checks": checks}


def oracle(seed):
    turns = []
    for one in solve(scene(int(seed))):
        if isinstance(one, str):
            turns.append({"role": "assistant", "content": one, "tool_calls": []})
            continue
        name, given = one
        turns.append(
            {"role": "assistant", "content": None, "tool_calls": [{"id": f"t{len(turns)}", "name": name, "arguments": given}]}
        )
    return turns
