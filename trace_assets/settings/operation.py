"""When work is done, on which files, within how much memory and on which machines."""

from __future__ import annotations

from typing import Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field, field_validator

from trace_assets.orchestration.cron import cron_error
from trace_assets.settings.section import Section


class Ingest(Section):
    """How files from outside are read. Changes no result, only what is too large to be read at all."""

    memory_gib: float = Field(0.0, ge=0)
    """Memory that reading may take beside the program itself; a row or file that needs more is left out, with
    the reason. 0: a quarter of the machine's, or of the container's."""


class Watch(Section):
    """Folders that are looked at for new files. Changes no result: it only says where they come from."""

    expert = frozenset({"settle_seconds"})

    tasks: str = ""
    """Folder of task files (JSON lines); empty: `watch/tasks` in the home. Relative to the home."""
    trajectories: str = ""
    """Folder of trajectory files in any known format; empty: `watch/trajectories` in the home."""
    interval_seconds: int = Field(30, ge=1)
    """Between two looks."""
    settle_seconds: float = Field(2.0, ge=0)
    """A file that was touched more recently may still be growing and is left for the next look."""


class Schedule(Section):
    """When diagnosis and evaluation are brought up to date by themselves. Changes no result."""

    cron: str = ""
    """Five fields, such as `0 2 * * *` for every night at two; empty: never."""
    timezone: str = "UTC"
    """In which `cron` is read, such as 'Europe/Berlin'."""

    @field_validator("cron")
    @classmethod
    def _cron_is_right(cls, value: str) -> str:
        if value.strip() and (problem := cron_error(value)) is not None:
            raise ValueError(f"this is not a cron expression: {problem}")
        return value.strip()

    @field_validator("timezone")
    @classmethod
    def _timezone_is_known(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise ValueError("no such time zone; give a name such as 'Europe/Berlin' or 'UTC'") from error
        return value


class Automation(Section):
    """What the Dagster daemon makes by itself. Changes no result, only when it is there."""

    gpu: bool = False
    """Also the layers that take a GPU or minutes of training; they wait for `trace sync` otherwise."""
    interval_seconds: int = Field(30, ge=1)
    """Between two looks at what changed."""


class Cluster(Section):
    """Where the items of a sync are made. Changes no result, only where and how fast."""

    engine: Literal["local", "ray"] = "local"
    """`local`: processes of this machine. `ray`: tasks on the nodes of a Ray cluster, on a home that all of
    them see under one path; needs the extra `cluster`."""
    address: str = ""
    """Of the cluster, such as `10.0.0.1:6379`; empty: `RAY_ADDRESS`, or that which this machine is in."""
    database: str = ""
    """Postgres that holds leases, due marks, the processes at work and the account of model calls, such as
    `postgresql://db:5432/trace` (user and password: PGUSER and PGPASSWORD, or `~/.pgpass`); empty: files of
    the home do. The home keeps the address: once given, it holds for every command. Needs the extra
    `cluster`."""
