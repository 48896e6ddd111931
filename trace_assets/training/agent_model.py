"""A base model with adapters merged into its weights: what another round begins with."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from trace_assets.errors import require_extra
from trace_assets.store.content import folder_version, text_version
from trace_assets.store.files import replacing_folder
from trace_assets.training.checkpoints import adapter_id
from trace_assets.training.composition import compose_adapters

WEIGHTS = (".safetensors", ".bin", ".index.json")
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
                known = file.name in NOT_TAKEN or file.name.endswith(WEIGHTS) or file.name[0] == "."
                if file.is_file() and not known and not (building / file.name).exists():
                    shutil.copyfile(file, building / file.name)
        else:
            AutoTokenizer.from_pretrained(str(base_dir)).save_pretrained(str(building))
    return folder_version(made), made
