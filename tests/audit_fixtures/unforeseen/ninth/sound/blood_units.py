"""A blood bank: a ward asks for red cells, the fridge is listed in XML, and the unit must suit the patient."""

import random

POLICY = """You issue red cell units at a hospital blood bank.
1. Read the patient's group (get_patient) and the fridge (list_units) before you issue anything.
2. A patient of group O may get O only; A may get A or O; B may get B or O; AB may get any of the four.
3. A patient who is RhD negative may get RhD negative units only. A positive patient may get either.
4. Never issue a unit whose expiry lies before today or whose status is not "free".
5. Of the units that suit, issue the one that expires first. Issue one unit only.
6. If no unit suits, order one from the regional centre (order_regional) with the patient's own group.
When done, say so and end."""

SUITS = {"O": "O", "A": "AO", "B": "BO", "AB": ["O", "A", "B", "AB"]}


class Bank:
    """One request to the blood bank."""

    def __init__(self, seed):
        r = random.Random(seed * 7919 + 11)
        self.today = 100 + r.randrange(200)
        self.mrn = f"P{r.randrange(10**6):06d}"
        self.ward = r.choice(["Ward 3", "Theatre 2", "the delivery room", "A&E", "intensive care", "day surgery"])
        self.abo = r.choice(["O", "A", "B", "AB"])
        self.rh = r.choice(["pos", "neg"])
        self.born = r.randrange(1935, 2015)
        scarce = r.random() < 0.45
        self.units = []
        while len(self.units) < r.choice([4, 5, 6]):
            unit = {
                "no": f"G{r.randrange(10**7):07d}",
                "abo": r.choice(["O", "A", "B", "AB"]),
                "rh": r.choice(["pos", "neg"]),
                "expires": self.today + r.randrange(-6, 30),
                "status": r.choice(["free", "free", "free", "reserved", "quarantine"]),
            }
            if scarce and self.fits(unit):
                # What would suit is spoilt in one way or another.
                how = r.randrange(3)
                if how == 0:
                    unit["expires"] = self.today - 1 - r.randrange(6)
                elif how == 1:
                    unit["status"] = r.choice(["reserved", "quarantine"])
                elif self.rh == "neg":
                    unit["rh"] = "pos"
                else:
                    unit["status"] = "reserved"
            if unit["expires"] in [u["expires"] for u in self.units]:
                continue
            self.units.append(unit)
        if not scarce and not any(self.fits(u) for u in self.units):
            unit = r.choice(self.units)
            unit.update(abo=self.abo, rh=self.rh, status="free", expires=self.today + 40)
        self.asked = r.choice(
            [
                "{w} here, we need a unit of red cells for {p}.",
                "Please issue one red cell unit to patient {p}, {w}.",
                "Can you send blood up for {p}? This is {w}.",
                "One unit for {p} please ({w}).",
            ]
        ).format(w=self.ward, p=self.mrn)
        self.seen = set()
        self.acts = []
        self.faults = 0
        self.turns = 0
        self.closed = False

    def fits(self, unit):
        return (
            unit["abo"] in SUITS[self.abo]
            and (self.rh == "pos" or unit["rh"] == "neg")
            and unit["status"] == "free"
            and unit["expires"] >= self.today
        )

    def best(self):
        good = sorted((u for u in self.units if self.fits(u)), key=lambda u: u["expires"])
        return good[0]["no"] if good else None

    def wanted(self):
        best = self.best()
        if best:
            return ("issue_unit", {"patient": self.mrn, "unit": best})
        return ("order_regional", {"patient": self.mrn, "group": self.abo + " " + self.rh})

    # tools

    def get_patient(self, patient):
        if patient != self.mrn:
            raise LookupError(f"<error>no patient {patient}</error>")
        self.seen.add("patient")
        return f'<patient mrn="{self.mrn}"><born>{self.born}</born><group abo="{self.abo}" rhd="{self.rh}"/></patient>'

    def list_units(self):
        self.seen.add("units")
        rows = "".join(
            f'<unit no="{u["no"]}"><abo>{u["abo"]}</abo><rhd>{u["rh"]}</rhd>'
            f'<expires day="{u["expires"]}"/><status>{u["status"]}</status></unit>'
            for u in self.units
        )
        return f'<fridge today="{self.today}">{rows}</fridge>'

    def issue_unit(self, patient, unit):
        if patient != self.mrn or unit not in [u["no"] for u in self.units]:
            raise LookupError("<error>unknown patient or unit</error>")
        self.acts.append(("issue_unit", {"patient": patient, "unit": unit}, len(self.seen)))
        return f'<issued unit="{unit}"/>'

    def order_regional(self, patient, group):
        if patient != self.mrn:
            raise LookupError(f"<error>no patient {patient}</error>")
        self.acts.append(("order_regional", {"patient": patient, "group": group}, len(self.seen)))
        return "<ordered/>"


TOOLS = {
    "get_patient": ("Look up a patient.", {"patient": "the patient's number"}),
    "list_units": ("List the units in the fridge, and today's day number.", {}),
    "issue_unit": ("Issue a unit to a patient.", {"patient": "the patient's number", "unit": "the unit's number"}),
    "order_regional": (
        "Order a unit for a patient from the regional centre.",
        {"patient": "the patient's number", "group": "ABO and RhD, such as 'A pos'"},
    ),
}
BANK = None


def tools():
    out = []
    for name, (text, params) in TOOLS.items():
        out.append(
            {
                "type": "function",
                "function": {
                    "name": name,
                    "description": text,
                    "parameters": {
                        "type": "object",
                        "properties": {k: {"type": "string", "description": v} for k, v in params.items()},
                        "required": list(params),
                    },
                },
            }
        )
    return out


def reset(seed):
    global BANK
    BANK = Bank(seed)
    return [{"role": "system", "content": POLICY}, {"role": "user", "content": BANK.asked}]


METHODS = {
    "get_patient": lambda **a: BANK.get_patient(**a),
    "list_units": lambda **a: BANK.list_units(**a),
    "issue_unit": lambda **a: BANK.issue_unit(**a),
    "order_regional": lambda **a: BANK.order_regional(**a),
}


def answer(call):
    name, given = call["name"], call["arguments"]
    try:
        if name not in TOOLS:
            raise LookupError(f"<error>no tool {name}</error>")
        want = TOOLS[name][1]
        if set(given) != set(want) or not all(isinstance(v, str) for v in given.values()):
            raise LookupError(f"<error>{name} takes the texts {', '.join(want) or 'none'}</error>")
        return {"content": METHODS[name](**given)}
    except LookupError as wrong:
        BANK.faults += 1
        return {"content": wrong.args[0], "is_error": True}


def step(message):
    BANK.turns += 1
    calls = message.get("tool_calls") or []
    if not calls:
        BANK.closed = True
        return {"messages": [], "done": True, "truncated": False}
    out = [{"role": "tool", "tool_call_id": c["id"], "tool_name": c["name"], **answer(c)} for c in calls]
    return {"messages": out, "done": False, "truncated": BANK.turns >= 14}


def verdict():
    deeds = [(n, a) for n, a, _ in BANK.acts]
    looked = bool(BANK.acts) and BANK.acts[0][2] == 2
    right = deeds == [BANK.wanted()]
    rows = [
        {"name": "looked first", "kind": "action", "passed": looked, "score": None, "gates": True, "detail": ""},
        {"name": "one right deed", "kind": "state", "passed": right, "score": None, "gates": True, "detail": ""},
        {"name": "ended", "kind": "protocol", "passed": BANK.closed, "score": None, "gates": True, "detail": ""},
    ]
    success = looked and right and BANK.closed
    if success:
        reward = 1.0
    elif not deeds:
        reward = 0.1 * (len(BANK.seen) == 2)
    else:
        reward = 0.5 if looked and right else 0.2 if looked and len(deeds) == 1 else 0.0
    return {"reward": max(0.0, reward - 0.05 * BANK.faults) if not success else 1.0, "success": success, "checks": rows}


def oracle(seed):
    bank = Bank(seed)
    name, args = bank.wanted()
    first = [
        {"id": "p", "name": "get_patient", "arguments": {"patient": bank.mrn}},
        {"id": "f", "name": "list_units", "arguments": {}},
    ]
    return [
        {"role": "assistant", "content": None, "tool_calls": first},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "d", "name": name, "arguments": args}]},
        {"role": "assistant", "content": "Done.", "tool_calls": []},
    ]
