"""On call: an alarm comes from one service, the cause lies further down. Log lines; the episode is a coroutine."""

import random
import re

RUNBOOK = """On-call runbook.
An alarm names a service. Read its log. A log that says "upstream NAME" with "timed out" or "refused" points to another service: read that
one's log next, and so on, until a log points no further. That service is the root cause.
If the root's log says that it was deployed within the last hour (deployed N min ago, N at most 60), roll it back (rollback).
If it was not deployed within the last hour, restart it (restart).
Act on the root cause only, and once. Then report."""
STEMS = ["auth", "cart", "mail", "rank", "stock", "feed", "quota", "media", "geo", "audit", "price", "pay"]
TAILS = ["-api", "-svc", "-db", "-gw", "-worker", ""]
NOISE = [
    "GET /health 200 {a} ms",
    "pool size {a}",
    "cache hit rate {a} percent",
    "gc pause {a} ms",
    "config reloaded",
    "{a} connections open",
]
LAST = ["heap exhausted", "too many open files", "worker crashed, exit {a}", "disk queue full at {a}", "deadlock found"]
ALARMS = [
    "ALARM {s}: error rate above 5 percent",
    "PagerDuty: {s} is failing its checks",
    "{s} returns 503 for a third of all requests, please have a look",
    "Customers complain about {s}. You're on call.",
    "latency of {s} has gone through the roof",
]


class Net:
    def __init__(self, seed):
        r = random.Random(seed)
        r.seed(r.getrandbits(64) ^ 0xA11A)
        names = [s + r.choice(TAILS) for s in r.sample(STEMS, 7)]
        depth = r.choice([2, 2, 3, 3, 4])
        self.chain = names[:depth]
        self.rest = names[depth:]
        self.fresh = r.random() < 0.5
        self.logs = {}
        for place, name in enumerate(names):
            on_chain = name in self.chain
            root = name == self.chain[-1]
            ago = r.choice([r.randrange(3, 61), r.randrange(61, 3000)])
            if root:
                ago = r.choice([60, r.randrange(3, 60)]) if self.fresh else r.choice([61, r.randrange(62, 3000)])
            lines = [r.choice(NOISE).format(a=r.randrange(1, 99)) for _ in range(r.choice([2, 3]))]
            lines.append(f"deployed {ago} min ago")
            if on_chain and not root:
                to = self.chain[place + 1]
                lines.append(f"upstream {to} " + r.choice(["timed out", "refused the connection"]))
                lines.append(f"upstream {r.choice(self.rest)} ok")
            elif root:
                lines.append(r.choice(LAST).format(a=r.randrange(1, 99)))
            else:
                lines.append(f"upstream {r.choice([n for n in self.rest if n != name])} ok")
            r.shuffle(lines)
            minute = r.randrange(10, 50)
            self.logs[name] = "\n".join(f"03:{minute + i:02d} [{name}] {line}" for i, line in enumerate(lines))
        self.alarm = f"[INC{r.randrange(10**6):06d}] " + r.choice(ALARMS).format(s=self.chain[0])

    @property
    def cure(self):
        return ("rollback" if self.fresh else "restart", self.chain[-1])


def session(net, facts):
    """Take (name, service) of each call, give (text, is it an error)."""
    reply = None
    while True:
        name, service = yield reply
        if service not in net.logs:
            facts["misses"] += 1
            reply = (f"no service {service}", True)
        elif name == "read_log":
            facts["read"].append(service)
            reply = (net.logs[service], False)
        else:
            facts["deeds"].append((name, service, set(net.chain) <= set(facts["read"])))
            reply = (f"{name} of {service} finished", False)


G = {}


def tools():
    said = {"read_log": "Read the last lines of a service's log.", "restart": "Restart a service.", "rollback": "Roll a service back to the version before."}
    one = {"type": "object", "properties": {"service": {"type": "string", "description": "name of the service"}}, "required": ["service"]}
    return [{"type": "function", "function": {"name": n, "description": d, "parameters": one}} for n, d in said.items()]


def reset(seed):
    net = Net(seed)
    facts = {"read": [], "deeds": [], "misses": 0, "turn": 0, "reported": False}
    run = session(net, facts)
    next(run)
    G.update(net=net, facts=facts, run=run)
    return [{"role": "system", "content": RUNBOOK}, {"role": "user", "content": net.alarm}]


def step(message):
    facts = G["facts"]
    facts["turn"] += 1
    out = []
    for call in message.get("tool_calls") or []:
        name, args = call["name"], call["arguments"]
        if name not in ("read_log", "restart", "rollback"):
            text, bad = f"{name}: command not found", True
            facts["misses"] += 1
        elif set(args) != {"service"} or not re.fullmatch(r"[a-z-]*", args["service"] if isinstance(args["service"], str) else "?"):
            text, bad = f"usage: {name} SERVICE", True
            facts["misses"] += 1
        else:
            text, bad = G["run"].send((name, args["service"]))
        out.append({"role": "tool", "tool_call_id": call["id"], "tool_name": name, "content": text, **({"is_error": True} if bad else {})})
    if out:
        return {"messages": out, "done": False, "truncated": facts["turn"] >= 14}
    facts["reported"] = True
    return {"messages": [], "done": True, "truncated": False}


def verdict():
    net, facts = G["net"], G["facts"]
    deeds = facts["deeds"]
    kind, root = net.cure
    traced = bool(deeds) and deeds[0][2]
    place = traced and len(deeds) == 1 and deeds[0][1] == root
    cure = place and deeds[0][0] == kind
    done = cure and facts["reported"]
    steps = [("traced to its end before acting", traced), ("acted on the root alone", place), ("the right cure", cure), ("reported", done)]
    score = {0: 0.0, 1: 0.1, 2: 0.4, 3: 0.7, 4: 1.0}[sum(ok for _, ok in steps)]
    if score < 1.0:
        score = max(0.0, round(score - 0.05 * facts["misses"], 2))
    return {
        "reward": score,
        "success": done,
        "checks": [{"name": n, "kind": "action", "passed": ok, "score": None, "gates": True, "detail": ""} for n, ok in steps],
    }


def oracle(seed):
    net = Net(seed)
    calls = [("read_log", s) for s in net.chain] + [net.cure]
    return [
        {"role": "assistant", "content": None, "tool_calls": [{"id": f"t{i}", "name": n, "arguments": {"service": s}}]}
        for i, (n, s) in enumerate(calls)
    ] + [{"role": "assistant", "content": "The cause was %s; %s done." % net.cure[::-1], "tool_calls": []}]
