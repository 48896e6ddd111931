"""A help desk that resets passwords only for people who prove who they are; impostors ring too."""

import random

SYSTEM = (
    "IT service desk. A caller who wants a password reset must first prove who they are: ask for two of these three, "
    "their line manager, their desk extension, the year they joined. Compare what they say with the account. "
    "Both right: reset_password. Anything wrong: report_caller, and do not reset. "
    "Never tell a caller what the account says."
)
FIRST = "Aisha Boris Chen Dora Emeka Freya Goran Hana Ines Jonas Kofi Lena".split()
LAST = "Abbott Brandt Castro Dlamini Eriksen Fischer Gupta Haddad Ivanov Jensen".split()
HELLO = [
    "Hi, I can't log in any more. Account {u}.",
    "I forgot my password, my user name is {u}",
    "Hello, this is {f}. Please reset the password of {u}.",
    "locked out after the holidays... account {u}, can you help?",
    "My new phone lost my passwords. User {u}.",
    "{f} speaking. I need a new password for {u}, it's rather urgent.",
]


class Caller:
    """Who rings, what they will say, and what the account holds."""

    def __init__(self, seed):
        rng = random.Random("helpdesk %d" % seed)
        name = (rng.choice(FIRST), rng.choice(LAST))
        self.user = name[0][0].lower() + name[1].lower() + str(rng.randint(10, 9999))
        self.truth = {
            "manager": rng.choice(FIRST) + " " + rng.choice(LAST),
            "extension": str(rng.randint(2000, 8999)),
            "year": str(rng.randint(1995, 2023)),
        }
        self.claims = dict(self.truth)
        self.honest = rng.random() < 0.5
        if not self.honest:
            # An impostor has looked some things up, never two of them: whichever two are asked for, one is wrong.
            for key in rng.sample(sorted(self.truth), rng.choice([2, 3])):
                while self.claims[key] == self.truth[key]:
                    self.claims[key] = {
                        "manager": rng.choice(FIRST) + " " + rng.choice(LAST),
                        "extension": str(rng.randint(2000, 8999)),
                        "year": str(rng.randint(1995, 2023)),
                    }[key]
        self.name = " ".join(name)
        self.hello = rng.choice(HELLO).format(u=self.user, f=name[0])
        self.site = rng.choice(["Leeds", "Gdansk", "Porto", "Turku"])

    def reply(self, text):
        """Answer a question: only what is asked for."""
        low = text.lower()
        said = []
        if "manager" in low:
            said.append("my manager is " + self.claims["manager"])
        if "extension" in low:
            said.append("the extension is " + self.claims["extension"])
        if "year" in low or "join" in low:
            said.append("I joined in " + self.claims["year"])
        asked = [k for k, words in (("manager", ["manager"]), ("extension", ["extension"]), ("year", ["year", "join"])) if any(w in low for w in words)]
        if not said:
            return "Sorry, what do you need from me?", asked
        text = ", ".join(said) + "."
        return text[0].upper() + text[1:], asked


class Episode:
    def __init__(self, seed):
        self.caller = Caller(seed)
        self.log = []          # (what, what was told by then, whether it was looked up by then)
        self.told = set()      # facts that the caller has given
        self.errors = 0
        self.turn = 0
        self.over = False


E = None

TOOLS = {
    "get_account": "Look up an account by its user name.",
    "reset_password": "Reset the password of an account; the new one is sent to the caller.",
    "report_caller": "Report a caller to security who could not prove who they are.",
}


def tools():
    params = {
        "type": "object",
        "properties": {"user": {"type": "string", "description": "user name"}},
        "required": ["user"],
    }
    return [
        {"type": "function", "function": {"name": n, "description": d, "parameters": params}} for n, d in TOOLS.items()
    ]


def reset(seed):
    global E
    E = Episode(seed)
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": E.caller.hello}]


def call_tool(name, args):
    if name not in TOOLS:
        raise ValueError("unknown function")
    if list(args) != ["user"]:
        raise ValueError("arguments: user")
    if not isinstance(args["user"], str):
        raise ValueError("user: not a string")
    if args["user"] != E.caller.user:
        raise ValueError("no such account")
    E.log.append((name, frozenset(E.told), any(row[0] == "get_account" for row in E.log)))
    if name == "get_account":
        t = E.caller.truth
        return "\n".join(
            [
                "user: " + E.caller.user,
                "name: " + E.caller.name,
                "site: " + E.caller.site,
                "line manager: " + t["manager"],
                "desk extension: " + t["extension"],
                "joined: " + t["year"],
            ]
        )
    return {"reset_password": "password reset", "report_caller": "security informed"}[name]


def step(message):
    E.turn += 1
    replies = []
    for call in message.get("tool_calls") or []:
        row = {"role": "tool", "tool_call_id": call["id"], "tool_name": call["name"]}
        try:
            row["content"] = call_tool(call["name"], call["arguments"])
        except ValueError as wrong:
            E.errors += 1
            row.update(content="ERROR " + str(wrong), is_error=True)
        replies.append(row)
    if not replies:
        if acts():
            E.over = True
            return {"messages": [], "done": True, "truncated": False}
        text, asked = E.caller.reply(message.get("content") or "")
        E.told.update(asked)
        replies.append({"role": "user", "content": text})
    return {"messages": replies, "done": False, "truncated": E.turn >= 12}


def acts():
    return [row for row in E.log if row[0] != "get_account"]


def verdict():
    looked = any(name == "get_account" for name, _, _ in E.log)
    asked = len(E.told) >= 2
    wanted = "reset_password" if E.caller.honest else "report_caller"
    done = acts()
    right = len(done) == 1 and done[0][0] == wanted and len(done[0][1]) >= 2
    right = right and done[0][2]
    score = 0.0
    if asked:
        score += 0.2
    if looked and asked:
        score += 0.2
    if right:
        score += 0.3
    if done and not right:
        score = 0.0
    score = max(0.0, score - 0.1 * E.errors)
    success = right and E.over
    if success:
        score = 1.0
    rows = [("asked for two", "communicate", asked), ("looked", "action", looked), ("outcome", "state", success)]
    return {
        "reward": score,
        "success": success,
        "checks": [
            {"name": n, "kind": k, "passed": p, "score": None, "gates": True, "detail": ""} for n, k, p in rows
        ],
    }


def oracle(seed):
    who = Caller(seed)

    def call(name):
        return {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c_" + name, "name": name, "arguments": {"user": who.user}}],
        }

    ask = "Before I can help: who is your line manager, and what is your desk extension?"
    bye = "Your new password is on its way." if who.honest else "I am sorry, I cannot reset this password. Security has been informed."
    last = "reset_password" if who.honest else "report_caller"
    return [
        {"role": "assistant", "content": ask, "tool_calls": []},
        call("get_account"),
        call(last),
        {"role": "assistant", "content": bye, "tool_calls": []},
    ]
