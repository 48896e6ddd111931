"""A toy shop's desk and a recall that is told in prose; whether a toy is meant hangs on where and when it was made. Generators."""

import random

PAGE = """Recall desk of a toy shop. Look at the receipt and at the notice of the recall before you do anything.
A toy is recalled if it is the model of the notice, was made at the plant of the notice, and in a week from the first to the last that the notice
names. A recalled toy: pay the price back (pay_back, the price in full). A toy that is not recalled: tell the customer to keep it (keep_toy). If the
receipt does not say where the toy was made, send for the toy (send_for_toy). Do one of these once, then write to the customer."""
MODELS = ["Tumble Bear", "Rail Set", "Marble Run", "Kite Fox", "Block Castle"]
PLANTS = ["Lodz", "Porto", "Izmir", "Hanoi", "Leon"]


def toy(seed):
    r = random.Random(f"toy {seed}")
    model, plant, first = r.choice(MODELS), r.choice(PLANTS), r.randrange(4, 40)
    last = first + r.randrange(2, 9)
    kind = r.choice(["back", "back", "keep", "keep", "send"])
    mine = {"model": model, "plant": plant, "week": r.choice([first, last, r.randrange(first, last + 1)])}
    if kind == "keep":
        how = r.randrange(3)
        if how == 0:
            mine["model"] = r.choice([m for m in MODELS if m != model])
        elif how == 1:
            mine["plant"] = r.choice([p for p in PLANTS if p != plant])
        else:
            mine["week"] = r.choice([first - 1, last + 1, r.randrange(1, first), r.randrange(last + 1, 53)])
    if kind == "send":
        mine["plant"] = None
    no = f"R-{r.randrange(10**6):06d}"
    return {
        "no": no,
        "mine": mine,
        "price": r.randrange(8, 120),
        "notice": r.choice(
            [
                f"The maker calls back the {model} made in {plant} in weeks {first} to {last}. Small parts may come loose.",
                f"From week {first} until week {last} the plant at {plant} built a {model} whose paint is not safe. All of these are called back.",
            ]
        ),
        "hello": r.choice(["I bought a toy and heard of a recall, receipt {n}.", "Is my toy safe? {n}", "Receipt {n}: must I bring it back?", "About the recall: {n}."]).format(n=no),
        "due": {"back": "pay_back", "keep": "keep_toy", "send": "send_for_toy"}[kind],
    }


def desk(t, log):
    answer = None
    while True:
        name, given = yield answer
        wants = {"receipt", "price"} if name == "pay_back" else {"receipt"}
        if name not in SAID or set(given) != wants or given.get("receipt") != t["no"] or type(given.get("price", 0)) is not int:
            log["bad"] += 1
            answer = ("That cannot be done.", True)
        elif name == "see_receipt":
            log["looks"].add(name)
            place = f"made in {t['mine']['plant']}, week {t['mine']['week']}" if t["mine"]["plant"] else f"made in week {t['mine']['week']}"
            answer = (f"One {t['mine']['model']}, {place}. Paid: {t['price']} euros.", False)
        elif name == "see_notice":
            log["looks"].add(name)
            answer = (t["notice"], False)
        else:
            log["acts"].append((name, given.get("price"), len(log["looks"])))
            answer = ("Noted.", False)


SAID = {
    "see_receipt": "Look at a receipt.",
    "see_notice": "Look at the notice of the recall.",
    "pay_back": "Pay a price back.",
    "keep_toy": "Tell the customer to keep the toy.",
    "send_for_toy": "Send for the toy to look at it.",
}
ROOM = {}


def tools():
    out = []
    for name, text in SAID.items():
        props = {"receipt": {"type": "string"}}
        if name == "pay_back":
            props["price"] = {"type": "integer", "description": "euros"}
        out.append({"type": "function", "function": {"name": name, "description": text, "parameters": {"type": "object", "properties": props, "required": list(props)}}})
    return out


def reset(seed):
    t, log = toy(seed), {"looks": set(), "acts": [], "bad": 0, "turns": 0, "end": False}
    ROOM.update(toy=t, log=log, desk=desk(t, log))
    next(ROOM["desk"])
    return [{"role": "system", "content": PAGE}, {"role": "user", "content": t["hello"]}]


def step(message):
    log, out = ROOM["log"], []
    log["turns"] += 1
    for c in message.get("tool_calls") or []:
        text, bad = ROOM["desk"].send((c["name"], c["arguments"]))
        out.append({"role": "tool", "tool_call_id": c["id"], "tool_name": c["name"], "content": text, **({"is_error": True} if bad else {})})
    log["end"] = not out
    return {"messages": out, "done": not out, "truncated": bool(out) and log["turns"] >= 12}


def verdict():
    t, log = ROOM["toy"], ROOM["log"]
    wanted = (t["due"], t["price"] if t["due"] == "pay_back" else None)
    looked = bool(log["acts"]) and log["acts"][0][2] == 2
    once = len(log["acts"]) == 1
    right = once and log["acts"][0][:2] == wanted
    rows = [("looked", looked), ("once", once), ("right", right), ("wrote", log["end"])]
    success = looked and right and log["end"]
    reward = 1.0 if success else 0.0 if not (looked and once) else 0.65 if right else 0.15
    return {"reward": reward if success else max(0.0, reward - 0.05 * log["bad"]), "success": success, "checks": [{"name": n, "kind": "state", "passed": p, "score": None, "gates": True, "detail": ""} for n, p in rows]}


def oracle(seed):
    t = toy(seed)
    deed = {"receipt": t["no"], **({"price": t["price"]} if t["due"] == "pay_back" else {})}
    plan = [("see_receipt", {"receipt": t["no"]}), ("see_notice", {"receipt": t["no"]}), (t["due"], deed)]
    return [{"role": "assistant", "content": None, "tool_calls": [{"id": f"k{i}", "name": n, "arguments": a}]} for i, (n, a) in enumerate(plan)] + [
        {"role": "assistant", "content": "Thank you for asking.", "tool_calls": []}
    ]
