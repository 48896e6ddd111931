"""Demonstrations before GRPO: of words that are never said GRPO alone learns nothing."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from trace_assets.errors import InputError
from trace_assets.records import Adapter, Message, TrainingPoint

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

pytestmark = pytest.mark.train


@pytest.fixture(scope="module")
def target(words: ModuleType) -> Any:
    return words.Taught()


def section(words: ModuleType, **changes: Any) -> Any:
    return words.SECTION.model_copy(update={"iterations": 12, "save_every": 1, **changes})


@pytest.fixture(scope="module")
def warm(
    words: ModuleType, base: Path, target: Any, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Adapter, list[TrainingPoint]]:
    folder = tmp_path_factory.mktemp("warm") / "words"
    done: tuple[Adapter, list[TrainingPoint]] = words.train(
        base, folder, target=target, section=section(words), warm_start=True
    )
    return done


def test_what_never_succeeds_is_demonstrated_and_learned(
    warm: tuple[Adapter, list[TrainingPoint]], words: ModuleType, base: Path, target: Any, tmp_path: Path
) -> None:
    adapter, _ = warm
    assert set(words.NEVER) <= set(target.asked), "a word that is never said was not demonstrated"
    assert adapter.demonstrations >= len(words.NEVER)
    cold, _ = words.train(base, tmp_path / "cold", target=target, section=section(words))
    assert cold.demonstrations == cold.warm_rollouts == 0
    assert cold.validation_after <= 0.6 + 1e-9, "three words of five are all that GRPO alone can reach"
    assert adapter.validation_after > 0.65, "more than the three words that GRPO alone can reach"


def test_what_it_takes_comes_out_of_the_runs_own_rollouts(warm: tuple[Adapter, list[TrainingPoint]]) -> None:
    adapter, points = warm
    assert adapter.warm_rollouts == adapter.demonstrations == 5, "every task of the pool, and no more"
    assert adapter.rollouts == adapter.warm_rollouts + 40 * len(points) <= 12 * 40
    assert len(points) == 12 - -(-adapter.warm_rollouts // 40)


@pytest.mark.ci
@pytest.mark.parametrize("at", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_interrupted_it_ends_the_same(
    warm: tuple[Adapter, list[TrainingPoint]],
    words: ModuleType,
    base: Path,
    target: Any,
    tmp_path: Path,
    at: int,
) -> None:
    """Before the first checkpoint the weights of the demonstrations are read, later those of GRPO."""

    def stop(point: TrainingPoint) -> None:
        if point.iteration == at:
            raise KeyboardInterrupt

    made = {"target": target, "section": section(words), "warm_start": True}
    with pytest.raises(KeyboardInterrupt):
        words.train(base, tmp_path / "words", on_point=stop, **made)
    target.asked.clear()
    adapter, points = words.train(base, tmp_path / "words", **made)
    assert target.asked == [], "what was demonstrated was demonstrated again"
    assert (adapter.adapter_id, adapter.rollouts) == (warm[0].adapter_id, warm[0].rollouts)
    assert [point.success_rate for point in points] == [point.success_rate for point in warm[1]]


def test_a_run_with_demonstrations_is_not_taken_for_one_without(
    words: ModuleType, base: Path, target: Any, tmp_path: Path
) -> None:
    from trace_assets.training.grpo import RECORD, finished_run
    from trace_assets.training.warm_start import PROCEDURE

    short = section(words, iterations=2)
    adapter, _ = words.train(base, tmp_path / "words", target=target, section=short, warm_start=True)
    assert (tmp_path / "words" / RECORD).is_file()
    told = {"name": "words", "base": "base"}
    assert finished_run(tmp_path / "words", told | {"warm_start": PROCEDURE}) == adapter
    assert finished_run(tmp_path / "words", told | {"warm_start": True}) is None, "of an earlier procedure"


@pytest.mark.ci
def test_what_grpo_loses_again_is_not_lost(words: ModuleType, base: Path, tmp_path: Path) -> None:
    """Where rewards lead away from what was demonstrated the weights before GRPO are the best ones."""

    class Misleading(words.Taught):  # type: ignore[misc,name-defined]
        """Once the oracle has been seen, any answer but the wanted one is a success in training."""

        def episode(self, task: Any, *, seed: int) -> Any:
            episode = super().episode(task, seed=seed)
            if task.split == "discovery" and self.seen >= 5:

                async def verdict() -> Any:
                    success = episode.said.split()[:1] != [episode.word]
                    return words.Verdict(reward=float(success), success=success)

                episode.verdict = verdict
            self.seen = self.seen + 1 if task.split == "discovery" else self.seen
            return episode

        seen = 0

    adapter, points = words.train(
        base, tmp_path / "words", target=Misleading(), section=section(words), warm_start=True
    )
    rates = [point.validation_rate for point in points if point.validation_rate is not None]
    assert adapter.best_iteration == 0
    assert adapter.validation_after > max(rates), "GRPO lost nothing, so that nothing is shown here"


@pytest.mark.ci
def test_behind_what_was_learned_grpo_takes_smaller_steps(
    warm: tuple[Adapter, list[TrainingPoint]],
    words: ModuleType,
    base: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also of a run that is taken up; where there were too few to hold some out it has yet to learn them."""
    from trace_assets.training import warm_start
    from trace_assets.training.warm_start import SMALLER

    monkeypatch.setattr(warm_start, "STEPS", 80)  # so small a model needs no more

    class Many(words.Taught):  # type: ignore[misc,name-defined]
        def tasks(self, split: Any) -> Any:
            few = super().tasks(split)
            if split != "discovery":
                return few
            return [
                one.model_copy(update={"task_id": f"{one.task_id}-{number}"})
                for one in few
                for number in range(16)
            ]

    def stop(point: TrainingPoint) -> None:
        if point.iteration == 2:
            raise KeyboardInterrupt

    usual = words.SECTION.learning_rate
    made = {"target": Many(), "section": section(words, iterations=6), "warm_start": True}
    with pytest.raises(KeyboardInterrupt):
        words.train(base, tmp_path / "words", on_point=stop, **made)
    adapter, points = words.train(base, tmp_path / "words", **made)
    rates = [point.learning_rate or 0.0 for point in points]
    assert len(rates) == 4 and max(rates) == pytest.approx(SMALLER * usual)
    assert adapter.validation_after > 0.65
    assert max(point.learning_rate or 0.0 for point in warm[1]) == pytest.approx(usual)


def test_without_an_oracle_grpo_begins_and_says_why(words: ModuleType, base: Path, tmp_path: Path) -> None:
    short = section(words, iterations=2)
    adapter, points = words.train(base, tmp_path / "words", section=short, warm_start=True)
    assert adapter.not_demonstrated == "the environment has no oracle that could demonstrate"
    assert adapter.demonstrations == adapter.warm_rollouts == 0 and len(points) == 2
    again, _ = words.train(base, tmp_path / "words", section=short, warm_start=True)
    assert again == adapter, "read from its folder it does not say why"


def test_asked_for_in_the_groups_an_oracle_has_to_be_there(
    words: ModuleType, base: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=r"has no oracle to demonstrate with; set training.demonstrate"):
        words.train(base, tmp_path / "words", section=section(words, demonstrate=True))


@pytest.mark.parametrize("fault", ["a template that cannot say it", "an oracle that is wrong"])
def test_where_nothing_can_be_shown_grpo_has_what_is_left(
    words: ModuleType, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    from trace_assets.training import demonstrations

    class Wrong(words.Taught):  # type: ignore[misc,name-defined]
        def oracle(self, task: Any) -> Any:
            return [Message(role="assistant", content="nonsense")]

    def unreadable(*_: Any) -> list[int]:
        raise InputError("the chat template writes what cannot be read back.")

    template = fault.startswith("a template")
    if template:
        monkeypatch.setattr(demonstrations, "written_ids", unreadable)
    adapter, points = words.train(
        base,
        tmp_path / "words",
        target=words.Taught() if template else Wrong(),
        section=section(words, iterations=3),
        warm_start=True,
    )
    said = "cannot be read back" if template else "none of 5 episodes of its oracle was a success"
    assert said in adapter.not_demonstrated and not adapter.not_demonstrated.endswith(".")
    assert (adapter.demonstrations, adapter.warm_rollouts) == (0, 0 if template else 5)
    assert len(points) == (3 if template else 2) and adapter.rollouts <= 3 * 40


@pytest.mark.parametrize("checkpointing", [False, True])
def test_nats_are_those_of_all_logits_and_only_own_tokens_go_through_the_output_layer(
    base: Path, words: ModuleType, checkpointing: bool
) -> None:
    from trace_assets.training.episodes import Row
    from trace_assets.training.warm_start import padded, token_nats

    model = fresh(base, words).train()
    if checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    rows = [Row([3, 4], [5, 6, 7], [0.0] * 3, [1, 0, 1], 1.0, True), Row([3], [9], [0.0], [1], 1.0, True)]
    seen: list[Any] = []
    spy = model.get_output_embeddings().register_forward_hook(lambda _, read, made: seen.append(made.shape))
    nats = token_nats(model, padded(rows), section(words))
    spy.remove()
    assert [tuple(shape[:-1]) for shape in seen] == [(3,)], "tokens that were only read cost logits too"
    for row, found in zip(rows, nats, strict=True):
        ids = torch.tensor([row.prompt_ids + row.completion_ids])
        logits = model(input_ids=ids).logits[0, :-1]
        whole = -torch.log_softmax(logits, -1).gather(-1, ids[0, 1:, None])[:, 0]
        own = torch.tensor(([0] * len(row.prompt_ids) + row.own)[1:])
        assert torch.allclose(found[: len(own)], whole * own, atol=1e-5)
        assert not found[len(own) :].any(), "padding counts"
    nats.sum().backward()
    assert any(value.grad is not None and value.grad.any() for value in model.parameters())


def test_what_the_settings_save_of_memory_is_saved_here_too(
    base: Path, words: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gradient checkpointing begins with the trainer, and that is behind the demonstrations."""
    from trace_assets.training import warm_start

    monkeypatch.setattr(warm_start, "FEW_STEPS", 1)
    rows = shown(base, [("w1", "w119"), ("w2", "w118")])
    for asked in (False, True):
        model = fresh(base, words)
        warm_start.imitate(model, rows, section(words, gradient_checkpointing=asked), tokenizer_of(base))
        assert model.get_base_model().is_gradient_checkpointing is asked


def fresh(base: Path, words: ModuleType) -> Any:
    """Return the base model with a LoRA that changes nothing."""
    from trace_assets.tournament.arms.imitated import fresh_lora

    return fresh_lora(base, section(words))


def tokenizer_of(base: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(str(base))


def shown(base: Path, answers: list[tuple[str, str]]) -> list[Any]:
    """Return one demonstration for each word that is asked for and its answer."""
    from trace_assets.training.episodes import Row

    tokenizer = tokenizer_of(base)
    return [
        Row(
            tokenizer.encode(f"<user> say {asked} <end> <bot>"),
            tokenizer.encode(f"{answer} <end>"),
            [0.0, 0.0],
            [1, 1],
            1.0,
            True,
        )
        for asked, answer in answers
    ]


def answers_of(model: Any, base: Path, rows: list[Any]) -> list[str]:
    """Return the likeliest answer to each."""
    tokenizer = tokenizer_of(base)
    with torch.no_grad():
        ends = [model(input_ids=torch.tensor([row.prompt_ids])).logits[0, -1] for row in rows]
    return [tokenizer.decode(int(one.argmax())) for one in ends]


@pytest.mark.ci
def test_what_holds_beyond_what_is_learned_is_learned(base: Path, words: ModuleType) -> None:
    from trace_assets.training.warm_start import imitate

    model = fresh(base, words)
    rows = shown(base, [(f"w{number}", "w119") for number in range(60)])
    unseen = shown(base, [(f"w{number}", "w119") for number in range(60, 100)])
    found = imitate(model, rows, section(words), tokenizer_of(base))
    assert found.unlikely == 60 and found.before is not None and found.after is not None
    assert found.after < 0.7 < found.before
    assert answers_of(model, base, unseen).count("w119") >= 36


@pytest.mark.slow
def test_what_is_learned_by_heart_alone_is_not_kept(base: Path, words: ModuleType) -> None:
    """Answers that follow from nothing: whatever makes them likelier helps with no other."""
    import random

    from trace_assets.training.warm_start import HELD_OUT, imitate, least_likely

    model, draws = fresh(base, words), random.Random(0)
    rows = shown(base, [(f"w{number}", f"w{draws.randrange(120)}") for number in range(64)])
    held = rows[::HELD_OUT]
    before = least_likely(model, held, section(words))
    found = imitate(model, rows, section(words), tokenizer_of(base))
    after = least_likely(model, held, section(words))
    assert found.before == pytest.approx(sum(before) / len(before), abs=1e-4)
    assert found.after == pytest.approx(sum(after) / len(after), abs=1e-4), "the figure is of other weights"
    assert sum(after) <= sum(before), "weights were kept that make what is held out less likely"
    taught = [row for place, row in enumerate(rows) if place % HELD_OUT]
    assert sum(nats < 0.7 for nats in least_likely(model, taught, section(words))) < len(taught) / 4


@pytest.mark.slow
def test_what_is_likely_already_is_left_alone(base: Path, words: ModuleType) -> None:
    from trace_assets.training.warm_start import imitate

    model = fresh(base, words)
    rows = shown(base, [(f"w{number}", "w119") for number in range(32)])
    imitate(model, rows, section(words), tokenizer_of(base))
    kept = {name: value.clone() for name, value in model.state_dict().items()}
    again = imitate(model, rows, section(words), tokenizer_of(base))
    assert (again.demonstrations, again.unlikely, again.steps, again.before) == (32, 0, 0, None)
    assert all(torch.equal(value, kept[name]) for name, value in model.state_dict().items())
