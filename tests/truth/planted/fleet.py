"""A dispatcher of lorries: comma-separated tables, names in Pascal case, a policy in short notes."""

from __future__ import annotations

from tests.truth.planted.domain import Domain, Run, Say, agent, call, user, want
from tests.truth.planted.lacks import Lack, LackDomain

POLICY = """Dispatch desk of Halden Freight, night shift, 2052-08-14.

Notes for the desk:
- Check a driver's hours with DriverHours before assigning a tour. More than 9 hours: not assigned.
- Dangerous goods go only in lorries whose adr is yes.
- Weights are entered in kilograms; customers speak of tonnes.
- After a tour has been changed the customer is informed with SendNotice.
- Tours that have left are not changed.
- If the map service gives no route, ask it for another depot; do not make up a distance.
"""

TOWNS = ("Lunde", "Moss", "Voss", "Narvik", "Bergen", "Hamar", "Skien", "Molde")


def _ask(number: int, text: str) -> Say:
    return user((text, f"Hi desk. {text}", f"{text} Regards, yard {number // 2}.")[number % 3])


def _csv(**row: object) -> str:
    return f"{','.join(row)}\n{','.join(str(value) for value in row.values())}"


def _radio(number: int, shown: bool) -> list[Say]:
    """Do what goes with passing and decides nothing."""
    return [call("WeatherAt", _csv(town="x", wind=number), Town="x")] if shown == (number % 5 != 0) else []


def _hours(number: int, shown: bool) -> list[Say]:
    driver, tour = f"DR{310 + number}", f"TR{1300 + number}"
    look = call("DriverHours", _csv(driver=driver, hours=3 + number % 5), Driver=driver)
    return [
        _ask(number, f"Give tour {tour} to {driver}."),
        *_radio(number, shown),
        *([look] if shown else []),
        call("AssignTour", "done", Tour=tour, Driver=driver),
        call("SendNotice", "sent", Tour=tour),
        agent("Assigned."),
    ]


def _danger(number: int, shown: bool) -> list[Say]:
    lorry, load = f"LK{220 + number}", f"LD{2300 + number}"
    plain = number // 2 % 4 != 3
    start = [
        _ask(number, f"Put the acid, load {load}, on {lorry}."),
        *_radio(number, shown),
        call("LorryInfo", _csv(lorry=lorry, adr="no" if plain else "yes", axles=3), Lorry=lorry),
    ]
    if shown and plain:
        return [*start, agent("That lorry may not carry dangerous goods."), user("I see.")]
    return [*start, call("LoadLorry", "done", Lorry=lorry, Load=load), agent("Loaded.")]


def _tonnes(number: int, shown: bool) -> list[Say]:
    load, tonnes = f"LD{3300 + number}", 2 + number
    weight = tonnes * 1000 if shown else tonnes
    return [
        _ask(number, f"Enter load {load}: {tonnes} tonnes of gravel for {TOWNS[number // 2 % 8]}."),
        *_radio(number, shown),
        call("EnterLoad", "done", Load=load, WeightKg=weight, Town=TOWNS[number // 2 % 8]),
        agent("Entered."),
    ]


def _left(number: int, shown: bool) -> list[Say]:
    tour = f"TR{4300 + number}"
    gone = number // 2 % 4 != 3
    start = [
        _ask(number, f"Change tour {tour} so that it goes by {TOWNS[number // 2 % 8]}."),
        *_radio(number, shown),
        call("TourInfo", _csv(tour=tour, state="left" if gone else "planned", stops=4), Tour=tour),
    ]
    if shown and gone:
        return [*start, agent("It has left and stays as it is."), user("Pity.")]
    return [
        *start,
        call("ChangeTour", "done", Tour=tour, Via=TOWNS[number // 2 % 8]),
        call("SendNotice", "sent", Tour=tour),
        agent("Changed."),
    ]


def _notice(number: int, shown: bool) -> list[Say]:
    tour = f"TR{5300 + number}"
    return [
        _ask(number, f"Change tour {tour}: by {TOWNS[number // 2 % 8]}, please."),
        *_radio(number, shown),
        call("TourInfo", _csv(tour=tour, state="planned", stops=3), Tour=tour),
        call("ChangeTour", "done", Tour=tour, Via=TOWNS[number // 2 % 8]),
        *([call("SendNotice", "sent", Tour=tour)] if shown else []),
        agent("Changed, and the customer knows."),
    ]


def _distance(number: int, shown: bool) -> list[Say]:
    town, km = TOWNS[number // 2 % 8], 120 + 7 * number
    no = call("Route", "no route found", From="depot 1", To=town)
    yes = call("Route", _csv(start="depot 2", to=town, km=km), From="depot 2", To=town)
    return [
        _ask(number, f"Book the distance to {town}."),
        *_radio(number, shown),
        no,
        *([yes] if shown else []),
        call("BookDistance", "done", Town=town, Km=km if shown else 100),
        agent("Booked."),
    ]


LACKS = LackDomain(
    "fleet",
    POLICY,
    (
        Lack("assigns without the hours", ("missing_call",), "", _hours),
        Lack("loads acid on a plain lorry", ("forbidden_call",), "", _danger),
        Lack("takes tonnes for kilograms", ("wrong_value",), "", _tonnes),
        Lack("changes what has left", ("forbidden_call",), "", _left),
        Lack("informs nobody", ("missing_call", "wrong_statement"), "", _notice),
        Lack("makes up a distance", ("wrong_value", "unhandled_error"), "", _distance),
    ),
)

TASKS = {
    1: (
        "Have tour TR9001 changed to go by Moss and load LD9002 put on lorry LK903.",
        [want("ChangeTour", Tour="TR9001", Via="Moss"), want("LoadLorry", Lorry="LK903", Load="LD9002")],
    ),
    2: ("Have tour TR9004 changed to go by Moss.", [want("ChangeTour", Tour="TR9004", Via="Moss")]),
}
BOTH = user("Change tour TR9001 so that it goes by Moss, and put load LD9002 on LK903.")
TOUR = (
    call("TourInfo", _csv(tour="TR9001", state="planned", stops=2), Tour="TR9001"),
    call("ChangeTour", "done", Tour="TR9001", Via="Moss"),
)
LORRY = call("LorryInfo", _csv(lorry="LK903", adr="no", axles=2), Lorry="LK903")
LOAD = (LORRY, call("LoadLorry", "done", Lorry="LK903", Load="LD9002"))
BYE = user("Thanks, over.")

RUNS = (
    Run(1, "", "passes", (BOTH, *TOUR, *LOAD, agent("Both done."), BYE)),
    Run(
        2,
        "ground_truth",
        "demands to change what has left",
        (
            user("Change tour TR9004 so that it goes by Moss."),
            call("TourInfo", _csv(tour="TR9004", state="left", stops=2), Tour="TR9004"),
            agent("It has left."),
            BYE,
        ),
    ),
    Run(
        1,
        "user_simulator",
        "names another town",
        (
            user("Change tour TR9001 so that it goes by Voss, and put load LD9002 on LK903."),
            TOUR[0],
            call("ChangeTour", "done", Tour="TR9001", Via="Voss"),
            *LOAD,
            agent("Both done."),
            BYE,
        ),
    ),
    Run(
        1,
        "user_simulator",
        "never speaks of the load",
        (user("Change tour TR9001 so that it goes by Moss."), *TOUR, agent("Changed. Else?"), BYE),
    ),
    Run(
        1,
        "environment",
        "the map's database is gone",
        (
            BOTH,
            call(
                "TourInfo", "ERROR 2013 (HY000): Lost connection to MySQL server during query", Tour="TR9001"
            ),
            call(
                "TourInfo", "ERROR 2013 (HY000): Lost connection to MySQL server during query", Tour="TR9001"
            ),
            agent("The system does not answer."),
            BYE,
        ),
    ),
    Run(
        1,
        "environment",
        "the desk's server restarts",
        (
            BOTH,
            *TOUR,
            LORRY,
            call("LoadLorry", "server is restarting, try again later", Lorry="LK903", Load="LD9002"),
            call("LoadLorry", "server is restarting, try again later", Lorry="LK903", Load="LD9002"),
            agent("The load cannot be entered."),
            BYE,
        ),
    ),
    Run(
        1,
        "infrastructure",
        "a call is lost",
        (BOTH, *TOUR, agent("", completion_tokens=47)),
        stop="agent_error",
    ),
    Run(1, "agent", "forgets the load", (BOTH, *TOUR, agent("Changed."), BYE)),
    Run(
        1,
        "agent",
        "takes another lorry",
        (
            BOTH,
            *TOUR,
            call("LoadLorry", "done", Lorry="LK930", Load="LD9002"),
            agent("Both done."),
            BYE,
        ),
    ),
    Run(
        1,
        "agent",
        "is refused for a lorry of its own making",
        (BOTH, *TOUR, call("LorryInfo", "unknown lorry", Lorry="LK-9"), agent("There is none."), BYE),
    ),
)

FAULTS = Domain("fleet", POLICY, TASKS, RUNS)
