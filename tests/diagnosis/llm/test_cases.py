"""Cases: what they rest on is looked up, the policy's rules come first, and found ones stay."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from chat_server import ChatServer
from honest_reader import VARIANT

from trace_assets.assets.capability_dictionary import discover
from trace_assets.diagnosis.llm.analyst import ModelAnalyst
from trace_assets.diagnosis.llm.batches import draw_batches
from trace_assets.diagnosis.llm.cases import Grounds, Rule, cases_question, described, rules_question
from trace_assets.diagnosis.llm.discovery import Known, propose
from trace_assets.diagnosis.llm.found_again import keep_found
from trace_assets.diagnosis.llm.merging import Merged, case_merge_question, merge, model_capability_id
from trace_assets.diagnosis.llm.request import Context
from trace_assets.diagnosis.triage import triage
from trace_assets.records import (
    Capability,
    Label,
    LackCause,
    Message,
    Proposal,
    ToolCall,
    ToolSpec,
    Trajectory,
    Triage,
)
from trace_assets.settings import Discovery, Labels, load_settings
from trace_assets.store import Home
from trace_assets.store.trajectories import write_trajectories
from trace_assets.study import Study

Open = Callable[..., Any]
POLICY = """# The library's desk
- **Loans**: A book that somebody has reserved must not be renewed.
- A fine above 5 crowns is paid before anything else is lent.
- Lend at most three films to one reader."""
RENEW = {
    "name": "Refuse to renew a reserved book",
    "when": "The reader asks for a renewal and the record shows a reservation.",
    "rule": "A book that somebody has reserved must not be renewed.",
    "tool": "renew",
    "argument": "book",
    "should": "Say that the book is reserved and call no renewal.",
    "instead": "Calls renew although the book is reserved.",
}
FINE = {
    "name": "Have the fine paid first",
    "when": "The reader wants to borrow and the record shows a fine above 5 crowns.",
    "rule": "A fine above 5 crowns is paid before anything else is lent.",
    "tool": "",
    "argument": "",
    "should": "Ask for the fine and lend only after it is paid.",
    "instead": "Lends although the fine is open.",
}
COUNT = {**FINE, "name": "Count the days by the return date", "rule": "", "tool": "renew", "argument": "days"}
SECTION = Discovery(model="m", size="case", passes=2, failures=2, successes=2)


def run(name: str, success: bool, task: str = "") -> Trajectory:
    call = ToolCall(id="c", name="renew", arguments={"book": "b7", "days": 9})
    said = f"please renew {name}"
    return Trajectory(
        trajectory_id=name,
        task_id=f"x/{task or name}",
        target="x",
        task_batch="b",
        policy="p",
        success=success,
        messages=(
            Message(role="user", content=said),
            Message(role="assistant", content="", tool_calls=(call,)),
            Message(role="tool", content="done", tool_call_id="c", tool_name="renew"),
        ),
    )


RUNS = [run(f"f{n}", False) for n in range(4)] + [run(f"s{n}", True) for n in range(4)]
CONTEXT = Context(POLICY, (ToolSpec(name="lend", parameters={"properties": {"film": {}}}),))
GROUNDS = Grounds.of(CONTEXT, RUNS)


def question(known: dict[str, Rule] | None = None) -> Any:
    shown = [
        {"id": f"T{n}", "passed": n % 2 == 0, "task": "K1", "known": [], "text": "1 user: hello"}
        for n in (1, 2, 3, 4)
    ]
    return cases_question(SECTION, CONTEXT, shown, known or {}, GROUNDS, 1)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, ""),
        ({"rule": '"a book that somebody has RESERVED must not be renewed"'}, ""),
        ({"rule": "A book ... must not be renewed"}, "no quotation"),  # "a book" stands in any policy
        ({"rule": "A book that somebody ... must not be renewed"}, ""),
        ({"rule": "must not be renewed ... A book that somebody has reserved"}, "no quotation"),
        ({"rule": "Check every condition before renewing."}, "no quotation"),
        ({"tool": "renew_all"}, "no tool `renew_all`"),
        ({"tool": "`renew`"}, ""),
        ({"argument": "reader"}, "`renew` has no argument `reader`"),
        ({"tool": "lend", "argument": "film"}, ""),  # given, though no run calls it
        ({"rule": "", "argument": ""}, ""),
        ({"rule": "none", "tool": "", "argument": ""}, "it rests on nothing"),
        ({"when": "always"}, "`when` is empty"),
        ({"instead": ""}, "`instead` is empty"),
        ({"transcripts": ["T2"]}, "must name failed episodes"),
    ],
)
def test_a_case_rests_on_what_is_there_or_is_none(change: dict[str, Any], words: str) -> None:
    good = {**FINE, "transcripts": ["T3"]}
    given = {"cases": [good, {**RENEW, "transcripts": ["T1"], **change}], "known": []}
    answer, complaints = question().read(json.dumps(given))
    assert bool(complaints) == bool(words) == (answer is None)
    assert words in "; ".join(complaints)
    piece, _ = question().piece(json.dumps(given))
    left = question().rest(piece)
    assert [one.name for one in left.cases] == [FINE["name"], *([] if words else [RENEW["name"]])]


def test_rules_of_a_policy_have_the_same_checks_and_the_tools_that_calls_show_are_told() -> None:
    asked = rules_question(SECTION, CONTEXT, GROUNDS)
    assert "renew(book, days)" in asked.user and "lend(" not in asked.user, "lend stands in the context"
    assert POLICY in asked.system
    answer, complaints = asked.read(json.dumps({"cases": [RENEW, FINE, {**FINE, "rule": "Be kind to all."}]}))
    assert complaints == [] and [one.name for one in answer.cases] == [RENEW["name"], FINE["name"]]
    _, complaints = asked.read(json.dumps({"cases": [RENEW, {**FINE, "rule": "Be kind to all readers."}]}))
    assert complaints == [
        "case 2: `rule` is no quotation: these words do not stand in the policy in this order"
    ]


def test_known_cases_are_named_by_id_alone() -> None:
    asked = question({"R1": Rule(**RENEW)})
    assert '"id": "R1"' in asked.user and "No cases are known" in question().user
    again = [{"id": "r1", "transcripts": ["T1", "T2"]}, {"id": "R9", "transcripts": ["T1"]}]
    answer, complaints = asked.read(json.dumps({"cases": [], "known": again}))
    assert complaints == [] and [(one.id, one.transcripts) for one in answer.known] == [("R1", ["T1"])]


def librarian(messages: Sequence[dict[str, str]]) -> dict[str, Any]:
    """Write down two rules; of episodes say that the first was broken in one and a step missed in another."""
    system, user = messages[0]["content"], messages[1]["content"]
    if system.startswith("You read what an agent is given"):
        return {"cases": [RENEW, FINE]}
    if system.startswith("You compare"):
        # Each reader words the new case in its own way.
        name = COUNT["name"] if len(user) % 2 else f"{COUNT['name']}, please"
        return {
            "cases": [{**COUNT, "name": name, "transcripts": ["T1"]}],
            "known": [{"id": "R1", "transcripts": ["T3"]}],
        }
    assert system.startswith("Several readers")
    listed = [json.loads(line) for line in user.splitlines()[1:]]
    counting = [one["id"] for one in listed if one["name"].startswith(COUNT["name"])]
    others = [one["id"] for one in listed if one["id"] not in counting]
    groups = [{"keep": one, "members": [one]} for one in others]
    parents = [{"name": "Look before lending", "description": "Of both rules.", "members": others}]
    return {"groups": [{"keep": counting[0], "members": counting}, *groups], "parents": parents}


def test_what_failures_show_comes_first_and_the_rules_that_none_shows_behind(open_analyst: Open) -> None:
    told = Known(CONTEXT)
    with ChatServer(librarian) as server, open_analyst(server.url) as (_, opened):
        proposed = propose(opened, SECTION, "model:m", "x", RUNS, told)
        merged = merge(opened, SECTION, "model:m", "x", proposed.proposals)
    assert proposed.complete and not proposed.missing
    assert {row.discovery_pass for row in proposed.proposals} == {0, 1, 2}
    assert [row.name for row in proposed.proposals if row.discovery_pass == 0] == [
        RENEW["name"],
        FINE["name"],
    ]
    by_name = {one.name: one for one in merged.capabilities}
    (counting,) = (one for name, one in by_name.items() if name.startswith(COUNT["name"]))
    assert counting.detector_args == {"tool": "renew", "argument": "days"}
    assert len(counting.proposed_by) == 2 and not by_name[FINE["name"]].proposed_by
    renewing = by_name[RENEW["name"]]
    assert renewing.detector_args["rule"] == RENEW["rule"] and renewing.n_proposals == 3
    assert renewing.description == described(Rule(**RENEW)), "merging writes no words anew"
    names = [one.name for one in merged.capabilities]
    assert names[2:] == [FINE["name"], "Look before lending"]
    assert by_name[FINE["name"]].parent == renewing.parent == by_name["Look before lending"].capability_id


@pytest.mark.parametrize("policy", ["", POLICY])
def test_without_a_policy_no_rules_are_asked_for_and_without_an_answer_passes_go_on(
    open_analyst: Open, policy: str
) -> None:
    def answer(messages: Any) -> dict[str, Any]:
        if messages[0]["content"].startswith("You read what"):
            return {"cases": [{**RENEW, "rule": "Nobody has ever said this to anyone."}]}
        return {"cases": [{**COUNT, "transcripts": ["T1"]}], "known": []}

    with ChatServer(answer) as server, open_analyst(server.url, repairs=0) as (_, opened):
        done = propose(opened, SECTION, "model:m", "x", RUNS, Known(Context(policy)))
        asked = sum("write down the cases" in body["messages"][0]["content"] for body in server.bodies)
    assert asked == bool(policy)
    assert {row.name for row in done.proposals} == {COUNT["name"]}
    assert done.complete


def proposal(number: int, name: str) -> Proposal:
    return Proposal(
        target="x",
        analyst="model:m",
        proposal_id=f"p{number}-1",
        discovery_pass=number,
        name=name,
        description=f"Of {name}.",
        grounds={"tool": name},
    )


def test_cases_that_are_put_together_keep_the_words_of_one() -> None:
    asked = case_merge_question(SECTION, [proposal(n, name) for n, name in enumerate("abc", 1)])

    def read(*groups: tuple[str, list[str]]) -> tuple[Any, str]:
        given = {"groups": [{"keep": keep, "members": members} for keep, members in groups], "parents": []}
        answer, complaints = asked.read(json.dumps(given))
        return answer, "; ".join(complaints)

    answer, complaints = read(("P3", ["P1", "p3"]), ("", ["P2"]))
    assert complaints == ""
    assert [(one.keep, one.members) for one in answer.groups] == [("P3", ["P1", "P3"]), ("P2", ["P2"])]
    assert [one.members for one in read(("P1", ["P1"]), ("P2", ["P2"]))[0].groups][-1] == ["P3"], "forgotten"
    assert "P1 is in more than one" in read(("P1", ["P1", "P2"]), ("P3", ["P3", "P1"]))[1]
    assert read()[0] is None


def capability(name: str, *runs: str, **more: Any) -> Capability:
    return Capability(
        capability_id=model_capability_id("x", name),
        target="x",
        name=name,
        description=f"Of {name}.",
        analyst="model:m",
        detector_args={"tool": "renew"},
        proposed_by=runs,
        **more,
    )


def names(merged: Merged) -> list[str]:
    return [one.name for one in merged.capabilities]


def test_the_dictionary_grows_and_what_no_failure_shows_makes_room() -> None:
    broad = capability("broad", "f3")
    new = [
        capability("new", "f3", parent=broad.capability_id),
        capability("a rule that nobody breaks", parent=broad.capability_id),
    ]
    rows = [
        proposal(1, one.name).model_copy(update={"merged_into": one.capability_id, "merged_by": "model"})
        for one in new
    ]
    merged = Merged([*new, broad], rows, 2, "model")
    known = [
        capability("new", "f1"),
        capability("old", "f1", "f2", parent="gone"),
        capability("of runs that are gone", "f9"),
    ]
    runs = {"f1", "f2", "f3"}
    grown = keep_found(merged, known, runs, 9)
    assert names(grown) == ["new", "a rule that nobody breaks", "broad", "old"]
    assert grown.capabilities[-1].parent is None
    by_name = {one.name: one.proposed_by for one in grown.capabilities}
    assert by_name["new"] == ("f1", "f3") and by_name["old"] == ("f1", "f2")
    again = [*known, capability("a rule that nobody breaks", "f1", "f2", "f3")]
    assert names(keep_found(merged, again, runs, 1)) == ["a rule that nobody breaks", "broad"]
    full = keep_found(merged, known, runs, 2)
    assert names(full) == ["new", "broad", "old"]
    assert [row.merged_into for row in full.proposals] == [new[0].capability_id, None]
    assert keep_found(merged, [], runs, 9) == merged


def test_habits_and_cases_are_never_taken_for_each_other(open_analyst: Open) -> None:
    habit = capability("Look first", "f0").model_copy(update={"detector_args": {}})
    case = capability("Look at the reservation", "f0")

    def discovered(server: ChatServer, opened: Any, known: list[Capability]) -> list[str]:
        analyst = ModelAnalyst(opened, SECTION, Labels(model="m"), known, told={"x": Known(CONTEXT)})
        return [one.name for one in analyst.discover(RUNS)]

    with ChatServer(librarian) as server, open_analyst(server.url) as (_, opened):
        assert "Look first" not in discovered(server, opened, [habit])
        asked = len(server.bodies)
    assert not any("A dictionary holds" in body["messages"][0]["content"] for body in server.bodies)

    def recognising(messages: Any) -> dict[str, Any]:
        return {"same": []} if messages[0]["content"].startswith("A dictionary") else librarian(messages)

    with ChatServer(recognising) as server, open_analyst(server.url, home="other") as (_, opened):
        assert "Look at the reservation" in discovered(server, opened, [case])
        assert len(server.bodies) == asked + 1


def test_failures_that_are_explained_are_read_last() -> None:
    section = Discovery(passes=2, failures=2, successes=2)
    first, second = draw_batches(RUNS, section, explained={"f0", "f2"})
    assert {one.trajectory_id for one in first.failures} == {"f1", "f3"}
    assert {one.trajectory_id for one in second.failures} == {"f0", "f2"}
    assert draw_batches(RUNS, section) == draw_batches(RUNS, section, {f"f{n}" for n in range(4)})


def test_with_a_second_batch_new_failures_are_read_first_and_old_cases_stay(tmp_path: Path) -> None:
    """One reader finds a case in the first batch, one another in both: the dictionary has the two."""
    shown: list[str] = []

    def reader(name: str) -> Callable[[Sequence[dict[str, str]]], dict[str, Any]]:
        def answer(messages: Sequence[dict[str, str]]) -> dict[str, Any]:
            system, user = messages[0]["content"], messages[1]["content"]
            if system.startswith("You compare"):
                shown.append(user)
                return {"cases": [{**COUNT, "name": name, "transcripts": ["T1"]}], "known": []}
            return {"same": []}

        return answer

    def study(url: str) -> Study:
        given = {"analyst": "model", "model": "m", "size": "case", "passes": 1, "failures": 2, "successes": 1}
        given["further"] = 0  # which has tests of its own
        lines = [f"discovery.{key}={value}" for key, value in given.items()]
        return Study(Home.open(tmp_path / "home"), load_settings(None, [*lines, f"analyst.base_url={url}"]))

    def diagnosed(name: str, batch: str, runs: Sequence[Trajectory]) -> Study:
        with ChatServer(reader(name)) as server:
            opened = study(server.url)
            write_trajectories(opened.store, runs, batch)
            opened.store.write(triage(runs), Triage, batch)
            assert discover(opened).checks[0].passed
        return opened

    first = diagnosed("Count the days by the return date", "b1", RUNS)
    (old,) = first.store.read(Capability)
    (explained,) = old.proposed_by
    unexplained = "f1" if explained == "f0" else "f0"
    labels = [label(one.trajectory_id, old.capability_id) for one in RUNS]
    first.store.write(labels, Label, "b1")
    judged = [cause(one.trajectory_id, old.capability_id) for one in RUNS if not one.success]
    judged = [one for one in judged if one.trajectory_id != unexplained]
    first.store.write(judged, LackCause, "b1")
    shown.clear()
    again = diagnosed("Count the days by the return date", "b1", RUNS)
    assert shown == [] and again.store.read(Capability) == [old], "with nothing new nothing is asked"

    more = [run("n1", False), run("n2", True)]
    second = diagnosed("Say the date aloud", "b2", more)
    assert {one.name for one in second.store.read(Capability)} == {old.name, "Say the date aloud"}
    assert "please renew n1" in shown[0] and f"please renew {unexplained}" in shown[0]
    assert f"please renew {explained}" not in shown[0]


def label(run_: str, of: str) -> Label:
    return Label(trajectory_id=run_, capability_id=of, labelling_pass=1, labeller="model:m", label="NA")


def cause(run_: str, of: str) -> LackCause:
    return LackCause(trajectory_id=run_, capability_id=of, target="x", decisive="yes", judge="model:m")


def test_an_honest_reader_finds_what_was_planted_as_cases(
    honest: ChatServer, open_analyst: Open, trajectories: list[Trajectory], planted: list[Capability]
) -> None:
    with open_analyst(honest.url, discovery={"size": "case", "passes": 3}) as (analyst, _):
        found = analyst.discover(trajectories)
    assert {one.name.removeprefix(VARIANT) for one in found} == {one.name for one in planted}
    assert all(one.detector_args["tool"] in one.description for one in found)
