"""What agents' frameworks write, and loops of one's own: nothing that was said or done may be lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.formats.agent_forms import ARGUMENTS, ASKED, BROKE, CALLS, FORMS, GAVE, NO_MARK, SAID, TOOL
from tests.formats.forms import CHAT, lines, one
from tests.formats.reading import read_trajectories
from trace_assets.errors import InputError
from trace_assets.formats.problem import ProblemLog
from trace_assets.records import Trajectory


def acted(run: Trajectory) -> list[Any]:
    """Return what was asked, done and said, whichever messages it was divided into."""
    told: list[Any] = []
    for said in run.messages:
        if said.role == "tool":
            told.append((said.tool_name, said.content))
        elif said.content:
            told.append(said.content)
        told += [(call.name, call.arguments) for call in said.tool_calls]
    return told


def given(value: Any) -> Any:
    return value if isinstance(value, str) else json.dumps(value)


@pytest.mark.parametrize("way", ["a file a run", "lines"])
@pytest.mark.parametrize("name", FORMS)
def test_a_run_is_read_with_all_that_was_said_and_done(tmp_path: Path, name: str, way: str) -> None:
    form, folder = FORMS[name], tmp_path / "runs"
    folder.mkdir()
    for number in range(2):
        if way == "lines":
            rows = form if isinstance(form, list) else [form]
            lines(folder / f"r{number}.jsonl", *rows)
        else:
            (folder / f"r{number}.json").write_text(json.dumps(form, indent=1))
    read = read_trajectories([folder])
    assert not [one for one in read.problems if one.kind == "incomplete"]
    assert {run.task_batch for run in read.trajectories} <= {"runs", "r0", "r1"}
    assert len(read.trajectories) == 2 and len({run.task_id for run in read.trajectories}) <= 2
    for run in read.trajectories:
        done = [(TOOL, ARGUMENTS), (TOOL, BROKE), (TOOL, ARGUMENTS), (TOOL, given(GAVE))]
        apart = [done[0], done[2], done[1], done[3]]  # both calls in one message
        assert acted(run) in ([ASKED, *done, SAID], [ASKED, *apart, SAID])
        results = [said for said in run.messages if said.role == "tool"]
        asked = [call.id for said in run.messages for call in said.tool_calls]
        assert [said.tool_call_id for said in results] == asked
        marks = [bad and name not in NO_MARK for _, _, bad in CALLS]
        assert [said.is_error for said in results] == marks
        assert run.messages[0].role == "user" and run.messages[-1].role == "assistant"


@pytest.mark.parametrize("junk", [5, "x", [], None], ids=repr)
def test_an_entry_that_is_no_object_makes_no_reader_raise_and_takes_nothing_along(
    tmp_path: Path, junk: Any
) -> None:
    for name, form in FORMS.items():
        for place in (0, 2) if isinstance(form, list) else ():
            file = tmp_path / f"{name} {place}.json"
            file.write_text(json.dumps([*form[:place], junk, *form[place:]]))
            try:
                read = read_trajectories([file])
            except InputError:
                continue  # told of
            (run,) = read.trajectories
            told = acted(run)
            assert told[0] == ASKED and told[-1] == SAID and len(told) == 6, name


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield where in a form a kind or a speaker is told."""
    for key, each in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(each, dict | list):
            yield from places(each, (*path, key))
        elif key in KINDS:
            yield (*path, key)


KINDS = ("type", "kind", "part_kind", "content_type", "block_type", "event", "action", "observation", "state")
KINDS += ("source", "role", "author", "from", "status", "step_number")


@pytest.mark.parametrize("name", FORMS)
def test_no_word_is_lost_without_a_word_where_a_kind_is_not_known(tmp_path: Path, name: str) -> None:
    file = tmp_path / "r.json"
    whole = json.dumps(FORMS[name])
    for path in places(FORMS[name]):
        form = json.loads(whole)
        inner = form
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = "novelty"
        file.write_text(there := json.dumps(form))
        try:
            read = read_trajectories([file])
        except InputError:
            continue  # told of
        said = json.dumps([run.model_dump(mode="json") for run in read.trajectories])
        lost = [word for word in (ASKED, SAID, BROKE, TOOL) if word in there and word not in said]
        assert not lost or [one for one in read.problems if one.kind == "incomplete"], (path, lost)


def test_what_is_not_known_is_told_of_once_a_file_and_kind_and_its_text_is_kept(tmp_path: Path) -> None:
    vote = [{"type": "vote", "text": "I vote no."}, {"type": "poll", "ways": ["ask the owner"]}]
    rows = [{"messages": [*CHAT, {"role": "assistant", "content": vote}], "success": True}] * 3
    log = [*FORMS["own events"][:-1], {"event": "approval", "by": "nobody", "text": "Not that order."}]
    log += [{"event": "heartbeat", "at": "2026-11-27 04:00"}, {"event": "summary", "text": SAID}]
    files = [
        lines(tmp_path / name, *given)
        for name, given in (("chat.jsonl", rows), ("log.jsonl", log), ("other.jsonl", rows[:1]))
    ]
    read = read_trajectories(files)
    assert [run.messages[-1].content for run in read.trajectories] == ["I vote no.\n[poll]"] * 3 + [
        SAID,
        "I vote no.\n[poll]",
    ]
    told = [f"{Path(one.path).name} {one.message}" for one in read.problems if one.kind == "incomplete"]
    said = "words of {} entries or parts are left out, as their kind is not known: {}"
    assert told == [
        "chat.jsonl " + said.format(3, "'poll' (3, first in 'chat/1')"),
        "log.jsonl " + said.format(1, f"'approval' (1, first in '{tmp_path.name}/log')"),
        "other.jsonl " + said.format(1, "'poll' (1, first in 'other/1')"),
    ]


def test_an_entry_of_an_unknown_role_costs_that_entry_and_not_the_conversation(tmp_path: Path) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "What is the state of W7?"},
        {"role": "critic", "content": "Look before you answer."},
        {"role": "bot", "content": None, "tool_calls": [call]},
        {"role": "result", "tool_call_id": "c", "content": "sent"},
        {"role": "bot", "content": "It is sent."},
    ]
    (file := tmp_path / "a.jsonl").write_text(json.dumps({"messages": messages, "reward": 1}) + "\n")
    read = read_trajectories([file])
    (run,) = read.trajectories
    assert [one.role for one in run.messages] == ["user", "assistant", "tool", "assistant"]
    assert run.messages[2].tool_name == "look" and run.metadata["left_out"] == {"role critic": 1}
    assert ["'role critic' (1, first in 'a/1')" in one.message for one in read.problems] == [True]
    spoken = [one for one in messages if one["role"] in ("user", "critic")]  # no word of the agent is known
    for said in (spoken, spoken[1:]):
        file.write_text(json.dumps({"messages": said, "reward": 1}) + "\n")
        with pytest.raises(InputError, match="no trajectory could be read"):
            read_trajectories([file])


def test_what_lies_around_the_list_of_messages_judges_the_run(tmp_path: Path) -> None:
    for form in ({"history": CHAT, "result": {"passed": False}}, {"run": {"history": CHAT, "passed": False}}):
        (file := tmp_path / "a.json").write_text(json.dumps(form))
        assert one(file).success is False
    other = [{"role": "user", "content": "What nobody else says"}]
    (file := tmp_path / "a.json").write_text(json.dumps({"items": CHAT, "events": other}))
    assert one(file).metadata["left_out"] == {"events": 1}


def test_events_of_many_runs_in_one_file_are_told_apart_and_judged_by_their_ends(tmp_path: Path) -> None:
    rows = [{"run_id": f"run-{number}", **entry} for number in range(3) for entry in FORMS["own events"]]
    read = read_trajectories([lines(tmp_path / "log.jsonl", *rows)])
    assert [run.trajectory_id for run in read.trajectories] == ["log/run-0", "log/run-1", "log/run-2"]
    for run in read.trajectories:
        assert (run.success, run.policy, run.task_id) == (False, "m", "openai_chat:log/t")
        assert len(acted(run)) == 6 and "left_out" not in run.metadata  # they say nothing that is lost


def test_each_line_that_holds_a_run_under_another_name_is_one(tmp_path: Path) -> None:
    rows = [{"run_id": f"r{number}", "items": FORMS["responses"]} for number in range(3)]
    read = read_trajectories([lines(tmp_path / "a.jsonl", *rows)])
    assert [(run.trajectory_id, run.source_id) for run in read.trajectories] == [
        ("a/1", "r0"),
        ("a/2", "r1"),
        ("a/3", "r2"),
    ]


def test_messages_of_many_runs_in_one_table_are_no_single_conversation(tmp_path: Path) -> None:
    rows = [{"conversation_id": name, **said} for name in "abc" for said in CHAT]
    read = read_trajectories([lines(tmp_path / "messages.jsonl", *rows)])
    assert [run.trajectory_id for run in read.trajectories] == [f"messages/{name}" for name in "abc"]
    assert all(len(run.messages) == len(CHAT) for run in read.trajectories)


def test_a_form_that_is_not_known_is_refused_and_not_read_as_an_agent_that_does_nothing(
    tmp_path: Path,
) -> None:
    said = [{"role": "user", "content": ASKED}, {"role": "assistant", "pieces": [{"say": SAID}]}]
    with pytest.raises(
        InputError, match=r"1 of the agent's 1 messages have neither words nor calls.*'pieces'"
    ):
        read_trajectories([lines(tmp_path / "a.jsonl", {"messages": said})])
    seen = [
        {"role": "user", "content": ASKED},
        {"role": "assistant", "content": [{"type": "image", "url": "x"}]},
    ]
    assert one(lines(tmp_path / "b.jsonl", {"messages": seen})).messages[1].content == "[image]"


def test_runs_without_a_word_of_the_user_are_not_taken_for_trials_of_one_task(tmp_path: Path) -> None:
    said = [{"role": "assistant", "content": SAID}]
    read = read_trajectories([lines(tmp_path / "a.jsonl", {"messages": said}, {"messages": said})])
    assert len({run.task_id for run in read.trajectories}) == 2


@pytest.mark.parametrize(
    ("fields", "success"),
    [
        ({"verdict": "pass"}, True),
        ({"outcome": "not solved"}, False),
        ({"eval": {"passed": False}}, False),
        ({"label": "refund"}, None),
        ({"result": "Order K-1 is cancelled."}, None),
        ({"verdict": "pass", "success": False}, False),
    ],
)
def test_a_verdict_under_another_name_counts_where_its_words_are_known(
    tmp_path: Path, fields: dict[str, Any], success: bool | None
) -> None:
    assert one(lines(tmp_path / "a.jsonl", {"messages": CHAT, **fields})).success is success


def test_a_run_that_was_written_twice_counts_once(tmp_path: Path) -> None:
    rows = [{"run_id": "a", "messages": CHAT, "success": True}] * 2
    rows += [{"run_id": "a", "messages": CHAT[1:], "success": True}, {"messages": CHAT, "success": True}]
    read = read_trajectories([lines(tmp_path / "a.jsonl", *rows)])
    assert [run.source_id for run in read.trajectories] == ["a", "a", None]
    assert [str(one.kind) for one in read.problems] == ["duplicate"]


def test_a_table_that_says_nothing_known_is_told_of(tmp_path: Path) -> None:
    log = lines(tmp_path / "log.jsonl", {"messages": CHAT, "id": "a1"})
    (table := tmp_path / "v.csv").write_text("run,outcome\na1,so lala\n")
    told = [str(one) for one in read_trajectories([log, table]).problems]
    assert any("no row of the table" in one and "'outcome' ('so lala')" in one for one in told)
    table.write_text("ticket,outcome\na1,pass\n")
    told = [str(one) for one in read_trajectories([log, table]).problems]
    assert any("columns 'ticket', 'outcome', but none for a run's id" in one for one in told)
    table.write_text("file,outcome\na1.json,Not Solved\n")
    read = read_trajectories([log, table])
    assert [run.success for run in read.trajectories] == [False] and read.problems == []


def test_what_many_files_of_a_folder_have_is_one_line(tmp_path: Path) -> None:
    for number in range(9):
        (tmp_path / f"r{number}.json").write_text(json.dumps(FORMS["pydantic-ai"]))
    log = ProblemLog()
    for problem in read_trajectories([tmp_path]).problems:
        log.add(problem)
    ((severity, line),) = log.lines()
    assert severity == "notice" and "8 more like it in 9 files (not judged)" in line
