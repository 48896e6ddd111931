"""Children are put into swimming courses; the card is a sentence. A closure over lists."""

import random

WORDS = (
    "You enrol children for swimming. Read a child's card with show_card, then enrol it once with enrol, in one of the groups seahorse, dolphin, squad. "
    "Children who hold the bronze badge go to the squad, whatever their age. Of the others, children under 6 go to the seahorse group, and those of 6 "
    "and older to the dolphin group. Say at last where the child is."
)
GROUPS = ["seahorse", "dolphin", "squad"]
FIRST = ["Ada", "Ben", "Cleo", "Dina", "Emil", "Finn", "Greta", "Hugo", "Ida", "Jonas", "Kira", "Levi", "Mila", "Noah"]


def child(seed):
    r = random.Random(seed)
    r.random()
    age = r.choice([4, 5, 5, 6, 6, 7, 8, 9])
    bronze = r.random() < 0.38
    name, number = r.choice(FIRST), f"K{r.randrange(1000, 9999)}{r.choice('abcdefgh')}"
    ask = r.choice(["My {n} would like to learn swimming, card {k}.", "Please put {n} ({k}) into a course.", "Which course for {n}? The card is {k}.", "{k} is {n}'s card. We want to begin in May."])
    return dict(card=number, name=name, age=age, bronze=bronze, ask=ask.format(n=name, k=number), height=r.randrange(95, 150))


def group(c):
    if c["bronze"]:
        return "squad"
    return "seahorse" if c["age"] < 6 else "dolphin"


def tools():
    card = {"type": "string", "description": "number of the card"}
    return [
        {"type": "function", "function": {"name": "show_card", "description": "Show a child's card.", "parameters": {"type": "object", "properties": {"card": card}, "required": ["card"]}}},
        {"type": "function", "function": {"name": "enrol", "description": "Enrol a child.", "parameters": {"type": "object", "properties": {"card": card, "group": {"type": "string", "enum": GROUPS}}, "required": ["card", "group"]}}},
    ]


def pool(c):
    log, bad, seen, end = [], [0], [], []

    def play(message):
        out = []
        for call in message.get("tool_calls") or []:
            a, text, err = call["arguments"], "", False
            if call["name"] == "show_card" and a == {"card": c["card"]}:
                seen.append(1)
                badge = "holds the bronze badge" if c["bronze"] else "holds no badge yet"
                text = f"{c['name']} is {c['age']} years old, {c['height']} cm tall and {badge}."
            elif call["name"] == "enrol" and set(a) == {"card", "group"} and a["card"] == c["card"] and a["group"] in GROUPS:
                log.append((a["group"], bool(seen)))
                text = "Enrolled."
            else:
                text, err = "That cannot be done: please check card, group and tool.", True
                bad[0] += 1
            out.append({"role": "tool", "tool_call_id": call["id"], "tool_name": call["name"], "content": text, **({"is_error": True} if err else {})})
        if not out:
            end.append(message.get("content") or "")
        return out

    def worth():
        right = log == [(group(c), True)]
        if right and end:
            return 1.0
        return max(0.0, (0.55 if right else 0.25 if seen and not log else 0.0) - 0.1 * bad[0])

    return play, worth


live = {}


def reset(seed):
    c = child(seed)
    live.clear()
    live["play"], live["worth"] = pool(c)
    live["left"] = 12
    return [{"role": "system", "content": WORDS}, {"role": "user", "content": c["ask"]}]


def step(message):
    live["left"] -= 1
    out = live["play"](message)
    return {"messages": out, "done": not out, "truncated": bool(out) and live["left"] <= 0}


def verdict():
    w = live["worth"]()
    return {"reward": w, "success": w == 1.0, "checks": [{"name": "enrolled", "kind": "state", "passed": w == 1.0, "score": w, "gates": True, "detail": ""}]}


def oracle(seed):
    c = child(seed)
    return [
        {"role": "assistant", "content": None, "tool_calls": [{"id": "x1", "name": "show_card", "arguments": {"card": c["card"]}}]},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "x2", "name": "enrol", "arguments": {"card": c["card"], "group": group(c)}}]},
        {"role": "assistant", "content": f"{c['name']} is enrolled now."},
    ]
