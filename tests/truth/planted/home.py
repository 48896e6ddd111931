"""A house: one tool for every service, things named `kind.place`, states as JSON with attributes."""

from __future__ import annotations

from tests.truth.planted.domain import Domain, Run, Say, agent, call, user, want
from tests.truth.planted.lacks import Lack, LackDomain

POLICY = """You are the voice of the house at Birch Road. Everything is done with `call_service`.

House rules:
* The front door is unlocked only for somebody who has said the house code. Ask for it.
* No heating in a room whose window is open (the sensor's state is "on" then); say so instead.
* Thermostats count in degrees Celsius. Nothing above 24.
* Check that a cover has really moved before you say so.
* If somebody speaks of several rooms, all of them are meant.
* Use only things that `list_entities` shows.
"""

ROOMS = ("kitchen", "study", "nursery", "attic", "hall", "cellar", "library", "porch")


def _ask(number: int, text: str) -> Say:
    return user((text, f"Hey house, {text}", f"{text} please")[number % 3])


def _state(entity: str, state: str, **attributes: object) -> Say:
    shown = {
        "entity_id": entity,
        "state": state,
        "attributes": attributes,
        "last_changed": "2046-01-05T06:10",
    }
    return call("get_state", shown, entity_id=entity)


def _service(domain: str, service: str, entity: str, result: object = None, **data: object) -> Say:
    arguments: dict[str, object] = {"domain": domain, "service": service, "target": {"entity_id": entity}}
    return call(
        "call_service",
        result or {"success": True, "context": f"c-{entity}"},
        **arguments,
        **({"service_data": data} if data else {}),
    )


def _weather(number: int, shown: bool) -> list[Say]:
    """Do what goes with passing and decides nothing."""
    return [_state("weather.home", "cloudy", temperature=number)] if shown == (number % 5 != 0) else []


def _heat(number: int, shown: bool) -> list[Say]:
    room = ROOMS[number // 2 % 8]
    opened = number // 2 % 4 != 3
    start = [
        _ask(number, f"make the {room} {19 + number % 4} degrees"),
        *_weather(number, shown),
        _state(f"binary_sensor.{room}_window", "on" if opened else "off", device_class="window"),
    ]
    if shown and opened:
        return [*start, agent(f"The window in the {room} is open, so I do not heat.")]
    heat = _service("climate", "set_temperature", f"climate.{room}", temperature=19 + number % 4)
    return [*start, heat, agent("It is getting warm.")]


def _unlock(number: int, shown: bool) -> list[Say]:
    code = f"{4100 + 7 * number}"
    asked = [agent("What is the house code?"), user(code)]
    data = {"code": code} if shown else {"code": "0000"}
    return [
        _ask(number, "open the front door, I am outside with bags"),
        *_weather(number, shown),
        *(asked if shown else []),
        _service("lock", "unlock", "lock.front_door", **data),
        agent("It is open."),
    ]


def _fahrenheit(number: int, shown: bool) -> list[Say]:
    room = ROOMS[number // 2 % 8]
    warm = (64, 66, 68, 70)[number // 2 % 4]
    value = round((warm - 32) * 5 / 9) if shown else warm
    return [
        _ask(number, f"I'd like {warm} Fahrenheit in the {room}"),
        *_weather(number, shown),
        _state(f"binary_sensor.{room}_window", "off", device_class="window"),
        _service("climate", "set_temperature", f"climate.{room}", temperature=value),
        agent("It is set."),
    ]


def _cover(number: int, shown: bool) -> list[Say]:
    room = ROOMS[number // 2 % 8]
    return [
        _ask(number, f"close the blinds in the {room}"),
        *_weather(number, shown),
        _service("cover", "close_cover", f"cover.{room}"),
        *([_state(f"cover.{room}", "closed", current_position=0)] if shown else []),
        agent("The blinds are closed."),
    ]


def _rooms(number: int, shown: bool) -> list[Say]:
    rooms = [ROOMS[(number // 2 + k) % 8] for k in range(3)]
    return [
        _ask(number, f"lights off in the {rooms[0]}, the {rooms[1]} and the {rooms[2]}"),
        *_weather(number, shown),
        *(
            _service("light", "turn_off", f"light.{room}")
            for room in (rooms if shown else rooms[: 1 + number % 2])
        ),
        agent("The lights are off."),
    ]


def _silent(number: int, shown: bool) -> list[Say]:
    room = ROOMS[number // 2 % 8]
    no = {"success": False, "error": {"code": "invalid_mode", "message": f"fan.{room} supports low and high"}}
    return [
        _ask(number, f"turn on the fan in the {room} a little"),
        *_weather(number, shown),
        _service("fan", "turn_on", f"fan.{room}", no, preset_mode="gentle"),
        *([_service("fan", "turn_on", f"fan.{room}", preset_mode="low")] if shown else []),
        agent("The fan is running."),
    ]


LACKS = LackDomain(
    "home",
    POLICY,
    (
        Lack("heats at an open window", ("forbidden_call",), "", _heat),
        Lack("unlocks without the code", ("wrong_value", "missing_call", "missing_question"), "", _unlock),
        Lack("takes Fahrenheit for Celsius", ("wrong_value", "forbidden_call"), "temperature", _fahrenheit),
        Lack("does not look at the blinds", ("missing_call", "unverified_result"), "", _cover),
        Lack("does some of the rooms", ("missing_call", "early_end"), "", _rooms),
        Lack("says it runs after an error", ("unhandled_error", "missing_call"), "", _silent),
    ),
)

TASKS = {
    1: (
        "You want the light in the attic on and the blinds in the study closed.",
        [
            want("call_service", domain="light", service="turn_on", target={"entity_id": "light.attic"}),
            want("call_service", domain="cover", service="close_cover", target={"entity_id": "cover.study"}),
        ],
    ),
    2: (
        "You want the study at 27 degrees.",
        [
            want(
                "call_service",
                domain="climate",
                service="set_temperature",
                target={"entity_id": "climate.study"},
                service_data={"temperature": 27},
            )
        ],
    ),
    3: (
        "You want the light in the attic on.",
        [
            want("call_service", domain="light", service="turn_on", target={"entity_id": "light.attic"}),
            want("call_service", domain="light", service="turn_off", target={"entity_id": "light.shed"}),
        ],
    ),
}
BOTH = user("Light on in the attic, and close the blinds in the study.")
LIGHT = _service("light", "turn_on", "light.attic")
BLINDS = (_service("cover", "close_cover", "cover.study"), _state("cover.study", "closed"))
BYE = user("Thanks.")
GONE = {
    "success": False,
    "error": {"code": "home_assistant_error", "message": "Zigbee coordinator not responding"},
}

RUNS = (
    Run(1, "", "passes", (BOTH, LIGHT, *BLINDS, agent("Done."), BYE)),
    Run(
        2,
        "ground_truth",
        "demands more than the rules allow",
        (user("Make the study 27 degrees."), agent("I do not go above 24."), user("Never mind.")),
    ),
    Run(
        3,
        "ground_truth",
        "demands a light that nobody speaks of",
        (user("Light on in the attic."), LIGHT, agent("Done."), BYE),
    ),
    Run(
        1,
        "user_simulator",
        "speaks of another room",
        (
            user("Light on in the nursery, and close the blinds in the study."),
            _service("light", "turn_on", "light.nursery"),
            *BLINDS,
            agent("Done."),
            BYE,
        ),
    ),
    Run(
        1,
        "user_simulator",
        "never speaks of the blinds",
        (user("Light on in the attic."), LIGHT, agent("Done. More?"), user("No thanks.")),
    ),
    Run(
        1,
        "user_simulator",
        "goes before anything happens",
        (BOTH, agent("Light in the attic and blinds in the study. Right?"), user("Yes.")),
    ),
    Run(
        1,
        "environment",
        "the radio does not answer",
        (
            BOTH,
            _service("light", "turn_on", "light.attic", GONE),
            _service("light", "turn_on", "light.attic", GONE),
            agent("The lamp does not react."),
            BYE,
        ),
    ),
    Run(
        1,
        "environment",
        "the thing is unavailable",
        (
            BOTH,
            LIGHT,
            _state("cover.study", "unavailable", restored=True),
            _service(
                "cover",
                "close_cover",
                "cover.study",
                {"success": False, "error": {"code": "timeout", "message": "Timeout waiting for device"}},
            ),
            agent("The blinds cannot be reached."),
            BYE,
        ),
    ),
    Run(
        1,
        "infrastructure",
        "a call is lost",
        (BOTH, LIGHT, agent("", completion_tokens=44)),
        stop="agent_error",
    ),
    Run(1, "agent", "forgets the blinds", (BOTH, LIGHT, agent("Done."), BYE)),
    Run(
        1,
        "agent",
        "turns on another light",
        (BOTH, _service("light", "turn_on", "light.hall"), *BLINDS, agent("Done."), BYE),
    ),
    Run(
        1,
        "agent",
        "is refused for a service that does not exist",
        (
            BOTH,
            _service(
                "light",
                "illuminate",
                "light.attic",
                {"success": False, "error": {"code": "not_found", "message": "Service illuminate not found"}},
            ),
            agent("It does not work."),
            BYE,
        ),
    ),
)

FAULTS = Domain("home", POLICY, TASKS, RUNS)
