"""Contracts of ingested targets through their stage and command, and what follows for their capabilities."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.environments.test_contract import LIBRARY, library
from trace_assets.assets.adapter import train_capability
from trace_assets.assets.environment import write_capability_environment
from trace_assets.assets.environment_audit import audit_environment
from trace_assets.assets.selected_capabilities import kept_capabilities, trainable
from trace_assets.assets.target_contract import write_contracts
from trace_assets.assets.trajectories import write_batch
from trace_assets.cli.main import app
from trace_assets.environments.contract.description import read_description
from trace_assets.errors import InputError
from trace_assets.records import (
    CapabilitySpec,
    ContractRow,
    Environment,
    EnvironmentCheck,
    EnvironmentVerdict,
    SelectedCapability,
)
from trace_assets.resources.analysts import context_of
from trace_assets.resources.contract import (
    describe_target,
    known_targets,
    look_up_contract,
    read_contract,
    rollout_obstacle,
    training_obstacle,
)
from trace_assets.settings import load_settings
from trace_assets.store import Home
from trace_assets.store.item_locks import due_items
from trace_assets.store.trajectories import read_trajectories, write_trajectories
from trace_assets.study import Study
from trace_assets.workflows.ingest import ingest
from trace_assets.workflows.ingested_files import keep_notes

TOOLS = [{"name": "get_order", "description": "Reads.", "parameters": {"type": "object", "properties": {}}}]


def line(number: int, **more: Any) -> str:
    order = f"W{number}"
    call = {"name": "get_order", "arguments": json.dumps({"order": order})}
    messages = [
        {"role": "user", "content": f"Where is {order}?"},
        {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": call}]},
        {"role": "tool", "tool_call_id": "c", "content": json.dumps({"order": order, "state": "open"})},
        {"role": "assistant", "content": "It is open."},
    ]
    return json.dumps(
        {"id": f"run-of-the-shop-{number}", "task_id": str(number), "target": "shop", "reward": 1.0}
        | {"messages": messages}
        | more
    )


def study_at(folder: Path, *overrides: str) -> Study:
    return Study(Home.open(folder / "home"), load_settings(None, list(overrides)))


def shop(folder: Path, lines: list[str], *overrides: str) -> Study:
    """A study with a batch of an ingested target, in its inbox and in its store."""
    study = study_at(folder, *overrides)
    file = folder / "shop.jsonl"
    file.write_text("\n".join(lines))
    ingest(study, [file])
    write_batch(study, "shop")
    return study


def test_an_ingested_target_gets_a_contract_with_inferred_tools(tmp_path: Path) -> None:
    study = shop(tmp_path, [line(n) for n in range(6)])
    result = write_contracts(study)
    assert (result.figures["targets"], result.checks[0].passed) == (1, True)
    contract = read_contract(study, "shop")
    assert contract.inferred == ("get_order",)
    assert contract.n_trajectories == 6
    assert contract.result("get_order").json_schema["required"] == ["order", "state"]  # type: ignore[union-attr]
    with pytest.raises(InputError, match="no contract of target 'embedded' yet"):
        read_contract(study)


def test_tools_that_came_with_the_trajectories_are_taken(tmp_path: Path) -> None:
    study = shop(tmp_path, [line(n, tools=TOOLS) for n in range(3)])
    write_contracts(study)
    contract = read_contract(study, "shop")
    (told,) = context_of(study, "shop", read_trajectories(study.store, "shop")).tools
    assert (told.name, told.description) == ("get_order", "Reads.")
    assert contract.inferred == ()
    assert contract.tools[0].description == "Reads."


def test_what_a_person_says_wins_and_makes_the_contract_due(tmp_path: Path) -> None:
    study = shop(tmp_path, [line(n) for n in range(3)])
    tools, policy = tmp_path / "tools.json", tmp_path / "policy.md"
    tools.write_text(json.dumps([{**TOOLS[0], "mutates": False}, {"name": "close_shop"}]))
    policy.write_text("Be brief.")
    assert describe_target(study, "shop", tools, None)
    assert "target_contract" in {asset for asset, _ in due_items(study.home)}
    assert describe_target(study, "shop", None, policy)
    assert not describe_target(study, "shop", tools, policy), "the same again is no news"
    contract = look_up_contract(study, "shop")
    assert ([tool.name for tool in contract.tools], contract.policy) == (
        ["get_order", "close_shop"],
        "Be brief.",
    )
    write_contracts(study)
    assert read_contract(study, "shop").fingerprint() == contract.fingerprint()


def test_a_policy_is_found_in_a_simulation_file(tmp_path: Path) -> None:
    study = shop(tmp_path, [line(n) for n in range(3)])
    file = tmp_path / "results.json"
    file.write_text(json.dumps({"info": {"environment_info": {"policy": "Be kind."}}, "simulations": []}))
    describe_target(study, "shop", None, file)
    assert look_up_contract(study, "shop").policy == "Be kind."


def simulations(folder: Path, name: str, agent: str = "llm_agent", **about: Any) -> Path:
    """A tau2 simulation file with one run."""
    messages = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hi."}]
    content = {
        "info": {
            "agent_info": {"implementation": agent, "llm": "m"},
            "user_info": {},
            "environment_info": {"domain_name": "shop", **about},
            "num_trials": 1,
        },
        "tasks": [{"id": "1"}],
        "simulations": [{"id": f"run-{name}", "task_id": "1", "messages": messages, "trial": 0}],
    }
    file = folder / f"{name}.json"
    file.write_text(json.dumps(content))
    return file


def test_what_simulation_files_say_of_their_target_is_kept(tmp_path: Path) -> None:
    study = study_at(tmp_path)
    first = simulations(tmp_path, "first", policy="Be kind.", tool_defs=TOOLS)
    ingest(study, [first, simulations(tmp_path, "second", policy="Be rude.", tool_defs="none")])
    ingest(study, [simulations(tmp_path, "third", agent="llm_agent_solo", policy="Be kind.")])
    known = read_description(study.home.descriptions, "tau2:shop")
    assert (known.policy, known.policy_from) == ("Be kind.", "ingested: first.json")
    assert [tool.name for tool in known.tools.agent] == ["get_order"]
    assert look_up_contract(study, "tau2:shop").policy == "Be kind."
    assert read_description(study.home.descriptions, "tau2:shop_solo").policy == ""
    policy = tmp_path / "policy.md"
    policy.write_text("Be brief.")
    describe_target(study, "tau2:shop", None, policy)
    assert look_up_contract(study, "tau2:shop").policy == "Be brief."


def test_the_policy_that_all_tasks_of_a_target_tell_is_known_to_whoever_labels(tmp_path: Path) -> None:
    study = shop(tmp_path, [line(n, domain_policy="Be kind.\n") for n in range(2)])
    runs = read_trajectories(study.store, "shop")
    assert context_of(study, "shop", runs).policy == "Be kind."
    known = read_description(study.home.descriptions, "shop")
    assert (known.policy, known.policy_from) == ("Be kind.", "ingested: shop")
    more = tmp_path / "more.jsonl"
    more.write_text(
        "\n".join(line(n, target=name, domain_policy=f"Be {n}.") for n in (7, 8) for name in ("shop", "inn"))
    )
    ingest(study, [more])
    assert read_description(study.home.descriptions, "shop") == known, "an earlier file has said it"
    assert read_description(study.home.descriptions, "inn").policy == "", "its tasks differ"


@pytest.mark.parametrize(
    "content", ["", "{", '{"info": 3, "simulations": []}', "[1]", "\x00\xff", '{"a": "b']
)
def test_other_files_say_nothing(tmp_path: Path, content: str) -> None:
    file = tmp_path / "file.json"
    file.write_text(content, encoding="latin-1")
    assert keep_notes(tmp_path / "notes", [file, tmp_path / "missing.json"]) == []
    assert not (tmp_path / "notes").exists()


def test_held_out_trajectories_stay_out(tmp_path: Path) -> None:
    study = shop(tmp_path, [line(n) for n in range(6)])
    runs = read_trajectories(study.store, "shop")
    changed = [
        run.model_copy(update={"split": "test"}) if number < 4 else run for number, run in enumerate(runs)
    ]
    write_trajectories(study.store, changed, "shop")
    write_contracts(study)
    assert read_contract(study, "shop").n_trajectories == 2


def test_only_a_bounded_sample_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = shop(tmp_path, [line(n) for n in range(8)])
    monkeypatch.setattr("trace_assets.resources.contract.MAX_TRAJECTORIES", 5)
    assert look_up_contract(study, "shop").n_trajectories == 5
    once = look_up_contract(study, "shop").fingerprint()
    write_trajectories(study.store, read_trajectories(study.store, "shop")[::-1], "shop")
    write_contracts(study)
    assert read_contract(study, "shop").fingerprint() == once


def test_a_target_without_calls_is_told_of_and_costs_the_others_nothing(tmp_path: Path) -> None:
    study = shop(tmp_path, [line(n) for n in range(3)])
    talk = read_trajectories(study.store, "shop")[0].model_copy(
        update={"trajectory_id": "talk", "target": "chat", "task_batch": "chat"}
    )
    silent = talk.model_copy(update={"messages": talk.messages[:1]})
    write_trajectories(study.store, [silent], "chat")
    result = write_contracts(study)
    assert [row.target for row in study.store.read(ContractRow)] == ["shop"]
    assert result.checks[0].passed is False
    assert "'chat' calls no tools" in result.checks[0].detail


def test_who_can_act_in_the_environments_of_an_ingested_target(tmp_path: Path) -> None:
    tiny = study_at(tmp_path)
    assert rollout_obstacle(tiny, "embedded") == training_obstacle(tiny, "embedded") == ""
    assert "not the agent of 'shop'" in rollout_obstacle(tiny, "shop")
    served = study_at(tmp_path, "rollouts.engine=openai")
    assert rollout_obstacle(served, "shop") == ""
    assert "base_model.path" in training_obstacle(served, "shop")
    real = study_at(tmp_path, "base_model.path=/models/any")
    assert rollout_obstacle(real, "shop") == training_obstacle(real, "shop") == ""


def test_an_adapter_for_an_ingested_target_is_refused_with_the_reason(tmp_path: Path) -> None:
    study = study_at(tmp_path)
    environment = Environment(environment_id="e", capability_id="a", target="shop", writer="w", source="")
    study.store.write([environment], Environment, "a")
    verdict = EnvironmentVerdict(capability_id="a", environment_id="e", accepted=True, reasons=())
    study.store.write([verdict], EnvironmentVerdict, "a")
    result = train_capability(study, "a")
    assert result.figures["refused"]
    assert (result.checks[0].name, result.checks[0].passed) == ("adapter_trained", False)
    assert "not the agent of 'shop'" in result.checks[0].detail


@pytest.mark.ci
def test_a_capability_of_an_ingested_target_gets_an_audited_environment(tmp_path: Path) -> None:
    study = study_at(tmp_path, "sandbox.backend=unsafe-subprocess", "synthesis.audit_seeds=12")
    write_trajectories(study.store, library(200, 3), "b")
    tools = tmp_path / "tools.json"
    tools.write_text(json.dumps([tool.model_dump(mode="json") for tool in LIBRARY]))
    describe_target(study, "library", tools, None)
    write_contracts(study)
    spec = CapabilitySpec(
        capability_id="c",
        target="library",
        name="n",
        description="d",
        detector="write_against_state",
        detector_args={"tool": "renew_loan", "field": "reserved", "value": "yes", "instead": "ask_librarian"},
    )
    study.store.write([spec], CapabilitySpec, "c")
    assert write_capability_environment(study, "c").figures["writer"] == "recipe:write_against_state"
    with pytest.warns(UserWarning, match="isolates nothing"):
        audit_environment(study, "c")
    checks = {row.check_id: row for row in study.store.read(EnvironmentCheck, "c")}
    # Twelve ways to word a request are fewer than the audit wants of 128 seeds; nothing else is wrong.
    assert {name for name, row in checks.items() if row.status == "fail"} <= {"trace.seed_diversity"}
    assert checks["semantic.oracle_max"].status == checks["trace.mutation.kill_rate"].status == "pass"
    assert checks["trace.pass_band"].status == "skip"
    assert "not the agent of 'library'" in checks["trace.pass_band"].evidence
    fidelity = {name: row.status for name, row in checks.items() if name.startswith("trace.fidelity.")}
    assert set(fidelity.values()) == {"pass"}, fidelity
    assert fidelity.keys() >= {"trace.fidelity.schema", "trace.fidelity.result_shape", "trace.fidelity.auc"}


def test_kept_capabilities_of_every_target_get_environments_and_the_live_ones_are_taught(
    tmp_path: Path,
) -> None:
    study = study_at(tmp_path)
    rows = [
        SelectedCapability(
            capability_id=name,
            target=target,
            name=name,
            kept=kept,
            rank=1,
            reason="",
            marginal_coverage=None,
        )
        for name, target, kept in (("a", "shop", True), ("b", "embedded", True), ("c", "shop", False))
    ]
    study.store.write(rows, SelectedCapability)
    assert kept_capabilities(study) == ["a", "b"]
    assert trainable(study) == ["b"]


def test_the_command_lists_shows_and_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = shop(tmp_path, [line(n) for n in range(3)])
    monkeypatch.setenv("TRACE_HOME", str(study.home.path))
    tools = tmp_path / "tools.json"
    tools.write_text(json.dumps(TOOLS))
    runner = CliRunner()
    listed = runner.invoke(app, ["contract"])
    assert listed.exit_code == 0
    assert "shop" in listed.output
    assert known_targets(study) == ["shop"]
    shown = runner.invoke(app, ["contract", "shop", "--tools", str(tools), "--json"])
    assert json.loads(shown.output)["target"] == "shop"
    assert json.loads(shown.output)["inferred"] == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere"], "no trajectories of target 'nowhere' are here; there are: shop."),
        (["--tools", "t.json"], "say whose tools or policy these are"),
        (["shop", "--tools", "missing.json"], "cannot be read"),
        (["shop", "--policy", "missing.md"], "cannot be read"),
        (["embedded", "--policy", "missing.md"], "is live and names its tools itself"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], says: str
) -> None:
    study = shop(tmp_path, [line(n) for n in range(3)])
    monkeypatch.setenv("TRACE_HOME", str(study.home.path))
    result = CliRunner().invoke(app, ["contract", *arguments])
    assert isinstance(result.exception, InputError)
    assert says in str(result.exception)
    assert "\n" not in str(result.exception)
