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
from trace_assets.resources.contract import read_contract
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


def _asked_for(name: str, target: str, title: str, description: str) -> CapabilitySpec:
    return CapabilitySpec(
        capability_id=WRITTEN[name],
        target=target,
        name=title,
        description=description,
        detector=None,
        detector_args={},
    )


ASKED_FOR = {
    "airline_open_choices": _asked_for(
        "airline_open_choices",
        "tau2:airline",
        "Ask the user for every open choice of an action instead of choosing for them",
        "Needed when a tool call requires a value that is for the user to choose and that the user has not "
        "given, such as the payment method or the number of checked bags. Exercised when the agent asks for "
        "each such value and acts on the reply. Lacking when it picks a value itself, either silently in the "
        "tool call or by writing it unasked into the summary to be confirmed.",
    ),
    "retail_every_record": _asked_for(
        "retail_every_record",
        "tau2:retail",
        "Open every record that may hold the information before saying it is not on file",
        "Needed when the user refers to data stored in one of several orders or other records of the account "
        "that the agent has not yet identified, such as an address used before. Exercised when the agent "
        "opens each record listed in the profile until it finds the data and uses it, and reports absence "
        "only after all were opened. Lacking when it reads only some of the records, states that nothing of "
        "the kind is on file or that all were checked, and asks the user to supply it.",
    ),
}
"""As the recorded model named them at first; recorded anew, it names cases of them, so no run is labelled."""
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
    domain = name.partition("_")[0]
    policy = (Path(os.environ[REAL]).parent / "domains" / domain / "policy.md").read_text("utf-8").strip()
    config = tmp_path / "trace.toml"
    config.write_text(settings(DIAGNOSIS), encoding="utf-8")
    (tmp_path / "runs").mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TRACE_H", "OPENAI_"))}
    for words in (
        ["ingest", *map(str, write_runs(tmp_path / "runs"))],
        ["diagnose"],
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
    purpose = Purpose(ASKED_FOR[name])
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
