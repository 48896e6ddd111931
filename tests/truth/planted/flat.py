"""A household played in text: one tool takes an order in words, and the answer describes what is seen."""

from __future__ import annotations

from tests.truth.planted.domain import Domain, Run, Say, agent, call, user, want
from tests.truth.planted.lacks import Lack, LackDomain

POLICY = """You are a robot in a flat. You act by short orders: go to X, open X, take X from Y, put X in Y,
clean X with Y, heat X with Y, look at X, close X, done.

- Open a closed thing before you take something out of it.
- Close the fridge again.
- Knives are never put in the drawer.
- Clean a thing in the sink before you put it on the table.
- If nothing happens, do something else.
- Say done when the task is complete, and not before.
"""

THINGS = ("mug", "plate", "bowl", "pan", "cup", "pot", "spoon", "jar")


def _task(number: int, text: str) -> Say:
    return user((f"Your task is to: {text}.", f"{text}.", f"Please {text}.")[number % 3])


def _act(order: str, seen: str) -> Say:
    return call("act", f"Obs: {seen}", action=order)


def _window(number: int, shown: bool) -> list[Say]:
    """Do what goes with passing and decides nothing."""
    return [_act("look at window 1", f"You see {number} birds.")] if shown == (number % 5 != 0) else []


DONE = _act("done", "The episode has ended.")


def _unclean(number: int, shown: bool) -> list[Say]:
    thing = f"{THINGS[number // 2 % 8]} {number % 3 + 1}"
    return [
        _task(number, f"put a {thing.split()[0]} on the table"),
        *_window(number, shown),
        _act("go to counter 1", f"On the counter 1, you see a {thing}."),
        _act(f"take {thing} from counter 1", f"You pick up the {thing}."),
        *([_act(f"clean {thing} with sink 1", f"You clean the {thing}.")] if shown else []),
        _act(f"put {thing} on table 1", f"You put the {thing} on the table 1."),
        DONE,
    ]


def _fridge(number: int, shown: bool) -> list[Say]:
    thing = f"{THINGS[number // 2 % 8]} {number % 3 + 1}"
    return [
        _task(number, f"bring the {thing.split()[0]} from the fridge to the desk"),
        *_window(number, shown),
        _act("go to fridge 1", "The fridge 1 is closed."),
        _act("open fridge 1", f"You open the fridge 1. In it, you see a {thing}."),
        _act(f"take {thing} from fridge 1", f"You pick up the {thing}."),
        *([_act("close fridge 1", "You close the fridge 1.")] if shown else []),
        _act(f"put {thing} on desk 1", f"You put the {thing} on the desk 1."),
        DONE,
    ]


def _knife(number: int, shown: bool) -> list[Say]:
    place = "block 1" if shown else "drawer 1"
    return [
        _task(number, f"tidy away the knife of place {number // 2}"),
        *_window(number, shown),
        _act(f"take knife 1 from place {number // 2}", "You pick up the knife 1."),
        _act(f"put knife 1 in {place}", f"You put the knife 1 in the {place}."),
        DONE,
    ]


def _stuck(number: int, shown: bool) -> list[Say]:
    thing = f"{THINGS[number // 2 % 8]} {number % 3 + 1}"
    no = _act(f"take {thing} from cabinet 2", "Nothing happens.")
    yes = [
        _act("open cabinet 2", f"You open the cabinet 2. In it, you see a {thing}."),
        _act(f"take {thing} from cabinet 2", f"You pick up the {thing}."),
        _act(f"put {thing} on shelf 1", f"You put the {thing} on the shelf 1."),
        DONE,
    ]
    return [
        _task(number, f"put the {thing.split()[0]} of cabinet 2 on the shelf"),
        *_window(number, shown),
        _act("go to cabinet 2", "The cabinet 2 is closed."),
        no,
        *(yes if shown else [no] * (3 + number % 2)),
    ]


def _half(number: int, shown: bool) -> list[Say]:
    thing = THINGS[number // 2 % 8]
    say = [
        _act(f"take {thing} {k} from counter 1", f"You pick up the {thing} {k}.")
        if not part
        else _act(f"put {thing} {k} in box 1", f"You put the {thing} {k} in the box 1.")
        for k in ((1, 2) if shown else (1,))
        for part in (0, 1)
    ]
    return [
        _task(number, f"put two {thing}s in the box"),
        *_window(number, shown),
        _act("go to counter 1", f"On the counter 1, you see a {thing} 1 and a {thing} 2."),
        *say,
        DONE,
    ]


LACKS = LackDomain(
    "flat",
    POLICY,
    (
        Lack("puts it down unclean", ("missing_call",), "", _unclean),
        Lack("leaves the fridge open", ("missing_call", "early_end"), "", _fridge),
        Lack("puts a knife in the drawer", ("forbidden_call", "wrong_value"), "", _knife),
        Lack("tries the same again", ("repetition", "unhandled_error"), "", _stuck),
        Lack("brings one of two", ("early_end", "missing_call"), "", _half),
    ),
)

TASKS = {
    1: (
        "Have mug 1 put on desk 1 and cup 2 put on shelf 1.",
        [want("act", action="put mug 1 on desk 1"), want("act", action="put cup 2 on shelf 1")],
    ),
    2: ("Have knife 1 put in drawer 1.", [want("act", action="put knife 1 in drawer 1")]),
}
BOTH = user("Put mug 1 on desk 1 and cup 2 on shelf 1.")
MUG = (
    _act("take mug 1 from counter 1", "You pick up the mug 1."),
    _act("put mug 1 on desk 1", "You put the mug 1 on the desk 1."),
)
CUP = (
    _act("take cup 2 from counter 1", "You pick up the cup 2."),
    _act("put cup 2 on shelf 1", "You put the cup 2 on the shelf 1."),
)

RUNS = (
    Run(1, "", "passes", (BOTH, *MUG, *CUP, DONE)),
    Run(
        2,
        "ground_truth",
        "demands what the rules forbid",
        (user("Put knife 1 in drawer 1."), agent("Knives are never put in the drawer."), DONE),
    ),
    Run(1, "user_simulator", "never speaks of the cup", (user("Put mug 1 on desk 1."), *MUG, DONE)),
    Run(
        1,
        "user_simulator",
        "names another shelf",
        (
            user("Put mug 1 on desk 1 and cup 2 on shelf 3."),
            *MUG,
            CUP[0],
            _act("put cup 2 on shelf 3", "You put the cup 2 on the shelf 3."),
            DONE,
        ),
    ),
    Run(
        1,
        "environment",
        "the simulator breaks",
        (
            BOTH,
            *MUG,
            call("act", "Obs: RuntimeError: simulator process has died", action="take cup 2 from counter 1"),
            agent("Nothing answers."),
        ),
    ),
    Run(
        1,
        "environment",
        "the server of the game is away",
        (
            BOTH,
            call("act", "ConnectionResetError: [Errno 104] Connection reset by peer", action="go to desk 1"),
            call("act", "ConnectionResetError: [Errno 104] Connection reset by peer", action="go to desk 1"),
            agent("Nothing answers."),
        ),
    ),
    Run(
        1,
        "infrastructure",
        "a call is lost",
        (BOTH, *MUG, agent("", completion_tokens=18)),
        stop="agent_error",
    ),
    Run(1, "agent", "forgets the cup", (BOTH, *MUG, DONE)),
    Run(
        1,
        "agent",
        "takes another shelf",
        (BOTH, *MUG, CUP[0], _act("put cup 2 on shelf 2", "You put the cup 2 on the shelf 2."), DONE),
    ),
)

FAULTS = Domain("flat", POLICY, TASKS, RUNS)
