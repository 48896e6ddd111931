"""What the settings name and there is none of: refused before anything is planned, on every door."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest

from trace_assets.cli.forecast import forecast
from trace_assets.cli.progress import run_sync
from trace_assets.errors import InputError
from trace_assets.orchestration.jobs import whole_loop
from trace_assets.settings import load_settings
from trace_assets.study import Study
from trace_assets.training.base_folder import gone_folder
from trace_assets.workflows.budget import budget

NAMED = {
    "targets.name=nowhere": "targets.name is 'nowhere'",
    "targets.name=tau2:nowhere": "targets.name is 'tau2:nowhere'",
    "targets.path=gone/target.py": "target.py is not there",
    'targets.options.desk="z"': "its 'desk' is wrong",
    "base_model.path=/gone/agent": "the folder /gone/agent is not there",
    "base_model.path=./agent": "agent is not there",
}


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Study]:
    monkeypatch.chdir(tmp_path)
    return lambda one: Study.open(tmp_path / "home", None, [one])


@pytest.mark.parametrize("one", NAMED)
def test_what_there_is_none_of_is_no_plan(one: str, study: Callable[[str], Study]) -> None:
    for plan in (forecast, budget):
        with pytest.raises(InputError) as told:
            plan(study(one))
        assert NAMED[one] in str(told.value)


def test_a_sync_refuses_an_unknown_target_before_it_begins(study: Callable[[str], Study]) -> None:
    opened = study("targets.name=nowhere")
    with pytest.raises(InputError, match=r"targets\.name is 'nowhere'"):
        run_sync(opened, live=True)
    assert not (opened.home.path / "tables").exists(), "and nothing was made"


def test_what_is_named_and_may_be_there_is_planned(study: Callable[[str], Study]) -> None:
    for one in ("targets.name=tau2:airline", "targets.name=openenv:echo", "base_model.path=Qwen/Qwen3-0.6B"):
        assert forecast(study(one)).due


def test_a_folder_that_is_gone_is_told_from_a_name_on_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    agents, home = tmp_path / "agents", tmp_path / "home"
    (agents / "first").mkdir(parents=True)
    (home / "models" / "agents" / "1").mkdir(parents=True)
    (tmp_path / "file").write_text("no folder")
    for there in ("agents/first", str(agents / "first"), "gpt2", "Qwen/Qwen3-0.6B"):
        assert gone_folder(there) == ""
    assert gone_folder("models/agents/1", home) == ""
    for gone in ("agents/second", str(agents / "second"), "./first", "../a", "~/agent", "a/b/c", "ägent"):
        assert "is not there" in gone_folder(gone, home), gone
    assert "is no folder" in gone_folder("file")
    assert "hf download agents/second" in gone_folder("agents/second")
    monkeypatch.setattr("trace_assets.training.base_folder._downloaded", lambda name: name == "agents/second")
    assert gone_folder("agents/second") == "", "it is in the hub's own cache"


def test_the_hub_is_not_asked_for_a_folder_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transformers = pytest.importorskip("transformers")
    from trace_assets.training.demo_agent.model import describe_model

    def asked(*_: object, **__: object) -> None:
        raise AssertionError("the hub was asked")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(transformers.AutoConfig, "from_pretrained", asked)
    (tmp_path / "agents").mkdir()
    for gone in (str(tmp_path / "agent"), "agents/first"):
        with pytest.raises(InputError, match="is not there"):
            describe_model(gone)


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("selection", "max_q", 7.0),
        ("rollouts", "trials", -1),
        ("discovery", "analyst", "nobody"),
        ("targets", "options", "{desk = 'b'"),
    ],
)
def test_the_launchpad_refuses_what_the_file_refuses(
    section: str, key: str, value: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trace_assets.orchestration.jobs._same_history", lambda *_: None)
    monkeypatch.setattr("trace_assets.orchestration.jobs.sync_process", lambda *_: pytest.fail("it began"))
    file = tmp_path / "trace.toml"
    file.write_text(f"[{section}]\n{key} = {json.dumps(value)}\n")
    with pytest.raises(InputError) as of_file:
        load_settings(file, environment={})
    config = {"ops": {"bring_up_to_date": {"config": {"settings": {section: {key: value}}}}}}
    with dg.DagsterInstance.ephemeral() as instance, pytest.raises(dg.Failure) as refused:
        whole_loop.execute_in_process(
            config, instance=instance, resources={"study": Study.open(tmp_path / "home", None, [])}
        )
    assert refused.value.description == str(of_file.value).replace(str(file), "the launchpad")
