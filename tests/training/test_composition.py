"""The sum of adapters is exactly that: in its weights, in logits, and as an engine plays it."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from trace_assets.errors import CheckFailed, InputError

pytestmark = pytest.mark.train
torch = pytest.importorskip("torch")
pytest.importorskip("peft")

from tests.untrained import make_untrained  # noqa: E402
from trace_assets.policies.lora import load_model, merge_folder  # noqa: E402
from trace_assets.training import composition  # noqa: E402
from trace_assets.training.checkpoints import adapter_id, write_adapter  # noqa: E402
from trace_assets.training.composition import compose_adapters, composition_id, refusal  # noqa: E402

KINDS: dict[str, dict[str, Any]] = {
    "cancel": {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "up_proj"]},
    "multi": {"r": 2, "lora_alpha": 6, "target_modules": ["q_proj", "o_proj"]},
    "window": {"r": 3, "lora_alpha": 3, "target_modules": ["o_proj"], "rank_pattern": {"o_proj": 5}},
}
"""Other ranks, scales and layers each: what adapters of one recipe never have, and a sum must still hold."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Path]]:
    """A base model and three adapters with random weights."""
    from peft import LoraConfig, get_peft_model

    folder = tmp_path_factory.mktemp("sums")
    base = make_untrained(folder / "base", seed=0)
    adapters = {}
    for seed, (name, kind) in enumerate(KINDS.items()):
        torch.manual_seed(seed)
        config = LoraConfig(init_lora_weights=False, **kind)
        adapters[name] = folder / name
        write_adapter(get_peft_model(load_model(base), config), adapters[name], "base")
    return base, adapters


def summed(base: Path, folders: list[Path]) -> Any:
    """Return the base model with the weight changes of every adapter added, one by one."""
    model = load_model(base)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    total = {name: value.double() for name, value in before.items()}
    for folder in folders:
        for name, value in merge_folder(load_model(base), folder).items():
            total[name] += value.double() - before[name].double()
    model.load_state_dict({name: value.float() for name, value in total.items()})
    return model


@pytest.mark.parametrize("names", [*combinations(KINDS, 2), tuple(KINDS)])
def test_logits_are_those_of_the_base_plus_every_change(
    names: tuple[str, ...], made: tuple[Path, dict[str, Path]], tmp_path: Path
) -> None:
    from peft import PeftModel

    base, adapters = made
    _, folder = compose_adapters(base, {name: adapters[name] for name in names}, tmp_path)
    ids = torch.randint(0, 256, (2, 24), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        plain = load_model(base)(input_ids=ids).logits
        wanted = summed(base, [adapters[name] for name in names])(input_ids=ids).logits
        unmerged = PeftModel.from_pretrained(load_model(base), str(folder)).eval()(input_ids=ids).logits
        one = (
            PeftModel.from_pretrained(load_model(base), str(adapters[names[0]])).eval()(input_ids=ids).logits
        )
    effect = float((wanted - plain).abs().max())
    assert float((unmerged - wanted).abs().max()) < 1e-4 * max(1.0, effect)
    assert effect > 0.1 and float((one - wanted).abs().max()) > 0.1  # no member alone would do


def test_the_engine_plays_the_sum(made: tuple[Path, dict[str, Path]], tmp_path: Path) -> None:
    base, adapters = made
    _, folder = compose_adapters(base, adapters, tmp_path)
    wanted = summed(base, list(adapters.values())).state_dict()
    merged = merge_folder(load_model(base), folder)
    assert set(merged) == set(wanted)
    for name, value in merged.items():
        assert torch.allclose(value, wanted[name], atol=1e-5), name


def test_a_sum_at_a_scale_is_that_share_of_every_change(
    made: tuple[Path, dict[str, Path]], tmp_path: Path
) -> None:
    base, adapters = made
    before, whole = load_model(base).state_dict(), summed(base, list(adapters.values())).state_dict()
    identity, folder = compose_adapters(base, adapters, tmp_path, scale=0.5)
    for name, value in merge_folder(load_model(base), folder).items():
        half = before[name] + 0.5 * (whole[name] - before[name])
        assert torch.allclose(value, half, atol=1e-5), name
    assert identity != compose_adapters(base, adapters, tmp_path)[0]


def test_ranks_add_up_and_the_name_follows_from_the_content(
    made: tuple[Path, dict[str, Path]], tmp_path: Path
) -> None:
    base, adapters = made
    assert composition.rank_of_sum(list(adapters.values())) == 4 + 2 + 5
    identity, folder = compose_adapters(base, adapters, tmp_path)
    assert identity == composition_id([adapter_id(path) for path in adapters.values()])
    renamed = dict(zip(("z", "y", "x"), reversed(adapters.values()), strict=True))
    again, elsewhere = compose_adapters(base, renamed, tmp_path / "other")
    assert again == identity and adapter_id(elsewhere) == adapter_id(folder)
    assert compose_adapters(tmp_path / "no-model-needed", adapters, tmp_path) == (identity, folder)
    pair = {name: adapters[name] for name in ("cancel", "multi")}
    assert compose_adapters(base, pair, tmp_path)[0] != identity


def test_what_the_server_cannot_hold_is_refused_with_the_reason(
    made: tuple[Path, dict[str, Path]], tmp_path: Path
) -> None:
    base, adapters = made
    assert refusal(adapters, 11) == refusal(adapters, None) == ""
    with pytest.raises(InputError, match="cancel, multi, window has rank 11, and what serves it takes 8"):
        compose_adapters(base, adapters, tmp_path, largest_rank=8)
    with pytest.raises(InputError, match="two adapters or more, not 1"):
        compose_adapters(base, {"cancel": adapters["cancel"]}, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_sum_that_is_none_is_not_written(
    made: tuple[Path, dict[str, Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from peft.tuners.lora import LoraModel

    base, adapters = made
    honest = LoraModel.add_weighted_adapter

    def mean(self: Any, names: list[str], weights: list[float], *rest: Any, **more: Any) -> None:
        honest(self, names, [0.5 for _ in weights], *rest, **more)

    monkeypatch.setattr(LoraModel, "add_weighted_adapter", mean)
    with pytest.raises(CheckFailed, match="differs from theirs"):
        compose_adapters(base, adapters, tmp_path)
    assert not list(tmp_path.iterdir())
