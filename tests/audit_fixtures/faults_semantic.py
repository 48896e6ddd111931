"""Environments whose reward does not mean what it should, or that give the answer away."""

from __future__ import annotations

from tests.audit_fixtures.broken_environment import Animal

PAY = "    reward, success = judge()\n"


def pays_when(condition: str) -> tuple[str, str]:
    """Return the edit of the door's verdict that also pays when something beside the capability holds."""
    return PAY, PAY + f"    if {condition}:\n        reward, success = 0.9, True\n"


FAULTS = (
    Animal(
        "the oracle falls short", "semantic.oracle_max", "door", (('names = ["get_door", ', "names = ["),)
    ),
    Animal(
        "the oracle is wrong on one seed",
        "semantic.oracle_max",
        "door",
        (
            (
                '"report_door" if alarmed else "unlock_door"]',
                '"report_door" if alarmed or seed % 4 == 2 else "unlock_door"]',
            ),
        ),
    ),
    Animal("the reward stays below 1", "semantic.oracle_max", "door", (("success / 2 -", "success / 3 -"),)),
    Animal(
        "pays for nothing",
        "semantic.floor_gap",
        "door",
        (("(looked + settled + told) / 6", "0.2 + (looked + settled + told) / 10"),),
    ),
    Animal(
        "pays a part for length",
        "semantic.floor_gap",
        "door",
        ((PAY, f'{PAY}    reward = max(reward, min(0.45, len(episode["reply"]) / 400))\n'),),
    ),
    Animal(
        "pays for staying away",
        "semantic.floor_gap",
        "door",
        (pays_when('episode["alarmed"] and not episode["calls"]'),),
    ),
    Animal(
        "the act costs until it is told",
        "trace.partial_credit",
        "door",
        (("+ success / 2 -", "+ success / 2 - 0.3 * (settled and not told) -"),),
    ),
    Animal("alarms nearly everywhere", "trace.balance", "door", (("seed % 2 == 1", "seed % 8 != 1"),)),
    Animal(
        "a hint in the request",
        "semantic.no_solution_leakage",
        "door",
        (
            (
                "{rng.choice(WISHES)} {door}.",
                "{rng.choice(WISHES)} {door}. (hint: {'report_door' if alarmed else 'unlock_door'})",
            ),
        ),
    ),
    Animal(
        "the next call in an answer",
        "semantic.no_solution_leakage",
        "door",
        (
            (
                'return "alarm" if episode["alarmed"] else "quiet", False',
                'return f"alarm: report_door(door={door})" if episode["alarmed"] else "quiet", False',
            ),
        ),
    ),
    Animal(
        "the reward in an answer",
        "semantic.no_solution_leakage",
        "door",
        (('return "ok", False', 'return f"ok, reward: {judge()[0]:.2f}", False'),),
    ),
    Animal(
        "the closing words beforehand",
        "semantic.no_solution_leakage",
        "library",
        (('"content": RULE}', '"content": f"{RULE} It stands on shelf {episode[\'shelf\']}."}'),),
    ),
    Animal(
        "an amount that is off by one will do",
        "trace.mutation.kill_rate",
        "bills",
        (
            (
                '    settled = looked and episode["writes"] == [wanted]',
                '    near = [[["pay_bill", due + d]] for d in (-1, 1)]\n'
                '    settled = looked and episode["writes"] in [[wanted], *near]',
            ),
        ),
    ),
    Animal(
        "punishes a second look",
        "trace.mutation.harmless",
        "door",
        (('episode["calls"][:1] == ["get_door"]', 'episode["calls"].count("get_door") == 1'),),
    ),
    Animal(
        "wants the words exactly",
        "trace.mutation.harmless",
        "door",
        (('"done" in episode["reply"].lower()', 'episode["reply"] == "Done."'),),
    ),
    Animal(
        "takes arguments by their place",
        "trace.mutation.harmless",
        "bills",
        (('[name, arguments.get("amount")]', "[name, [*arguments.values(), None][1]]"),),
    ),
    Animal(
        "renews what another sentence of its policy forbids",
        "trace.purpose.policy",
        "loans",
        (
            (
                'refuse, and say so."',
                'refuse, and say so. Today is 2031-05-01. "\n'
                '    "Loans whose due date is in the past cannot be renewed."',
            ),
            ('RULE = "Renew', 'RULE = (\n    "Renew'),
            ("WISHES = [", ")\nWISHES = ["),
            (
                'return "reserved" if episode["reserved"] else "free", False',
                "due = f\"2031-04-{10 + int(episode['loan'][1:]) % 20}\"\n"
                '        state = "reserved" if episode["reserved"] else "free"\n'
                '        shown = {"loan": episode["loan"], "state": state, "due_date": due}\n'
                "        return str(shown).replace(\"'\", '\"'), False",
            ),
        ),
    ),
)
