"""A courts' desk: who is booked twice for the same hour keeps the earlier booking."""

import random

NOTICE = """Tennis club, court bookings.
A member may hold one court for one hour. If somebody holds two courts at the same hour on the same day, cancel the booking that was made later and keep the other.
If there is no such pair, cancel nothing and tell the member that all is in order."""
COURTS = ["1", "2", "3", "4", "5", "6"]
SAY = ["I think I have booked twice, member {m}.", "Member {m}: is there a double booking of mine?", "Could you check my courts? {m}", "{m} here - I may have pressed the button twice", "please clean up my bookings ({m})"]


def setup(seed):
    r = random.Random(seed * 13 + 1)
    member = f"M{r.randint(1000, 99999)}"
    slots = r.sample([(d, h) for d in range(1, 29) for h in range(8, 21)], r.randint(3, 4))
    rows = []
    for d, h in slots:
        rows.append({"court": r.choice(COURTS), "day": f"2025-06-{d:02d}", "hour": h})
    twice = r.random() < 0.55
    if twice:
        first = r.choice(rows)
        rows.append({**first, "court": r.choice([c for c in COURTS if c != first["court"]])})
    else:
        near = r.choice(rows)
        rows.append({**near, "hour": near["hour"] + 1 if (int(near["day"][-2:]), near["hour"] + 1) not in slots else 21})
    made = r.sample(range(1, 20000), len(rows))
    for row, minute in zip(rows, made):
        row["made"] = f"2025-05-{1 + minute // 1440:02d} {minute // 60 % 24:02d}:{minute % 60:02d}"
        row["id"] = f"B{r.randint(10000, 99999)}"
    late = None
    if twice:
        pair = [x for x in rows if (x["day"], x["hour"]) == (first["day"], first["hour"])]
        late = max(pair, key=lambda x: x["made"])["id"]
    r.shuffle(rows)
    return member, rows, late, r.choice(SAY).format(m=member)


G = {"member": "", "rows": [], "late": None, "looked": False, "gone": [], "bad": 0, "last": None, "n": 0}


def tools():
    def t(n, d, p):
        return {"type": "function", "function": {"name": n, "description": d, "parameters": {"type": "object", "properties": {p: {"type": "string"}}, "required": [p]}}}
    return [t("list_bookings", "The bookings of a member", "member"), t("cancel_booking", "Cancel a booking", "booking"), t("phone_member", "Have the office phone a member", "member")]


def reset(seed):
    member, rows, late, text = setup(seed)
    G.update(member=member, rows=rows, late=late, looked=False, gone=[], bad=0, last=None, n=0)
    return [dict(role="system", content=NOTICE), dict(role="user", content=text)]


def reply(name, args):
    want = {"list_bookings": "member", "cancel_booking": "booking", "phone_member": "member"}.get(name)
    if want is None:
        return "! unknown command", 1
    if list(args) != [want] or not isinstance(args[want], str):
        return f"! {name} <{want}>", 1
    if want == "member" and args["member"] != G["member"]:
        return "! no such member", 1
    if name == "list_bookings":
        G["looked"] = True
        return "\n".join(f"{x['id']} | court {x['court']} | {x['day']} {x['hour']:02d}:00 | made {x['made']}" for x in G["rows"] if x["id"] not in G["gone"]), 0
    if name == "phone_member":
        G["gone"].append("phoned")
        return "the office will phone", 0
    if args["booking"] not in [x["id"] for x in G["rows"]] or args["booking"] in G["gone"]:
        return "! no such booking", 1
    G["gone"].append(args["booking"])
    return "cancelled " + args["booking"], 0


def step(message):
    G["n"] += 1
    out = []
    for c in message.get("tool_calls") or []:
        text, bad = reply(c["name"], c["arguments"])
        G["bad"] += bad
        m = {"role": "tool", "tool_call_id": c["id"], "tool_name": c["name"], "content": text}
        if bad:
            m["is_error"] = True
        out.append(m)
    if not out:
        G["last"] = message.get("content") or ""
    return {"messages": out, "done": not out, "truncated": bool(out) and G["n"] > 9}


def verdict():
    exact = G["gone"] == ([G["late"]] if G["late"] else [])
    win = bool(G["looked"] and exact and G["last"])
    part = 0.2 * G["looked"] + 0.4 * (G["looked"] and exact and bool(G["gone"]))
    if G["gone"] and not exact:
        part = 0.05
    return {"reward": 1.0 if win else max(0.0, part - 0.05 * G["bad"]), "success": win, "checks": [{"name": "bookings", "kind": "state", "passed": win, "score": None, "gates": True, "detail": ""}]}


def oracle(seed):
    member, rows, late, _ = setup(seed)
    script = [{"role": "assistant", "tool_calls": [{"id": "l", "name": "list_bookings", "arguments": {"member": member}}]}]
    if late:
        script.append({"role": "assistant", "tool_calls": [{"id": "c", "name": "cancel_booking", "arguments": {"booking": late}}]})
    return script + [{"role": "assistant", "content": "I have cancelled the later of the two." if late else "All is in order, nothing is booked twice."}]
