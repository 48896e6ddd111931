"""Judges that want one form of what is right: a number's signs, or one look of several. On a gym."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.diagnosis.test_expected import run, task, want
from trace_assets.diagnosis.triage import triage
from trace_assets.records import Check, ExpectedAction, Message, ToolCall, Trajectory, Triage

LOOK = want("get_member", member_id="m_17")


def told(text: str, *checks: Check) -> Trajectory:
    one = run(checks=checks)
    messages = (one.messages[0], Message(role="assistant", content=text), *one.messages[1:])
    return one.model_copy(update={"messages": messages, "n_messages": len(messages)})


def ruling(one: Trajectory, *actions: ExpectedAction) -> Triage:
    (row,) = triage([one], tasks=task(*actions))
    return row


def asked_for(detail: str, passed: bool | None = False, kind: str = "communicate") -> Check:
    return Check.model_validate(
        {"name": f"{kind}/{detail}", "kind": kind, "passed": passed, "detail": detail}
    )


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("960.0", "That comes to $960 for two nights."),
        ("960.0 | Information '960.0' not communicated.", "That comes to $960."),
        ("1250", "In all 1,250.00 euros."),
        ("$54.2", "It is 54.20 in all."),
    ],
)
def test_a_number_told_in_other_signs_was_told(wanted: str, said: str) -> None:
    found = ruling(told(said, asked_for(wanted)))
    assert (found.fault, found.rule, found.evidence) == ("ground_truth", "literal_demand", (1,))


@pytest.mark.parametrize(
    ("said", "checks"),
    [
        ("That comes to $690.", [asked_for("960.0")]),  # another number
        ("Your booking 960-1 stands.", [asked_for("960.0")]),  # part of a name
        ("It is version 9.960.1 of the rules.", [asked_for("960.0")]),
        ("It is not available.", [asked_for("unavailable")]),  # words are not read
        ("That comes to $960.", [asked_for("960.0"), asked_for("Tuesday")]),  # something else is missing too
        ("That comes to $960.", [asked_for("960.0"), asked_for("db", kind="state")]),  # and so is the state
        ("That comes to $960.", [asked_for("960.0"), asked_for("judge", None, "judge")]),  # one did not run
    ],
)
def test_what_was_not_told_is_the_agents(said: str, checks: Sequence[Check]) -> None:
    assert ruling(told(said, *checks)).rule != "literal_demand"


def answered(
    text: str, *outputs: str, told_form: str = "", kind: str = "communicate", detail: str = ""
) -> str:
    """Return the rule for an answer in a run that was judged by its answer alone."""
    known = task(told=f"How many seats has course C-101? {told_form}")
    known = {name: one.model_copy(update={"expected_outputs": outputs}) for name, one in known.items()}
    last = run(checks=[asked_for(detail, kind=kind)])
    messages = (last.messages[0], Message(role="assistant", content=text))
    (row,) = triage([last.model_copy(update={"messages": messages, "n_messages": 2})], tasks=known)
    return row.rule


@pytest.mark.parametrize(
    ("text", "outputs"),
    [
        ('DONE(["Course C-101 has 14.0 seats in all, as of 2031-03-10"])', ("14",)),
        ("The course begins at 2031-03-11T09:00 and has 14 seats.", ("14.0", "2031-03-11T09:00")),
    ],
)
def test_a_right_answer_in_a_sentence_was_told(text: str, outputs: tuple[str, ...]) -> None:
    assert answered(text, *outputs) == "literal_demand"
    assert answered(text, *outputs, kind="judge") == "literal_demand"
    assert answered(text, *outputs, kind="state", detail="answer mismatch") == "literal_demand"
    assert answered(text, *outputs, kind="state") == "agent", "nothing says that the answer was judged"
    assert answered(text, *outputs, told_form="The answer should be an integer.") == "agent"
    assert answered(text, *outputs, told_form="The answer should be [-1] where there is none.") != "agent"


@pytest.mark.parametrize(
    ("text", "outputs"),
    [
        ('DONE(["Course C-101 has 15 seats in all"])', ("14",)),  # another number
        ("14.", ("14",)),  # the bare value: the judge must mean something else
        ("The course has 14 seats in all.", ("14", "Tuesday")),  # one is missing
        ("The course has 14 seats in all.", ("a",)),  # too short to look for
        ("The course has 14 seats in all.", ()),  # nothing is known
    ],
)
def test_an_answer_that_does_not_hold_what_is_wanted_is_the_agents(
    text: str, outputs: tuple[str, ...]
) -> None:
    assert answered(text, *outputs) == "agent"


def looked(*calls: tuple[str, dict[str, str], str], checks: Sequence[Check] = ()) -> Trajectory:
    return run(*calls, checks=tuple(checks) or (asked_for("get_member", kind="action"),))


def test_the_same_thing_seen_by_another_look_was_seen() -> None:
    found = ruling(looked(("find_visits", {"member_id": "m_17"}, '{"visits": 3}')), LOOK)
    assert (found.fault, found.rule, found.evidence) == ("ground_truth", "another_look", (1,))
    shown = looked(("list_members", {}, '[{"member_id": "m_17"}]'))
    assert ruling(shown, LOOK).rule == "another_look", "the object stands in the result"
    number = want("get_member", member_id="20209900")
    by_number = looked(("find_visits", {"card": "20209900"}, '{"visits": 3}'))
    assert ruling(by_number, number).rule == "another_look", "a long number names a thing as well"


def test_a_look_that_was_not_made_at_all_is_the_agents() -> None:
    longer = looked(("list_members", {}, '[{"member_id": "m_170"}, {"card": "am_17"}]'))
    assert ruling(longer, LOOK).fault == "agent", "a longer name is another one's"
    other = looked(("find_visits", {"member_id": "m_18"}, '{"visits": 3}'))
    assert ruling(other, LOOK).fault == "agent", "another member"
    assert ruling(looked(), LOOK).fault == "agent", "no look at all"
    state = [asked_for("get_member", kind="action"), asked_for("db", kind="state")]
    seen = ("find_visits", {"member_id": "m_17"}, '{"visits": 3}')
    assert ruling(looked(seen, checks=state), LOOK).fault == "agent", "the state is wrong too"
    made = looked(("get_member", {"member_id": "m_17"}, '{"visits": 3}'))
    assert ruling(made, LOOK).rule != "another_look", "the look was made: something else failed"
    writes = want("cancel_course", course_id="C-101")
    assert ruling(looked(seen), LOOK, writes).fault == "agent", "and a change is missing"


FOUND = asked_for("seats", True, "judge")
PAGE = asked_for("open_web_page", kind="action")


def test_a_look_asked_for_by_name_is_not_the_task_where_the_rest_was_found_right() -> None:
    one = told("Fourteen seats are left.", PAGE, FOUND)
    found = ruling(one)
    assert (found.fault, found.rule) == ("ground_truth", "demanded_look")
    others = {
        "what was told is wrong too": (PAGE, asked_for("seats", False, "judge")),
        "nothing says that it was found right": (PAGE, asked_for("find_seats", True, "action")),
        "a change is missing": (asked_for("cancel_course", kind="action"), FOUND),
        "no tool is named": (asked_for("43_0", kind="action"), FOUND),
    }
    for why, checks in others.items():
        assert ruling(told("Fourteen seats are left.", *checks)).fault == "agent", why


SEATS = asked_for(r"(?is)^(?=.*(?:14|fourteen))(?=.*\bseats?\s+(?:are\s+)?(?:left|free)\b)(?!.*waiting).*$")


@pytest.mark.parametrize(
    ("said", "checks", "rule"),
    [
        ("Left are fourteen seats.", [SEATS], "other_order"),
        ("14 seats are left, so nobody is waiting.", [SEATS], "other_order"),  # beside an excluded word
        ("There are fourteen places left.", [SEATS], "agent"),  # a word is not there
        ("Left are fourteen seats.", [SEATS, PAGE], "agent"),  # and a look is missing
        ("Left are fourteen seats.", [asked_for("seats left")], "agent"),  # no pattern
        ("Left are fourteen seats.", [asked_for(r"(?s)^.*$")], "agent"),  # asks for no word
        ("Left are fourteen seats.", [asked_for("(?=" * 200 + "seats")], "agent"),  # cannot be read
        ("Left are fourteen seats.", [asked_for(r'{"text": {"regex": "(?=.*seats).*left"}}')], "other_order"),
    ],
)
def test_words_in_another_order_than_a_pattern_has_them(said: str, checks: list[Check], rule: str) -> None:
    one = run(checks=(*checks, asked_for("find_seats", True, "action")))
    messages = (*one.messages, Message(role="assistant", content=said))
    assert ruling(one.model_copy(update={"messages": messages, "n_messages": len(messages)})).rule == rule


def test_what_repeats_turns_that_were_written_beforehand_is_not_the_agents() -> None:
    history = (
        Message(role="user", content="Which courses are there on Monday?"),
        Message(role="assistant", content="On Monday there is pottery at nine and weaving at noon."),
        Message(role="tool", tool_call_id="seed", content='["pottery", "weaving"]'),
        Message(role="user", content="Tell me again please."),
    )

    def ruled(*more: Message, before: Sequence[Message] = history) -> str:
        messages = (*before, *more)
        return ruling(run().model_copy(update={"messages": messages, "n_messages": len(messages)})).rule

    again = Message(role="assistant", content="Again: pottery at nine and weaving at noon, on Monday.")
    assert ruled(again) == "written_before"
    assert ruled(Message(role="assistant", content="Tuesday has yoga, swimming, chess, dance.")) == "agent"
    call = ToolCall(id="c", name="find_courses")
    made = Message(role="assistant", tool_calls=(call,))
    answer = Message(role="tool", tool_call_id="c", content="[]")
    assert ruled(made, answer, again) == "agent", "it looked anew"
    assert ruled(again, before=(history[0], history[1], history[3])) == "agent", "no sign that it was written"
