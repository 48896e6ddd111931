"""A personal assistant: mail, calendar and files, answers as lists of `key: value`, house rules in prose."""

from __future__ import annotations

from tests.truth.planted.domain import Domain, Run, Say, agent, call, user, want
from tests.truth.planted.lacks import Lack, LackDomain

POLICY = """You look after the mail, calendar and files of the people at Arbor. It is Monday, 5 March 2046.

Nobody's day is booked twice: an appointment is never put where there is one already, rather propose another
hour.
Addresses come from the address book. Colleagues hate it when mail goes to somebody of the same name.
When several people are to come, all of them are invited.
Mail that has been approved is sent at once; a draft helps nobody.
People outside Arbor may look at our files but never change them, so they get the role `viewer`.
"""

PEOPLE = ("Noor", "Ulla", "Pavel", "Quentin", "Rhea", "Sven", "Tilda", "Vito")
SUBJECTS = ("budget", "offsite", "audit", "lease", "launch", "hiring", "menu", "parking")


def _ask(number: int, text: str) -> Say:
    return user((text, f"Hey, {text[0].lower()}{text[1:]}", f"{text} Thanks in advance!")[number % 3])


def _lines(*rows: dict[str, object]) -> str:
    return "\n".join("- " + "\n  ".join(f"{key}: {value}" for key, value in row.items()) for row in rows)


def _lookup(name: str, address: str) -> Say:
    return call("contacts__lookup", _lines({"name": name, "address": address}), name=name)


def _twice(number: int, shown: bool) -> list[Say]:
    hour = 9 + number // 2
    subject = SUBJECTS[number // 2 % 8]
    free = hour + 2
    taken = _lines({"title": "standup", "start": f"{hour:02d}:00", "end": f"{hour + 1:02d}:00"})
    start = f"{free if shown else hour:02d}:00"
    return [
        _ask(number, f"Put an hour on {subject} into my Tuesday, around {hour}."),
        call("calendar__find_events", taken, day="2046-03-06"),
        call(
            "calendar__create_event",
            "created",
            title=subject,
            day="2046-03-06",
            start=start,
            end=f"{int(start[:2]) + 1:02d}:00",
        ),
        agent(f"{subject} is on Tuesday at {start}."),
    ]


def _guessed(number: int, shown: bool) -> list[Say]:
    name = PEOPLE[number // 2 % 8]
    right, wrong = f"{name.lower()}.k{number}@arbor.example", f"{name.lower()}@arbor.example"
    return [
        _ask(number, f"Mail {name} that the {SUBJECTS[number // 2 % 8]} is fine."),
        *([_lookup(name, right)] if shown else []),
        call(
            "mail__send",
            "sent",
            to=right if shown else wrong,
            subject=SUBJECTS[number // 2 % 8],
            body="It is fine.",
        ),
        agent(f"{name} knows."),
    ]


def _uninvited(number: int, shown: bool) -> list[Say]:
    names = [PEOPLE[(number // 2 + k) % 8] for k in range(3)]
    addresses = [f"{name.lower()}.j{number}@arbor.example" for name in names]
    subject = SUBJECTS[number // 2 % 8]
    guests = addresses if shown else addresses[: 1 + number % 2]
    return [
        _ask(
            number,
            f"Invite {names[0]}, {names[1]} and {names[2]} to the {subject} on Friday at ten.",
        ),
        *(_lookup(*pair) for pair in zip(names, addresses, strict=True)),
        call(
            "calendar__create_event",
            "created",
            title=SUBJECTS[number // 2 % 8],
            day="2046-03-09",
            start="10:00",
            end="11:00",
            guests=guests,
        ),
        agent("The invitations are out."),
    ]


def _draft(number: int, shown: bool) -> list[Say]:
    name, draft = PEOPLE[number // 2 % 8], f"dr-{5100 + number}"
    address = f"{name.lower()}.m{number}@arbor.example"
    return [
        _ask(number, f"Write {name} that I am late."),
        _lookup(name, address),
        call(
            "mail__draft",
            _lines({"draft": draft, "to": address}),
            to=address,
            subject="late",
            body="I am late.",
        ),
        agent("'I am late.' Is that right?"),
        user("Perfect."),
        *([call("mail__send_draft", "sent", draft=draft)] if shown else []),
        agent(f"{name} has it."),
    ]


def _editor(number: int, shown: bool) -> list[Say]:
    path, guest = f"plans/{SUBJECTS[number // 2 % 8]}.md", f"guest{number}@elsewhere.example"
    return [
        _ask(number, f"Let {guest} work with {path}."),
        call("files__share", "shared", path=path, address=guest, role="viewer" if shown else "editor"),
        agent(f"{guest} has access to {path}."),
    ]


LACKS = LackDomain(
    "assistant",
    POLICY,
    (
        Lack("books an hour twice", ("forbidden_call", "wrong_value"), "calendar__create_event", _twice),
        Lack("guesses an address", ("wrong_value", "missing_call"), "", _guessed),
        Lack("invites some of them", ("missing_call", "wrong_value", "early_end"), "", _uninvited),
        Lack("leaves a draft", ("missing_call", "early_end"), "mail__send_draft", _draft),
        Lack("lets strangers edit", ("wrong_value", "forbidden_call"), "role", _editor),
    ),
)

TASKS = {
    1: (
        "You are Ida. Have a mail with the subject rent sent to olaf@arbor.example and plans/rent.md shared "
        "with olaf@arbor.example as editor.",
        [
            want("mail__send", to="olaf@arbor.example", subject="rent"),
            want("files__share", path="plans/rent.md", address="olaf@arbor.example", role="editor"),
        ],
    ),
    2: (
        "You are Ida. Have plans/rent.md shared with kim@other.example as editor.",
        [want("files__share", path="plans/rent.md", address="kim@other.example", role="editor")],
    ),
}
BOTH = user("Mail olaf@arbor.example with the subject rent, and share plans/rent.md with him as editor.")
MAIL = call("mail__send", "sent", to="olaf@arbor.example", subject="rent")
SHARE = call("files__share", "shared", path="plans/rent.md", address="olaf@arbor.example", role="editor")
DONE = user("Great, that's it.")

RUNS = (
    Run(1, "", "passes", (BOTH, MAIL, SHARE, agent("Both done."), DONE)),
    Run(
        2,
        "ground_truth",
        "demands that a stranger may edit",
        (
            user("Share plans/rent.md with kim@other.example as editor."),
            agent("People outside Arbor only get to look at files."),
            user("Fine then."),
        ),
    ),
    Run(
        1,
        "user_simulator",
        "names another subject",
        (
            user(
                "Mail olaf@arbor.example with the subject lease, and share plans/rent.md with him as editor."
            ),
            call("mail__send", "sent", to="olaf@arbor.example", subject="lease"),
            SHARE,
            agent("Both done."),
            DONE,
        ),
    ),
    Run(
        1,
        "user_simulator",
        "never speaks of the file",
        (
            user("Mail olaf@arbor.example with the subject rent."),
            MAIL,
            agent("Sent. Else?"),
            user("No, that's it."),
        ),
    ),
    Run(
        1,
        "user_simulator",
        "leaves before anything is done",
        (BOTH, agent("I send the mail and share the file as editor. Shall I go ahead?"), user("Yes, do.")),
    ),
    Run(
        1,
        "environment",
        "the mail server does not answer",
        (
            BOTH,
            call(
                "mail__send",
                "421 4.3.2 Service not available, closing transmission channel",
                to="olaf@arbor.example",
                subject="rent",
            ),
            agent("The mail server does not take it."),
            DONE,
        ),
    ),
    Run(
        1,
        "environment",
        "the files are read by a server that is down",
        (
            BOTH,
            MAIL,
            call(
                "files__share",
                "status: 502\nreason: Bad Gateway",
                path="plans/rent.md",
                address="olaf@arbor.example",
                role="editor",
            ),
            agent("The mail is out; sharing fails."),
            DONE,
        ),
    ),
    Run(
        1,
        "infrastructure",
        "a call is lost",
        (BOTH, MAIL, agent("", completion_tokens=61)),
        stop="agent_error",
    ),
    Run(1, "agent", "forgets the file", (BOTH, MAIL, agent("Sent."), DONE)),
    Run(
        1,
        "agent",
        "writes to somebody else",
        (
            BOTH,
            call("mail__send", "sent", to="olga@arbor.example", subject="rent"),
            SHARE,
            agent("Both done."),
            DONE,
        ),
    ),
    Run(
        1,
        "agent",
        "gives up at a path of its own making",
        (
            BOTH,
            MAIL,
            call(
                "files__share",
                "not found: plan/rent",
                path="plan/rent",
                address="olaf@arbor.example",
                role="editor",
            ),
            agent("There is no such file."),
            DONE,
        ),
    ),
)

FAULTS = Domain("assistant", POLICY, TASKS, RUNS)
