"""What repairing a lack does to a failed run: planted causes and mere correlates at the order desk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pytest

from tests.scripted_policies import ScriptedPolicy
from trace_assets.diagnosis.contrast import contrast
from trace_assets.diagnosis.detectors import FAMILIES
from trace_assets.diagnosis.detectors.transcript import Transcript
from trace_assets.diagnosis.label_matrix import LabelMatrix
from trace_assets.diagnosis.repair.measure import Measured, measure
from trace_assets.diagnosis.repair.recipes import RECIPES, Donors, placebos, recipe
from trace_assets.diagnosis.repair.run import Expected, Plan, Run
from trace_assets.diagnosis.repair.shares import decisive_shares, decisive_words, indecisive
from trace_assets.diagnosis.selection import select
from trace_assets.diagnosis.triage import triage
from trace_assets.errors import Unavailable
from trace_assets.policies.protocol import Conversation
from trace_assets.records import (
    Capability,
    Label,
    Message,
    Repair,
    SelectedCapability,
    Task,
    ToolCall,
    Trajectory,
    Verdict,
)
from trace_assets.rollouts.episode import Trial
from trace_assets.rollouts.runner import run_rollouts
from trace_assets.settings import ContrastSection, Selection, Targets
from trace_assets.targets.embedded.demonstrations import mistaken
from trace_assets.targets.embedded.desk import case_of, look_up, solve
from trace_assets.targets.embedded.generator import Drawn
from trace_assets.targets.embedded.target import DeskEpisode, EmbeddedTarget

ORDER = {"argument": "order", "cues": []}
CAUSES = {
    "cancel": ("write_without_read", {"tool": "cancel_order", "read": "get_order", **ORDER}),
    "multi": ("object_untouched", {"argument": "order", "pattern": "[KM][0-9]{2}"}),
    "window": (
        "write_against_state",
        {"tool": "refund_item", "field": "window", "value": "closed", "instead": "transfer", **ORDER},
    ),
}
"""Skill to the capability whose lack is planted in it."""
CORRELATE = ("idle_loop", {"limit": 3, "writes": ["cancel_order", "refund_item", "transfer"]})
"""In failing runs the agent also looks three times at what it has done, which harms nobody."""
FAMILY = {family.name: family for family in FAMILIES}


def capability(detector: str, args: dict[str, Any]) -> Capability:
    return Capability(
        capability_id=detector,
        target="embedded",
        name=detector,
        description="",
        analyst="detectors",
        detector=detector,
        detector_args=args,
    )


def label(one: Trajectory, candidate: Capability) -> Label:
    found = FAMILY[candidate.detector or ""].label(Transcript(one.blind()), candidate.detector_args)
    return Label(
        trajectory_id=one.trajectory_id,
        capability_id=candidate.capability_id,
        labeller="detectors",
        label=found.label,
        evidence=found.evidence,
    )


def careless(task: Task, number: int) -> list[Message]:
    """Every second time make the skill's mistake, and with it the harmless habit."""
    skill, case = task.tags[0], case_of(task)
    if skill not in CAUSES or number % 2:
        return solve(case)
    turns = mistaken(Drawn(orders=case.orders, requests=case.requests, skill=skill, text=task.instruction))  # type: ignore[arg-type]
    if skill == "cancel":
        look = Message(
            role="assistant",
            tool_calls=(look_up(case.requests[0].order).model_copy(update={"id": "again"}),),
        )
        return [*turns[:-1], look, look, look, turns[-1]]
    return turns


def played(target: EmbeddedTarget, say: Callable[[Task, int], Sequence[Message]]) -> list[Trajectory]:
    tasks = {task.instruction: (task, number) for number, task in enumerate(target.tasks("discovery"))}

    def answer(conversation: Conversation) -> Message:
        asked = next(one.content for one in conversation.messages if one.role == "user")
        turns = say(*tasks[asked or ""])
        return turns[sum(message.role == "assistant" for message in conversation.messages)]

    trials = [Trial(task=task) for task, _ in tasks.values()]
    return run_rollouts(target, trials, ScriptedPolicy(answer, name="scripted", version="1"), max_turns=9)


def measured(target: EmbeddedTarget, runs: list[Trajectory], candidates: list[Capability]) -> Measured:
    tasks = {task.task_id: task for task in target.tasks("discovery")}
    labels = [label(one, candidate) for one in runs for candidate in candidates]
    return asyncio.run(measure(target, tasks, runs, candidates, labels))


@cache
def desk() -> tuple[EmbeddedTarget, list[Trajectory]]:
    target = EmbeddedTarget(Targets(discovery_tasks=144))
    return target, played(target, careless)


EVERY = [capability(*one) for one in (*CAUSES.values(), CORRELATE)]


@pytest.fixture(scope="module")
def rows() -> list[Repair]:
    target, runs = desk()
    return measured(target, runs, EVERY).rows


def test_planted_causes_are_decisive_and_what_merely_goes_with_them_is_not(rows: list[Repair]) -> None:
    _, runs = desk()
    labels = [label(one, candidate) for one in runs for candidate in EVERY]
    matrix = LabelMatrix.build(labels, triage(runs), "embedded")
    shares = {row.capability_id: row for row in decisive_shares(matrix, rows, "embedded", live=True)}
    for detector, _args in CAUSES.values():
        share = shares[detector]
        assert share.share == 1.0 and share.placebo == 0.0, share
        assert share.n_replayed == share.n_lacking == share.n_placebo >= 7 and not share.lower_bound
        assert share.share_low is not None and share.share_low > 0.5
    correlate = shares["idle_loop"]
    assert correlate.share == 0.0 and correlate.n_replayed >= 10 and not correlate.lower_bound
    assert correlate.share_high is not None and correlate.share_high < 0.3


def selected(
    rows: list[Repair], candidates: list[Capability], section: Selection
) -> list[SelectedCapability]:
    _, runs = desk()
    labels = [label(one, candidate) for one in runs for candidate in candidates]
    outcomes = triage(runs)
    contrasts = contrast(labels, outcomes, ContrastSection(resamples=200, permutations=500), "embedded")
    matrix = LabelMatrix.build(labels, outcomes, "embedded")
    shares = decisive_shares(matrix, rows, "embedded", live=True)
    return select(contrasts, candidates, labels, outcomes, section, shares)


def test_a_mere_correlate_passes_the_contrast_and_is_rejected_by_its_repairs(rows: list[Repair]) -> None:
    # Runs with three calls are relevant to it, so that the contrast alone takes it for a lack.
    alone = [capability(*CORRELATE)]
    (kept,) = selected(rows, alone, Selection(min_decisive=-1))
    assert kept.kept, kept.reason
    (rejected,) = selected(rows, alone, Selection())
    assert not rejected.kept and rejected.verdict == "rejected"
    assert (
        "decisive share 0.00 [0.00, " in rejected.reason and "0.10 more than the placebo's" in rejected.reason
    )
    (cause,) = selected(rows, [capability(*CAUSES["cancel"])], Selection())
    assert cause.kept
    (untried,) = selected([], alone, Selection())  # what was not measured rejects nothing
    assert untried.kept


def test_rows_say_what_was_changed_and_what_it_earned(rows: list[Repair]) -> None:
    by = {row.capability_id: row for row in rows}
    looked = [row for row in rows if row.capability_id == "write_without_read"]
    assert {row.kind for row in looked} == {
        "insert",
        "replace",
    }  # of some the look would have changed the write
    for row in looked:
        assert row.change.startswith("get_order(order=") and "put in before cancel_order" in row.change
        assert row.reward_before is not None and row.reward_before < 1 and row.reward_after == 1.0
        assert len(row.placebo_rewards) == 1 and row.placebo_rewards[0] < 1 and row.placebo_passed is False
    assert by["write_against_state"].kind == "replace"
    assert "replaced by transfer(" in by["write_against_state"].change
    assert by["idle_loop"].kind == "remove" and by["idle_loop"].reward_after == by["idle_loop"].reward_before


class Moody(EmbeddedTarget):
    """A target whose verdicts are other ones each time, or break with an error."""

    error: Exception | None = None
    episodes = 0

    def episode(self, task: Task, *, seed: int) -> DeskEpisode:
        self.episodes += 1
        made, number, error = super().episode(task, seed=seed), self.episodes, self.error

        async def verdict() -> Verdict:
            if error is not None:
                raise error
            return Verdict(reward=0.7 + number / 10_000, success=False)

        made.verdict = verdict  # type: ignore[method-assign]
        return made


def test_a_run_that_comes_out_otherwise_is_not_replayable_and_counts_in_no_share() -> None:
    _, runs = desk()
    target = Moody(Targets(discovery_tasks=144))
    found = measured(target, runs, EVERY)
    assert found.rows and {row.status for row in found.rows} == {"not replayable"}
    assert all(row.reward_after is None and row.placebo_passed is None for row in found.rows)
    assert "played again unchanged it gives reward" in found.rows[0].detail
    matrix = LabelMatrix.build([label(one, EVERY[0]) for one in runs], triage(runs), "embedded")
    (share,) = decisive_shares(matrix, found.rows, "embedded", live=True)
    assert share.share is None and share.n_not_replayable == share.n_lacking > 0
    assert share.not_measured.startswith("not measured: ") and "not replayable" in share.not_measured
    assert not indecisive(share, Selection())


def test_a_fault_of_the_target_is_no_reward_and_a_server_that_is_down_stops_the_work() -> None:
    _, runs = desk()
    target = Moody(Targets(discovery_tasks=144))
    target.error = RuntimeError("lost the database")
    found = measured(target, runs, EVERY)
    assert {row.status for row in found.rows} == {"not replayable"}
    assert "RuntimeError: lost the database" in found.rows[0].detail
    target.error = Unavailable("the sandbox is down")
    with pytest.raises(Unavailable, match="sandbox is down"):
        measured(target, runs, EVERY)


def test_a_target_that_is_not_replayable_is_not_played() -> None:
    class Talked(Moody):
        @property
        def not_replayable(self) -> str:
            return "a model plays its user"

    _, runs = desk()
    target = Talked(Targets(discovery_tasks=144))
    found = measured(target, runs, EVERY)
    assert target.episodes == found.replays == 0
    assert {(row.status, row.detail) for row in found.rows} == {("not replayable", "a model plays its user")}


def test_a_forfeited_run_does_not_pass_by_a_repair() -> None:
    target, runs = desk()
    lost = [
        one.model_copy(
            update={"stop": "agent_error", "reward": 0.0, "messages": (*one.messages[:-1], one.messages[-1])}
        )
        for one in runs
        if one.success is False and one.task_id
    ]
    found = measured(target, lost, [EVERY[0]])
    # Its last words were never heard, so the run as recorded is that of the calls before.
    assert found.rows and {row.status for row in found.rows} == {"not decisive"}
    assert {row.reward_after for row in found.rows} == {0.0}


def test_other_targets_and_runs_that_were_not_replayed_say_so() -> None:
    _, runs = desk()
    matrix = LabelMatrix.build([label(one, EVERY[0]) for one in runs], triage(runs), "embedded")
    (other,) = decisive_shares(matrix, [], "embedded", live=False)
    (later,) = decisive_shares(matrix, [], "embedded", live=True)
    assert "of another target than the live one" in other.not_measured
    assert "`trace sync`" in later.not_measured and later.n_lacking > 0
    assert decisive_words(later) == later.not_measured and decisive_words(None) == "not measured"


def test_labels_that_changed_since_leave_the_share(rows: list[Repair]) -> None:
    _, runs = desk()
    labels = [label(one, EVERY[0]) for one in runs]
    lacking = [one for one in labels if one.label == "LACKING"]
    gone = {one.trajectory_id for one in lacking[:3]}
    fewer = [
        one.model_copy(update={"label": "PRESENT"}) if one.trajectory_id in gone else one for one in labels
    ]
    matrix = LabelMatrix.build(fewer, triage(runs), "embedded")
    (share,) = decisive_shares(matrix, rows, "embedded", live=True)
    assert share.n_replayed == share.n_lacking == len(lacking) - 3


def repaired(n: int, *, passes: int, placebo: int = 0, partial: bool = False) -> list[Repair]:
    return [
        Repair(
            trajectory_id=f"r{number}",
            capability_id="c",
            target="x",
            task_id=f"x/{number}",
            status="decisive" if number < passes else "not decisive",
            kind="insert",
            partial=partial,
            reward_before=0.0,
            reward_after=float(number < passes),
            placebo_rewards=(float(number < placebo),),
            placebo_passed=number < placebo,
        )
        for number in range(n)
    ]


@pytest.mark.parametrize(
    ("rows", "rejected"),
    [
        (repaired(20, passes=0), True),
        (repaired(20, passes=9, placebo=9), True),  # any change lets it pass
        (repaired(20, passes=9), False),
        (repaired(5, passes=0), False),  # too few to tell
        (repaired(20, passes=0, partial=True), False),  # more would follow than was replayed
    ],
)
def test_what_is_rejected_for_its_repairs(rows: list[Repair], rejected: bool) -> None:
    labels = [
        Label(trajectory_id=row.trajectory_id, capability_id="c", labeller="detectors", label="LACKING")
        for row in rows
    ]
    outcomes = triage(
        [
            Trajectory(
                trajectory_id=row.trajectory_id,
                task_id=row.task_id,
                target="x",
                task_batch="b",
                policy="p",
                success=False,
                reward=0.0,
                messages=(Message(role="assistant", content="Done."),),
                n_messages=1,
            )
            for row in rows
        ]
    )
    outcomes = [row.model_copy(update={"fault": "agent"}) for row in outcomes]
    (share,) = decisive_shares(LabelMatrix.build(labels, outcomes, "x"), rows, "x", live=True)
    assert share.n_replayed == len(rows)
    assert bool(indecisive(share, Selection())) is rejected


# Recipes on their own, with and without what the target expects.


def run(
    *steps: tuple[str, dict[str, Any]], expected: Sequence[ToolCall] | None = None, said: str = ""
) -> Run:
    messages = [Message(role="user", content=said or "Deal with K10 and K11.")]
    for place, (tool, arguments) in enumerate(steps):
        made = ToolCall(id=f"c{place}", name=tool, arguments=arguments)
        refused = arguments.get("order") == "K99"
        messages += [
            Message(role="assistant", tool_calls=(made,)),
            Message(
                role="tool",
                content='{"error": "no"}' if refused else '{"order": "K10"}',
                tool_call_id=f"c{place}",
                tool_name=tool,
                is_error=refused,
            ),
        ]
    messages.append(Message(role="assistant", content="All is done."))
    one = Trajectory(
        trajectory_id="t",
        task_id="x/1",
        target="x",
        task_batch="b",
        policy="p",
        success=False,
        reward=0.0,
        messages=tuple(messages),
    )
    known = None if expected is None else Expected(tuple(expected), "It is done as it should be.")
    return Run(one, known, frozenset({"cancel", "refund", "transfer"}))


def wants(tool: str, **arguments: Any) -> ToolCall:
    return ToolCall(id="", name=tool, arguments=arguments)


LOOK, CANCEL, REFUND = ("get", {"order": "K10"}), ("cancel", {"order": "K10"}), ("refund", {"order": "K99"})


def calls(found: Run, plan: Plan) -> list[str]:
    return [f"{call.name} {call.arguments}" for turn in found.turns(plan) for call in turn.tool_calls]


@pytest.mark.parametrize(
    ("detector", "args", "evidence", "made", "after"),
    [
        (
            "write_without_read",
            {"tool": "cancel", "read": "get", "argument": "order"},
            (1,),
            run(CANCEL),
            ["get {'order': 'K10'}", "cancel {'order': 'K10'}"],
        ),
        (
            "write_against_state",
            {"tool": "cancel", "instead": "transfer", "argument": "order"},
            (2, 3),
            run(LOOK, CANCEL),
            ["get {'order': 'K10'}", "transfer {'order': 'K10', 'reason': 'closed'}"],
        ),
        (
            "write_against_policy",
            {"tool": "cancel", "argument": "order"},
            (3,),
            run(LOOK, CANCEL),
            ["get {'order': 'K10'}"],
        ),
        (
            "object_untouched",
            {"argument": "order", "pattern": "K[0-9]{2}"},
            (0,),
            run(LOOK, expected=[wants("get", order="K10"), wants("refund", order="K11")]),
            ["get {'order': 'K10'}", "refund {'order': 'K11'}"],
        ),
        (
            "ended_with_work_open",
            {"tool": "cancel", "cues": []},
            (0,),
            run(LOOK, expected=[wants("cancel", order="K10")]),
            ["get {'order': 'K10'}", "cancel {'order': 'K10'}"],
        ),
        (
            "unsupported_argument",
            {"argument": "order", "tool": ""},
            (1,),
            run(REFUND, REFUND, expected=[wants("refund", order="K11")]),
            ["refund {'order': 'K11'}", "refund {'order': 'K11'}"],
        ),
        (
            "unrecovered_error",
            {"tool": "refund"},
            (2,),
            run(REFUND, expected=[wants("refund", order="K11")]),
            ["refund {'order': 'K11'}"],
        ),
        (
            "unverified_write",
            {"writes": ["cancel"], "reads": ["get"]},
            (3, 5),
            run(LOOK, CANCEL),
            ["get {'order': 'K10'}", "cancel {'order': 'K10'}", "get {'order': 'K10'}"],
        ),
        ("repeated_error", {}, (2, 3), run(REFUND, REFUND), ["refund {'order': 'K99'}"]),
        ("idle_loop", {"limit": 3, "writes": []}, (1, 3, 5), run(LOOK, LOOK, LOOK), ["get {'order': 'K10'}"]),
        (
            "claim_without_write",
            {"writes": ["cancel"]},
            (3,),
            run(LOOK, expected=[wants("cancel", order="K10")]),
            ["get {'order': 'K10'}", "cancel {'order': 'K10'}"],
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_recipe_changes_just_what_the_capability_prescribes(
    detector: str, args: dict[str, Any], evidence: tuple[int, ...], made: Run, after: list[str]
) -> None:
    donors = Donors({"transfer": {"order": "K55", "reason": "closed"}})
    shown = Label(trajectory_id="t", capability_id=detector, labeller="d", label="LACKING", evidence=evidence)
    plan = recipe(made, capability(detector, args), shown, donors)
    assert isinstance(plan, Plan), plan
    assert calls(made, plan) == after
    words = [turn.content for turn in made.turns(plan)][-1]
    told = made.expected is not None and plan.closing
    assert words == ("It is done as it should be." if told else "All is done.")
    for other in placebos(made, plan):
        assert calls(made, other) != after


@pytest.mark.parametrize(
    ("detector", "args", "reason"),
    [
        ("object_untouched", {"argument": "order", "pattern": "K[0-9]{2}"}, "with k11 is not known"),
        (
            "ended_with_work_open",
            {"tool": "frob", "cues": []},
            "which arguments frob should have been called",
        ),
        ("unsupported_argument", {"argument": "order", "tool": ""}, "which value 'order' of get"),
        ("unrecovered_error", {"tool": "refund"}, "would have succeeded is not known"),
        ("write_against_state", {"tool": "refund", "argument": "order"}, "which call of refund"),
        ("claim_without_write", {"writes": ["cancel"]}, "what should have been written is not known"),
        ("unasked_condition", {"stems": ["abroad"], "topics": []}, "only another turn of the agent"),
    ],
)
def test_what_nobody_can_repair_says_why(detector: str, args: dict[str, Any], reason: str) -> None:
    shown = Label(trajectory_id="t", capability_id=detector, labeller="d", label="LACKING", evidence=(1,))
    plan = recipe(run(LOOK), capability(detector, args), shown, Donors())
    assert isinstance(plan, str) and reason in plan


def test_a_model_s_capability_has_no_recipe() -> None:
    one = capability("x", {}).model_copy(update={"detector": None})
    shown = Label(trajectory_id="t", capability_id="x", labeller="model:m", label="LACKING")
    assert recipe(run(LOOK), one, shown, Donors()).startswith("no detector says what its repair")


def test_every_recipe_is_of_a_detector_family() -> None:
    assert set(RECIPES) <= set(FAMILY)


def test_an_unchanged_run_has_the_turns_that_were_recorded() -> None:
    _, runs = desk()
    for one in runs:
        turns = Run(one, None, frozenset()).turns()
        assert turns == [message for message in one.messages if message.role == "assistant"]
