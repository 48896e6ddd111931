"""One study: a home and its settings. Everything that works on stored tables is handed one."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from trace_assets.errors import InputError
from trace_assets.settings import Settings, load_settings
from trace_assets.store import Home, Store
from trace_assets.targets.protocol import Target

CONFIG_VARIABLE = "TRACE_CONFIG"
OVERRIDES_VARIABLE = "TRACE_SET"
SETTINGS_VARIABLE = "TRACE_SETTINGS"
"""Set in the workers of a sync: the settings that it began with, whatever became of the file since."""
ROUND_FILE = "round.json"
"""In the home of a later round: its number, and the folder of the agent that it begins with."""


@dataclass(frozen=True)
class Study:
    """Where the tables are and what the stages are told.

    Attributes:
        home: The folder that holds everything.
        settings: The whole of `trace.toml`, overrides applied.
        round: Which round it is; from 2 on the home lies in that of the study, and the agent of the round
            before is its base model.
    """

    home: Home
    settings: Settings = field(default_factory=Settings)
    round: int = 1

    @classmethod
    def open(
        cls,
        home: Path | str | None = None,
        config: Path | str | None = None,
        overrides: Sequence[str] | None = None,
        *,
        writable: bool = True,
    ) -> Study:
        """Open a study; what is not given comes from `TRACE_HOME`, `TRACE_CONFIG` and `TRACE_SET`.

        Settings come also from variables `TRACE__SECTION__KEY`, under the overrides. A worker of a sync has
        those that the sync began with.

        Args:
            home: Folder of the study.
            config: A `trace.toml`.
            overrides: Items `section.key=value`; `TRACE_SET` holds one a line, or a JSON array of them.
            writable: Whether the home will be written to; see `Home.open`.
        """
        file = config or os.environ.get(CONFIG_VARIABLE) or None
        lines = _handed_on(os.environ.get(OVERRIDES_VARIABLE, "")) if overrides is None else overrides
        begun = os.environ.get(SETTINGS_VARIABLE, "") if config is None and overrides is None else ""
        if begun:
            settings = Settings.model_validate(json.loads(begun))
        else:
            settings = load_settings(Path(file) if file else None, [line for line in lines if line.strip()])
        opened = Home.open(home, writable=writable)
        if writable and settings.cluster.database:
            _join(opened, settings.cluster.database)
        return cls.of(opened, settings)

    @classmethod
    def of(cls, home: Home, settings: Settings) -> Study:
        """Return the study in a home; in that of a later round with that round's settings.

        Raises:
            InputError: The file that says which round it is cannot be read.
        """
        file = home.path / ROUND_FILE
        if not file.is_file():
            return cls(home, settings)
        try:
            said = json.loads(file.read_text(encoding="utf-8"))
            number, agent = int(said["round"]), str(said["agent"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{file} does not say which round this is ({type(error).__name__}); `trace sync` on the home "
                "of the study writes it again."
            ) from error
        return cls(home, settings.for_round(number, agent), number)

    def environment(self, config: Path | str | None, overrides: Sequence[str]) -> dict[str, str]:
        """Return the variables that, beside those it inherits, make another process open the same study."""
        return {
            "TRACE_HOME": str(self.home.path),
            "DAGSTER_HOME": str(self.home.dagster),
            **({CONFIG_VARIABLE: str(Path(config).absolute())} if config else {}),
            **({OVERRIDES_VARIABLE: _to_hand_on(overrides)} if overrides else {}),
        }

    def settings_as_they_are(self) -> dict[str, str]:
        """Return the variable that makes another process work with these settings.

        A file that is edited meanwhile would have part of a sync made with other settings than it is noted
        down to be made with.

        >>> sorted(Study(Home(Path("h")), Settings()).settings_as_they_are())
        ['TRACE_SETTINGS']
        """
        return {SETTINGS_VARIABLE: json.dumps(self.settings.model_dump(exclude_unset=True), default=str)}

    @cached_property
    def store(self) -> Store:
        """The study's tables."""
        return Store.of(self.home)

    @cached_property
    def target(self) -> Target:
        """The live target that the settings name."""
        from trace_assets.targets.registry import open_target

        return open_target(self.settings.targets, self.home.targets)

    @property
    def live_batch(self) -> str:
        """The task batch in which the live target's own tasks arrive."""
        return re.sub(r"[^A-Za-z0-9._-]", "-", self.settings.targets.name)  # tau2:airline names a target


def _join(home: Home, url: str) -> None:
    """Have the database that the settings name hold the leases of a home, if it does not yet."""
    from trace_assets.diagnosis.llm.budget import spent_by_files
    from trace_assets.store.moving import to_database

    to_database(home, url, lambda: spent_by_files(home.answers))


def _to_hand_on(overrides: Sequence[str]) -> str:
    """Return what `TRACE_SET` holds: one override a line, as JSON where one of them has several lines."""
    if any(mark in item for item in overrides for mark in "\r\n"):
        return json.dumps(list(overrides))
    return "\n".join(overrides)


def _handed_on(text: str) -> list[str]:
    """Return the overrides that `TRACE_SET` holds.

    Raises:
        InputError: It begins as JSON and is none.
    """
    if not text.startswith("["):
        return text.split("\n")
    try:
        return [str(item) for item in json.loads(text)]
    except (ValueError, RecursionError) as error:
        raise InputError(f"{OVERRIDES_VARIABLE} begins as a JSON array and is none ({error}).") from error
