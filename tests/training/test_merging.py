"""Merged adapters are PEFT's, the same every time, and arms of their own."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from trace_assets.errors import InputError
from trace_assets.settings import EvaluationSection

pytestmark = pytest.mark.train
torch = pytest.importorskip("torch")
pytest.importorskip("peft")

from safetensors.torch import load_file  # noqa: E402

from tests.untrained import make_untrained  # noqa: E402
from trace_assets.assets import evaluation as stage  # noqa: E402
from trace_assets.study import Study  # noqa: E402
from trace_assets.training.checkpoints import adapter_id  # noqa: E402
from trace_assets.training.composition import Merge, merge_adapters  # noqa: E402


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Path]]:
    """A base model and two adapters with random weights."""
    from peft import LoraConfig, get_peft_model

    from trace_assets.policies.lora import load_model
    from trace_assets.training.checkpoints import write_adapter

    folder = tmp_path_factory.mktemp("merging")
    base = make_untrained(folder / "base", seed=0)
    adapters = {}
    for seed, name in enumerate(("cancel", "multi")):
        torch.manual_seed(seed)
        config = LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj"], init_lora_weights=False)
        adapters[name] = folder / name
        write_adapter(get_peft_model(load_model(base), config), adapters[name], "base")
    return base, adapters


def weights(folder: Path) -> dict[str, Any]:
    return dict(load_file(folder / "adapter_model.safetensors"))


def test_linear_is_the_mean_of_the_factors(pair: tuple[Path, dict[str, Path]], tmp_path: Path) -> None:
    base, adapters = pair
    _, made = merge_adapters(base, adapters, "linear", tmp_path)
    one, other, merged = (weights(folder) for folder in (*adapters.values(), made))
    assert set(merged) == set(one)
    # PEFT gives each factor the root of weight times scaling, and the merged adapter the scaling 1.
    root = (0.5 * 8 / 4) ** 0.5
    for name, value in merged.items():
        assert torch.allclose(value, root * (one[name] + other[name]), atol=1e-5)


@pytest.mark.parametrize("way", ["ties", "dare_linear", "dare_ties"])
def test_other_ways_give_other_weights_the_same_every_time(
    way: Merge, pair: tuple[Path, dict[str, Path]], tmp_path: Path
) -> None:
    base, adapters = pair
    identity, made = merge_adapters(base, adapters, way, tmp_path / "one")
    torch.manual_seed(99)
    assert merge_adapters(base, adapters, way, tmp_path / "two")[0] == identity
    assert merge_adapters(base, adapters, way, tmp_path / "three", density=0.9)[0] != identity
    dropped = [float((value == 0).float().mean()) for value in weights(made).values()]
    assert all(share > 0.1 for share in dropped)  # a sum of two halves: a quarter, less where signs differ


def test_what_was_merged_is_looked_up(pair: tuple[Path, dict[str, Path]], tmp_path: Path) -> None:
    base, adapters = pair
    first = merge_adapters(base, adapters, "linear", tmp_path)
    assert merge_adapters(tmp_path / "no-model-needed", adapters, "linear", tmp_path) == first


def test_one_adapter_is_not_merged(pair: tuple[Path, dict[str, Path]], tmp_path: Path) -> None:
    base, adapters = pair
    with pytest.raises(InputError, match="two adapters or more, not 1"):
        merge_adapters(base, {"cancel": adapters["cancel"]}, "ties", tmp_path)


def test_the_evaluation_merges_what_a_router_may_choose(
    pair: tuple[Path, dict[str, Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, adapters = pair
    rows = [
        SimpleNamespace(name=name, path=str(path), adapter_id=adapter_id(path))
        for name, path in adapters.items()
    ]
    mixed = SimpleNamespace(name="mixed", path="", adapter_id="")
    monkeypatch.setattr(stage, "read_adapters", lambda study: [*rows, mixed])
    monkeypatch.setattr(stage, "base_folder", lambda study: base)
    study = Study.open(tmp_path, overrides=['evaluation.merges=["linear", "ties"]'])
    merged = stage._merge(study, ["cancel", "multi"])
    assert list(merged) == ["merged:linear", "merged:ties"]
    assert all(path.is_relative_to(study.home.models) and path.is_dir() for _, path in merged.values())
    assert len({identity for identity, _ in merged.values()}) == 2
    assert (
        stage._merge(study, ["cancel"])
        == stage._merge(Study.open(tmp_path, overrides=[]), list(adapters))
        == {}
    )


def test_the_settings_key_leaves_old_fingerprints() -> None:
    plain, asked = EvaluationSection(), EvaluationSection(merges=("ties",))
    values = plain.model_dump(mode="json", exclude=set(EvaluationSection.added | EvaluationSection.apart))
    old = hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]
    assert plain.fingerprint() == old != asked.fingerprint()
