from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

from trace_assets.settings import Training  # noqa: E402
from trace_assets.training import trainer as room  # noqa: E402
from trace_assets.training.checkpoints import lora_config  # noqa: E402
from trace_assets.training.plan import Plan  # noqa: E402
from trace_assets.training.trainer import LiveRowTrainer, grpo_config, live_rows  # noqa: E402

pytestmark = pytest.mark.train


def batch(advantages: list[float]) -> dict[str, object]:
    """Row i has i prompt tokens (at least one) and 2 + i completion tokens, the first read, not written."""
    n = len(advantages)
    prompt = torch.zeros(n, n - 1, dtype=torch.long)
    completion = torch.zeros(n, n + 1, dtype=torch.long)
    for row in range(n):
        prompt[row, n - 1 - max(1, row) :] = 1
        completion[row, : 2 + row] = 1
    own = torch.ones_like(completion)
    own[:, 0] = 0
    return {
        "prompt_ids": prompt * 7,
        "prompt_mask": prompt,
        "completion_ids": completion * 9,
        "completion_mask": completion,
        "advantages": torch.tensor(advantages),
        "num_items_in_batch": torch.tensor(999),
        "tool_mask": own,
        "sampling_per_token_logps": -completion.float(),
    }


def test_dead_rows_go_and_the_token_count_is_that_of_the_live() -> None:
    out = live_rows(batch([0.0, 1.0, -1.0, 0.0]), slices=1)
    assert sorted(out["advantages"].tolist()) == [-1.0, 1.0]
    assert out["prompt_ids"].shape == (2, 2)
    assert out["completion_ids"].shape == (2, 4)
    assert out["sampling_per_token_logps"].shape == (2, 4)
    assert int(out["num_items_in_batch"]) == (3 - 1) + (4 - 1)


def test_where_the_policy_wrote_all_of_it_every_token_of_a_live_row_counts() -> None:
    plain = {key: value for key, value in batch([0.0, 1.0, -1.0, 0.0]).items() if key != "tool_mask"}
    out = live_rows(plain, slices=1)
    assert int(out["num_items_in_batch"]) == 3 + 4 and "tool_mask" not in out
    assert out["advantages"].tolist() == [1.0, -1.0], "in the order in which they came"


def test_what_is_not_by_row_is_handed_on_whole() -> None:
    beside = {"weights": torch.arange(7), "scale": torch.tensor(3.0), "names": ["a", "b", "c", "d"]}
    out = live_rows({**batch([0.0, 1.0, -1.0, 0.0]), **beside}, slices=1)
    assert out["weights"] is beside["weights"] and out["scale"] is beside["scale"]
    assert out["names"] == ["a", "b", "c", "d"]


def test_slices_stay_equal_and_fillers_carry_no_token() -> None:
    out = live_rows(batch([0.0, 1.0, -1.0, 0.0, 2.0]), slices=2)
    assert len(out["advantages"]) == 4
    dead = out["advantages"] == 0
    assert int(dead.sum()) == 1
    assert int(out["tool_mask"][dead].sum()) == 0
    assert int(out["num_items_in_batch"]) == 2 + 3 + 5


def test_a_dead_batch_leaves_one_row_a_slice_without_tokens() -> None:
    out = live_rows(batch([0.0, 0.0, 0.0]), slices=2)
    assert len(out["advantages"]) == 2
    assert int(out["num_items_in_batch"]) == 0


def test_a_live_batch_is_left_as_it_is() -> None:
    before = batch([1.0, -1.0, 0.5])
    out = live_rows(before, slices=1)
    for key in ("prompt_ids", "completion_mask", "tool_mask", "advantages"):
        assert torch.equal(out[key], before[key]), key  # type: ignore[call-overload]


def linear_loss(rows: dict[str, object]) -> float:
    """A loss as DAPO's at an importance ratio of 1: a sum over own tokens, linear in the advantage."""
    own = rows["completion_mask"] * rows["tool_mask"]  # type: ignore[operator]
    value = (rows["completion_ids"].double() ** 2 * own).sum(1)  # type: ignore[attr-defined]
    return float((value * rows["advantages"]).sum() / rows["num_items_in_batch"])  # type: ignore[operator]


def test_equal_episodes_are_scored_once_with_the_same_gradient() -> None:
    once = batch([1.0, 0.5, -0.75, 2.0])
    repeat = torch.tensor([0, 1, 2, 1, 3, 1, 2, 0])
    several = {key: value[repeat] if value.dim() else value for key, value in once.items()}  # type: ignore
    several["advantages"] = torch.tensor([1.0, 0.5, -0.75, 0.25, 2.0, -1.0, 0.5, -1.0])
    plain, merged = live_rows(several, 1), live_rows(several, 1, merge=True)
    assert len(plain["advantages"]) == 8
    assert sorted(merged["advantages"].tolist()) == [-0.25, -0.25, 2.0], "row 0 cancels out"
    assert linear_loss(merged) == pytest.approx(linear_loss(plain))


@pytest.fixture
def trainer(base: Path, tmp_path: Path) -> LiveRowTrainer:
    """A trainer over the word model; it is never run, only asked."""
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer

    section = Training(iterations=10, tasks_per_iteration=2, group_size=2, warmup_iterations=3)
    return LiveRowTrainer(
        on_log=lambda logs: None,
        warmup=section.warmup_iterations,
        model=AutoModelForCausalLM.from_pretrained(base),
        reward_funcs=lambda **_: [0.0],
        args=grpo_config(section, Plan(10, (), 2, 2), tmp_path / "out"),
        train_dataset=Dataset.from_dict({"prompt": ["0"] * 20}),
        processing_class=AutoTokenizer.from_pretrained(base, padding_side="left"),
        peft_config=lora_config(section),
        rollout_func=lambda prompts, trainer: {},
    )


@pytest.mark.parametrize("chunk", [1, 3, 50])
def test_scoring_rows_of_like_length_together_changes_no_score(
    trainer: LiveRowTrainer, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(room, "CHUNK", chunk)
    torch.manual_seed(1)
    rows, prompt, completion = 7, 4, 9
    ids = torch.randint(5, 100, (rows, prompt + completion))
    attention = torch.zeros_like(ids)
    for row in range(rows):
        attention[row, row % prompt : prompt + 2 + row] = 1
    ours, entropy, _ = trainer._get_per_token_logps_and_entropies(
        trainer.model, ids, attention, completion, compute_entropy=True
    )
    theirs, their_entropy, _ = super(LiveRowTrainer, trainer)._get_per_token_logps_and_entropies(
        trainer.model, ids, attention, completion, compute_entropy=True
    )
    seen = attention[:, prompt:].bool()
    assert ours.shape == theirs.shape == (rows, completion)
    assert torch.allclose(ours[seen], theirs[seen], atol=1e-5)
    assert torch.allclose(entropy[seen], their_entropy[seen], atol=1e-5)


def test_the_learning_rate_warms_up_from_above_zero_and_falls(trainer: LiveRowTrainer) -> None:
    trainer.create_optimizer()
    scheduler = trainer.create_scheduler(10)
    rates = []
    for _ in range(10):
        rates.append(scheduler.get_last_lr()[0] / trainer.args.learning_rate)
        trainer.optimizer.step()
        scheduler.step()
    assert rates[:4] == pytest.approx([0.25, 0.5, 0.75, 1.0])
    assert all(a > b > 0 for a, b in pairwise(rates[3:]))


def test_it_tells_nobody_and_optimizes_once_a_batch(trainer: LiveRowTrainer) -> None:
    assert trainer.args.report_to == []
    assert trainer.args.steps_per_generation == trainer.args.gradient_accumulation_steps == 1
    assert trainer._send_telemetry() is None
