"""Short cuts: sound environments of this folder, and each of them with the edit that lets a short cut be paid."""
# ruff: noqa: E501

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from tests.audit_fixtures.purpose.here import NEED_NO_SANDBOX, findings
from tests.audit_fixtures.runner import record
from tests.audit_fixtures.unforeseen.runner import FRAME, subject_here
from trace_assets.records import CapabilitySpec

FOLDER = Path(__file__).parent
Edit = tuple[str, str]


@dataclass(frozen=True)
class Shortcut:
    """One environment.

    Attributes:
        kind: What is paid that should not be, in a few words; empty for a sound one.
        name: Of its own.
        base: The sound module that it is made of.
        edits: (old, new); each old text stands once in the sound source.
        twin: Edits that stand in its sound twin as well.
    """

    kind: str
    name: str
    base: str
    edits: tuple[Edit, ...] = ()
    twin: tuple[Edit, ...] = ()

    def source(self, edits: tuple[Edit, ...] | None = None) -> str:
        """Return the module, whole.

        Raises:
            ValueError: An old text is not there exactly once.
        """
        own = (FOLDER / "sound" / f"{self.base}.py").read_text(encoding="utf-8")
        source = f"{own}\n\n{FRAME.read_text(encoding='utf-8')}"
        for old, new in (*self.twin, *self.edits) if edits is None else edits:
            if source.count(old) != 1:
                raise ValueError(f"'{self.name}' edits a text that stands {source.count(old)} times: {old}")
            source = source.replace(old, new)
        return source

    def rejected_by(self, *, twin: bool = False) -> dict[str, str]:
        """Return the checks that reject it, or its sound twin, with what they saw."""
        rows = json.loads((FOLDER / "capabilities.json").read_text(encoding="utf-8"))
        spec = CapabilitySpec(**rows[self.base])
        subject = subject_here(record(self.source(self.twin if twin else None), spec.target), spec)
        found = findings(subject, NEED_NO_SANDBOX)
        return {name: one.evidence for name, one in found.items() if one.status == "fail"}


NO_COST = ('- 0.05 * S["bad"]', "")
SEEN_AT_THE_END = ('repair["repair_id"] in S["seen"]))', "True))")
OPENED_AT_THE_END = ('ticket["ticket_id"] in S["seen"]))', "True))")
RIGHT = 'S["log"] == [wanted] and not S["tried"]'
SORTED = 'S["log"] == [("set_priority", S["meant"], level, True)]'
LOOKED = 'looked = S["mine"] in S["seen"]'
MOVED = 'S["log"] == [("move_parcel", S["day"], True)]'
_RESTORE = (
    (
        '    _t("call_master"',
        '    _t("restore_repair", "Take back what was last done to a repair.", ["repair_id"], repair_id="string"),\n    _t("call_master"',
    ),
)
UNDONE = (
    *_RESTORE,
    (
        '    if name == "cancel_repair" and repair',
        '    if name == "restore_repair":\n        del S["log"][-1:]\n        return json.dumps({"status": "restored"}), False\n    if name == "cancel_repair" and repair',
    ),
)
KEPT = _RESTORE
WRONG_LEVEL = (
    '    S["log"].append((name, ticket',
    '    if name == "set_priority" and given["priority"] != LEVELS[ticket["says"]]:\n        S["tried"] = True\n        return json.dumps({"error": "it does not fit"}), True\n    S["log"].append((name, ticket',
)
TRIED = (SORTED, SORTED + ' and not S.get("tried")')
WISHED = ('"day": min(d for d in free if d >= wish)', '"day": wish')
ANY_DAY = ('given["day"] not in S["free"]', 'given["day"] > 31')
FREE = '{"parcel_id": S["parcel"], "free": S["free"]}'

BROKEN: tuple[Shortcut, ...] = (
    Shortcut("late look", "a repair may be looked up when it is done", "workshop", (SEEN_AT_THE_END,)),
    Shortcut("late look", "a ticket may be opened once it is sorted", "helpdesk", (OPENED_AT_THE_END,)),
    Shortcut(
        "late look",
        "free days may be checked later",
        "delivery",
        (('given.get("day"), S["looked"]))', 'given.get("day"), True))'),),
    ),
    Shortcut(
        "look at anything",
        "a refused look is a look",
        "workshop",
        (
            (
                '        return json.dumps({"error": "no such repair"}), True',
                '        S["seen"].update([S["mine"]] * (name == "get_repair"))\n        return json.dumps({"error": "no such repair"}), True',
            ),
        ),
    ),
    Shortcut(
        "look at anything",
        "any repair will do",
        "workshop",
        (('S["seen"].add(repair["repair_id"])', 'S["seen"].update(S["repairs"])'),),
    ),
    Shortcut(
        "look at anything",
        "the hours are a look",
        "workshop",
        (
            (
                '    if name == "get_hours":\n',
                '    if name == "get_hours":\n        S["seen"].add(S["mine"])\n',
            ),
        ),
    ),
    Shortcut(
        "look at anything",
        "any ticket will do",
        "helpdesk",
        (('S["seen"].add(ticket["ticket_id"])', 'S["seen"].update(S["tickets"])'),),
    ),
    Shortcut(
        "look at anything",
        "a depot is a look",
        "delivery",
        (('    if name == "get_depot":\n', '    if name == "get_depot":\n        S["looked"] = True\n'),),
    ),
    Shortcut(
        "look at anything",
        "a file that there is not",
        "archive",
        (
            (
                '        return json.dumps({"error": "no such file"}), True',
                '        S["looked"] = True\n        return json.dumps({"error": "no such file"}), True',
            ),
        ),
    ),
    Shortcut(
        "claimed look",
        "says that it has checked",
        "workshop",
        (SEEN_AT_THE_END, (LOOKED, LOOKED + ' or "checked" in " ".join(S["said"]).lower()')),
    ),
    Shortcut(
        "claimed look",
        "says that it has looked",
        "delivery",
        (
            ('given.get("day"), S["looked"]))', 'given.get("day"), True))'),
            (
                '[("looked", "action", S["looked"], 1)',
                '[("looked", "action", S["looked"] or "looked" in " ".join(S["said"]).lower(), 1)',
            ),
        ),
    ),
    Shortcut(
        "claimed look",
        "names the tool",
        "archive",
        (
            ('right = S["looked"] and', 'right = (S["looked"] or "get_file" in said) and'),
            (
                '[("looked", "action", S["looked"], 1)',
                '[("looked", "action", S["looked"] or "get_file" in said, 1)',
            ),
        ),
    ),
    Shortcut(
        "free tries",
        "the workshop refuses what is wrong",
        "workshop",
        (NO_COST, (RIGHT, 'S["log"] == [wanted]')),
    ),
    Shortcut("free tries", "a wrong level is refused", "helpdesk", (NO_COST,), (WRONG_LEVEL,)),
    Shortcut("free tries", "full days are refused", "delivery", (NO_COST,)),
    Shortcut(
        "wrong first",
        "the last change counts",
        "workshop",
        ((RIGHT, 'S["log"][-1:] == [wanted] and not S["tried"]'),),
    ),
    Shortcut(
        "wrong first",
        "the last level counts",
        "helpdesk",
        ((SORTED, 'S["log"][-1:] == [("set_priority", S["meant"], level, True)]'),),
    ),
    Shortcut(
        "wrong first",
        "one of the days is right",
        "delivery",
        ((MOVED, '("move_parcel", S["day"], True) in S["log"]'),),
    ),
    Shortcut("wrong first", "what is taken back was never done", "workshop", (UNDONE[1],), KEPT),
    Shortcut(
        "everything done",
        "one of the changes is right",
        "workshop",
        ((RIGHT, 'wanted in S["log"] and not S["tried"]'),),
    ),
    Shortcut(
        "everything done",
        "other repairs do not count",
        "workshop",
        ((RIGHT, '[one for one in S["log"] if one[1] == S["mine"]] == [wanted] and not S["tried"]'),),
    ),
    Shortcut(
        "everything done",
        "other tickets do not count",
        "helpdesk",
        (
            (
                SORTED,
                '[one for one in S["log"] if one[1] == S["meant"]] == [("set_priority", S["meant"], level, True)]',
            ),
        ),
    ),
    Shortcut(
        "one kind unseen",
        "the master may be called unseen",
        "workshop",
        (SEEN_AT_THE_END, (LOOKED, LOOKED + ' or S["begun"]')),
    ),
    Shortcut(
        "one kind unseen",
        "closed is said unseen",
        "archive",
        (
            ('right = S["looked"] and', 'right = (S["looked"] or S["closed"]) and'),
            ('[("looked", "action", S["looked"], 1)', '[("looked", "action", S["looked"] or S["closed"], 1)'),
        ),
    ),
    Shortcut(
        "name from nowhere",
        "nothing names the repair",
        "workshop",
        (
            ("{text.format(r=mine, w=reason)}", "{text.format(r='my repair', w=reason)}"),
            ('"repairs": sorted(S["repairs"])', '"repairs": len(S["repairs"])'),
        ),
    ),
    Shortcut(
        "name from nowhere",
        "the list has no names",
        "helpdesk",
        (('{"ticket_id": k, "device": t["device"]}', '{"device": t["device"]}'),),
    ),
    Shortcut(
        "name from nowhere",
        "a receipt is asked for",
        "delivery",
        (
            (
                '"parcel_id", "day"], parcel_id="string", day="integer"',
                '"parcel_id", "day", "receipt"], parcel_id="string", day="integer", receipt="string"',
            ),
            (
                '"parcel": parcel, "free"',
                '"parcel": parcel, "receipt": f"RC{rng.randint(10000, 99999)}", "free"',
            ),
            (
                'given["day"] not in S["free"]',
                '(given["day"] not in S["free"] or given["receipt"] != S["receipt"])',
            ),
            ('"day": s["day"]}), f"It', '"day": s["day"], "receipt": s["receipt"]}), f"It'),
        ),
    ),
    Shortcut(
        "idle look",
        "the look shows the number again",
        "delivery",
        (WISHED, ANY_DAY, (FREE, '{"parcel_id": S["parcel"]}')),
    ),
    Shortcut(
        "idle look",
        "the look shows a weight",
        "delivery",
        (WISHED, ANY_DAY, (FREE, '{"parcel_id": S["parcel"], "grams": sum(S["free"])}')),
    ),
    Shortcut(
        "idle look",
        "the look shows what was asked for",
        "delivery",
        (WISHED, ANY_DAY, (FREE, '{"parcel_id": S["parcel"], "day": S["day"], "state": "under way"}')),
    ),
    Shortcut(
        "all answers",
        "all figures may be said",
        "archive",
        (('figures == {S["pages"]}', 'S["pages"] in figures'),),
    ),
    Shortcut(
        "all answers",
        "closed and open at once",
        "archive",
        (
            (
                '("closed" in said and not figures) if S["closed"] else figures == {S["pages"]}',
                '"closed" in said if S["closed"] else S["pages"] in figures',
            ),
        ),
    ),
    Shortcut(
        "told by place",
        "the ticket that is meant is listed first",
        "helpdesk",
        (
            (
                'sorted(S["tickets"].items())]',
                'sorted(S["tickets"].items(), key=lambda item: item[0] != S["meant"])]',
            ),
        ),
    ),
)
SOUND: tuple[Shortcut, ...] = tuple(
    Shortcut("", base, base) for base in ("archive", "delivery", "helpdesk", "workshop")
) + tuple(Shortcut("", f"twin: {one.name}", one.base, (), one.twin) for one in BROKEN if one.twin)
SEEN_BY: dict[str, set[str]] = {
    "late look": {"trace.attacker.late_looks"},
    "look at anything": {"trace.attacker.looks_elsewhere"},
    "claimed look": {"trace.attacker.claimed_looks"},
    "free tries": {"trace.attacker.tries"},
    # Where all that can be done is paid, what is taken back is not looked at.
    "wrong first": {"trace.attacker.takes_back", "trace.mutation.kill_rate", "trace.attacker.spam_all"},
    "everything done": {"trace.attacker.overact", "trace.mutation.kill_rate"},
    "one kind unseen": {"trace.attacker.claimed_looks"},
    "name from nowhere": {"trace.unshown_names"},
    "idle look": {"trace.purpose.idle_looks"},
    "all answers": {"trace.attacker.all_answers"},
    "told by place": set(),
}
"""Kind to the checks that are meant for it, any of which is to see it; no check sees what has none."""
