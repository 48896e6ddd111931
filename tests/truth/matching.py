"""Whether a capability says what a reading says: judged blind by a model, as one packet of many pairs.

A packet lists capabilities (name, description) and readings of failed runs (what was lacking, what
happened), both shuffled, whoever proposed them and of whichever run; readings of another set stand among them
as control. Nobody is told which capability the diagnosis names for which run. `tables/matched.jsonl` holds
the answers.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tests.truth.readings import TABLES
from trace_assets.diagnosis.llm.json_reply import values_in
from trace_assets.records import Capability

MATCHED = TABLES / "matched.jsonl"
ASKED = TABLES / "matching.md"


def capability_key(capability: Capability) -> str:
    """Return what a capability is known by here: its words."""
    return hashlib.sha256(f"{capability.name}\n{capability.description}".encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Packet:
    """What one judge is asked.

    Attributes:
        text: The prompt.
        capabilities: Key by id in the packet.
        runs: Run by id in the packet.
    """

    text: str
    capabilities: Mapping[str, str]
    runs: Mapping[str, str]


def packet(capabilities: Iterable[Capability], readings: Sequence[Mapping[str, Any]], seed: int) -> Packet:
    """Return the prompt for some capabilities and readings of agents' failures, in an order of its own.

    Args:
        capabilities: Those of equal words once.
        readings: As `unread` or `notes` has them; those of other parties are left out.
        seed: Of the order.
    """
    rng = random.Random(seed)
    by_key = {capability_key(one): one for one in capabilities}
    keys = rng.sample(sorted(by_key), len(by_key))
    own = sorted((one for one in readings if one["capability"]), key=lambda one: one["run"])
    notes = rng.sample(own, len(own))
    listed = [
        {"id": f"C{place}", "name": by_key[key].name, "description": by_key[key].description}
        for place, key in enumerate(keys, start=1)
    ]
    told = [
        {
            "id": f"R{place}",
            "lacking": _words(one),
            "what happened": one["cause"],
        }
        for place, one in enumerate(notes, start=1)
    ]
    text = ASKED.read_text("utf-8")
    for name, rows in (("capabilities", listed), ("notes", told)):
        lines = "\n".join(json.dumps(one, ensure_ascii=False) for one in rows)
        text = text.replace("{{ " + name + " }}", lines)
    return Packet(
        text,
        {one["id"]: key for one, key in zip(listed, keys, strict=True)},
        {one["id"]: note["run"] for one, note in zip(told, notes, strict=True)},
    )


def _words(reading: Mapping[str, Any]) -> str:
    return str(reading.get("lacking") or reading["capability"].removeprefix("other: ").replace("_", " "))


def answered(asked: Packet, reply: str, judge: str) -> dict[str, Any]:
    """Return a judge's answer as a row of the table.

    Raises:
        ValueError: A note is missing, or it is no answer at all.
    """
    given = next((one for one in reversed(values_in(reply)) if isinstance(one, Mapping)), None)
    if given is None or set(asked.runs) - set(given):
        raise ValueError(f"these notes have no answer: {sorted(set(asked.runs) - set(given or {}))}")
    pairs: dict[str, dict[str, list[str]]] = {}
    for name, run in asked.runs.items():
        pairs[run] = {
            how: sorted(
                asked.capabilities[one] for one in given[name].get(how, ()) if one in asked.capabilities
            )
            for how in ("same", "part")
        }
    return {"judge": judge, "capabilities": sorted(asked.capabilities.values()), "pairs": pairs}


Match = Literal["same", "part", "none"]


@dataclass(frozen=True)
class Matched:
    """What judges said of pairs; of several judges the least counts."""

    rows: Sequence[Mapping[str, Any]]

    @staticmethod
    def read(path: Path = MATCHED) -> Matched:
        """Return what is on record."""
        text = path.read_text("utf-8") if path.is_file() else ""
        return Matched([json.loads(line) for line in text.splitlines()])

    def of(self, run: str, capability: Capability) -> Match | None:
        """Return what the judges agree on of one pair; None where nobody was asked."""
        key = capability_key(capability)
        found = [
            "same"
            if key in row["pairs"][run]["same"]
            else "part"
            if key in row["pairs"][run]["part"]
            else "none"
            for row in self.rows
            if run in row["pairs"] and key in row["capabilities"]
        ]
        order: tuple[Match, ...] = ("none", "part", "same")
        return min(found, key=order.index) if found else None  # type: ignore[arg-type, return-value]

    def is_telling(self, capability: Capability, own: Collection[str]) -> bool:
        """Say whether a capability says nothing of control notes: what fits them too fits nearly anything.

        Args:
            capability: Of a set.
            own: The set's runs; others are control.
        """
        control = {run for row in self.rows for run in row["pairs"]} - set(own)
        return all(self.of(run, capability) != "same" for run in control)

    def shares(
        self, own: Iterable[str], keys: Iterable[str]
    ) -> dict[str, tuple[tuple[int, int], tuple[int, int]]]:
        """Return by judge how many pairs are called the same, of how many: this set's, and control.

        Args:
            own: Runs of the set that the capabilities are of; others that a packet holds are control.
            keys: Of the capabilities; packets that hold none of them are passed over.
        """
        runs, known = set(own), set(keys)
        found: dict[str, tuple[tuple[int, int], tuple[int, int]]] = {}
        for row in self.rows:
            if known.isdisjoint(row["capabilities"]):
                continue
            counted = []
            for ours in (True, False):
                said = [given for run, given in row["pairs"].items() if (run in runs) is ours]
                same = sum(len(one["same"]) for one in said)
                counted.append((same, len(said) * len(row["capabilities"])))
            before = found.get(row["judge"], ((0, 0), (0, 0)))
            (same, n), (false, control) = (
                (one[0] + more[0], one[1] + more[1]) for one, more in zip(before, counted, strict=True)
            )
            found[row["judge"]] = (same, n), (false, control)
        return found
