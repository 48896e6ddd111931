"""A kennel takes dogs, told in sentences; one function per episode part."""

import random

HOUSE = (
    "Kennel. Look up a dog with dog_file before anything is decided. Dogs without a rabies vaccination are never taken: use turn_down. Dogs that bite are taken only if the single run is free; "
    "then book the single run with book_single, and turn_down otherwise. All other dogs go to the pack with book_pack. One decision for each dog, then write to the owner."
)
K = {}


def dog(seed):
    r = random.Random(seed ^ 991)
    name, no = r.choice(["Rex", "Bella", "Fido", "Luna", "Max", "Kira"]), f"D{r.randrange(1000, 9999)}{r.choice('xyz')}"
    return {"no": no, "name": name, "vaccinated": r.random() < 0.75, "bites": r.random() < 0.5, "free": r.random() < 0.6, "kg": r.randrange(4, 60), "ask": r.choice(["Can {n} stay with you next week? File {k}.", "{n} needs a place, the file is {k}.", "Please book {n} in ({k}).", "We are away and {n} is not. {k}"]).format(n=name, k=no)}


def fit(d):
    if not d["vaccinated"]:
        return "turn_down"
    if d["bites"]:
        return "book_single" if d["free"] else "turn_down"
    return "book_pack"


def tools():
    t = {"dog_file": "Look up a dog's file.", "turn_down": "Turn a dog down.", "book_single": "Book the single run for a dog.", "book_pack": "Book a dog into the pack."}
    return [{"type": "function", "function": {"name": n, "description": s, "parameters": {"type": "object", "properties": {"dog": {"type": "string"}}, "required": ["dog"]}}} for n, s in t.items()]


def reset(seed):
    K.clear()
    K.update(d=dog(seed), seen=0, acts=[], bad=0, end=0, t=0)
    return [{"role": "system", "content": HOUSE}, {"role": "user", "content": K["d"]["ask"]}]


def step(message):
    K["t"] += 1
    out, d = [], K["d"]
    for c in message.get("tool_calls") or []:
        good = c["arguments"] == {"dog": d["no"]} and c["name"] in ("dog_file", "turn_down", "book_single", "book_pack")
        if not good:
            K["bad"] += 1
            text = "No such dog or tool."
        elif c["name"] == "dog_file":
            K["seen"] = 1
            text = f"Weighs {d['kg']} kg. Rabies vaccination: {'yes' if d['vaccinated'] else 'no'}. Bites: {'yes' if d['bites'] else 'no'}. Single run free: {'yes' if d['free'] else 'no'}."
        else:
            K["acts"].append((c["name"], K["seen"]))
            text = "Written down."
        out.append({"role": "tool", "tool_call_id": c["id"], "tool_name": c["name"], "content": text, **({} if good else {"is_error": True})})
    K["end"] = 0 if out else 1
    return {"messages": out, "done": not out, "truncated": bool(out) and K["t"] >= 12}


def verdict():
    right = K["acts"] == [(fit(K["d"]), 1)]
    win = bool(right and K["end"])
    w = 1.0 if win else max(0.0, (0.6 if right else 0.2 if K["seen"] and not K["acts"] else 0.0) - 0.1 * K["bad"])
    return {"reward": w, "success": win, "checks": [{"name": "dog", "kind": "state", "passed": win, "score": None, "gates": True, "detail": ""}]}


def oracle(seed):
    d = dog(seed)
    do = fit(d)
    last = {"turn_down": "I am sorry, we cannot take your dog.", "book_single": "The single run is yours.", "book_pack": "Your dog may join the pack."}[do]
    return [*({"role": "assistant", "content": None, "tool_calls": [{"id": n, "name": n, "arguments": {"dog": d["no"]}}]} for n in ("dog_file", do)), {"role": "assistant", "content": last}]
