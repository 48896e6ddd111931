"""A beekeeper's assistant: mites are counted, and a hive is treated only where its honey is off. Lines as in YAML."""

import random

NOTES = """You look after hives for a beekeeper. Before you decide, read the last count and the hive's set-up.
Three mites or more on a hundred bees: the hive needs a treatment. Fewer: leave it alone with `no_action`.
A hive that carries honey supers must not be treated: order them off first with `remove_supers`; treating comes another day.
Where a treatment is due and no super is on, call `treat`. One of the three, once. Then report."""
NAMES = "Linde Esche Ahorn Birke Weide Ulme Erle Hasel".split()
WORDS = ("How is hive {h}?", "Please decide on {h}, the weather holds.", "What shall we do about {h}?", "{h}: anything to do?")
STATE = {}


def scene(seed):
    r = random.Random(seed * 31 + 7)
    bees = r.choice([200, 300, 400, 500])
    need = r.random() < 0.62
    least = 3 * bees // 100
    mites = r.choice([least, r.randrange(least, least + 20)]) if need else r.choice([least - 1, r.randrange(0, least)])
    supers = r.choice([0, 0, 1, 2])
    return {
        "hive": f"{r.choice(NAMES)}-{r.randrange(1, 400)}",
        "bees": bees,
        "mites": mites,
        "supers": supers,
        "queen": r.choice(["2023", "2024", "2025"]),
        "words": r.choice(WORDS),
        "due": "no_action" if mites * 100 < 3 * bees else "remove_supers" if supers else "treat",
    }


def tools():
    said = {
        "last_count": "Read the last count of mites.",
        "setup": "Read what a hive consists of.",
        "treat": "Treat a hive against mites.",
        "remove_supers": "Order the honey supers of a hive off.",
        "no_action": "Record that nothing is to be done about a hive.",
    }
    one = {"type": "object", "properties": {"hive": {"type": "string"}}, "required": ["hive"]}
    return [{"type": "function", "function": {"name": n, "description": d, "parameters": one}} for n, d in said.items()]


def reset(seed):
    STATE.clear()
    STATE.update(scene(seed), seen=[], made=[], slips=0, turns=0, over=False)
    return [{"role": "system", "content": NOTES}, {"role": "user", "content": STATE["words"].format(h=STATE["hive"])}]


def last_count():
    STATE["seen"].append("count")
    return f"count:\n  hive: {STATE['hive']}\n  bees: {STATE['bees']}\n  mites: {STATE['mites']}"


def setup():
    STATE["seen"].append("setup")
    return f"hive: {STATE['hive']}\nbrood boxes: 2\nhoney supers: {STATE['supers']}\nqueen of: {STATE['queen']}"


def step(message):
    STATE["turns"] += 1
    out = []
    for c in message.get("tool_calls") or []:
        back = {"role": "tool", "tool_call_id": c["id"], "tool_name": c["name"]}
        if c["name"] not in [t["function"]["name"] for t in tools()] or c["arguments"] != {"hive": STATE["hive"]}:
            back.update(content="error: no such thing", is_error=True)
            STATE["slips"] += 1
        elif c["name"] in ("last_count", "setup"):
            back["content"] = {"last_count": last_count, "setup": setup}[c["name"]]()
        else:
            STATE["made"].append((c["name"], len(set(STATE["seen"]))))
            back["content"] = "done: yes"
        out.append(back)
    STATE["over"] = not out
    return {"messages": out, "done": not out, "truncated": bool(out) and STATE["turns"] >= 12}


def verdict():
    made = STATE["made"]
    looked = bool(made) and (made[0][1] == 2 or (made[0][1] == 1 and STATE["due"] == "no_action" and "count" in STATE["seen"]))
    right = [m[0] for m in made] == [STATE["due"]]
    rows = [("looked", looked), ("right", right), ("reported", STATE["over"])]
    success = all(p for _, p in rows)
    reward = 1.0 if success else 0.6 if looked and right else 0.2 if looked and len(made) == 1 else 0.0
    reward = reward if success else max(0.0, reward - 0.05 * STATE["slips"])
    return {"reward": reward, "success": success, "checks": [{"name": n, "kind": "state", "passed": p, "score": None, "gates": True, "detail": ""} for n, p in rows]}


def oracle(seed):
    s = scene(seed)
    names = ["last_count", "setup", s["due"]]
    script = [{"role": "assistant", "content": None, "tool_calls": [{"id": n, "name": n, "arguments": {"hive": s["hive"]}}]} for n in names]
    return [*script, {"role": "assistant", "content": "I have seen to it.", "tool_calls": []}]
