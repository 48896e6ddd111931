"""`trace init`, `trace plan`, `trace run`: from a model folder to a study, as docs/your-model.md says it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import httpx
import pytest

from tests.cli.test_cli import trace
from trace_assets.errors import InputError, Unavailable
from trace_assets.settings import Settings, load_settings
from trace_assets.store import Home
from trace_assets.store.history import record
from trace_assets.study import Study
from trace_assets.system.machine import Accelerator
from trace_assets.training.presets import CPU, EIGHT, ONE, SHAPES, choose_preset, preset_names, read_shape
from trace_assets.workflows import budget as budgets
from trace_assets.workflows import new_study
from trace_assets.workflows.budget import budget
from trace_assets.workflows.new_study import (
    NewStudy,
    analyst_address,
    find_model,
    read_back,
    settings_text,
    user_options,
)

PAGE = Path(__file__).parents[2] / "docs" / "your-model.md"
H100 = Accelerator("NVIDIA H100 80GB HBM3", 80.0)
QWEN3_4B = {
    "num_hidden_layers": 36,
    "hidden_size": 2560,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 9728,
    "vocab_size": 151936,
    "tie_word_embeddings": True,
}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(QWEN3_4B), encoding="utf-8")
    return folder


def test_the_shape_of_a_model_is_read_from_its_configuration(model: Path, tmp_path: Path) -> None:
    assert read_shape(model) == SHAPES["qwen3-4b"]
    mixture = {
        **QWEN3_4B,
        **dict(num_hidden_layers=48, hidden_size=2048, num_key_value_heads=4, moe_intermediate_size=768),
        **dict(num_experts=128, num_experts_per_tok=8, tie_word_embeddings=False),
    }
    (model / "config.json").write_text(json.dumps({"text_config": mixture}), encoding="utf-8")
    assert read_shape(model) == SHAPES["qwen3-30b-a3b"]
    (model / "config.json").write_text("{", encoding="utf-8")
    assert read_shape(model) is None
    assert read_shape(tmp_path / "nowhere") is None


@pytest.mark.parametrize(
    ("name", "devices", "preset", "fits"),
    [
        ("qwen3-4b", [], CPU, None),
        ("qwen3-4b", [H100], ONE, True),
        ("qwen3-4b", [Accelerator("NVIDIA L4", 24.0)], ONE, False),
        ("qwen3-30b-a3b", [H100], ONE, False),
        ("qwen3-30b-a3b", [H100] * 8, EIGHT, True),
        ("qwen3-30b-a3b", [Accelerator("NVIDIA L4", 24.0)] * 8, EIGHT, False),
        (None, [H100], ONE, None),
    ],
)
def test_the_preset_follows_from_the_devices(
    name: str | None, devices: list[Accelerator], preset: str, fits: bool | None
) -> None:
    choice = choose_preset(SHAPES[name] if name else None, devices)
    assert (choice.name, choice.fits) == (preset, fits)


def test_fewer_episodes_are_in_flight_where_memory_asks_for_it() -> None:
    small = choose_preset(SHAPES["qwen3-4b"], [Accelerator("NVIDIA L40S", 40.0)])
    assert small.fits and small.section.concurrency == 8
    assert choose_preset(SHAPES["qwen3-4b"], [H100]).section.concurrency == 16


@pytest.mark.parametrize("preset", preset_names())
@pytest.mark.parametrize("vllm", [False, True])
@pytest.mark.parametrize("target", ["embedded", "tau2:retail"])
def test_what_is_written_is_what_is_read_back(preset: str, vllm: bool, target: str) -> None:
    choice = choose_preset(SHAPES["qwen3-4b"], [H100] * 8, preset)
    options = {"user": "model", "user_model": 'a "b"\\c'}
    reader = ("strong", "http://127.0.0.1:1/v1") if vllm else ("", "")
    text = settings_text(NewStudy(target, "", "/models/qwen", choice, options, vllm, *reader))
    settings = read_back(text)
    assert (settings.labels.model, settings.analyst.base_url) == reader
    assert settings.targets.options == options and settings.base_model.path == "/models/qwen"
    assert settings.training.learning_rate == choice.section.learning_rate
    assert (settings.training.sampler == "colocate") is (vllm and preset == ONE)
    assert (settings.rollouts.engine == settings.evaluation.engine == "vllm") is vllm
    for section in (settings.rollouts, settings.evaluation):
        assert section.max_new_tokens == settings.training.max_new_tokens
        assert section.max_turns == settings.training.max_turns
    if target != "embedded":  # its limits are too short for a benchmark
        assert settings.evaluation.max_turns == 30


@pytest.mark.parametrize(
    ("target", "user", "words"),
    [
        ("tau2:retail", "", "--user scripted"),
        ("tau2:retail", "gpt", "no address"),
        ("tau2:telecom_solo", "scripted", "nobody plays the user"),
        ("embedded", "scripted", "takes no --user"),
    ],
)
def test_a_user_that_cannot_be_is_refused(target: str, user: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        user_options(target, user, "")


def test_the_analyst_is_at_the_users_server_unless_another_is_named() -> None:
    user = "http://127.0.0.1:1/v1"
    assert analyst_address("", "", user) == ""
    assert analyst_address("m", "", user) == user
    assert analyst_address("m", "http://127.0.0.1:2/v1", user) == "http://127.0.0.1:2/v1"
    for wrong in (("m", "", "scripted"), ("", "http://127.0.0.1:2/v1", user)):
        with pytest.raises(InputError, match="--base-url"):
            analyst_address(*wrong)


def test_the_users_model_is_asked_of_its_server(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["one"]

    def get(address: str, **_: object) -> httpx.Response:
        assert address == "http://127.0.0.1:1/v1/models"
        data = {"data": [{"id": name} for name in names]}
        return httpx.Response(200, json=data, request=httpx.Request("GET", address))

    monkeypatch.setattr(new_study.httpx, "get", get)
    address = "http://127.0.0.1:1/v1"
    assert user_options("tau2:retail", address, "")["user_model"] == "one"
    names.append("two")
    with pytest.raises(InputError, match="one, two"):
        user_options("tau2:retail", address, "")
    monkeypatch.undo()
    with pytest.raises(Unavailable, match="--user-model"):
        user_options("tau2:retail", address, "")


def test_a_model_is_a_folder_or_a_name_of_the_hub(model: Path, tmp_path: Path) -> None:
    assert find_model(str(model), "embedded") == str(model)
    assert find_model("Qwen/Qwen3-4B", "embedded") == "Qwen/Qwen3-4B"
    assert find_model("", "embedded") == ""
    for named, words in (
        (str(tmp_path / "x"), "no model folder"),
        (str(tmp_path), "no config.json"),
        ("", "--model"),
    ):
        with pytest.raises(InputError, match=words):
            find_model(named, "tau2:retail")


def test_init_writes_settings_and_says_what_is_missing(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("TRACE_HOME", raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    to = ("--to", str(tmp_path / "study"))
    arguments = ("init", "--target", "tau2:retail", "--model", str(model), "--user", "scripted", *to)
    assert trace(monkeypatch, *arguments, "--json") == 3
    said = json.loads(capsys.readouterr().out)
    assert any("git clone https://github.com/sierra-research/tau2-bench" in one for one in said["missing"])
    written = tomllib.loads((tmp_path / "study" / "trace.toml").read_text(encoding="utf-8"))
    assert written["targets"] == {"name": "tau2:retail", "options": {"user": "scripted"}}
    assert trace(monkeypatch, *arguments) == 2  # it stands, and is not written over
    assert "--force" in capsys.readouterr().err


def test_init_refuses_a_target_that_there_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert trace(monkeypatch, "init", "--target", "tau2:shop", "--to", str(tmp_path / "a")) == 2
    assert "tau2:retail" in capsys.readouterr().err
    assert trace(monkeypatch, "init", "--target", "x/target.py", "--to", str(tmp_path / "a")) == 2
    assert "trace targets new" in capsys.readouterr().err
    assert not (tmp_path / "a").exists()


def study_of(home: Path, *settings: str) -> Study:
    return Study(Home.open(home), load_settings(None, settings))


def test_a_budget_counts_what_the_settings_play(tmp_path: Path) -> None:
    small = ("targets.discovery_tasks=30", "targets.validation_tasks=20", "targets.test_tasks=10")
    found = budget(study_of(tmp_path, *small), found=[])
    episodes = {stage.asset: stage.episodes for stage in found.stages}
    assert found.tasks == {"discovery": 30, "validation": 20, "test": 10}
    assert episodes["trajectories"] == (60, 60)
    assert episodes["environment_audit"] == (0, 6 * 64 * 8)
    assert episodes["adapter"] == (0, 6 * (22 * 16 * 8 + 4 * 64 + 2 * 256))
    assert episodes["evaluation"] == (0, 8 * 10 * 4)
    assert found.hours == (0.0, 0.0) or found.hours is None
    assert found.memory_gib is None and found.usd is None
    assert 0 <= found.gap_power[0.2] <= found.gap_power[0.4] <= 1
    json.dumps(found.document())


def test_hours_come_from_earlier_runs_before_arithmetic(tmp_path: Path, model: Path) -> None:
    study = study_of(tmp_path / "home", f"base_model.path={model}")
    by_rates = {stage.asset: stage for stage in budget(study, found=[H100]).stages}
    assert by_rates["trajectories"].hours and "arithmetic" in by_rates["trajectories"].basis
    learning, playing = by_rates["adapter"], by_rates["environment_audit"]
    assert learning.hours and playing.hours
    assert learning.hours[1] / learning.episodes[1] > playing.hours[1] / playing.episodes[1]
    for seconds in (100.0, 300.0):
        spent = {("wall", "s"): seconds, ("rollouts", "episodes"): 100.0}
        record(study.store, spent, stage="rollouts", asset="trajectories", partition="embedded")
    measured = {stage.asset: stage for stage in budget(study, found=[H100]).stages}["trajectories"]
    assert measured.basis == "2 earlier runs"
    assert measured.hours == pytest.approx((800 / 3600, 3 * 800 / 3600))


def test_what_demonstrations_take_is_in_the_hours(tmp_path: Path, model: Path) -> None:
    """They are learned beside what is played: an adapter's episodes are the same, its hours at most more."""

    from trace_assets.training.warm_start import EPISODES, STEPS

    def adapters(*settings: str) -> budgets.Stage:
        study = study_of(tmp_path / "home", f"base_model.path={model}", *settings)
        found = budget(study, found=[H100])
        return next(stage for stage in found.stages if stage.asset == "adapter")

    without, asked = adapters("training.warm_start=never"), adapters("training.warm_start=when_dead")
    assert (without.learned, asked.learned) == (0, 6 * STEPS * EPISODES)
    assert asked.episodes == without.episodes
    assert without.hours and asked.hours
    assert asked.hours[0] == without.hours[0], "where none is due nothing is learned"
    assert asked.hours[1] > without.hours[1]
    assert adapters("training.warm_start=when_dead", "training.shard=true").learned == 0


def test_a_budget_says_what_it_cannot_know(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user = ('targets.options={user = "model", user_model = "mine", user_base_url = "http://127.0.0.1:1/v1"}',)
    study = study_of(tmp_path, "targets.name=tau2:retail", *user)
    found = budget(study, found=[])
    said = " ".join(found.missing)
    assert "git clone" in said and "hours of trajectories" in said and "price of the simulated user" in said
    assert found.tasks_basis == "at most" and found.episode == budgets.PUBLISHED["tau2:retail"]
    with pytest.raises(InputError, match="--gpu-usd"):
        budget(study, gpu_usd=-1.0, found=[])


def test_an_hour_has_a_price_when_it_is_named(tmp_path: Path, model: Path) -> None:
    study = study_of(tmp_path / "home", f"base_model.path={model}")
    found = budget(study, gpu_usd=2.0, found=[H100])
    assert found.hours and found.usd == pytest.approx((2 * found.hours[0], 2 * found.hours[1]))


def test_plan_starts_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert trace(monkeypatch, "plan") == 0
    said = capsys.readouterr().out
    assert "evaluation" in said and "Nothing was started" in said
    assert trace(monkeypatch, "plan", "--gap", "0.3", "--gain", "0.1") == 2


def page_lines() -> list[str]:
    """Return the commands of the walk on a CPU."""
    text = PAGE.read_text(encoding="utf-8").partition("## The same on a CPU")[2]
    block = re.search(r"```sh\n(.*?)```", text, re.DOTALL)
    assert block
    return block[1].splitlines()


# As small as it goes: what is walked is the way, not what is learned.
TINY = {
    "TRACE__TARGETS__DISCOVERY_TASKS": "16",
    "TRACE__TARGETS__VALIDATION_TASKS": "8",
    "TRACE__TARGETS__TEST_TASKS": "8",
    "TRACE__BASE_MODEL__STEPS": "20",
    "TRACE__BASE_MODEL__MAX_STEPS": "20",
    "TRACE__BASE_MODEL__CHECK_TASKS": "20",
    "TRACE__BASE_MODEL__PASS_RATE_LOW": "0",
    "TRACE__BASE_MODEL__TAUGHT_RATE": "0",
    "TRACE__BASE_MODEL__LACKING_RATE": "0",
    "TRACE__ROLLOUTS__MAX_NEW_TOKENS": "16",
    "TRACE__ROLLOUTS__MAX_TURNS": "3",
    "TRACE__EVALUATION__MAX_NEW_TOKENS": "16",
    "TRACE__EVALUATION__MAX_TURNS": "3",
    "TRACE__TRAINING__MIXED_ARM": "false",
}


@pytest.mark.slow
@pytest.mark.train
def test_the_page_can_be_walked_on_a_cpu(tmp_path: Path) -> None:
    program = f"{sys.executable} -m trace_assets"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TRACE_")}
    ends = {}
    for line in page_lines():
        command = re.sub(r"\btrace (?=[a-z])", f"{program} ", line)
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=tmp_path,
            env={**kept, **TINY},
            capture_output=True,
            text=True,
            timeout=900,
        )
        ends[line] = (done.returncode, done.stdout + done.stderr)
    codes = [code for code, _ in ends.values()]
    assert codes[:5] == [0, 0, 0, 0, 0], ends[list(ends)[next(n for n, one in enumerate(codes) if one)]]
    release, serve = list(ends.values())[5:]
    assert release[0] in (0, 1, 2) and "Traceback" not in release[1], (
        release
    )  # nothing was learned at this size
    assert serve[0] in (0, 3) and "Traceback" not in serve[1], serve
    assert (tmp_path / "study" / "trace.toml").is_file()
    assert Settings.model_validate(tomllib.loads((tmp_path / "study" / "trace.toml").read_text()))
