"""Training the base model: cached, resumable, checked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.untrained import make_untrained
from trace_assets.errors import CheckFailed, InputError
from trace_assets.settings import BaseModelSection, Targets
from trace_assets.system.progress import progress
from trace_assets.targets.embedded.target import EmbeddedTarget
from trace_assets.training.demo_agent import base_run
from trace_assets.training.demo_agent import model as tokens
from trace_assets.training.demo_agent.base_run import BaseRun
from trace_assets.training.demo_agent.pretraining import RECIPE_FILE, BaseCheck, train_base

pytestmark = pytest.mark.train

ANYTHING = BaseModelSection(
    steps=5,
    max_steps=5,
    pass_rate_low=0.0,
    pass_rate_high=1.0,
    taught_rate=0.0,
    lacking_rate=0.0,
    check_tasks=24,
)
"""A section whose check every model passes."""


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    for module in (tokens, base_run):
        monkeypatch.setattr(module, "POOL_BATCHES", 4)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def target() -> EmbeddedTarget:
    return EmbeddedTarget(Targets(validation_tasks=16))


def weights(run: BaseRun) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in run.model.state_dict().items()}


def advance(run: BaseRun, stop: int) -> None:
    with progress("test") as bar:
        run.train(stop, bar)


@pytest.mark.ci
def test_a_resumed_run_takes_the_same_steps(small: None, tmp_path: Path) -> None:
    straight = BaseRun(3, tmp_path / "straight.pt")
    advance(straight, 10)
    broken = BaseRun(3, tmp_path / "broken.pt")
    take_step, taken = broken._take_step, []

    def interrupted(batch: tokens.Batch) -> float:
        if len(taken) == 6:
            raise KeyboardInterrupt
        taken.append(batch)
        return take_step(batch)

    broken._take_step = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        advance(broken, 10)
    resumed = BaseRun(3, tmp_path / "broken.pt")
    assert resumed.step == 4  # the last whole pool
    advance(resumed, 10)
    first, second = weights(straight), weights(resumed)
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_training_lowers_the_loss_and_another_seed_is_another_model(small: None, tmp_path: Path) -> None:
    run, other = BaseRun(0, tmp_path / "a.pt"), BaseRun(1, tmp_path / "b.pt")
    assert not torch.equal(run.model.lm_head.weight, other.model.lm_head.weight)
    batch = tokens.batches(0, 0, run.tokenizer)[0]
    run.leg = (0, 100)
    losses = [run._take_step(batch) for _ in range(12)]
    assert losses[-1] < 0.7 * losses[0]


def test_the_folder_is_a_normal_one_and_is_not_made_twice(
    small: None, target: EmbeddedTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

    folder = tmp_path / "models" / "base"
    made = train_base(target, ANYTHING, folder)
    assert (made.path, made.steps, made.n) == (str(folder), 5, 24)
    assert made.pass_rate is not None and made.pass_rate_low is not None and made.pass_rate_high is not None
    assert made.pass_rate_low <= made.pass_rate <= made.pass_rate_high
    model = AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert model.config.model_type == "qwen3"
    assert sum(value.numel() for value in model.parameters()) == made.parameters < 400_000
    assert model.config.vocab_size == len(tokenizer)
    assert GenerationConfig.from_pretrained(folder).eos_token_id == tokenizer.eos_token_id
    assert tokenizer.chat_template
    assert sorted(path.name for path in folder.parent.iterdir()) == [".training", "base"]
    assert not list((folder.parent / ".training").iterdir())

    def forbidden(*_: object) -> None:
        raise AssertionError("trained again")

    with monkeypatch.context() as patch:
        patch.setattr(BaseRun, "__init__", forbidden)
        assert train_base(target, ANYTHING, folder) == made
        with pytest.raises(AssertionError, match="trained again"):
            train_base(target, ANYTHING.model_copy(update={"seed": 1}), folder)
    (folder / RECIPE_FILE).write_text("{}")
    again = train_base(target, ANYTHING, folder)
    assert again.model_copy(update={"seconds": made.seconds}) == made  # the same weights again


@pytest.mark.slow
def test_a_model_that_fails_its_check_is_trained_longer_and_then_refused(
    small: None, target: EmbeddedTarget, tmp_path: Path
) -> None:
    folder = tmp_path / "base"
    demanding = ANYTHING.model_copy(update={"pass_rate_low": 0.9, "steps": 4, "max_steps": 7})
    with pytest.raises(CheckFailed, match=r"after 7 steps: pass rate .* wanted 0.90 to 1.00"):
        train_base(target, demanding, folder)
    assert not folder.exists()
    saved = list((tmp_path / ".training").glob("*/run.pt"))
    assert [torch.load(path)["step"] for path in saved] == [7]
    with pytest.raises(CheckFailed, match="after 9 steps"):
        train_base(target, demanding.model_copy(update={"max_steps": 9}), folder)
    assert [torch.load(path)["step"] for path in saved] == [9]  # went on, did not begin again
    made = train_base(target, demanding.model_copy(update={"pass_rate_low": 0.0}), folder)
    assert made.steps == 9  # checked once more where it stood


def test_only_the_embedded_target_has_demonstrations(tmp_path: Path) -> None:
    class Other(EmbeddedTarget):
        @property
        def name(self) -> str:
            return "elsewhere"

    with pytest.raises(InputError, match=r"base_model\.path"):
        train_base(Other(Targets()), ANYTHING, tmp_path / "base")


def test_a_named_model_is_described_and_not_trained(target: EmbeddedTarget, tmp_path: Path) -> None:
    named = make_untrained(tmp_path / "named")
    made = train_base(target, BaseModelSection(path=str(named)), tmp_path / "base")
    assert (made.path, made.pass_rate, made.n, made.steps) == (str(named), None, 0, 0)
    assert 300_000 < made.parameters < 400_000
    assert not (tmp_path / "base").exists()
    config = json.loads((named / "config.json").read_text())
    (named / "config.json").write_text(json.dumps({**config, "rope_theta": 5.0}))
    again = train_base(target, BaseModelSection(path=str(named)), tmp_path / "base")
    assert again.base_id != made.base_id


def test_a_name_that_is_no_model_is_refused(target: EmbeddedTarget, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"base_model\.path"):
        train_base(target, BaseModelSection(path=str(tmp_path)), tmp_path / "base")


def test_the_check_names_everything_that_is_not_as_wanted() -> None:
    section = BaseModelSection()
    skills = ("cancel", "multi", "window", "address", "exchange", "status")
    played = dict.fromkeys(skills, 50)
    good = BaseCheck({"cancel": 15, "multi": 10, "window": 25, **dict.fromkeys(skills[3:], 47)}, played)
    assert good.problems(section) == []
    assert good.n == 300
    low, high = good.interval
    assert low < good.rate < high
    hopeless = BaseCheck({**good.passed, "multi": 0}, played)
    assert hopeless.problems(section) == ["skill 'multi' 0.00 of 50, wanted at least 0.10"]
    untaught = BaseCheck({**good.passed, "address": 40}, played)
    assert untaught.problems(section) == ["skill 'address' 0.80 of 50, wanted at least 0.90"]
    able = BaseCheck(dict.fromkeys(skills, 49), played)
    assert able.problems(section) == ["pass rate 0.98 of 300 episodes, wanted 0.40 to 0.65"]
