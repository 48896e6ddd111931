"""That the trainer does what its parts are tested for: which rows it keeps, when, and what it leaves."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
trl = pytest.importorskip("trl")

from tests.training.test_trainer import batch  # noqa: E402
from trace_assets.settings import Training  # noqa: E402
from trace_assets.store.unfinished import COMPLETE  # noqa: E402
from trace_assets.training.checkpoints import lora_config  # noqa: E402
from trace_assets.training.plan import Plan  # noqa: E402
from trace_assets.training.trainer import (  # noqa: E402
    LiveRowTrainer,
    RunTrainer,
    _MarkComplete,
    grpo_config,
    live_rows,
)

pytestmark = pytest.mark.train

BATCH = {"advantages": [0.0, 1.0, -1.0, 0.0]}


@pytest.fixture
def made(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make a trainer over the word model whose generation gives a batch that was written down before."""
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer

    def make(advantages: list[float], logs: list[Any] | None = None, **settings: Any) -> LiveRowTrainer:
        written = batch(advantages)
        monkeypatch.setattr(
            trl.GRPOTrainer, "_generate_and_score_completions", lambda self, inputs: dict(written)
        )
        section = Training(**{"iterations": 10, "tasks_per_iteration": 2, "group_size": 2, **settings})
        return LiveRowTrainer(
            on_log=(logs if logs is not None else []).append,
            warmup=3,
            model=AutoModelForCausalLM.from_pretrained(base),
            reward_funcs=lambda **_: [0.0],
            args=grpo_config(section, Plan(10, (), 2, 2), tmp_path / "out"),
            train_dataset=Dataset.from_dict({"prompt": ["0"] * 20}),
            processing_class=AutoTokenizer.from_pretrained(base, padding_side="left"),
            peft_config=lora_config(section),
            rollout_func=lambda prompts, trainer: {},
        )

    return make


def test_dead_rows_are_dropped_while_it_trains_without_a_kl_term(made: Any) -> None:
    trainer = made([0.0, 1.0, -1.0, 0.0], beta=0.0)
    trainer.model.train()
    out = trainer._generate_and_score_completions([{}])
    assert sorted(out["advantages"].tolist()) == [-1.0, 1.0]
    assert int(out["num_items_in_batch"]) == (3 - 1) + (4 - 1) and not trainer.dead
    trainer.model.eval()
    out = trainer._generate_and_score_completions([{}])
    assert len(out["advantages"]) == 4 and int(out["num_items_in_batch"]) == 999


def test_with_a_kl_term_every_row_has_a_gradient_and_stays(made: Any) -> None:
    trainer = made([0.0, 1.0, -1.0, 0.0], beta=0.1)
    trainer.model.train()
    out = trainer._generate_and_score_completions([{}])
    assert len(out["advantages"]) == 4 and int(out["num_items_in_batch"]) == 999 and not trainer.dead


@pytest.mark.parametrize(("loss", "rows"), [("dapo", 2), ("grpo", 3)])
def test_equal_episodes_are_one_row_only_where_the_loss_is_a_sum_over_tokens(
    made: Any, monkeypatch: pytest.MonkeyPatch, loss: str, rows: int
) -> None:
    trainer = made([1.0, 0.5, -1.0], loss_type=loss)
    whole = batch([1.0, 0.5, -1.0])
    twice = {key: value[[0, 0, 2]] if value.dim() else value for key, value in whole.items()}  # type: ignore
    twice["advantages"] = torch.tensor([1.0, 0.5, -1.0])
    monkeypatch.setattr(trl.GRPOTrainer, "_generate_and_score_completions", lambda self, inputs: dict(twice))
    trainer.model.train()
    assert len(trainer._generate_and_score_completions([{}])["advantages"]) == rows


def test_slices_and_the_rows_of_the_busiest_process_are_kept(
    made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = made([0.0, 1.0, -1.0, 0.0])
    trainer.model.train()
    monkeypatch.setattr(trainer, "_process_group", SimpleNamespace(gather=lambda live: [live, 3]))
    assert len(trainer._generate_and_score_completions([{}])["advantages"]) == 3
    trainer.args.steps_per_generation = 2
    assert len(trainer._generate_and_score_completions([{}])["advantages"]) == 4


def test_a_dead_batch_leaves_no_gradient(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def step(self: Any, model: Any, inputs: Any, items: Any = None) -> Any:
        for weight in model.parameters():
            if weight.requires_grad:
                weight.grad = torch.ones_like(weight)
        return torch.tensor(2.5)

    monkeypatch.setattr(trl.GRPOTrainer, "training_step", step)
    trainer = made([0.0, 0.0, 0.0])
    trained = [weight for weight in trainer.model.parameters() if weight.requires_grad]
    trainer.model.train()
    for advantages, dead in ([0.0] * 3, True), ([1.0, -1.0, 0.0], False), ([0.0] * 3, True):
        written = batch(advantages)
        monkeypatch.setattr(
            trl.GRPOTrainer, "_generate_and_score_completions", lambda self, inputs, w=written: dict(w)
        )
        trainer._generate_and_score_completions([{}])
        assert trainer.dead is dead
        assert float(trainer.training_step(trainer.model, {})) == 2.5
        assert trained and all((weight.grad is None) is dead for weight in trained)


class Compared:
    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []

    def add(self, *tensors: Any) -> None:
        self.seen.append(tensors)

    def figures(self) -> dict[str, float]:
        return {"mismatch": 7.0}


def test_what_the_loss_is_computed_from_is_compared_on_own_tokens(
    made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = made([1.0, -1.0])
    trainer._mismatch = compared = Compared()
    scored = torch.tensor([[-1.0, -2.0, -3.0]])

    def loss(self: Any, model: Any, inputs: Any) -> Any:
        self._scored = scored if inputs["scores"] else None
        return torch.tensor(0.5)

    monkeypatch.setattr(trl.GRPOTrainer, "_compute_loss", loss)
    mask, own, sampled = torch.tensor([[1, 1, 0]]), torch.tensor([[0, 1, 1]]), torch.tensor([[0.1, 0.2, 0.3]])
    inputs = {"scores": True, "completion_mask": mask, "tool_mask": own, "sampling_per_token_logps": sampled}
    assert float(trainer._compute_loss(None, inputs)) == 0.5 and trainer._scored is None
    trainer._compute_loss(None, {name: value for name, value in inputs.items() if name != "tool_mask"})
    ((first, said, counted), (_, _, bare)) = compared.seen
    assert first is scored and said is sampled
    assert counted.tolist() == [[0, 1, 0]] and bare.tolist() == [[1, 1, 0]]
    trainer._compute_loss(None, {**inputs, "scores": False})
    trainer._compute_loss(None, {**inputs, "sampling_per_token_logps": None})
    assert len(compared.seen) == 2


def test_scores_are_remembered_without_their_graph(made: Any) -> None:
    trainer = made([1.0, -1.0])
    ids = torch.randint(5, 50, (2, 6))
    found = trainer._get_per_token_logps_and_entropies(trainer.model, ids, torch.ones_like(ids), 3)
    assert torch.equal(trainer._scored, found[0]) and not trainer._scored.requires_grad
    assert found[0].requires_grad


def test_images_and_auxiliary_losses_are_scored_as_the_library_does(
    made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Any, ...]] = []

    def score(self: Any, model: Any, ids: Any, mask: Any, keep: int, **rest: Any) -> Any:
        asked.append((tuple(ids.shape), keep, rest))
        return torch.zeros(len(ids), keep), None, None

    trainer = made([1.0, -1.0])
    monkeypatch.setattr(trl.GRPOTrainer, "_get_per_token_logps_and_entropies", score)
    ids, mask = torch.ones(3, 6, dtype=torch.long), torch.ones(3, 6, dtype=torch.long)
    mask[0, 4:] = 0
    pictures = {"pixel_values": torch.ones(1)}
    trainer._score_by_length(None, ids, mask, 3, **pictures)
    trainer._score_by_length(None, ids, mask, 3, compute_aux_loss=True)
    assert [one[0] for one in asked] == [(3, 6), (3, 6)] and asked[0][2] == pictures
    asked.clear()
    found = trainer._score_by_length(None, ids, mask, 3, batch_size=1, pixel_values=None)
    assert [one[:2] for one in asked] == [((3, 6), 3)] and "batch_size" not in asked[0][2]
    assert found[0].shape == (3, 3) and found[1] is None
    asked.clear()
    trainer._score_by_length(None, ids[:1], mask[:1], 3)
    assert asked[0][:2] == ((1, 4), 1), "what no row uses is not scored"


def test_an_iterations_metrics_are_handed_on_with_the_mismatch(made: Any) -> None:
    logs: list[Any] = []
    trainer = made([1.0, -1.0], logs)
    trainer._mismatch = Compared()
    trainer.log({"loss": 0.5, "reward": 1.0})
    trainer.log({"train_runtime": 3.0})
    assert len(logs) == 1 and logs[0]["mismatch"] == 7.0 and logs[0]["loss"] == 0.5


def test_the_warm_up_leaves_a_step_and_the_rate_is_made_once(made: Any) -> None:
    trainer = made([1.0, -1.0])
    trainer.create_optimizer()
    scheduler = trainer.create_scheduler(3)
    factor = scheduler.lr_lambdas[0]
    assert [factor(step) for step in range(5)] == pytest.approx([1 / 3, 2 / 3, 1.0, 0.0, 0.0])
    assert trainer.create_scheduler(50) is scheduler and trainer._created_lr_scheduler


def test_a_checkpoint_is_complete_when_all_have_written_and_one_says_so(tmp_path: Path) -> None:
    args, state = SimpleNamespace(output_dir=str(tmp_path)), SimpleNamespace(global_step=5)
    (tmp_path / "checkpoint-5").mkdir()
    mark = tmp_path / "checkpoint-5" / COMPLETE
    waited: list[bool] = []
    for first in (False, True):
        process_group = SimpleNamespace(first=first, wait=lambda: waited.append(mark.exists()))
        _MarkComplete(process_group).on_save(args, state, None)  # type: ignore[arg-type]
        assert mark.exists() is first
    assert waited == [False, False]


@pytest.mark.parametrize(
    ("settings", "rows", "steps"),
    [
        ({}, 8, 1),
        ({"micro_batch": 2}, 2, 4),
        ({"processes": 2}, 4, 1),
        ({"processes": 2, "micro_batch": 2}, 2, 2),
    ],
)
def test_the_batch_is_divided_among_processes_and_slices(
    tmp_path: Path, settings: dict[str, Any], rows: int, steps: int
) -> None:
    section = Training(iterations=7, tasks_per_iteration=2, group_size=4, save_every=3, **settings)
    config = grpo_config(section, Plan(7, (), 4, 2), tmp_path)
    assert (config.per_device_train_batch_size, config.gradient_accumulation_steps) == (rows, steps)
    assert (config.num_generations, config.max_steps, config.save_steps) == (4, 7, 3)
    assert config.num_iterations == 1 and config.scale_rewards == "group"


def test_settings_reach_the_library(tmp_path: Path) -> None:
    section = Training(
        learning_rate=0.125, max_grad_norm=0.5, temperature=0.75, beta=0.25, epsilon=0.3, seed=9, max_turns=3,
        max_new_tokens=11, loss_type="grpo", gradient_checkpointing=True,
    )  # fmt: skip
    config = grpo_config(section, Plan(7, (), 4, 2), tmp_path)
    for name in ("learning_rate", "max_grad_norm", "temperature", "beta", "epsilon", "seed", "loss_type"):
        assert getattr(config, name) == getattr(section, name), name
    assert config.max_completion_length == 33 and config.gradient_checkpointing is True
    assert config.shuffle_dataset is False and config.disable_tqdm is True and config.logging_steps == 1
    assert config.output_dir == str(tmp_path) and config.save_total_limit == 2
    assert config.ddp_find_unused_parameters is False and config.ddp_broadcast_buffers is False


def test_no_more_rows_than_there_are_and_at_least_one_a_slice() -> None:
    assert len(live_rows(batch([1.0, -1.0, 2.0]), slices=2)["advantages"]) == 3
    assert len(live_rows(batch([1.0, 0.0, 0.0]), slices=2)["advantages"]) == 2
    assert len(live_rows(batch([1.0, 0.0, 0.0]), slices=1, most=lambda live: live + 1)["advantages"]) == 2


def test_where_all_rows_teach_no_batch_excuses_a_loss_that_is_no_number() -> None:
    assert object.__new__(RunTrainer).dead is False
