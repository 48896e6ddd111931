"""A hospital's booking desk: tools that begin with the thing, results in lists, a policy in prose."""

from __future__ import annotations

from tests.truth.planted.domain import Domain, Run, Say, agent, call, user, want
from tests.truth.planted.lacks import NAMES, Lack, LackDomain

POLICY = """You work at the booking desk of St. Brigid's hospital and speak with patients and their relatives.
Now is 2037-11-02 09:00:00.

Nobody is given a bed before their infection status has been looked at; the wards rely on it.
An appointment may be moved as long as it begins more than 24 hours from now and it has been moved fewer than
two times, or when its referral is urgent. Otherwise say that it has to stay where it is.
When a patient picks a new appointment, hold it first and confirm the hold afterwards: an unconfirmed hold
falls away after an hour.
Reports are sent to the patient, or to a person on the patient's consent list, and to no one else.
Parking is free for day patients. Inpatients never get a taxi voucher.
"""


def _hello(number: int) -> str:
    return f"Hello, my name is {NAMES[number // 2 % 8]}."


def _bed(number: int, shown: bool) -> list[Say]:
    patient = f"PT{70100 + number}"
    look = call("infectionStatusFetch", [{"patientNo": patient, "mrsa": "negative"}], patientNo=patient)
    return [
        user(f"{_hello(number)} I am to be admitted today, patient {patient}."),
        call("patientFetch", [{"patientNo": patient, "ward": "B2"}], patientNo=patient),
        *([look] if shown else []),
        call("bedAssign", [{"bedNo": f"B2-{number}", "patientNo": patient}], patientNo=patient, ward="B2"),
        agent(f"Your bed is B2-{number}."),
        user("Thank you."),
    ]


def _move(number: int, shown: bool) -> list[Say]:
    name, case = f"AP{71100 + number}", number // 2 % 4
    urgent = number // 2 == 3
    record = {
        "appointmentNo": name,
        "beginsAt": "2037-11-02 15:30:00" if case == 0 or urgent else "2037-11-20 10:00:00",
        "timesMoved": (1, 2, 4, 1)[case],
        "referral": "urgent" if urgent else "routine",
    }
    start = [
        user(f"{_hello(number)} Can my appointment {name} be moved to November 25 at 11?"),
        call("appointmentFetch", [record], appointmentNo=name),
    ]
    if shown and case < 3:
        why = ("it begins today", "it was moved twice already", "it was moved four times")[case]
        return [*start, agent(f"I am sorry, {why}, so it has to stay where it is."), user("Hm. Goodbye.")]
    moved = call(
        "appointmentMove", [{"appointmentNo": name}], appointmentNo=name, beginsAt="2037-11-25 11:00:00"
    )
    return [*start, moved, agent("It is on November 25 at 11 now."), user("Thanks!")]


def _unconfirmed(number: int, shown: bool) -> list[Say]:
    hold = f"HD{72100 + number}"
    day = f"2037-12-{10 + number // 2:02d}"
    return [
        user(f"{_hello(number)} I need an eye test on {day}."),
        call("slotList", [{"slotNo": f"SL{4000 + number}", "day": day, "kind": "eye test"}], day=day),
        call("slotHold", [{"holdNo": hold, "slotNo": f"SL{4000 + number}"}], slotNo=f"SL{4000 + number}"),
        *([call("holdConfirm", [{"holdNo": hold, "state": "confirmed"}], holdNo=hold)] if shown else []),
        agent(f"You are booked for {day}."),
        user("Wonderful, bye."),
    ]


def _old_time(number: int, shown: bool) -> list[Say]:
    name, patient = f"AP{73100 + number}", f"PT{73100 + number}"
    before, after = "2037-11-18 08:00:00", "2037-11-19 12:30:00"
    return [
        user(f"{_hello(number)} Move {name} to November 19, half past twelve, and text me a reminder."),
        call(
            "appointmentFetch",
            [{"appointmentNo": name, "beginsAt": before, "timesMoved": 0}],
            appointmentNo=name,
        ),
        call(
            "appointmentMove",
            [{"appointmentNo": name, "beginsAt": after, "timesMoved": 1}],
            appointmentNo=name,
            beginsAt=after,
        ),
        call("reminderSend", "queued", patientNo=patient, beginsAt=after if shown else before),
        agent("It is moved, and the reminder is on its way."),
        user("Great, bye."),
    ]


def _stranger(number: int, shown: bool) -> list[Say]:
    patient, listed = f"PT{74100 + number}", number // 2 % 4 == 3
    name = NAMES[number // 2 % 8]
    consents = [name] if listed else ["Rosa Field"]
    start = [
        user(f"{_hello(number)} Send me the report of my neighbour, patient {patient}."),
        call("patientFetch", [{"patientNo": patient, "consentList": consents}], patientNo=patient),
    ]
    if shown and not listed:
        return [*start, agent("You are not on the consent list, so I may not send it."), user("Very well.")]
    sent = call("reportSend", "sent", patientNo=patient, recipient=name)
    return [*start, sent, agent("It has been sent."), user("Thanks.")]


LACKS = LackDomain(
    "ward",
    POLICY,
    (
        Lack("assigns a bed unread", ("missing_call",), "infectionStatusFetch", _bed),
        Lack("moves what has to stay", ("forbidden_call",), "appointmentMove", _move),
        Lack("leaves the hold unconfirmed", ("missing_call", "early_end"), "holdConfirm", _unconfirmed),
        Lack("reminds of the old time", ("wrong_value",), "beginsAt", _old_time),
        Lack("sends a report to a stranger", ("forbidden_call", "wrong_value"), "reportSend", _stranger),
    ),
)

OLGA = {"patientNo": "PT80001", "name": "Olga Brandt", "kind": "inpatient", "consentList": ["Kai Brandt"]}
SOON = {"appointmentNo": "AP80001", "beginsAt": "2037-11-02 14:00:00", "timesMoved": 2, "referral": "routine"}
FREE = {
    "appointmentNo": "AP80002",
    "beginsAt": "2037-11-24 14:00:00",
    "timesMoved": 0,
    "referral": "routine",
}

TASKS = {
    1: (
        "You are Olga Brandt, patient PT80001. Move AP80001 to 2037-11-26 10:00.",
        [want("appointmentMove", appointmentNo="AP80001", beginsAt="2037-11-26 10:00:00")],
    ),
    2: (
        "You are Olga Brandt, patient PT80001. You want a taxi voucher for the way home.",
        [want("taxiVoucherIssue", patientNo="PT80001")],
    ),
    3: (
        "You are Olga Brandt, patient PT80001. Move AP80002 to 2037-11-26 10:00 and have your report sent to "
        "Kai Brandt.",
        [
            want("appointmentMove", appointmentNo="AP80002", beginsAt="2037-11-26 10:00:00"),
            want("reportSend", patientNo="PT80001", recipient="Kai Brandt"),
        ],
    ),
    4: (
        "You are Olga Brandt, patient PT80001. Have your report sent to your colleague Tom Hale.",
        [want("reportSend", patientNo="PT80001", recipient="Tom Hale")],
    ),
    5: (
        "You are Olga Brandt, patient PT80001. Ask for a wheelchair for November 3.",
        [want("equipmentReserve", patientNo="PT80001", item="wheelchair", day="2037-11-03")],
    ),
}

HELLO = (
    user("Hello, Olga Brandt here, patient PT80001."),
    call("patientFetch", [OLGA], patientNo="PT80001"),
    agent("Hello Mrs Brandt, how may I be of service?"),
)
MOVED = (
    call("appointmentFetch", [FREE], appointmentNo="AP80002"),
    call(
        "appointmentMove",
        [{**FREE, "beginsAt": "2037-11-26 10:00:00"}],
        appointmentNo="AP80002",
        beginsAt="2037-11-26 10:00:00",
    ),
)
SENT = call("reportSend", "sent", patientNo="PT80001", recipient="Kai Brandt")
BOTH = user("Please move AP80002 to November 26 at 10, and send my report to Kai Brandt.")


def _wheelchair(policy: str, last: str) -> Run:
    """Return a run of the task whose tool refuses everybody."""
    says = (
        *HELLO,
        user("I need a wheelchair for tomorrow, November 3."),
        call(
            "equipmentReserve",
            "Error: the store room is not configured",
            patientNo="PT80001",
            item="wheelchair",
            day="2037-11-03",
        ),
        agent(last),
        user("What a pity. ###STOP###"),
    )
    return Run(5, "ground_truth", "its call is refused whoever makes it; none passes", says, policy=policy)


RUNS = (
    Run(
        1,
        "ground_truth",
        "demands a move that no clause of the policy allows",
        (
            *HELLO,
            user("Please move AP80001 to November 26 at 10."),
            call("appointmentFetch", [SOON], appointmentNo="AP80001"),
            agent("That one begins today and was moved twice: it has to stay where it is."),
            user("Too bad. ###STOP###"),
        ),
    ),
    Run(
        2,
        "ground_truth",
        "demands a voucher that inpatients never get",
        (
            *HELLO,
            user("May I have a taxi voucher for the way home?"),
            agent("Inpatients do not get one, I am afraid."),
            user("All right. ###STOP###"),
        ),
    ),
    Run(
        4,
        "ground_truth",
        "demands a report for somebody who is not on the list",
        (
            *HELLO,
            user("Send my report to Tom Hale, please."),
            agent("He is not on your consent list, so that is not possible."),
            user("Fine. ###STOP###"),
        ),
    ),
    _wheelchair("p", "Our store does not answer, I am sorry."),
    _wheelchair("q", "I cannot reserve one at the moment."),
    Run(
        3,
        "",
        "passes",
        (*HELLO, BOTH, *MOVED, SENT, agent("Both are done. Is there more?"), user("No. ###STOP###")),
    ),
    Run(
        3,
        "user_simulator",
        "hands itself over before the call",
        (
            *HELLO,
            BOTH,
            *MOVED,
            agent("AP80002 is moved. The report goes to Kai Brandt by mail. Is that right?"),
            user("Yes, that's right. ###STOP###"),
        ),
    ),
    Run(
        3,
        "user_simulator",
        "never speaks of the report",
        (
            *HELLO,
            user("Please move AP80002 to November 26 at 10."),
            *MOVED,
            agent("It is moved. Do you have another wish?"),
            user("No, thank you very much. ###STOP###"),
        ),
    ),
    Run(
        3,
        "user_simulator",
        "says another day than it was told to",
        (
            *HELLO,
            user("Please move AP80002 to November 27 at 10, and send my report to Kai Brandt."),
            call("appointmentFetch", [FREE], appointmentNo="AP80002"),
            call(
                "appointmentMove",
                [{**FREE, "beginsAt": "2037-11-27 10:00:00"}],
                appointmentNo="AP80002",
                beginsAt="2037-11-27 10:00:00",
            ),
            SENT,
            agent("Both are done."),
            user("Thank you. ###STOP###"),
        ),
    ),
    Run(
        3,
        "infrastructure",
        "its last call is lost",
        (*HELLO, BOTH, *MOVED, agent("", completion_tokens=33)),
        stop="agent_error",
    ),
    Run(
        3,
        "environment",
        "a tool breaks",
        (
            *HELLO,
            BOTH,
            *MOVED,
            call(
                "reportSend",
                "Error: psycopg.OperationalError: server closed the connection unexpectedly",
                patientNo="PT80001",
                recipient="Kai Brandt",
            ),
            agent("I could not send the report."),
            user("A pity. ###STOP###"),
        ),
    ),
    Run(
        3,
        "agent",
        "is told of the report and sends none",
        (*HELLO, BOTH, *MOVED, agent("It is moved. Goodbye."), user("Bye. ###STOP###")),
    ),
    Run(
        3,
        "agent",
        "takes the day wrongly",
        (
            *HELLO,
            BOTH,
            call("appointmentFetch", [FREE], appointmentNo="AP80002"),
            call(
                "appointmentMove",
                [{**FREE, "beginsAt": "2037-11-26 22:00:00"}],
                appointmentNo="AP80002",
                beginsAt="2037-11-26 22:00:00",
            ),
            SENT,
            agent("Both are done."),
            user("Thank you. ###STOP###"),
        ),
    ),
    Run(
        3,
        "agent",
        "refuses what the policy allows",
        (
            *HELLO,
            BOTH,
            *MOVED,
            agent("It is moved. Reports are never given to relatives."),
            user("Oh. ###STOP###"),
        ),
    ),
)

FAULTS = Domain("ward", POLICY, TASKS, RUNS)
