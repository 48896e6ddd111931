"""Reference readings: what a person found in each failed run, and labels on passed ones.

`TRACE_TAU2_DATA` names a folder of tau2 simulation files; the readings lie beside it in `../readings`.
Neither is part of this repository: what is kept here (`tables/`) names readings by hashes of their text.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from trace_assets.records import Trajectory

DATA = "TRACE_TAU2_DATA"
TABLES = Path(__file__).parent / "tables"
PARTIES = ("agent", "user_simulator", "ground_truth", "environment", "infrastructure")


@dataclass(frozen=True)
class Reading:
    """What was found in one failed run.

    Attributes:
        trajectory_id: The run.
        file: The set it belongs to.
        fault: The party whose repair alone would have made it pass.
        fault_also: Others that share it.
        decisive: Index of the decisive message in the trajectory; None for an absence up to the end.
        seen: Indices of the messages that the reader gave as evidence.
        first: Clusters of the capability that decided it; empty for other parties' faults.
        fatal: Clusters that had to be there as well for it to pass: each alone would have sunk it.
        named: All clusters that the reading names, decisive or not.
        by_rule: Whether the reader thinks that a rule can find it.
    """

    trajectory_id: str
    file: str
    fault: str
    fault_also: frozenset[str]
    decisive: int | None
    seen: tuple[int, ...]
    first: frozenset[str]
    fatal: frozenset[str]
    named: frozenset[str]
    by_rule: bool
    confidence: str

    @property
    def sinking(self) -> frozenset[str]:
        """Clusters each of which explains the failure."""
        return self.first | self.fatal


@dataclass(frozen=True)
class PassedReading:
    """A label on a passed run."""

    trajectory_id: str
    file: str
    cluster: str
    label: str


@dataclass(frozen=True)
class Readings:
    """All of them."""

    failed: Mapping[str, Reading]
    passed: Sequence[PassedReading]


def digest(text: str) -> str:
    """Return the key under which a text is known in the tables."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@cache
def table(name: str) -> Any:
    """Return one of the JSON tables."""
    return json.loads((TABLES / name).read_text("utf-8"))


def missing_data() -> str:
    """Say why there is nothing to read; empty when there is."""
    if DATA not in os.environ:
        return f"{DATA} is not set: it names a folder of tau2 simulation files with ../readings beside it"
    folder = Path(os.environ[DATA])
    if not any(folder.glob("*.json")):
        return f"{DATA} names {folder}, which holds no simulation files"
    if not any(_readings_folder().glob("*.jsonl")):
        return f"there are no readings in {_readings_folder()}"
    return ""


def result_files() -> list[Path]:
    """Return the simulation files."""
    return sorted(Path(os.environ[DATA]).glob("*.json"))


def _readings_folder() -> Path:
    return Path(os.environ[DATA]).absolute().parent / "readings"


def read_readings(trajectories: Sequence[Trajectory]) -> Readings:
    """Return the readings of these trajectories.

    Raises:
        KeyError: A capability's text is in no cluster (`tables/texts.json`).
    """
    known = {one.trajectory_id: one for one in trajectories}
    return parse_readings(
        ((row, known[row["simulation_id"]]) for row in _rows(known)),
        table("texts.json"),
        table("fatal.json"),
    )


def parse_readings(
    rows: Iterator[tuple[Mapping[str, Any], Trajectory]],
    texts: Mapping[str, str],
    fatal: Mapping[str, Sequence[str]],
) -> Readings:
    """Turn rows into readings.

    Args:
        rows: A row of a file with the trajectory it is about.
        texts: Hash of a capability's text to its cluster.
        fatal: Hash of a trajectory's id to the clusters that had to be there as well.
    """
    failed: dict[str, Reading] = {}
    passed: list[PassedReading] = []
    for row, one in rows:
        name = row["simulation_id"]
        if row.get("passed"):
            passed.append(PassedReading(name, row["file"], _cluster(row["capability"], texts), row["label"]))
            continue
        first = frozenset({_cluster(row["capability"], texts)} if row["capability"] else ())
        also = frozenset(_cluster(text, texts) for text in row["capability_also"])
        decisive = row["decisive_message"]
        failed[name] = Reading(
            trajectory_id=name,
            file=row["file"],
            fault=row["fault"],
            fault_also=frozenset(str(row.get("fault_also") or "").replace(",", " ").split()),
            decisive=None if decisive is None else decisive + _shift(one),
            seen=tuple(index + _shift(one) for index in row.get("evidence") or () if isinstance(index, int)),
            first=first,
            fatal=frozenset(fatal.get(digest(name), ())),
            named=first | also,
            by_rule=row.get("detectable") == "rule",
            confidence=row.get("confidence", ""),
        )
    return Readings(failed, passed)


def notes(trajectories: Sequence[Trajectory]) -> list[dict[str, Any]]:
    """Return what was read of failed runs in the form of `unread`, with the words that a judge is told.

    `capability` and `also` are clusters, so that one thing in other words counts as one; `last` is the
    agent's last message.
    """
    known = {one.trajectory_id: one for one in trajectories}
    read, found = read_readings(trajectories).failed, []
    for row in _rows(known):
        if row.get("passed"):
            continue
        one = read[row["simulation_id"]]
        found.append(
            {
                "run": one.trajectory_id,
                "set": Path(one.file).stem,
                "fault": one.fault,
                "fault_also": sorted(one.fault_also),
                "decisive_message": one.decisive,
                "last": last_of(known[one.trajectory_id].messages),
                "capability": next(iter(one.first), ""),
                "also": sorted(one.named - one.first),
                "cause": row["cause"],
                "lacking": row["capability"],
                "lacking_also": row["capability_also"],
                "would_pass": row["would_pass"],
            }
        )
    return found


def last_of(messages: Sequence[object]) -> int:
    """Return the place of the agent's last message; the last of all where it said nothing."""
    places = [i for i, one in enumerate(messages) if getattr(one, "role", "") == "assistant"]
    return places[-1] if places else len(messages) - 1


def _rows(known: Collection[str]) -> Iterator[Mapping[str, Any]]:
    for file in sorted(_readings_folder().glob("*.jsonl")):
        for line in file.read_text("utf-8").splitlines():
            if line.strip() and (row := json.loads(line))["simulation_id"] in known:
                yield row


def _cluster(text: str, texts: Mapping[str, str]) -> str:
    if digest(text) not in texts:
        raise KeyError(
            f"the reading's capability {text!r} is in no cluster: add its hash {digest(text)} to texts.json"
        )
    return texts[digest(text)]


def _shift(one: Trajectory) -> int:
    """Return by how much our indices exceed the file's: a solo agent's ticket is put first when read."""
    return int(one.target.endswith("_solo") and one.messages[:1] != () and one.messages[0].role == "user")
