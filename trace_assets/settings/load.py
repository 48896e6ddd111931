"""Reads `trace.toml` and the overrides of the command line."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from trace_assets.errors import InputError
from trace_assets.settings.addresses import NOT_SHOWN
from trace_assets.settings.whole import Settings


def load_settings(path: Path | None = None, overrides: Sequence[str] = ()) -> Settings:
    """Read `trace.toml` and apply dotted overrides.

    Args:
        path: The file; None reads `trace.toml` in the working directory when there is one.
        overrides: Items such as `selection.min_gap=0.3`; values are TOML, bare words are strings.

    Raises:
        InputError: The file is not there or not TOML, or a key or value is not known.
    """
    file = path or Path("trace.toml")
    data: dict[str, Any] = {}
    if file.is_file():
        try:
            data = tomllib.loads(file.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InputError(f"{file} is not valid TOML: {error}; mend the line it names.") from error
    elif path is not None:
        raise InputError(f"there is no configuration file {path}; leave --config away to use the defaults.")
    for item in overrides:
        _override(data, item)
    try:
        return Settings.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        said = first["msg"].removeprefix("Value error, ")
        hidden = where.endswith("key_variable") or first["type"] == NOT_SHOWN
        got = "what was given is not shown" if hidden else f"got {first['input']!r}"
        raise InputError(f"setting '{where}' in {file} or --set is not usable: {said} ({got}).") from error


def _override(data: dict[str, Any], item: str) -> None:
    name, equals, text = item.partition("=")
    section, dot, key = name.strip().partition(".")
    if not equals or not dot or not key:
        raise InputError(
            f"--set {item!r} is not of the form section.key=value, such as selection.min_gap=0.3."
        )
    try:
        value = tomllib.loads(f"value = {text.strip()}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    *groups, last = key.split(".")  # targets.options.user: a table inside a section
    table: Any = data
    for group in (section, *groups):
        table = table.setdefault(group, {})
        if not isinstance(table, dict):
            raise InputError(
                f"'{group}' in the configuration is a value, not a section: --set {item!r} has no place."
            )
    table[last] = value
