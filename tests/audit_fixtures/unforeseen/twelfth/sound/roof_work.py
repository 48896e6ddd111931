"""Work on roofs by the weather, two looks as CSV; tuples and a running tally."""

import random

RULES = (
    "Site office. Before a crew goes up, read the forecast (read_forecast) and the crew's papers (read_papers). A crew may go up (send_up) when the wind is below 40 km/h, it is not "
    "raining and its safety training is valid. If the training is not valid, send the crew to training (send_to_training), also in bad weather. If only the weather is against it, let the crew wait (let_wait). "
    "Take one of the steps and radio the foreman."
)
NAMES = ("read_forecast", "read_papers", "send_up", "send_to_training", "let_wait")
SAYS = ("Read the forecast for a crew's site.", "Read a crew's papers.", "Send a crew up.", "Send a crew to training.", "Let a crew wait.")
now = {"case": None}


def crew(seed):
    r = random.Random(seed * 11)
    return (
        f"C{r.randrange(100, 999)}{r.choice('kmprt')}",
        r.choice([39, 40, r.randrange(5, 38), r.randrange(5, 38), r.randrange(5, 38), r.randrange(42, 90)]),
        r.choice(["yes", "no", "no", "no"]),
        r.choice(["valid", "valid", "expired"]),
        r.choice(["north", "east", "old town"]),
        r.choice(["Crew {} is ready.", "{} asks whether they can start.", "Foreman here, may {} go?", "What about {}?"]),
    )


def step_due(c):
    if c[3] != "valid":
        return "send_to_training"
    return "send_up" if c[1] < 40 and c[2] == "no" else "let_wait"


def tools():
    return [{"type": "function", "function": {"name": n, "description": t, "parameters": {"type": "object", "properties": {"crew": {"type": "string"}}, "required": ["crew"]}}} for n, t in zip(NAMES, SAYS)]


def reset(seed):
    c = crew(seed)
    now.update(case=c, looks=set(), acts=[], wrong=0, over=False, turns=0)
    return [{"role": "system", "content": RULES}, {"role": "user", "content": c[5].format(c[0])}]


def reply(call):
    c = now["case"]
    if call["name"] not in NAMES or call["arguments"] != {"crew": c[0]}:
        return None
    if call["name"] == "read_forecast":
        now["looks"].add(1)
        return f"site,wind_kmh,rain\n{c[4]},{c[1]},{c[2]}"
    if call["name"] == "read_papers":
        now["looks"].add(2)
        return f"crew,safety_training\n{c[0]},{c[3]}"
    now["acts"].append((call["name"], len(now["looks"]) == 2))
    return "ok"


def step(message):
    now["turns"] += 1
    out = []
    for call in message.get("tool_calls") or []:
        text = reply(call)
        now["wrong"] += text is None
        out.append({"role": "tool", "tool_call_id": call["id"], "tool_name": call["name"], "content": text or "error: unknown crew or tool", "is_error": text is None})
    now["over"] = not out
    return {"messages": out, "done": not out, "truncated": bool(out) and now["turns"] >= 12}


def verdict():
    good = now["acts"] == [(step_due(now["case"]), True)]
    win = good and now["over"]
    w = 1.0 if win else max(0.0, (0.6 if good else 0.1 * len(now["looks"]) if not now["acts"] else 0.0) - 0.1 * now["wrong"])
    return {"reward": w, "success": win, "checks": [{"name": "crew", "kind": "action", "passed": win, "score": w, "gates": True, "detail": ""}]}


def oracle(seed):
    c = crew(seed)
    looks = [{"id": n, "name": n, "arguments": {"crew": c[0]}} for n in NAMES[:2]]
    return [{"role": "assistant", "content": None, "tool_calls": looks}, {"role": "assistant", "content": None, "tool_calls": [{"id": "x", "name": step_due(c), "arguments": {"crew": c[0]}}]}, {"role": "assistant", "content": "The foreman knows."}]
