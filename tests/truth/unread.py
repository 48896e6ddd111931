"""`python -m tests.truth.unread FILE...`: score triage and decisive messages on runs of other agents.

`tables/unread.jsonl` holds readings of failed runs that nobody had looked at before the diagnosis was first
run on them: by gpt-4o (tau-bench, airline), Gemini 2.5 flash (tau2, airline) and Gemma 3 27B (a dozen small
desks in Spanish); and in a second round by Claude Haiku 4.5 and Sonnet 4.6 (tau2's retail, alone, in Claude
Code), two agents on tau2's airline and several models on a FHIR server (MedAgentBench); and in a third by
gpt-oss (BFCL's turns by a script), GPT-5.6 Luna (a dozen desks and the web) and fifteen models on Korean
services, a third of them a reserve that no mend had seen (`reserve`); and in a fourth, with such a reserve
too, by a pipeline of Claude Sonnet 4.6 as a car's voice (CAR-bench) and by DeepSeek V3.2 and Claude Sonnet
4.5 alone with MCP servers (Toolathlon); and in a fifth by Gemini 3 Pro at a shell (SWE-bench), three models
at a library's desk (SOPBench) and GPT-4 in an office (WorkBench); and in a sixth by one model at tau-bench's
retail, with tools and (a reserve) with their preconditions told. Each was read whole by one reader, a strong
general model that knew nothing of this program. The runs are published by others and no part of this
repository; `docs/truth/rounds.md` says where they come from.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.formats.reading import read_trajectories
from tests.truth.outcome import Tried, by_detectors, diagnose
from tests.truth.readings import TABLES
from tests.truth.scores import WITHIN, Share, apart, share
from trace_assets.records import FailureCause, Trajectory


def unread() -> list[dict[str, Any]]:
    """Return the readings."""
    return [json.loads(line) for line in (TABLES / "unread.jsonl").read_text("utf-8").splitlines()]


def figures(causes: Sequence[FailureCause], readings: Sequence[dict[str, Any]]) -> dict[str, Share]:
    """Return what is right, for the readings whose runs were explained.

    Args:
        causes: One a failed run.
        readings: As `unread` or `notes` has them.
    """
    said = {one.trajectory_id: one for one in causes}
    pairs = [(one, said[one["run"]]) for one in readings if one["run"] in said]
    away = [
        apart(read["decisive_message"], cause.decisive_message, read.get("last")) for read, cause in pairs
    ]
    others = [(read, cause) for read, cause in pairs if read["fault"] != "agent"]
    accused = [(read, cause) for read, cause in pairs if cause.party != "agent"]
    return {
        "always the agent": Share(len(pairs) - len(others), len(pairs)),
        "party right": share(read["fault"] == cause.party for read, cause in pairs),
        "other parties' failures found": share(cause.party != "agent" for _, cause in others),
        "accusations of others that are true": share(read["fault"] != "agent" for read, _ in accused),
        "decisive message, exact": share(one == 0 for one in away),
        "decisive message, within two": share(one <= WITHIN for one in away),
    }


def explained(files: Sequence[Path]) -> list[FailureCause]:
    """Return why each failed run of some files failed, as the pipeline says with its detectors."""
    imported = read_trajectories(files)
    targets: dict[str, list[Trajectory]] = defaultdict(list)
    for one in imported.trajectories:
        targets[one.target].append(one)
    made = [diagnose(name, own, imported.tasks, Tried(by_detectors)) for name, own in sorted(targets.items())]
    return [cause for one in made for cause in one.causes]


def _part(reading: dict[str, Any]) -> str:
    """Return the round of a reading; those of its reserve are counted apart."""
    return f"{'reserve of ' if reading.get('reserve') else ''}round {reading['round']}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the figures of each set."""
    parser = argparse.ArgumentParser(prog="python -m tests.truth.unread", description=__doc__)
    parser.add_argument("files", type=Path, nargs="+", help="the published runs")
    causes, readings = explained(parser.parse_args(arguments).files), unread()
    for name in (*sorted({one["set"] for one in readings}), *sorted({_part(one) for one in readings})):
        own = [one for one in readings if name in (one["set"], _part(one))]
        for figure, found in figures(causes, own).items():
            if found.n:
                print(f"{name:18} {figure:36} {found}")


if __name__ == "__main__":
    main()
