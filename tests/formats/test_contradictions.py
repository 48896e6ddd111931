"""Rows that say two things of one run, or one in words of their own: read as a person would, or told of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.formats.reading import read_trajectories
from trace_assets.formats.chat import read_chat
from trace_assets.records import Message

TALK = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]


def read(folder: Path, *rows: dict[str, Any]) -> tuple[list[Any], list[str]]:
    file = folder / "a.jsonl"
    file.write_text(
        "".join(json.dumps({"messages": TALK, "id": n, **row}) + "\n" for n, row in enumerate(rows))
    )
    found = read_trajectories([file])
    return list(found.trajectories), [f"{one.kind} {one}" for one in found.problems]


@pytest.mark.parametrize(
    ("row", "success", "said"),
    [
        ({"reward": "1.0"}, True, ""),
        ({"reward": " 0.5 "}, False, ""),
        ({"reward": "True"}, True, ""),
        ({"reward": "95%"}, None, "is no number"),
        ({"reward": "nan"}, None, "is no number"),
        ({"success": "1.0"}, True, ""),
        ({"reward": 10, "max_reward": 10}, True, ""),
        ({"reward": 1, "max_reward": 10}, False, ""),
        ({"success": True, "passed": False}, True, "'passed' says 'False'"),
        ({"reward": 0.0, "score": 1.0}, False, "'score' says '1.0'"),
        ({"reward": 1.0, "score": 0.87}, True, ""),
        ({"reward": 1.0, "verdict": "fail"}, True, "'verdict' says 'fail'"),
        ({"success": True, "outcome": "solved", "label": "refund"}, True, ""),
        ({"messages": [*TALK[:1]], "reward": 1.0}, True, "says and does nothing"),
        ({"messages": [], "reward": 0.0}, False, ""),
    ],
)
def test_a_verdict_is_read_and_what_speaks_against_it_told(
    tmp_path: Path, row: dict[str, Any], success: bool | None, said: str
) -> None:
    found, told = read(tmp_path, {"reward": 0.0}, row)
    assert found[1].success is success
    assert said in told[0] if said else told == []


def test_rewards_of_another_scale_are_told_of(tmp_path: Path) -> None:
    found, told = read(tmp_path, *({"reward": value} for value in (100, 95, 1, 0)))
    assert [one.success for one in found] == [None, None, True, False]
    assert "2 rewards are above 1, so the 1 of just 1" in told[-1]
    assert read(tmp_path, {"reward": 1}, {"reward": 0})[1] == []


def test_tasks_of_two_benchmarks_with_one_name_are_told_of(tmp_path: Path) -> None:
    rows = [{"task_id": "7", "reward": 0.0, "benchmark": name} for name in ("air", "air", "shop")]
    assert [one.partition(" ")[0] for one in read(tmp_path, *rows)[1]] == ["other_task"]
    assert read(tmp_path, *rows[:2])[1] == []


def test_names_are_read_without_blanks_around_them(tmp_path: Path) -> None:
    rows = [{"task_id": task, "model": model, "reward": 1.0} for task, model in (("t", "m"), ("t ", " m\n"))]
    assert {(one.task_id, one.policy) for one in read(tmp_path, *rows)[0]} == {("openai_chat:a/t", "m")}


def test_messages_that_do_not_stand_in_the_order_of_their_times_are_told_of(tmp_path: Path) -> None:
    def timed(*times: object) -> dict[str, Any]:
        said = [TALK[place % 2] | {"timestamp": at} for place, at in enumerate(times)]
        return {"messages": [*said, {"role": "tool", "content": "", "timestamp": times[0]}], "reward": 1.0}

    late = timed("2026-01-01T10:00:09Z", "2026-01-01T10:00:08Z")
    assert "not in the order of their times" in read(tmp_path, late)[1][0]
    rows = [
        timed(1, 2),
        timed("2026-01-01 10:00", "2026-01-01 11:00"),
        timed(1, "2026-01-01"),
        timed("x", "a"),
    ]
    assert read(tmp_path, *rows)[1] == []


# Calls and what answers them.


def calls(*ids: str | None) -> dict[str, Any]:
    made = [{"function": {"name": f"tool_{n}", "arguments": "{}"}} for n in range(len(ids))]
    named = [call | {"id": name} if name else call for call, name in zip(made, ids, strict=True)]
    return {"role": "assistant", "tool_calls": named}


def result(text: str, **more: str) -> dict[str, Any]:
    return {"role": "tool", "content": text, **more}


def answered(messages: list[Message]) -> dict[str, str | None]:
    """Return result to tool, by the ids of calls."""
    made = {call.id: call.name for one in messages for call in one.tool_calls}
    assert all(one.tool_name == made[one.tool_call_id or ""] for one in messages if one.role == "tool")
    return {one.content or "": one.tool_name for one in messages if one.role == "tool"}


@pytest.mark.parametrize(
    ("ids", "results"),
    [
        ((None, None), [result("0"), result("1")]),
        ((None, None), [result("1", name="tool_1"), result("0", name="tool_0")]),
        (("c", "c"), [result("0", tool_call_id="c"), result("1", tool_call_id="c")]),
        (("a", "b"), [result("1", tool_call_id="b"), result("0", tool_call_id="a")]),
        (("a", "b"), [result("1", tool_call_id="b"), result("0")]),
    ],
)
def test_each_result_goes_to_its_own_call(ids: tuple[str | None, ...], results: list[dict[str, Any]]) -> None:
    for before in ([], [calls("a", "b", "c")]):  # of which the results are lost
        assert answered(read_chat([*before, calls(*ids), *results])) == {"0": "tool_0", "1": "tool_1"}


def test_a_message_that_is_logged_while_it_grows_counts_once() -> None:
    grown = [
        {"role": "assistant", "id": "m", "content": text} for text in ("Hel", "Hello", "Hello", "Hello you")
    ]
    assert [one.content for one in read_chat([TALK[0], *grown])] == ["Hi", "Hello you"]
    twice = [{"id": "m", **calls("c")}] * 2
    assert [len(one.tool_calls) for one in read_chat([*twice, result("ok")])] == [1, 0]
    said = [TALK[1], TALK[1], {"role": "assistant", "id": "n", "content": "x"}, {**grown[0], "content": "y"}]
    assert len(read_chat(said)) == 4  # without an id it may have been said twice
