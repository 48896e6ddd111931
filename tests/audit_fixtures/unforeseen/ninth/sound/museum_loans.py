"""A museum lends objects; the conservator's report is prose in several wordings. Dataclasses, and a tree of small checks."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

GUIDE = (
    "Registrar's guide to loan requests. Read the loan request and the conservator's report on the object first. Then decide "
    "once. An object whose surface is not sound (flaking, loose, powdering, lifting) does not travel: decline_loan. Works on "
    "paper and textiles may be shown for at most ninety days: where the loan asks for longer, decline_loan as well. Every "
    "other object may go: approve_loan, with courier set to true if the report says that it was mended or glued at any time, "
    "and to false otherwise. Then inform the enquirer in a sentence."
)

SOUND = (
    "The surface is stable throughout.",
    "No loose areas were found under magnification.",
    "The surface is in good order, with light soiling.",
    "Nothing lifts and nothing flakes.",
)
LOOSE = (
    "There is flaking along the lower edge.",
    "The surface is powdering in two places.",
    "Some of the decoration is lifting.",
    "A loose area was seen near the centre.",
)
MENDED = (
    "An old break at the corner was glued, probably before 1950.",
    "It was mended in 1988 and the join holds.",
    "Two fragments have been glued back.",
    "A tear was mended from behind.",
)
WHOLE = (
    "It has never been treated.",
    "There is no trace of any repair.",
    "No earlier treatment is on record.",
    "It came to us untouched.",
)
THINGS = (
    ("drawing", "paper"), ("etching", "paper"), ("map", "paper"), ("tapestry", "textile"), ("banner", "textile"),
    ("bowl", "ceramic"), ("vase", "ceramic"), ("helmet", "metal"), ("clock", "metal"), ("chest", "wood"), ("mask", "wood"),
)
CITIES = ("Lyon", "Graz", "Bilbao", "Leiden", "Turin", "Bergen", "Brno", "Malmo", "Cork")


@dataclass
class Loan:
    number: str
    city: str
    thing: str
    made_of: str
    days: int
    sound: bool
    mended: bool
    report: str
    opening: str

    @classmethod
    def of(cls, seed: int) -> Loan:
        rng = random.Random(f"loan-{seed}")
        thing, made_of = rng.choice(THINGS)
        light = made_of in ("paper", "textile")
        fate = rng.choice(["no", "yes", "yes"])
        days = rng.randrange(30, 200) if not light else rng.choice([rng.randrange(30, 90), 90])
        sound, mended = True, rng.random() < 0.5
        if fate == "no":
            if light and rng.random() < 0.6:
                days = rng.choice([91, rng.randrange(92, 200)])
                sound = rng.random() < 0.8
            else:
                sound = False
        number = f"L{rng.randrange(1000, 9999)}/{rng.randrange(10, 99)}"
        city = rng.choice(CITIES)
        lines = [rng.choice(SOUND if sound else LOOSE), rng.choice(MENDED if mended else WHOLE)]
        rng.shuffle(lines)
        size = f"It measures {rng.randrange(12, 140)} by {rng.randrange(10, 90)} cm."
        return cls(
            number, city, thing, made_of, days, sound, mended, " ".join([size, *lines]),
            rng.choice(
                [
                    "The museum in {c} asks after loan {n}. Can they have it?",
                    "Loan {n}, please. {c} is pressing for an answer.",
                    "Could you decide on {n}?",
                    "{c} wants to print its catalogue and needs to know about {n}.",
                ]
            ).format(c=city, n=number),
        )

    def answer(self) -> tuple[str, bool | None]:
        if not self.sound or (self.made_of in ("paper", "textile") and self.days > 90):
            return ("decline_loan", None)
        return ("approve_loan", self.mended)


@dataclass
class Sitting:
    loan: Loan
    read: list[str] = field(default_factory=list)
    decided: list[tuple[str, bool | None, int]] = field(default_factory=list)
    misses: int = 0
    count: int = 0
    informed: bool = False


sitting: Sitting | None = None
LOAN = {"type": "string", "description": "The loan's number."}
SCHEMAS = {
    "read_request": {"loan": LOAN},
    "read_report": {"loan": LOAN},
    "approve_loan": {"loan": LOAN, "courier": {"type": "boolean", "description": "Whether a courier travels along."}},
    "decline_loan": {"loan": LOAN},
}
TEXTS = {
    "read_request": "Read the request for a loan.",
    "read_report": "Read the conservator's report on the object of a loan.",
    "approve_loan": "Approve a loan.",
    "decline_loan": "Decline a loan.",
}


def tools() -> list[dict]:
    return [
        {
            "type": "function",
            "function": {
                "name": name,
                "description": TEXTS[name],
                "parameters": {"type": "object", "properties": fields, "required": list(fields)},
            },
        }
        for name, fields in SCHEMAS.items()
    ]


def reset(seed: int) -> list[dict]:
    global sitting
    sitting = Sitting(Loan.of(seed))
    return [{"role": "system", "content": GUIDE}, {"role": "user", "content": sitting.loan.opening}]


def perform(name: str, given: dict) -> tuple[str, bool]:
    """Return what is answered, and whether that is an error."""
    fields = SCHEMAS.get(name)
    if fields is None:
        return f"There is no tool called {name}.", True
    for key in fields:
        if key not in given:
            return f"{name} needs {key}.", True
    for key, value in given.items():
        if key not in fields:
            return f"{name} does not know {key}.", True
        if not isinstance(value, {"string": str, "boolean": bool}[fields[key]["type"]]):
            return f"{key} is not a {fields[key]['type']}.", True
    loan = sitting.loan
    if given["loan"] != loan.number:
        return "No loan has this number.", True
    if name == "read_request":
        sitting.read.append(name)
        return f"{loan.city} asks for our {loan.thing} ({loan.made_of}) for {loan.days} days.", False
    if name == "read_report":
        sitting.read.append(name)
        return loan.report, False
    sitting.decided.append((name, given.get("courier"), len(set(sitting.read))))
    return ("The loan is approved." if name == "approve_loan" else "The loan is declined."), False


def step(message: dict) -> dict:
    sitting.count += 1
    answers = []
    for call in message.get("tool_calls") or []:
        content, wrong = perform(call["name"], call["arguments"])
        answers.append({"role": "tool", "tool_call_id": call["id"], "tool_name": call["name"], "content": content})
        if wrong:
            answers[-1]["is_error"] = True
            sitting.misses += 1
    if not answers:
        sitting.informed = True
    return {"messages": answers, "done": not answers, "truncated": bool(answers) and sitting.count > 11}


def verdict() -> dict:
    loan, decided = sitting.loan, sitting.decided
    name, courier = loan.answer()
    rows: list[tuple[str, str, bool, float]] = [
        ("both were read before it was decided", "action", bool(decided) and decided[0][2] == 2, 0.2),
        ("it was decided once", "state", len(decided) == 1, 0.1),
        ("approved or declined rightly", "state", len(decided) == 1 and decided[0][0] == name, 0.3),
        ("with a courier where one is due", "state", len(decided) == 1 and decided[0][:2] == (name, courier), 0.2),
        ("the enquirer was informed", "communicate", bool(decided) and sitting.informed, 0.2),
    ]
    success = all(passed for _, _, passed, _ in rows)
    total = 0.0
    for _, _, passed, weight in rows:
        # A later demand is worth nothing while an earlier one fails.
        if not passed:
            break
        total += weight
    return {
        "reward": 1.0 if success else max(0.0, round(total - 0.1 * sitting.misses, 2)),
        "success": success,
        "checks": [
            {"name": what, "kind": kind, "passed": passed, "score": weight, "gates": True, "detail": ""}
            for what, kind, passed, weight in rows
        ],
    }


def oracle(seed: int) -> list[dict]:
    loan = Loan.of(seed)
    name, courier = loan.answer()

    def say(text: str | None, *calls: tuple[str, dict]) -> dict:
        return {
            "role": "assistant",
            "content": text,
            "tool_calls": [{"id": f"call_{n}", "name": n, "arguments": {"loan": loan.number, **a}} for n, a in calls],
        }

    return [
        say("Let me look at both papers.", ("read_request", {}), ("read_report", {})),
        say(None, (name, {} if courier is None else {"courier": courier})),
        say("The loan is approved." if courier is not None else "I am sorry, the object cannot travel."),
    ]
