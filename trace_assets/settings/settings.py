"""All sections together, and which of them feed a stage."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from trace_assets.errors import InputError
from trace_assets.settings.agent import BaseModelSection, Rollouts, Targets
from trace_assets.settings.diagnosis import (
    Analyst,
    ContrastSection,
    Discovery,
    Labels,
    Selection,
    StabilitySection,
    TriageSection,
    WriterServer,
)
from trace_assets.settings.loop import (
    Automation,
    EvaluationSection,
    Ingest,
    Routing,
    SandboxSection,
    Schedule,
    Serving,
    Synthesis,
    Training,
    Watch,
)
from trace_assets.settings.section import NOT_SHOWN, Section


class Settings(Section):
    """The whole of `trace.toml`."""

    targets: Targets = Targets()
    base_model: BaseModelSection = BaseModelSection()
    rollouts: Rollouts = Rollouts()
    triage: TriageSection = TriageSection()
    discovery: Discovery = Discovery()
    labels: Labels = Labels()
    contrast: ContrastSection = ContrastSection()
    selection: Selection = Selection()
    stability: StabilitySection = StabilitySection()
    sandbox: SandboxSection = SandboxSection()
    synthesis: Synthesis = Synthesis()
    training: Training = Training()
    routing: Routing = Routing()
    evaluation: EvaluationSection = EvaluationSection()
    analyst: Analyst = Analyst()
    writer: WriterServer = WriterServer()
    serving: Serving = Serving()
    ingest: Ingest = Ingest()
    watch: Watch = Watch()
    schedule: Schedule = Schedule()
    automation: Automation = Automation()

    def section(self, name: str) -> Section:
        """Return one section by name."""
        value = getattr(self, name)
        assert isinstance(value, Section)
        return value

    @property
    def writer_server(self) -> WriterServer:
        """The section `writer`, completed from `analyst`."""
        said = {**self.analyst.model_dump(exclude_unset=True), **self.writer.model_dump(exclude_unset=True)}
        return WriterServer.model_validate(said)


SERVICES = ("analyst", "writer", "serving", "ingest", "watch", "schedule", "automation")
"""Sections that say when or by whom something is done and change no result: no asset hangs on them."""


SECTIONS: tuple[str, ...] = tuple(name for name in Settings.model_fields if name not in SERVICES)
"""Sections that feed a stage: one asset `config/<section>` each."""


# Reads `trace.toml` and the overrides of the command line.


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
