"""The folder of a training run that is under way: what a killed run leaves for the next one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from trace_assets.errors import InputError
from trace_assets.store.durable import make_folder, sync_file, sync_folder, sync_tree
from trace_assets.store.home import replacing_file
from trace_assets.store.lines import read_lines
from trace_assets.store.manifest import MANIFEST, Manifest
from trace_assets.training.validation import Rate

COMPLETE = "complete"
"""Marker inside a checkpoint, written last: without it the checkpoint was cut short and is not used. It lists
the checkpoint's files."""


def mark_complete(folder: Path) -> None:
    """Say of a checkpoint that it is written to its end, once it is on the disk."""
    sync_tree(folder)
    marker = folder / COMPLETE
    marker.unlink(missing_ok=True)
    Manifest(marker, folder).build(file for file in sorted(folder.rglob("*")) if file.is_file())
    sync_file(marker)
    sync_folder(folder)


def is_complete(folder: Path) -> bool:
    """Whether a checkpoint was written to its end, and is as it was written."""
    marker = folder / COMPLETE
    if not marker.is_file():
        return False
    lines, manifest = read_lines(marker), Manifest(marker, folder)
    return not (lines.torn or lines.altered or manifest.problems(manifest.entries()))


class Workplace:
    """Checkpoints, curve and candidate weights of one run, beside the folder of its result.

    A run with another fingerprint (other settings, base, tasks) finds an empty workplace.

    Args:
        folder: Where the finished adapter will be.
        fingerprint: Everything that decides the run's result.
    """

    def __init__(self, folder: Path, fingerprint: dict[str, Any]) -> None:
        self.path = _workplace(folder)
        described = self.path / "run.json"
        text = json.dumps(fingerprint, indent=2, sort_keys=True)
        if not described.is_file() or described.read_text(encoding="utf-8") != text:
            shutil.rmtree(self.path, ignore_errors=True)
            make_folder(self.path)
            with replacing_file(described) as partial:
                partial.write_text(text, encoding="utf-8")

    @property
    def curve(self) -> Path:
        """The learning curve so far."""
        return self.path / "curve.jsonl"

    @property
    def checkpoints(self) -> Path:
        """The trainer's output folder."""
        return self.path / "checkpoints"

    def candidate(self, iteration: int) -> Path:
        """Weights that were validated after an iteration."""
        return self.path / f"candidate-{iteration}.safetensors"

    def last_checkpoint(self) -> tuple[Path, int] | None:
        """Return the latest checkpoint that is as it was written, to its end, and its iteration."""
        found = [
            (int(marker.parent.name.rpartition("-")[2]), marker.parent)
            for marker in self.checkpoints.glob(f"checkpoint-*/{COMPLETE}")
        ]
        for iteration, path in sorted(found, reverse=True):
            if is_complete(path):
                return path, iteration
        return None

    def whole_candidate(self, iteration: int) -> Path:
        """Return the weights that were validated after an iteration.

        Raises:
            InputError: They are not what was written.
        """
        path = self.candidate(iteration)
        manifest = self._manifest()
        if said := manifest.problem(path.name):
            raise InputError(f"{path} {said}; remove {self.path} and run again to train it anew.")
        return path

    @contextmanager
    def keeping_candidate(self, iteration: int) -> Iterator[Path]:
        """Write the weights that were validated after an iteration: to the path that the body is given."""
        path, manifest = self.candidate(iteration), self._manifest()
        with replacing_file(path, lambda partial: manifest.placing(path.name, partial)) as partial:
            yield partial

    def _manifest(self) -> Manifest:
        return Manifest(self.path / MANIFEST, self.path)

    def stored_rate(self, name: str) -> Rate | None:
        """Return a measurement that an earlier attempt finished."""
        path = self.path / f"{name}.json"
        return Rate(**json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else None

    def store_rate(self, name: str, rate: Rate) -> None:
        """Keep a measurement for later attempts."""
        text = json.dumps({"successes": rate.successes, "n": rate.n, "reward": rate.reward})
        with replacing_file(self.path / f"{name}.json") as partial:
            partial.write_text(text, encoding="utf-8")

    def clear(self) -> None:
        """Remove the folder: the result is in its place."""
        shutil.rmtree(self.path, ignore_errors=True)


def clear_workplace(folder: Path) -> None:
    """Remove what is left beside the folder of a finished result."""
    shutil.rmtree(_workplace(folder), ignore_errors=True)


def _workplace(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.work")
