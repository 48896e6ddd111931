"""Settings of the training stage that suit a size of model, to start from.

A preset is a TOML file of this package with a `[training]` section and the reasoning in comments.
"""

from __future__ import annotations

import tomllib
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from pydantic import ValidationError

from trace_assets.errors import InputError
from trace_assets.settings import Training


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
