"""The model analyst against a server that answers honestly from the prompt: it finds what was planted."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from chat_server import ChatServer
from honest_reader import HonestReader, read_transcript

from trace_assets.diagnosis.conformance import check_analyst, examine_analyst
from trace_assets.diagnosis.detector_analyst import DetectorAnalyst
from trace_assets.diagnosis.llm.labelling import ordered
from trace_assets.diagnosis.llm.transcript import view
from trace_assets.errors import CheckFailed, InputError, Unavailable
from trace_assets.records import Capability, Label, Message, ToolCall, Trajectory
from trace_assets.settings import Discovery

Open = Callable[..., Any]


def meaning(labels: list[Label]) -> dict[tuple[str, str, int], tuple[Any, ...]]:
    return {
        (one.trajectory_id, one.capability_id, one.labelling_pass): (one.label, one.evidence, one.rationale)
        for one in labels
    }


def test_it_finds_what_was_planted_and_records_which_proposals_became_one(
    honest: ChatServer, open_analyst: Open, trajectories: list[Trajectory], planted: list[Capability]
) -> None:
    with open_analyst(honest.url) as (analyst, _):
        found = analyst.discover(trajectories)
        proposals = analyst.merged.proposals
    assert {one.name for one in found} == {one.name for one in planted}
    assert {one.analyst for one in found} == {"model:m"}
    assert len({one.discovery_pass for one in proposals}) == 6
    assert len(proposals) > len(found)
    by_id = {one.capability_id: one for one in found}
    for one in proposals:
        assert one.merged_by == "model"
        assert by_id[one.merged_into].name in one.name  # in other words, in some passes
        assert one.trajectories
    failed = {one.trajectory_id for one in trajectories if not one.success}
    assert {name for one in proposals for name in one.trajectories} <= failed
    for one in found:
        members = [row for row in proposals if row.merged_into == one.capability_id]
        assert one.n_proposals == len(members)
        assert set(one.proposed_by) <= {name for row in members for name in row.trajectories}


def test_labels_are_those_of_the_detectors_that_the_reader_applies_to_the_prompt(
    honest: ChatServer, open_analyst: Open, trajectories: list[Trajectory], planted: list[Capability]
) -> None:
    with open_analyst(honest.url) as (analyst, server):
        labels = analyst.label(trajectories, planted)
        calls = server.account.spent.calls
    different = {view(one, 10**6).text for one in trajectories}  # trials often go the same way
    assert calls == 2 * len(different)  # whatever the number of capabilities
    assert {one.labelling_pass for one in labels} == {1, 2}
    assert len(meaning(labels)) == len(labels) == 2 * len(trajectories) * len(planted)
    truth = {
        (one.trajectory_id, one.capability_id): one
        for one in DetectorAnalyst(Discovery()).label(trajectories, planted)
    }
    for one in labels:
        expected = truth[one.trajectory_id, one.capability_id]
        assert one.label == expected.label
        assert not expected.evidence or one.evidence == expected.evidence
        assert one.labeller == "model:m"


@pytest.mark.slow
def test_prefixes_are_shared_within_a_pass_and_orders_differ_between_passes(
    honest: ChatServer, open_analyst: Open, trajectories: list[Trajectory], planted: list[Capability]
) -> None:
    with open_analyst(honest.url) as (analyst, server):
        analyst.label(trajectories, planted)
        cached = server.account.spent.cached_tokens
    systems = {body["messages"][0]["content"] for body in honest.bodies}
    assert len(systems) == 1, "instructions, policy and tools are the beginning of every request"
    transcripts: dict[str, set[str]] = {}
    for body in honest.bodies:
        begun, listed = body["messages"][1]["content"].split("\n\nCapabilities, one JSON")
        transcripts.setdefault(begun, set()).add(listed)
    assert all(len(orders) == 2 for orders in transcripts.values()), "both passes share the transcript"
    assert cached > 0
    orders = {tuple(one.capability_id for one in ordered(planted, number)) for number in range(1, 9)}
    assert len(orders) > 1
    assert ordered(planted, 3) == ordered(planted[::-1], 3)


def test_it_conforms_without_a_call_more_than_needed(
    honest: ChatServer, open_analyst: Open, trajectories: list[Trajectory]
) -> None:
    few = trajectories[:40]
    with open_analyst(honest.url) as (analyst, server):
        findings = examine_analyst(analyst, few)
        assert all(one.passed for one in findings), findings
        made = server.account.spent.calls
        check_analyst(analyst, few)
        assert server.account.spent.calls == made
    contents = [json.dumps([body["messages"], body["seed"]]) for body in honest.bodies]
    assert len(contents) == len(set(contents)), "something was asked twice"


@pytest.mark.ci
def test_what_it_sends_does_not_depend_on_outcomes_or_names(
    honest: ChatServer, open_analyst: Open, trajectories: list[Trajectory], planted: list[Capability]
) -> None:
    flipped = [
        one.model_copy(
            update={
                "success": not one.success,
                "reward": 1.0 - (one.reward or 0.0),
                "stop": "agent_error",
                "error": "boom",
                "trajectory_id": f"outcome-{one.success}-{one.trajectory_id}",
            }
        )
        for one in trajectories
    ]
    sent = []
    for home, given in (("one", trajectories), ("two", flipped)):
        honest.bodies.clear()
        with open_analyst(honest.url, home) as (analyst, _):
            analyst.label(given, planted)
        sent.append(sorted(json.dumps(body, sort_keys=True) for body in honest.bodies))
    assert sent[0] == sent[1]
    assert not any("outcome-" in text or trajectories[0].task_id in text for text in sent[1])


def test_a_rerun_makes_no_call(
    honest: ChatServer, open_analyst: Open, trajectories: list[Trajectory], planted: list[Capability]
) -> None:
    results = []
    for _ in range(2):
        with open_analyst(honest.url) as (analyst, server):
            results.append((analyst.discover(trajectories), analyst.label(trajectories, planted)))
            calls = server.account.spent.calls
    assert results[0] == results[1]
    assert calls == 0


@pytest.mark.parametrize(
    "trouble",
    [
        {"refuses": ["response_format"]},
        {"refuses": ["temperature", "seed"]},
        {"refuses": ["response_format", "temperature", "seed"]},
        {"fenced": True},
    ],
    ids=str,
)
def test_servers_that_know_no_schema_are_asked_without(
    reader: HonestReader,
    open_analyst: Open,
    trajectories: list[Trajectory],
    planted: list[Capability],
    trouble: dict[str, Any],
) -> None:
    some = trajectories[:10]
    with (
        ChatServer(reader.answer, **trouble) as plain,
        open_analyst(plain.url, concurrency=1) as (analyst, server),
    ):
        labels = analyst.label(some, planted)
        assert server.refused == set(trouble.get("refuses", []))
        assert server.account.spent.calls == 2 * len({view(one, 10**6).text for one in some})
    truth = {
        (one.trajectory_id, one.capability_id): one.label
        for one in DetectorAnalyst(Discovery()).label(some, planted)
    }
    assert {(one.trajectory_id, one.capability_id): one.label for one in labels} == truth


@pytest.mark.ci
def test_a_transcript_that_the_server_calls_too_long_is_compacted_and_that_is_recorded(
    reader: HonestReader, open_analyst: Open, trajectories: list[Trajectory], planted: list[Capability]
) -> None:
    some = [lengthened(one) for one in trajectories[:4]]
    results = []
    for _ in range(2):
        with (
            ChatServer(reader.answer, context_bytes=40_000) as tight,
            open_analyst(tight.url, concurrency=1) as (analyst, server),
        ):
            results.append((analyst.label(some, planted), analyst.labelled.shown, len(tight.bodies)))
            assert (server.account.faults["full"] > 0) == (server.account.spent.calls > 0)
    (labels, shown, asked), (again, _, asked_again) = results
    assert meaning(labels) == meaning(again)
    assert asked > 0
    assert asked_again == 0, "what did not fit is remembered too"
    for one in some:
        row = shown[one.trajectory_id]
        assert row.rule != "whole"
        assert row.n_shortened == 20
        assert row.n_messages == len(one.messages)
        assert row.n_shown + row.n_left_out + row.n_withheld == row.n_messages


def lengthened(trajectory: Trajectory) -> Trajectory:
    """Let the agent look at twenty long lists before it begins."""
    first = next(i for i, one in enumerate(trajectory.messages) if one.role == "assistant")
    long: list[Message] = []
    for number in range(20):
        call = ToolCall(id=f"list{number}", name="list_news", arguments={"page": number})
        long.append(Message(role="assistant", tool_calls=(call,)))
        long.append(
            Message(role="tool", tool_name="list_news", tool_call_id=call.id, content=f"{number} news " * 600)
        )
    messages = (*trajectory.messages[:first], *long, *trajectory.messages[first:])
    return trajectory.model_copy(update={"messages": messages})


def test_an_answer_that_does_not_fit_a_reply_is_asked_for_in_halves(
    reader: HonestReader, open_analyst: Open, trajectories: list[Trajectory], planted: list[Capability]
) -> None:
    some = trajectories[:6]
    with ChatServer(reader.answer) as server, open_analyst(server.url, "a") as (analyst, _):
        whole = analyst.label(some, planted)
    with (
        ChatServer(reader.answer) as server,
        open_analyst(server.url, "b", reply_tokens=64) as (analyst, opened),
    ):
        halves = analyst.label(some, planted)
        assert opened.account.faults["cut"] > 0
    assert meaning(whole) == meaning(halves)


def test_two_targets_no_model_and_no_server_are_refused(
    honest: ChatServer, open_analyst: Open, trajectories: list[Trajectory], planted: list[Capability]
) -> None:
    with open_analyst(honest.url) as (analyst, _):
        other = trajectories[0].model_copy(update={"target": "other"})
        with pytest.raises(InputError, match="embedded, other"):
            analyst.discover([*trajectories, other])
        assert analyst.discover([one for one in trajectories if one.success]) == []
        assert analyst.label(trajectories, []) == []
        assert analyst.label([], planted) == []
    with (
        open_analyst(honest.url, labels={"model": ""}) as (analyst, _),
        pytest.raises(InputError, match=r"labels\.model"),
    ):
        analyst.label(trajectories, planted)
    with pytest.raises(InputError, match=r"analyst\.base_url"), open_analyst("") as _:
        pass
    with (
        open_analyst("http://127.0.0.1:9/v1", retries=1) as (analyst, _),
        pytest.raises(Unavailable, match=r"start it, or mend analyst\.base_url"),
    ):
        analyst.label(trajectories[:1], planted)


@pytest.mark.ci
def test_a_question_that_nobody_answers_is_named_and_the_rest_is_kept(
    reader: HonestReader, open_analyst: Open, trajectories: list[Trajectory], planted: list[Capability]
) -> None:
    poison = next(one for one in trajectories if len(one.messages) > 3)
    word = (poison.messages[1].content or "")[:60]

    def picky(messages: Any) -> dict[str, Any]:
        if json.dumps(word, ensure_ascii=False)[1:-1] in messages[1]["content"]:
            return {"labels": []}
        return reader.answer(messages)

    with ChatServer(picky) as server, open_analyst(server.url, repairs=1) as (analyst, _):
        with pytest.raises(CheckFailed, match="is missing"):
            analyst.label(trajectories, planted)
        done = analyst.labelled
        open_ones = {name for name, _ in done.missing}
        assert poison.trajectory_id in open_ones
        assert {one.trajectory_id for one in done.labels} == {
            one.trajectory_id for one in trajectories
        } - open_ones


def meant(message: Message) -> Any:
    """Return what a message says; of JSON the blanks say nothing."""
    text = message.content or ""
    return json.loads(text) if message.role == "tool" and text[:1] in ("{", "[") else text


def test_what_was_rendered_can_be_read_back(trajectories: list[Trajectory]) -> None:
    for one in trajectories:
        again = read_transcript(view(one, 10**6).text)
        assert [meant(m) for m in again.messages] == [meant(m) for m in one.messages]
        assert [[(c.name, c.arguments) for c in m.tool_calls] for m in again.messages] == [
            [(c.name, c.arguments) for c in m.tool_calls] for m in one.messages
        ]
