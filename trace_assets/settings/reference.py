"""What there is to set: every key, its default, the value in force, its meaning and what it recomputes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel

from trace_assets.errors import InputError
from trace_assets.settings.settings import Settings, keys_of


class SettingRow(BaseModel):
    """One key of one section."""

    section: str
    key: str
    default: Any
    value: Any
    """The one in force."""
    meaning: str
    expert: bool
    """Whether hardly anybody has a reason to touch it."""
    recomputes: tuple[str, ...]
    """Assets that read it; what stands on these follows where their results change."""


def setting_rows(
    settings: Settings, readers: Mapping[str, Sequence[str]], section: str | None = None
) -> list[SettingRow]:
    """Return every key, or those of one section; in each section what is for experts comes last.

    Args:
        settings: Those in force.
        readers: Section to the assets that read it.
        section: One section; None takes all.

    Raises:
        InputError: There is no such section.
    """
    names = list(Settings.model_fields)
    if section is not None and section not in names:
        near = get_close_matches(section, names, 1)
        raise InputError(
            f"there is no section '{section}'"
            + (f"; did you mean '{near[0]}'?" if near else f"; there are {', '.join(names)}.")
        )
    rows = []
    for name in [section] if section else names:
        # What is not said about the writer's server is as in [analyst].
        values = settings.writer_server if name == "writer" else settings.section(name)
        deciding = values.deciding()
        in_force, default = values.model_dump(mode="json"), type(values)().model_dump(mode="json")
        rows += [
            SettingRow(
                section=name,
                key=key,
                default=default[key],
                value=in_force[key],
                expert=key in values.expert,
                meaning=" ".join((field.description or "").split()),
                recomputes=tuple(readers.get(name, ())) if key in deciding else (),
            )
            for key, field in sorted(keys_of(name).items(), key=lambda one: one[0] in values.expert)
        ]
    return rows


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of `trace.toml`, by which editors complete and check it."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Settings.model_json_schema(),
        "title": "trace.toml",
    }
