"""A clinic's front desk."""

from __future__ import annotations

from tests.truth.planted.domain import Domain, Run, agent, call, user, want

POLICY = """# Front desk rules

**Current time:** 2031-06-02 09:00

### Moving an appointment
- Appointments can be rescheduled without changing the physician and the site.
- An appointment that already took place cannot be rescheduled.

### Cancelling an appointment
Cancel an appointment when at least one of the following applies:
- It was made within the last 48 hours
- The physician called in sick
- It is a telephone appointment

### Refills
- Controlled medicines cannot be refilled at the desk.
- A prescription can be refilled for a maximum of 90 days.

### Travel allowance
- Patients may be granted a travel allowance after their appointment was cancelled or rescheduled by the desk.
"""

NIA = {
    "patient_id": "PT-2087",
    "name": "Nia Farrow",
    "birth_date": "1988-07-14",
    "phone": "555-0142",
    "appointments": ["AP-610", "AP-611"],
    "prescriptions": ["RX-55"],
}
OLE = {
    "patient_id": "PT-3311",
    "name": "Ole Brandt",
    "birth_date": "1975-01-30",
    "phone": "555-0177",
    "appointments": ["AP-700"],
    "prescriptions": ["RX-70", "RX-71"],
}
AP610 = {
    "appointment_id": "AP-610",
    "patient_id": "PT-2087",
    "physician": "Dr. Lund",
    "site": "North",
    "kind": "visit",
    "made_at": "2031-05-04T10:12:00",
    "date": "2031-06-09",
}
AP611 = {**AP610, "appointment_id": "AP-611", "date": "2031-05-20", "made_at": "2031-05-01T08:00:00"}
AP700 = {
    "appointment_id": "AP-700",
    "patient_id": "PT-3311",
    "physician": "Dr. Mori",
    "site": "South",
    "kind": "telephone",
    "made_at": "2031-05-10T15:00:00",
    "date": "2031-06-12",
}
SLOTS = [
    {"slot_id": "SL-1001", "physician": "Dr. Lund", "site": "North", "date": "2031-06-16"},
    {"slot_id": "SL-1002", "physician": "Dr. Imai", "site": "North", "date": "2031-06-10"},
]
RX55 = {
    "prescription_id": "RX-55",
    "patient_id": "PT-2087",
    "medicine": "loratadine",
    "class": "regular",
    "days": 30,
}
RX70 = {
    "prescription_id": "RX-70",
    "patient_id": "PT-3311",
    "medicine": "oxycodone",
    "class": "controlled",
    "days": 30,
}
RX71 = {
    "prescription_id": "RX-71",
    "patient_id": "PT-3311",
    "medicine": "ramipril",
    "class": "regular",
    "days": 90,
}

TASKS = {
    1: (
        "Your name is Nia Farrow, born 14 July 1988. Move AP-610 to the next free date that Dr. Lund has.",
        [want("reschedule_appointment", appointment_id="AP-610", slot_id="SL-1001")],
    ),
    2: (
        "Your name is Nia Farrow, born 14 July 1988. You want AP-610 earlier, you do not mind which doctor.",
        [want("reschedule_appointment", appointment_id="AP-610", slot_id="SL-1002")],
    ),
    3: (
        "Your name is Nia Farrow. You cannot make AP-610 and want it cancelled.",
        [want("cancel_appointment", appointment_id="AP-610")],
    ),
    4: (
        "Your name is Ole Brandt, patient PT-3311. Cancel AP-700.",
        [want("cancel_appointment", appointment_id="AP-700")],
    ),
    5: (
        "Your name is Ole Brandt, patient PT-3311. Get RX-70 refilled for 30 days.",
        [want("refill_prescription", prescription_id="RX-70", days=30)],
    ),
    6: (
        "Your name is Ole Brandt, patient PT-3311. Get RX-71 refilled for as long as possible.",
        [want("refill_prescription", prescription_id="RX-71", days=180)],
    ),
    7: (
        "Your name is Nia Farrow, patient PT-2087. You want a travel allowance because the clinic is "
        "far away.",
        [want("grant_travel_allowance", patient_id="PT-2087", amount=20)],
    ),
    8: (
        "Your name is Nia Farrow, patient PT-2087. Register your son Tom Farrow for AP-610 as companion.",
        [
            want(
                "add_companion",
                appointment_id="AP-610",
                companion={"name": "Nia Farrow", "birth_date": "1991-11-02", "phone": "555-0142"},
            )
        ],
    ),
}

NIA_HERE = (
    user("Good morning, Nia Farrow, patient PT-2087."),
    call("find_patient", NIA, patient_id="PT-2087"),
)
OLE_HERE = (user("Ole Brandt, PT-3311."), call("find_patient", OLE, patient_id="PT-3311"))
READ_610 = call("get_appointment", AP610, appointment_id="AP-610")

RUNS = (
    Run(
        1,
        "",
        "passes",
        (
            *NIA_HERE,
            agent("What can I do for you?"),
            user("Please move AP-610 to Dr. Lund's next free date."),
            READ_610,
            call("list_slots", SLOTS, site="North"),
            agent("Dr. Lund has 2031-06-16 at North. Shall I move it?"),
            user("Yes."),
            call(
                "reschedule_appointment",
                {**AP610, "date": "2031-06-16"},
                appointment_id="AP-610",
                slot_id="SL-1001",
            ),
            agent("Moved. Anything else?"),
            user("No, thank you. ###STOP###"),
        ),
    ),
    Run(
        1,
        "agent",
        "moves it to another physician",
        (
            *NIA_HERE,
            agent("What can I do for you?"),
            user("Please move AP-610 to Dr. Lund's next free date."),
            READ_610,
            call("list_slots", SLOTS, site="North"),
            call(
                "reschedule_appointment",
                {**AP610, "date": "2031-06-10"},
                appointment_id="AP-610",
                slot_id="SL-1002",
            ),
            agent("Moved to 2031-06-10. Anything else?"),
            user("No, thank you. ###STOP###"),
        ),
    ),
    Run(
        1,
        "user_simulator",
        "chooses another than it was told to, both being offered",
        (
            *NIA_HERE,
            agent("What can I do for you?"),
            user("Please move AP-610."),
            READ_610,
            call("list_slots", SLOTS, site="North"),
            agent(
                "There is SL-1001 with Dr. Lund on 2031-06-16, and SL-1002 with Dr. Imai on 2031-06-10. "
                "Which one?"
            ),
            user("The one with Dr. Imai, please."),
            call(
                "reschedule_appointment",
                {**AP610, "date": "2031-06-10"},
                appointment_id="AP-610",
                slot_id="SL-1002",
            ),
            agent("Moved. Anything else?"),
            user("No. ###STOP###"),
        ),
    ),
    Run(
        2,
        "ground_truth",
        "demands a change of what must stay",
        (
            *NIA_HERE,
            agent("What can I do for you?"),
            user("AP-610 should be earlier, with any doctor."),
            READ_610,
            call("list_slots", SLOTS, site="North"),
            agent("Dr. Lund has nothing earlier, and I may not change the physician."),
            user("Then leave it. ###STOP###"),
        ),
    ),
    Run(
        3,
        "ground_truth",
        "demands what none of the listed conditions allows",
        (
            *NIA_HERE,
            agent("What can I do for you?"),
            user("Please cancel AP-610."),
            READ_610,
            agent("I am sorry, no condition for a cancellation holds."),
            user("All right, goodbye. ###STOP###"),
        ),
    ),
    Run(
        4,
        "",
        "passes",
        (
            *OLE_HERE,
            agent("What can I do for you?"),
            user("Cancel AP-700, please."),
            call("get_appointment", AP700, appointment_id="AP-700"),
            agent("Shall I cancel the telephone appointment AP-700?"),
            user("Yes."),
            call("cancel_appointment", {**AP700, "status": "cancelled"}, appointment_id="AP-700"),
            agent("Cancelled. Anything else?"),
            user("No. ###STOP###"),
        ),
    ),
    Run(
        4,
        "agent",
        "refuses what a condition allows; the user gives up politely",
        (
            *OLE_HERE,
            agent("What can I do for you?"),
            user("Cancel AP-700, please."),
            call("get_appointment", AP700, appointment_id="AP-700"),
            agent("This cannot be cancelled. Is there anything else I can do?"),
            user("No, then I'll think about it. Thanks. ###STOP###"),
        ),
    ),
    Run(
        5,
        "ground_truth",
        "demands a refill that the policy forbids by class",
        (
            *OLE_HERE,
            agent("What can I do for you?"),
            user("Please refill RX-70 for 30 days."),
            call("get_prescription", RX70, prescription_id="RX-70"),
            agent("Controlled medicines cannot be refilled at the desk."),
            user("I see. ###STOP###"),
        ),
    ),
    Run(
        6,
        "ground_truth",
        "demands more than the most that the policy allows",
        (
            *OLE_HERE,
            agent("What can I do for you?"),
            user("Refill RX-71 for as long as possible."),
            call("get_prescription", RX71, prescription_id="RX-71"),
            agent("I can refill it for 90 days. Shall I?"),
            user("Yes."),
            call("refill_prescription", {**RX71, "refilled": True}, prescription_id="RX-71", days=90),
            agent("Done. Anything else?"),
            user("No. ###STOP###"),
        ),
    ),
    Run(
        7,
        "ground_truth",
        "demands an allowance without what must come first",
        (
            *NIA_HERE,
            agent("What can I do for you?"),
            user("I'd like a travel allowance, you are far away."),
            READ_610,
            agent("That is granted only after an appointment was cancelled or moved by us."),
            user("OK. ###STOP###"),
        ),
    ),
    Run(
        8,
        "ground_truth",
        "demands a birth date that stands nowhere",
        (
            *NIA_HERE,
            agent("What can I do for you?"),
            user("Please put me down as companion on AP-610."),
            READ_610,
            agent("Nia Farrow, born 1988-07-14, phone 555-0142: shall I?"),
            user("Yes."),
            call(
                "add_companion",
                {"ok": True},
                appointment_id="AP-610",
                companion={"name": "Nia Farrow", "birth_date": "1988-07-14", "phone": "555-0142"},
            ),
            agent("Done. Anything else?"),
            user("No. ###STOP###"),
        ),
    ),
    Run(
        4,
        "agent",
        "never looks, and hands the patient over",
        (
            *OLE_HERE,
            agent("What can I do for you?"),
            user("Cancel AP-700, please."),
            call("transfer_to_nurse", "Transfer successful", reason="cancellation"),
            agent("You are being transferred."),
            user("###TRANSFER###"),
        ),
    ),
    Run(
        4,
        "infrastructure",
        "what it wrote was lost",
        (*OLE_HERE, agent("What can I do for you?"), user("Cancel AP-700."), agent("", completion_tokens=37)),
        stop="agent_error",
    ),
    Run(
        4,
        "agent",
        "writes calls as text and ends with nothing",
        (
            *OLE_HERE,
            agent('{"name": "cancel_appointment", "arguments": {"appointment_id": "AP-700"}}'),
            user("What does that mean?"),
            agent("", completion_tokens=22),
        ),
        stop="agent_error",
    ),
)

DOMAIN = Domain("clinic", POLICY, TASKS, RUNS)
