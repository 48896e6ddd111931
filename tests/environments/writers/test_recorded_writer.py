"""Environments that a recorded model wrote: its replies are read, patched and audited as they were."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.truth.recorded import RECORDING as DIAGNOSIS
from tests.truth.recorded import settings, write_runs
from trace_assets.environments.writers.reply import find_mended, find_module
from trace_assets.records import EnvironmentCheck, EnvironmentVersion
from trace_assets.study import Study

RECORDINGS = Path(__file__).parent / "recordings"
EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
WRITTEN = {
    "airline_open_choices": "tau2-airline-model-ask-the-user-for-every-open-choice-of-an-action-inst-7889733d",
    "retail_every_record": "tau2-retail-model-open-every-record-that-may-hold-the-information-befor-d8efe43e",
}
"""Recording -> the capability that it was asked for."""
REAL = "TRACE_TAU2_DATA"


def replies(name: str) -> list[str]:
    rows = [json.loads(line) for line in (RECORDINGS / f"{name}.jsonl").read_text("utf-8").splitlines()]
    return [row["text"] for row in rows if "text" in row]


@pytest.mark.parametrize("name", WRITTEN)
def test_a_real_models_module_and_its_patch_are_read_as_they_came(name: str) -> None:
    first, second = replies(name)
    drafted = find_module(first)
    assert drafted.source and drafted.source.count("\n") > 1000
    mended = find_mended(second, drafted.source)
    assert mended.source != drafted.source
    example = EXAMPLES / f"{name}.py.txt"
    assert mended.source.strip() == example.read_text("utf-8").strip(), "the example in the docs is what came"


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.slow
@pytest.mark.skipif(REAL not in os.environ, reason=f"no {REAL}")
@pytest.mark.docker
def test_the_recorded_writer_is_replayed_and_its_environment_accepted(name: str, tmp_path: Path) -> None:
    capability, domain = WRITTEN[name], name.partition("_")[0]
    policy = (Path(os.environ[REAL]).parent / "domains" / domain / "policy.md").read_text("utf-8").strip()
    recording = tmp_path / "writer.jsonl"
    quoted = json.dumps(policy, ensure_ascii=False)[1:-1]
    recording.write_text(
        (RECORDINGS / f"{name}.jsonl").read_text("utf-8").replace("{{POLICY}}", quoted), encoding="utf-8"
    )
    config = tmp_path / "trace.toml"
    config.write_text(
        "\n".join(
            [
                settings(DIAGNOSIS),
                f'[selection]\noverrides = {{"{capability}" = "seen by reading"}}',
                '[synthesis]\nwriter = "model"\nmodel = "strong-general-model"',
                f"[writer]\nrecording = {json.dumps(str(recording))}\nreply_tokens = 32768",
            ]
        ),
        encoding="utf-8",
    )
    (tmp_path / "runs").mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TRACE_H", "OPENAI_"))}
    for words in (
        ["ingest", *map(str, write_runs(tmp_path / "runs"))],
        ["diagnose"],
        ["sync", "--select", "environment"],
        ["sync", "--select", "environment_audit"],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "trace_assets", *words, "--config", str(config)],
            cwd=tmp_path,
            env={**kept, "TRACE_HOME": str(tmp_path / "home")},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    store = Study.open(tmp_path / "home", config).store
    versions = store.read(EnvironmentVersion, capability)
    # The audit's seeds are a home's own: with some of them it has nothing against the first draft.
    assert {one.reply for one in versions} == {"module"} and versions[-1].kept
    checks = store.read(EnvironmentCheck, capability)
    assert [one.check_id for one in checks if one.status == "fail"] == []
    assert sum(one.status == "pass" for one in checks) >= 50
