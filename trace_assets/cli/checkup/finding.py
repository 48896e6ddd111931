"""One thing that `trace doctor` looked at."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

State = Literal["ok", "degraded", "missing"]


class Door(StrEnum):
    """What a person wants to do here."""

    diagnose = "diagnose"
    loop = "loop"
    real = "real"


EVERY = (Door.diagnose, Door.loop, Door.real)
TRAINING = (Door.loop, Door.real)


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        name: What.
        state: `ok`; `degraded` works, with what `detail` says; `missing` does not.
        detail: What was seen.
        needed_for: Doors that stay shut while it is missing; none for what is only a comfort.
        fix: What to do about it, as a command wherever one will do; empty when it is ok.
    """

    name: str
    state: State
    detail: str
    needed_for: tuple[Door, ...] = ()
    fix: str = ""


def shut(findings: Iterable[Finding]) -> dict[Door, list[str]]:
    """Return for each door what keeps it shut; an empty list says that it is open."""
    found: dict[Door, list[str]] = {door: [] for door in Door}
    for finding in findings:
        if finding.state == "missing":
            for door in finding.needed_for:
                found[door].append(finding.name)
    return found
