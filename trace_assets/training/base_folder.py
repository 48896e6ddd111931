"""Whether what `base_model.path` names is a folder that is gone, or a model of the hub's."""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path

from trace_assets.errors import InputError

_HUB_NAME = re.compile(r"[A-Za-z0-9_][\w.-]*(/[A-Za-z0-9_][\w.-]*)?")


def check_folder(path: str, home: Path | None = None) -> None:
    """Look whether a base model lies where it is said to; a hub's is not asked for.

    Raises:
        InputError: Its folder is gone.
    """
    if path and (gone := gone_folder(path, home)):
        raise InputError(gone)


def gone_folder(path: str, home: Path | None = None) -> str:
    """Return the sentence about a base model's folder that is not there; empty for what need not be one.

    A relative path may be either. It is taken for a folder where the one above it is there; the hub's model
    of such a name is taken once it was downloaded.

    Args:
        path: As the settings have it.
        home: Of the study; a later round's agents lie there.
    """
    places = [Path(path), *([home / path] if home is not None else [])]
    if any(os.path.isdir(place) for place in places):
        return ""
    where = Path(path).absolute()
    if os.path.lexists(where):
        return f"base_model.path is '{path}', and {where} is no folder that can be read; {_BACK}."
    named = _HUB_NAME.fullmatch(path) is not None
    inside = "/" in path and any(os.path.isdir(place.parent) for place in places)
    if named and (not inside or _downloaded(path)):
        return ""
    hub = f"; a hub's model of that name is taken once it is here: `hf download {path}`" if named else ""
    return f"base_model.path is '{path}', and the folder {where} is not there: {_BACK}{hub}."


_BACK = "put it back, or name the folder of a Hugging Face model"


def _downloaded(name: str) -> bool:
    """Tell whether the hub's client has a model of this name, and with it who named it meant the hub."""
    if find_spec("huggingface_hub") is None:
        return False
    from huggingface_hub import try_to_load_from_cache

    return isinstance(try_to_load_from_cache(name, "config.json"), str)
