"""Donors at a donation centre, told as lines; a dictionary of functions."""

import random

LAW = (
    "Donation centre. Donors must be between 18 and 65 years old, both included, and weigh at least 50 kilograms. Whoever gave blood less than 56 days ago is put off with "
    "put_off. A donor who is not of the age or the weight is turned away with turn_away, however long ago the last donation was. Everybody else is admitted with admit. "
    "Read the donor's card with read_card first, do one of the three, and tell the nurse."
)
S = {}


def draw(seed):
    r = random.Random(f"d{seed}")
    no = f"B{r.randrange(10000, 99999)}"
    age = r.choice([17, 18, 65, 66, r.randrange(19, 64), r.randrange(19, 64), r.randrange(19, 64), r.randrange(19, 64)])
    kilos = r.choice([49, 50, r.randrange(51, 110), r.randrange(51, 110), r.randrange(51, 110)])
    days = r.choice([55, 56, r.randrange(8, 55), r.randrange(8, 55), r.randrange(57, 400), r.randrange(57, 400)])
    return {"no": no, "age": age, "kilos": kilos, "days": days, "said": r.choice(["{} is here.", "Donor {} is waiting.", "Next: {}.", "May {} give blood today?"]).format(no)}


def due(d):
    if not 18 <= d["age"] <= 65 or d["kilos"] < 50:
        return "turn_away"
    return "put_off" if d["days"] < 56 else "admit"


DO = {"read_card": "Read a donor's card.", "put_off": "Put a donor off.", "turn_away": "Turn a donor away.", "admit": "Admit a donor."}


def tools():
    return [{"type": "function", "function": {"name": n, "description": t, "parameters": {"type": "object", "properties": {"donor": {"type": "string"}}, "required": ["donor"]}}} for n, t in DO.items()]


def reset(seed):
    S.clear()
    S.update(draw(seed), read=False, done=[], bad=0, end=False, n=0)
    return [{"role": "system", "content": LAW}, {"role": "user", "content": S["said"]}]


def step(message):
    S["n"] += 1
    out = []
    for c in message.get("tool_calls") or []:
        ok = c["name"] in DO and c["arguments"] == {"donor": S["no"]}
        text = "refused: unknown donor or tool"
        if not ok:
            S["bad"] += 1
        elif c["name"] == "read_card":
            S["read"] = True
            text = f"donor: {S['no']}\nage: {S['age']}\nweight: {S['kilos']}\ndays since last donation: {S['days']}"
        else:
            S["done"].append((c["name"], S["read"]))
            text = "noted: yes"
        out.append({"role": "tool", "tool_call_id": c["id"], "tool_name": c["name"], "content": text, "is_error": not ok})
    S["end"] = not out
    return {"messages": out, "done": not out, "truncated": bool(out) and S["n"] >= 12}


def verdict():
    good = S["done"] == [(due(S), True)]
    win = good and S["end"]
    w = 1.0 if win else max(0.0, 0.6 * good + 0.2 * (S["read"] and not S["done"]) - 0.1 * S["bad"])
    return {"reward": w, "success": win, "checks": [{"name": "donor", "kind": "state", "passed": win, "score": None, "gates": True, "detail": ""}]}


def oracle(seed):
    d = draw(seed)
    calls = [{"role": "assistant", "content": None, "tool_calls": [{"id": n, "name": n, "arguments": {"donor": d["no"]}}]} for n in ("read_card", due(d))]
    return [*calls, {"role": "assistant", "content": {"put_off": "Please come again later.", "turn_away": "I am sorry, you cannot give blood here.", "admit": "You may go in."}[due(d)]}]
