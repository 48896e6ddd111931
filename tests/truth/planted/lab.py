"""A robot in a laboratory: answers in XML, orders instead of requests, a policy of imperatives."""

from __future__ import annotations

from tests.truth.planted.domain import Domain, Run, Say, agent, call, user, want
from tests.truth.planted.lacks import Lack, LackDomain

POLICY = """STANDARD OPERATING PROCEDURE 7 (robot bench 2). Date: 2047-10-08.

Calibrate the reader before the first assay of a run.
Do not start an assay with a sample that has expired. Discard it.
Log every dispense.
Do not dispense more than 900 microlitres at a time.
If the robot refuses a move, change the move; do not send it again.
Do not assay samples whose hold is set.
"""

PROGRAMS = ("elisa", "glucose", "lipid", "ph", "crp", "ferritin", "sodium", "zinc")


def _order(number: int, text: str) -> Say:
    return user((f"ORDER {900 + number}: {text}", f"Next: {text}", f"{text} Report when done.")[number % 3])


def _xml(name: str, **parts: object) -> str:
    inner = "".join(f"<{key}>{value}</{key}>" for key, value in parts.items())
    return f"<{name}>{inner}</{name}>"


def _sample(name: str, expires: str = "2047-12-01", hold: str = "none") -> Say:
    return call("sample_read", _xml("sample", id=name, expires=expires, hold=hold), sample=name)


def _assay(number: int, name: str) -> Say:
    program = PROGRAMS[number // 2 % 8]
    return call("assay_start", _xml("ack", run=f"R{number}00", program=program), sample=name, program=program)


CALIBRATE = call("reader_calibrate", _xml("ack", state="ok"))


def _uncalibrated(number: int, shown: bool) -> list[Say]:
    name = f"S-{1200 + number}"
    return [
        _order(number, f"assay {name} with {PROGRAMS[number // 2 % 8]}."),
        _sample(name),
        *([CALIBRATE] if shown else []),
        _assay(number, name),
        agent("Started."),
    ]


def _expired(number: int, shown: bool) -> list[Say]:
    name, case = f"S-{2200 + number}", number // 2 % 4
    expires = ("2047-09-30", "2047-02-11", "2047-10-01", "2048-01-05")[case]
    start = [
        _order(number, f"assay {name} with {PROGRAMS[number // 2 % 8]}."),
        CALIBRATE,
        _sample(name, expires),
    ]
    if shown and case < 3:
        gone = call("sample_discard", _xml("ack", discarded=name), sample=name)
        return [*start, gone, agent(f"{name} had expired and is discarded.")]
    return [*start, _assay(number, name), agent("Started.")]


def _dispense(name: str, volume: int, result: str = "") -> Say:
    return call("robot_dispense", result or _xml("ack", well="B2"), sample=name, volume_ul=volume)


def _unlogged(number: int, shown: bool) -> list[Say]:
    name, volume = f"S-{3200 + number}", 120 + 10 * number
    log = call("journal_log", _xml("ack", line=number), sample=name, note=f"{volume} ul")
    return [
        _order(number, f"dispense {volume} microlitres of {name}."),
        _dispense(name, volume),
        *([log] if shown else []),
        agent("Dispensed."),
    ]


def _too_much(number: int, shown: bool) -> list[Say]:
    name, volume = f"S-{4200 + number}", 1000 + 40 * number
    half = volume // 2
    log = call("journal_log", _xml("ack", line=number), sample=name, note=f"{volume} ul")
    made = [_dispense(name, half), _dispense(name, volume - half)] if shown else [_dispense(name, volume)]
    return [_order(number, f"dispense {volume} microlitres of {name}."), *made, log, agent("Dispensed.")]


def _again(number: int, shown: bool) -> list[Say]:
    name, volume = f"S-{5200 + number}", 310 + number
    no = _dispense(name, volume, _xml("refused", reason="arm would collide"))
    move = call("robot_move", _xml("ack", at="rail 2"), position="rail 2")
    log = call("journal_log", _xml("ack", line=number), sample=name, note=f"{volume} ul")
    start = _order(number, f"dispense {volume} microlitres of {name}.")
    if shown:
        return [start, no, move, _dispense(name, volume), log, agent("Dispensed.")]
    return [start, *[no] * (3 + number % 2), agent("It cannot be dispensed.")]


LACKS = LackDomain(
    "lab",
    POLICY,
    (
        Lack("assays uncalibrated", ("missing_call",), "reader_calibrate", _uncalibrated),
        Lack("assays what has expired", ("forbidden_call",), "assay_start", _expired),
        Lack("logs nothing", ("missing_call",), "journal_log", _unlogged),
        Lack("dispenses too much at once", ("forbidden_call", "wrong_value"), "robot_dispense", _too_much),
        Lack("sends a refused move again", ("repetition", "unhandled_error"), "", _again),
    ),
)

TASKS = {
    1: (
        "You run the bench. Have 300 microlitres of S-9001 dispensed and S-9002 assayed with lipid.",
        [
            want("robot_dispense", sample="S-9001", volume_ul=300),
            want("assay_start", sample="S-9002", program="lipid"),
        ],
    ),
    2: (
        "You run the bench. Have S-9003 assayed with lipid.",
        [want("assay_start", sample="S-9003", program="lipid")],
    ),
    3: (
        "You run the bench. Have 1500 microlitres of S-9001 dispensed.",
        [want("robot_dispense", sample="S-9001", volume_ul=1500)],
    ),
}
BOTH = user("Dispense 300 microlitres of S-9001, then assay S-9002 with lipid.")
FIRST = (_dispense("S-9001", 300), call("journal_log", _xml("ack", line=1), sample="S-9001", note="300 ul"))
SECOND = (
    CALIBRATE,
    _sample("S-9002"),
    call("assay_start", _xml("ack", run="R1"), sample="S-9002", program="lipid"),
)
BYE = user("Shift over.")

RUNS = (
    Run(1, "", "passes", (BOTH, *FIRST, *SECOND, agent("Both done."), BYE)),
    Run(
        2,
        "ground_truth",
        "demands to assay what has expired",
        (
            user("Assay S-9003 with lipid."),
            _sample("S-9003", "2047-08-01"),
            agent("It has expired, I must not assay it."),
            BYE,
        ),
    ),
    Run(
        3,
        "ground_truth",
        "demands more than may be dispensed",
        (user("Dispense 1500 microlitres of S-9001."), agent("More than 900 at a time is not allowed."), BYE),
    ),
    Run(
        1,
        "user_simulator",
        "says another volume",
        (
            user("Dispense 350 microlitres of S-9001, then assay S-9002 with lipid."),
            _dispense("S-9001", 350),
            call("journal_log", _xml("ack", line=1), sample="S-9001", note="350 ul"),
            *SECOND,
            agent("Both done."),
            BYE,
        ),
    ),
    Run(
        1,
        "user_simulator",
        "never orders the assay",
        (
            user("Dispense 300 microlitres of S-9001."),
            *FIRST,
            agent("Done. Anything else?"),
            user("No. Shift over."),
        ),
    ),
    Run(
        1,
        "environment",
        "the robot's controller is not there",
        (
            BOTH,
            _dispense(
                "S-9001",
                300,
                _xml("error", kind="controller_offline", text="no heartbeat from arm controller"),
            ),
            _dispense(
                "S-9001",
                300,
                _xml("error", kind="controller_offline", text="no heartbeat from arm controller"),
            ),
            agent("The robot does not react."),
            BYE,
        ),
    ),
    Run(
        1,
        "environment",
        "the journal's database is locked",
        (
            BOTH,
            _dispense("S-9001", 300),
            call(
                "journal_log",
                _xml("error", text="sqlite3.OperationalError: database is locked"),
                sample="S-9001",
                note="300 ul",
            ),
            agent("I cannot log and stop here."),
            BYE,
        ),
    ),
    Run(
        1,
        "infrastructure",
        "a call is lost",
        (BOTH, *FIRST, agent("", completion_tokens=51)),
        stop="agent_error",
    ),
    Run(1, "agent", "forgets the assay", (BOTH, *FIRST, agent("Dispensed."), BYE)),
    Run(
        1,
        "agent",
        "mixes up the samples",
        (
            BOTH,
            *FIRST,
            CALIBRATE,
            _sample("S-9020"),
            call("assay_start", _xml("ack", run="R1"), sample="S-9020", program="lipid"),
            agent("Both done."),
            BYE,
        ),
    ),
    Run(
        1,
        "agent",
        "is refused for its own volume and stops",
        (
            BOTH,
            _dispense("S-9001", 30000, _xml("refused", reason="volume out of range")),
            agent("It does not work."),
            BYE,
        ),
    ),
)

FAULTS = Domain("lab", POLICY, TASKS, RUNS)
