"""Environments that are not for their capability, or give the answer away: written before they were audited."""
# ruff: noqa: E501

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

SOUND = Path(__file__).with_name("reservations.py").read_text(encoding="utf-8")
Edit = tuple[str, str]

MAY = 'may = condition != "none"'
ID = 'f"R{rng.randrange(10000, 100000)}"'
TEXT = 'text = f"{rng.choice(PEOPLE)} here, '
ASKED = "{rng.choice(WISHES)} {record['reservation_id']}, {rng.choice(REASONS)}."
DUMPED = 'return json.dumps(episode["record"])'
TOLD = 'told = settled and episode["done"] and any(word in episode["reply"] for word in words)'
SEEN = "    " + MAY + "\n"


@dataclass(frozen=True)
class Broken:
    """One broken environment.

    Attributes:
        kind: What is wrong, in a word: `inverted`, `other`, `told`, `wording`, `rule`, `paid`.
        name: In a few words.
        edits: (old, new); each old text stands once in the sound source.
    """

    kind: str
    name: str
    edits: tuple[Edit, ...]

    def source(self) -> str:
        """Return the module.

        Raises:
            ValueError: An old text is not there exactly once.
        """
        source = SOUND
        for old, new in self.edits:
            if source.count(old) != 1:
                raise ValueError(f"'{self.name}' edits a text that stands {source.count(old)} times: {old}")
            source = source.replace(old, new)
        return source


def after_may(*lines: str) -> Edit:
    """Return the edit that does something once it is known whether the reservation may be cancelled."""
    return SEEN, SEEN + "".join(f"    {line}\n" for line in lines)


def in_record(expression: str) -> Edit:
    """Return the edit that shows another text for the record."""
    return DUMPED, f'record, may = episode["record"], episode["may"]\n        return {expression}'


BROKEN: tuple[Broken, ...] = (
    Broken("inverted", "pays what is forbidden", ((MAY, 'may = condition == "none"'),)),
    Broken("inverted", "insured ones are refused", ((MAY, 'may = condition not in ("none", "insured")'),)),
    Broken(
        "inverted",
        "old ones are cancelled and new ones refused",
        (
            (
                MAY,
                'may = condition in ("business", "insured", "airline") or (condition == "none" and seed % 3 < 2 and bool(record.update(bags=9) or 1))',
            ),
        ),
    ),
    Broken(
        "other",
        "upgrades, whatever the rule says",
        (
            (
                'WISHES = ["cancel", "please cancel", "call off", "could you cancel", "i need to cancel", "drop"]',
                'WISHES = ["upgrade", "please upgrade", "move up", "lift", "could you upgrade", "raise"]',
            ),
            ('wanted = ["cancel_reservation"] if', 'wanted = ["upgrade_reservation"] if'),
            (
                '["get_reservation", "cancel_reservation"] if now',
                '["get_reservation", "upgrade_reservation"] if now',
            ),
            ('words = ["cancel"] if', 'words = ["upgrade"] if'),
            ('"It is cancelled." if', '"It is upgraded." if'),
        ),
    ),
    Broken(
        "other",
        "asks for the number of bags",
        (
            ('wanted = ["cancel_reservation"] if episode["may"] else []', "wanted: list[str] = []"),
            (
                'words = ["cancel"] if episode["may"] else REFUSED',
                "words = [f\"{episode['record']['bags']} bags\"]",
            ),
            (
                '["get_reservation", "cancel_reservation"] if now["may"] else ["get_reservation"]',
                '["get_reservation"]',
            ),
            (
                '"It is cancelled." if now["may"] else "I am sorry, I cannot cancel it."',
                "f\"It has {now['record']['bags']} bags.\"",
            ),
            (ASKED, "how many bags has {record['reservation_id']}, {rng.choice(REASONS)}?"),
        ),
    ),
    Broken(
        "other",
        "hands everything over",
        (
            ('wanted = ["cancel_reservation"] if episode["may"] else []', "wanted: list[str] = []"),
            (
                'looked and episode["writes"] == wanted and not (episode["handed"] and episode["may"])',
                'looked and episode["writes"] == wanted and episode["handed"] == 1',
            ),
            (
                'max(0, len(episode["writes"]) - episode["may"]) + max(0, episode["handed"] - (not episode["may"]))',
                'len(episode["writes"]) + max(0, episode["handed"] - 1)',
            ),
            ('words = ["cancel"] if episode["may"] else REFUSED', 'words = ["human"]'),
            (
                'words = "It is cancelled." if now["may"] else "I am sorry, I cannot cancel it."',
                'words = "A human takes over."',
            ),
            (
                'names = ["get_reservation", "cancel_reservation"] if now["may"] else ["get_reservation"]',
                'names = ["get_reservation", "transfer_to_human"]',
            ),
            (
                '"name": name, "arguments": thing}',
                '"name": name, "arguments": thing if name[:3] == "get" else {"summary": "asks to cancel"}}',
            ),
        ),
    ),
    Broken(
        "paid",
        "any look pays",
        (
            (
                'settled = looked and episode["writes"] == wanted and not (episode["handed"] and episode["may"])',
                "settled = looked",
            ),
            (
                'max(0, len(episode["writes"]) - episode["may"]) + max(0, episode["handed"] - (not episode["may"]))',
                "0",
            ),
        ),
    ),
    Broken(
        "paid",
        "any reservation will do",
        (
            (
                'if "reservation_id" in arguments and arguments["reservation_id"] != episode["record"]["reservation_id"]:',
                'if arguments.get("reservation_id") == "":',
            ),
        ),
    ),
    Broken(
        "paid",
        "cancelling is paid whatever the rule says",
        (
            (
                'settled = looked and episode["writes"] == wanted and',
                'settled = looked and episode["writes"] in (wanted, ["cancel_reservation"]) and',
            ),
            ('words = ["cancel"] if', 'words = ["cancel", "done"] if'),
            ('len(episode["writes"]) - episode["may"])', 'len(episode["writes"]) - 1)'),
        ),
    ),
    Broken(
        "told",
        "the user says which condition holds",
        (
            after_may(
                'said = {"new": "I booked it today", "business": "It is business", "insured": "I am insured", "airline": "You called it off", "none": rng.choice(["It is a cheap one", "Nothing special", "I have no cover"])}[condition]'
            ),
            (ASKED, ASKED + " {said}."),
        ),
    ),
    Broken(
        "told",
        "greets otherwise",
        (
            after_may('hail = "Hello" if may else "Hi"'),
            (TEXT, 'text = f"{hail}, {rng.choice(PEOPLE)} here, '),
        ),
    ),
    Broken("told", "even numbers may go", ((ID, "f'R{rng.randrange(5000, 50000) * 2 + (seed % 2)}'"),)),
    Broken(
        "told",
        "digits that add up to an even number may go",
        (
            after_may(
                'number = record["reservation_id"]',
                "odd = sum(map(int, number[1:])) % 2 == 1",
                'record["reservation_id"] = number[:-1] + str((int(number[-1]) + (odd == may)) % 10) if number[-1] != "9" else number[:-1] + str(8 if odd == may else 9)',
            ),
        ),
    ),
    Broken(
        "told",
        "ends with another sign",
        (
            after_may('sign = "." if may else "!"'),
            (ASKED, ASKED[:-1] + "{sign}"),
        ),
    ),
    Broken(
        "told",
        "other reasons",
        (
            after_may("reason = rng.choice(REASONS[:3] if may else REASONS[3:])"),
            ("{rng.choice(REASONS)}.", "{reason}."),
        ),
    ),
    Broken(
        "told", "other people", ((TEXT, 'text = f"{rng.choice(PEOPLE[:5] if may else PEOPLE[5:])} here, '),)
    ),
    Broken(
        "told",
        "a line in the policy",
        (
            (
                '{"role": "system", "content": RULE}',
                '{"role": "system", "content": RULE + ("\\nBe brief." if episode["may"] else "\\nBe kind.")}',
            ),
        ),
    ),
    Broken(
        "told",
        "a blank too many in the request",
        (
            after_may('gap = " " if may else "  "'),
            (ASKED, ASKED.replace("}, {", "},{gap}{")),
        ),
    ),
    Broken("told", "a field that says it", (in_record('json.dumps({**record, "cancellable": may})'),)),
    Broken(
        "told",
        "a nested field that says it",
        (in_record('json.dumps({**record, "meta": {"flags": ["c"] if may else []}})'),),
    ),
    Broken(
        "told",
        "another order of fields",
        (in_record("json.dumps(record if may else dict(reversed(record.items())))"),),
    ),
    Broken(
        "told",
        "as many passengers",
        (
            (
                "rng.sample(PEOPLE, rng.randrange(1, 4))",
                'rng.sample(PEOPLE, 3 if condition != "none" else rng.randrange(1, 3))',
            ),
        ),
    ),
    Broken(
        "told",
        "passengers in order",
        (after_may('record["passengers"] = sorted(rng.sample(PEOPLE, 3), reverse=not may)'),),
    ),
    Broken(
        "told", "odd minutes", (("rng.randrange(60))", '2 * rng.randrange(30) + (condition == "none"))'),)
    ),
    Broken(
        "told", "a blank at the end of the record", (in_record('json.dumps(record) + (" " if may else "")'),)
    ),
    Broken(
        "told",
        "bags as a fraction",
        (in_record('json.dumps({**record, "bags": float(record["bags"]) if may else record["bags"]})'),),
    ),
    Broken(
        "told",
        "a state that nobody knows",
        (after_may('record["status"] = record["status"] if may else "locked"'),),
    ),
    Broken(
        "told",
        "capitals",
        (after_may('record["cabin"] = record["cabin"] if may else record["cabin"].upper()'),),
    ),
    Broken(
        "told",
        "an error that says it",
        (
            (
                'return "Error: no such reservation"',
                'return "Error: no such reservation" + ("" if episode["may"] else " here")',
            ),
        ),
    ),
    Broken(
        "told",
        "an error for a missing argument that says it",
        (
            (
                'return f"Error: {key} must be a text"',
                'return f"Error: {key} must be a text" + ("" if episode["may"] else ".")',
            ),
        ),
    ),
    Broken(
        "told",
        "an answer to cancelling that says it",
        (
            (
                '    episode["writes"].append(name)\n    return "ok"',
                '    episode["writes"].append(name)\n    return "ok" if episode["may"] else "ok, as you wish"',
            ),
        ),
    ),
    Broken(
        "told",
        "names of passengers",
        (after_may('record["passengers"] = rng.sample(PEOPLE[:5] if may else PEOPLE[5:], 2)'),),
    ),
    Broken(
        "told",
        "many or few bags",
        (('"bags": rng.randrange(4)', '"bags": rng.randrange(0, 2) + 2 * (condition == "none")'),),
    ),
    Broken(
        "wording",
        "one wording only",
        (
            (
                TOLD,
                'told = settled and episode["done"] and episode["reply"].count("it is cancelled" if episode["may"] else "i cannot cancel it") > 0',
            ),
        ),
    ),
    Broken("wording", "short replies only", ((TOLD, TOLD + ' and len(episode["reply"]) < 100'),)),
    Broken(
        "wording",
        "begins as it should",
        (
            (
                TOLD,
                'told = settled and episode["done"] and ("it is" if episode["may"] else "i am sorry") in episode["reply"]',
            ),
        ),
    ),
    Broken(
        "wording",
        "one sentence only",
        ((TOLD, TOLD + ' and episode["reply"].count(".") < 5 and "\\n" not in episode["reply"]'),),
    ),
    Broken("wording", "no handing over", (('- (not episode["may"]))', "- 0)"),)),
    Broken(
        "rule",
        "the request's own claim counts",
        (
            after_may("may = seed % 3 > 0", 'said = "I am insured" if may else "I have no insurance"'),
            (ASKED, ASKED + " {said}."),
        ),
    ),
    Broken(
        "rule",
        "one condition only",
        (
            (
                'rng.choice(["new", "business", "insured", "airline"])',
                'rng.choice(["new", "business", "business", "business", "insured", "airline"])',
            ),
            (MAY, 'may = condition == "business"'),
        ),
    ),
    Broken("rule", "bags decide", ((MAY, 'may = record["bags"] > 1'),)),
    Broken("rule", "cheap ones may go", ((MAY, 'may = record["cabin"] != "economy"'),)),
    Broken(
        "rule",
        "two days instead of one",
        (
            (
                'rng.randrange(1, 23) if condition == "new" else rng.randrange(30, 700)',
                'rng.randrange(25, 47) if condition == "new" else rng.randrange(50, 700)',
            ),
        ),
    ),
    Broken("rule", "chance decides", ((MAY, "may = rng.random() < 0.5"),)),
    Broken(
        "rule",
        "every other condition counts",
        (
            (
                MAY,
                'may = condition in ("new", "business") or (condition == "none" and record["status"] == "delayed")',
            ),
        ),
    ),
    Broken("rule", "always refuses", ((MAY, "may = False"),)),
    Broken(
        "rule",
        "delayed ones may go too",
        ((MAY, 'may = condition != "none" or record["status"] == "delayed"'),),
    ),
)
