"""The folder of a training run that is under way: what a killed run leaves for the next one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from trace_assets.store.home import replacing_file
from trace_assets.training.validation import Rate

COMPLETE = "complete"
"""Marker inside a checkpoint, written last: without it the checkpoint was cut short and is not used."""


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
            self.path.mkdir(parents=True)
            described.write_text(text, encoding="utf-8")

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
        """Return the latest checkpoint that was written to its end, and its iteration."""
        found = [
            (int(marker.parent.name.rpartition("-")[2]), marker.parent)
            for marker in self.checkpoints.glob(f"checkpoint-*/{COMPLETE}")
        ]
        if not found:
            return None
        iteration, path = max(found)
        return path, iteration

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
