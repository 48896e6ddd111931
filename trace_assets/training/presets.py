"""Settings of the training stage to start from, and which of them suit a model and a machine.

A preset is a TOML file of this package with a `[training]` section and the reasoning in comments. Which one
suits the accelerators that are there is a matter of memory, by arithmetic.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from trace_assets.errors import InputError
from trace_assets.settings import Training
from trace_assets.system.machine import Accelerator
from trace_assets.training.memory import EPISODE_TOKENS, GIB, Shape, server_memory, step_memory


def preset_names() -> list[str]:
    """Return the names of the presets that come with the package.

    >>> preset_names()
    ['qwen3-30b-a3b-8gpu', 'qwen3-4b-1gpu', 'tiny-cpu']
    """
    names = (entry.name for entry in _folder().iterdir())
    return sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml"))


def load_preset(name: str, **overrides: Any) -> Training:
    """Return the training section of a preset.

    Args:
        name: One of `preset_names()`.
        overrides: Fields that replace the preset's.

    Raises:
        InputError: There is no such preset, or an override is not a usable value.

    >>> load_preset("qwen3-4b-1gpu", seed=7).group_size
    16
    """
    if name not in preset_names():
        raise InputError(f"there is no training preset {name!r}: choose one of {', '.join(preset_names())}.")
    text = _folder().joinpath(f"{name}.toml").read_text(encoding="utf-8")
    try:
        return Training.model_validate({**tomllib.loads(text)["training"], **overrides})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InputError(f"training setting '{where}' is not usable: {first['msg']}.") from error


def _folder() -> Traversable:
    return files("trace_assets").joinpath("training").joinpath("presets")


CPU, ONE, EIGHT = "tiny-cpu", "qwen3-4b-1gpu", "qwen3-30b-a3b-8gpu"
USABLE = 0.9
"""Share of a device's memory: the arithmetic counts neither fragments nor the work space of kernels."""
FEWEST = 4
"""Episodes in flight below which sampling is not worth a GPU's time."""


@dataclass(frozen=True)
class Choice:
    """A preset, and what it takes on this machine.

    Attributes:
        name: Of the preset.
        section: Its settings; episodes in flight are fewer than the preset's where memory asks for it.
        gib: What a device that trains needs; None where the model's shape is not known, or on a CPU.
        fits: Whether that is there; None where it is not known.
        words: Why this one, in a sentence.
    """

    name: str
    section: Training
    gib: float | None
    fits: bool | None
    words: str


def choose_preset(
    shape: Shape | None, devices: Sequence[Accelerator], wanted: str = "", tokens: int = EPISODE_TOKENS
) -> Choice:
    """Return the preset that suits a model on these devices.

    Args:
        shape: The model; None where it is not known.
        devices: What is there; none stands for a CPU.
        wanted: A preset to take whatever is there; empty chooses one.
        tokens: Longest episode, prompt included.

    Raises:
        InputError: There is no preset of the wanted name.

    >>> from trace_assets.training.memory import SHAPES
    >>> choose_preset(SHAPES["qwen3-4b"], [Accelerator("NVIDIA H100", 80.0)]).name
    'qwen3-4b-1gpu'
    >>> choose_preset(SHAPES["qwen3-4b"], []).name
    'tiny-cpu'
    >>> choose_preset(SHAPES["qwen3-30b-a3b"], [Accelerator("NVIDIA H100", 80.0)] * 8).name
    'qwen3-30b-a3b-8gpu'
    """
    if wanted and wanted not in preset_names():
        raise InputError(f"there is no preset '{wanted}': choose one of {', '.join(preset_names())}.")
    if not devices and wanted in ("", CPU):
        return Choice(CPU, load_preset(CPU), None, None, "there is no GPU here: figures for a CPU")
    if wanted == CPU:
        return Choice(CPU, load_preset(CPU), None, None, "as you asked")
    least = min((one.gib for one in devices), default=0.0)
    whole = _on_one(shape, least, tokens)
    if wanted == ONE or (not wanted and (whole.fits is not False or len(devices) < 8)):
        return whole
    return _on_eight(shape, devices, tokens)


def _on_one(shape: Shape | None, gib: float, tokens: int) -> Choice:
    section = load_preset(ONE)
    if shape is None:
        return Choice(ONE, section, None, None, "the model's shape is not known here")
    need = step_memory(shape, section, tokens).total / GIB
    while need > USABLE * gib and section.concurrency > FEWEST:
        section = section.model_copy(update={"concurrency": section.concurrency // 2})
        need = step_memory(shape, section, tokens).total / GIB
    fits = need <= USABLE * gib
    words = f"{need:.0f} GiB by arithmetic with {section.concurrency} episodes in flight, of {gib:.0f} GiB"
    return Choice(ONE, section, need, fits, words if fits else f"{words}: too little")


def _on_eight(shape: Shape | None, devices: Sequence[Accelerator], tokens: int) -> Choice:
    section = load_preset(EIGHT)
    if shape is None:
        return Choice(EIGHT, section, None, None, "the model's shape is not known here")
    least = min((one.gib for one in devices), default=0.0)
    serving = len(section.sampler_gpus.split(","))
    training = step_memory(shape, section, tokens).total
    need = max(training, server_memory(shape, section, tokens, serving).total) / GIB
    fits = need <= USABLE * least and len(devices) >= section.processes + serving
    words = f"{need:.0f} GiB a device by arithmetic, of {least:.0f} GiB on each of {len(devices)}"
    return Choice(EIGHT, section, need, fits, words if fits else f"{words}: too little")


def read_shape(folder: Path) -> Shape | None:
    """Return the shape of a decoder in a Hugging Face folder; None where its configuration does not say.

    Args:
        folder: With a `config.json`.
    """
    try:
        said = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        said = {**said, **said.get("text_config", {})}
        heads, experts = int(said["num_attention_heads"]), int(said.get("num_experts") or 0)
        return Shape(
            layers=int(said["num_hidden_layers"]),
            hidden=int(said["hidden_size"]),
            heads=heads,
            kv_heads=int(said.get("num_key_value_heads") or heads),
            head_dim=int(said.get("head_dim") or said["hidden_size"] // heads),
            inner=int(said["moe_intermediate_size"] if experts else said["intermediate_size"]),
            vocabulary=int(said["vocab_size"]),
            experts=experts,
            active=int(said.get("num_experts_per_tok") or 0) if experts else 0,
            tied=bool(said.get("tie_word_embeddings", False)),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
