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
from trace_assets.environments.audit.battery import audit
from trace_assets.environments.audit.check import Purpose
from trace_assets.environments.writers.reply import find_mended, find_module
from trace_assets.environments.writers.writer import environment_of
from trace_assets.records import CapabilitySpec
from trace_assets.resources.contract import purpose_of, read_contract
from trace_assets.resources.sandbox import sandbox_pool
from trace_assets.study import Study

RECORDINGS = Path(__file__).parent / "recordings"
EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
WRITTEN = {
    "airline_open_choices": "tau2-airline-model-"
    "ask-the-user-for-every-open-choice-of-an-action-inst-7889733d",
    "retail_every_record": "tau2-retail-model-open-every-record-that-may-hold-the-information-befor-d8efe43e",
}
"""Recording -> the capability that it was asked for."""
EARLIER = CapabilitySpec(
    capability_id=WRITTEN["airline_open_choices"],
    target="tau2:airline",
    name="Ask the user for every open choice of an action instead of choosing for them",
    description="Needed when a tool call requires a value that is for the user to choose and that the user "
    "has not given, such as the payment method or the number of checked bags. Exercised when the agent asks "
    "for each such value and acts on the reply. Lacking when it picks a value itself, either silently in the "
    "tool call or by writing it unasked into the summary to be confirmed.",
    detector=None,
    detector_args={},
)
"""As the recorded model named it at first; recorded anew, it names a case of it, so no run is labelled."""
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
def test_the_module_that_came_is_accepted_with_seeds_that_were_never_drawn(name: str, tmp_path: Path) -> None:
    """Replaying the writer whole would be chance: a patch's prompt quotes figures of a home's own seeds."""
    capability, domain = WRITTEN[name], name.partition("_")[0]
    policy = (Path(os.environ[REAL]).parent / "domains" / domain / "policy.md").read_text("utf-8").strip()
    config = tmp_path / "trace.toml"
    found_today = capability != EARLIER.capability_id
    override = f'[selection]\noverrides = {{"{capability}" = "seen by reading"}}' if found_today else ""
    config.write_text(f"{settings(DIAGNOSIS)}\n{override}\n", encoding="utf-8")
    (tmp_path / "runs").mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TRACE_H", "OPENAI_"))}
    for words in (
        ["ingest", *map(str, write_runs(tmp_path / "runs"))],
        ["diagnose"],
        *(["sync", "--select", one] for one in ("capability_spec", "decision_patterns") if found_today),
        ["sync", "--select", "target_contract"],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "trace_assets", *words, "--config", str(config)],
            cwd=tmp_path,
            env={**kept, "TRACE_HOME": str(tmp_path / "home")},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    study = Study.open(tmp_path / "home", config)
    purpose = purpose_of(study, capability) if found_today else Purpose(EARLIER)
    assert purpose is not None and bool(purpose.runs) == found_today
    source = (EXAMPLES / f"{name}.py.txt").read_text("utf-8").replace("{{POLICY}}", policy)
    target = purpose.spec.target
    with sandbox_pool(study) as pool:
        checks = audit(
            environment_of(purpose.spec, source, "model:strong-general-model", 2),
            pool,
            read_contract(study, target),
            study.settings.synthesis,
            purpose=purpose,
        )
    assert [one.check_id for one in checks if one.status == "fail"] == []
    assert sum(one.status == "pass" for one in checks) >= 50
