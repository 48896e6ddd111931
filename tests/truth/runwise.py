"""`python -m tests.truth.runwise HOME --matched FILE`: what scored diagnoses come to run by run.

One JSON line a failed run, by hash, and nothing of what was said in it: what was read, and for each way of
diagnosing what it says beside that. A last line tells what became of the capabilities that are wanted, and
of the passed runs. The shares of a page can be summed up from it where the runs are not there.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.truth.matching import Matched, capability_key
from tests.truth.readings import digest
from tests.truth.scores import WITHIN, Share, apart, share
from tests.truth.whole import GOOD, Home, Reading, Said, open_home, passed_figures, wanted


def rows(home: Home, matched: Matched) -> list[dict[str, Any]]:
    """Return one row a failed run that was read."""
    return [
        {
            "run": digest(one["run"]),
            "set": one["set"],
            "fault": one["fault"],
            "fault_also": list(one["fault_also"]),
            "capability": one["capability"],
            "ways": {way: _said(one, said, matched) for way, said in home.ways.items()},
        }
        for one in sorted(home.readings, key=lambda one: str(one["run"]))
    ]


def totals(home: Home, matched: Matched) -> dict[str, Any]:
    """Return what is not told run by run: wanted capabilities, and counts of passed runs."""
    found = {}
    for way, said in home.ways.items():
        passed = passed_figures(home.passed, home.labels, home.readings, said, matched)
        found[way] = {
            "wanted": [[one.name, one.n, one.verdict] for one in wanted(home.readings, said, matched)],
            "passed": {name: [one.hits, one.n] for name, one in passed.items()},
        }
    return {"set": next(one["set"] for one in home.readings), "totals": found}


def _said(reading: Reading, said: Said, matched: Matched) -> dict[str, Any]:
    run = reading["run"]
    cause = next(one for one in said.causes if one.trajectory_id == run)
    away = apart(reading["decisive_message"], cause.decisive_message, reading.get("last"))
    named = said.capabilities.get(cause.capability or "")
    grades = {
        one.label.capability_id: sum(worth is True for worth in (one.occurs, one.deficiency, one.decisive))
        for one in said.grades
        if one.label.trajectory_id == run
    }
    kept = {key for key, verdict in said.verdicts.items() if verdict == "kept"}
    same = {key for key, one in said.capabilities.items() if matched.of(run, one) == "same"}
    others, unread = said.unread.get(run, ((), None))
    return {
        "party": cause.party,
        "away": None if away == float("inf") else int(away),
        "named": capability_key(named) if named else None,
        "match": (matched.of(run, named) or "none") if named else None,
        "worth": grades.get(cause.capability or ""),
        "among": bool(same),
        "unread": [
            bool(same & set(others)),
            bool(same & set(others) & set(said.lacks.get(run, ()))),
            unread in same,
        ],
        "lacks": sorted(grades.values()),
        "kept_lacks": sorted(worth for key, worth in grades.items() if key in kept),
    }


def shares(kept: Sequence[Mapping[str, Any]], way: str) -> dict[str, Share]:
    """Sum up what one way of diagnosing comes to; `worth` is how many of the three grades hold."""
    pairs = [(one, one["ways"][way]) for one in kept if "ways" in one]
    last = next(one["totals"][way] for one in kept if "totals" in one)
    verdicts = [verdict for _, _, verdict in last["wanted"]]
    agent = [own for one, own in pairs if one["capability"]]

    def labels(name: str, least: int) -> Share:
        return share(worth >= least for _, own in pairs for worth in own[name])

    def unread(place: int) -> Share:
        return share(own["unread"][place] for own in agent if "unread" in own)

    return {
        "party right": share(one["fault"] == own["party"] for one, own in pairs),
        "party right or shares the fault": share(
            own["party"] in (one["fault"], *one["fault_also"]) for one, own in pairs
        ),
        "decisive message, exact": share(own["away"] == 0 for _, own in pairs),
        "decisive message, within two": share(
            own["away"] is not None and own["away"] <= WITHIN for _, own in pairs
        ),
        "wanted capabilities: candidate or better": share(bool(one) for one in verdicts),
        "wanted capabilities: kept or promising": share(one in GOOD for one in verdicts),
        "wanted capabilities: kept": share(one == "kept" for one in verdicts),
        "the cause is among the candidates": share(own["among"] for own in agent),
        "the cause is among the candidates that another run shows too": unread(0),
        "one of these says the cause and is labelled LACKING": unread(1),
        "the capability named says the cause": share(own["match"] == "same" for own in agent),
        "the same, had nobody read the run for candidates": unread(2),
        "the capability named is a deficiency of the run": share((own["worth"] or 0) >= 2 for own in agent),
        "agent's failures without a capability": share(own["named"] is None for own in agent),
        "LACKING occurs": labels("lacks", 1),
        "LACKING is a deficiency": labels("lacks", 2),
        "LACKING is decisive": labels("lacks", 3),
        "LACKING of kept ones occurs": labels("kept_lacks", 1),
        "LACKING of kept ones is a deficiency": labels("kept_lacks", 2),
        "LACKING of kept ones is decisive": labels("kept_lacks", 3),
        **{name: Share(*counts) for name, counts in last["passed"].items()},
    }


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Return what is on record."""
    for line in path.read_text("utf-8").splitlines():
        yield json.loads(line)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the rows of some homes."""
    parser = argparse.ArgumentParser(prog="python -m tests.truth.runwise", description=__doc__)
    parser.add_argument("homes", type=Path, nargs="+")
    parser.add_argument("--matched", type=Path, required=True, help="what judges said of capabilities")
    given = parser.parse_args(arguments)
    for path in given.homes:
        home, matched = open_home(path), Matched.read(given.matched)
        for row in (*rows(home, matched), totals(home, matched)):
            print(json.dumps(row))


if __name__ == "__main__":
    main()
