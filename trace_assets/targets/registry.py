"""Which target a configuration names."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from trace_assets.errors import InputError
from trace_assets.records import Split
from trace_assets.settings import Targets
from trace_assets.targets import installed
from trace_assets.targets.embedded.target import EmbeddedTarget
from trace_assets.targets.installed import BENCHMARKS, benchmark_of, read_installed
from trace_assets.targets.process.target import ProcessConfig, ProcessTarget
from trace_assets.targets.protocol import Target

OPENENV = "openenv"
"""Targets of this name, or of this name and another after a colon, are OpenEnv servers."""


def open_target(section: Targets, folder: Path | None = None) -> Target:
    """Return the live target that the section `targets` names.

    Args:
        section: The settings.
        folder: The home's `targets`, where benchmarks are installed; None knows none.

    Raises:
        InputError: There is no live target of that name.
        Unavailable: It is a benchmark that is not installed.
    """
    if section.path:
        return _own(section)
    if section.name == "embedded":
        return EmbeddedTarget(section)
    if section.name.partition(":")[0] == OPENENV:
        module = Path(installed.__file__).parent / OPENENV / "module.py"
        options = {"name": section.name, **section.options}
        return _process(section, module, Path(section.python or sys.executable), options, {})
    benchmark = benchmark_of(section.name)
    if benchmark is None:
        known = ", ".join(
            ["embedded", OPENENV, *(name for one in BENCHMARKS.values() for name in one.domains)]
        )
        raise InputError(
            f"targets.name is '{section.name}', but the live targets are {known}; name your own module in "
            "targets.path, and bring trajectories of other environments in with `trace ingest`."
        )
    if folder is None:
        raise InputError(f"target '{section.name}' is opened from a home, in which it is installed.")
    found = read_installed(folder, benchmark.name)
    domain = section.name.partition(":")[2]
    options = {"domain": domain, "commit": found.commit, **section.options}
    return _process(
        section,
        Path(installed.__file__).parent / benchmark.module,
        Path(section.python or found.python),
        options,
        found.variables,
    )


def open_named(section: Targets, name: str, folder: Path, *, serverless: bool = False) -> Target:
    """Open another target than the one that the settings name, otherwise as they say.

    Args:
        section: The settings.
        name: The target.
        folder: The home's `targets`.
        serverless: With a user that needs no model server, unless the settings name one.

    Raises:
        InputError: As `open_target`.
        Unavailable: As `open_target`.
    """
    user = {"user": "none" if name.endswith("_solo") else "scripted"} if serverless else {}
    changes = {"name": name, "path": "", "options": {**user, **section.options}}
    return open_target(Targets.model_validate({**section.model_dump(), **changes}), folder)


def _own(section: Targets) -> ProcessTarget:
    target = _process(
        section, Path(section.path).absolute(), Path(section.python or sys.executable), section.options, {}
    )
    if target.name != section.name:
        said = target.name
        target.close()
        raise InputError(
            f"the module {section.path} calls itself '{said}', but targets.name is '{section.name}'; set "
            f'targets.name = "{said}".'
        )
    return target


def _process(
    section: Targets, module: Path, python: Path, options: dict[str, Any], variables: dict[str, str]
) -> ProcessTarget:
    limits: dict[Split, int] = {
        "discovery": section.discovery_tasks,
        "validation": section.validation_tasks,
        "test": section.test_tasks,
    }
    return ProcessTarget(
        ProcessConfig(
            module=module,
            python=python,
            options=options,
            variables=variables,
            call_seconds=section.call_seconds,
            processes=section.processes,
            limits=limits,
        )
    )
