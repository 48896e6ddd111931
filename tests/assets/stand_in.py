"""Puts a quick function in the place of an asset's work, or of any other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module

import pytest

from trace_assets.assets.asset import asset_of


def stand_in(patch: pytest.MonkeyPatch, place: str, quick: Callable[..., object]) -> None:
    """Let `quick` do what the function at `place`, such as `assets.policy_contrast.write_drift`, does."""
    module, _, name = place.rpartition(".")
    work = getattr(import_module(module), name)
    declared = asset_of(work)
    if declared is None:
        patch.setattr(place, quick)
    else:
        patch.setattr(work, "__asset__", replace(declared, work=quick))  # type: ignore[arg-type]
