"""A small target in its own process, and broken editions of it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from trace_assets.targets.process.target import ProcessConfig, ProcessTarget
from trace_assets.targets.template import write_template

Edit = tuple[str, str]


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The template's module, as `trace targets new library` writes it."""
    folder = tmp_path_factory.mktemp("library")
    write_template("library", folder)
    return folder / "target.py"


@pytest.fixture
def opened(library: Path, tmp_path: Path) -> Iterator[Callable[..., ProcessTarget]]:
    """Opens the library, with edits to its source; every replaced text must be there."""
    targets: list[ProcessTarget] = []

    def make(*edits: Edit, **options: object) -> ProcessTarget:
        source = library.read_text(encoding="utf-8")
        for old, new in edits:
            assert old in source
            source = source.replace(old, new)
        module = tmp_path / "target.py"
        module.write_text(source, encoding="utf-8")
        config = {"processes": 2, "call_seconds": 60.0, **options}
        target = ProcessTarget(ProcessConfig(module=module, python=Path(sys.executable), **config))
        targets.append(target)
        return target

    yield make
    for target in targets:
        target.close()
