"""Which message decided a failed run."""

from __future__ import annotations

from typing import Any

from tests.diagnosis.detectors.dialogues import ASK, CLOSED, agent, call
from trace_assets.diagnosis.decisive import RULES, Decisive
from trace_assets.records import Capability, Check, ExpectedAction, Label, Message, Task, Trajectory

WANTED = (ExpectedAction(name="refund_item", arguments={"order": "K4821"}),)
READ = call("get_order", CLOSED, order="K4821")
CANCEL = call("cancel_order", order="K4821")
RIGHT = call("refund_item", order="K4821")
HANDED = call("transfer_to_human", "ok")


def run(name: str, *parts: list[Message], success: bool = False) -> Trajectory:
    values: dict[str, Any] = {"target": "x", "task_batch": "b", "policy": "p", "success": success}
    messages = tuple(message for part in parts for message in part)
    return Trajectory(trajectory_id=name, task_id="x/0", messages=messages, **values)


def task(actions: tuple[ExpectedAction, ...] = WANTED) -> dict[str, Task]:
    return {
        "x/0": Task(task_id="x/0", target="x", task_batch="b", expected_actions=actions, has_expected=True)
    }


def found(one: Trajectory, *others: Trajectory, tasks: Any = None, **more: Any) -> int:
    rules = more.pop("rules", RULES)
    return Decisive([one, *others], task() if tasks is None else tasks, rules).message(one, **more)


def lack(detector: str, *evidence: int) -> tuple[Label, Capability]:
    values: dict[str, Any] = {"capability_id": "c", "labeller": "detectors", "label": "LACKING"}
    label = Label(trajectory_id="r", evidence=evidence, input_hash="h", **values)
    return label, Capability(
        capability_id="c", target="x", name="n", description="d", analyst="detectors", detector=detector
    )


def test_where_nothing_wrong_was_done_the_place_of_the_lack_decides() -> None:
    told = run("r", ASK, READ, agent("There are nine."), RIGHT, agent("done"))
    counted = lack("wrong_count", 2, 3)
    assert found(told, lacks=[counted]) == 3
    assert found(told, lacks=[counted], rules=RULES - {"lacked"}) == 6
    assert found(told, lacks=[lack("skipped_check", 3)]) == 6, "no word was wrong"
    missed = run("r", ASK, agent("There are nine."), agent("done"))
    assert found(missed, lacks=[lack("wrong_count", 1)]) == 2, "a deed is missing as well"

    barred = run("r", ASK, READ, CANCEL, agent("It is too late."), HANDED)
    label, capability = lack("barred_by_own_change", 3, 5)
    of_it = capability.model_copy(update={"detector_args": {"tool": "refund_item"}})
    both = (*WANTED, ExpectedAction(name="cancel_order", arguments={"order": "K4821"}))
    assert found(barred, tasks=task(both), lacks=[(label, of_it)]) == 3
    assert found(barred, tasks=task(both), lacks=[(label, capability)]) == 6, "it is about another call"


def test_the_first_call_that_is_not_expected_decides() -> None:
    one = run("r", ASK, READ, CANCEL, RIGHT, CANCEL, agent("done"))
    assert found(one) == 3
    assert found(one, rules=RULES - {"expected"}) == len(one.messages) - 1


def test_where_nothing_is_expected_the_first_change_decides_a_wrong_state() -> None:
    wrong = (Check(name="db", kind="state", passed=False),)
    one = run("r", ASK, READ, CANCEL, RIGHT, agent("done")).model_copy(update={"checks": wrong})
    assert found(one, tasks={}) == 3
    assert found(one, tasks={}, rules=RULES - {"written"}) == len(one.messages) - 1
    assert found(one, tasks={}, lacks=[lack("write_against_state", 5)]) == 5, "a lack names another call"
    told = one.model_copy(update={"checks": (Check(name="told", kind="communicate", passed=False),)})
    assert found(told, tasks={}) == len(one.messages) - 1, "the state was right"
    refused = call("cancel_order", "no", error=True, order="K4821")
    none = run("r", ASK, READ, refused, HANDED, agent("no")).model_copy(update={"checks": wrong})
    assert found(none, tasks={}) == 5, "nothing was changed: it was handed over"


def test_an_altered_call_decides_and_a_refused_or_the_users_does_not() -> None:
    refused = call("cancel_order", "no", error=True, order="K4821")
    theirs = call("cancel_order", by_user=True, order="K4821")
    one = run("r", ASK, refused, theirs, call("refund_item", order="A0007"), agent("done"))
    assert found(one) == 5


def test_what_passed_runs_do_unharmed_decides_nothing_unless_a_lack_names_it() -> None:
    one = run("r", ASK, CANCEL, agent("done"))
    good = run("g", ASK, CANCEL, RIGHT, success=True)
    assert found(one, good) == 3
    assert found(one, good, lacks=[lack("write_against_state", 1)]) == 1
    assert found(one, good, lacks=[lack("ended_with_work_open", 0, 1)]) == 3
    assert found(one, good, rules=RULES - {"harmless"}) == 1


def test_what_is_harmless_in_one_argument_is_not_so_in_another() -> None:
    wanted = task((ExpectedAction(name="refund_item", arguments={"order": "K4821", "sum": 5, "note": "a"}),))
    good = run("g", ASK, call("refund_item", order="K4821", sum=5, note="b"), success=True)
    paid = run("r", ASK, call("refund_item", order="K4821", sum=9, note="a"), agent("done"))
    assert found(paid, good, tasks=wanted) == 1, "another sum: passed runs only word the note otherwise"
    both = run("r", ASK, call("refund_item", order="K4821", sum=9, note="c"), agent("done"))
    assert found(both, good, tasks=wanted) == 1
    noted = run("r", ASK, call("refund_item", order="K4821", sum=5, note="c"), agent("done"))
    assert found(noted, good, tasks=wanted) == 3


def test_without_expected_actions_the_call_that_a_lack_names_decides() -> None:
    one = run("r", ASK, READ, CANCEL, agent("done"))
    assert found(one, tasks={}) == 5
    assert found(one, tasks={}, lacks=[lack("write_against_state", 2, 3)]) == 3
    assert found(one, tasks={}, lacks=[lack("write_against_state", 3)], rules=RULES - {"named_call"}) == 5


def test_where_no_expected_call_decides_the_agents_message_that_a_model_names_does() -> None:
    one = run("r", ASK, READ, CANCEL, agent("done"))
    assert found(one, tasks={}, shown=(0, 2, 3, 4)) == 3, "of messages that are the agent's the last"
    assert found(one, tasks={}, shown=(0, 2, 99)) == 5, "none of them is the agent's"
    assert found(one, tasks={}, shown=(3,), rules=RULES - {"pointed"}) == 5
    assert found(one, tasks={}, shown=(1,), lacks=[lack("write_against_state", 3)]) == 3
    assert found(one, shown=(1,)) == 3, "what was expected says more"
    assert found(run("r", ASK, READ, agent("no"), agent("bye")), shown=(3,)) == 3


def test_a_run_that_did_nothing_wrong_is_decided_where_it_was_given_up() -> None:
    assert found(run("r", ASK, READ, HANDED, agent("bye"))) == 3
    assert found(run("r", ASK, READ, HANDED, agent("bye")), rules=RULES - {"handed_over"}) == 5
    # A change made after it shows that nothing was given up.
    assert found(run("r", ASK, HANDED, RIGHT, agent("bye"))) == 5
    assert found(run("r", ASK, READ, agent("bye"), [Message(role="user", content="bye")])) == 3


def test_a_run_that_got_stuck_is_decided_by_the_first_repetition() -> None:
    other = call("get_order", CLOSED, order="A0007")
    assert found(run("r", ASK, READ, other, READ, READ, READ)) == 7
    assert found(run("r", ASK, READ, other, READ, READ)) == 7, "two equal calls are no loop: the last message"
    assert found(run("r", ASK, READ, READ, READ, other)) == 7, "a loop that was left is none"
    assert found(run("r", ASK, READ, other, READ, READ, READ), rules=RULES - {"stuck"}) == 9


def test_of_words_that_come_again_and_again_the_first_repetition_decides() -> None:
    asks, told = agent("Which value?"), [Message(role="user", content="22, as I said.")]
    one = run("r", ASK, READ, asks, told, asks, told, asks)
    assert found(one) == 5 and found(one, shown=(3, 5, 7)) == 5
    assert found(run("r", ASK, READ, asks, told, agent("Which one?"))) == 5, "no repetition"
    assert found(run("r", ASK, READ, asks, READ, asks)) == 6, "nobody had answered"


def test_nothing_after_the_message_that_ended_it_counts() -> None:
    assert found(run("r", ASK, CANCEL), by_user=0) == 0


def test_what_a_script_asked_for_and_did_not_get_was_left_at_the_end_of_that_turn() -> None:
    actions = (WANTED[0], ExpectedAction(name="get_order", arguments={"order": "K4821"}))
    first, then = [Message(role="user", content="Refund it.")], [Message(role="user", content="Show it.")]
    left = run("r", first, agent("no"), then, READ, agent("there"))
    passed = run("s", first, RIGHT, agent("yes"), then, READ, agent("there"), success=True)
    assert found(left, passed, tasks=task(actions)) == 1, "the next turn asks for something else"
    assert found(left, passed, tasks=task(actions), rules=RULES - {"turn"}) == len(left.messages) - 1
    last = run("r", first, RIGHT, agent("yes"), then, agent("no"), agent("bye"))
    assert found(last, passed, tasks=task(actions)) == len(last.messages) - 1, "the turn behind what was done"
    other = run("s", first, RIGHT, agent("yes"), [Message(role="user", content="Thanks.")], success=True)
    assert found(left, other, tasks=task(actions)) == len(left.messages) - 1, "the user answers the agent"
    assert found(left, tasks=task(actions)) == len(left.messages) - 1, "one run does not show a script"
