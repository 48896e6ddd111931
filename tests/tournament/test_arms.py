"""Arms of their own: registered, added, refused with a reason, and rejection sampling on a tiny target."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, cast

import pytest
from typer.testing import CliRunner

from tests.tournament.test_spending import adapter, booked, episodes
from tests.tournament.test_tournament import RATES, planned, scripted
from tests.training.conftest import base, words
from trace_assets.cli.main import app
from trace_assets.errors import InputError, Unavailable
from trace_assets.policies.chat_template import ChatTemplate
from trace_assets.policies.protocol import Conversation, Reply, TokenTrace, reads_system
from trace_assets.records import (
    Adapter,
    BaseCheckpoint,
    Capability,
    Evaluation,
    Label,
    Message,
    SelectedCapability,
    Trajectory,
)
from trace_assets.settings import Settings
from trace_assets.settings.settings import load_settings
from trace_assets.store import Home, Store, folder_version
from trace_assets.store.trajectories import write_trajectories
from trace_assets.study import Study
from trace_assets.tournament import arms
from trace_assets.tournament.arms.placebo import Advice, FewShot, Hints, advised
from trace_assets.tournament.arms.protocol import VERDICTS, Arm, Made, Meter, PlayedWorld
from trace_assets.tournament.page import page
from trace_assets.tournament.plan import PLAN, Plan, default_plan, read_plan, write_plan
from trace_assets.tournament.process import own_settings
from trace_assets.tournament.results import RESULTS, result_file
from trace_assets.tournament.run import add_arm, read_entries, run
from trace_assets.tournament.score import score

__all__ = ["base", "words"]


class Scripted:
    """An arm that passes a share of the tasks, and does not apply to some worlds."""

    name = "scripted"
    about = "Passes as often as it is told."
    needs = "nothing"

    def __init__(self, rate: float, not_in: tuple[int, ...] = (), breaks_in: int = 0) -> None:
        self.rate, self.not_in, self.breaks_in, self.played = rate, not_in, breaks_in, list[int]()

    def refusal(self, world: PlayedWorld) -> str:
        return "this world has no script" if world.number in self.not_in else ""

    def play(self, world: PlayedWorld, folder: Path) -> Made:
        if world.number == self.breaks_in:
            raise Unavailable("the power went")
        self.played.append(world.number)
        rows = [
            Evaluation(
                task_id=f"t{n}",
                trial=0,
                arm=self.name,
                adapter=None,
                success=n < 200 * self.rate,
                reward=None,
            )
            for n in range(200)
        ]
        return Made(rows, Meter({"training": 900.0}, wall=3.0, cpu=2.0).spent(len(rows)))


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Callable[[Arm], None]:
    return lambda arm: monkeypatch.setitem(cast(dict[str, Arm], arms.ARMS), arm.name, arm)


def added(folder: Path) -> Any:
    return CliRunner().invoke(
        app, ["tournament", "add-arm", str(folder), "scripted", "--why", "was asked for"]
    )


def test_an_added_arm_is_played_alone_and_marked(tmp_path: Path, known: Callable[[Arm], None]) -> None:
    first = planned(tmp_path, 3)
    run(tmp_path, play=scripted(RATES))
    before = {file: file.read_bytes() for file in (tmp_path / RESULTS).iterdir()}
    arm = Scripted(0.1)
    known(arm)
    told = added(tmp_path)
    assert told.exit_code == 0 and "scripted: 3 worlds" in told.output
    assert arm.played == [1, 2, 3]
    assert {file: file.read_bytes() for file in before} == before, "the loop's own results are as they were"
    text = page(score(tmp_path))
    assert "| `scripted` | 10.0" in text and "| `scripted - routed` | -5" in text
    assert "3 worlds seen: arm scripted added, was asked for" in text
    assert "| `scripted` | 900 |" in text and "earlier plan" not in text
    plan = read_plan(tmp_path)
    assert plan.loop_fingerprint == first.fingerprint != plan.fingerprint
    assert added(tmp_path).exit_code == 0 and arm.played == [1, 2, 3]
    assert len(json.loads((tmp_path / "register.json").read_text())) == 2


def test_an_arm_of_some_worlds_is_not_shown_yet(tmp_path: Path, known: Callable[[Arm], None]) -> None:
    planned(tmp_path, 3)
    run(tmp_path, play=scripted(RATES))
    known(Scripted(0.1, breaks_in=3))
    assert added(tmp_path).exit_code != 0
    text = page(score(tmp_path))
    assert "`scripted` is still to be played in 1 of 3 worlds" in text
    assert "| `scripted` |" not in text and "was better than `base`" in text
    arm = Scripted(0.1)
    known(arm)
    assert run(tmp_path, play=scripted(RATES)) == [] and arm.played == [3]
    assert "| `scripted` | 10.0" in page(score(tmp_path))


def test_an_arm_that_does_not_apply_has_a_reason_and_no_rate(
    tmp_path: Path, known: Callable[[Arm], None]
) -> None:
    planned(tmp_path, 3)
    run(tmp_path, play=scripted(RATES))
    arm = Scripted(0.9, not_in=(2,))
    known(arm)
    told = CliRunner().invoke(app, ["tournament", "add-arm", str(tmp_path), "scripted", "--json"])
    assert [row["state"] for row in json.loads(told.stdout)] == ["played", "does not apply", "played"]
    text = page(score(tmp_path))
    assert "`scripted` does not apply in world 2: this world has no script." in text
    (row,) = [one for one in score(tmp_path).arms if one.arm == "scripted"]
    assert (row.worlds, row.not_played, row.rate.mean) == (2, 1, 0.9)


def test_a_plan_may_name_arms_from_the_start(tmp_path: Path, known: Callable[[Arm], None]) -> None:
    arm = Scripted(0.5)
    known(arm)
    plan = Plan.model_validate({**default_plan(2, 5, {}).model_dump(), "arms": ("scripted",)})
    write_plan(tmp_path, plan)
    assert run(tmp_path, play=scripted(RATES)) == [1, 2] == arm.played
    text = page(score(tmp_path))
    assert "| `scripted` | 50.0" in text and "Amended" not in text
    result_file(tmp_path, RESULTS, 2, "scripted").unlink()
    assert [one.world for one in read_entries(tmp_path, plan)] == [1]
    assert run(tmp_path, play=scripted(RATES)) == [] and arm.played == [1, 2, 2]


def test_plans_without_arms_say_nothing_of_them(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    assert (
        "arms" not in json.loads((tmp_path / PLAN).read_text()) and plan.loop_fingerprint == plan.fingerprint
    )
    for names, why in (
        (("nobody",), "there is no arm 'nobody': take one of"),
        (("rft", "rft"), "named twice"),
    ):
        with pytest.raises(ValueError, match=why):
            Plan.model_validate({**plan.model_dump(), "arms": names})
    with pytest.raises(InputError, match="no arm 'nobody'"):
        add_arm(tmp_path, "nobody")
    assert read_plan(tmp_path) == plan


def test_every_arm_says_what_it_is() -> None:
    told = CliRunner().invoke(app, ["tournament", "add-arm", "folder", "--list", "--json"])
    rows = json.loads(told.stdout)
    assert [row["arm"] for row in rows] == list(arms.ARMS)
    assert all(row["about"].endswith(".") and row["needs"] for row in rows)


def world_of_words(folder: Path, words: ModuleType, base: Path, *, budget: int) -> PlayedWorld:
    home = Home.open(folder / "home")
    study = Study.of(home, Settings(training=words.SECTION))
    vars(study)["target"] = words.WordTarget()
    checkpoint = BaseCheckpoint(
        base_id=folder_version(base),
        path=str(base),
        parameters=1,
        steps=1,
        pass_rate=None,
        pass_rate_low=None,
        pass_rate_high=None,
        n=0,
    )
    study.store.write([checkpoint], BaseCheckpoint)
    if budget:
        study.store.write([adapter("x", "capability", budget)], Adapter, "x")
    return PlayedWorld(1, study, ())


@pytest.mark.ci
@pytest.mark.train
def test_rejection_sampling_learns_what_passed(
    tmp_path: Path, words: ModuleType, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    world, arm = world_of_words(tmp_path, words, base, budget=12 * 40), arms.ARMS["rft"]
    assert not arm.refusal(world)
    made = arm.play(world, tmp_path / "rft")
    assert {row.arm for row in made.rows} == {"rft"} and {row.split for row in made.rows} == {"test"}
    rate = sum(bool(row.success) for row in made.rows) / len(made.rows)
    assert rate > 0.6, "the base model says the word in about one case of five"
    spent = {row["kind"]: row["marginal"] for row in made.spent}
    assert spent["training"] == 480 and spent["checkpoint looks"] == 3 * 10 and spent["audits"] == 0
    assert spent["rollouts in all"] == 510 == spent[VERDICTS] and spent["evaluation"] == len(made.rows)
    assert spent["tokens of the agent"] is None and spent["cpu"] > 0
    (opened,) = json.loads((world.study.home.path / "test_split.json").read_text())
    assert list(opened["adapters"]) == ["rft"]
    monkeypatch.setattr("trace_assets.tournament.arms.imitated.Rft.train", None)
    again = arm.play(world, tmp_path / "rft")
    assert [row.success for row in again.rows] == [row.success for row in made.rows]
    assert {row["kind"]: row["marginal"] for row in again.spent} == spent


@pytest.mark.ci
@pytest.mark.train
def test_a_base_that_never_passes_stays_as_it_is(tmp_path: Path, words: ModuleType, base: Path) -> None:
    pytest.importorskip("torch")
    world = world_of_words(tmp_path, words, base, budget=40)

    class Never(words.WordTarget):  # type: ignore[misc, name-defined]
        def episode(self, task: Any, *, seed: int) -> Any:
            return words.WordEpisode("nothing that is ever said", False)

    vars(world.study)["target"] = Never()
    made = arms.ARMS["rft"].play(world, tmp_path / "rft")
    assert not any(row.success for row in made.rows) and all(row.fault is None for row in made.rows)


def test_without_an_adapter_there_is_no_budget_to_be_equal_to(
    tmp_path: Path, words: ModuleType, base: Path
) -> None:
    world = world_of_words(tmp_path, words, base, budget=0)
    assert "no adapter was trained" in arms.ARMS["rft"].refusal(world)


def decided(world: PlayedWorld, kept: tuple[str, ...], rejected: tuple[str, ...]) -> PlayedWorld:
    """Write the diagnosis's choice into a world."""
    target = world.study.settings.targets.name
    rows = [
        SelectedCapability(
            capability_id=name,
            target=target,
            name=name,
            kept=name in kept,
            rank=1,
            reason="r",
            marginal_coverage=None,
        )
        for name in (*kept, *rejected)
    ]
    world.study.store.write(rows, SelectedCapability)
    found = [
        Capability(capability_id=name, target=target, name=name, description="w3", analyst="detectors")
        for name in (*kept, *rejected)
    ]
    world.study.store.write(found, Capability)
    return world


def test_a_random_choice_is_drawn_among_the_rejected_and_played_as_a_loop_of_its_own(
    tmp_path: Path, words: ModuleType, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = world_of_words(tmp_path / "world", words, base, budget=40)
    decided(world, ("a", "b"), ("c", "d", "e"))
    world = PlayedWorld(1, world.study, ("training.seed=3", "training.mixed_arm=true"), "composed")
    asked: list[str] = []

    def play(folder: Path, items: list[str], what: str) -> None:
        asked[:] = items
        store = Store.of(Home.open(folder / "home"))
        arms = {"base": 3, "routed": 4, "composed": 5}
        store.write(episodes("test", arms), Evaluation, "test")
        store.write([adapter("c", "capability", 77)], Adapter, "c")

    monkeypatch.setattr("trace_assets.tournament.arms.placebo.play_home", play)
    arm = arms.ARMS["random_capability"]
    assert arm.refusal(world) == ""
    made = arm.play(world, tmp_path / "arm")
    settings = load_settings(own_settings(tmp_path / "arm"), asked, environment={})
    drawn = set(settings.selection.overrides)
    assert len(drawn) == 2 and drawn <= {"c", "d", "e"}
    assert settings.selection.min_gap == 1 and not settings.training.mixed_arm and settings.training.seed == 3
    assert {row.arm for row in made.rows} == {"random_capability"} and len(made.rows) == 5
    assert {row["kind"]: row["marginal"] for row in made.spent}["training"] == 77
    assert made.note.startswith(f"drawn by lot: {', '.join(sorted(drawn))}; ")
    assert json.loads((world.study.home.path / "test_split.json").read_text())[0]["adapters"]


def test_a_random_choice_of_which_nothing_was_taught_stands_at_the_base_model(
    tmp_path: Path, words: ModuleType, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = decided(world_of_words(tmp_path / "world", words, base, budget=40), ("a", "b"), ("c",))
    world.study.store.write(episodes("test", {"base": 6, "routed": 9}), Evaluation, "test")
    monkeypatch.setattr(
        "trace_assets.tournament.arms.placebo.play_home", lambda folder, *_: Home.open(folder / "home")
    )
    made = arms.ARMS["random_capability"].play(world, tmp_path / "arm")
    assert [row.arm for row in made.rows] == ["random_capability"] * 6
    assert made.note == "drawn by lot: c (2 were kept); 0 of 1 had an adapter trained"


def test_without_another_choice_none_is_drawn(tmp_path: Path, words: ModuleType, base: Path) -> None:
    arm = arms.ARMS["random_capability"]
    world = world_of_words(tmp_path, words, base, budget=40)
    assert "kept no capability" in arm.refusal(decided(world, (), ("c",)))
    assert "rejected no candidate" in arm.refusal(decided(world, ("a",), ()))


def reading_base(base: Path, folder: Path) -> Path:
    """Return the model of the words with a template that shows it what a system message says."""
    shutil.copytree(base, folder)
    file = next(one for one in folder.iterdir() if "tokenizer_config" in one.name)
    said = json.loads(file.read_text())
    template = folder / "chat_template.jinja"
    text = template.read_text() if template.is_file() else said["chat_template"]
    assert "m.role == 'assistant'" in text
    text = (
        "{% for m in messages %}{{ {'assistant': '<bot> '}.get(m.role, '<user> ') }}" + text.split("}}", 1)[1]
    )
    (template if template.is_file() else file).write_text(
        text if template.is_file() else json.dumps({**said, "chat_template": text})
    )
    return folder


def silent_base(base: Path, folder: Path) -> Path:
    """Return the model with a template that leaves system messages out, as the tiny agent's does."""
    reading_base(base, folder)
    template = folder / "chat_template.jinja"
    template.write_text(
        template.read_text().replace("in messages %}", "in messages if m.role != 'system' %}", 1)
    )
    return folder


class Follows:
    """A policy that says the last word it was first told, and keeps what it was shown."""

    name, version = "follows", "1"
    seen: ClassVar[list[list[Message]]] = []

    async def act(self, conversation: Conversation) -> Reply:
        self.seen.append(list(conversation.messages))
        conversation.tokens = TokenTrace([1], [1], [0.0])
        return Reply(Message(role="assistant", content=(conversation.messages[0].content or "").split()[-1]))

    async def forget(self, conversation: Conversation) -> None:
        self.seen.append([])

    async def close(self) -> None:
        pass


def test_words_stand_in_what_the_policy_reads_and_in_nothing_else() -> None:
    Follows.seen.clear()
    policy = advised(Follows, "Say red.", "user")
    talk = Conversation("c", (), [Message(role="user", content="Hello.")])

    async def talked() -> None:
        await policy.act(talk)
        talk.messages += [Message(role="assistant", content="x"), Message(role="user", content="Go on.")]
        await policy.act(talk)
        await policy.forget(talk)

    asyncio.run(talked())
    assert [one.content for one in Follows.seen[0]] == ["Hello. Say red."]
    assert [one.content for one in Follows.seen[1]] == ["Hello. Say red.", "x", "Go on."]
    assert Follows.seen[2] == [] and talk.messages[0].content == "Hello."
    assert talk.tokens == TokenTrace([1], [1], [0.0])
    assert policy.version != advised(Follows, "Say blue.", "user").version


def test_a_model_that_reads_no_system_message_is_not_told_anything(
    tmp_path: Path, words: ModuleType, base: Path
) -> None:
    silent, reading = silent_base(base, tmp_path / "silent"), reading_base(base, tmp_path / "reading")
    assert reads_system(reading) and not reads_system(silent)
    hints = arms.ARMS["hints"]
    world = decided(world_of_words(tmp_path / "world", words, silent, budget=0), ("a",), ())
    assert "leaves system messages out" in hints.refusal(world)
    world = decided(world_of_words(tmp_path / "other", words, reading, budget=0), ("a",), ())
    assert hints.refusal(world) == ""
    assert "nothing to say" in hints.refusal(decided(world, (), ("a",)))
    assert "nothing to show" in arms.ARMS["few_shot"].refusal(world)
    assert "no success shows" in arms.ARMS["few_shot"].refusal(decided(world, ("a",), ()))


@pytest.mark.train
def test_hints_are_played_by_the_base_model_and_rest_on_the_diagnosis(
    tmp_path: Path, words: ModuleType, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    world = world_of_words(tmp_path / "world", words, reading_base(base, tmp_path / "base"), budget=0)
    decided(world, ("a",), ())
    booked(world.study.store, "trajectories", "all", rollouts=120.0)
    seen: list[str] = []

    def watching(self: ChatTemplate, messages: Sequence[Message], tools: Any) -> list[int]:
        seen.append(messages[0].content or "")
        return original(self, messages, tools)

    original = ChatTemplate.opening
    monkeypatch.setattr(ChatTemplate, "opening", watching)
    monkeypatch.setattr("trace_assets.tournament.arms.protocol.PROCESSES", 1)
    made = arms.ARMS["hints"].play(world, tmp_path / "arm")
    assert set(seen) == {"Take care of the following.\n- w3"}
    assert len(made.rows) == 50 * world.study.settings.evaluation.trials
    assert {(row.arm, row.adapter) for row in made.rows} == {("hints", None)}
    spent = {row["kind"]: (row["marginal"], row["all_in"]) for row in made.spent}
    assert spent["training"] == (0, 0) and spent["discovery"] == (0, 120)
    assert spent["rollouts in all"] == (0, 120) == spent[VERDICTS] and spent["cpu"][1] is None
    assert made.note == "7 words on 1 capability, the same on every task"


def test_successes_that_show_a_kept_capability_are_written_into_the_context(
    tmp_path: Path, words: ModuleType, base: Path
) -> None:
    world = world_of_words(tmp_path, words, base, budget=0)
    decided(world, ("a",), ("b",))
    runs = [
        Trajectory(
            trajectory_id=name,
            task_id=name,
            target=world.study.settings.targets.name,
            task_batch=world.study.live_batch,
            policy="p",
            success=success,
            reward=float(success),
            messages=(Message(role="user", content="ask"), Message(role="assistant", content=f"by {name}")),
        )
        for name, success in (("failed", False), ("lacks", True), ("shows", True), ("other", True))
    ]
    write_trajectories(world.study.store, runs, world.study.live_batch)
    labels = [
        Label(trajectory_id=name, capability_id=of, label=label, labeller="d", labelling_pass=0)
        for name, of, label in (
            ("failed", "a", "PRESENT"),
            ("lacks", "a", "LACKING"),
            ("shows", "a", "PRESENT"),
            ("other", "b", "PRESENT"),
        )
    ]
    world.study.store.write(labels, Label, "all")
    found = FewShot().words(world)
    assert isinstance(found, Advice)
    assert found.text == "Example 1:\nuser: ask\nassistant: by shows" and found.of == 1


def test_the_desk_has_advice_of_its_own_where_its_agent_was_shown_some(tmp_path: Path) -> None:
    for desk, text in (
        ("a", "Look at the status first. Do both. Look at the window first."),
        ("c", "window"),
    ):
        settings = Settings.model_validate({"targets": {"options": {"hints": True, "desk": desk}}})
        world = PlayedWorld(1, Study.of(Home.open(tmp_path / desk), settings), ())
        found = Hints().words(world)
        assert isinstance(found, Advice) and found.place == "user" and not found.is_diagnosed
        assert set(found.text.split()) >= set(text.split()[:3]) and found.text.count("window") == 1
        plain = PlayedWorld(1, Study.of(Home.open(tmp_path / desk), Settings()), ())
        assert Hints().words(plain) == "the diagnosis kept no capability, so there is nothing to say"
