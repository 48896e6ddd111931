"""Several adapters as one: their exact sum, merged into one adapter, or merged into their base model."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from trace_assets.errors import CheckFailed, InputError, require_extra
from trace_assets.store.content import folder_version, text_version
from trace_assets.store.files import replacing_folder
from trace_assets.training.checkpoints import adapter_id, write_adapter

ROUNDING = 1e-5
"""Largest difference between the sum and its factors' product, relative to the largest weight change."""


def composition_id(adapter_ids: Sequence[str], scale: float = 1.0, on_top: Sequence[str] = ()) -> str:
    """Return what a set of adapters is known by: it follows from the members' content, in any order.

    Args:
        adapter_ids: Of the members that the scale holds for.
        scale: What their weight changes are multiplied by.
        on_top: Of those that act at full scale whatever that is.

    >>> composition_id(["b", "a"]) == composition_id(["a", "b"]) != composition_id(["a", "c"])
    True
    >>> composition_id(["a", "b"], 0.5) == composition_id(["a", "b"])
    False
    >>> composition_id(["a"], on_top=["b"]) == composition_id(["a", "b"])
    True
    """
    if scale == 1.0:
        return text_version("sum", *sorted([*adapter_ids, *on_top]))
    return text_version(f"sum at {scale}", *sorted(adapter_ids), *(f"and {one}" for one in sorted(on_top)))


def rank_of_sum(folders: Sequence[Path]) -> int:
    """Return the rank of the sum of adapters: their ranks added up.

    Raises:
        InputError: A folder's configuration cannot be read.
    """
    return sum(_rank(folder) for folder in folders)


def refusal(members: Mapping[str, Path], largest_rank: int | None) -> str:
    """Say why a set cannot be served; empty where it can.

    Raises:
        InputError: A folder's configuration cannot be read.
    """
    rank = rank_of_sum(list(members.values()))
    if largest_rank is None or rank <= largest_rank:
        return ""
    return (
        f"the sum of {', '.join(sorted(members))} has rank {rank}, and what serves it takes {largest_rank} "
        "at most: train with a smaller training.lora_rank, or serve fewer of them together."
    )


def compose_adapters(
    base_dir: Path,
    members: Mapping[str, Path],
    folder: Path,
    *,
    largest_rank: int | None = None,
    scale: float = 1.0,
    on_top: Collection[str] = (),
) -> tuple[str, Path]:
    """Make the exact sum of adapters as one PEFT folder; what was made before is only looked up.

    Args:
        base_dir: Hugging Face folder of their base model.
        members: Name -> PEFT folder, two or more.
        folder: Holds the sums, one folder each, named by the members' content.
        largest_rank: Of what shall serve it; None has no bound.
        scale: What the weight changes are multiplied by; 1 gives the sum itself.
        on_top: Members that act at full scale all the same: they were trained on top of the scaled others.

    Returns:
        The set's id, as `composition_id` gives it, and its folder.

    Raises:
        InputError: There are fewer than two, they cannot be added, or the rank is too high.
        CheckFailed: The result is not the sum.
        Unavailable: The train extra is missing.
    """
    if len(members) < 2:
        raise InputError(f"a sum takes two adapters or more, not {len(members)}.")
    if why := refusal(members, largest_rank):
        raise InputError(why)
    identity = composition_id(
        [adapter_id(path) for name, path in members.items() if name not in on_top],
        scale,
        [adapter_id(path) for name, path in members.items() if name in on_top],
    )
    made = folder / f"sum-{identity}"
    if made.is_dir():
        return identity, made
    require_extra("peft", "train", "adding adapters up")
    from peft import PeftModel

    from trace_assets.policies.lora import load_model

    # By content, so that the folder is the same whatever the members are called.
    ordered = sorted(members.items(), key=lambda pair: (adapter_id(pair[1]), pair[0]))
    (first, path), *others = ordered
    names = [f"member{number}" for number in range(len(ordered))]
    scales = [1.0 if name in on_top else scale for name, _ in ordered]
    model = PeftModel.from_pretrained(load_model(base_dir), str(path), adapter_name=names[0])
    for name, (_, path) in zip(names[1:], others, strict=True):
        model.load_adapter(str(path), adapter_name=name)
    try:
        model.add_weighted_adapter(names, scales, "default", combination_type="cat")
    except (ValueError, RuntimeError, NotImplementedError) as error:
        raise InputError(f"PEFT cannot add up {', '.join(sorted(members))}: {error}.") from error
    _check_sum(model, dict(zip(names, scales, strict=True)), sorted(members))
    model.set_adapter("default")
    for name in names:
        model.delete_adapter(name)
    for name, value in model.named_parameters():
        if ".default." in name:
            value.data += 0.0  # where a member adds nothing PEFT leaves zeros of either sign
    folder.mkdir(parents=True, exist_ok=True)
    write_adapter(model, made, _config(members[first]).get("base_model_name_or_path") or "base")
    return identity, made


def _check_sum(model: Any, scales: Mapping[str, float], said: Sequence[str]) -> None:
    """Compare every layer's weight change with the sum of the members', each at its scale."""
    import torch

    added = 0
    for layer in model.modules():
        if not hasattr(layer, "get_delta_weight") or not hasattr(layer, "lora_A"):
            continue
        own = [name for name in scales if name in layer.lora_A or name in layer.lora_embedding_A]
        if not own:
            continue
        with torch.no_grad():
            deltas = [scales[name] * layer.get_delta_weight(name).float() for name in own]
            total, sizes = sum(deltas[1:], deltas[0]), sum(float(one.abs().max()) for one in deltas)
            difference = float((layer.get_delta_weight("default").float() - total).abs().max())
        if not difference <= ROUNDING * sizes:
            raise CheckFailed(
                f"PEFT's sum of {', '.join(said)} differs from theirs by {difference:.3g} in a layer, "
                f"with weight changes up to {sizes:.3g}: adapters of this kind cannot be added."
            )
        added += 1
    if not added:
        raise CheckFailed(f"{', '.join(said)} change no layer, so there is nothing to add.")


def _config(folder: Path) -> dict[str, Any]:
    file = folder / "adapter_config.json"
    try:
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        int(found["r"])
        return found
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{file} is no LoRA configuration that can be read ({type(error).__name__}); train it again."
        ) from error


def _rank(folder: Path) -> int:
    config = _config(folder)
    return max([int(config["r"]), *map(int, (config.get("rank_pattern") or {}).values())])


Merge = Literal["linear", "ties", "dare_linear", "dare_ties"]
"""As PEFT's `add_weighted_adapter` names them: the mean of the factors; trimmed, with signs elected (TIES,
Yadav et al. 2023); dropped at random and rescaled (DARE, Yu et al. 2024) before either."""
WEIGHTS: Mapping[Merge, Literal["mean", "sum"]] = {
    "linear": "mean",
    "dare_linear": "mean",
    "ties": "sum",
    "dare_ties": "sum",
}
"""What each adapter weighs: 1 / n, or 1 where the method itself takes a mean over those that agree."""


def merge_adapters(
    base_dir: Path,
    adapters: Mapping[str, Path],
    method: Merge,
    folder: Path,
    *,
    density: float = 0.5,
    seed: int = 0,
) -> tuple[str, Path]:
    """Merge adapters into one PEFT folder; what was merged before is only looked up.

    Args:
        base_dir: Hugging Face folder of their base model.
        adapters: Name -> PEFT folder, two or more of one rank.
        method: How.
        folder: Holds the merged adapters, one folder each.
        density: Share of the values that `ties` and `dare_*` keep.
        seed: Of what DARE drops.

    Returns:
        The merged adapter's id and its folder.

    Raises:
        InputError: There are fewer than two, or PEFT cannot merge them this way.
        Unavailable: The train extra is missing.
    """
    if len(adapters) < 2:
        raise InputError(f"merging by {method} takes two adapters or more, not {len(adapters)}.")
    ids = [f"{name}={adapter_id(path)}" for name, path in sorted(adapters.items())]
    made = folder / f"{method}-{text_version(method, str(density), str(seed), *ids)}"
    if made.is_dir():
        return adapter_id(made), made
    require_extra("peft", "train", "merging adapters")
    import torch
    from peft import PeftModel

    from trace_assets.policies.lora import load_model

    (first, path), *others = sorted(adapters.items())
    model = PeftModel.from_pretrained(load_model(base_dir), str(path), adapter_name=first)
    for name, path in others:
        model.load_adapter(str(path), adapter_name=name)
    weight = 1.0 / len(adapters) if WEIGHTS[method] == "mean" else 1.0
    extra = {} if method == "linear" else {"density": density}
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        try:
            model.add_weighted_adapter(
                sorted(adapters), [weight] * len(adapters), "default", combination_type=method, **extra
            )
        except ValueError as error:
            raise InputError(
                f"PEFT cannot merge {', '.join(sorted(adapters))} by {method} ({error}); leave it out of "
                "evaluation.merges."
            ) from error
    for name in sorted(adapters):
        model.delete_adapter(name)
    model.set_adapter("default")
    folder.mkdir(parents=True, exist_ok=True)
    return write_adapter(model, made, _base_of(adapters[first])), made


def _base_of(folder: Path) -> str:
    config = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
    return str(config.get("base_model_name_or_path") or "base")


WEIGHT_FILES = (".safetensors", ".bin", ".index.json")
"""How files of weights end: those of the base model are not taken over."""
NOT_TAKEN = ("training.json",)
"""How the base model came about."""


def merge_agent(
    base_dir: Path,
    base_id: str,
    members: Mapping[str, Path],
    folder: Path,
    sums: Path,
    scale: float = 1.0,
) -> tuple[str, Path]:
    """Merge the sum of adapters into their base model; what was made before is only looked up.

    The sum is made in fp32 and rounded once, to the precision of the model.

    Args:
        base_dir: Hugging Face folder of the base model, or its name on the hub.
        base_id: The base model's content hash.
        members: Name -> PEFT folder, one or more.
        folder: Holds the merged models, one folder each, named by what they are made of.
        sums: Holds the sums of adapters, see `compose_adapters`.
        scale: What the weight changes of two or more are multiplied by.

    Returns:
        The content hash of the merged model, and its folder.

    Raises:
        InputError: The adapters cannot be added up.
        CheckFailed: PEFT's sum is not the sum.
        Unavailable: The train extra is missing.
    """
    ids = sorted(adapter_id(path) for path in members.values())
    scaled = [] if scale == 1.0 else [f"at {scale}"]
    made = folder / f"agent-{text_version('agent', base_id, *ids, *scaled)}"
    if made.is_dir():
        return folder_version(made), made
    require_extra("peft", "train", "merging adapters into their base model")
    from transformers import AutoConfig, AutoTokenizer

    from trace_assets.policies.lora import load_model, merge_folder

    single = next(iter(members.values()))
    source = single if len(members) == 1 else compose_adapters(base_dir, members, sums, scale=scale)[1]
    dtype = str(getattr(AutoConfig.from_pretrained(str(base_dir)), "dtype", None) or "float32")
    model = load_model(base_dir, dtype.removeprefix("torch."))
    model.load_state_dict(dict(merge_folder(model, source)))
    folder.mkdir(parents=True, exist_ok=True)
    with replacing_folder(made) as building:
        model.save_pretrained(str(building))
        if base_dir.is_dir():
            for file in sorted(base_dir.iterdir()):
                known = file.name in NOT_TAKEN or file.name.endswith(WEIGHT_FILES) or file.name[0] == "."
                if file.is_file() and not known and not (building / file.name).exists():
                    shutil.copyfile(file, building / file.name)
        else:
            AutoTokenizer.from_pretrained(str(base_dir)).save_pretrained(str(building))
    return folder_version(made), made
