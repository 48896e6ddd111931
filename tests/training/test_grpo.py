from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from trace_assets.errors import InputError, Unavailable
from trace_assets.records import Adapter, Task, TrainingPoint

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

from trace_assets.training.checkpoints import (  # noqa: E402
    adapter_id,
    read_curve,
)
from trace_assets.training.grpo import CURVE, RECORD  # noqa: E402
from trace_assets.training.validation import readings  # noqa: E402

HERE = Path(__file__).parent
pytestmark = pytest.mark.train


@pytest.fixture(scope="module")
def trained(
    words: ModuleType, base: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Adapter, list[TrainingPoint], list[TrainingPoint], Path]:
    folder = tmp_path_factory.mktemp("trained") / "words"
    told: list[TrainingPoint] = []
    adapter, points = words.train(base, folder, on_point=told.append)
    return adapter, points, told, folder


def test_it_learns_and_says_so_with_n(trained: Any) -> None:
    adapter, points, told, _ = trained
    assert adapter.validation_n == 40
    assert adapter.validation_after_low > adapter.validation_before_high
    assert adapter.validation_before_low <= adapter.validation_before <= adapter.validation_before_high
    assert [point.iteration for point in points] == list(range(1, 13))
    assert told == points
    assert adapter.rollouts == 12 * 5 * 8 == sum(point.n for point in points)
    assert [point.iteration for point in points if point.validation_rate is not None] == [4, 8, 12]
    assert all(point.validation_n == 10 for point in points if point.validation_rate is not None)


def test_what_the_monitors_read_is_recorded(trained: Any, words: ModuleType) -> None:
    _, points, _, _ = trained
    live = [point for point in points if point.live_groups]
    assert live
    for point in live:
        assert point.sampler_kl is not None and 0 <= point.sampler_kl < 1e-9, "engine and trainer differ"
        assert point.sampler_difference is not None and 0 < point.sampler_difference < 1e-3
        assert (point.outside_clip, point.clip_ratio) == (0.0, 0.0)
        assert point.grad_norm is not None and point.grad_norm > 0
        assert point.entropy is not None and point.entropy > 0
        assert point.live_groups == pytest.approx(1 - point.dead_groups)
    assert all((point.rollouts, point.redrawn_groups) == (40, 0) for point in points)


@pytest.mark.ci
def test_another_sampler_is_noticed(words: ModuleType, base: Path, tmp_path: Path) -> None:
    """A trainer that is told other log-probabilities than the sampler's own says how far off they are."""
    from trace_assets.training.episodes import to_row

    def foreign(*arguments: Any) -> Any:
        row = to_row(*arguments)
        return replace(row, logprobs=[value - 0.5 for value in row.logprobs])

    section = words.SECTION.model_copy(update={"iterations": 1})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trace_assets.training.run.to_row", foreign)
        _, points = words.train(base, tmp_path / "words", section=section)
    assert points[0].sampler_difference == pytest.approx(0.5, abs=1e-3)
    assert points[0].outside_clip == 1.0
    assert {one.name for one in readings(points, section) if not one.sound} == {"sampler_kl", "outside_clip"}


@pytest.mark.ci
def test_dead_groups_are_drawn_anew_from_the_runs_own_rollouts(
    words: ModuleType, base: Path, tmp_path: Path
) -> None:
    """Two words are never judged different, so their groups are dead; the others take their places."""

    class Half(words.WordTarget):  # type: ignore[misc, name-defined]
        def episode(self, task: Task, *, seed: int) -> Any:
            episode = super().episode(task, seed=seed)
            if task.payload["word"] in ("red", "blue"):
                episode.word = "never said"
            return episode

    section = words.SECTION.model_copy(update={"iterations": 6, "redraws": 2, "validate_every": 2})
    told: list[TrainingPoint] = []

    def stop(point: TrainingPoint) -> None:
        told.append(point)
        if len(told) == 3:
            raise KeyboardInterrupt

    adapter, points = words.train(base, tmp_path / "a", target=Half(), section=section)
    spent = [40 + 8 * point.redrawn_groups for point in points]
    assert [point.rollouts for point in points] == spent
    assert adapter.rollouts == sum(spent) <= 6 * 40 < sum(spent) + 40
    assert adapter.iterations == len(points) < 6
    assert points[-1].validation_rate is not None, "the last iteration was not looked at"
    first = points[0]
    assert first.dead_groups >= 0.4 and first.redrawn_groups >= 2
    assert first.live_groups is not None and first.live_groups > 1 - first.dead_groups
    # Interrupted, it spends and ends the same.
    section = section.model_copy(update={"save_every": 1})
    with pytest.raises(KeyboardInterrupt):
        words.train(base, tmp_path / "b", target=Half(), section=section, on_point=stop)
    again, same = words.train(base, tmp_path / "b", target=Half(), section=section)
    assert (again.adapter_id, [p.rollouts for p in same]) == (adapter.adapter_id, spent)


def test_weights_that_are_no_numbers_are_never_saved(words: ModuleType, base: Path, tmp_path: Path) -> None:
    from trace_assets.training.trainer import LiveRowTrainer

    section = words.SECTION.model_copy(update={"save_every": 1})
    log = LiveRowTrainer.log

    def burst(trainer: Any, logs: dict[str, float], start_time: float | None = None) -> None:
        log(trainer, {**logs, "grad_norm": float("nan")} if trainer.state.global_step == 2 else logs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LiveRowTrainer, "log", burst)
        message = "grad_norm of words is nan in iteration 2: lower training.learning_rate"
        with pytest.raises(InputError, match=message):
            words.train(base, tmp_path / "words", section=section)
    kept = tmp_path / ".words.work" / "checkpoints"
    assert [path.name for path in kept.glob("checkpoint-*")] == ["checkpoint-1"]


def test_the_best_checkpoint_is_kept(trained: Any) -> None:
    adapter, points, _, _ = trained
    rates = {point.iteration: point.validation_rate for point in points if point.validation_rate is not None}
    assert rates[adapter.best_iteration] == max(rates.values())


def test_the_folder_is_an_ordinary_peft_adapter(trained: Any, base: Path) -> None:
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    adapter, points, _, folder = trained
    assert adapter.adapter_id == adapter_id(folder)
    assert sorted(path.name for path in folder.iterdir()) == [
        "adapter_config.json",
        "adapter_model.safetensors",
        RECORD,
        CURVE,
    ]
    assert not list(folder.parent.glob(".*")), "the run directory was left behind"
    assert len((folder / CURVE).read_text().splitlines()) == len(points)
    config = json.loads((folder / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == "base"
    assert str(base) not in json.dumps(config)
    model = AutoModelForCausalLM.from_pretrained(base)
    ids = torch.tensor([[2, 4, 5, 3]])
    with torch.no_grad():
        plain = model(ids).logits
        adapted = PeftModel.from_pretrained(model, str(folder))(ids).logits
    assert (plain - adapted).abs().max() > 0.1


@pytest.mark.ci
def test_the_same_arguments_give_the_same_adapter(
    trained: Any, words: ModuleType, base: Path, tmp_path: Path
) -> None:
    again, _ = words.train(base, tmp_path / "again")
    assert again.adapter_id == trained[0].adapter_id


def test_a_finished_run_is_not_made_again(
    trained: Any, words: ModuleType, base: Path, tmp_path: Path
) -> None:
    adapter, points, _, folder = trained
    copied, told = Path(shutil.copytree(folder, tmp_path / "words")), list[TrainingPoint]()
    (tmp_path / ".words.work").mkdir()  # of a process that was killed between the folder and the clearing
    again, same = words.train(base, copied, on_point=told.append)
    assert (again, same, told) == (adapter, points, [])
    assert not (tmp_path / ".words.work").exists()
    (copied / "adapter_model.safetensors").write_bytes(b"torn")
    assert words.train(base, copied)[0].adapter_id == adapter.adapter_id


@pytest.mark.parametrize("at", [2, 7])
@pytest.mark.slow
def test_a_killed_run_goes_on_and_ends_the_same(
    trained: Any, words: ModuleType, base: Path, tmp_path: Path, at: int
) -> None:
    folder = tmp_path / "words"
    code = "import sys; sys.path.insert(0, sys.argv[1]); import word_target as w; from pathlib import Path; "
    code += "w.train_and_die(Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))"
    died = subprocess.run(
        [sys.executable, "-c", code, str(HERE), str(base), str(folder), str(at)], capture_output=True
    )
    assert died.returncode == -9, died.stderr.decode()
    kept = tmp_path / ".words.work" / "curve.jsonl"
    assert [point.iteration for point in read_curve(kept)] == list(range(1, at + 1))
    assert not folder.exists()
    told: list[TrainingPoint] = []
    adapter, points = words.train(base, folder, on_point=told.append)
    assert told[0].iteration == (5 if at > 4 else 1), "it did not go on from the checkpoint"
    assert [point.iteration for point in points] == list(range(1, 13))
    assert adapter.adapter_id == trained[0].adapter_id


def test_a_checkpoint_cut_short_is_not_used(
    trained: Any, words: ModuleType, base: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "words"

    class Stop(Exception):
        pass

    def stop(point: TrainingPoint) -> None:
        if point.iteration == 10:
            raise Stop

    with pytest.raises(Stop):
        words.train(base, folder, on_point=stop)
    checkpoints = tmp_path / ".words.work" / "checkpoints"
    (checkpoints / "checkpoint-8" / "complete").unlink()
    (checkpoints / "checkpoint-8" / "optimizer.pt").write_bytes(b"cut")
    told: list[TrainingPoint] = []
    adapter, _ = words.train(base, folder, on_point=told.append)
    assert told[0].iteration == 5
    assert adapter.adapter_id == trained[0].adapter_id


@pytest.mark.ci
def test_other_settings_do_not_resume_a_stale_run(words: ModuleType, base: Path, tmp_path: Path) -> None:
    def stop(point: TrainingPoint) -> None:
        if point.iteration == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        words.train(base, tmp_path / "words", on_point=stop)
    told: list[TrainingPoint] = []
    section = words.SECTION.model_copy(update={"iterations": 4})
    words.train(base, tmp_path / "words", section=section, on_point=told.append)
    assert [point.iteration for point in told] == [1, 2, 3, 4]


def test_a_budget_sets_the_number_of_iterations(words: ModuleType, base: Path, tmp_path: Path) -> None:
    adapter, points = words.train(base, tmp_path / "words", rollout_budget=3 * 40, kind="mixed")
    assert (adapter.iterations, adapter.rollouts, len(points)) == (3, 120, 3)
    with pytest.raises(InputError, match="whole number of iterations"):
        words.train(base, tmp_path / "words", rollout_budget=121)


def test_broken_episodes_are_no_reward_of_zero(words: ModuleType, base: Path, tmp_path: Path) -> None:
    """Broken episodes of one word leave the other words' training as it would be without them."""

    def breaks(task: Task, seed: int) -> bool:
        return bool(task.payload["word"] == "red")

    section = words.SECTION.model_copy(update={"iterations": 2, "validate_every": 2})
    adapter, points = words.train(base, tmp_path / "a", target=words.WordTarget(breaks), section=section)
    assert [point.n for point in points] == [32, 32], "a broken episode was counted"
    assert adapter.validation_n == 32
    assert all(point.dead_groups >= 0.2 for point in points)


@pytest.mark.ci
def test_a_batch_that_mostly_broke_stops_and_keeps_what_was_done(
    words: ModuleType, base: Path, tmp_path: Path
) -> None:
    down = False

    def breaks(task: Task, seed: int) -> bool:
        return down

    def take_down(point: TrainingPoint) -> None:
        nonlocal down
        down = point.iteration == 6

    target = words.WordTarget(breaks)
    with pytest.raises(Unavailable, match=r"\d+ of 40 .* iteration 7 .*the worker died"):
        words.train(base, tmp_path / "words", target=target, on_point=take_down)
    down = False
    told: list[TrainingPoint] = []
    _, points = words.train(base, tmp_path / "words", target=target, on_point=told.append)
    assert told[0].iteration == 5
    assert len(points) == 12


def test_a_target_without_validation_tasks_is_refused(words: ModuleType, base: Path, tmp_path: Path) -> None:
    class Bare(words.WordTarget):  # type: ignore[misc, name-defined]
        def tasks(self, split: str) -> Any:
            return super().tasks(split) if split == "discovery" else []

    with pytest.raises(InputError, match="no validation tasks"):
        words.train(base, tmp_path / "words", target=Bare())
