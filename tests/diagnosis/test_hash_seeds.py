"""Words of a diagnosis do not hang on the order in which a process happens to keep its sets."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.diagnosis.detectors.dialogues import agent, call, transcript

PRINT = """\
from tests.truth.planted import DOMAINS
from tests.truth.planted.lacks import LACK_DOMAINS
from tests.truth.planted.strangers import STRANGE_LACKS
from trace_assets.diagnosis.detector_analyst import DetectorAnalyst
from trace_assets.settings import Discovery

for domain in [*DOMAINS, *(one.domain() for one in (*LACK_DOMAINS, *STRANGE_LACKS))]:
    runs = domain.trajectories()
    analyst = DetectorAnalyst(Discovery(), policy=domain.policy)
    found = analyst.discover(runs)
    print(*(one.model_dump_json() for one in found), sep="\\n")
    print(*(one.model_dump_json() for one in analyst.label([one.blind() for one in runs], found)), sep="\\n")
"""


@pytest.mark.ci
def test_two_processes_say_the_same_of_the_same_runs(project_root: Path) -> None:
    said = []
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(project_root)}
        run = subprocess.run(
            [sys.executable, "-c", PRINT], capture_output=True, text=True, env=environment, check=True
        )
        said.append(run.stdout.splitlines())
    assert len(said[0]) > 1000
    assert [pair for pair in zip(*said, strict=True) if pair[0] != pair[1]] == []


def test_the_objects_of_one_record_come_in_one_order() -> None:
    """A family that speaks of the first that fits speaks of the same one everywhere."""
    names = [f"R{number:04}" for number in range(40)]
    record = ", ".join(f'"part_{name}_id": "{name}"' for name in names)
    seen = transcript(call("get", f"{{{record}}}", order=names[0]), agent("It is seen.")).observations
    assert len(seen) == len(names) and list(seen) == sorted(seen)
