"""All sections together, which of them feed a stage, and what there is to set in each."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ValidationError, model_validator
from pydantic.fields import FieldInfo

from trace_assets.errors import InputError, did_you_mean, said_as_meant
from trace_assets.settings.diagnosis import (
    Analyst,
    ContrastSection,
    Discovery,
    Labels,
    RepairsSection,
    Selection,
    StabilitySection,
    TriageSection,
    WriterServer,
)
from trace_assets.settings.evaluation import (
    BaseModelSection,
    EvaluationSection,
    Rollouts,
    Rounds,
    Routing,
    Serving,
    Targets,
)
from trace_assets.settings.operation import Automation, Cluster, Ingest, Schedule, Watch
from trace_assets.settings.section import NOT_SHOWN, Section
from trace_assets.settings.training import SandboxSection, Synthesis, Training


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
    repairs: RepairsSection = RepairsSection()
    sandbox: SandboxSection = SandboxSection()
    synthesis: Synthesis = Synthesis()
    training: Training = Training()
    routing: Routing = Routing()
    evaluation: EvaluationSection = EvaluationSection()
    rounds: Rounds = Rounds()
    analyst: Analyst = Analyst()
    writer: WriterServer = WriterServer()
    serving: Serving = Serving()
    ingest: Ingest = Ingest()
    watch: Watch = Watch()
    schedule: Schedule = Schedule()
    automation: Automation = Automation()
    cluster: Cluster = Cluster()

    def section(self, name: str) -> Section:
        """Return one section by name."""
        value = getattr(self, name)
        assert isinstance(value, Section)
        return value

    @model_validator(mode="after")
    def _stages_ask_the_analyst(self) -> Self:
        """Have every stage ask the model of its server, unless its own section says whom it asks.

        What is filled in counts as not set, so that it follows another model in a later round.
        """
        reader, writer = self.analyst.model, self.writer_server.model
        for name, said in (
            ("triage", {"model": reader}),
            ("discovery", {"model": reader, "analyst": reader and "both"}),
            ("labels", {"model": reader}),
            ("synthesis", {"model": writer, "judge": writer, "writer": writer and "auto"}),
        ):
            own = self.section(name)
            missing = {key: value for key, value in said.items() if value and key not in own.model_fields_set}
            if missing:
                filled = own.model_copy(update=missing)
                filled.model_fields_set.difference_update(missing)
                self.__dict__[name] = filled  # the section is frozen, and whole only from here on
        return self

    @model_validator(mode="after")
    def _rounds_are_whole(self) -> Self:
        for number in self.rounds.settings:
            self.for_round(int(number), "models/agents/any")
        return self

    def for_round(self, number: int, agent: str) -> Settings:
        """Return what a later round works with: these settings, and what it has otherwise.

        Args:
            number: The round, from 2 on.
            agent: Folder of the agent of the round before, in the round's own home.
        """
        data = self.model_dump(exclude_unset=True, exclude={"rounds", "base_model"})
        for section, own in self.rounds.settings.get(str(number), {}).items():
            data[section] = {**data.get(section, {}), **own}
        data["base_model"] = {"path": agent}
        data["training"] = {**data.get("training", {}), "mixed_arm": False}
        return Settings.model_validate(data)

    @property
    def writer_server(self) -> WriterServer:
        """The section `writer`, completed from `analyst`."""
        said = {**self.analyst.model_dump(exclude_unset=True), **self.writer.model_dump(exclude_unset=True)}
        return WriterServer.model_validate(said)


SERVICES = ("analyst", "writer", "serving", "ingest", "watch", "schedule", "automation", "cluster")
"""Sections that say when or by whom something is done and change no result: no asset hangs on them."""


SECTIONS: tuple[str, ...] = tuple(name for name in Settings.model_fields if name not in SERVICES)
"""Sections that feed a stage: one asset `config/<section>` each."""


# Reads `trace.toml`, the environment and the overrides of the command line.


PREFIX = "TRACE__"
"""Of variables that hold a setting: `TRACE__SELECTION__MIN_GAP=0.3`."""


def load_settings(
    path: Path | None = None,
    overrides: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    source: str = "--set",
) -> Settings:
    """Read `trace.toml`; over it go the variables `TRACE__SECTION__KEY`, and over these the overrides.

    Args:
        path: The file; None reads `trace.toml` in the working directory when there is one.
        overrides: Items such as `selection.min_gap=0.3`; values are TOML, bare words are strings.
        environment: The variables; None takes those of this process.
        source: Where the overrides were given, for messages.

    Raises:
        InputError: The file is not there or not TOML, or a key or value is not known.
    """
    file = path or Path("trace.toml")
    data: dict[str, Any] = {}
    if file.is_file():
        try:
            data = tomllib.loads(file.read_text(encoding="utf-8-sig"))
        except UnicodeDecodeError as error:
            raise InputError(f"{file} is not UTF-8 text ({error.reason}); save it as UTF-8.") from error
        except (ValueError, RecursionError) as error:  # also of a number too long, or brackets too deep
            raise InputError(
                f"{file} is not valid TOML: {shortened(str(error))}; mend the line it names."
            ) from error
        except OSError as error:
            raise InputError(f"{file} cannot be read ({error.strerror}).") from error
    elif path is not None:
        raise InputError(f"there is no configuration file {path}; leave --config away to use the defaults.")
    elif os.path.lexists(file):  # a folder that Docker made for want of the file, or a link to nothing
        raise InputError(f"{file} is there and is no file; put the settings in its place, or remove it.")
    said: dict[tuple[str, ...], str] = {}  # by whom, where it was not the file
    for variable, text in sorted((os.environ if environment is None else environment).items()):
        if variable.startswith(PREFIX):
            keys = tuple(variable.removeprefix(PREFIX).lower().split("__"))
            if len(keys) < 2 or not all(keys):
                raise InputError(
                    f"the variable {shortened(variable)} names no setting: write {PREFIX}SECTION__KEY, "
                    f"such as {PREFIX}SELECTION__MIN_GAP=0.3."
                )
            said[keys] = f"the variable {shortened(variable)}"
            _put(data, keys, _read(text), said[keys])
    for item in overrides:
        keys, value = override_of(item)
        _put(data, keys, value, f"--set {shortened(repr(item))}")
        said[keys] = source
    try:
        return Settings.model_validate(data)
    except ValidationError as error:
        raise _explained(error, said, str(file)) from error


def override_of(item: str) -> tuple[tuple[str, ...], Any]:
    """Return the keys and the value that an item of `--set` names.

    Args:
        item: Such as `selection.min_gap=0.3`; the value is TOML, a table also JSON, a bare word a string.

    Raises:
        InputError: It is not of that form.

    >>> override_of("targets.options.desk = b")
    (('targets', 'options', 'desk'), 'b')
    >>> override_of('targets.options={"desk": "b"}')
    (('targets', 'options'), {'desk': 'b'})
    """
    name, equals, text = item.partition("=")
    keys = tuple(name.strip().split("."))
    if not equals or len(keys) < 2 or not all(keys):
        raise InputError(
            f"--set {shortened(repr(item))} is not of the form section.key=value, such as "
            "selection.min_gap=0.3."
        )
    return keys, _read(text)


def _read(text: str) -> Any:
    try:
        read = tomllib.loads(f"value = {text.strip()}")
    except (ValueError, RecursionError):
        return _json_or_word(text.strip())
    # A second line would be another key: of two values none is the one that was meant.
    return read["value"] if len(read) == 1 else text.strip()


def _json_or_word(text: str) -> Any:
    """Read what is no TOML: a table as JSON writes it, which is what many type; all else is a bare word."""
    if text.startswith("{"):
        with suppress(ValueError, RecursionError):
            return json.loads(text)
    return text


def _put(data: dict[str, Any], keys: tuple[str, ...], value: Any, source: str) -> None:
    """Lay a value in its section, or in a table inside it: `targets.options.user`."""
    *groups, last = keys
    table: Any = data
    for group in groups:
        table = table.setdefault(group, {})
        if not isinstance(table, dict):
            raise InputError(
                f"'{shortened(group)}' in the configuration is a value, not a section: {source} has no place."
            )
    table[last] = value


def _explained(error: ValidationError, said: Mapping[tuple[str, ...], str], file: str) -> InputError:
    """Return the sentence about the first thing that is wrong."""
    first = error.errors()[0]
    path = tuple(str(part) for part in first["loc"])
    where = shortened(".".join(path))
    wrong = [
        source for keys, source in said.items() if keys[: len(path)] == path or keys == path[: len(keys)]
    ]
    source = wrong[-1] if wrong else file
    if first["type"] == "extra_forbidden" and len(path) <= 2:
        kind = "setting" if len(path) > 1 else "section"
        return InputError(
            f"there is no {kind} '{where}', which {source} sets"
            + said_as_meant(_nearest(path))
            + " `trace settings` lists what there is."
        )
    reason = first["msg"].removeprefix("Value error, ")
    hidden = where.endswith("key_variable") or first["type"] == NOT_SHOWN
    got = "what was given is not shown" if hidden else f"got {shortened(repr(first['input']))}"
    if first["type"] == "dict_type":
        reason += ', such as {key = "value"}'
    return InputError(f"setting '{where}' in {source} is not usable: {reason} ({got}).")


MOST_WORDS = 200
"""Characters of a name or value that are repeated in a sentence."""


def shortened(text: str) -> str:
    """Return a text as a sentence repeats it."""
    return text if len(text) <= MOST_WORDS else f"{text[: MOST_WORDS - 40]} … {text[-40:]}"


def _nearest(path: Sequence[str]) -> list[str]:
    """Return the names that may have been meant: in the same section, or the same key in another one."""
    if len(path) == 1:
        return get_close_matches(path[0], Settings.model_fields, 1)
    section, key = path
    near = get_close_matches(key, keys_of(section), 1)
    if near:
        return [f"{section}.{near[0]}"]
    return [f"{other}.{key}" for other in Settings.model_fields if key in keys_of(other)][:3]


def keys_of(section: str) -> dict[str, FieldInfo]:
    """Return the keys of a section."""
    kind = Settings.model_fields[section].annotation
    assert isinstance(kind, type) and issubclass(kind, Section)
    return kind.model_fields


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
        every = f"; there are {', '.join(names)}."
        raise InputError(f"there is no section '{section}'{did_you_mean(section, names, every)}")
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
