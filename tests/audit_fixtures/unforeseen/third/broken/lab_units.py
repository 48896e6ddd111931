"""Laboratory: convert a value to the unit of its limit before it is judged."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}

POLICY = """You report results of a laboratory to practices. A result is given in mg/dl, the limit for it in mmol/l. Convert the result before you
compare: divide by 18 for glucose, by 38.7 for cholesterol, by 88.6 for triglycerides. If the converted value is above the limit, raise an alarm with raise_alarm;
otherwise file the result with file_result. Do one of both, and tell the practice the value in mmol/l."""

TOOLS = [
    _t("get_result", "Show the result of a sample.", ["sample"], sample="string"),
    _t("get_limit", "Show the limit of a substance.", ["substance"], substance="string"),
    _t("raise_alarm", "Raise an alarm for a sample.", ["sample"], sample="string"),
    _t("file_result", "File the result of a sample.", ["sample"], sample="string"),
]

FACTORS = {"glucose": 18.0, "cholesterol": 38.7, "triglycerides": 88.6}


def scene(seed):
    rng = random.Random(f"lab|{seed}")
    substance = rng.choice(sorted(FACTORS))
    limit = round(rng.uniform(2.0, 8.0), 1)
    high = rng.random() < 0.5
    value = limit * (rng.uniform(1.06, 1.6) if high else rng.uniform(0.5, 0.94))
    raw = round(value * FACTORS[substance])
    sample = f"L{rng.randint(100000, 999999)}"
    text = rng.choice(["Is sample {s} in order?", "We wait for {s}. Please report it.", "Sample {s}, what came out?"])
    return {
        "request": text.format(s=sample),
        "result": {"sample": sample, "substance": substance, "mg_dl": raw, "mmol_l": round(raw / FACTORS[substance], 2), "drawn": f"{rng.randint(6, 11):02d}:{rng.randint(0, 59):02d}"},
        "limit": limit,
        "high": raw / FACTORS[substance] > limit,
        "seen": set(),
    }


def act(name, given):
    if name == "get_limit":
        if given["substance"] != S["result"]["substance"]:
            return json.dumps({"error": "no limit for it here"}), True
        S["seen"].add("limit")
        return json.dumps({"substance": given["substance"], "limit_mmol_l": S["limit"]}), False
    if given["sample"] != S["result"]["sample"]:
        return json.dumps({"error": "no such sample"}), True
    if name == "get_result":
        S["seen"].add("result")
        return json.dumps(S["result"]), False
    S["log"].append(name)
    return json.dumps({"sample": given["sample"], "status": "done"}), False


def user(text):
    return ""


def judge():
    looked = S["seen"] == {"limit", "result"}
    right = looked and S["log"] == ["raise_alarm" if S["high"] else "file_result"]
    told = bool(S["said"]) and str(S["result"]["mmol_l"]) in S["said"][-1]
    return [("looked", "action", looked, 1), ("report", "state", right, 2), ("told", "communicate", right and told, 1)]


def solve(s):
    key = {"sample": s["result"]["sample"]}
    looks = [("get_result", key), ("get_limit", {"substance": s["result"]["substance"]})]
    name, word = ("raise_alarm", "above the limit; an alarm is raised") if s["high"] else ("file_result", "within the limit and filed")
    return [*looks, (name, key), f"The {s['result']['substance']} of {key['sample']} is {s['result']['mmol_l']} mmol/l, {word}."]


S = {}
