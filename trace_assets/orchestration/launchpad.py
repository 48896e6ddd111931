"""The settings as the launchpad offers them: every key with its meaning and its default."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import dagster as dg
from pydantic import Field, create_model

from trace_assets.settings import Settings
from trace_assets.settings.settings import keys_of

PLAIN = (str, int, float, bool)
"""Types that a launchpad offers as they are; all others (choices, lists, tables) are written as in TOML."""


def settings_config() -> type[dg.Config]:
    """Return the config class of all settings: a section a field, and a key a field of it, each left out."""
    sections: dict[str, Any] = {}
    for name in Settings.model_fields:
        said = (type(getattr(Settings(), name)).__doc__ or "").splitlines()[0]
        kind = _section(name)
        sections[name] = (kind, Field(default_factory=kind, description=said))
    made: type[dg.Config] = create_model("SettingsOfTheRun", __base__=dg.Config, **sections)
    made.__doc__ = "Settings for this run alone, over those of trace.toml."
    return made


def _section(section: str) -> type[dg.Config]:
    defaults = getattr(Settings(), section).model_dump(mode="json")
    keys: dict[str, Any] = {}
    for key, field in keys_of(section).items():
        kind = field.annotation if field.annotation in PLAIN else str
        meaning = " ".join((field.description or "").split())
        toml = "" if kind is field.annotation else " Written as in TOML."
        words = f"{meaning} Default: {json.dumps(defaults[key])}; left out: as trace.toml has it.{toml}"
        keys[key] = (kind | None, Field(default=None, description=words.strip()))
    made: type[dg.Config] = create_model(
        f"{section.title().replace('_', '')}OfTheRun", __base__=dg.Config, **keys
    )
    return made


def overrides(chosen: dg.Config) -> list[str]:
    """Return what was chosen as `--set` takes it.

    >>> Chosen = settings_config()
    >>> overrides(Chosen(selection={"min_gap": 0.3}, discovery={"analyst": "both"}))
    ['discovery.analyst=both', 'selection.min_gap=0.3']
    """
    values: Mapping[str, Mapping[str, Any]] = chosen.model_dump()
    return sorted(
        f"{section}.{key}={value if isinstance(value, str) else json.dumps(value)}"
        for section, keys in values.items()
        for key, value in keys.items()
        if value is not None
    )
