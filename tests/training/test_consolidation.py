"""An agent of several choices distilled into one adapter: who teaches what, and what is refused."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from tests.training.test_joint import SECTION, named
from trace_assets.errors import InputError
from trace_assets.targets.protocol import Target
from trace_assets.training.checkpoints import adapter_id
from trace_assets.training.joint import Teacher, distilled_section, lessons, train_consolidated
from trace_assets.training.plan import Job

pytest.importorskip("trl")
LEARNS = SECTION.model_copy(update={"iterations": 12, "warmup_iterations": 1, "learning_rate": 5e-3})


def strong(base: Path, folder: Path, seed: int) -> Path:
    """Write an adapter that moves every word's probability, another one for each seed."""
    import torch
    from peft import get_peft_model

    from trace_assets.policies.lora import load_model
    from trace_assets.training.checkpoints import lora_config, write_adapter

    torch.manual_seed(seed)
    model = get_peft_model(load_model(base), lora_config(SECTION))
    with torch.no_grad():
        for name, value in model.named_parameters():
            if "lora_B" in name:
                value.normal_(std=0.3)
    write_adapter(model, folder, "base")
    return folder


@pytest.fixture(scope="module")
def folders(base: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("teachers")
    return {name: strong(base, place / name, seed) for seed, name in enumerate(("one.a", "b"))}


def sent_by(folders: dict[str, Path], *choices: str) -> object:
    def teacher(played: Target) -> Teacher:
        tasks = played.tasks("discovery")
        return Teacher({one.task_id: choices[n % len(choices)] for n, one in enumerate(tasks)}, folders)

    return teacher


def test_target_and_environments_are_played_half_and_half(words: ModuleType) -> None:
    target, parts = words.WordTarget(), [named(words, "a"), named(words, "b")]
    ids = [task.task_id for task in lessons(target, parts).tasks("discovery")]
    own = [task.task_id for task in target.tasks("discovery")]
    assert ids[::2] == own[: len(ids[::2])]
    assert [one.split("/")[0] for one in ids[1::2]][:4] == ["a", "b", "a", "b"]


def test_as_many_episodes_are_played_of_more_tasks() -> None:
    found = distilled_section(SECTION.model_copy(update={"redraws": 3}))
    assert (found.tasks_per_iteration, found.group_size, found.redraws) == (8, 2, 0)
    odd = distilled_section(SECTION.model_copy(update={"tasks_per_iteration": 3, "group_size": 3}))
    assert (odd.tasks_per_iteration, odd.group_size) == (3, 3)


def test_a_teacher_is_known_by_who_acts_where_and_by_content(folders: dict[str, Path]) -> None:
    first = Teacher({"t": "b", "u": "none"}, folders)
    assert first.used == {"b": folders["b"]}
    assert first.version == Teacher({"u": "none", "t": "b"}, {"b": folders["b"]}).version
    others = [
        Teacher({"t": "none", "u": "b"}, folders),
        Teacher({"t": "b", "u": "none"}, {"b": folders["one.a"]}),
    ]
    assert len({first.version, *(one.version for one in others)}) == 3
    with pytest.raises(InputError, match="sends tasks to c, which has no folder"):
        _ = Teacher({"t": "c"}, folders).used


def test_each_row_is_taught_by_its_own_choice(
    words: ModuleType, base: Path, folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch
    from peft import PeftModel

    from trace_assets.policies.lora import load_model
    from trace_assets.training.distillation import TaughtTrainer

    seen = []
    agents = {name: PeftModel.from_pretrained(load_model(base), str(path)) for name, path in folders.items()}
    agents["none"] = load_model(base)
    real = TaughtTrainer._compute_loss

    def compare(
        self: TaughtTrainer, student: object, inputs: dict[str, torch.Tensor], count: object
    ) -> object:
        found = real(self, student, inputs, count)
        ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1)
        mask = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1)
        own = inputs["completion_mask"] * inputs["tool_mask"]
        width = own.shape[1]
        total = 0.0
        for row, choice in enumerate(inputs["sent"].tolist()):
            name = ["none", "b", "one.a"][choice]
            agent = agents[name]
            real_ids, cut = ids[row][mask[row].bool()][None], int(inputs["completion_mask"][row].sum())
            with torch.no_grad():
                p, q = (
                    torch.log_softmax(model(real_ids).logits[0, -cut - 1 : -1].float(), -1)
                    for model in (student, agent)
                )
            kl = (p.exp() * (p - q)).sum(-1)
            total += float((kl * own[row][:cut]).sum())
        assert width >= 1
        seen.append((float(found[0].detach()), total / float(own.sum()), set(inputs["sent"].tolist())))
        return found

    monkeypatch.setattr(TaughtTrainer, "_compute_loss", compare)
    train_consolidated(
        words.WordTarget(),
        [named(words, "a")],
        sent_by(folders, "none", "b", "one.a"),  # type: ignore[arg-type]
        Job(base, "base", SECTION, tmp_path / "c"),
    )
    assert len(seen) == 2 and seen[0][2] == {0, 1, 2}
    for told, counted, _ in seen:
        assert told == pytest.approx(counted, rel=1e-3, abs=1e-6) and told > 0.001


@pytest.mark.ci
def test_the_student_comes_closer_to_its_teacher(
    words: ModuleType, base: Path, folders: dict[str, Path], tmp_path: Path
) -> None:
    def train(name: str, *choices: str) -> tuple[object, list[float]]:
        adapter, curve = train_consolidated(
            words.WordTarget(),
            [named(words, "a")],
            sent_by(folders, *choices),  # type: ignore[arg-type]
            Job(base, "base", LEARNS, tmp_path / name),
        )
        assert (adapter.name, adapter.kind, adapter.rollouts) == ("consolidated", "consolidated", 192)
        return adapter, [point.loss or 0.0 for point in curve]

    adapter, losses = train("b", "b")
    assert sum(losses[6:]) / 6 < 0.6 * losses[0]
    assert train("b", "b")[0] == adapter  # it lies there finished
    assert adapter_id(tmp_path / "b") != adapter_id(folders["b"])
    other, _ = train("b", "one.a")  # the teacher decides what is trained
    assert other != adapter


def test_what_cannot_be_distilled_is_said(
    words: ModuleType, base: Path, folders: dict[str, Path], tmp_path: Path
) -> None:
    def train(section: object, *choices: str) -> None:
        train_consolidated(
            words.WordTarget(),
            [named(words, "a")],
            sent_by(folders, *choices),  # type: ignore[arg-type]
            Job(base, "base", section, tmp_path / "x"),  # type: ignore[arg-type]
        )

    with pytest.raises(InputError, match="sends no task to an adapter"):
        train(SECTION, "none")
    with pytest.raises(InputError, match=r"leave 'consolidated' out of training\.single_arms"):
        train(SECTION.model_copy(update={"shard": True, "processes": 2}), "b")
