"""What comes after a finished loop works without the sandbox it was made in, and without any."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.assets.scripted_loop import SMALL, finished_loop, stand_ins
from tests.orchestration.simulations import simulation_file
from trace_assets.cli import tables
from trace_assets.cli.forecast import forecast, needs_sandbox, show
from trace_assets.cli.main import main
from trace_assets.definitions import build
from trace_assets.orchestration import jobs
from trace_assets.orchestration.instance import prepare_instance
from trace_assets.sandbox import SandboxConfig, SandboxUnavailable, pool
from trace_assets.settings import Settings, load_settings
from trace_assets.settings.training import SandboxSection
from trace_assets.store.history import record
from trace_assets.study import Study
from trace_assets.workflows.ingest import ingest

OVERRIDES = [f"{key}={value}" for key, value in SMALL.items()]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home in which everything was made."""
    with stand_ins(), pytest.MonkeyPatch.context() as patch:
        loop, _ = finished_loop(tmp_path_factory)
        patch.setenv("DAGSTER_HOME", str(loop.home.dagster))
        with prepare_instance(loop.home) as instance:
            loop.record_in(instance)
        yield loop.home.path


@pytest.fixture
def command(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Gives a command on the finished home, where no sandbox is to be had."""

    def unavailable(_: object) -> Any:
        raise SandboxUnavailable("no sandbox can be had here")

    monkeypatch.setattr(pool, "make_backend", unavailable)
    monkeypatch.setattr(tables, "print_everything", lambda *_: None)
    monkeypatch.setenv("TRACE_HOME", str(finished))
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> int:
        settings = [part for one in OVERRIDES for part in ("--set", one)]
        monkeypatch.setattr(sys, "argv", ["trace", *arguments, *settings])
        with stand_ins(), pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code if isinstance(ended.value.code, int) else 0

    return run


@pytest.mark.ci
def test_the_same_again_says_that_there_is_nothing_to_do(
    command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in (("demo", "--jobs", "0"), ("sync", "--jobs", "0"), ("sync", "--dry-run")):
        assert command(*arguments) == 0, capsys.readouterr().err
        assert "Everything is up to date." in capsys.readouterr().out
    assert command("sync", "--dry-run", "--json", "--set", "sandbox.backend=bubblewrap") == 0
    assert json.loads(capsys.readouterr().out)["due"] == []


def test_a_sandbox_is_asked_for_when_something_due_needs_one(
    command: Callable[..., int], finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def study(*edits: str, home: Path = finished) -> Study:
        return Study.open(home, None, [*OVERRIDES, *edits])

    assert not needs_sandbox(study()) and not needs_sandbox(study("selection.min_gap=0.21"))
    assert needs_sandbox(study("sandbox.memory_mb=512"))
    assert needs_sandbox(study(home=tmp_path / "new")), "before hours of rollouts, not after"
    assert command("demo", "--set", "sandbox.memory_mb=512") == 3
    assert "no sandbox can be had here" in capsys.readouterr().err


@pytest.mark.slow
def test_the_button_for_everything_finds_nothing_to_do(
    finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACE_HOME", str(finished))
    monkeypatch.setenv("TRACE_SET", "\n".join(OVERRIDES))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{finished}/nobody.sock")
    study = Study.open(finished, None, OVERRIDES)
    with prepare_instance(study.home) as instance:
        result = (
            build(study)
            .get_job_def("whole_loop")
            .execute_in_process(instance=instance, resources={"study": study}, raise_on_error=False)
        )
        said = [
            event.message for event in instance.all_logs(result.run_id) if "made" in (event.message or "")
        ]
    assert result.success, said


def test_the_button_names_what_it_would_have_replaced() -> None:
    kept = {"adapter[x]": {"work": "an adapter of 8 rollouts", "why": "training.seed was 0", "asked": True}}
    said = jobs._reason({"kept": kept}, 2, "")
    assert "adapter[x] (an adapter of 8 rollouts: training.seed was 0)" in said and "`again`" in said
    left = jobs._reason({"kept": {"a": {**kept["adapter[x]"], "asked": False}}, "failed": {"b": "no"}}, 3, "")
    assert left == "failed: b: no"


def test_one_default_and_no_part_of_the_fingerprint() -> None:
    assert Settings().sandbox.backend == SandboxConfig().backend == "auto"
    prints = {SandboxSection(backend=name).fingerprint() for name in ("auto", "docker", "bubblewrap")}
    assert prints == {SandboxSection().fingerprint()}
    assert SandboxSection(backend="unsafe-subprocess").fingerprint() not in prints
    assert SandboxSection(memory_mb=512).fingerprint() not in prints
    toml = load_settings(Path(__file__).parents[2] / "trace.toml", [])
    assert toml.sandbox == SandboxSection()


def test_what_files_cost_elsewhere_is_no_forecast(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = Study.open(tmp_path / "home", None, [])
    ingest(study, [simulation_file(tmp_path / "desk.json", "desk", n=3, lacking=1)])
    for asset, partition, usd in (("trajectories", "desk", 8.82), ("labels", "desk", 0.5)):
        spent = {("wall", "s"): 2.0}
        record(study.store, spent, stage="x", asset=asset, partition=partition, cost_usd=usd)
    found = forecast(study)
    due = {str(step.item): one for step, one in found.due}
    assert due["trajectories[desk]"].usd.middle == 0.0 and due["trajectories[desk]"].seconds.middle == 2.0
    assert due["labels[desk]"].usd.middle == 0.5, "what a model was paid here is"
    assert found.document()["total_at_most"]["usd"]["middle"] == 0.5
    assert not any(step.item.partition == "embedded" for step, _ in found.due)
    from rich.console import Console

    show(found, Console(width=200, highlight=False))
    assert "belongs to the live target 'embedded'" in capsys.readouterr().out


def test_the_dry_run_says_likely_beside_at_the_most(
    finished: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRACE_HOME", str(finished))
    found = forecast(Study.open(finished, None, [*OVERRIDES, "selection.min_relevant=9"]))
    likely = {item.asset for item, _ in found.likely}
    assert likely == {"failure_causes", "capability_spec", "curriculum", "report"}
    assert {"adapter", "mixed_adapter", "evaluation"} <= {item.asset for item, _ in found.may_follow} - likely
    document = found.document()
    assert (
        document["total_likely"]["episodes"]["middle"] == 0 < document["total_at_most"]["episodes"]["middle"]
    )
    from rich.console import Console

    show(found, Console(width=300, highlight=False))
    printed = capsys.readouterr().out
    assert "Likely to follow" in printed and "capability_spec (3)" in printed and "At the most" in printed
    assert printed.index("Likely") < printed.index("At the most")
