"""Figures as JSON lines: written as they are found, so that a part that is killed has said what it knew."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LINES = "gpu.jsonl"


class Skip(Exception):
    """A part cannot be run on this machine; the message says what is missing."""


@dataclass
class Asked:
    """What a part is given.

    Attributes:
        part: Its name.
        file: Where its lines go.
        run: Tells this call from an earlier one with the same file.
        rehearse: Toy sizes, and a CPU will do.
        scratch: For models; parts share it.
        seconds: How long it may take in all.
        cases: Only cases whose names hold one of these; none chosen: all.
    """

    part: str
    file: Path
    run: str
    rehearse: bool
    scratch: Path
    seconds: float
    cases: tuple[str, ...] = ()
    began: float = field(default_factory=time.monotonic)

    @property
    def device(self) -> str:
        """Where it computes."""
        import torch

        return "cuda" if torch.cuda.is_available() else "cpu"

    @property
    def left(self) -> float:
        """Seconds left."""
        return self.seconds - (time.monotonic() - self.began)

    def enough(self, seconds: float, what: str) -> bool:
        """Say whether a case is wanted and there is time; where that is short, the table will say so."""
        if self.cases and not any(case in what for case in self.cases):
            return False
        if self.rehearse or self.left >= seconds:
            return True
        self.row(what, "not run", note=f"{self.left:.0f} s were left, it wants {seconds:.0f} s")
        return False

    def row(self, what: str, value: Any, unit: str = "", note: str = "") -> None:
        """Write one figure."""
        self.write({"kind": "row", "what": what, "value": value, "unit": unit, "note": note})
        print(
            f"[{time.monotonic() - self.began:6.1f} s] {self.part}: {what} = {value} {unit} {note}",
            flush=True,
        )

    def write(self, line: Mapping[str, Any]) -> None:
        """Append a line to the file."""
        with self.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"part": self.part, "run": self.run, **line}) + "\n")

    @contextmanager
    def trying(self, what: str) -> Iterator[None]:
        """Do something whose failure is a figure of its own, and no reason to leave out what follows."""
        try:
            yield
        except Skip as reason:
            self.row(what, "skipped", note=str(reason))
        except Exception as error:
            import traceback

            traceback.print_exc()
            self.row(what, "FAILED", note=last_line(error))
            self.write({"kind": "failed", "what": what})


def last_line(error: BaseException) -> str:
    """Return an error in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}"


def read_lines(folder: Path) -> list[dict[str, Any]]:
    """Return all lines of a folder's files, oldest file first."""
    files = sorted(folder.glob("*.jsonl"), key=lambda file: (file.stat().st_mtime, file.name))
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    return [json.loads(line) for line in lines if line.strip()]
