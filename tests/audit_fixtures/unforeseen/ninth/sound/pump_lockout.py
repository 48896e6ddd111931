"""A works permit for a pump: isolate, prove that it is dead, and only then open it. A state machine with lines of text."""

import random

BOOK = (
    "You are the permit officer of a water works. For every job on a pump:\n"
    "First close its inlet valve, then read its gauge. A gauge of 0.2 bar or less proves that the pump is dead: open the "
    "pump for the fitter (open_pump).\n"
    "If the gauge shows more than 0.2 bar, the inlet valve passes: close the outlet valve as well and read the gauge again. "
    "If it still shows more than 0.2 bar, do not open the pump: call the shift engineer (call_engineer).\n"
    "Never open a pump that you have not proved dead since the last valve was closed. Close no valve that need not be closed. "
    "Finish with a message to the fitter."
)

# state -> event -> next state; what is not listed leads to "spoilt".
MOVES = {
    "live": {"close_inlet": "inlet"},
    "inlet": {"gauge_dead": "proved", "gauge_up": "passing"},
    "proved": {"gauge_dead": "proved", "open_pump": "opened"},
    "passing": {"gauge_up": "passing", "close_outlet": "both"},
    "both": {"gauge_dead": "proved", "gauge_up": "stuck"},
    "stuck": {"gauge_up": "stuck", "call_engineer": "called"},
    "opened": {"end": "finished", "gauge_dead": "opened"},
    "called": {"end": "finished", "gauge_up": "called"},
}
FREE = {"live": ("gauge_up", "read_card"), "both": (), "inlet": ()}
WORTH = {"live": 0.0, "inlet": 0.1, "passing": 0.15, "both": 0.3, "proved": 0.3, "stuck": 0.4, "opened": 0.7, "called": 0.7, "finished": 1.0, "spoilt": 0.0}
NAMES = {
    "read_card": "Read a pump's card.",
    "close_inlet": "Close the inlet valve of a pump.",
    "close_outlet": "Close the outlet valve of a pump.",
    "read_gauge": "Read the pressure gauge of a pump.",
    "open_pump": "Release a pump to the fitter to be opened.",
    "call_engineer": "Call the shift engineer to a pump.",
}
ASK = (
    "I have to change the seal of {p}. Can I open it?",
    "Permit for {p}, please. The bearing is noisy.",
    "{p} needs a new impeller, I am standing beside it.",
    "Fitter {f} here, ready for {p}.",
    "{f} speaking: please make {p} ready for me.",
)


def world(seed):
    rnd = random.Random(seed ^ 0x5EED)
    sort = rnd.choice(["tight", "tight", "inlet", "stuck"])
    press = [round(rnd.uniform(1.5, 6.0), 1)]
    dead = lambda: round(rnd.choice([0.0, 0.1, 0.2]), 1)  # noqa: E731
    up = lambda: round(rnd.choice([0.3, 0.4, rnd.uniform(0.5, 2.5)]), 1)  # noqa: E731
    press.append(dead() if sort == "tight" else up())
    press.append(dead() if sort in ("tight", "inlet") else up())
    return {
        "pump": f"{rnd.choice('PQRS')}-{rnd.randrange(100, 999)}{rnd.choice(['', 'A', 'B'])}",
        "press": press,
        "maker": rnd.choice(["KSB", "Sulzer", "Grundfos", "Ebara"]),
        "year": rnd.randrange(1978, 2022),
        "ask": rnd.choice(ASK),
        "who": rnd.choice(["Mensah", "Okafor", "Lindqvist", "Baran", "Sato", "Moreau", "Costa"]),
    }


W, STATE, CLOSED, TURN, WRONG, OVER = {}, "live", [], 0, 0, False


def tools():
    schema = {"type": "object", "properties": {"pump": {"type": "string"}}, "required": ["pump"]}
    return [
        {"type": "function", "function": {"name": k, "description": v, "parameters": schema}} for k, v in NAMES.items()
    ]


def reset(seed):
    global W, STATE, CLOSED, TURN, WRONG, OVER
    W, STATE, CLOSED, TURN, WRONG, OVER = world(seed), "live", [], 0, 0, False
    return [
        {"role": "system", "content": BOOK},
        {"role": "user", "content": W["ask"].format(p=W["pump"], f=W["who"])},
    ]


def pressure():
    if "inlet" not in CLOSED:
        return W["press"][0]
    return W["press"][2 if "outlet" in CLOSED else 1]


def move(event):
    global STATE
    if event in FREE.get(STATE, ()) or (event == "read_card" and STATE != "spoilt"):
        return
    STATE = MOVES.get(STATE, {}).get(event, "spoilt")


def handle(name, args):
    """Return the line of text, or raise KeyError for what cannot be done."""
    if name not in NAMES:
        raise KeyError("there is no such order")
    if list(args) != ["pump"] or not isinstance(args["pump"], str):
        raise KeyError("say which pump, nothing else")
    if args["pump"] != W["pump"]:
        raise KeyError("no such pump here")
    if name == "read_card":
        move(name)
        return f"pump {W['pump']}\nmaker {W['maker']}\nbuilt {W['year']}"
    if name == "read_gauge":
        now = pressure()
        move("gauge_dead" if now <= 0.2 else "gauge_up")
        return f"gauge of {W['pump']}\nnow {now:.1f} bar"
    if name in ("close_inlet", "close_outlet"):
        which = name.split("_")[1]
        if which in CLOSED:
            raise KeyError("that valve is closed already")
        move(name)
        CLOSED.append(which)
        return f"{which} valve of {W['pump']}\nclosed"
    move(name)
    return {"open_pump": "pump released", "call_engineer": "engineer on the way"}[name]


def step(message):
    global TURN, WRONG, OVER
    TURN += 1
    calls = message.get("tool_calls") or []
    if not calls:
        if STATE in ("opened", "called"):
            move("end")
        OVER = True
        return {"messages": [], "done": True, "truncated": False}
    lines = []
    for call in calls:
        line = {"role": "tool", "tool_call_id": call["id"], "tool_name": call["name"]}
        try:
            line["content"] = handle(call["name"], call["arguments"])
        except KeyError as no:
            WRONG += 1
            line["content"] = "refused: " + no.args[0]
            line["is_error"] = True
        lines.append(line)
    return {"messages": lines, "done": False, "truncated": TURN >= 15}


def verdict():
    fine = STATE == "finished"
    worth = 1.0 if fine else max(0.0, WORTH[STATE] - 0.1 * WRONG)
    return {
        "reward": float(worth),
        "success": fine,
        "checks": [
            {"name": "state " + STATE, "kind": "state", "passed": fine, "score": WORTH[STATE], "gates": True, "detail": f"{WRONG} refused"}
        ],
    }


def oracle(seed):
    w = world(seed)
    orders = ["close_inlet", "read_gauge"]
    last = w["press"][1]
    if last > 0.2:
        orders += ["close_outlet", "read_gauge"]
        last = w["press"][2]
    orders.append("open_pump" if last <= 0.2 else "call_engineer")
    said = "It is dead, you may open it." if last <= 0.2 else "Hands off, the engineer is coming."
    turns = [
        {"role": "assistant", "content": "", "tool_calls": [{"id": f"o{n}", "name": o, "arguments": {"pump": w["pump"]}}]}
        for n, o in enumerate(orders)
    ]
    return [*turns, {"role": "assistant", "content": said, "tool_calls": []}]
