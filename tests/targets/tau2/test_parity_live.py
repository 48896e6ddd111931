"""Our runner against `tau2 run`, live: `TRACE_TAU2_HOME` names a home in which tau2 is installed."""

from __future__ import annotations

import json
import os
import re
from typing import Any

import pytest

from tests.targets.tau2.scripted_server import Manner
from tests.targets.tau2.table import Table, judge_by
from trace_assets.cli.targets import agrees
from trace_assets.errors import Unavailable
from trace_assets.store.locks import exclusive

HOME = os.environ.get("TRACE_TAU2_HOME", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not HOME, reason="tau2-bench is not installed: TRACE_TAU2_HOME names no home"),
]
MANNERS: dict[bool, tuple[Manner, ...]] = {
    False: ("right", "chatty", "null", "stopper", "erring", "endless"),
    True: ("right", "null", "erring", "endless"),
}
"""Those that both programs judge, by whether the agent is alone."""
EVERY = bool(os.environ.get("TRACE_TAU2_EVERY_TASK"))
"""All tasks instead of the first: minutes."""


def plain(body: dict[str, Any]) -> dict[str, Any]:
    """Return a request without what is each program's own: ids of calls, and how nothing is written."""
    numbers: dict[str, int] = {}
    messages = []
    for message in body["messages"]:
        row = {"role": message["role"], "content": message.get("content") or ""}
        for call in message.get("tool_calls") or ():
            numbers[call["id"]] = len(numbers)
            function = call["function"]
            said = (numbers[call["id"]], function["name"], json.loads(function["arguments"]))
            row.setdefault("calls", []).append(said)
        if message["role"] == "tool":
            row["answers"] = numbers[message["tool_call_id"]]
        messages.append(row)
    own = ("messages", "stream", "extra_body")
    return {"messages": messages, **{name: value for name, value in body.items() if name not in own}}


def test_both_give_the_same_rewards_and_ask_the_same(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = len(table.ours) if EVERY else 12
    table.options["max_steps"] = 200 if EVERY else 60
    manners: tuple[Manner, ...] = ("right",) if EVERY else MANNERS[table.solo]
    with table.server(manners, tasks) as server:
        judge_by(server, monkeypatch)
        report, folder = table.compare(server.v1, tasks)
    wrong = [one for one in report.pairs if one.state != "equal" or not one.same_conversation]
    assert not wrong
    assert (report.n, report.equal, report.same_conversations) == (tasks, tasks, tasks)
    assert json.loads((folder / "parity.json").read_text())["n"] == tasks
    right = [one for one in report.pairs if server.scripts[one.task_id].manner == "right"]
    assert right and all(one.ours == 1.0 for one in right)
    if not EVERY:
        assert any(one.ours == 0.0 for one in report.pairs)
        ends = {one.official_end for one in report.pairs}
        assert {"too_many_errors", "max_steps"} <= ends
    # Not only the outcome: agent and user were sent the same, tools, limits and seeds included.
    half = len(server.asked) // 2
    for who in ("agent", "user"):
        ours = [(one.task, plain(one.body)) for one in server.asked[:half] if one.who == who]
        theirs = [(one.task, plain(one.body)) for one in server.asked[half:] if one.who == who]
        assert sorted(ours, key=str) == sorted(theirs, key=str)


@pytest.mark.parametrize("table", ["telecom"], indirect=True)
def test_an_agent_that_acts_otherwise_there_shows(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    with table.server(("right",), 3) as server:
        judge_by(server, monkeypatch)
        server.spoilt[4] = "null"  # the second conversation of tau2's program
        report, _ = table.compare(server.v1, 3)
    spoilt = [one for one in report.pairs if one.state == "differs"]
    assert (report.n, report.equal, len(spoilt)) == (3, 2, 1)
    assert (spoilt[0].ours, spoilt[0].official) == (1.0, 0.0)
    assert re.fullmatch(r"message 3, the agent's: .+ here, Goodbye\. in tau2 run", spoilt[0].difference)
    assert not agrees(report, 0.0) and not agrees(report, 0.3)


@pytest.mark.parametrize("table", ["telecom"], indirect=True)
def test_what_tau2_gives_up_on_is_not_compared_and_played_again(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    with table.server(("right", "empty", "half"), 3) as server:
        judge_by(server, monkeypatch)
        # tau2 plays a conversation that broke four times in all, and each one begins anew.
        ours, theirs = server.order[:3], server.order[3:]
        again = [name for name in theirs for _ in range(1 if server.scripts[name].manner == "right" else 4)]
        server.order = ours + again
        report, folder = table.compare(server.v1, 3)
        by_manner = {server.scripts[one.task_id].manner: one for one in report.pairs}
        assert by_manner["right"].state == "equal"
        for manner in ("empty", "half"):
            one = by_manner[manner]
            assert (one.state, one.ours, one.official) == ("not_compared", 0.0, None)
            assert one.official_end == "infrastructure_error" and "tau2 run gave up: " in one.difference
        assert not agrees(report, 1.0)
        # The same comparison again: here all is finished, there what broke is played once more.
        begun = server.begun
        server.order += [name for name in theirs if server.scripts[name].manner != "right"]
        for script in server.scripts.values():
            script.manner = "right"
        report, again_in = table.compare(server.v1, 3)
    assert again_in == folder
    assert server.begun == begun + 2
    assert [one.official for one in report.pairs] == [1.0, 1.0, 1.0]
    assert [one.ours for one in report.pairs] == [
        1.0 if one.task_id == by_manner["right"].task_id else 0.0 for one in report.pairs
    ]


@pytest.mark.parametrize("table", ["airline"], indirect=True)
def test_several_at_once_and_all_of_it_again(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    with table.server(("null",), 6) as server:
        judge_by(server, monkeypatch)
        report, folder = table.compare(server.v1, 6, concurrency=2)
        assert (report.n, report.equal, report.same_conversations) == (6, 6, 6)
        assert {one.ours for one in report.pairs} == {0.0, 1.0}
        kept = json.loads((folder / "parity.json").read_text())
        report, _ = table.compare(server.v1, 6, concurrency=2)
        assert server.begun == 12  # nothing is played twice
        assert json.loads(report.model_dump_json()) == kept
        server.order *= 2
        table.compare(server.v1, 6, concurrency=2, again=True)
        assert server.begun == 24
        with exclusive(folder / "lock", "another"), pytest.raises(Unavailable, match="is under way in"):
            table.compare(server.v1, 6, concurrency=2)
