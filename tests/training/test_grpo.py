from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from trace_assets.errors import InputError, Unavailable
from trace_assets.records import Adapter, Task, TrainingPoint

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

from trace_assets.training.adapter import adapter_id  # noqa: E402
from trace_assets.training.grpo import CURVE, RECORD, train_adapter  # noqa: E402

HERE = Path(__file__).parent
pytestmark = pytest.mark.train


@pytest.fixture(scope="module")
def words() -> ModuleType:
    spec = importlib.util.spec_from_file_location("word_target", HERE / "word_target.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def base(words: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = words.write_base(tmp_path_factory.mktemp("model") / "base")
    return folder


def train(words: ModuleType, base: Path, folder: Path, **changes: Any) -> tuple[Adapter, list[TrainingPoint]]:
    arguments: dict[str, Any] = {
        "name": "words",
        "kind": "capability",
        "capability_id": "words",
        "environment_id": None,
        "target": words.WordTarget(),
        "base_dir": base,
        "base_id": "base",
        "section": words.SECTION,
        "folder": folder,
    }
    return train_adapter(**{**arguments, **changes})


@pytest.fixture(scope="module")
def trained(
    words: ModuleType, base: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Adapter, list[TrainingPoint], list[TrainingPoint], Path]:
    folder = tmp_path_factory.mktemp("trained") / "words"
    told: list[TrainingPoint] = []
    adapter, points = train(words, base, folder, on_point=told.append)
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
    assert not list(folder.parent.glob(".*")), "the workplace was left behind"
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


def test_the_same_arguments_give_the_same_adapter(
    trained: Any, words: ModuleType, base: Path, tmp_path: Path
) -> None:
    again, _ = train(words, base, tmp_path / "again")
    assert again.adapter_id == trained[0].adapter_id


def test_a_finished_run_is_not_made_again(
    trained: Any, words: ModuleType, base: Path, tmp_path: Path
) -> None:
    adapter, points, _, folder = trained
    copied, told = Path(shutil.copytree(folder, tmp_path / "words")), list[TrainingPoint]()
    (tmp_path / ".words.work").mkdir()  # of a process that was killed between the folder and the clearing
    again, same = train(words, base, copied, on_point=told.append)
    assert (again, same, told) == (adapter, points, [])
    assert not (tmp_path / ".words.work").exists()
    (copied / "adapter_model.safetensors").write_bytes(b"torn")
    assert train(words, base, copied)[0].adapter_id == adapter.adapter_id


@pytest.mark.parametrize("at", [pytest.param(2, marks=pytest.mark.slow), 7])
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
    assert [json.loads(line)["iteration"] for line in kept.read_text().splitlines()] == list(range(1, at + 1))
    assert not folder.exists()
    told: list[TrainingPoint] = []
    adapter, points = train(words, base, folder, on_point=told.append)
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
        train(words, base, folder, on_point=stop)
    checkpoints = tmp_path / ".words.work" / "checkpoints"
    (checkpoints / "checkpoint-8" / "complete").unlink()
    (checkpoints / "checkpoint-8" / "optimizer.pt").write_bytes(b"cut")
    told: list[TrainingPoint] = []
    adapter, _ = train(words, base, folder, on_point=told.append)
    assert told[0].iteration == 5
    assert adapter.adapter_id == trained[0].adapter_id


def test_other_settings_do_not_resume_a_stale_run(words: ModuleType, base: Path, tmp_path: Path) -> None:
    def stop(point: TrainingPoint) -> None:
        if point.iteration == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(words, base, tmp_path / "words", on_point=stop)
    told: list[TrainingPoint] = []
    section = words.SECTION.model_copy(update={"iterations": 4})
    train(words, base, tmp_path / "words", section=section, on_point=told.append)
    assert [point.iteration for point in told] == [1, 2, 3, 4]


def test_a_budget_sets_the_number_of_iterations(words: ModuleType, base: Path, tmp_path: Path) -> None:
    adapter, points = train(words, base, tmp_path / "words", rollout_budget=3 * 40, kind="mixed")
    assert (adapter.iterations, adapter.rollouts, len(points)) == (3, 120, 3)
    with pytest.raises(InputError, match="whole number of iterations"):
        train(words, base, tmp_path / "words", rollout_budget=121)


def test_broken_episodes_are_no_reward_of_zero(words: ModuleType, base: Path, tmp_path: Path) -> None:
    """Broken episodes of one word leave the other words' training as it would be without them."""

    def breaks(task: Task, seed: int) -> bool:
        return bool(task.payload["word"] == "red")

    section = words.SECTION.model_copy(update={"iterations": 2, "validate_every": 2})
    adapter, points = train(words, base, tmp_path / "a", target=words.WordTarget(breaks), section=section)
    assert [point.n for point in points] == [32, 32], "a broken episode was counted"
    assert adapter.validation_n == 32
    assert all(point.dead_groups >= 0.2 for point in points)


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
        train(words, base, tmp_path / "words", target=target, on_point=take_down)
    down = False
    told: list[TrainingPoint] = []
    _, points = train(words, base, tmp_path / "words", target=target, on_point=told.append)
    assert told[0].iteration == 5
    assert len(points) == 12


def test_a_target_without_validation_tasks_is_refused(words: ModuleType, base: Path, tmp_path: Path) -> None:
    class Bare(words.WordTarget):  # type: ignore[misc, name-defined]
        def tasks(self, split: str) -> Any:
            return super().tasks(split) if split == "discovery" else []

    with pytest.raises(InputError, match="no validation tasks"):
        train(words, base, tmp_path / "words", target=Bare())
