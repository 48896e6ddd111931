"""Databases: a question is answered with a query that one writes oneself; there is nothing to change."""

import json
import random

def _t(name, description, required, /, **properties):
    fields = {key: ({"type": value} if isinstance(value, str) else value) for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


import re

POLICY = """You answer questions about members from a database. There is one table, members (town, year, active). Run queries of the form SELECT COUNT(*) FROM members WHERE town = 'T' AND year > N AND active = 1,
with as many conditions as are asked for. Say the number."""

TOOLS = [_t("query", "Show the result of a query.", ["sql"], sql="string")]

TOWNS = ["Ulm", "Bonn", "Jena", "Kiel"]
_QUERY = re.compile(r"select count\(\*\) from members(?: where (.+?))?;?\s*$", re.IGNORECASE)
_TERM = re.compile(r"(town|year|active)\s*(=|<|>|<=|>=)\s*'?(\w+)'?$", re.IGNORECASE)


def scene(seed):
    rng = random.Random(f"sql|{seed}")
    rows = [(rng.choice(TOWNS), rng.randint(1990, 2025), rng.randint(0, 1)) for _ in range(rng.randint(120, 260))]
    town, year, active = rng.choice(TOWNS), rng.randint(1995, 2015), rng.random() < 0.5
    text = rng.choice(["How many {a}members in {t} joined after {y}?", "{a}members of {t} who came after {y}: how many are there?"])
    count = sum(r[0] == town and r[1] > year and (r[2] or not active) for r in rows)
    sql = f"SELECT COUNT(*) FROM members WHERE town = '{town}' AND year > {year}" + (" AND active = 1" if active else "")
    return {"request": text.format(a="active " if active else "", t=town, y=year), "rows": rows, "count": count, "sql": sql, "asked": 0}


def _holds(row, term):
    found = _TERM.match(term.strip())
    if not found:
        raise ValueError(term)
    held, op, value = row[["town", "year", "active"].index(found[1].lower())], found[2], found[3]
    value = value if isinstance(held, str) else int(value)
    return {"=": held == value, "<": held < value, ">": held > value, "<=": held <= value, ">=": held >= value}[op]


def act(name, given):
    found = _QUERY.match(given["sql"].strip())
    try:
        terms = re.split(r"\s+and\s+", found[1], flags=re.IGNORECASE) if found[1] else []
        count = sum(all(_holds(row, term) for term in terms) for row in S["rows"])
    except (TypeError, ValueError):
        return json.dumps({"error": "syntax error"}), True
    S["asked"] += 1
    return json.dumps({"count": count}), False


def judge():
    said = S["said"][-1] if S["said"] else ""
    return [("asked", "action", S["asked"] > 0, 1), ("told", "communicate", re.findall(r"\d+", said) == [str(S["count"])], 2)]


def solve(s):
    return [("query", {"sql": s["sql"]}), f"There are {s['count']}."]


def user(text):
    return ""


S = {}
