"""Settings: every wrong key or value is one sentence, a fingerprint follows its own section alone."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from trace_assets.errors import InputError
from trace_assets.settings import SECTIONS, Section, Settings, Training, load_settings
from trace_assets.study import Study


def test_the_file_in_the_project_states_the_defaults(project_root: Path) -> None:
    edited = ["git", "diff", "--quiet", "HEAD", "--", "trace.toml"]
    if shutil.which("git") and subprocess.run(edited, cwd=project_root, capture_output=True).returncode == 1:
        pytest.skip("trace.toml was edited here: it is its user's by now")
    assert load_settings(project_root / "trace.toml") == Settings()


@pytest.mark.parametrize("make", [Path.mkdir, lambda place: place.symlink_to("nothing")])
def test_what_lies_in_the_place_of_the_file_is_not_passed_over(
    make: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The defaults would count: Docker makes a folder where the file that it is to mount is not there."""
    monkeypatch.chdir(tmp_path)
    make(tmp_path / "trace.toml")
    with pytest.raises(InputError, match=r"trace\.toml is there and is no file"):
        load_settings()


def test_an_override_moves_one_fingerprint_only() -> None:
    plain, edited = Settings(), load_settings(None, ["selection.min_gap=0.3"])
    moved = [
        name for name in SECTIONS if plain.section(name).fingerprint() != edited.section(name).fingerprint()
    ]
    assert moved == ["selection"] and edited.selection.min_gap == 0.3


def test_a_key_that_came_later_moves_no_fingerprint_until_it_is_used() -> None:
    class Before(Section):
        old: int = 1

    class After(Before):
        added = frozenset({"new"})
        new: float = 0.1

    assert Before().fingerprint() == After().fingerprint()
    assert len({After().fingerprint(), After(new=0.2).fingerprint(), After(old=2).fingerprint()}) == 3


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("selection", "section.key=value"),
        ("selection.min_gap", "section.key=value"),
        ("nothing.here=1", "nothing"),
        ("selection.min_gap=2", "selection.min_gap"),
        ("rollouts.engine=magic", "rollouts.engine"),
        ("rollouts.trials=0", "rollouts.trials"),
        ("rollouts.trials=1e18", "rollouts.trials.*10000"),
        ("evaluation.trials=10001", "evaluation.trials.*10000"),
        (f"rollouts.trials={'9' * 5000}", "rollouts.trials"),
        ("analyst.cap_usd=inf", "analyst.cap_usd.*finite"),
        ("analyst.cached_usd=inf", "analyst.cached_usd.*finite"),
        ("selection.min_gap=nan", "selection.min_gap.*finite"),
        ("selection.min_gap=0.3\nmin_support = 1", "selection.min_gap.*number"),
        ("contrast.seed=-1", "contrast.seed.*negative"),
        ("training.seed=9223372036854775808", "training.seed.*64 bits"),
        ("rollouts.max_turns=99999999999999999999999999", "rollouts.max_turns.*64 bits"),
        ("base_model.taught_rate=1e308", "base_model.taught_rate.*less than or equal to 1"),
        ("synthesis.pass_low=-1", "synthesis.pass_low.*greater than or equal to 0"),
        ("rollouts.model=\udcff", "rollouts.model.*text"),
    ],
)
def test_wrong_overrides_are_named(override: str, words: str) -> None:
    with pytest.raises(InputError, match=f"(?s){words}"):
        load_settings(None, [override])


@pytest.mark.parametrize(
    ("text", "override"),
    [
        (f'"{"k" * 200_000}" = 1', "selection.min_gap=0.3"),
        (f'[selection]\nmin_gap = "{"x" * 200_000}"', "selection.max_q=0.3"),
        ("", f"selection.min_gap={'x' * 200_000}"),
        ("", "x" * 200_000),
        ("", "selection" + ".a" * 50_000 + "=1"),
    ],
)
def test_no_wrong_setting_hides_the_sentence_about_it(tmp_path: Path, text: str, override: str) -> None:
    (tmp_path / "trace.toml").write_text(text)
    with pytest.raises(InputError) as refused:
        load_settings(tmp_path / "trace.toml", [override], {})
    assert len(str(refused.value)) < 1500


def test_a_mark_of_utf_8_at_the_beginning_does_no_harm(tmp_path: Path) -> None:
    file = tmp_path / "trace.toml"
    file.write_bytes(b"\xef\xbb\xbf[selection]\r\nmin_gap = 0.3\r\n")
    assert load_settings(file).selection.min_gap == 0.3


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"[rollouts]\ntrials = " + b"9" * 5000, "is not valid TOML"),
        (b"a = " + b"[" * 50_000, "is not valid TOML"),
        ("[rollouts]\ntrials = 3".encode("utf-16"), "save it as UTF-8"),
    ],
    ids=["a number too long", "brackets too deep", "another encoding"],
)
def test_a_file_that_is_no_toml_is_one_sentence(tmp_path: Path, content: bytes, words: str) -> None:
    file = tmp_path / "trace.toml"
    file.write_bytes(content)
    with pytest.raises(InputError, match=words):
        load_settings(file)


def test_wrong_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.toml"):
        load_settings(tmp_path / "nowhere.toml")
    broken = tmp_path / "broken.toml"
    broken.write_text("[selection\n")
    with pytest.raises(InputError, match=r"broken\.toml.*line 1"):
        load_settings(broken)


def test_a_child_process_opens_the_same_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "my.toml"
    config.write_text("[selection]\nmin_gap = 0.4\n")
    overrides = ["selection.max_q=0.2", 'targets.name="embedded"']
    study = Study.open(tmp_path / "home", config, overrides)
    for name, value in study.environment(config, overrides).items():
        monkeypatch.setenv(name, value)
    child = Study.open()
    assert child == study and child.settings.selection.max_q == 0.2


@pytest.mark.parametrize("afterwards", ["[selection]\nmin_gap = 0.9\n", "[selecti", None])
def test_a_worker_has_the_settings_that_its_sync_began_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, afterwards: str | None
) -> None:
    """Else what it makes would be noted down as made with settings that it was not made with."""
    config = tmp_path / "my.toml"
    config.write_text("[selection]\nmin_gap = 0.4\n[rounds.settings.2.evaluation]\ntrials = 3\n")
    study = Study.open(tmp_path / "home", config, ["discovery.analyst=model"])
    for name, value in {**study.environment(config, []), **study.settings_as_they_are()}.items():
        monkeypatch.setenv(name, value)
    config.unlink() if afterwards is None else config.write_text(afterwards)
    monkeypatch.setenv("TRACE__SELECTION__MIN_GAP", "0.8")
    assert Study.open() == study and Study.open().settings.model_fields_set == study.settings.model_fields_set


@pytest.mark.parametrize("mark", ["\n", "\r", "\u2028", "\x85", "["])
def test_a_child_process_has_a_value_of_several_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mark: str
) -> None:
    overrides = [f"targets.name=a{mark}selection.min_gap=0.9", "selection.max_q=0.2"]
    study = Study.open(tmp_path, None, overrides)
    for name, value in study.environment(None, overrides).items():
        monkeypatch.setenv(name, value)
    child = Study.open()
    assert child.settings == study.settings and child.settings.selection.min_gap == 0.2
    monkeypatch.setenv("TRACE_SET", "[no JSON")
    with pytest.raises(InputError, match="TRACE_SET"):
        Study.open()


def test_a_home_that_cannot_be_made_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="TRACE_HOME"):
        Study.open(tmp_path / "file" / "home")


def test_a_home_whose_name_is_odd_is_a_folder_or_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert Study.open("~nobody-is-called-so/x").home.path == tmp_path / "~nobody-is-called-so" / "x"
    with pytest.raises(InputError, match=r"\\xff is not UTF-8"):
        Study.open(os.fsdecode(bytes(tmp_path) + b"/\xff"))


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("schedule.cron=61 2 * * *", "the minute '61' is not between 0 and 59"),
        ("schedule.timezone=Mars/Olympus", "no such time zone"),
        ("watch.interval_seconds=0", "watch.interval_seconds"),
    ],
)
def test_a_wrong_service_setting_is_named(setting: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        load_settings(None, [setting])


def test_one_model_is_asked_by_every_stage_that_names_none() -> None:
    given = ["analyst.model=m", "labels.model=own", 'discovery.analyst="model"']
    settings = load_settings(None, [*given, 'rounds.settings.2.analyst={model = "later"}'])
    asked = settings.triage.model, settings.discovery.model, settings.discovery.analyst, settings.labels.model
    assert asked == ("m", "m", "model", "own")
    written = settings.synthesis
    assert (written.model, written.judge, written.writer) == ("m", "m", "auto")
    second = settings.for_round(2, "agent")
    assert (second.triage.model, second.labels.model, second.synthesis.judge) == ("later", "own", "later")
    assert load_settings(None, ["analyst.model=m"]).triage == load_settings(None, ["triage.model=m"]).triage
    none = ["triage.model=''", "synthesis.judge=''"]
    apart = load_settings(None, ["analyst.model=m", "writer.model=w", *none])
    assert (apart.triage.model, apart.synthesis.model, apart.synthesis.judge) == ("", "w", "")
    assert load_settings(None, ["writer.model=w"]).discovery == load_settings().discovery


def test_services_feed_no_stage() -> None:
    assert not {"watch", "schedule", "automation"} & set(SECTIONS)


@pytest.mark.parametrize(
    "item",
    [
        "rollouts.base_url=http://me:SECRET@h/v1",
        "rollouts.base_url=HTTP://SECRET@h/v1",
        "rollouts.base_url=http://h/v1?token=SECRET",
        "rollouts.base_url=http://h/v1#SECRET",
        'rollouts.base_url="http://h/v1, http://me:SECRET@h/v1"',
        "rollouts.base_url=me:SECRET@h/v1",
        "analyst.base_url=//me:SECRET@h/v1",
        "writer.base_url=http://h/v1?x=SECRET",
        "training.sampler_url=http://me:SECRET@h/v1",
        'training.sampler_arguments=["--url=http://me:SECRET@h"]',
        "targets.options.user_base_url=http://me:SECRET@h/v1",
        'targets.options.deep={a = ["http://h/?api_key=SECRET"]}',
        'targets.path="https://SECRET@h/x.git"',
    ],
)
def test_no_address_in_the_settings_holds_a_secret(item: str) -> None:
    with pytest.raises(InputError) as caught:
        load_settings(None, [item])
    assert "SECRET" not in str(caught.value) and item.partition("=")[0].split(".")[1] in str(caught.value)


def test_a_default_that_moved_leaves_the_fingerprint_of_what_was_made_before() -> None:
    """Else a home that was made under the old default would be taken for up to date under the new one."""
    before, now = Training(warm_start="never"), Training()
    assert now.warm_start == "when_dead" and now.fingerprint() != before.fingerprint()
    values = {name: value for name, value in before.deciding().items() if name not in Training.added}
    text = json.dumps(values, sort_keys=True)
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == before.fingerprint(), (
        "as before the key was there"
    )
    assert "warm_start comes as 'when_dead' now" in now.moved_since(before.fingerprint(), "training")
    assert Training(warm_start="when_dead").moved_since(before.fingerprint(), "training") == ""
    other = Training(warm_start="never", iterations=3).fingerprint()
    assert now.moved_since(other, "training") == before.moved_since(other, "training") == ""
