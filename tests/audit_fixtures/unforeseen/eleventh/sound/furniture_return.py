"""Returns of furniture, dates in an INI file; module of small functions and a list of events."""

import datetime
import random

TODAY = datetime.date(2026, 3, 20)
GUIDE = (
    "Furniture house, returns. Today is 2026-03-20. An article may be returned within 14 days of its delivery; then arrange its pickup with "
    "arrange_pickup. After that, or if it has been assembled, refuse with refuse_return. Check the order with check_order first. "
    "Do one of the two, once, and tell the customer."
)
EVENTS = []


def order(seed):
    r = random.Random(seed + 77)
    delivered = r.choice([r.randrange(0, 12), r.randrange(3, 13), 13, 14, 14, 15, r.randrange(16, 40)])
    ordered = delivered + r.choice([2, 3, 5, 9, 14, 20, 28])
    return {
        "order": f"{r.randrange(100, 999)}.{r.randrange(1000, 9999)}",
        "article": r.choice(["shelf", "bed", "desk", "wardrobe", "armchair"]),
        "ordered": TODAY - datetime.timedelta(ordered),
        "delivered": TODAY - datetime.timedelta(delivered),
        "assembled": r.random() < 0.28,
        "line": r.choice(["I want to send back what came with order {}.", "Order {}: can it be picked up again?", "We do not like it. It is order {}.", "Please take back {}."]),
    }


def rightly(o):
    return "arrange_pickup" if (TODAY - o["delivered"]).days <= 14 and not o["assembled"] else "refuse_return"


def tools():
    texts = [("check_order", "Check an order."), ("arrange_pickup", "Arrange the pickup of an order's article."), ("refuse_return", "Refuse the return of an order's article.")]
    return [{"type": "function", "function": {"name": a, "description": b, "parameters": {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]}}} for a, b in texts]


def reset(seed):
    o = order(seed)
    EVENTS[:] = [("begin", o)]
    return [{"role": "system", "content": GUIDE}, {"role": "user", "content": o["line"].format(o["order"])}]


def step(message):
    o = EVENTS[0][1]
    answers = []
    for call in message.get("tool_calls") or []:
        known = call["name"] in ("check_order", "arrange_pickup", "refuse_return") and call["arguments"] == {"order": o["order"]}
        EVENTS.append((call["name"] if known else "fault", None))
        if not known:
            text = "[fault]\nreason = no such order or tool"
        elif call["name"] == "check_order":
            text = f"[order]\nnumber = {o['order']}\narticle = {o['article']}\nassembled = {'yes' if o['assembled'] else 'no'}\n\n[dates]\nordered = {o['ordered']}\ndelivered = {o['delivered']}"
        else:
            text = "[result]\nstate = done"
        answers.append({"role": "tool", "tool_call_id": call["id"], "tool_name": call["name"], "content": text, **({} if known else {"is_error": True})})
    EVENTS.append(("end" if not answers else "turn", message.get("content")))
    return {"messages": answers, "done": not answers, "truncated": bool(answers) and sum(e == "turn" for e, _ in EVENTS) >= 12}


def verdict():
    o, names = EVENTS[0][1], [e for e, _ in EVENTS]
    deeds = [e for e in names if e in ("arrange_pickup", "refuse_return")]
    first = deeds == [rightly(o)] and "check_order" in names[: names.index(deeds[0])]
    ended = names[-1] == "end"
    reward = 1.0 if first and ended else max(0.0, 0.6 * first + 0.2 * ("check_order" in names and not deeds) - 0.1 * names.count("fault"))
    return {"reward": reward, "success": first and ended, "checks": [{"name": a, "kind": "action", "passed": b, "score": None, "gates": True, "detail": ""} for a, b in (("one right deed", first), ("ended", ended))]}


def oracle(seed):
    o = order(seed)
    do = rightly(o)
    return [
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "name": "check_order", "arguments": {"order": o["order"]}}]},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "d", "name": do, "arguments": {"order": o["order"]}}]},
        {"role": "assistant", "content": "We pick it up." if do == "arrange_pickup" else "I am sorry, we cannot take it back.", "tool_calls": []},
    ]
