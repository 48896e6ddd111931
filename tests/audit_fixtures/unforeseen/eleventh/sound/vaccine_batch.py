"""Batches of vaccine after transport, told as CSV; a table of rules over a tuple."""

import random
from collections import namedtuple

HANDBOOK = """Cold chain desk.
1. Read the logger (read_logger) and the delivery note (read_note) of a batch before anything else.
2. Discard the batch (discard_batch) if it was warmer than 8 degrees for 30 minutes or longer, or if its seal is broken.
3. Put it in quarantine (quarantine_batch) if the logger has gaps and rule 2 does not apply.
4. Release it (release_batch) otherwise.
Take one of the three steps, then tell the nurse."""
Batch = namedtuple("Batch", "lot minutes peak gaps seal doses line")
LOOKS = {"read_logger": "Read the temperature logger of a batch.", "read_note": "Read the delivery note of a batch."}
DEEDS = {"discard_batch": "Discard a batch.", "quarantine_batch": "Put a batch in quarantine.", "release_batch": "Release a batch."}
NOW = {}


def draw(seed):
    rng = random.Random(f"batch {seed}")
    lot = f"{rng.choice('ABEFKM')}{rng.choice('XYZ')}{rng.randrange(10000, 99999)}"
    minutes = rng.choice([0, 0, 0, rng.randrange(1, 29), rng.randrange(10, 29), 29, 30, 31, rng.randrange(32, 200)])
    peak = round(rng.uniform(8.1, 14), 1) if minutes else round(rng.uniform(3.0, 7.8), 1)
    line = rng.choice(["Batch {} has come in.", "Can we use {} today?", "{} stands in the hallway, what now?", "Nurse speaking, I need a decision on {}.", "What about the vaccines of lot {}?"]).format(lot)
    return Batch(lot, minutes, peak, rng.choice(["yes", "no"]), rng.choice(["broken", "intact", "intact", "intact"]), rng.randrange(20, 400), line)


def due(b):
    if b.minutes >= 30 or b.seal == "broken":
        return "discard_batch"
    return "quarantine_batch" if b.gaps == "yes" else "release_batch"


def tools():
    schema = {"type": "object", "properties": {"lot": {"type": "string"}}, "required": ["lot"], "additionalProperties": False}
    return [{"type": "function", "function": {"name": n, "description": d, "parameters": schema}} for n, d in (LOOKS | DEEDS).items()]


def reset(seed):
    NOW.clear()
    NOW.update(batch=draw(seed), looks=set(), deeds=[], faults=0, end=False, n=0)
    return [{"role": "system", "content": HANDBOOK}, {"role": "user", "content": NOW["batch"].line}]


def respond(name, given):
    b = NOW["batch"]
    if name not in LOOKS and name not in DEEDS:
        return None
    if list(given) != ["lot"] or given["lot"] != b.lot:
        return None
    if name == "read_logger":
        NOW["looks"].add(name)
        return f"lot,peak_degrees,minutes_above_8,gaps\n{b.lot},{b.peak},{b.minutes},{b.gaps}"
    if name == "read_note":
        NOW["looks"].add(name)
        return f"lot,doses,seal\n{b.lot},{b.doses},{b.seal}"
    NOW["deeds"].append((name, len(NOW["looks"]) == 2))
    return "accepted"


def step(message):
    NOW["n"] += 1
    replies = []
    for c in message.get("tool_calls") or ():
        text = respond(c["name"], c["arguments"])
        if text is None:
            NOW["faults"] += 1
        replies.append({"role": "tool", "tool_call_id": c["id"], "tool_name": c["name"], "content": "rejected: no such tool or lot" if text is None else text, "is_error": text is None})
    NOW["end"] = not replies
    return {"messages": replies, "done": NOW["end"], "truncated": bool(replies) and NOW["n"] >= 12}


def verdict():
    good = NOW["deeds"] == [(due(NOW["batch"]), True)]
    success = good and NOW["end"]
    reward = 1.0 if success else 0.6 if good else 0.1 * len(NOW["looks"])
    reward = reward if success else max(0.0, reward - 0.1 * NOW["faults"] - 0.2 * (bool(NOW["deeds"]) and not good))
    rows = [("decided", good), ("told", success)]
    return {"reward": float(reward), "success": bool(success), "checks": [{"name": n, "kind": "state", "passed": bool(v), "score": None, "gates": True, "detail": ""} for n, v in rows]}


def oracle(seed):
    b = draw(seed)
    looks = [{"id": n, "name": n, "arguments": {"lot": b.lot}} for n in LOOKS]
    words = {"discard_batch": "Please throw it away, it is spoilt.", "quarantine_batch": "It waits in quarantine.", "release_batch": "You may use it."}
    return [
        {"role": "assistant", "content": None, "tool_calls": looks},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "d", "name": due(b), "arguments": {"lot": b.lot}}]},
        {"role": "assistant", "content": words[due(b)]},
    ]
