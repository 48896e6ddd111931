"""Reports of grants and their deadlines, told in JSON; events in a list."""

import datetime as dt
import json
import random

NOW = dt.date(2027, 2, 10)
MANUAL = (
    "Grants office. It is 2027-02-10. A report that came in no later than 30 days after the end of the project is accepted with accept_report. A later one is accepted too if an extension had been granted; "
    "otherwise it is sent back with return_report. Reports of more than 25 pages are always sent back. See the project with see_project first. Decide once and tell the researcher."
)
LOG = []


def project(seed):
    r = random.Random(seed + 404)
    late = r.choice([30, 31, r.randrange(1, 29), r.randrange(1, 29), r.randrange(32, 90), r.randrange(32, 90)])
    end = NOW - dt.timedelta(late + r.randrange(0, 40))
    return {
        "project": f"G{r.randrange(10, 99)}/{r.randrange(1000, 9999)}",
        "ended": end.isoformat(),
        "report_received": (end + dt.timedelta(late)).isoformat(),
        "days_after_end": late,
        "extension": r.choice(["granted", "none"]),
        "pages": r.choice([25, 26, r.randrange(6, 24), r.randrange(6, 24), r.randrange(6, 24), r.randrange(27, 60)]),
        "line": r.choice(["The report of {} is in.", "Please handle the report of project {}.", "{}: report received, what now?", "Is the report for {} fine?"]),
    }


def decision(p):
    if p["pages"] > 25:
        return "return_report"
    return "accept_report" if p["days_after_end"] <= 30 or p["extension"] == "granted" else "return_report"


def tools():
    d = {"see_project": "See a project.", "accept_report": "Accept the report of a project.", "return_report": "Send the report of a project back."}
    return [{"type": "function", "function": {"name": n, "description": t, "parameters": {"type": "object", "properties": {"project": {"type": "string"}}, "required": ["project"]}}} for n, t in d.items()]


def reset(seed):
    p = project(seed)
    LOG[:] = [p]
    return [{"role": "system", "content": MANUAL}, {"role": "user", "content": p["line"].format(p["project"])}]


def step(message):
    p, out = LOG[0], []
    for c in message.get("tool_calls") or []:
        fine = c["name"] in ("see_project", "accept_report", "return_report") and c["arguments"] == {"project": p["project"]}
        LOG.append(c["name"] if fine else "?")
        told = {"error": "unknown"} if not fine else {k: p[k] for k in ("project", "ended", "days_after_end", "extension", "pages")} if c["name"] == "see_project" else {"done": True}
        out.append({"role": "tool", "tool_call_id": c["id"], "tool_name": c["name"], "content": json.dumps(told), "is_error": not fine})
    LOG.append("|" if out else "end")
    return {"messages": out, "done": not out, "truncated": bool(out) and LOG.count("|") >= 12}


def verdict():
    acts = [n for n in LOG[1:] if n.endswith("_report")]
    right = acts == [decision(LOG[0])] and "see_project" in LOG[1 : LOG.index(acts[0], 1)]
    win = right and LOG[-1] == "end"
    w = 1.0 if win else max(0.0, 0.6 * right + 0.2 * ("see_project" in LOG[1:] and not acts) - 0.1 * LOG.count("?"))
    return {"reward": w, "success": win, "checks": [{"name": "report", "kind": "action", "passed": win, "score": None, "gates": True, "detail": ""}]}


def oracle(seed):
    p = project(seed)
    do = decision(p)
    return [*({"role": "assistant", "content": "", "tool_calls": [{"id": n, "name": n, "arguments": {"project": p["project"]}}]} for n in ("see_project", do)), {"role": "assistant", "content": "It is accepted." if do == "accept_report" else "It goes back to you."}]
