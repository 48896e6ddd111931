"""A release holds what may be served, says what is known of it, and is the same bytes every time."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.quick import one_of_each
from tests.serving.release.conftest import fit_router, make_study
from trace_assets.errors import CheckFailed, InputError
from trace_assets.records import Adapter, ArmSummary, BaseCheckpoint, CompositionChoice, NoHarm
from trace_assets.report.data import ReportData
from trace_assets.resources.policy import enter
from trace_assets.serving.release.manifest import read_release
from trace_assets.study import Study
from trace_assets.training.checkpoints import adapter_id
from trace_assets.workflows.release import write_release


def contents(folder: Path) -> dict[str, bytes]:
    return {
        file.relative_to(folder).as_posix(): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def test_it_holds_what_a_router_may_choose(study: Study, tmp_path: Path) -> None:
    release = write_release(study, tmp_path / "out")
    assert read_release(tmp_path / "out") == release
    assert [one.name for one in release.adapters] == ["cancel", "multi", "window"]  # not the mixed arm
    for one in release.adapters:
        assert one.served_as == f"{one.name}@{one.adapter_id[:8]}"
        source = study.home.path / "models" / one.name
        assert contents(tmp_path / "out" / one.folder) == contents(source)
        assert one.validation_after.n == 64 and one.validation_before.low < one.validation_before.value
        assert one.no_harm is not None and one.no_harm.verdict == "harmful"
    assert release.models["none"] == "base" and list(release.router.options)[-1] == "none"
    assert (tmp_path / "out/base/config.json").is_file() and not (
        tmp_path / "out/base/training.json"
    ).exists()


def test_every_file_is_in_the_manifest(study: Study, tmp_path: Path) -> None:
    write_release(study, tmp_path / "out")
    told = json.loads((tmp_path / "out/manifest.json").read_text())["files"]
    found = {name: hashlib.sha256(data).hexdigest() for name, data in contents(tmp_path / "out").items()}
    del found["manifest.json"]
    assert told == found
    assert {"README.md", "compose.yaml", "serve.sh", "adapters.json", "router/router.json"} <= set(found)


def test_the_same_study_gives_the_same_bytes(study: Study, complete: ReportData, tmp_path: Path) -> None:
    write_release(study, tmp_path / "one")
    write_release(make_study(tmp_path / "elsewhere" / "home", complete), tmp_path / "other" / "two")
    assert contents(tmp_path / "one") == contents(tmp_path / "other" / "two")
    assert not [name for name, data in contents(tmp_path / "one").items() if str(tmp_path).encode() in data]


def test_another_adapter_has_another_name(study: Study, tmp_path: Path) -> None:
    before = write_release(study, tmp_path / "out").models["cancel"]
    (study.home.path / "models/cancel/adapter_model.safetensors").write_bytes(b"trained again")
    with pytest.raises(InputError, match="was altered: it is"):
        write_release(study, tmp_path / "out")
    assert read_release(tmp_path / "out").models["cancel"] == before  # the earlier release stands
    assert not list(tmp_path.glob(".out*"))


def test_an_earlier_release_is_replaced_and_nothing_else(study: Study, tmp_path: Path) -> None:
    write_release(study, tmp_path / "out")
    write_release(study, tmp_path / "out")
    (tmp_path / "out/notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"something else than a release \('notes\.txt'\)"):
        write_release(study, tmp_path / "out")
    other = tmp_path / "other"
    other.mkdir()
    (other / "file").write_text("mine")
    with pytest.raises(InputError, match="something else"):
        write_release(study, other)
    with pytest.raises(InputError, match="is no folder"):
        write_release(study, other / "file")
    assert (other / "file").read_text() == "mine" and (tmp_path / "out/notes.txt").read_text() == "mine"


def test_where_no_folder_can_be_is_told(study: Study, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for where in (tmp_path / "file" / "out", tmp_path / "file" / "a" / "out", tmp_path / ("x" * 300)):
        with pytest.raises(InputError, match=r"cannot be made \((File exists|Not a directory|File name too)"):
            write_release(study, where)
    assert (tmp_path / "file").read_text() == "mine"


def test_a_barred_adapter_is_left_out(study: Study, tmp_path: Path) -> None:
    rows = study.store.read(NoHarm)
    barred = [
        row.model_copy(update={"own_delta_low": -0.1}) if row.adapter == "multi" else row for row in rows
    ]
    study.store.write(barred, NoHarm)
    with pytest.raises(InputError, match="trace sync --select routing"):
        write_release(study, tmp_path / "out")
    fit_router(study, ("cancel", "window"))
    assert [one.name for one in write_release(study, tmp_path / "out").adapters] == ["cancel", "window"]


def test_without_an_adapter_there_is_nothing_to_release(study: Study, tmp_path: Path) -> None:
    rows = [row.model_copy(update={"validation_after_low": 0.0}) for row in study.store.read(Adapter)]
    study.store.write(rows, Adapter)
    with pytest.raises(CheckFailed, match="is not shown to improve"):
        write_release(study, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_card_says_what_is_known(study: Study, tmp_path: Path) -> None:
    rows = [
        row.model_copy(update={"rejected": "dead groups", "recomputed": 9, "recomputed_of": 10})
        if row.name == "window"
        else row
        for row in study.store.read(Adapter)
    ]
    study.store.write(rows, Adapter)
    release = write_release(study, tmp_path / "out")
    cards = {one.name: (tmp_path / "out" / one.card).read_text() for one in release.adapters}
    card = cards["cancel"]
    assert card.startswith("# Looks up an order before cancelling it\n")
    assert "`env-cancel`, written by recipe:cancel" in card
    assert "7 checks passed, 0 failed, 1 were skipped (severity policy 2)" in card
    assert "on 64 held-out episodes" in card and "Verdict: **harmful**" in card
    (overall,) = [
        row for row in study.store.read(ArmSummary) if (row.arm, row.skill) == ("adapter:cancel", "all")
    ]
    assert overall.n_faults > 0 and overall.pass_rate is not None
    counts = f"| all | {overall.n_tasks} | {overall.n_trials} | {overall.n_faults} |"
    assert f"{counts} {100 * overall.pass_rate:.1f} % [" in card
    # 40 labelled trajectories, one of which by two passes that differ.
    assert "40 trajectories of 20 tasks were labelled by detectors" in card
    counted = [
        int(cell)
        for line in card.splitlines()
        if re.match(r"\| (passed|failed|unjudged)", line)
        for cell in line.split("|")[2:6]
    ]
    assert sum(counted) == 40 and sum(counted[3::4]) == 1
    assert "the audit rejected" not in card.lower()
    assert "and it was trained on all the same:** dead groups" in cards["window"]
    assert "failed, error: `trace.dead_groups`, required &lt;= 0.6, found 0.7 (n = 64)" in cards["window"]
    assert (
        "of 10 episodes that were played again in fresh sandboxes, 9 gave the same verdict" in cards["window"]
    )
    assert "Finishes every request of a message &lt;b>" in cards["multi"]


def test_the_page_shows_the_arms_with_their_n(study: Study, tmp_path: Path) -> None:
    write_release(study, tmp_path / "out")
    page = (tmp_path / "out/README.md").read_text()
    overall = {row.arm: row for row in study.store.read(ArmSummary) if row.skill == "all"}
    assert len(overall) == 7
    for arm, row in overall.items():
        assert f"| {arm} | {row.n_tasks} | {row.n_trials} | {row.n_faults} |" in page
    assert "trace router --bundle ." in page and "BASE_MODEL" not in page


def run_script(folder: Path, tmp_path: Path, *arguments: str, **variables: str) -> list[str]:
    """Run `serve.sh` with a program that prints its arguments."""
    program = tmp_path / "vllm"
    program.write_text('#!/bin/sh\npwd\nfor word in "$@"; do echo "$word"; done\n')
    program.chmod(0o755)
    done = subprocess.run(
        ["sh", str(folder / "serve.sh"), *arguments],
        env={"PATH": os.environ["PATH"], "VLLM": str(program), **variables},
        cwd="/",
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_launch_script_serves_from_wherever_it_lies(study: Study, tmp_path: Path) -> None:
    release = write_release(study, tmp_path / "out")
    moved = tmp_path / "moved here"
    (tmp_path / "out").rename(moved)
    words = run_script(moved, tmp_path, "--port", "9000")
    assert words[:5] == [str(moved), "serve", "base", "--served-model-name", "base"]
    place = words.index("--lora-modules") + 1
    modules = dict(word.split("=") for word in words[place : place + 3])
    assert modules == {one.served_as: one.folder for one in release.adapters}
    assert all((moved / folder / "adapter_config.json").is_file() for folder in modules.values())
    assert words[-2:] == ["--port", "9000"] and words.count("--port") == 2
    assert run_script(moved, tmp_path, BASE_MODEL="org/model")[2] == "org/model"


def name_base(study: Study, folder: Path) -> None:
    """Make the base model one that was not trained in the study but lies in a folder."""
    shutil.move(study.home.path / "models/base", folder)
    (folder / "training.json").unlink()
    rows = study.store.read(BaseCheckpoint)
    study.store.write([row.model_copy(update={"path": str(folder)}) for row in rows], BaseCheckpoint)


def test_a_base_model_from_elsewhere_is_named(study: Study, tmp_path: Path) -> None:
    name_base(study, tmp_path / "their-model")
    release = write_release(study, tmp_path / "out")
    assert release.base.folder == "" and release.base.model == "their-model"
    assert not (tmp_path / "out/base").exists()
    assert run_script(tmp_path / "out", tmp_path, BASE_MODEL="/m")[2] == "/m"
    bare = subprocess.run(["sh", str(tmp_path / "out/serve.sh")], capture_output=True, text=True, env={})
    assert bare.returncode != 0 and "set BASE_MODEL" in bare.stderr
    composed = yaml.safe_load((tmp_path / "out/compose.yaml").read_text())
    for service in composed["services"].values():
        assert service["environment"]["BASE_MODEL"] == "/base"
        assert any(volume.endswith(":/base:ro") for volume in service["volumes"])


def test_the_compose_file_starts_a_server_and_a_router(study: Study, tmp_path: Path) -> None:
    write_release(study, tmp_path / "out")
    composed = yaml.safe_load((tmp_path / "out/compose.yaml").read_text())
    services = composed["services"]
    assert set(services) == {"vllm", "router"} and all("healthcheck" in one for one in services.values())
    assert services["router"]["depends_on"] == {"vllm": {"condition": "service_healthy"}}
    assert "http://vllm:8000/v1" in services["router"]["command"]
    assert (tmp_path / "out" / services["router"]["build"]["context"] / "Dockerfile").is_file()
    assert "trace-assets[train]==" in services["router"]["build"]["args"]["TRACE_PACKAGE"]


COMPOSE = {"plugin": ["docker", "compose"], "program": ["docker-compose"]}


def answers(command: list[str]) -> bool:
    """Tell whether a way to call Compose is there."""
    asked = shutil.which(command[0]) and subprocess.run([*command, "version"], capture_output=True)
    return bool(asked) and asked.returncode == 0


@pytest.mark.parametrize("form", COMPOSE)
@pytest.mark.parametrize("base", one_of_each(["trained", "named"]))
def test_compose_takes_the_files(form: str, base: str, study: Study, tmp_path: Path) -> None:
    """The plugin of Docker (version 2) and the program of its own (version 1, as Debian 12 has it)."""
    command = COMPOSE[form]
    if not answers(command):
        pytest.skip(f"{' '.join(command)} is not installed")
    given = {}
    if base == "named":
        given["BASE_MODEL"] = str(tmp_path / "their-model")
        name_base(study, tmp_path / "their-model")
    write_release(study, tmp_path / "out")

    def config(files: list[str], variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
        own = {name: value for name, value in os.environ.items() if name != "BASE_MODEL"}
        return subprocess.run(
            [*command, *(word for file in files for word in ("-f", file)), "config"],
            cwd=tmp_path / "out",
            env={**own, **variables},
            capture_output=True,
            text=True,
            timeout=900,
        )

    for files in (["compose.yaml"], ["compose.yaml", "compose.gpu.yaml"]):
        done = config(files, given)
        assert done.returncode == 0, done.stderr
        services = yaml.safe_load(done.stdout)["services"]
        assert set(services) == {"vllm", "router"}
        assert ("deploy" in services["vllm"]) == (len(files) == 2)
    if base == "named":
        forgotten = config(["compose.yaml"], {})
        assert forgotten.returncode != 0 and "BASE_MODEL" in forgotten.stderr


@pytest.mark.parametrize(
    "name",
    [
        *("models/base/model.safetensors", "models/base/config.json", "models/router/router.json"),
        *("models/cancel/adapter_model.safetensors", "tables/no_harm/all.parquet"),
    ],
)
def test_what_was_altered_is_not_released(name: str, study: Study, tmp_path: Path) -> None:
    enter(study, study.home.models / "router")
    file = study.home.path / name
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(InputError, match=r"altered|cannot be read"):
        write_release(study, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_altered_file_of_a_release_is_named_and_nothing_is_served(study: Study, tmp_path: Path) -> None:
    write_release(study, tmp_path / "out")
    (tmp_path / "out/base/model.safetensors").write_text("other")
    done = subprocess.run(["sh", str(tmp_path / "out/serve.sh")], capture_output=True, text=True)
    assert done.returncode != 0 and "base/model.safetensors" in done.stderr and not done.stdout


@pytest.mark.parametrize(
    ("damage", "word"), [("adapters.json", "cancel"), ("manifest.json", "trace release")]
)
def test_a_release_that_was_changed_is_not_served(
    damage: str, word: str, study: Study, tmp_path: Path
) -> None:
    write_release(study, tmp_path / "out")
    file = tmp_path / "out" / damage
    file.write_text(file.read_text().replace(word, "other"))
    with pytest.raises(InputError, match="release"):
        read_release(tmp_path / "out")
    with pytest.raises(InputError, match="is no release"):
        read_release(tmp_path)


def test_what_validation_chose_is_in_it_and_answers(study: Study, tmp_path: Path) -> None:
    (mixed,) = [row for row in study.store.read(Adapter) if row.kind == "mixed"]
    folder = study.home.models / "joint"
    folder.mkdir()
    (folder / "adapter_config.json").write_text('{"r": 8, "of": "joint"}')
    (folder / "adapter_model.safetensors").write_bytes(b"joint" * 40)
    row = mixed.model_copy(
        update={"name": "joint", "kind": "joint", "path": "models/joint", "adapter_id": adapter_id(folder)}
    )
    study.store.write([row], Adapter, "joint_adapters")
    rate = {"pass_rate": 0.5, "pass_rate_low": 0.4, "pass_rate_high": 0.6, "n_tasks": 9, "n_trials": 9}
    behind = {"behind": 0.1, "behind_low": 0.05, "behind_high": 0.15, "refused": ""}
    none = {"behind": None, "behind_low": None, "behind_high": None, "refused": ""}
    study.store.write(
        [
            CompositionChoice(arm="routed", chosen=False, runner_up=True, **rate, **behind),
            CompositionChoice(arm="joint", chosen=True, runner_up=False, **rate, **none),
        ],
        CompositionChoice,
    )
    release = write_release(study, tmp_path / "out")
    assert [one.name for one in release.together] == ["joint"] and release.choice.arm == "joint"
    served = release.together[0].served_as
    assert set(release.models.values()) == {served}
    assert contents(tmp_path / "out" / release.together[0].folder) == contents(folder)
    assert f"{served}=adapters/{served}" in (tmp_path / "out/serve.sh").read_text()
    said = (tmp_path / "out/README.md").read_text()
    assert "**joint**; validation chooses 'joint': 50.0 %" in said and "+10.0" in said
