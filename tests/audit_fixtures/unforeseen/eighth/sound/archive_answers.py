"""An archive's reading room: answers from its files, and `not recorded` where they hold none."""

import random

PROMPT = """You answer questions of visitors from the town archive.
Find the file and read it. Answer with the year alone. If the file does not say it, answer exactly: not recorded
Do not guess, and do not take a year from a file on something else."""

WHERE = ["Elmford", "Harrow Mill", "Castleby", "Norwick", "Saint Orrin", "Pennhollow", "Dunmere", "Ashcombe"]
WHAT = ["bridge", "town hall", "lighthouse", "railway station", "granary", "theatre", "water tower"]
ASK = ["In which year was the {w} of {p} finished?", "When did they complete the {w} in {p}?", "What year was {p}'s {w} done?",
       "My grandmother saw the {w} in {p} being finished. Which year was that?", "Completion year of the {w}, {p}?"]
FILLER = [
    "The builder was {n}, who had worked at the harbour before.",
    "Stone came by barge from the quarries of {o}.",
    "In {y} the roof was covered anew.",
    "A fire of {y} left the north side black.",
    "The first keeper was {n}.",
    "The council of {y} quarrelled over its cost.",
]
NAMES = ["A. Quill", "M. Thorne", "J. Osei", "B. Larsson", "the Widow Crane", "P. Marchetti"]
st = {}


def draw(seed):
    g = random.Random(seed)
    place, thing = g.choice(WHERE), g.choice(WHAT)
    finished = g.randint(1790, 1930)
    begun = finished - g.randint(2, 15)
    known = g.random() < 0.5
    other = g.choice([w for w in WHERE if w != place])
    also = g.choice([w for w in WHAT if w != thing])

    def essay(t, p, start, end):
        rows = [f"The foundations of the {t} were laid in {start}."]
        if end:
            rows.append(g.choice(["It was completed in {e}.", "The last stone was set in {e}.", "The work was finished in {e}.", "By {e} it was complete."]).format(e=end))
        rows += [s.format(n=g.choice(NAMES), o=g.choice(WHERE), y=g.randint(max(end or 0, start) + 20, 1985)) for s in g.sample(FILLER, 3)]
        head, tail = rows[:1], rows[1:]
        g.shuffle(tail)
        return f"{t.capitalize()} of {p}\n" + " ".join(head + tail)

    ids = [f"F{n}" for n in g.sample(range(100, 9999), 3)]
    y1, y2 = g.randint(1780, 1930), g.randint(1780, 1930)
    files = {
        ids[0]: (thing, place, essay(thing, place, begun, finished if known else None)),
        ids[1]: (thing, other, essay(thing, other, y1, y1 + g.randint(2, 15))),
        ids[2]: (also, place, essay(also, place, y2, y2 + g.randint(2, 15))),
    }
    order = list(files)
    g.shuffle(order)
    question = g.choice(ASK).format(w=thing, p=place)
    if g.random() < 0.5:
        question = g.choice(["Good morning. ", "Hello! ", "Excuse me: ", "A question, please. "]) + question
    return dict(question=question, files=files, order=order, target=ids[0], answer=str(finished) if known else "not recorded", place=place, thing=thing)


def tools():
    q = {"type": "object", "properties": {"words": {"type": "string"}}, "required": ["words"]}
    f = {"type": "object", "properties": {"file": {"type": "string"}}, "required": ["file"]}
    return [
        {"type": "function", "function": {"name": "search_files", "description": "Search titles; gives numbers and titles of the files found.", "parameters": q}},
        {"type": "function", "function": {"name": "read_file", "description": "Read a file by its number.", "parameters": f}},
    ]


def reset(seed):
    st.clear()
    st.update(draw(seed), read=[], wrong=0, reply=None, count=0)
    return [{"role": "system", "content": PROMPT}, {"role": "user", "content": st["question"]}]


def run(name, arguments):
    need = {"search_files": "words", "read_file": "file"}.get(name)
    if need is None:
        return "unknown tool", True
    if list(arguments) != [need] or not isinstance(arguments[need], str):
        return f"usage: {name}({need})", True
    if name == "search_files":
        words = {w for w in arguments["words"].lower().replace(",", " ").split() if len(w) > 2}
        hits = [f"{i}  {st['files'][i][0].capitalize()} of {st['files'][i][1]}" for i in st["order"]
                if words & set((st["files"][i][0] + " " + st["files"][i][1]).lower().split())]
        return "\n".join(hits) if hits else "no files", False
    if arguments["file"] not in st["files"]:
        return "no file of this number", True
    st["read"].append(arguments["file"])
    return st["files"][arguments["file"]][2], False


def step(message):
    st["count"] += 1
    calls = message.get("tool_calls")
    if not calls:
        st["reply"] = (message.get("content") or "").strip()
        return {"messages": [], "done": True, "truncated": False}
    back = []
    for call in calls:
        content, failed = run(call["name"], call["arguments"])
        st["wrong"] += failed
        back.append({"role": "tool", "tool_call_id": call["id"], "tool_name": call["name"], "content": content, **({"is_error": True} if failed else {})})
    return {"messages": back, "done": False, "truncated": st["count"] == 12}


def verdict():
    found = st["target"] in st["read"]
    given = (st["reply"] or "").lower().strip(" .!*_\"'`\n")
    right = given == st["answer"]
    good = found and right
    reward = 1.0 if good else max(0.0, 0.3 * found - 0.05 * st["wrong"])
    return {"reward": reward, "success": good, "checks": [
        {"name": "file read", "kind": "action", "passed": found, "score": None, "gates": True, "detail": ""},
        {"name": "answer", "kind": "communicate", "passed": right, "score": None, "gates": True, "detail": ""},
    ]}


def oracle(seed):
    d = draw(seed)
    calls = [("search_files", {"words": f"{d['thing']} {d['place']}"}), ("read_file", {"file": d["target"]})]
    return [
        *({"role": "assistant", "content": None, "tool_calls": [{"id": f"t{k}", "name": n, "arguments": a}]} for k, (n, a) in enumerate(calls)),
        {"role": "assistant", "content": d["answer"], "tool_calls": []},
    ]
