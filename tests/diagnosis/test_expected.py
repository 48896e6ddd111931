"""Expected against done, and tasks whose ground truth is doubtful: on a gym, which no benchmark has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from trace_assets.diagnosis.detectors.policy_text import PolicyText, addresses_nobody, shown_policy
from trace_assets.diagnosis.expected.diffs import action_diffs
from trace_assets.diagnosis.expected.suspects import suspect_tasks
from trace_assets.records import Check, ExpectedAction, Message, SuspectTask, Task, ToolCall, Trajectory

POLICY = """# Gym desk
The current date is 2031-03-10.

## Cancel course
- A course that is already over cannot be cancelled.

## Change booking
- A booking can be changed without changing the member and branch.

## Goodwill
- If a member complains about a cancelled course you can send a voucher after confirming the facts.
- If a member asks, tell the hours.
- If a member complains about a crowded course you can send a voucher after changing the booking.
"""


def call(
    number: int, tool: str, arguments: Mapping[str, Any], result: str, *, error: bool = False
) -> list[Message]:
    one = ToolCall(id=f"c{number}", name=tool, arguments=dict(arguments))
    answer = Message(role="tool", content=result, tool_call_id=one.id, tool_name=tool, is_error=error)
    return [Message(role="assistant", tool_calls=(one,)), answer]


def run(
    *calls: tuple[str, Mapping[str, Any], str] | tuple[str, Mapping[str, Any], str, bool],
    task: str = "gym/1",
    name: str = "r1",
    policy: str = "p",
    success: bool | None = False,
    **changes: Any,
) -> Trajectory:
    messages = [Message(role="user", content="Hello, it is about my course.")]
    for number, (tool, arguments, result, *error) in enumerate(calls):
        messages += call(number, tool, arguments, result, error=bool(error))
    messages += [
        Message(role="assistant", content="Is there anything else?"),
        Message(role="user", content="No. ###STOP###"),
    ]
    return Trajectory(
        trajectory_id=name,
        task_id=task,
        target="gym",
        task_batch="b",
        policy=policy,
        user_policy="u",
        success=success,
        reward=None if success is None else float(success),
        stop="completed",
        messages=tuple(messages),
        **{"checks": (Check(name="db", kind="state", passed=bool(success)),), **changes},
    )


def task(
    *actions: ExpectedAction, name: str = "gym/1", told: str = "", policy: str = POLICY
) -> dict[str, Task]:
    one = Task(
        task_id=name,
        target="gym",
        task_batch="b",
        instruction=told,
        has_expected=True,
        expected_actions=actions,
        domain_policy=policy,
    )
    return {name: one}


def want(tool: str, **arguments: Any) -> ExpectedAction:
    return ExpectedAction(name=tool, arguments=arguments)


CANCEL = want("cancel_course", course_id="C-101")


def diffs(one: Trajectory, *actions: ExpectedAction) -> list[tuple[str, str, tuple[str, ...], int | None]]:
    return [(row.kind, row.tool, row.changed, row.message) for row in action_diffs([one], task(*actions))]


def test_what_is_missed_surplus_and_altered() -> None:
    done = run(
        ("get_course", {"course_id": "C-101"}, "{}"),
        ("book_course", {"course_id": "C-202", "seats": 2}, "{}"),
        ("send_voucher", {"member_id": "m_17", "amount": 5}, "{}"),
    )
    wanted = (CANCEL, want("book_course", course_id="C-202", seats=3), want("get_course", course_id="C-101"))
    assert diffs(done, *wanted) == [
        ("missed", "cancel_course", (), None),
        ("altered", "book_course", ("seats",), 3),
        ("surplus", "send_voucher", (), 5),
    ]


def test_what_counts_as_equal() -> None:
    done = run(
        (
            "book_course",
            {
                "course_id": "#c-202",
                "seats": 2.0,
                "names": ["B", "A"],
                "note": "He would like to sit at the window",
            },
            "{}",
        )
    )
    wanted = want(
        "book_course", course_id="C-202", seats=2, names=["A", "B"], note="A seat near a window please, sir"
    )
    assert diffs(done, wanted) == []
    assert (
        diffs(
            done,
            ExpectedAction(
                name="book_course", arguments={"seats": 9, "course_id": "C-202"}, compared=("course_id",)
            ),
        )
        == []
    )


def test_refused_calls_are_missed_and_counted() -> None:
    done = run(("cancel_course", {"course_id": "C-101"}, "Error: too late", True))
    (row,) = action_diffs([done], task(CANCEL))
    assert (row.kind, row.refused) == ("missed", 1)


def test_without_an_expectation_or_for_passed_runs_there_are_no_rows() -> None:
    unknown = {"gym/1": Task(task_id="gym/1", target="gym", task_batch="b")}
    done = run(("cancel_course", {"course_id": "C-101"}, "{}"))
    assert action_diffs([done], unknown) == []
    assert action_diffs([run(success=True)], task(CANCEL)) == []
    assert [row.kind for row in action_diffs([done], task())] == ["surplus"], "nothing was expected"


def test_of_two_calls_each_stands_for_the_one_on_its_object() -> None:
    done = run(
        ("book_course", {"course_id": "C-303", "seats": 1}, "{}"),
        ("book_course", {"course_id": "C-202", "seats": 1}, "{}"),
    )
    wanted = (
        want("book_course", course_id="C-202", seats=4),
        want("book_course", course_id="C-303", seats=1),
    )
    assert diffs(done, *wanted) == [("altered", "book_course", ("seats",), 3)]


def suspects(runs: Sequence[Trajectory], tasks: Mapping[str, Task]) -> list[tuple[str, str, str]]:
    rows: list[SuspectTask] = suspect_tasks(runs, tasks)
    return [(row.task_id, row.grade, row.rule) for row in rows]


PROFILE = '{"member_id": "m_17", "partner": {"first": "Ada", "last": "Byron", "born": "1990-02-01"}}'


def test_a_value_that_stands_nowhere_while_the_records_know_another() -> None:
    look = ("get_member", {"member_id": "m_17"}, PROFILE)
    guest = {"first": "Ada", "last": "Byron", "born": "1991-12-24"}
    wanted = want("book_course", course_id="C-101", guests=[guest])
    assert suspects([run(look)], task(wanted)) == [("gym/1", "wrong", "value_in_no_record")]
    assert suspects([run(look)], task(wanted, told="Ada was born on 1991-12-24.")) == [], "the task says so"
    right = want("book_course", course_id="C-101", guests=[{**guest, "born": "1990-02-01"}])
    assert suspects([run(look)], task(right)) == []
    assert suspects([run()], task(wanted)) == [], "nobody has looked: nothing is known"


def test_something_is_to_be_replaced_by_itself() -> None:
    wanted = want("exchange_items", order_id="O-1", item_ids=["77"], new_item_ids=["77"])
    assert suspects([run()], task(wanted)) == [("gym/1", "wrong", "no_change_demanded")]
    other = want("exchange_items", order_id="O-1", item_ids=["77"], new_item_ids=["78"])
    assert suspects([run()], task(other)) == []


@pytest.mark.parametrize(
    ("date", "found"), [("2031-03-09", True), ("2031-03-10", False), ("2031-04-01", False)]
)
def test_what_is_over_by_the_policys_clock(date: str, found: bool) -> None:
    look = (
        "get_course",
        {"course_id": "C-101"},
        f'{{"course_id": "C-101", "course_date": "{date}", "made_on": "2020-01-01"}}',
    )
    assert bool(suspects([run(look)], task(CANCEL))) is found
    assert suspects([run(look)], task(want("book_course", course_id="C-101"))) == []
    assert suspects([run(look)], task(CANCEL, policy="")) == []


def test_a_field_that_must_stay_as_it_is() -> None:
    look = (
        "get_booking",
        {"booking_id": "B-9"},
        '{"booking_id": "B-9", "branch": "north", "member": "m_17"}',
    )
    search = (
        "list_courses",
        {},
        '[{"course_id": "C-5", "branch": "south"}, {"course_id": "C-6", "branch": "north"}]',
    )
    moved = want("update_booking", booking_id="B-9", parts=[{"course_id": "C-5"}])
    stays = want("update_booking", booking_id="B-9", parts=[{"course_id": "C-6"}])
    assert suspects([run(look, search)], task(moved)) == [("gym/1", "wrong", "protected_field")]
    assert suspects([run(look, search)], task(stays)) == []
    assert suspects([run(look)], task(moved)) == [], "nobody has seen where the course is held"


def test_what_the_policy_allows_only_after_something_else() -> None:
    voucher, change = want("send_voucher", member_id="m_17"), want("update_booking", booking_id="B-9")
    crowded, cancelled = "You complain about a crowded course.", "You complain about a cancelled course."
    runs = [run(("update_booking", {"booking_id": "B-9"}, "{}"))]
    assert suspects(runs, task(voucher, told=crowded)) == [("gym/1", "wrong", "missing_prerequisite")]
    assert suspects(runs, task(change, voucher, told=crowded)) == []
    assert suspects(runs, task(voucher, told=cancelled)) == []


@pytest.mark.parametrize(
    ("broken", "kept", "grade"),
    [
        (3, 0, "wrong"),  # some ground truths are wrong
        (4, 0, "suspected"),  # so many break it: it was misread
        (4, 16, "wrong"),  # a fifth of those that want it does not break the rule itself
        (5, 16, "suspected"),
    ],
)
def test_a_rule_that_many_tasks_break_was_misread(broken: int, kept: int, grade: str) -> None:
    tasks: dict[str, Task] = {}
    runs = []
    for number in range(broken + kept):
        voucher = want("send_voucher", member_id=f"m_{number}")
        first = [] if number < broken else [want("update_booking", booking_id=f"B-{number}")]
        told = "You complain about a crowded course."
        tasks |= task(*first, voucher, name=f"gym/{number}", told=told)
        runs.append(
            run(("update_booking", {"booking_id": "B-9"}, "{}"), task=f"gym/{number}", name=f"r{number}")
        )
    found = [(one.rule, one.grade) for one in suspect_tasks(runs, tasks)]
    assert found == [("missing_prerequisite", grade)] * broken


def test_a_demand_that_the_tool_refuses() -> None:
    tried = run(
        ("cancel_course", {"course_id": "C-101"}, "Error: courses of this kind cannot be cancelled", True)
    )
    assert suspects([tried], task(CANCEL)) == [("gym/1", "wrong", "refused_demand")]
    spoilt = run(
        ("update_booking", {"booking_id": "B-9"}, "{}"),
        ("cancel_course", {"course_id": "C-101"}, "Error: no", True),
    )
    assert suspects([spoilt], task(CANCEL)) == [], "the agent's own change may be why"
    worked = run(("cancel_course", {"course_id": "C-101"}, "{}"), name="r2")
    assert ("gym/1", "wrong", "refused_demand") not in suspects([tried, worked], task(CANCEL))
    passed = run(name="r3", success=True)
    assert suspects([tried, passed], task(CANCEL)) == [], "a run passed without it"
    other = run(("cancel_course", {"course_id": "c-101"}, "Error: no such course", True))
    assert suspects([other], task(CANCEL)) == [], "the tool knows another spelling"
    (row,) = action_diffs([other], task(CANCEL))
    assert (row.kind, row.refused) == ("missed", 0)


def test_a_task_that_nobody_passes_is_only_suspected() -> None:
    tasks = {**task(CANCEL), **{key: one for n in range(2, 30) for key, one in task(name=f"gym/{n}").items()}}
    runs = [
        run(name=f"{policy}{n}", task=f"gym/{n}", policy=policy, success=n > 1)
        for policy in ("p", "q", "s")
        for n in range(1, 30)
    ]
    assert suspects(runs, tasks) == [("gym/1", "suspected", "unpassed")]
    (row,) = suspect_tasks(runs, tasks)
    assert (
        "none of 3 runs by 3 policies" in row.detail
        and "100%" in row.detail
        and (row.n_passed, row.n_failed) == (0, 3)
    )
    one_policy = [one for one in runs if one.policy == "p"]
    assert suspects(one_policy, tasks) == []
    weak = [one.model_copy(update={"success": one.success and one.task_id == "gym/2"}) for one in runs]
    assert suspects(weak, tasks) == [], "most tasks fail: it is like the others"


def test_done_as_expected_and_failed_all_the_same() -> None:
    exact = run(("cancel_course", {"course_id": "C-101"}, "{}"))
    assert suspects([exact], task(CANCEL)) == [("gym/1", "suspected", "done_and_failed")]
    told = run(
        ("cancel_course", {"course_id": "C-101"}, "{}"),
        checks=(Check(name="c", kind="communicate", passed=False),),
    )
    assert suspects([told], task(CANCEL)) == []


def test_a_quantity_that_only_this_task_does_not_grant() -> None:
    tasks = {
        key: one
        for n in range(1, 6)
        for key, one in task(
            want("add_credit", member_id="m_17", hours=4.5),
            name=f"gym/{n}",
            told="You take 4.5 hours if need be." if n > 1 else "You want to train.",
        ).items()
    }
    runs = [run(name=f"r{n}", task=f"gym/{n}") for n in range(1, 6)]
    assert suspects(runs, tasks) == [("gym/1", "suspected", "not_granted")]


def test_a_policy_for_talks_with_users_is_not_that_of_runs_without_any() -> None:
    policy = "Always ask the user before you cancel."
    alone = run().model_copy(update={"messages": (Message(role="user", content="Ticket: cancel C-101"),)})
    assert addresses_nobody(policy, [alone])
    assert not addresses_nobody(policy, [run()]) and not addresses_nobody("Cancel nothing.", [alone])
    assert not addresses_nobody(policy, [])


def test_a_policy_in_another_language_gives_its_date_and_no_rules() -> None:
    text = PolicyText("# Kurse\nHeute ist der 2031-03-10.\n- Vergangene Kurse werden nicht storniert.")
    assert text.clock == "2031-03-10" and text.forbids_past("cancel_course") == []
    assert text.only_after("send_voucher", ["cancel_course"]) == [] and text.protected("update_booking") == (
        frozenset(),
        "",
    )


SYSTEM = "You serve a gym.\nThe current date is 2031-03-10.\nA course that is over cannot be cancelled."


def shown(*texts: str | None) -> str:
    runs = []
    for number, text in enumerate(texts):
        one = run(name=f"r{number}")
        head = (Message(role="system", content=text),) if text is not None else ()
        runs.append(one.model_copy(update={"messages": (*head, *one.messages)}))
    return shown_policy(runs)


def test_the_policy_that_nobody_records_is_what_system_messages_say_alike() -> None:
    assert shown(SYSTEM, SYSTEM) == SYSTEM
    assert shown(SYSTEM, None, SYSTEM) == SYSTEM, "runs without one say nothing against it"
    assert shown(None, None) == "" and shown() == ""
    own = [f"{SYSTEM}\nThe member is m_{number}." for number in range(10)]
    assert shown(*own) == SYSTEM, "what differs from run to run is no rule"
    assert shown(*own[:9], "Be brief.") == SYSTEM, "nine of ten"
    assert shown(*own[:8], "Be brief.", "Be kind.") == "", "eight of ten"
    tools = f'{SYSTEM}\n[{{"name": "get_course"}}]\n  {{"type": "function"}}'
    assert shown(tools, tools) == SYSTEM, "lists of tools are no sentences"


def test_doubts_rest_on_the_policy_that_runs_show() -> None:
    record = '{"course_id": "C-101", "begins": "2031-03-02", "ends": "2031-03-05"}'
    one = run(("get_course", {"course_id": "C-101"}, record))
    head = Message(role="system", content=POLICY)
    with_head = one.model_copy(update={"messages": (head, *one.messages)})
    silent = task(CANCEL, policy="")
    assert (
        suspects([with_head], silent) == suspects([one], task(CANCEL)) == [("gym/1", "wrong", "past_object")]
    )
    assert suspects([one], silent) == []
