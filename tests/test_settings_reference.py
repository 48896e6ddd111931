"""What there is to set: every key is described, listed, in the schema, and set from the environment."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import jsonschema
import pytest

from trace_assets.cli.main import main
from trace_assets.cli.settings import section_readers
from trace_assets.errors import InputError
from trace_assets.settings import SECTIONS, SERVICES, Settings, load_settings
from trace_assets.settings.settings import json_schema, keys_of, setting_rows
from trace_assets.study import Study

KEYS = [(section, key) for section in Settings.model_fields for key in keys_of(section)]


def test_every_key_and_section_is_described() -> None:
    short = [
        f"{section}.{key}"
        for section, key in KEYS
        if len((keys_of(section)[key].description or "").split()) < 2
    ]
    assert not short
    assert not [name for name in Settings.model_fields if not type(getattr(Settings(), name)).__doc__]


def test_rows_hold_every_key_with_the_value_in_force_and_who_reads_it() -> None:
    settings = load_settings(None, ["selection.min_gap=0.3", "analyst.cap_usd=5"], {})
    rows = {(row.section, row.key): row for row in setting_rows(settings, section_readers())}
    assert sorted(rows) == sorted(KEYS)
    gap = rows["selection", "min_gap"]
    assert (gap.default, gap.value) == (0.2, 0.3) and "selected_capabilities" in gap.recomputes
    assert rows["writer", "cap_usd"].value == 5  # as in [analyst]
    assert rows["training", "launcher"].recomputes == () != rows["training", "iterations"].recomputes
    for (section, key), row in rows.items():
        assert not row.recomputes or section not in SERVICES, (section, key)


def test_what_is_for_experts_comes_last_and_each_section_has_something_for_everybody() -> None:
    rows = setting_rows(Settings(), section_readers())
    for name in Settings.model_fields:
        own = [row for row in rows if row.section == name]
        assert [row.expert for row in own] == sorted(row.expert for row in own) and not own[0].expert
        assert type(getattr(Settings(), name)).expert <= {row.key for row in own}, name
    assert sum(not row.expert for row in rows) < len(rows) * 0.6


def test_keys_for_experts_are_named_and_shown_where_they_are_set_or_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--set", "selection.min_alpha=0.7") == 0
    few = capsys.readouterr().out
    assert " min_alpha " in few and " cost_group_size " not in few
    assert "for experts: min_gap_low, min_coverage_low" in few and "(trace settings selection)" in few
    for asked in (("selection",), ("--all",)):
        assert run(monkeypatch, *asked) == 0
        assert " cost_group_size " in capsys.readouterr().out


def test_each_section_of_a_stage_has_a_reader() -> None:
    """What reads a section is what an edit of it makes due in the graph."""
    assert set(section_readers()) == set(SECTIONS)


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["trace", "settings", *arguments])
    with pytest.raises(SystemExit) as exit:
        main()
    return exit.value.code if isinstance(exit.value.code, int) else 0


def test_the_command_shows_a_section_or_all(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "selection", "--set", "selection.min_gap=0.3") == 0
    shown = capsys.readouterr().out
    assert "min_gap" in shown and "0.3" in shown and "recomputes selected_capabilities" in shown
    assert "lora_rank" not in shown
    assert run(monkeypatch, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert sorted((row["section"], row["key"]) for row in told) == sorted(KEYS)
    assert run(monkeypatch, "watch") == 0
    assert "recomputes nothing" in capsys.readouterr().out
    assert run(monkeypatch, "selecton") == 2
    assert "did you mean 'selection'" in capsys.readouterr().err


def test_the_schema_knows_what_the_program_knows(
    project_root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--schema") == 0
    schema = json.loads(capsys.readouterr().out)
    assert schema == json_schema()
    check = jsonschema.Draft202012Validator(schema)
    check.check_schema(schema)
    assert check.is_valid(tomllib.loads((project_root / "trace.toml").read_text()))
    assert check.is_valid(Settings().model_dump(mode="json"))
    for wrong in ({"selecton": {}}, {"selection": {"min_gp": 1}}, {"selection": {"min_gap": 2}}):
        assert not check.is_valid(wrong), wrong


@pytest.mark.parametrize(
    ("item", "meant"),
    [
        ("selection.min_gp=1", "selection.min_gap"),
        ("training.itterations=1", "training.iterations"),
        ("discovery.min_gap=1", "selection.min_gap"),
        ("trainin.iterations=1", "training"),
    ],
)
def test_a_typo_gets_a_suggestion(item: str, meant: str, tmp_path: Path) -> None:
    name, _, value = item.partition("=")
    section, key = name.split(".")
    with pytest.raises(InputError, match=f"--set sets; did you mean '{meant}'"):
        load_settings(None, [item], {})
    variable = f"TRACE__{section}__{key}".upper()
    with pytest.raises(InputError, match=f"variable {variable} sets; did you mean '{meant}'"):
        load_settings(None, [], {variable: value})
    file = tmp_path / "my.toml"
    file.write_text(f"[{section}]\n{key} = {value}\n")
    with pytest.raises(InputError, match=rf"my\.toml sets; did you mean '{meant}'"):
        load_settings(file, [], {})


def test_what_resembles_nothing_gets_none() -> None:
    with pytest.raises(InputError) as caught:
        load_settings(None, ["selection.qqqq=1"], {})
    assert "did you mean" not in str(caught.value) and "trace settings" in str(caught.value)


def test_the_command_line_goes_before_the_environment_and_this_before_the_file(tmp_path: Path) -> None:
    file = tmp_path / "my.toml"
    file.write_text("[selection]\nmin_gap = 0.4\nmax_q = 0.1\nmin_alpha = 0.7\n")
    variables = {"TRACE__SELECTION__MIN_GAP": "0.5", "TRACE__SELECTION__MAX_Q": "0.2", "TRACE_SET": "x"}
    chosen = load_settings(file, ["selection.min_gap=0.6"], variables).selection
    assert (chosen.min_gap, chosen.max_q, chosen.min_alpha, chosen.min_relevant) == (0.6, 0.2, 0.7, 10)


def test_values_of_variables_are_toml_or_texts() -> None:
    variables = {
        "TRACE__EVALUATION__MERGES": '["linear", "ties"]',
        "TRACE__TARGETS__OPTIONS__USER": "scripted",
        "TRACE__TRAINING__MIXED_ARM": "false",
    }
    chosen = load_settings(None, [], variables)
    assert chosen.evaluation.merges == ("linear", "ties") and not chosen.training.mixed_arm
    assert chosen.targets.options == {"user": "scripted"}


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("TRACE__SELECTION", "1", "names no setting"),
        ("TRACE__SELECTION__", "1", "names no setting"),
        ("TRACE__SELECTION__MIN_GAP", "high", "TRACE__SELECTION__MIN_GAP is not usable"),
        ("TRACE__SELECTION__MIN_GAP__X", "1", "TRACE__SELECTION__MIN_GAP__X is not usable"),
        ("TRACE__ROLLOUTS__BASE_URL", "http://me:SECRET@h/v1", "TRACE__ROLLOUTS__BASE_URL is not usable"),
    ],
)
def test_a_wrong_variable_is_named(variable: str, value: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        load_settings(None, [], {variable: value})
    assert "SECRET" not in str(caught.value)


def test_a_child_process_works_with_the_same_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACE__SELECTION__MIN_GAP", "0.5")
    monkeypatch.setenv("TRACE__SELECTION__MAX_Q", "0.2")
    overrides = ["selection.min_gap=0.6"]
    study = Study.open(tmp_path / "home", None, overrides)
    for name, value in study.environment(None, overrides).items():
        monkeypatch.setenv(name, value)
    asked = (
        "from trace_assets.study import Study; "
        "chosen = Study.open().settings.selection; print(chosen.min_gap, chosen.max_q)"
    )
    told = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, timeout=300)
    assert told.stdout.split() == ["0.6", "0.2"], told.stderr
    assert Study.open().settings == study.settings
