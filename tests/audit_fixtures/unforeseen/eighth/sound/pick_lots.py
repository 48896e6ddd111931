"""Warehouse: which lot an order is picked from."""
import csv, io, random, datetime

RULES = """Order picking, chilled goods.
Pick every order from ONE lot: of the released lots that hold the whole quantity, the one that expires first.
Lots on hold are never picked. If no released lot holds the whole quantity, put the order on backorder.
Look the order up first; confirm to the colleague when done."""

ITEMS = [("MLK", "whole milk 1l"), ("YOG", "yoghurt 500g"), ("BTR", "butter 250g"), ("CRM", "cream 200ml"), ("KEF", "kefir 1l"), ("QRK", "quark 250g")]
TEXT = ["order {o} please", "Can you pick {o}?", "{o} is next, the truck is waiting", "Next one: {o}.", "pick order {o} for {c}", "{c} called about {o}, please get it out"]
SHOPS = ["Corner Shop Hill", "Station Kiosk", "Mensa North", "Hotel Adler", "Cafe Lund", "School 12"]
world = None


def build(seed):
    rng = random.Random(seed ^ 0x5A17)
    code, name = rng.choice(ITEMS)
    w = {"order": "SO%06d" % rng.randrange(10**6), "sku": "%s-%03d" % (code, rng.randrange(1000)), "name": name, "need": rng.randrange(20, 200)}
    day0 = datetime.date(2025, 3, 1)
    days = rng.sample(range(3, 60), 5)
    rows = []
    for d in days:
        rows.append({"lot": "L%05d" % rng.randrange(10**5), "expires": (day0 + datetime.timedelta(d)).isoformat(), "qty": rng.randrange(5, 400), "state": rng.choice(["released", "released", "hold"])})
    if rng.random() < 0.42:
        for r in rows:
            if r["state"] == "released" and r["qty"] >= w["need"]:
                r["qty"] = rng.randrange(1, w["need"]) if rng.random() < 0.6 else r["qty"]
                if r["qty"] >= w["need"]:
                    r["state"] = "hold"
    w["lots"] = rows
    ok = sorted((r["expires"], r["lot"]) for r in rows if r["state"] == "released" and r["qty"] >= w["need"])
    w["answer"] = ok[0][1] if ok else None
    w["text"] = rng.choice(TEXT).format(o=w["order"], c=rng.choice(SHOPS))
    w["shop"] = rng.choice(SHOPS)
    return w


def spec(name, text, props):
    return {"type": "function", "function": {"name": name, "description": text, "parameters": {"type": "object", "properties": props, "required": list(props)}}}


STR = {"type": "string"}


def tools():
    return [
        spec("show_order", "item and quantity of an order", {"order": STR}),
        spec("list_lots", "all lots of an item, as CSV", {"item": STR}),
        spec("pick", "pick an order's whole quantity from a lot", {"order": STR, "lot": STR}),
        spec("backorder", "put an order on backorder", {"order": STR}),
    ]


def reset(seed):
    global world
    world = build(seed)
    world.update(seen=set(), acts=[], bad=0, bye=None, n=0)
    return [{"role": "system", "content": RULES}, {"role": "user", "content": world["text"]}]


def table(rows):
    f = io.StringIO()
    wr = csv.DictWriter(f, list(rows[0]), lineterminator="\n")
    wr.writeheader()
    wr.writerows(rows)
    return f.getvalue()


def handle(name, a):
    props = {t["function"]["name"]: t["function"]["parameters"]["properties"] for t in tools()}.get(name)
    if props is None:
        return "E01 no such function", True
    if set(a) != set(props) or not all(isinstance(v, str) for v in a.values()):
        return "E02 bad parameters for " + name, True
    if "order" in a and a["order"] != world["order"]:
        return "E03 order not found", True
    if name == "show_order":
        world["seen"].add("order")
        return table([{"order": world["order"], "customer": world["shop"], "item": world["sku"], "description": world["name"], "quantity": world["need"]}]), False
    if name == "list_lots":
        if a["item"] != world["sku"]:
            return "E04 item not found", True
        world["seen"].add("lots")
        return table(world["lots"]), False
    if name == "pick":
        lot = [r for r in world["lots"] if r["lot"] == a["lot"]]
        if not lot:
            return "E05 lot not found", True
        world["acts"].append(a["lot"])
        return "picked", False
    world["acts"].append(None)
    return "on backorder", False


def step(message):
    world["n"] += 1
    cs = message.get("tool_calls") or []
    ms = []
    for c in cs:
        text, err = handle(c["name"], c["arguments"])
        world["bad"] += err
        m = {"role": "tool", "tool_call_id": c["id"], "tool_name": c["name"], "content": text}
        if err:
            m["is_error"] = True
        ms.append(m)
    if not cs:
        world["bye"] = message.get("content") or ""
    return {"messages": ms, "done": not cs, "truncated": bool(cs) and world["n"] >= 15}


def verdict():
    looked = len(world["seen"]) == 2
    right = world["acts"] == [world["answer"]]
    said = bool(world["bye"])
    win = looked and right and said
    r = 1.0 if win else 0.1 * len(world["seen"]) + (0.4 if right and looked else 0) - 0.1 * world["bad"] - (0.2 if world["acts"] and not right else 0)
    return {"reward": min(1.0, max(0.0, float(r))), "success": win, "checks": [{"name": "picked right", "kind": "state", "passed": win, "score": None, "gates": True, "detail": ""}]}


def oracle(seed):
    w = build(seed)
    todo = [("show_order", {"order": w["order"]}), ("list_lots", {"item": w["sku"]})]
    todo.append(("pick", {"order": w["order"], "lot": w["answer"]}) if w["answer"] else ("backorder", {"order": w["order"]}))
    out = []
    for i, (n, a) in enumerate(todo):
        out.append({"role": "assistant", "content": "", "tool_calls": [{"id": str(i), "name": n, "arguments": a}]})
    out.append({"role": "assistant", "content": "Done, it is picked." if w["answer"] else "No lot is good for it, it is on backorder."})
    return out
