"""A hint against other words: scripted agents that heed it, do not, heed anything, or need no training."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from trace_assets.policies.protocol import Conversation, Reply
from trace_assets.records import CapabilitySpec, LabelValue, Message, Task, Trajectory
from trace_assets.settings import Targets, Training
from trace_assets.targets.embedded.target import EmbeddedTarget
from trace_assets.targets.protocol import Advising
from trace_assets.training.hint_gate import Gate, Hinted, Words, compare, judge, policy_sentence

WORDS = Words("Look at the window first.", "Look at the status first.", "user")
TARGET = EmbeddedTarget(Targets(discovery_tasks=240, validation_tasks=8, test_tasks=8))
SECTION = Training(pilot_search=240, pilot_tasks=40, max_turns=8)
LACKED = "window"
Chance = Callable[[str], float]


class Agent:
    """Solves tasks as the oracle does; on the lacked skill with a chance by what it is told, else not."""

    version = "1"
    name = "agent"

    def __init__(self, chance: Chance) -> None:
        self.chance, self.told = chance, list[str]()
        self._tasks = {task.instruction: task for task in TARGET.tasks("discovery")}

    async def act(self, conversation: Conversation) -> Reply:
        asked = next(message.content or "" for message in conversation.messages if message.role == "user")
        text = next((text for text in (WORDS.hint, WORDS.placebo) if asked.endswith(text)), "")
        task = self._tasks[asked.removesuffix(f" {text}") if text else asked]
        spoken = sum(message.role == "assistant" for message in conversation.messages)
        if not spoken:
            self.told.append(text)
        lucky = random.Random(conversation.seed).random() < self.chance(text)
        if LACKED in task.tags and not lucky:
            return Reply(Message(role="assistant", content="Goodbye."))
        return Reply(TARGET.oracle(task)[spoken])

    async def forget(self, conversation: Conversation) -> None:
        pass

    async def close(self) -> None:
        pass


def label(episode: Trajectory) -> LabelValue:
    needed = next(task for task in TARGET.tasks("discovery") if task.task_id == episode.task_id)
    if LACKED not in needed.tags:
        return "NA"
    return "PRESENT" if any(message.tool_calls for message in episode.messages) else "LACKING"


def gated(chance: Chance) -> tuple[Gate, Hinted, Agent]:
    agent = Agent(chance)
    found = compare(TARGET, agent, label, WORDS, SECTION)
    return judge(found), found, agent


def test_words_that_help_somewhat_show_a_cause_that_is_worth_teaching() -> None:
    gate, found, agent = gated(lambda text: 0.5 if text == WORDS.hint else 0.1)
    assert gate.verdict == "teach" and gate.rescue is not None and gate.rescue.low > 0
    assert gate.control is not None and gate.control.value == 0 and gate.control.n == 20
    assert "points" in gate.reason and f"of {len(found.hint)} tasks" in gate.reason
    assert found.rollouts == len(agent.told), "every episode is booked"
    tasks = len(found.hint) + len(found.control_hint)
    assert agent.told.count(WORDS.hint) == agent.told.count(WORDS.placebo) == 2 * tasks


def test_words_that_mend_it_suffice() -> None:
    assert gated(lambda text: 1.0 if text == WORDS.hint else 0.2)[0].verdict == "a prompt suffices"


def test_an_agent_that_heeds_nothing_shows_no_cause() -> None:
    gate = gated(lambda text: 0.0)[0]
    assert gate.verdict == "neither" and gate.rescue is not None and gate.rescue.value == 0


@pytest.mark.parametrize("chance", [0.3, 0.6])
def test_tasks_that_pass_more_often_the_second_time_are_no_rescue(chance: float) -> None:
    """Chosen for a failure, they pass again as often as before under either wording."""
    gate, found, _ = gated(lambda text: chance)
    assert sum(found.hint) / len(found.hint) > chance / 2, "all failed when they were chosen"
    assert gate.rescue is not None and gate.rescue.value == 0
    assert gate.verdict in ("neither", "undecided"), "as many tasks as there are decide"


def test_any_words_at_all_are_no_rescue_either() -> None:
    gate, _, _ = gated(lambda text: 0.9 if text else 0.2)
    assert gate.verdict == "neither"


def test_few_tasks_decide_nothing_and_are_not_played() -> None:
    agent = Agent(lambda text: 0.0)
    found = compare(TARGET, agent, lambda episode: "PRESENT", WORDS, SECTION)
    assert judge(found).verdict == "undecided" and set(agent.told) == {""} and found.rollouts == 240
    assert Hinted.read(found.text()) == found


def spec(detector: str, **arguments: object) -> CapabilitySpec:
    return CapabilitySpec(
        capability_id="x",
        target="embedded",
        name="X",
        description="d",
        detector=detector,
        detector_args=arguments,
    )


def test_the_desk_tells_its_agent_in_the_words_that_it_was_shown() -> None:
    told = EmbeddedTarget(Targets(options={"hints": True}))
    assert isinstance(told, Advising)
    window = spec("write_against_state", field="window", tool="refund_item")
    assert told.advice(window) == ("Look at the window first.", "Have a nice day.")
    assert told.advice(spec("object_untouched", argument="order")) == ("Do both.", "Thank you.")
    assert told.advice(spec("write_without_read", tool="cancel_order"))[0] == "Look at the status first."
    assert told.advice(spec("empty_turn")) == ("", "")
    assert TARGET.advice(window) == ("", "")


def test_the_placebo_speaks_of_something_else() -> None:
    hint = "Look the order up before you change it."
    other = policy_sentence(TARGET.policy, hint, ["order", "change", "look"])
    assert other in " ".join(TARGET.policy.split()) or other in TARGET.policy
    assert not {"order", "change", "look"} & set(other.lower().split())
    assert policy_sentence("", hint, []) == "Thank you for your work today."


def test_tasks_are_of_the_discovery_split_alone() -> None:
    seen: list[Task] = []

    class Watched(EmbeddedTarget):
        def episode(self, task: Task, *, seed: int):  # type: ignore[no-untyped-def]
            seen.append(task)
            return super().episode(task, seed=seed)

    compare(Watched(TARGET.section), Agent(lambda text: 0.0), label, WORDS, SECTION)
    assert {task.split for task in seen} == {"discovery"}
