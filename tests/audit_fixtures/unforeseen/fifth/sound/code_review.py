"""Code review: merged unless its tests fail or its author alone has approved."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


POLICY = """You look after changes to a program. Look at the change and at its test run first. Merge it with merge_change unless a test failed or nobody but its author approved it; then send it back with
return_change, and pass the name of the failed test as why, or "review" where the tests are in order."""

TOOLS = [
    _t("get_change", "Show a change with its author and who approved it.", ["change"], change="string"),
    _t("get_tests", "Show the test run of a change.", ["change"], change="string"),
    _t("merge_change", "Merge a change.", ["change"], change="string"),
    _t("return_change", "Send a change back to its author.", ["change", "why"], change="string", why="string"),
]

PEOPLE, TESTS = ["ada", "bert", "cleo", "dirk", "emil"], ["test_parser", "test_cache", "test_login", "test_export"]


def scene(seed):
    rng = random.Random(f"review|{seed}")
    change, author = f"PR-{rng.randint(1000, 9999)}", rng.choice(PEOPLE)
    failed = rng.choice(TESTS) if rng.random() < 0.3 else None
    alone = rng.random() < 0.35
    approved = [author] if alone else sorted({author, rng.choice([one for one in PEOPLE if one != author])})
    text = rng.choice(["Can {c} go in?", "Please see to {c}.", "{c} has been waiting; what about it?"])
    why = failed or ("review" if alone else None)
    return {"request": text.format(c=change), "change": change, "author": author, "approved": approved, "failed": failed, "why": why, "seen": set()}


def act(name, given):
    if given["change"] != S["change"]:
        return json.dumps({"error": "no such change"}), True
    if name in ("get_change", "get_tests"):
        S["seen"].add(name)
        own = {"author": S["author"], "approved_by": S["approved"]} if name == "get_change" else {"tests": {one: "failed" if one == S["failed"] else "passed" for one in TESTS}}
        return json.dumps({"change": S["change"], **own}), False
    S["log"].append((name, given.get("why"), len(S["seen"]) == 2))
    return json.dumps({"change": S["change"], "status": "done"}), False


def judge():
    wanted = ("return_change", S["why"], True) if S["why"] else ("merge_change", None, True)
    right = S["log"] == [wanted]
    return [("looked", "action", len(S["seen"]) == 2, 1), ("settled", "state", right, 2), ("told", "communicate", right and bool(S["said"] and S["said"][-1].strip()), 1)]


def solve(s):
    key = {"change": s["change"]}
    looks = [("get_change", key), ("get_tests", key)]
    if s["why"]:
        return [*looks, ("return_change", {**key, "why": s["why"]}), "It has gone back to its author."]
    return [*looks, ("merge_change", key), "It is merged."]


def user(text):
    return ""


S = {}
