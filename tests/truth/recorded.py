"""The diagnosis by a model whose answers are on record, beside that by detectors and by both.

The recording (`recordings/`, see its README) holds what a model said to the prompts of the forty runs below.
The runs themselves are not part of this repository: where they are not, nothing is scored.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.truth.outcome import Outcome, Tried, by_detectors, diagnose
from tests.truth.readings import Readings, result_files
from tests.truth.scores import (
    Share,
    all_grades,
    score_capabilities,
    score_causes,
    score_faults,
    score_labels,
    share,
)
from trace_assets.assets.failure_causes import diagnosed_targets
from trace_assets.diagnosis.failure_causes import explain
from trace_assets.records import FailureCause, Task
from trace_assets.study import Study

RECORDING = Path(__file__).parent / "recordings" / "strong_general_model.jsonl"
OF_CASES = RECORDING.with_name("strong_general_model_cases.jsonl")
"""The same runs with `discovery.size = "case"`: triage as it was, the rest asked anew."""
FILES = ("gpt-4.1_airline.json", "gpt-4.1_retail.json")
RUNS = 20
"""Of each file: its failures, then its passed runs, in the file's order."""
MODEL = "strong-general-model"


class Unrecorded(Exception):
    """A prompt is not on record, or the diagnosis ended otherwise."""


@dataclass(frozen=True)
class Recorded:
    """Outcomes on the recorded runs, one a target.

    Attributes:
        detectors: As the rules and detectors have it.
        model: As the recorded model has it: triage (after the rules), candidates, labels, causes.
        both: With the labels of both.
    """

    detectors: Sequence[Outcome]
    model: Sequence[Outcome]
    both: Sequence[Outcome]


def write_runs(folder: Path, most: Mapping[str, int] | None = None) -> list[Path]:
    """Write files of runs into a folder, from the data that is there.

    Args:
        folder: Must be there.
        most: Runs of each file, failures first; those on record unless given.
    """
    written = []
    for name, number in (most or dict.fromkeys(FILES, RUNS)).items():
        (file,) = (one for one in result_files() if one.name == name)
        read = json.loads(file.read_text("utf-8"))
        runs = read["simulations"]
        passed = {id(run): (run.get("reward_info") or {}).get("reward", 0) >= 1 for run in runs}
        chosen = sorted(runs, key=lambda run: passed[id(run)])[:number]
        written.append(folder / name)
        written[-1].write_text(json.dumps(read | {"simulations": chosen}), encoding="utf-8")
    return written


def settings(recording: Path, size: str = "habit") -> str:
    """Return the `trace.toml` that a recording was made with, replaying it."""
    return "\n".join(
        [
            *("[discovery]", 'analyst = "model"', f'model = "{MODEL}"', "passes = 2"),
            f"size = {json.dumps(size)}",
            *("[labels]", f'model = "{MODEL}"'),
            *("[triage]", f'model = "{MODEL}"'),
            *("[contrast]", "accept_empty = true"),
            *("[analyst]", f"recording = {json.dumps(str(recording))}", ""),
        ]
    )


def replay(folder: Path, recording: Path = RECORDING, size: str = "habit") -> Study:
    """Ingest and diagnose the recorded runs in a home below a folder, as anybody would, with no server.

    Raises:
        Unrecorded: The recording lacks a prompt: what is asked has changed since it was made.
    """
    (folder / "runs").mkdir(parents=True)
    config = folder / "trace.toml"
    config.write_text(settings(recording, size), encoding="utf-8")
    own = {"TRACE_HOME": str(folder / "home"), "DAGSTER_HOME": ""}
    for words in (["ingest", *map(str, write_runs(folder / "runs"))], ["diagnose"]):
        done = subprocess.run(
            [sys.executable, "-m", "trace_assets", *words, "--config", str(config)],
            cwd=folder,
            env=environment(own),
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise Unrecorded(f"trace {words[0]}: {(done.stdout + done.stderr)[-2000:]}")
    return Study.open(folder / "home", config)


def environment(own: Mapping[str, str]) -> dict[str, str]:
    """Return this process's variables, without its settings and keys, and some more."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TRACE_", "OPENAI_"))}
    return {name: value for name, value in {**kept, **own}.items() if value}


def outcomes(study: Study) -> Recorded:
    """Return what the replayed diagnosis says, beside the detectors' and that of both."""
    causes, tasks = study.store.read(FailureCause), study.store.read(Task)
    model, detectors, both = [], [], []
    for found in diagnosed_targets(study):
        target = found.trajectories[0].target
        own = {capability.capability_id for capability in found.capabilities}
        one = replace(found, labels=[label for label in found.labels if label.capability_id in own])
        model.append(Outcome(target, target, one, [row for row in causes if row.target == target], ()))
        ruled = diagnose(target, one.trajectories, tasks, Tried(by_detectors))
        detectors.append(replace(ruled, accused=()))
        joined = replace(
            one,
            capabilities=[*one.capabilities, *ruled.diagnosed.capabilities],
            labels=[*one.labels, *ruled.diagnosed.labels],
            contrasts=[*one.contrasts, *ruled.diagnosed.contrasts],
            selected=[*one.selected, *ruled.diagnosed.selected],
        )
        both.append(Outcome(target, target, joined, explain(joined), ()))
    return Recorded(detectors, model, both)


def figures(pooled: Sequence[Outcome], readings: Readings) -> dict[str, Share]:
    """Return the figures that a model's diagnosis can be held to as well as the detectors'."""
    faults, causes = score_faults(pooled, readings), score_causes(pooled, readings)
    wanted = [one for outcome in pooled for one in score_capabilities(outcome, readings)]
    labels = score_labels(all_grades(pooled, readings))
    return {
        "party right": faults.right,
        "other parties' failures found": faults.found,
        "accusations of others that are true": faults.true,
        "decisive message, exact": causes.exact,
        "decisive message, within two": causes.within,
        "capability sank the run": causes.sinking,
        "capability is among those read": causes.named,
        "agent's failures without a capability": causes.silent,
        "capabilities: candidate or better": share(bool(one.verdict) for one in wanted),
        "capabilities: kept or promising": share(one.verdict in ("kept", "promising") for one in wanted),
        "LACKING occurs": labels.occurs,
        "LACKING is decisive": labels.decisive,
    }


def section(recorded: Recorded, readings: Readings, of_cases: Recorded | None = None) -> str:
    """Return the page's section on the recorded model.

    Args:
        recorded: As it was asked for habits.
        readings: Of the runs.
        of_cases: As it was asked for cases.
    """
    columns = [figures(one, readings) for one in (recorded.detectors, recorded.model, recorded.both)]
    heads = ["detectors", "model", "both"]
    if of_cases is not None:
        columns.append(figures(of_cases.model, readings))
        heads.append("model, cases")
    rows = [f"| {name} | {' | '.join(str(one[name]) for one in columns)} |" for name in columns[0]]
    failed = sum(len(one.causes) for one in recorded.model)
    runs = sum(len(one.diagnosed.trajectories) for one in recorded.model)
    return "\n\n".join(
        [
            "## A language model on record",
            f"{runs} runs of two domains, {failed} of them failed, diagnosed by a strong general model whose "
            "answers are on record (`tests/truth/recordings/`). "
            "*Both*: the labels of detectors and model together, and what the model says of each lack's part "
            "in the end. A model's capability names what a reading names when its words do and its evidence "
            "lies within two messages of the decisive one; its other labels are ungraded and count as not "
            "right. The two passes over a run were answered by one reader, so that they agree says little."
            + (" *Cases*: `discovery.size`, candidates, labels and causes asked anew." if of_cases else ""),
            "\n".join([f"| figure | {' | '.join(heads)} |", "| --- " * (len(heads) + 1) + "|", *rows]),
        ]
    )
