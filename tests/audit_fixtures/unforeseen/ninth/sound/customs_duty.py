"""A customs desk: consignments in CSV, a tariff in CSV, a duty worked out to the cent. Functions over one plain dict."""

import random

RULES = """Customs desk for small consignments.
Look up the consignment with `consignment` and the rate with `tariff` before anything else.
- The dutiable value is the price of the goods plus the freight.
- A dutiable value of 150.00 or less is free of duty: call `release`.
- Otherwise the duty is the dutiable value times the rate of the tariff code, rounded to cents: call `assess` with it.
- Goods of an origin with an agreement pay the preferential rate, but only where proof of origin is attached (proof=yes).
- Goods marked as restricted in the tariff are never released or assessed, whatever they are worth: call `detain`.
Do one of the three, once, then close with a short message."""

CODES = [
    ("420221", "handbags of leather"), ("610910", "T-shirts of cotton"), ("640399", "footwear"), ("852872", "televisions"),
    ("950300", "toys"), ("701337", "drinking glasses"), ("330300", "perfume"), ("930400", "air guns"), ("121190", "medicinal plants"),
    ("871200", "bicycles"),
]
PLACES = ["CL", "JP", "KR", "US", "CN", "IN", "VN", "BR", "TR", "CA"]
LINES = [
    "Consignment {n} is waiting, please deal with it.",
    "What about {n}? The courier is asking.",
    "Please clear {n}.",
    "{n} came in this morning; your decision, please.",
    "Next one: {n}.",
]


def draw(seed):
    g = random.Random(f"customs/{seed}")
    code, goods = g.choice(CODES)
    kind = g.choice(["free", "duty", "duty", "held"])
    rate = g.choice([25, 32, 40, 47, 65, 80, 96, 120, 147, 170])
    pref = g.choice([0, 10, 15, 20])
    low = kind == "free" or (kind == "held" and g.random() < 0.5)
    total = g.randrange(2000, 15001) if low else g.randrange(15001, 90000)
    if g.random() < 0.3:
        total = g.choice([15000, 14990, 14200]) if low else g.choice([15001, 15010, 15900])
    freight = g.randrange(200, 1900)
    return {
        "no": f"{g.choice('ABCDEF')}{g.randrange(10**7):07d}",
        "code": code,
        "goods": goods,
        "price": total - freight,
        "freight": freight,
        "origin": g.choice(PLACES),
        "agreement": sorted(g.sample(PLACES, 5)),
        "proof": g.choice(["yes", "no"]),
        "rate": rate,
        "pref": pref,
        "restricted": "yes" if kind == "held" else "no",
        "others": sorted(
            (c, w, g.choice([25, 40, 65, 120]), g.choice([0, 10, 20]), g.choice(["yes", "no", "no"]))
            for c, w in g.sample([x for x in CODES if x[0] != code], 3)
        ),
        "line": g.choice(LINES),
        "read": [],
        "done": [],
        "bad": 0,
        "n": 0,
        "shut": False,
    }


def due(s):
    """What the policy has done with it."""
    value = s["price"] + s["freight"]
    if s["restricted"] == "yes":
        return ("detain", None)
    if value <= 15000:
        return ("release", None)
    rate = s["pref"] if s["origin"] in s["agreement"] and s["proof"] == "yes" else s["rate"]
    return ("assess", (value * rate + 500) // 1000)


def money(cents):
    return f"{cents // 100}.{cents % 100:02d}"


def table(head, *rows):
    return "\n".join(",".join(str(cell) for cell in row) for row in [head, *rows])


def see_consignment(s, number):
    if number != s["no"]:
        return None, f"error,no consignment {number}"
    s["read"].append("consignment")
    return table(
        ["number", "code", "goods", "price", "freight", "origin", "proof"],
        [s["no"], s["code"], s["goods"], money(s["price"]), money(s["freight"]), s["origin"], s["proof"]],
    ), None


def see_tariff(s, code):
    rows = [r for r in [(s["code"], s["goods"], s["rate"], s["pref"], s["restricted"]), *s["others"]] if r[0] == code]
    if not rows:
        return None, f"error,no code {code}"
    if code == s["code"]:
        s["read"].append("tariff")
    r = rows[0]
    return table(
        ["code", "goods", "rate_percent", "preferential_percent", "agreements", "restricted"],
        [r[0], r[1], r[2] / 10, r[3] / 10, " ".join(s["agreement"]), r[4]],
    ), None


def act(name):
    def deed(s, number, duty=None):
        if number != s["no"]:
            return None, f"error,no consignment {number}"
        s["done"].append((name, None if duty is None else round(duty * 100), set(s["read"]) == {"consignment", "tariff"}))
        return f"ok,{name}", None

    return deed


TEXT = {"type": "string"}
DESK = {
    "consignment": (see_consignment, "Read a consignment.", {"number": TEXT}),
    "tariff": (see_tariff, "Read the tariff of a code.", {"code": TEXT}),
    "release": (act("release"), "Release a consignment free of duty.", {"number": TEXT}),
    "assess": (act("assess"), "Assess a duty.", {"number": TEXT, "duty": {"type": "number", "description": "in euros"}}),
    "detain": (act("detain"), "Detain a consignment.", {"number": TEXT}),
}
NOW = {}


def tools():
    return [
        {
            "type": "function",
            "function": {
                "name": n,
                "description": d,
                "parameters": {"type": "object", "properties": p, "required": sorted(p)},
            },
        }
        for n, (_, d, p) in DESK.items()
    ]


def reset(seed):
    NOW.clear()
    NOW.update(draw(seed))
    return [{"role": "system", "content": RULES}, {"role": "user", "content": NOW["line"].format(n=NOW["no"])}]


def _good(value, schema):
    if schema["type"] == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e9
    return isinstance(value, str)


def _run(call):
    spec = DESK.get(call["name"])
    given = call["arguments"]
    if spec is None:
        return None, f"error,no function {call['name']}"
    if set(given) != set(spec[2]):
        return None, "error,arguments: " + " ".join(sorted(spec[2]))
    if not all(_good(given[k], v) for k, v in spec[2].items()):
        return None, "error,an argument has the wrong type"
    return spec[0](NOW, **given)


def step(message):
    NOW["n"] += 1
    out = []
    for call in message.get("tool_calls") or []:
        text, error = _run(call)
        one = {"role": "tool", "tool_call_id": call["id"], "tool_name": call["name"], "content": text or error}
        if error:
            one["is_error"] = True
            NOW["bad"] += 1
        out.append(one)
    if not out:
        NOW["shut"] = True
    return {"messages": out, "done": not out, "truncated": bool(out) and NOW["n"] >= 12}


def verdict():
    what, amount = due(NOW)
    points = {"read both": 0, "kind": 0, "amount": 0, "once": 0, "closed": 0}
    if NOW["done"]:
        name, duty, read = NOW["done"][0]
        points["read both"] = int(read)
        points["kind"] = int(read and name == what)
        points["amount"] = int(points["kind"] and duty == amount)
        points["once"] = int(points["amount"] and len(NOW["done"]) == 1)
        points["closed"] = int(points["once"] and NOW["shut"])
    success = all(points.values())
    weights = {"read both": 0.1, "kind": 0.2, "amount": 0.3, "once": 0.2, "closed": 0.2}
    reward = 1.0 if success else max(0.0, round(sum(weights[k] * v for k, v in points.items()) - 0.05 * NOW["bad"], 3))
    if len(NOW["done"]) > 1:
        reward = 0.0
    return {
        "reward": reward,
        "success": success,
        "checks": [
            {"name": k, "kind": "state", "passed": bool(v), "score": float(v), "gates": True, "detail": ""}
            for k, v in points.items()
        ],
    }


def oracle(seed):
    s = draw(seed)
    what, amount = due(s)
    plan = [("consignment", {"number": s["no"]}), ("tariff", {"code": s["code"]})]
    plan.append((what, {"number": s["no"]} if amount is None else {"number": s["no"], "duty": amount / 100}))
    script = [
        {"role": "assistant", "content": None, "tool_calls": [{"id": str(i), "name": n, "arguments": a}]}
        for i, (n, a) in enumerate(plan)
    ]
    return [*script, {"role": "assistant", "content": "That is settled.", "tool_calls": []}]
