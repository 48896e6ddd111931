"""`trace environment`: forecast, versions, export, with their exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from trace_assets.cli.main import app
from trace_assets.environments.contract.description import TargetContract
from trace_assets.environments.writers.writer import environment_id
from trace_assets.errors import CheckFailed, InputError
from trace_assets.records import (
    CapabilitySpec,
    ContractRow,
    Environment,
    EnvironmentVerdict,
    EnvironmentVersion,
    SelectedCapability,
)
from trace_assets.study import Study

pytestmark = pytest.mark.filterwarnings("ignore:.*isolates nothing")
NAME = "write-without-read"
MODEL = ["--set", "synthesis.writer=model", "--set", "synthesis.model=m"]
PRICES = ["--set", "writer.prompt_usd=1", "--set", "writer.completion_usd=4", "--set", "writer.cap_usd=2"]
UNSAFE = ["--set", "sandbox.backend=unsafe-subprocess"]
Run = Callable[..., Any]


@pytest.fixture
def run(
    contract: TargetContract,
    specs: dict[str, CapabilitySpec],
    sources: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> Run:
    """Run a command on a home that holds one written environment."""
    store = Study.open().store
    row = ContractRow(
        target=contract.target,
        fingerprint=contract.fingerprint(),
        n_trajectories=contract.n_trajectories,
        contract=contract.model_dump(mode="json"),
    )
    store.write([row], ContractRow)
    spec, source = specs["write_without_read"], sources["write_without_read"]
    store.write([spec], CapabilitySpec, NAME)
    kept = SelectedCapability(
        capability_id=NAME, target="embedded", name="n", kept=True, rank=1, reason="r", marginal_coverage=None
    )
    store.write([kept], SelectedCapability)
    written = {"capability_id": NAME, "environment_id": environment_id(source), "source": source}
    store.write(
        [Environment(**written, target="embedded", writer="model:m", n_versions=2)], Environment, NAME
    )
    first = EnvironmentVersion(
        capability_id=NAME, round=0, environment_id="", source="", writer="model:m", reply="refusal"
    )
    last = EnvironmentVersion(**written, round=1, writer="model:m", kept=True, outcome="given up.")
    store.write([first, last], EnvironmentVersion, NAME)

    def ran(*arguments: str) -> Any:
        for name in ("TRACE_SET", "TRACE_CONFIG", "DAGSTER_HOME"):
            monkeypatch.setenv(name, "")  # a command tells them to its children, which here is this process
        return CliRunner().invoke(app, ["environment", *arguments], catch_exceptions=True)

    return ran


def test_the_forecast_says_the_least_and_the_most_and_asks_nobody(run: Run) -> None:
    done = run("forecast", *MODEL, *PRICES)
    assert done.exit_code == 0, done.output
    assert f"{NAME}, if the first draft is accepted: 1 requests" in done.output
    assert f"{NAME}, at the most: 6 requests" in done.output and "cap: $2" in done.output
    rows = json.loads(run("forecast", *MODEL, *PRICES, "--json").output)["environments"]
    assert 0 < rows[0]["usd"] < rows[1]["usd"] and rows[0]["prompt_tokens"] > 2000
    assert isinstance(run("forecast").exception, InputError)
    assert json.loads(run("forecast", "--set", "synthesis.writer=auto", *MODEL[2:], "--json").output) == {
        "environments": [],
        "left_out": {NAME: "a recipe writes it, which costs nothing"},
        "spent_usd": 0.0,
    }


def test_a_forecast_without_a_row_says_why(run: Run) -> None:
    store = Study.open().store
    store.write([], CapabilitySpec, NAME)
    said = run("forecast", *MODEL).output
    assert f"{NAME}: nothing foreseen: it is not specified yet" in said and "--select capability_spec" in said
    store.write([], SelectedCapability)
    assert "No capability is kept" in run("forecast", *MODEL).output


def test_versions_shows_every_round_and_its_source(run: Run, sources: dict[str, str]) -> None:
    shown = run("versions", NAME).output
    assert "round 0" in shown and "refusal" in shown and "given up." in shown
    assert run("versions", NAME, "--source", "1").output == sources["write_without_read"] + "\n"
    assert [row["round"] for row in json.loads(run("versions", NAME, "--json").output)] == [0, 1]
    assert "it has 0 to 1" in str(run("versions", NAME, "--source", "7").exception)
    assert NAME in str(run("versions", "other").exception)


def test_a_stored_environment_is_exported_only_once_it_is_accepted(run: Run, tmp_path: Path) -> None:
    command = ("export", NAME, "--format", "trl", "--to", str(tmp_path / "out"), *UNSAFE)
    refused = run(*command)
    assert isinstance(refused.exception, CheckFailed) and "--anyway" in str(refused.exception)
    assert not (tmp_path / "out").exists()
    assert run(*command, "--anyway").exit_code == 0
    store = Study.open().store
    accepted = EnvironmentVerdict(
        capability_id=NAME, environment_id=store.read(Environment, NAME)[0].environment_id, accepted=True
    )
    store.write([accepted], EnvironmentVerdict, NAME)
    done = run(*command, "--json")
    assert done.exit_code == 0, done.output
    files = json.loads(done.output.splitlines()[-1])["files"]
    assert {Path(file).name for file in files} == {"README.md", "__init__.py", "environment.txt"}


def test_a_file_is_exported_under_its_own_name(run: Run, tmp_path: Path, sources: dict[str, str]) -> None:
    file = tmp_path / "My desk.py"
    file.write_text(sources["object_untouched"], encoding="utf-8")
    for form in ("openenv", "trl", "verifiers"):
        done = run("export", str(file), "--format", form, "--to", str(tmp_path / form), *UNSAFE)
        assert done.exit_code == 0, done.output
    assert (tmp_path / "trl" / "my_desk" / "__init__.py").is_file()
    assert "class MyDeskTaskset" in (tmp_path / "verifiers" / "my_desk" / "taskset.py").read_text()
    other = run("export", str(file), "--format", "gym", "--to", str(tmp_path / "x"))
    assert isinstance(other.exception, InputError) and "openenv, trl, verifiers" in str(other.exception)
    missing = run("export", "nothing", "--format", "trl", "--to", str(tmp_path / "x"))
    assert isinstance(missing.exception, InputError) and NAME in str(missing.exception)


def test_the_forecast_says_what_judging_costs_whoever_writes(run: Run) -> None:
    judged = ["--set", "synthesis.judge=m", *PRICES]
    done = run("forecast", *judged)
    assert done.exit_code == 0, done.output
    assert f"{NAME}, judged once: 10 requests" in done.output
    assert f"{NAME}, judged, at the most: {57 * 5} requests" in done.output, "four repairs of each answer"
    once, most = json.loads(run("forecast", *judged, "--json").output)["environments"]
    assert 0 < once["usd"] < most["usd"]
    judged += ["--set", "writer.repairs=0"]
    unrepaired = json.loads(run("forecast", *judged, "--json").output)["environments"][1]
    assert unrepaired["calls"] == 57 and unrepaired["usd"] * 5 < most["usd"]
    both = json.loads(run("forecast", *MODEL, *judged, "--json").output)["environments"]
    assert [row["calls"] for row in both] == [1, 6, 10, 6 * 57], "each version may be judged"
