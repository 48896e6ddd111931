"""Two programs' conversations held against each other: turns, the first difference, and the figures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from trace_assets.cli.main import app
from trace_assets.cli.targets import agrees
from trace_assets.errors import InputError, Unavailable
from trace_assets.records import Message, ToolCall, Trajectory
from trace_assets.study import Study
from trace_assets.targets.tau2.official import OfficialSimulation
from trace_assets.targets.tau2.parity import (
    ParityPair,
    ParityReport,
    figures,
    first_difference,
    official_turns,
    our_turns,
    pair,
)
from trace_assets.workflows.benchmark_parity import ParityPlan, compare_with_official

GREETING = Message(role="assistant", content="Hi! How can I help you today?")
LOOK = ToolCall(id="call_0", name="look", arguments={"b": 1, "a": [2]})
OURS = (
    Message(role="system", content="The rules."),
    GREETING,
    Message(role="user", content="It is broken. "),
    Message(role="assistant", content=None, tool_calls=(LOOK,)),
    Message(role="tool", content='{"x": 1}', tool_call_id="call_0", tool_name="look"),
    Message(role="assistant", content="Goodbye."),
    Message(role="user", content="###STOP###"),
)


def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"id": f"chat-{name}", "name": name, "arguments": arguments, "requestor": "assistant"}


def theirs(**changes: Any) -> OfficialSimulation:
    messages: list[dict[str, Any]] = [
        {"role": "assistant", "content": GREETING.content},
        {"role": "user", "content": None, "tool_calls": [call("toggle", {})]},
        {"role": "tool", "content": "done", "requestor": "user", "error": False},
        {"role": "user", "content": "It is broken."},
        {"role": "assistant", "content": None, "tool_calls": [call("look", {"a": [2], "b": 1})]},
        {"role": "tool", "content": '{"x": 1}', "requestor": "assistant", "error": False},
        {"role": "assistant", "content": "Goodbye.", "tool_calls": None},
        {"role": "user", "content": "###STOP###"},
    ]
    row = {"task_id": "7", "trial": 0, "termination_reason": "user_stop", "messages": messages}
    return OfficialSimulation.model_validate({**row, "reward_info": {"reward": 1.0}, **changes})


def trajectory(reward: float | None = 1.0, messages: tuple[Message, ...] = OURS) -> Trajectory:
    return Trajectory(
        trajectory_id="t",
        task_id="tau2:airline/7",
        target="tau2:airline",
        task_batch="b",
        policy="mine",
        reward=reward,
        success=None if reward is None else reward >= 1,
        messages=messages,
        error=None if reward is not None else "the server is gone",
    )


def test_a_conversation_is_the_same_whatever_ids_and_hidden_dealings_it_holds() -> None:
    one = pair(trajectory(), theirs(), task_id="7", solo=False)
    assert (one.state, one.same_conversation, one.difference) == ("equal", True, "")


@pytest.mark.parametrize(
    ("place", "changed", "words"),
    [
        (
            2,
            Message(role="user", content="It works."),
            "message 2, the simulated user's: It works. here, It is",
        ),
        (3, Message(role="assistant", content="Hm."), "message 3, the agent's: Hm. here, look({"),
        (4, OURS[4].model_copy(update={"is_error": True}), "message 4, the environment's: "),
        (
            5,
            Message(role="user", content="Hello?"),
            "message 5 is the simulated user's here (Hello?) and the agent",
        ),
    ],
)
def test_the_first_difference_names_whose_message_it_is(place: int, changed: Message, words: str) -> None:
    messages = (*OURS[:place], changed, *OURS[place + 1 :])
    found = first_difference(our_turns(messages, solo=False), official_turns(theirs().messages))
    assert found.startswith(words)


def test_a_conversation_that_goes_on_in_one_program_alone_shows() -> None:
    short = our_turns(OURS[:-1], solo=False)
    whole = official_turns(theirs().messages)
    assert first_difference(short, whole).startswith(
        "only in tau2 run the conversation goes on after message 5"
    )
    assert first_difference(whole, short).startswith("only here the conversation goes on after message 5")


def test_a_solo_agent_ends_by_a_call_here_and_by_a_word_there() -> None:
    done = ToolCall(id="call_1", name="done", arguments={})
    answer = Message(role="tool", content="###STOP###", tool_call_id="call_1", tool_name="done")
    ours = (OURS[0], *OURS[3:5], Message(role="assistant", tool_calls=(done,)), answer)
    there = (*theirs().messages[4:6], theirs().messages[-1].model_copy(update={"role": "assistant"}))
    assert not first_difference(our_turns(ours, solo=True), official_turns(there))
    assert first_difference(our_turns(ours, solo=False), official_turns(there))


def test_the_same_conversation_with_another_verdict_is_the_graders() -> None:
    one = pair(trajectory(0.0), theirs(), task_id="7", solo=False)
    assert (one.state, one.difference) == ("differs", "the same conversation was judged differently")


def test_a_broken_conversation_is_no_reward_of_nought() -> None:
    broken = theirs(
        termination_reason="infrastructure_error",
        reward_info={"reward": 0.0},
        info={"error_type": "JSONDecodeError", "error": "Expecting value"},
    )
    one = pair(trajectory(0.0), broken, task_id="7", solo=False)
    assert (one.state, one.official) == ("not_compared", None)
    assert one.difference == "tau2 run gave up: JSONDecodeError: Expecting value"
    other = pair(trajectory(None), theirs(), task_id="7", solo=False)
    assert (other.state, other.difference) == ("not_compared", "broke here: the server is gone")


def report(rows: Sequence[tuple[float | None, float | None]]) -> ParityReport:
    pairs = tuple(
        ParityPair(
            task_id=str(number),
            trial=0,
            state="not_compared" if None in (ours, there) else "equal" if ours == there else "differs",
            ours=ours,
            official=there,
            our_end="completed",
            official_end="user_stop",
            same_conversation=ours == there,
        )
        for number, (ours, there) in enumerate(rows)
    )
    settings = {
        "target": "tau2:airline",
        "provenance": {},
        "agent": "a",
        "user": "u",
        "temperature": 0.0,
        "max_tokens": 64,
        "seed": 300,
        "trials": 1,
        "max_steps": 200,
    }
    return ParityReport.model_validate({**settings, **figures(pairs), "pairs": pairs})


def test_figures_carry_n_and_intervals_and_leave_out_what_was_not_judged_twice() -> None:
    found = report([(1.0, 1.0)] * 6 + [(0.0, 0.0)] * 3 + [(1.0, 0.0), (1.0, None), (None, 0.0)])
    assert (found.n, found.equal, found.same_conversations) == (10, 9, 9)
    assert (found.ours, found.official) == (0.7, 0.6)
    assert found.difference == pytest.approx(0.1)
    assert found.difference_low is not None and found.difference_high is not None
    assert found.difference_low < 0.1 < found.difference_high
    assert found.equal_low < 0.9 < found.equal_high


def test_agreement_wants_every_reward_or_an_interval_within_the_margin() -> None:
    assert agrees(report([(1.0, 1.0)] * 3), 0.0)
    assert not agrees(report([(1.0, 1.0)] * 3 + [(1.0, None)]), 0.5)  # one was not judged
    assert not agrees(report([]), 1.0)
    chance = [(1.0, 0.0), (0.0, 1.0)] * 5
    assert not agrees(report([(1.0, 1.0)] * 190 + chance), 0.0)
    assert agrees(report([(1.0, 1.0)] * 190 + chance), 0.1)
    assert not agrees(report([(1.0, 1.0)] * 5 + chance), 0.1)  # too few to say so
    assert not agrees(report([(1.0, 1.0)] * 150 + [(1.0, 0.0)] * 50), 0.1)


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["targets.options.user=scripted"], "plays tau2:airline with a user that is a language model"),
        ([], "the simulated user needs a model"),
        (["targets.options.user_model=u", "rollouts.engine=transformers"], "speaks to a model server"),
        (
            ["targets.options.user_model=u", "rollouts.base_url=http://a/v1,http://b/v1"],
            "speaks to one server",
        ),
        (
            ["targets.options.user_model=u", "rollouts.base_url=http://me:pw@a/v1"],
            "rollouts.base_url' in .* holds a user, password",
        ),
        (
            ["targets.options.user_model=u", "targets.options.user_base_url=http://me:pw@a/v1"],
            "targets.options' in .* holds a user, password",
        ),
    ],
)
def test_what_tau2_run_cannot_play_is_refused(overrides: list[str], words: str, tmp_path: Path) -> None:
    (tmp_path / "targets" / "tau2").mkdir(parents=True)
    (tmp_path / "targets" / "tau2" / "target.json").write_text(
        '{"name": "tau2", "python": "p", "source": "s"}'
    )
    server = ["rollouts.engine=openai", "rollouts.base_url=http://127.0.0.1:1/v1", "rollouts.model=m"]
    with pytest.raises(InputError, match=words):
        study = Study.open(tmp_path, overrides=[*server, *overrides])
        compare_with_official(study, ParityPlan("tau2:airline"))


def test_only_an_installed_tau2_is_compared_with(tmp_path: Path) -> None:
    study = Study.open(tmp_path, overrides=["targets.options.user_model=u"])
    with pytest.raises(Unavailable, match="trace targets install tau2"):
        compare_with_official(study, ParityPlan("tau2:airline"))
    with pytest.raises(InputError, match="not a target of tau2"):
        compare_with_official(study, ParityPlan("embedded"))


def test_the_command_says_what_differs_and_its_exit_code_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plans: list[ParityPlan] = []
    found = [report([(1.0, 1.0), (1.0, 0.0), (None, 1.0)]), report([(1.0, 1.0)])]

    def compare(study: Study, plan: ParityPlan) -> tuple[ParityReport, Path]:
        plans.append(plan)
        return found[len(plans) - 1], tmp_path

    monkeypatch.setattr("trace_assets.workflows.benchmark_parity.compare_with_official", compare)
    words = ["targets", "parity", "tau2:airline", "--tasks", "0", "--split", "all", "--trials", "3"]
    told = CliRunner().invoke(app, words, catch_exceptions=False)
    assert told.exit_code == 1
    assert "1 of 2 rewards equal (0.095 to 0.905)" in told.stdout
    assert "differs 1 trial 0: 1.0 here (completed), 0.0 in tau2 run (user_stop)" in told.stdout
    assert "not compared 2 trial 0: None here" in told.stdout
    assert "n = 2 in 2 tasks" in told.stdout
    assert (plans[0].tasks, plans[0].trials) == (None, 3)
    assert plans[0].splits == ("discovery", "validation", "test")
    told = CliRunner().invoke(app, ["targets", "parity", "tau2:airline", "--json"], catch_exceptions=False)
    assert told.exit_code == 0
    assert json.loads(told.stdout)["equal"] == 1
    assert (plans[1].tasks, plans[1].splits) == (20, ("discovery",))
