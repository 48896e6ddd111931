"""Rents of allotment gardens, told as name=value lines; a generator that is sent messages."""

import random

STATUTES = (
    "Allotment society, rents. Where the rent of a plot has been unpaid for three months or more, its lease is ended (end_lease). Where it has been "
    "unpaid for one or two months, a reminder is sent (send_reminder). Where nothing is unpaid, the file is closed (close_file). Open the plot's "
    "file before you act, and act once. Finish with a line to the treasurer."
)
KINDS = ("open_file", "end_lease", "send_reminder", "close_file")
WHAT = ("Open the file of a plot.", "End the lease of a plot.", "Send a reminder for a plot.", "Close the file of a plot.")
box = {"play": None, "score": None}


def plot(seed):
    g = random.Random(10_007 * seed + 5)
    months = g.choice([0, 0, 1, 1, 2, 3, 3, g.randrange(4, 10), g.randrange(4, 8)])
    number = f"{g.choice(['N', 'S', 'W', 'O'])}{g.randrange(1, 40)}-{g.randrange(100, 1000)}"
    text = g.choice(["Plot {} is next on my list.", "Treasurer here, what is to be done with {}?", "Please handle {}.", "See to plot {} today.", "And {}?"]).format(number)
    return {"plot": number, "size_m2": g.randrange(150, 420), "months_unpaid": months, "member_since": g.randrange(1988, 2024), "text": text}


def right(p):
    if p["months_unpaid"] >= 3:
        return "end_lease"
    return "send_reminder" if p["months_unpaid"] >= 1 else "close_file"


def tools():
    return [
        {"type": "function", "function": {"name": k, "description": w, "parameters": {"type": "object", "properties": {"plot": {"type": "string"}}, "required": ["plot"]}}}
        for k, w in zip(KINDS, WHAT, strict=True)
    ]


def playing(p):
    opened, acts, mistakes, message = False, [], 0, (yield)
    for turn in range(1, 13):
        out = []
        for c in message.get("tool_calls") or []:
            text, wrong = "noted=yes", False
            if c["name"] not in KINDS or c["arguments"] != {"plot": p["plot"]}:
                text, wrong, mistakes = "error=unknown plot or tool", True, mistakes + 1
            elif c["name"] == "open_file":
                opened = True
                text = "\n".join(f"{k}={p[k]}" for k in ("plot", "size_m2", "member_since", "months_unpaid"))
            else:
                acts.append((c["name"], opened))
            out.append({"role": "tool", "tool_call_id": c["id"], "tool_name": c["name"], "content": text, **({"is_error": True} if wrong else {})})
        good = acts == [(right(p), True)]
        box["score"] = 1.0 if good and not out else 0.0 if len(acts) > 1 else max(0.0, 0.7 * good + 0.15 * (opened and not acts) - 0.1 * mistakes)
        message = yield {"messages": out, "done": not out, "truncated": bool(out) and turn == 12}


def reset(seed):
    p = plot(seed)
    box["play"], box["score"] = playing(p), 0.0
    next(box["play"])
    return [{"role": "system", "content": STATUTES}, {"role": "user", "content": p["text"]}]


def step(message):
    return box["play"].send(message)


def verdict():
    done = box["score"] == 1.0
    return {"reward": box["score"], "success": done, "checks": [{"name": "plot", "kind": "state", "passed": done, "score": box["score"], "gates": True, "detail": ""}]}


def oracle(seed):
    p = plot(seed)
    names = ("open_file", right(p))
    calls = [{"role": "assistant", "content": None, "tool_calls": [{"id": f"k{i}", "name": n, "arguments": {"plot": p["plot"]}}]} for i, n in enumerate(names)]
    return [*calls, {"role": "assistant", "content": {"end_lease": "The lease is ended.", "send_reminder": "They were reminded.", "close_file": "All is paid."}[right(p)]}]
