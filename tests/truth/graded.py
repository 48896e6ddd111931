"""`python -m tests.truth.graded HOME --packets FOLDER`: what LACKING labels are worth, asked of a judge.

A label that names what a reading names is graded by structure where it is a detector's (`grades`). A model's
has words alone, and may be right where its reader said nothing. A judge reads the transcript, the note of
whoever read the run, and claims: what the run was said to lack, and as many others as `--control` says that
nobody made of it, shuffled among them. With `--answers FILE... --judge NAME` the judge's replies are added to
`tables/graded.jsonl`, by hashes of run and claim; what was drawn at random is counted and left out.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.truth.grades import label_key
from tests.truth.readings import TABLES
from tests.truth.whole import Home, Reading, open_home
from trace_assets.diagnosis.llm.json_reply import values_in
from trace_assets.diagnosis.llm.transcript import view
from trace_assets.records import Capability, Trajectory
from trace_assets.store.trajectories import read_trajectories
from trace_assets.study import Study

ASKED = TABLES / "grading.md"
JUDGEMENTS = TABLES / "graded.jsonl"
WORTH = ("false", "occurs", "deficiency", "decisive")
"""Least first; each says all that those before it say, but the first."""
BUDGET = 24_000
"""Tokens of a transcript at most."""


@dataclass(frozen=True)
class Claim:
    """That a run lacks something.

    Attributes:
        run: The run.
        capability: What it lacks.
        made: Whether the diagnosis says so; others are control.
    """

    run: str
    capability: Capability
    made: bool

    @property
    def key(self) -> str:
        """What a judgement of it is known by."""
        return label_key(self.run, self.capability)


@dataclass(frozen=True)
class Asked:
    """What one judge is asked at once.

    Attributes:
        text: The prompt.
        claims: By episode and label, as they are called in it.
    """

    text: str
    claims: Mapping[str, Mapping[str, Claim]]


def claims_of(home: Home, control: int, seed: int) -> dict[str, list[Claim]]:
    """Return by run what it is said to lack, and some other candidates, in an order of its own."""
    said, rng = home.said, random.Random(seed)
    found = {}
    for one in sorted(home.readings, key=lambda one: str(one["run"])):
        run = str(one["run"])
        lacks = sorted(said.lacks.get(run, ()))
        others = [key for key in sorted(said.capabilities) if key not in lacks]
        drawn = rng.sample(others, min(control, len(others)))
        claims = [
            Claim(run, said.capabilities[key], key in lacks)
            for key in rng.sample([*lacks, *drawn], len(lacks) + len(drawn))
        ]
        if claims:
            found[run] = claims
    return found


def ask(
    claims: Mapping[str, Sequence[Claim]], notes: Mapping[str, Reading], runs: Mapping[str, Trajectory]
) -> Asked:
    """Return the prompt for the claims of some runs.

    Args:
        claims: By run.
        notes: By run.
        runs: By id.
    """
    told, parts = {}, []
    for number, (run, own) in enumerate(claims.items(), start=1):
        episode, note = f"E{number}", notes[run]
        told[episode] = {f"L{place}": claim for place, claim in enumerate(own, start=1)}
        lines = [
            json.dumps({"id": name, "name": one.capability.name, "description": one.capability.description})
            for name, one in told[episode].items()
        ]
        read = {key: note[key] for key in ("cause", "lacking", "lacking_also", "would_pass") if note.get(key)}
        shown = view(runs[run], BUDGET, blind=False).text
        parts += [f"## Episode {episode}", "The note:", json.dumps(read), "The claims:", *lines]
        parts += ["The transcript:", shown, ""]
    return Asked(ASKED.read_text("utf-8").replace("{{ episodes }}", "\n".join(parts).strip()), told)


def judged(asked: Asked, reply: str, judge: str) -> tuple[list[dict[str, Any]], list[str]]:
    """Return a judge's answer as rows of judgements, and what was said of the control.

    Raises:
        ValueError: A claim has no answer.
    """
    given = next((one for one in reversed(values_in(reply)) if isinstance(one, Mapping)), {})
    rows, control = [], []
    for episode, claims in asked.claims.items():
        for name, claim in claims.items():
            said = (given.get(episode) or {}).get(name)
            if said not in WORTH:
                raise ValueError(f"{episode}, {name} has no answer: {said!r}")
            if not claim.made:
                control.append(said)
                continue
            worth = WORTH.index(said)
            grades = {key: worth >= WORTH.index(key) for key in WORTH[1:]}
            rows.append({"label": claim.key, **grades, "origin": judge})
    return rows, control


def packets(path: Path, size: int, control: int, seed: int) -> list[Asked]:
    """Return what is asked about one home: so many episodes a packet."""
    home = open_home(path)
    claims, notes = claims_of(home, control, seed), {str(one["run"]): one for one in home.readings}
    store = Study.open(path, writable=False).store
    runs = {one.trajectory_id: one for one in read_trajectories(store) if one.trajectory_id in claims}
    order = random.Random(seed).sample(sorted(claims), len(claims))
    return [
        ask({run: claims[run] for run in order[start : start + size]}, notes, runs)
        for start in range(0, len(order), size)
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Write packets, or add answers to them to the judgements."""
    parser = argparse.ArgumentParser(prog="python -m tests.truth.graded", description=__doc__)
    parser.add_argument("home", type=Path)
    parser.add_argument("--packets", type=Path, help="folder that the prompts are written into, NN.md")
    parser.add_argument("--answers", type=Path, nargs="+", help="replies to the packets, in their order")
    parser.add_argument("--judge", default="", help="who replied")
    parser.add_argument("--size", type=int, default=7, help="episodes a packet")
    parser.add_argument("--control", type=int, default=1, help="claims a run that nobody made")
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn, and of the order")
    given = parser.parse_args(arguments)
    asked = packets(given.home, given.size, given.control, given.seed)
    if given.packets:
        given.packets.mkdir(parents=True, exist_ok=True)
        for number, one in enumerate(asked, start=1):
            (given.packets / f"{number:02}.md").write_text(one.text, encoding="utf-8")
    if given.answers:
        control: list[str] = []
        with JUDGEMENTS.open("a", encoding="utf-8") as file:
            for one, answer in zip(asked, given.answers, strict=True):
                rows, drawn = judged(one, answer.read_text("utf-8"), given.judge)
                control += drawn
                file.writelines(f"{json.dumps(row)}\n" for row in rows)
        print({name: control.count(name) for name in WORTH})


if __name__ == "__main__":
    main()
