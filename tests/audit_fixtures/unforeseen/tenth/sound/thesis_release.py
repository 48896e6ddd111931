"""A university library opens theses to the public; records have their facts in attributes of XML. Immutable tuples throughout."""

import datetime as dt
import random
from typing import NamedTuple

DESK = (
    "Thesis desk. Today is 2026-09-15. A reader wants to read a thesis. Open it (open_thesis) if its embargo has ended, today included, and "
    "the author has consented. If the embargo still runs, refuse (refuse_request). If the embargo has ended but consent is missing, write to "
    "the author (ask_author). A thesis with a patent pending is refused in any case. Read the record and the rights before; one of the three; "
    "then answer the reader."
)
TODAY = dt.date(2026, 9, 15)


class Thesis(NamedTuple):
    shelf: str
    year: int
    pages: int
    until: dt.date
    consent: str
    patent: str
    line: str

    @property
    def due(self):
        if self.patent == "pending" or self.until > TODAY:
            return "refuse_request"
        return "open_thesis" if self.consent == "given" else "ask_author"


class Memory(NamedTuple):
    thesis: Thesis
    looked: frozenset = frozenset()
    acts: tuple = ()
    errors: int = 0
    turns: int = 0
    closed: bool = False


def drawn(seed):
    g = random.Random(seed)
    g.random()
    shelf = f"TH{g.randrange(10000, 99999)}"
    over = g.random() < 0.72
    until = TODAY - dt.timedelta(g.choice([0, g.randrange(1, 900)])) if over else TODAY + dt.timedelta(g.choice([1, g.randrange(2, 900)]))
    line = g.choice(["May I read {s}?", "I would like to see the thesis {s}.", "{s}, please, for my own work.", "Could {s} be opened for me?"]).format(s=shelf)
    return Thesis(shelf, g.randrange(1999, 2026), g.randrange(60, 420), until, g.choice(["given", "missing"]), g.choice(["none", "none", "none", "granted", "pending"]), line)


MEMORY = None
LOOKS = ("read_record", "read_rights")
ACTS = {"open_thesis": "Open a thesis to the reader.", "refuse_request": "Refuse the reader's request.", "ask_author": "Write to the author for consent."}


def tools():
    texts = {"read_record": "Read the record of a thesis.", "read_rights": "Read the rights of a thesis.", **ACTS}
    p = {"type": "object", "properties": {"thesis": {"type": "string", "description": "its number"}}, "required": ["thesis"]}
    return [{"type": "function", "function": {"name": k, "description": v, "parameters": p}} for k, v in texts.items()]


def reset(seed):
    global MEMORY
    MEMORY = Memory(drawn(seed))
    return [{"role": "system", "content": DESK}, {"role": "user", "content": MEMORY.thesis.line}]


def record(t):
    return f'<record number="{t.shelf}" year="{t.year}"><extent pages="{t.pages}"/><patent state="{t.patent}"/></record>'


def rights(t):
    return f'<rights number="{t.shelf}"><embargo until="{t.until}"/><author consent="{t.consent}"/></rights>'


def one(m, call):
    name, given = call["name"], call["arguments"]
    if name not in LOOKS and name not in ACTS:
        return m._replace(errors=m.errors + 1), "<error>unknown tool</error>", True
    if given != {"thesis": m.thesis.shelf}:
        return m._replace(errors=m.errors + 1), "<error>unknown thesis or wrong arguments</error>", True
    if name in LOOKS:
        return m._replace(looked=m.looked | {name}), record(m.thesis) if name == LOOKS[0] else rights(m.thesis), False
    return m._replace(acts=(*m.acts, (name, len(m.looked)))), "<done/>", False


def step(message):
    global MEMORY
    MEMORY = MEMORY._replace(turns=MEMORY.turns + 1)
    told = []
    for call in message.get("tool_calls") or ():
        MEMORY, text, bad = one(MEMORY, call)
        told.append({"role": "tool", "tool_call_id": call["id"], "tool_name": call["name"], "content": text, **({"is_error": True} if bad else {})})
    if not told:
        MEMORY = MEMORY._replace(closed=True)
    return {"messages": told, "done": MEMORY.closed, "truncated": not MEMORY.closed and MEMORY.turns >= 12}


def verdict():
    m = MEMORY
    steps = [("looked before", bool(m.acts) and m.acts[0][1] == 2), ("acted once", len(m.acts) == 1), ("as is due", [a for a, _ in m.acts] == [m.thesis.due]), ("answered", m.closed)]
    success = all(ok for _, ok in steps)
    so_far = 0
    for _, ok in steps:
        if not ok:
            break
        so_far += 1
    score = 1.0 if success else max(0.0, (0.0, 0.0, 0.2, 0.6)[so_far] - 0.1 * m.errors)
    return {"reward": score, "success": success, "checks": [{"name": n, "kind": "protocol", "passed": ok, "score": None, "gates": True, "detail": ""} for n, ok in steps]}


def oracle(seed):
    t = drawn(seed)
    both = [{"id": f"l{i}", "name": n, "arguments": {"thesis": t.shelf}} for i, n in enumerate(LOOKS)]
    words = {"open_thesis": "It is open to you now.", "refuse_request": "I am sorry, it cannot be opened.", "ask_author": "The author is being asked."}[t.due]
    return [
        {"role": "assistant", "content": None, "tool_calls": both},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "a", "name": t.due, "arguments": {"thesis": t.shelf}}]},
        {"role": "assistant", "content": words, "tool_calls": []},
    ]
