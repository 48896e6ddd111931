"""Home nursing: the next visit falls a number of days later, and not on weekends or holidays."""

from __future__ import annotations

import datetime as dt
import json
import random
from typing import Any

TEXT = """You plan home visits.
The next visit is as many days after the last one as the care plan says. If that day is a Saturday, a Sunday or a public holiday, take the first working day after it.
If the care plan has ended before that day, plan nothing and close the case.
Read the care plan; the holidays are in the calendar of the region."""
REGIONS = ["north", "south", "coast", "lakes"]
PHRASES = ["When is the next visit for {p}? Please plan it.", "plan the next visit of {p}", "{p} was seen, what comes next? Enter it please.", "Next appointment for patient {p}, please."]


class Refusal(Exception):
    pass


def puzzle(seed: int) -> dict[str, Any]:
    rng = random.Random(seed)
    last = dt.date(2025, rng.randint(1, 10), rng.randint(1, 28))
    every = rng.choice([3, 5, 7, 10, 14, 21])
    region = rng.choice(REGIONS)
    target = last + dt.timedelta(every)
    holidays = {r: sorted({last + dt.timedelta(rng.randint(-20, 40)) for _ in range(5)}) for r in REGIONS}
    if rng.random() < 0.5:
        holidays[region] = sorted({*holidays[region], target})
    day = target
    while day.weekday() >= 5 or day in holidays[region]:
        day += dt.timedelta(1)
    ended = rng.random() < 0.45
    end = last + dt.timedelta(rng.randint(1, every - 1)) if ended else day + dt.timedelta(rng.randint(5, 90))
    patient = f"P{rng.randint(1000, 99999)}"
    return {"patient": patient, "plan": {"patient": patient, "last_visit": last.isoformat(), "every_days": every, "region": region, "plan_ends": end.isoformat()},
            "holidays": {r: [d.isoformat() for d in ds] for r, ds in holidays.items()}, "deed": ("close_case", {"patient": patient}) if ended else ("plan_visit", {"patient": patient, "date": day.isoformat()}),
            "words": rng.choice(PHRASES).format(p=patient)}


STATE: dict[str, Any] = {}
PARAMETERS = {"get_care_plan": ["patient"], "get_holidays": ["region"], "plan_visit": ["patient", "date"], "close_case": ["patient"]}
ABOUT = {"get_care_plan": "Get a patient's care plan", "get_holidays": "Get the public holidays of a region", "plan_visit": "Plan a visit on a day (YYYY-MM-DD)", "close_case": "Close a patient's case"}


def tools() -> list[dict[str, Any]]:
    return [{"type": "function", "function": {"name": n, "description": ABOUT[n], "parameters": {"type": "object", "properties": {p: {"type": "string"} for p in ps}, "required": ps}}} for n, ps in PARAMETERS.items()]


def reset(seed: int) -> list[dict[str, Any]]:
    STATE.clear()
    STATE.update(puzzle(seed), log=[], wrong=0, said=False, turn=0, plan_read=False)
    return [{"role": "system", "content": TEXT}, {"role": "user", "content": STATE["words"]}]


def execute(name: str, args: dict[str, Any]) -> Any:
    if name not in PARAMETERS:
        raise Refusal("unknown tool")
    if sorted(args) != sorted(PARAMETERS[name]) or not all(isinstance(v, str) for v in args.values()):
        raise Refusal("bad arguments")
    if "patient" in args and args["patient"] != STATE["patient"]:
        raise Refusal("unknown patient")
    if name == "get_care_plan":
        STATE["plan_read"] = True
        return STATE["plan"]
    if name == "get_holidays":
        if args["region"] not in STATE["holidays"]:
            raise Refusal("unknown region")
        return STATE["holidays"][args["region"]]
    if name == "plan_visit":
        try:
            dt.date.fromisoformat(args["date"])
        except ValueError:
            raise Refusal("no such day") from None
    STATE["log"].append((name, args))
    return {"status": "done"}


def step(message: dict[str, Any]) -> dict[str, Any]:
    STATE["turn"] += 1
    messages = []
    for call in message.get("tool_calls") or []:
        try:
            body, bad = execute(call["name"], call["arguments"]), False
        except Refusal as error:
            body, bad = {"error": str(error)}, True
            STATE["wrong"] += 1
        messages.append({"role": "tool", "tool_call_id": call["id"], "tool_name": call["name"], "content": json.dumps(body)} | ({"is_error": True} if bad else {}))
    if not messages:
        STATE["said"] = bool((message.get("content") or "").strip())
    return {"messages": messages, "done": not messages, "truncated": bool(messages) and STATE["turn"] > 11}


def verdict() -> dict[str, Any]:
    right = STATE["log"] == [STATE["deed"]] and STATE["plan_read"]
    win = right and STATE["said"]
    reward = 1.0 if win else 0.15 * STATE["plan_read"] + 0.5 * right - 0.05 * STATE["wrong"] - 0.15 * (len(STATE["log"]) > 0 and not right)
    return {"reward": float(max(0.0, reward)), "success": win, "checks": [{"name": "visit", "kind": "state", "passed": win, "score": None, "gates": True, "detail": ""}]}


def oracle(seed: int) -> list[dict[str, Any]]:
    p = puzzle(seed)
    todo = [("get_care_plan", {"patient": p["patient"]})]
    if p["deed"][0] == "plan_visit":
        todo.append(("get_holidays", {"region": p["plan"]["region"]}))
    todo.append(p["deed"])
    return [{"role": "assistant", "content": None, "tool_calls": [{"id": f"v{i}", "name": n, "arguments": a}]} for i, (n, a) in enumerate(todo)] + [{"role": "assistant", "content": "All set." if p["deed"][0] == "plan_visit" else "The care plan has ended, the case is closed."}]
