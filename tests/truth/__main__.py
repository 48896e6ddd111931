"""`python -m tests.truth`: score the diagnosis against readings; write `docs/truth.md` and `docs/truth/`."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tests.formats.reading import Imported, read_trajectories
from tests.truth.corrected import score_corrected
from tests.truth.grades import ORIGIN, Grade, label_key
from tests.truth.luck import found_lucky, score_luck
from tests.truth.outcome import Outcome, Tried, by_detectors, diagnose
from tests.truth.page import Results, Scored, figures, write_pages
from tests.truth.readings import Readings, missing_data, read_readings, result_files
from tests.truth.recorded import OF_CASES, RECORDING, outcomes, replay, section
from tests.truth.recorded import figures as recorded_figures
from tests.truth.scores import all_grades
from trace_assets.records import Trajectory


def score(imported: Imported, tried: Tried) -> Scored:
    """Diagnose every file alone, and all policies of a target together."""
    files: dict[str, list[Trajectory]] = defaultdict(list)
    targets: dict[str, list[Trajectory]] = defaultdict(list)
    for one in imported.trajectories:
        files[one.source.partition(":")[2].removesuffix(".json")].append(one)
        targets[one.target].append(one)
    return Scored(
        [diagnose(name, own, imported.tasks, tried) for name, own in sorted(files.items())],
        [diagnose(name, own, imported.tasks, tried) for name, own in sorted(targets.items())],
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Score, print the headline, and write what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.truth", description=__doc__)
    parser.add_argument(
        "--page", type=Path, help="write the first page here, the others into a folder of its name"
    )
    parser.add_argument("--ungraded", type=Path, help="write labels that nobody has read here, as JSON lines")
    parser.add_argument("--recording", type=Path, help="answers of a model to score; the one of the tests")
    options = parser.parse_args(arguments)
    reason = missing_data()
    if reason:
        print(f"skipped: {reason}.")
        return
    imported = read_trajectories(result_files())
    readings = read_readings(imported.trajectories)
    results = Results(
        command="make truth",
        readings=readings,
        left_out=score(imported, Tried(by_detectors, leave_out=True)),
        in_sample=score(imported, Tried(by_detectors)),
        corrected=score_corrected(imported),
        luck=score_luck(
            [one.trajectory_id for one in imported.trajectories if one.success],
            found_lucky(imported),
            readings.passed,
        ),
    )
    if options.recording or RECORDING.is_file():
        with tempfile.TemporaryDirectory() as folder:
            recorded = outcomes(replay(Path(folder) / "study", options.recording or RECORDING))
            of_cases = None
            if not options.recording and OF_CASES.is_file():
                of_cases = outcomes(replay(Path(folder) / "cases", OF_CASES, "case"))
            of = {"rules": recorded.detectors, "model": recorded.model}
            results = replace(
                results,
                recorded=section(recorded, readings, of_cases),
                on_record={who: recorded_figures(found, readings) for who, found in of.items()},
            )
            print(results.recorded, end="\n\n")
    left, own = (figures(one, readings) for one in (results.left_out, results.in_sample))
    print(f"{'':52} {'left out':34} in sample")
    for name in left:
        print(f"{name:52} {left[name]!s:34} {own[name]}")
    if options.page:
        write_pages(results, options.page)
        print(f"written: {options.page}", file=sys.stderr)
    if options.ungraded:
        n = write_ungraded(results.in_sample.pooled, readings, options.ungraded)
        print(f"written: {n} labels to {options.ungraded}", file=sys.stderr)


def write_ungraded(outcomes: Sequence[Outcome], readings: Readings, path: Path) -> int:
    """Write labels that structure cannot grade, for a person to fill in the three grades.

    Filled in, the rows (without `says`, `why`, `run`) belong into `tables/judgements.jsonl`.
    """
    rows = [_row(one) for one in all_grades(outcomes, readings) if one.occurs is None]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return len(rows)


def _row(grade: Grade) -> dict[str, object]:
    return {
        "label": label_key(grade.label.trajectory_id, grade.capability),
        "occurs": None,
        "deficiency": None,
        "decisive": None,
        "origin": ORIGIN,
        "run": grade.label.trajectory_id,
        "says": grade.capability.name,
        "why": grade.label.rationale,
        "evidence": list(grade.label.evidence),
    }


if __name__ == "__main__":
    main()
