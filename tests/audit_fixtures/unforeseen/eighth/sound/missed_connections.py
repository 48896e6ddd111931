"""A travel party changes planes: those whose connection is too short are rebooked, the others are left alone."""

import random

MINIMUM = {True: 30, False: 55}  # minutes: within a terminal, between two
POLICY = f"""Transfer desk.

When a party is late, check each traveller's connection. The shortest connection is {MINIMUM[True]} minutes within one terminal and {MINIMUM[False]} minutes between two terminals.
Rebook every traveller whose connection is shorter than that. Do not rebook anybody else. A traveller is rebooked once.
When all is settled, tell the party."""
GIVEN = ("Amara", "Bjorn", "Carla", "Dmitri", "Elif", "Farid", "Greta", "Hiro", "Ilse", "Joao", "Kemal", "Lucia")
PLEAS = (
    "Our flights are late, booking {b}. Will everybody make it?",
    "Booking {b} - please see to our connections, we landed late.",
    "we're party {b} and some of us may miss their next plane",
    "{b}: delayed. Could you sort out who has to be moved?",
)


def clock(minutes):
    return f"{minutes // 60 % 24:02d}:{minutes % 60:02d}"


def party(seed):
    rng = random.Random(1009 * seed + 17)
    people = []
    for name in rng.sample(GIVEN, rng.randint(2, 4)):
        arrive = rng.randrange(6 * 60, 20 * 60)
        t1, t2 = rng.choice("ABC"), rng.choice("ABC")
        least = MINIMUM[t1 == t2]
        tight = rng.random() < 0.5
        gap = rng.randrange(5, least) if tight else rng.randrange(least, 110)
        people.append(
            {
                "ticket": f"{rng.randrange(10**9, 10**10)}",
                "name": name,
                "in": (clock(arrive), t1),
                "out": (clock(arrive + gap), t2),
                "tight": tight,
            }
        )
    booking = "".join(rng.choice("BCDFGHJKLMNPQRSTVWXZ") for _ in range(4)) + str(rng.randrange(10, 100))
    return {"booking": booking, "people": people, "plea": rng.choice(PLEAS).format(b=booking)}


P = {}
NAMES = {
    "list_party": ("List the travellers of a booking with their tickets", "booking"),
    "get_connection": ("Arrival and departure on a ticket", "ticket"),
    "rebook": ("Move a ticket to the next flight", "ticket"),
}


def tools():
    return [
        {
            "type": "function",
            "function": {
                "name": name,
                "description": text,
                "parameters": {
                    "type": "object",
                    "properties": {key: {"type": "string"}},
                    "required": [key],
                },
            },
        }
        for name, (text, key) in NAMES.items()
    ]


def reset(seed):
    P.clear()
    P.update(party(seed))
    P["checked"] = set()
    P["moved"] = []
    P["unseen"] = 0
    P["errors"] = 0
    P["farewell"] = False
    P["step"] = 0
    return [{"role": "system", "content": POLICY}, {"role": "user", "content": P["plea"]}]


def respond(name, args):
    if name not in NAMES:
        return False, f"<error>unknown command {name}</error>"
    key = NAMES[name][1]
    if set(args) != {key} or not isinstance(args.get(key), str):
        return False, f"<error>{name} needs {key}</error>"
    if name == "list_party":
        if args["booking"] != P["booking"]:
            return False, "<error>unknown booking</error>"
        rows = "".join(f"<traveller ticket='{p['ticket']}'>{p['name']}</traveller>" for p in P["people"])
        return True, f"<party booking='{P['booking']}'>{rows}</party>"
    for p in P["people"]:
        if p["ticket"] == args["ticket"]:
            break
    else:
        return False, "<error>unknown ticket</error>"
    if name == "get_connection":
        P["checked"].add(p["ticket"])
        (a, t1), (d, t2) = p["in"], p["out"]
        return True, f"<connection><arrival terminal='{t1}'>{a}</arrival><departure terminal='{t2}'>{d}</departure></connection>"
    if p["ticket"] in P["moved"]:
        return False, "<error>already rebooked</error>"
    if p["ticket"] not in P["checked"]:
        P["unseen"] += 1
    P["moved"].append(p["ticket"])
    return True, f"<rebooked ticket='{p['ticket']}'/>"


def step(message):
    P["step"] += 1
    if not message.get("tool_calls"):
        P["farewell"] = bool((message.get("content") or "").strip())
        return {"messages": [], "done": True, "truncated": False}
    messages = []
    for call in message["tool_calls"]:
        fine, text = respond(call["name"], call["arguments"])
        P["errors"] += not fine
        told = {"role": "tool", "tool_call_id": call["id"], "tool_name": call["name"], "content": text}
        messages.append(told if fine else told | {"is_error": True})
    return {"messages": messages, "done": False, "truncated": P["step"] > 14}


def verdict():
    due = {p["ticket"] for p in P["people"] if p["tight"]}
    everybody = {p["ticket"] for p in P["people"]}
    moved = set(P["moved"])
    looked = P["checked"] == everybody
    exact = moved == due and not P["unseen"]
    wrong = len(moved - due) + P["unseen"]
    share = len(P["checked"]) / len(everybody)
    reward = 0.2 * share + (0.3 * len(moved & due) / len(due) if due and looked else 0.0)
    reward -= 0.2 * wrong + 0.05 * P["errors"]
    win = looked and exact and P["farewell"]
    rows = {"everybody checked": looked, "the right ones": exact, "party told": P["farewell"]}
    return {
        "reward": 1.0 if win else min(0.8, max(0.0, reward)),
        "success": win,
        "checks": [
            {"name": k, "kind": "state", "passed": v, "score": None, "gates": True, "detail": ""} for k, v in rows.items()
        ],
    }


def oracle(seed):
    d = party(seed)
    n = 0

    def say(*calls):
        nonlocal n
        made = []
        for name, args in calls:
            n += 1
            made.append({"id": f"id{n}", "name": name, "arguments": args})
        return {"role": "assistant", "content": None, "tool_calls": made}

    due = [p for p in d["people"] if p["tight"]]
    script = [say(("list_party", {"booking": d["booking"]}))]
    script.append(say(*(("get_connection", {"ticket": p["ticket"]}) for p in d["people"])))
    if due:
        script.append(say(*(("rebook", {"ticket": p["ticket"]}) for p in due)))
    who = ", ".join(p["name"] for p in due)
    words = f"I have moved {who} to the next flight." if due else "You will all make your connections."
    return [*script, {"role": "assistant", "content": words, "tool_calls": []}]
