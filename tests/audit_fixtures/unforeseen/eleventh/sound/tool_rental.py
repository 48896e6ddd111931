"""Deposits of a tool rental, two looks in JSON; records by id and a tape of what was done."""

import json
import random

RULEBOOK = (
    "Tool rental, deposits. No deposit is taken from members of at least 2 years' standing who have caused no damage in the past 12 months: waive it with waive_deposit. "
    "For machines worth more than 1500 a deposit is always taken, from everybody. Where a deposit is taken, use take_deposit. "
    "Look up both the member (get_member) and the machine (get_machine) first. One of the two, once. Then let the clerk know."
)
TAPE = {"seed": 0, "log": []}


def rent(seed):
    r = random.Random(seed * 31 + 4)
    years = r.choice([0, 1, 1, 2, 2, 3, 5, 8, 12, 6])
    damage = r.choice([None, None, None, 3, 12, 14, 30])
    value = r.choice([r.randrange(80, 1400), r.randrange(200, 1400), r.randrange(90, 1000), 1500, r.randrange(1600, 4000), 900])
    m, k = f"M{r.randrange(10000, 99999)}", f"T{r.randrange(1000, 9999)}"
    ask = r.choice(["{m} wants to take machine {k}.", "Renting {k} to member {m}: deposit?", "Member {m}, machine {k}, please settle the deposit.", "Deposit for {k}? The member is {m}."]).format(m=m, k=k)
    return {"member": {"member": m, "years": years, "months_since_damage": damage, "city": r.choice(["Lund", "Turku", "Bergen"])}, "machine": {"machine": k, "value": value, "kind": r.choice(["drill", "saw", "roller", "mixer"])}, "ask": ask}


def due(x):
    m = x["member"]
    clean = m["months_since_damage"] is None or m["months_since_damage"] > 12
    if x["machine"]["value"] > 1500:
        return "take_deposit"
    return "waive_deposit" if m["years"] >= 2 and clean else "take_deposit"


def tools():
    def tool(name, text, *names):
        return {"type": "function", "function": {"name": name, "description": text, "parameters": {"type": "object", "properties": {n: {"type": "string"} for n in names}, "required": list(names)}}}

    return [tool("get_member", "Look up a member.", "member"), tool("get_machine", "Look up a machine.", "machine"), tool("waive_deposit", "Waive the deposit.", "member", "machine"), tool("take_deposit", "Take a deposit.", "member", "machine")]


def reset(seed):
    TAPE.update(seed=seed, log=[])
    return [{"role": "system", "content": RULEBOOK}, {"role": "user", "content": rent(seed)["ask"]}]


def reply(x, name, given):
    ids = {"member": x["member"]["member"], "machine": x["machine"]["machine"]}
    wants = {"get_member": ("member",), "get_machine": ("machine",), "waive_deposit": ("member", "machine"), "take_deposit": ("member", "machine")}
    if name not in wants or given != {n: ids[n] for n in wants[name]}:
        return None
    if name.startswith("get_"):
        return x[name[4:]]
    return {"saved": True}


def step(message):
    x, out = rent(TAPE["seed"]), []
    for c in message.get("tool_calls") or []:
        value = reply(x, c["name"], c["arguments"])
        TAPE["log"].append(c["name"] if value is not None else "!")
        out.append({"role": "tool", "tool_call_id": c["id"], "tool_name": c["name"], "content": json.dumps({"error": "not found"} if value is None else value), "is_error": value is None})
    TAPE["log"].append("." if out else "end")
    return {"messages": out, "done": not out, "truncated": bool(out) and TAPE["log"].count(".") >= 12}


def verdict():
    log = TAPE["log"]
    deeds = [i for i, n in enumerate(log) if n.endswith("_deposit")]
    looked = {"get_member", "get_machine"} <= set(log[: deeds[0]] if deeds else log)
    right = len(deeds) == 1 and log[deeds[0]] == due(rent(TAPE["seed"])) and looked
    win = right and log[-1] == "end"
    reward = 1.0 if win else max(0.0, (0.6 if right else 0.2 if looked and not deeds else 0.0) - 0.1 * log.count("!"))
    return {"reward": reward, "success": win, "checks": [{"name": "deposit", "kind": "state", "passed": right, "score": None, "gates": True, "detail": ""}, {"name": "ended", "kind": "protocol", "passed": win, "score": None, "gates": True, "detail": ""}]}


def oracle(seed):
    x = rent(seed)
    m, k, d = x["member"]["member"], x["machine"]["machine"], due(x)
    looks = [{"id": "a", "name": "get_member", "arguments": {"member": m}}, {"id": "b", "name": "get_machine", "arguments": {"machine": k}}]
    return [{"role": "assistant", "content": None, "tool_calls": looks}, {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "name": d, "arguments": {"member": m, "machine": k}}]}, {"role": "assistant", "content": "No deposit this time." if d == "waive_deposit" else "The deposit was taken."}]
