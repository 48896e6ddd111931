"""Which target a configuration names."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from pydantic import BaseModel, ConfigDict, ValidationError

from trace_assets.errors import InputError, Unavailable
from trace_assets.records import Split
from trace_assets.settings import Targets
from trace_assets.store.files import write_text
from trace_assets.system.progress import progress
from trace_assets.targets.embedded.target import EmbeddedTarget, desk_options
from trace_assets.targets.process.target import ProcessConfig, ProcessTarget, check_module
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
        module = Path(__file__).parent / OPENENV / "module.py"
        options = {"name": section.name, **section.options}
        return _process(section, module, Path(section.python or sys.executable), options, {})
    benchmark = _known_benchmark(section.name)
    if folder is None:
        raise InputError(f"target '{section.name}' is opened from a home, in which it is installed.")
    found = read_installed(folder, benchmark.name)
    domain = section.name.partition(":")[2]
    options = {"domain": domain, "commit": found.commit, **section.options}
    return _process(
        section,
        Path(__file__).parent / benchmark.module,
        Path(section.python or found.python),
        options,
        found.variables,
    )


def check_named(section: Targets) -> None:
    """Look whether there is a target of that name; none is opened, and a benchmark need not be installed.

    Raises:
        InputError: There is none, its module's file is not there, or the embedded one's options are wrong.
    """
    if section.path:
        check_module(Path(section.path).absolute())
    elif section.name == "embedded":
        desk_options(section)
    elif section.name.partition(":")[0] != OPENENV:
        _known_benchmark(section.name)


def check_installed(section: Targets, folder: Path) -> None:
    """Look whether what the target needs is installed; it is not opened.

    Args:
        section: The settings.
        folder: The home's `targets`, where benchmarks are installed.

    Raises:
        Unavailable: It is not.
        InputError: There is no such target, or its record cannot be read.
    """
    if section.path or section.name == "embedded":
        return
    if section.name.partition(":")[0] == OPENENV:
        if not section.python and find_spec("openenv") is None:
            raise Unavailable(
                "the package openenv is not installed here: install it, or name an interpreter that has it "
                "in targets.python."
            )
        return
    benchmark = _known_benchmark(section.name)
    python = section.python or read_installed(folder, benchmark.name).python
    if shutil.which(python) is None:
        raise Unavailable(
            f"the interpreter {python} of {benchmark.name} is not there any more: run `trace targets install "
            f"{benchmark.name} --from DIR` again."
        )


def _known_benchmark(name: str) -> Benchmark:
    benchmark = benchmark_of(name)
    if benchmark is None:
        known = ", ".join(
            ["embedded", OPENENV, *(one for each in BENCHMARKS.values() for one in each.domains)]
        )
        raise InputError(
            f"targets.name is '{name}', but the live targets are {known}; name your own module in "
            "targets.path, and bring trajectories of other environments in with `trace ingest`."
        )
    return benchmark


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
    if "embedded" in (name, section.name):  # whose options mean nothing to another, nor another's to it
        user = {} if name == "embedded" else user
        options = {**user, **(section.options if name == section.name else {})}
    else:
        options = {**user, **section.options}
    changes = {"name": name, "path": "", "options": options}
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


# Benchmarks that the user installed: an interpreter of their own, and the record of where they came from.


RECORD = "target.json"


class Installed(BaseModel):
    """The file `targets/<name>/target.json` in the home."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str
    python: str
    source: str
    """The folder it was installed from."""
    commit: str = ""
    """Of that folder, where it is a git checkout; `-dirty` when it holds changes."""
    variables: dict[str, str] = {}


@dataclass(frozen=True)
class Benchmark:
    """A benchmark whose module ships with this package, and how it is installed.

    Attributes:
        name: As in `trace targets install NAME`.
        repository: Where it is cloned from.
        package: Import name that proves the installation.
        module: File of the target module, below `trace_assets/targets`.
        pythons: Versions it asks for, best first.
        variables: Environment variables of its process, from the folder it was installed from.
        domains: Names of its targets, as `targets.name` takes them.
        pins: Further requirements, where the package's own are not enough.
        without: Distributions that the package names and its target module never imports.
    """

    name: str
    repository: str
    package: str
    module: str
    pythons: tuple[str, ...]
    domains: tuple[str, ...]
    variables: Callable[[Path], dict[str, str]]
    pins: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


BENCHMARKS = {
    "tau2": Benchmark(
        name="tau2",
        repository="https://github.com/sierra-research/tau2-bench",
        package="tau2",
        module="tau2/module.py",
        pythons=("3.12", "3.13"),
        domains=("tau2:airline", "tau2:retail", "tau2:telecom", "tau2:telecom_solo"),
        variables=lambda source: {"TAU2_DATA_DIR": str(source / "data")},
    ),
    "toolsandbox": Benchmark(
        name="toolsandbox",
        repository="https://github.com/apple/ToolSandbox",
        package="tool_sandbox.scenarios",
        module="toolsandbox/module.py",
        pythons=("3.11",),
        domains=("toolsandbox",),
        # Its tools tell the local time, and what they tell must not follow the machine's time zone.
        variables=lambda source: {"TZ": "UTC", "POLARS_MAX_THREADS": "1"},
        pins=("time-machine>=2.16,<4",),
        # What its own agents on other vendors' servers need; the oldest pins among them no longer build.
        without=(
            "anthropic",
            "huggingface_hub",
            "sentencepiece",
            "transformers",
            "tree-sitter",
            "tree-sitter-languages",
            "vertexai",
        ),
    ),
}


def benchmark_of(target: str) -> Benchmark | None:
    """Return the benchmark that a target's name belongs to, None for any other target."""
    return next((one for one in BENCHMARKS.values() if target in one.domains), None)


def read_installed(folder: Path, name: str) -> Installed:
    """Return the record of an installed benchmark.

    Raises:
        Unavailable: It is not installed here.
        InputError: The record cannot be read.
    """
    file = folder / name / RECORD
    if not file.is_file():
        raise Unavailable(
            f"{name} is not installed in this home: `git clone {BENCHMARKS[name].repository} DIR`, then "
            f"`trace targets install {name} --from DIR`."
        )
    try:
        return Installed.model_validate_json(file.read_text(encoding="utf-8"))
    except (OSError, ValidationError) as error:
        raise InputError(
            f"{file} cannot be read ({type(error).__name__}); run `trace targets install {name} --from DIR` "
            "again."
        ) from error


def install(folder: Path, name: str, source: Path, python: str = "") -> Installed:
    """Make an interpreter for a benchmark and install it there from a folder.

    The folder stays the user's: it is installed in place (`pip install -e`) and nothing of it is copied.
    Ends with the record written only when the package can be imported.

    Args:
        folder: The home's `targets`.
        name: Of the benchmark.
        source: Its repository.
        python: Interpreter to make the environment with; empty takes the best that is found.

    Raises:
        InputError: There is no such benchmark, or the folder is not one.
        Unavailable: pip fails, or the package cannot be imported afterwards.
    """
    if name not in BENCHMARKS:
        raise InputError(f"there is no benchmark '{name}' to install; there is {', '.join(BENCHMARKS)}.")
    benchmark, source = BENCHMARKS[name], source.expanduser().absolute()
    if not (source / "pyproject.toml").is_file() and not (source / "setup.py").is_file():
        wrong = "holds no Python project" if source.exists() else "is not there"
        raise InputError(
            f"{source}, which --from names, {wrong}: `git clone {benchmark.repository} DIR`, and name DIR."
        )
    base, asked = _interpreter(benchmark.pythons, python)
    place = folder / name
    shutil.rmtree(place / "venv", ignore_errors=True)
    (place / RECORD).unlink(missing_ok=True)
    place.mkdir(parents=True, exist_ok=True)
    inside = place / "venv" / "bin" / "python"
    pip = (str(inside), "-m", "pip", "install", "-q", *benchmark.pins)
    # Where no wanted Python is to be had, the project's own bound is let pass, but not its dependencies'.
    project = (
        [(*pip, "-e", str(source))]
        if asked and not benchmark.without
        else [
            (*pip, *dependencies_of(source, benchmark.without)),
            (*pip, "--no-deps", "--ignore-requires-python", "-e", str(source)),
        ]
    )
    steps: list[tuple[str, Sequence[str]]] = [
        (f"make an interpreter ({base})", (base, "-m", "venv", str(place / "venv"))),
        *((f"install {source.name} and its dependencies", command) for command in project),
        (f"import {benchmark.package}", (str(inside), "-c", f"import {benchmark.package}")),
    ]
    variables = benchmark.variables(source)
    with progress(f"install {name}", len(steps)) as bar:
        for words, command in steps:
            bar.advance(0, note=words)
            _run(words, command, place, variables)
            bar.advance(1)
    found = Installed(
        name=name, python=str(inside), source=str(source), commit=commit_of(source), variables=variables
    )
    write_text(place / RECORD, found.model_dump_json(indent=2))
    return found


def dependencies_of(source: Path, without: Sequence[str] = ()) -> list[str]:
    """Return what a project's pyproject.toml names as its dependencies.

    Raises:
        InputError: It cannot be read.
    """
    try:
        project = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    except (OSError, tomllib.TOMLDecodeError, KeyError) as error:
        raise InputError(f"{source / 'pyproject.toml'} names no project ({error}).") from error
    left_out = {canonicalize_name(name) for name in without}
    named: list[str] = list(project.get("dependencies", ()))
    return [one for one in named if canonicalize_name(Requirement(one).name) not in left_out]


def _interpreter(wanted: Sequence[str], python: str) -> tuple[str, bool]:
    """Return an interpreter, and whether it is of a wanted version."""
    if python:
        if (found := shutil.which(python)) is None or not (version := _version(found)):
            raise InputError(f"there is no interpreter '{python}'; name one that runs here in --python.")
        return found, version in wanted
    for version in wanted:  # a launcher of that name may stand there and find no Python to launch
        if (found := shutil.which(f"python{version}")) is not None and _version(found) == version:
            return found, True
    return sys.executable, _version(sys.executable) in wanted


def _version(python: str) -> str:
    """Return `3.12` for an interpreter that runs, else nothing."""
    command = [python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _run(words: str, command: Sequence[str], place: Path, variables: dict[str, str]) -> None:
    log = place / "install.log"
    with log.open("ab") as file:
        file.write(f"$ {' '.join(command)}\n".encode())
        file.flush()
        done = subprocess.run(
            command, stdout=file, stderr=subprocess.STDOUT, check=False, env={**os.environ, **variables}
        )
    if done.returncode != 0:
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        errors = [line for line in lines if "error" in line.lower()]
        said = (errors or lines)[-1].strip()[:300]
        raise Unavailable(f"could not {words}: {said} (the whole log: {log}).")


def commit_of(source: Path) -> str:
    """Return the commit of a git checkout, marked when tracked files differ; empty for other folders."""

    def git(*arguments: str) -> str:
        try:
            command = ["git", "-C", str(source), *arguments]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        except OSError:
            return ""
        return done.stdout.strip() if done.returncode == 0 else ""

    commit = git("rev-parse", "--short=12", "HEAD")
    return f"{commit}-dirty" if commit and git("status", "--porcelain", "-uno") else commit
