from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from trace_assets.errors import InputError, Unavailable
from trace_assets.evaluation.arms import best_single_choice, evaluate, oracle_choice
from trace_assets.evaluation.variants import Limits, play_variants, transformers_policy, trial_seed
from trace_assets.policies.protocol import Conversation, Reply
from trace_assets.records import Evaluation, Message, Route
from trace_assets.routing.scores import regret
from trace_assets.settings import EvaluationSection, Targets
from trace_assets.targets.embedded.target import EmbeddedTarget

TARGET = EmbeddedTarget(Targets(discovery_tasks=1, validation_tasks=12, test_tasks=12))
SECTION = EvaluationSection(trials=2)


SKILLS = {None: "status", "x": "cancel", "mixed": "multi", "merged:ties": "multi"}


class Oracle:
    """Solves the tasks of a variant's one skill as the oracle does; says goodbye to the others."""

    name, version = "oracle", "1"

    def __init__(self) -> None:
        self.calls = 0
        tasks = [*TARGET.tasks("validation"), *TARGET.tasks("test")]
        self._tasks = {task.instruction: task for task in tasks}

    async def act(self, conversation: Conversation) -> Reply:
        self.calls += 1
        await asyncio.sleep(0)
        asked = next(message.content for message in conversation.messages if message.role == "user")
        task = self._tasks[asked or ""]
        spoken = sum(message.role == "assistant" for message in conversation.messages)
        if task.tags[0] != SKILLS[conversation.adapter]:
            return Reply(Message(role="assistant", content="Goodbye."))
        return Reply(TARGET.oracle(task)[spoken])

    async def forget(self, conversation: Conversation) -> None:
        pass

    async def close(self) -> None:
        pass


class Broken(Oracle):
    async def act(self, conversation: Conversation) -> Reply:
        raise Unavailable("the server is down")


def rates(rows: list[Evaluation], arm: str) -> dict[str, float]:
    mine = [row for row in rows if row.arm == arm]
    skills = {row.skill for row in mine}
    return {
        skill: sum(bool(row.success) for row in mine if row.skill == skill)
        / sum(row.skill == skill for row in mine)
        for skill in skills
    }


ADAPTERS = {"x": Path("x"), "mixed": Path("mixed")}


def test_validation_chooses_and_the_test_arms_follow(tmp_path: Path) -> None:
    run = partial(evaluate, TARGET, tmp_path, processes=1, make_policy=Oracle, section=SECTION)
    validation, _ = run(ADAPTERS, None, None, journal_dir=tmp_path / "v", split="validation")
    assert {row.arm for row in validation} == {"base", "adapter:x", "mixed_grpo"}
    assert {row.split for row in validation} == {"validation"}
    tasks = TARGET.tasks("test")
    oracle = oracle_choice(validation, tasks)
    assert {oracle[task.task_id] for task in tasks if task.tags[0] == "cancel"} == {"x"}
    assert {oracle[task.task_id] for task in tasks if task.tags[0] != "cancel"} == {"none"}
    routes = [
        Route(router="classifier", task_id=task.task_id, choice="none", probabilities={"x": 0.0, "none": 1.0})
        for task in tasks
    ]
    rows, trajectories = run(ADAPTERS, routes, oracle, journal_dir=tmp_path / "t")
    assert len(trajectories) == 3 * 12 * 2
    assert len(rows) == 5 * 12 * 2
    assert rates(rows, "base")["status"] == 1 and rates(rows, "base")["cancel"] == 0
    assert rates(rows, "mixed_grpo")["multi"] == 1
    assert rates(rows, "oracle_routed")["cancel"] == rates(rows, "oracle_routed")["status"] == 1
    assert rates(rows, "routed") == rates(rows, "base")
    lost = {row.reference: row.regret for row in regret(rows, routes, oracle, best_single_choice(validation))}
    share = sum(task.tags[0] == "cancel" for task in tasks) / len(tasks)
    assert lost["oracle"] == pytest.approx(share) and lost["base"] == 0


def test_merged_adapters_are_an_arm_that_no_router_may_choose(tmp_path: Path) -> None:
    adapters = {"x": Path("x"), "merged:ties": Path("m")}
    run = partial(evaluate, TARGET, tmp_path, adapters, section=SECTION, processes=1, make_policy=Oracle)
    rows, _ = run(None, None, journal_dir=tmp_path / "t")
    assert {row.arm for row in rows} == {"base", "adapter:x", "merged:ties"}
    assert rates(rows, "merged:ties")["multi"] == 1 and rates(rows, "merged:ties")["cancel"] == 0
    assert best_single_choice(rows) in ("x", "none")
    oracle = {task.task_id: "merged:ties" for task in TARGET.tasks("test")}
    with pytest.raises(InputError, match="'merged:ties'"):
        run(None, oracle, journal_dir=tmp_path / "o")


def test_routes_must_fit_before_anything_is_played(tmp_path: Path) -> None:
    made: list[Oracle] = []

    def make() -> Oracle:
        made.append(Oracle())
        return made[-1]

    with pytest.raises(InputError, match="no choice for task"):
        evaluate(TARGET, tmp_path, ADAPTERS, [], None, SECTION, tmp_path, 1, make_policy=make)
    with pytest.raises(InputError, match="'mixed'"):
        oracle = {task.task_id: "mixed" for task in TARGET.tasks("test")}
        evaluate(TARGET, tmp_path, ADAPTERS, None, oracle, SECTION, tmp_path, 1, make_policy=make)
    assert made == []


def test_the_same_trial_has_the_same_seed_in_every_variant(tmp_path: Path) -> None:
    played = play_variants(
        TARGET, TARGET.tasks("test"), ["none", "x"], Oracle, SECTION, tmp_path, processes=1
    )
    seeds = [{(row.task_id, row.trial): row.seed for row in rows} for rows in played.values()]
    assert seeds[0] == seeds[1] and len(set(seeds[0].values())) == 24
    assert [row.adapter for row in played["x"][:1]] == ["x"] and played["none"][0].adapter is None


def test_a_seed_depends_on_all_it_is_made_of() -> None:
    assert len({trial_seed(s, t, n) for s in range(3) for t in "ab" for n in range(3)}) == 18


def test_a_call_made_again_plays_nothing_twice(tmp_path: Path) -> None:
    made: list[Oracle] = []

    def make() -> Oracle:
        made.append(Oracle())
        return made[-1]

    arguments = (TARGET, TARGET.tasks("test"), ["none", "x"], make, SECTION, tmp_path)
    first = play_variants(*arguments, processes=1)
    again = play_variants(*arguments, processes=1)
    assert again == first and made[0].calls > 0 and [policy.calls for policy in made[1:]] == [0]


def test_a_policy_that_is_down_gives_faults_and_no_failures(tmp_path: Path) -> None:
    rows, _ = evaluate(
        TARGET,
        tmp_path,
        {},
        None,
        None,
        EvaluationSection(trials=1),
        tmp_path,
        1,
        make_policy=Broken,
    )
    assert {(row.success, row.reward, row.fault) for row in rows} == {(None, None, "infrastructure")}


@pytest.mark.train
def test_the_engine_acts_as_the_section_and_the_limits_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    made: list[Any] = []
    engine = "trace_assets.policies.transformers_engine.TransformersPolicy"
    monkeypatch.setattr(engine, lambda *args, **keywords: made.append((args, keywords)))
    section = SECTION.model_copy(update={"temperature": 0.25, "seed": 11, "dtype": "float32"})
    transformers_policy(tmp_path, {"x": tmp_path / "x"}, section, Limits(max_new_tokens=7))
    said = {"temperature": 0.25, "max_new_tokens": 7, "seed": 11, "dtype": "float32"}
    assert made == [((tmp_path,), {"adapters": {"x": tmp_path / "x"}, **said})]


@pytest.mark.slow
@pytest.mark.train
def test_two_processes_play_what_one_plays(tmp_path: Path) -> None:
    pytest.importorskip("peft")
    from tests.untrained import make_untrained
    from trace_assets.policies.lora import load_model

    base = make_untrained(tmp_path / "base", seed=0)
    _random_adapter(load_model(base), tmp_path / "x")
    tasks, limits = TARGET.tasks("test")[:6], Limits(max_turns=2, max_new_tokens=8)
    section = SECTION.model_copy(update={"temperature": 1.0, "seed": 0, "dtype": "auto"})
    make = partial(transformers_policy, base, {"x": tmp_path / "x"}, section, limits)
    played = [
        play_variants(TARGET, tasks, ["none", "x"], make, SECTION, tmp_path / str(n), n, limits)
        for n in (1, 2)
    ]
    for variant in ("none", "x"):
        one, two = ([row.model_copy(update={"seconds": None}) for row in rows[variant]] for rows in played)
        assert one == two and len(one) == 12
    # The adapter acts: what it says is not what the base model says.
    assert [row.messages for row in played[1]["none"]] != [row.messages for row in played[1]["x"]]


def _random_adapter(model: object, folder: Path) -> None:
    import torch
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(0)
    adapted = get_peft_model(
        model, LoraConfig(r=2, lora_alpha=4, target_modules="all-linear", init_lora_weights=False)
    )
    adapted.save_pretrained(folder)
