"""Capabilities planted in invented domains: what the agent lacks, and whether detectors propose and label it.

Other shapes than the published sets have: fields and tools in camel case, records in envelopes and lists,
states in capitals, a policy in German. Each situation is played by two agents, of which one mostly lacks what
it asks for and fails for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from tests.truth.planted.domain import Domain, Run, Say, agent, call, user
from trace_assets.diagnosis.detector_analyst import DetectorAnalyst
from trace_assets.diagnosis.detectors import FAMILIES
from trace_assets.diagnosis.detectors.protocol import Mistake
from trace_assets.records import Capability
from trace_assets.settings import Discovery

NAMES = (
    "Ada Kovac",
    "Ben Osei",
    "Cleo Marin",
    "Dov Lind",
    "Eva Brandt",
    "Finn Adeyemi",
    "Gala Ruiz",
    "Hugo Sato",
)
MISTAKES = {family.name: family.mistake for family in FAMILIES}
PER_LACK = 16
"""Runs of each situation: eight tasks, two agents."""
SHARE = 2 / 3
"""Share of the planted runs that one candidate must label LACKING for the capability to be found."""


@dataclass(frozen=True)
class Lack:
    """A situation, and what an agent lacks who fails in it.

    Attributes:
        name: In a few words.
        mistakes: Kinds of mistake of which a candidate that is it must be one.
        about: A tool, field or value that such a candidate's arguments must name; empty: any.
        play: (number, whether it is shown) to what is said and called.
    """

    name: str
    mistakes: Collection[Mistake]
    about: str
    play: Callable[[int, bool], Sequence[Say]]


@dataclass(frozen=True)
class LackDomain:
    """An invented domain of such situations."""

    name: str
    policy: str
    lacks: Sequence[Lack]

    def domain(self) -> Domain:
        """Return its runs: of each situation eight tasks, once by an agent that mostly lacks it."""
        tasks, runs = {}, []
        for place, lack in enumerate(self.lacks):
            for number in range(PER_LACK):
                task = 100 * place + number // 2
                shown = number % 2 == 0 or number % 8 == 7
                tasks[task] = (f"You are {NAMES[number // 2 % 8]}.", ())
                says = tuple(lack.play(number, shown))
                policy = ("steady", "hasty")[number % 2]
                runs.append(Run(task, "" if shown else "agent", lack.name, says, policy=policy))
        return Domain(self.name, self.policy, tasks, tuple(runs))


@dataclass(frozen=True)
class FoundLack:
    """What became of a planted capability.

    Attributes:
        domain: Where.
        lack: Which.
        candidate: The candidate that labels the most of its runs rightly, None when there is none.
        hits: Of the runs that lack it, those that the candidate labels LACKING.
        n: Runs that lack it.
        false: Runs that do not lack it and that the candidate labels LACKING.
    """

    domain: str
    lack: str
    candidate: str | None
    hits: int
    n: int
    false: int

    @property
    def found(self) -> bool:
        """Whether a candidate is it."""
        return self.candidate is not None and self.hits >= SHARE * self.n and self.false <= self.hits / 4


def find_lacks(domain: LackDomain) -> list[FoundLack]:
    """Let detectors propose and label, and hold every planted capability against the candidates."""
    played = domain.domain()
    every = played.trajectories()
    analyst = DetectorAnalyst(Discovery(), policy=played.policy)
    capabilities = analyst.discover(every)
    lacking: dict[str, set[str]] = {one.capability_id: set() for one in capabilities}
    for label in analyst.label([one.blind() for one in every], capabilities):
        if label.label == "LACKING":
            lacking[label.capability_id].add(label.trajectory_id)
    rows = []
    for lack in domain.lacks:
        planted = {
            one.trajectory_id
            for one, run in zip(every, played.runs, strict=True)
            if run.why == lack.name and run.party
        }
        fits = [one for one in capabilities if _is_it(one, lack)]
        scored = [
            (len(lacking[one.capability_id] & planted), -len(lacking[one.capability_id] - planted), one.name)
            for one in fits
        ]
        hits, false, name = max(scored, default=(0, 0, None), key=lambda row: row[:2])
        rows.append(FoundLack(domain.name, lack.name, name if hits else None, hits, len(planted), -false))
    return rows


def _is_it(capability: Capability, lack: Lack) -> bool:
    return MISTAKES[capability.detector or ""] in lack.mistakes and lack.about in str(
        capability.detector_args
    )


# Tool hire: camel case, records in an envelope.

HIRE = """# Tool hire desk
The current date is 2033-06-10.

You help customers with rentals and repairs.

## Extending a rental
A rental that is OVERDUE cannot be extended. Offer to take the tool back.
A rental may be extended by at most 14 days.

## Repairs
You are not allowed to repair a tool if its warranty end date is in the past.

## Consumables
When blades used reach the plan's blades limit, no cutting is possible until blades are refilled.
"""


def _hello(number: int) -> str:
    return f"Hello, {NAMES[number // 2 % 8]} here."


def _rental(name: str, state: str, **more: object) -> dict[str, object]:
    return {
        "success": True,
        "rental": {"rentalId": name, "state": state, "toolId": f"TL-{name[-2:]}", **more},
    }


def _extend_overdue(number: int, shown: bool) -> list[Say]:
    name = f"RN-40{10 + number}"
    start = [
        user(f"{_hello(number)} Please extend my rental {name} by a week."),
        call("getRental", _rental(name, "OVERDUE"), rentalId=name),
    ]
    if shown:
        return [
            *start,
            agent("It is overdue, so I cannot extend it. Please bring it back."),
            user("All right, bye."),
        ]
    return [
        *start,
        call("extendRental", _rental(name, "ACTIVE"), rentalId=name, days=7),
        agent("Done, a week more."),
        user("Great, bye."),
    ]


def _extend_too_long(number: int, shown: bool) -> list[Say]:
    name, days = f"RN-50{10 + number}", (20, 30, 45, 60)[number // 2 % 4]
    return [
        user(f"{_hello(number)} I need rental {name} for {days} days more, so extend it."),
        call("getRental", _rental(name, "ACTIVE"), rentalId=name),
        *([agent("I can extend it by 14 days at most. Shall I?"), user("Yes, do.")] if shown else []),
        call("extendRental", _rental(name, "ACTIVE"), rentalId=name, days=14 if shown else days),
        agent("It is extended."),
        user("Thanks, bye."),
    ]


def _repair_late(number: int, shown: bool) -> list[Say]:
    name = f"TL-60{10 + number}"
    # Every fourth task's warranty still runs: both agents repair rightly.
    runs_on = number // 2 % 4 == 3
    ends = "2033-09-30" if runs_on else f"2032-0{1 + number // 2}-15"
    record = {"ok": True, "tool": {"toolId": name, "condition": "BROKEN", "warrantyEndDate": ends}}
    start = [
        user(f"{_hello(number)} My drill {name} is broken, please repair it."),
        call("getTool", record, toolId=name),
    ]
    if shown and not runs_on:
        return [*start, agent(f"Its warranty ended on {ends}; I cannot repair it."), user("A pity. Bye.")]
    done = call("repairTool", {"ok": True, "toolId": name}, toolId=name)
    says = [*start, done, agent("It is in repair."), user("Thanks, bye.")]
    return says if shown or not runs_on else [*says[:-2], agent("It's done."), user("Bye.")]


def _blades(number: int, shown: bool) -> list[Say]:
    name, plan = f"RN-70{10 + number}", ("PL-31", "PL-32")[number // 2 % 2]
    limit = {"PL-31": 20, "PL-32": 30}[plan]
    record = _rental(name, "ACTIVE", planId=plan, bladesUsed=limit + 2, bladesRefilled=0)
    look = call("getPlan", {"ok": True, "plan": {"planId": plan, "bladesLimit": limit}}, planId=plan)
    start = [
        user(f"{_hello(number)} The saw on rental {name} does not cut any more."),
        call("getRental", record, rentalId=name),
    ]
    if shown:
        refill = call("refillBlades", {"ok": True}, rentalId=name, count=5)
        return [*start, look, refill, agent("All blades were used; I sent more."), user("Thanks, bye.")]
    return [
        *start,
        agent("Please switch it off and on."),
        user("It does not help."),
        agent("Then I cannot help."),
    ]


# A parking office: lists at the top of results, upper-case fields.

PARKING = """# Parking office
Today is 2034-02-01.

## Permits
Help the resident find the permit number if they do not know it.
Revoked permits can not be renewed.

## Fines
If the resident is disabled, you must offer the blue badge rate before a fine is paid.
"""


def _permits(*names: str, status: str = "VALID") -> dict[str, object]:
    return {
        "resident": {"RESIDENT_ID": "RS-7001"},
        "PERMITS": [{"PERMIT_NO": one, "STATUS": status} for one in names],
    }


def _renew_revoked(number: int, shown: bool) -> list[Say]:
    name = f"PM-{2010 + number}"
    start = [
        user(f"{_hello(number)} Renew permit {name}, please."),
        call("FindPermits", [{"PERMIT_NO": name, "STATUS": "REVOKED"}], PERMIT_NO=name),
    ]
    if shown:
        return [*start, agent("It was revoked, so it can not be renewed."), user("I see. Bye.")]
    return [*start, call("RenewPermit", "ok", PERMIT_NO=name), agent("Renewed."), user("Thanks, bye.")]


def _other_permit(number: int, shown: bool) -> list[Say]:
    names = [f"PM-{3100 + 10 * number + k}" for k in range(3)]
    start = [
        user(
            f"{_hello(number)} One of my permits has the wrong plate. I do not know its number. "
            f"Resident RS-70{10 + number}."
        ),
        call(
            "GetResident",
            {"resident": {"RESIDENT_ID": f"RS-70{10 + number}"}, "permits": names},
            RESIDENT_ID=f"RS-70{10 + number}",
        ),
        call("GetPermit", {"PERMIT_NO": names[0], "PLATE": "AB1"}, PERMIT_NO=names[0]),
    ]
    if shown:
        looked = [call("GetPermit", {"PERMIT_NO": one, "PLATE": "XX9"}, PERMIT_NO=one) for one in names[1:]]
        return [
            *start,
            *looked,
            call("CorrectPlate", "ok", PERMIT_NO=names[2]),
            agent("Mended."),
            user("Bye."),
        ]
    return [
        *start,
        agent("Please tell me which one."),
        user("I do not know."),
        agent("Then I cannot help you."),
    ]


def _badge(number: int, shown: bool) -> list[Say]:
    name = f"FN-{4010 + number}"
    asked = [agent("Before a fine is paid: are you disabled? There is a badge rate."), user("No, I am not.")]
    return [
        user(f"{_hello(number)} I want to pay the fine {name}."),
        agent("I look at the fine."),
        user("Fine."),
        call("GetFine", {"FINE_NO": name, "AMOUNT": 40}, FINE_NO=name),
        *(asked if shown else []),
        call("PayFine", "ok", FINE_NO=name),
        agent("The fine is paid."),
        user("Bye."),
    ]


def _denied(number: int, shown: bool) -> list[Say]:
    name = ("Mill Lane", "Elm Road", "Kings Yard", "Dock Street")[number // 2 % 4]
    start = [user(f"{_hello(number)} Is there a free bay in {name} for next week?")]
    if shown:
        found = call("SearchBays", [{"BAY_NO": f"BY-{number}1", "STREET": name}], STREET=name)
        return [*start, found, agent("Yes, there is one."), user("Very good, bye.")]
    return [*start, agent(f"I am sorry, there are no free bays in {name} next week."), user("A pity, bye.")]


# A municipal library in German: rules in words are silent, those of structure are not.

BUECHEREI = """# Stadtbücherei
Heute ist der 2032-11-04.

Du hilfst Leserinnen und Lesern mit Ausleihen. Prüfe eine Ausleihe, bevor du sie verlängerst.
"""


def _unread(number: int, shown: bool) -> list[Say]:
    name = f"AU-{5010 + number}"
    look = call("get_loan", {"loan_id": name, "status": "verliehen"}, loan_id=name)
    return [
        user(f"Guten Tag, {NAMES[number // 2 % 8]}. Bitte {name} verlängern."),
        *([look] if shown else []),
        call("renew_loan", {"loan_id": name, "ok": shown}, loan_id=name),
        agent("Erledigt."),
        user("Danke, tschüss."),
    ]


def _again(number: int, shown: bool) -> list[Say]:
    name = f"LE-{6010 + number}"
    look = call("get_reader", {"reader_id": name, "loans": []}, reader_id=name)
    also = call("get_branch", {"branch": "Mitte"}, reader_id=name)
    more = call("get_rules", {"pins": "erlaubt"}, reader_id=name)
    help_it = [
        also,
        more,
        call("reset_pin", {"reader_id": name, "ok": True}, reader_id=name),
        agent("Neu gesetzt."),
        user("Danke."),
    ]
    start = user(f"Guten Tag, ich komme nicht in mein Konto {name}.")
    return [start, look, *(help_it if shown else [look, look, look, agent("Ich finde nichts.")])]


def _invented(number: int, shown: bool) -> list[Say]:
    title = f"TI-{7010 + number}"
    found = call("search_titles", {"title_id": title, "name": "Der Fluss"}, query="Der Fluss")
    wrong = f"TI-{9010 + number}"
    return [
        user("Guten Tag, bitte Der Fluss vormerken."),
        found,
        call("place_hold", {"ok": shown}, title_id=title if shown else wrong),
        agent("Vorgemerkt."),
        user("Danke."),
    ]


LACK_DOMAINS: tuple[LackDomain, ...] = (
    LackDomain(
        "tool_hire",
        HIRE,
        (
            Lack("extends what is overdue", ("forbidden_call",), "extendRental", _extend_overdue),
            Lack("extends for too long", ("wrong_value", "forbidden_call"), "extendRental", _extend_too_long),
            Lack("repairs after the warranty", ("forbidden_call",), "repairTool", _repair_late),
            Lack("refills no blades", ("missing_call",), "refillBlades", _blades),
        ),
    ),
    LackDomain(
        "parking",
        PARKING,
        (
            Lack("renews what was revoked", ("forbidden_call",), "RenewPermit", _renew_revoked),
            Lack("opens one of three", ("missing_call",), "GetPermit", _other_permit),
            Lack("does not ask for the badge", ("missing_question",), "disabl", _badge),
            Lack("denies without a look", ("wrong_statement", "missing_call"), "", _denied),
        ),
    ),
    LackDomain(
        "buecherei",
        BUECHEREI,
        (
            Lack("renews unread", ("missing_call",), "renew_loan", _unread),
            Lack("looks again and again", ("repetition",), "", _again),
            Lack("invents a title", ("wrong_value",), "title_id", _invented),
        ),
    ),
)
