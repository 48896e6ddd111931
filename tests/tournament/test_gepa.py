"""GEPA as an arm: its search keeps the budget, resumes and never scores a fault; who writes; refusals."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.answering import Answer, AnsweringServer, InTurn, completion
from tests.tournament.test_arms import decided, reading_base, silent_base, world_of_words
from tests.training.conftest import base, words
from tests.training.word_target import WordEpisode, WordTarget
from trace_assets.diagnosis.llm.budget import Account, Totals, read_calls, totals
from trace_assets.diagnosis.llm.client import ModelServer
from trace_assets.diagnosis.llm.recording import Answers
from trace_assets.errors import Unavailable
from trace_assets.policies.protocol import Conversation, Reply, TokenTrace
from trace_assets.records import Check, Message, Split, Task, Trajectory, Verdict
from trace_assets.settings import Analyst, Settings
from trace_assets.store import Home
from trace_assets.study import Study
from trace_assets.tournament import arms
from trace_assets.tournament.arms.protocol import PlayedWorld
from trace_assets.tournament.arms.reflected import LONGEST, SILENT, Gepa, ModelWords, choose
from trace_assets.tournament.arms.word_search import (
    MINIBATCH,
    Feedback,
    Found,
    ListedWords,
    Writer,
    fewest_rollouts,
    search,
    split,
    told_of,
)
from trace_assets.training.episodes import Player

__all__ = ["base", "words"]

GOOD, IDLE = "Say it loudly.", "Have a nice day."
BUDGET = 200


class Many(WordTarget):
    """The words, asked for in many discovery tasks."""

    def tasks(self, split: Split) -> Sequence[Task]:
        some = super().tasks(split)
        if split != "discovery":
            return some
        return [one.model_copy(update={"task_id": f"{one.task_id}/{n}"}) for n in range(6) for one in some]


class Obeys:
    """Says the word that it is asked for where it is told to say it loudly; notes where it was untold."""

    name, version = "obeys", "1"

    def __init__(self) -> None:
        self.heard: list[str] = []

    async def act(self, conversation: Conversation) -> Reply:
        asked = " ".join(one.content or "" for one in conversation.messages)
        self.heard.append(asked)
        conversation.tokens = TokenTrace([1], [1], [0.0])
        word = asked.split("say ")[1].split()[0] if GOOD in asked else "w1"
        return Reply(Message(role="assistant", content=word))

    async def forget(self, conversation: Conversation) -> None:
        pass

    async def close(self) -> None:
        pass


def searched(
    folder: Path,
    writer: Writer,
    *,
    target: WordTarget | None = None,
    policy: Obeys | None = None,
    budget: int = BUDGET,
    feedback: Feedback = "score",
) -> Found:
    target = target or Many()
    read, chosen_on = split(target.tasks("discovery"), 8)
    with Player(target, policy or Obeys(), seed=3, max_turns=2, concurrency=8) as player:
        return search(
            player,
            read,
            chosen_on,
            writer,
            place="user",
            feedback=feedback,
            budget=budget,
            folder=folder / "search",
        )


def test_words_that_help_are_found_within_the_budget(tmp_path: Path) -> None:
    policy = Obeys()
    found = searched(tmp_path, ListedWords([GOOD, IDLE], 0), policy=policy)
    assert GOOD in found.words[0] and found.words[-1] == ""
    assert found.played == len(policy.heard) <= BUDGET
    assert found.ended == "every task that words are chosen on was paid in full"
    assert searched(tmp_path / "again", ListedWords([GOOD, IDLE], 0)) == found


@pytest.mark.parametrize("budget", [60, 61, 97])
def test_no_rollout_is_played_beyond_the_budget(tmp_path: Path, budget: int) -> None:
    class Restless:
        """Proposes words that help a little more each time, so that each is compared on all tasks."""

        ended = ""

        def propose(self, told: str, episodes: Sequence[Mapping[str, Any]]) -> str:
            return f"{told} x".strip()

    class Counts(Many):
        def episode(self, task: Task, *, seed: int) -> WordEpisode:
            return Longer(task.payload["word"], False)

    class Longer(WordEpisode):
        async def verdict(self) -> Verdict:
            return Verdict(reward=self.said.count("x") / 100, success=False)

    class Echo(Obeys):
        async def act(self, conversation: Conversation) -> Reply:
            reply = await super().act(conversation)
            return Reply(reply.message.model_copy(update={"content": self.heard[-1]}))

    policy = Echo()
    found = searched(tmp_path, Restless(), target=Counts(), policy=policy, budget=budget)
    assert len(policy.heard) == found.played <= budget and found.ended == ""
    assert found.played > budget - 2 * (2 * MINIBATCH + 8), "it goes on while there is room for an iteration"
    assert len(found.words[0].split()) == len(found.words) - 1 > 1


def test_words_are_compared_on_the_same_seeds(tmp_path: Path) -> None:
    seeds: dict[str, set[int]] = {}

    def noted(task: Task, seed: int) -> bool:
        seeds.setdefault(task.task_id, set()).add(seed)
        return False

    searched(tmp_path, ListedWords([GOOD, IDLE], 0), target=Many(noted))
    _, chosen_on = split(Many().tasks("discovery"), 8)
    assert all(len(seeds[one.task_id]) == 1 for one in chosen_on)


def test_a_list_is_not_drawn_from_for_ever(tmp_path: Path) -> None:
    found = searched(tmp_path, ListedWords([IDLE], 0), budget=1000)
    assert found.ended == "8 proposals were drawn from a list of 1" and found.words == ("",)
    assert found.played == 8 + 8 * 2 * MINIBATCH


def test_a_killed_search_goes_on(tmp_path: Path) -> None:
    class Breaks(ListedWords):
        def propose(self, told: str, episodes: Sequence[Mapping[str, Any]]) -> str:
            if self._proposed == 1:
                raise Unavailable("the power went")
            return super().propose(told, episodes)

    first, second = Obeys(), Obeys()
    with pytest.raises(Unavailable, match="the power went"):
        searched(tmp_path, Breaks([IDLE], 0), policy=first)
    found = searched(tmp_path, ListedWords([IDLE, GOOD], 0), policy=second)
    assert GOOD in found.words[0]
    # What was begun when it was killed is played again, and what no words come to.
    assert found.played <= len(first.heard) + len(second.heard) <= found.played + 2 * MINIBATCH + 8
    assert 0 < len(second.heard) < found.played


def test_a_fault_is_played_again_and_never_a_reward_of_nothing(tmp_path: Path) -> None:
    broken: list[str] = []

    def sometimes(task: Task, seed: int) -> bool:
        if seed % 3 == 0:
            broken.append(task.task_id)
        return seed % 3 == 0

    found = searched(tmp_path, ListedWords([GOOD, IDLE], 0), target=Many(sometimes))
    assert broken and GOOD in found.words[0]
    with pytest.raises(Unavailable, match=r"episodes of words/discovery-2/0 broke 6 times.*mend"):
        searched(
            tmp_path / "always",
            ListedWords([GOOD], 0),
            target=Many(lambda task, seed: task.task_id == "words/discovery-2/0"),
        )


def test_checks_are_told_where_they_may_be() -> None:
    one = Trajectory(
        trajectory_id="a",
        task_id="t",
        target="d",
        task_batch="all",
        policy="p",
        success=False,
        reward=0.25,
        checks=(
            Check(name="refund", kind="action", passed=False, score=0.0, detail="not made"),
            Check(name="reply", kind="communicate", passed=True, score=1.0),
        ),
    )
    assert told_of(one, "score") == "The episode failed and was paid 0.25."
    assert told_of(one, "checks") == (
        "The episode failed and was paid 0.25. check failed: action refund (not made)."
    )


def test_what_a_proposal_is_made_from(tmp_path: Path) -> None:
    shown: list[tuple[str, Sequence[Mapping[str, Any]]]] = []

    class Notes(ListedWords):
        def propose(self, told: str, episodes: Sequence[Mapping[str, Any]]) -> str:
            shown.append((told, episodes))
            return super().propose(told, episodes)

    searched(tmp_path, Notes([GOOD, IDLE], 0))
    told, episodes = shown[0]
    assert told == "" and len(episodes) == MINIBATCH
    read, _ = split(Many().tasks("discovery"), 8)
    assert {one["task"] for one in episodes} <= {one.task_id for one in read}
    assert all(one["transcript"].startswith("user: say ") for one in episodes)
    assert all(one["feedback"] == "The episode failed and was paid 0.1." for one in episodes)


def test_validation_chooses_and_may_choose_no_words() -> None:
    target = Many()
    tasks = target.tasks("validation")
    with Player(target, Obeys(), seed=0, max_turns=2, concurrency=8) as player:
        better = choose(player, ["", IDLE, GOOD, f"{GOOD} {IDLE}"], "user", tasks)
        none = choose(player, ["", IDLE], "user", tasks)
        assert isinstance(player.policy, Obeys)
    assert (better.words, better.passed, better.untold, better.played) == (GOOD, 1.0, 0.0, 200)
    assert (none.words, none.passed, none.played) == ("", 0.0, 100)


# Who writes.


def section(url: str, **more: Any) -> Analyst:
    return Analyst(base_url=url, pause_seconds=0.0, retries=0, repairs=0, **more)


def written_by(server: AnsweringServer, folder: Path, **more: Any) -> ModelWords:
    told = section(server.v1, **more)
    folder.mkdir(parents=True, exist_ok=True)
    account = Account(told, folder, "tournament", "", Totals())
    return ModelWords(ModelServer(told, Answers(folder), account), "m", "Look before you write.")


EPISODES = [{"task": "t", "transcript": "user: say red", "feedback": "The episode failed and was paid 0."}]


def test_a_model_is_shown_policy_words_and_episodes(tmp_path: Path) -> None:
    with InTurn(completion(json.dumps({"words": "  Say it loudly. "}))) as server:
        writer = written_by(server, tmp_path)
        assert writer.propose("Be kind.", EPISODES) == "Say it loudly." and writer.ended == ""
        (request,) = server.requests
    system, user = (one["content"] for one in request["messages"])
    assert "Look before you write." in system
    for part in ("Be kind.", "user: say red", "The episode failed and was paid 0."):
        assert part in user
    assert "None." in written_prompt(tmp_path)


def written_prompt(folder: Path) -> str:
    """Return what a model is asked where nothing was told before."""
    with InTurn(completion(json.dumps({"words": "x"}))) as server:
        written_by(server, folder / "more").propose("", EPISODES)
        return str(server.requests[0]["messages"][1]["content"])


def test_a_model_that_says_nothing_usable_ends_the_search(tmp_path: Path) -> None:
    said = [
        completion(json.dumps({"words": text})) for text in (" ", "y" * (LONGEST + 1), "good", "", "", "")
    ]
    with InTurn(*said) as server:
        writer = written_by(server, tmp_path)
        assert [writer.propose("old", EPISODES) for _ in range(3)] == ["old", "old", "good"]
        for _ in range(SILENT):
            assert writer.ended == "" and writer.propose("old", EPISODES) == "old"
    assert writer.ended.startswith("the model gave no usable answer 3 times in a row (")


def test_the_cap_ends_the_search(tmp_path: Path) -> None:
    with InTurn(completion(json.dumps({"words": "x"}))) as server:
        writer = written_by(server, tmp_path, cap_calls=1)
        assert writer.propose("", EPISODES) == "x" and writer.ended == ""
        assert writer.propose("x", EPISODES) == "x" and "cap" in writer.ended
        assert len(server.requests) == 1


def test_words_of_a_list_are_of_the_list(tmp_path: Path) -> None:
    writer, told = ListedWords([GOOD, IDLE, GOOD], 1), ""
    seen = set()
    while not writer.ended:
        told = writer.propose(told, EPISODES)
        seen.add(told)
    assert seen == {"", GOOD, IDLE, f"{GOOD} {IDLE}"}


# The arm.


def reading_world(
    folder: Path, words: ModuleType, model: Path, url: str = "", budget: int = BUDGET
) -> PlayedWorld:
    world = world_of_words(folder, words, model, budget=budget)
    vars(world.study)["target"] = Many()
    changes = {
        "analyst": section(url, prompt_usd=1.0, completion_usd=2.0),
        "discovery": world.study.settings.discovery.model_copy(update={"model": "m" if url else ""}),
    }
    settings = world.study.settings.model_copy(update=changes)
    study = Study.of(world.study.home, settings)
    vars(study)["target"] = Many()
    return PlayedWorld(1, study, ())


def test_it_says_why_it_does_not_apply(tmp_path: Path, words: ModuleType, base: Path) -> None:
    arm = arms.ARMS["gepa_score"]
    silent, reading = silent_base(base, tmp_path / "silent"), reading_base(base, tmp_path / "reading")
    assert "no adapter was trained" in arm.refusal(reading_world(tmp_path / "1", words, reading, budget=0))
    fewest = fewest_rollouts(10)
    told = arm.refusal(reading_world(tmp_path / "2", words, reading, budget=fewest - 1))
    assert told == f"a search takes {fewest} rollouts at least, and the adapters had {fewest - 1}"
    assert "leaves system messages out" in arm.refusal(
        reading_world(tmp_path / "3", words, silent, "http://h/v1")
    )
    assert "no model is there to reflect" in arm.refusal(reading_world(tmp_path / "4", words, reading))
    assert arm.refusal(reading_world(tmp_path / "5", words, reading, "http://h/v1", budget=fewest)) == ""


def test_a_desk_whose_agent_takes_hints_has_a_list(tmp_path: Path) -> None:
    settings = Settings.model_validate({"targets": {"options": {"hints": True}}})
    world = PlayedWorld(1, Study.of(Home.open(tmp_path), settings), ())
    assert "no adapter was trained" in Gepa("checks").refusal(world)


@pytest.mark.ci
@pytest.mark.train
@pytest.mark.parametrize("name", ["gepa_score", "gepa_checks"])
def test_it_is_played_and_booked(
    tmp_path: Path,
    words: ModuleType,
    base: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr("trace_assets.tournament.arms.protocol.PROCESSES", 1)

    class Reflects(AnsweringServer):
        def answer(self, path: str, body: dict[str, Any]) -> Answer:
            return completion(json.dumps({"words": f"w{len(self.requests)}"}))

    with Reflects() as server:
        model = reading_base(base, tmp_path / "base")
        world = decided(reading_world(tmp_path / "world", words, model, server.v1, budget=100), ("a",), ())
        arm = arms.ARMS[name]
        assert arm.refusal(world) == ""
        made = arm.play(world, tmp_path / "arm")
        asked = len(server.requests)
        again = arm.play(world, tmp_path / "arm")
    assert asked == len(server.requests) > 2, "what was found is kept"
    assert [row.success for row in again.rows] == [row.success for row in made.rows]
    assert {(row.arm, row.adapter, row.split) for row in made.rows} == {(name, None, "test")}
    spent = {row["kind"]: row["marginal"] for row in made.spent}
    assert 30 < spent["training"] <= 100 and spent["checkpoint looks"] % 10 == 0 < spent["checkpoint looks"]
    assert spent["dollars"] == totals(read_calls(Home.open(tmp_path / "arm" / "home").answers)).usd > 0
    assert "untold)" in made.note and again.note == made.note
    opened = json.loads((world.study.home.path / "test_split.json").read_text())
    assert [list(one["adapters"]) for one in opened] == [[name]]
