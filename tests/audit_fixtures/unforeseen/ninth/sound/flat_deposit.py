"""A letting agency settles deposits: what was damaged before is not deducted, nor what is old. Lines of key=value; namedtuples."""

import random
from collections import namedtuple

Item = namedtuple("Item", "name before after price age")
Flat = namedtuple("Flat", "ref deposit items arrears hello")
Ledger = namedtuple("Ledger", "refunds claims fails turns ended looks")

WORDS = {
    "fine": ("good", "clean", "as new", "no marks"),
    "hurt": ("broken", "cracked", "burnt", "torn", "missing"),
}
THINGS = ["carpet", "oven", "blind", "mirror", "sofa", "door", "sink", "lamp", "desk", "curtain"]
INTRO = """You settle deposits for a letting agency.

Look at both inventories, in and out, and at the account before you settle.
Deduct the price of an item if it is damaged at move-out and was not damaged at move-in. Damaged means: broken, cracked, burnt, torn or missing.
Items of ten years or older are worn out: they are never deducted.
Deduct also the rent that is owed.
If what is left is more than nothing, refund exactly that with refund. If nothing is left, close the case with close_case.
Settle once and then tell the tenant."""
HELLO = [
    "Hello, I moved out of {r} last week. What happens with my deposit?",
    "I'd like my deposit back for {r}, please.",
    "When do I get my deposit for {r}?",
    "Flat {r}: the keys are back with you. And my deposit?",
    "Good morning. My deposit please, the flat was {r}.",
]


def build(seed):
    rng = random.Random(seed + 987654321)
    mode = rng.choice(["part", "part", "part", "none", "none"])
    ref = f"{rng.randrange(1, 99)}{rng.choice('abcd')}-{rng.choice(['Elm', 'Oak', 'Ash', 'Yew'])}{rng.randrange(100, 999)}"
    items = []
    for name in rng.sample(THINGS, rng.choice([3, 4, 5])):
        before = rng.choice(WORDS["fine"] * 2 + WORDS["hurt"])
        after = before if before in WORDS["hurt"] else rng.choice(WORDS["fine"] + WORDS["hurt"])
        items.append(Item(name, before, after, 5 * rng.randrange(4, 60), rng.choice([1, 2, 4, 6, 9, 10, 11, 15])))
    arrears = rng.choice([0, 0, rng.randrange(40, 300)])
    owed = sum(i.price for i in items if chargeable(i)) + arrears
    if mode == "none":
        if owed < 100:
            arrears += rng.randrange(150, 400)
            owed = sum(i.price for i in items if chargeable(i)) + arrears
        deposit = owed - rng.choice([0, 0, 10, 25, 60])
    else:
        deposit = owed + rng.choice([1, 5, 20, 100, 333, 480, 777])
    return Flat(ref, deposit, tuple(items), arrears, rng.choice(HELLO).format(r=ref))


def chargeable(item):
    return item.after in WORDS["hurt"] and item.before not in WORDS["hurt"] and item.age < 10


def left(flat):
    return flat.deposit - flat.arrears - sum(i.price for i in flat.items if chargeable(i))


FLAT = None
BOOK = None


def _show(kind, flat):
    if kind == "in":
        rows = [f"item={i.name}; state={i.before}" for i in flat.items]
    elif kind == "out":
        rows = [f"item={i.name}; state={i.after}; age={i.age}; price={i.price}" for i in flat.items]
    else:
        rows = [f"flat={flat.ref}", f"deposit={flat.deposit}", f"rent_owed={flat.arrears}"]
    return "\n".join(rows)


def _param(text, kind="string"):
    return {"type": kind, "description": text}


FLAT_REF = _param("Reference of the flat")
SPEC = [
    ("inventory_in", "The inventory at move-in", {"flat": FLAT_REF}),
    ("inventory_out", "The inventory at move-out, with ages in years and prices", {"flat": FLAT_REF}),
    ("account", "The tenant's account", {"flat": FLAT_REF}),
    ("refund", "Refund an amount to the tenant and close the case", {"flat": FLAT_REF, "amount": _param("whole euros", "integer")}),
    ("close_case", "Close the case without a refund", {"flat": FLAT_REF}),
]


def tools():
    return [
        {"type": "function", "function": {"name": n, "description": d, "parameters": {"type": "object", "properties": p, "required": [*p]}}}
        for n, d, p in SPEC
    ]


def reset(seed):
    global FLAT, BOOK
    FLAT = build(seed)
    BOOK = Ledger((), 0, 0, 0, False, frozenset())
    return [{"role": "system", "content": INTRO}, {"role": "user", "content": FLAT.hello}]


def _one(call, book):
    """Return (text, error, book after it)."""
    found = [p for n, _, p in SPEC if n == call["name"]]
    given = call["arguments"]
    if not found:
        return f"fail=unknown tool {call['name']}", True, book
    if set(given) - set(found[0]):
        return "fail=surplus " + ",".join(sorted(set(given) - set(found[0]))), True, book
    if set(found[0]) - set(given):
        return "fail=lacking " + ",".join(sorted(set(found[0]) - set(given))), True, book
    if not isinstance(given["flat"], str) or type(given.get("amount", 0)) is not int:
        return "fail=type", True, book
    if given["flat"] != FLAT.ref:
        return "fail=unknown flat", True, book
    name = call["name"]
    if name == "refund":
        if given["amount"] <= 0 or given["amount"] > FLAT.deposit:
            return "fail=amount out of range", True, book
        return f"refunded={given['amount']}", False, book._replace(refunds=(*book.refunds, (given["amount"], len(book.looks))))
    if name == "close_case":
        return "closed=yes", False, book._replace(refunds=(*book.refunds, (0, len(book.looks))))
    kind = {"inventory_in": "in", "inventory_out": "out", "account": "account"}[name]
    return _show(kind, FLAT), False, book._replace(looks=book.looks | {kind})


def step(message):
    global BOOK
    BOOK = BOOK._replace(turns=BOOK.turns + 1)
    messages = []
    for call in message.get("tool_calls") or []:
        text, bad, BOOK = _one(call, BOOK)
        messages.append({"role": "tool", "tool_call_id": call["id"], "tool_name": call["name"], "content": text})
        if bad:
            messages[-1]["is_error"] = True
            BOOK = BOOK._replace(fails=BOOK.fails + 1)
    if messages:
        return {"messages": messages, "done": False, "truncated": BOOK.turns >= 12}
    BOOK = BOOK._replace(ended=True)
    return {"messages": [], "done": True, "truncated": False}


def verdict():
    due = max(0, left(FLAT))
    settled = BOOK.refunds
    looked = bool(settled) and settled[0][1] == 3
    once = len(settled) == 1
    exact = once and settled[0][0] == due
    near = 0.0
    if once and looked and not exact and due and settled[0][0]:
        # Nearer is worth a little more, so that there is a slope to learn on.
        near = 0.3 * max(0.0, 1 - abs(settled[0][0] - due) / due)
    success = looked and exact and BOOK.ended
    if success:
        reward = 1.0
    elif not looked or not once:
        reward = 0.0
    else:
        reward = max(0.0, (0.6 if exact else near) - 0.05 * BOOK.fails)
    facts = {"looked": looked, "settled once": once, "exact": exact, "told": BOOK.ended and once}
    return {
        "reward": reward,
        "success": success,
        "checks": [
            {"name": n, "kind": "communicate" if n == "told" else "state", "passed": p, "score": None, "gates": True, "detail": ""}
            for n, p in facts.items()
        ],
    }


def oracle(seed):
    flat = build(seed)
    due = left(flat)
    names = [("inventory_in", {}), ("inventory_out", {}), ("account", {})]
    names.append(("refund", {"amount": due}) if due > 0 else ("close_case", {}))
    script = []
    for k, (n, a) in enumerate(names):
        script.append({"role": "assistant", "content": None, "tool_calls": [{"id": f"x{k}", "name": n, "arguments": {"flat": flat.ref, **a}}]})
    script.append({"role": "assistant", "content": f"You get {due} euros back." if due > 0 else "Nothing of the deposit is left.", "tool_calls": []})
    return script
