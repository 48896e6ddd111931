"""What goes to the hub: exact folders with cards, and nothing at all in a dry run."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from trace_assets.cli.main import app
from trace_assets.errors import InputError, Unavailable
from trace_assets.formats.export import write_huggingface
from trace_assets.records import Message, Trajectory
from trace_assets.serving.release.hub import Upload, stage_dataset, stage_environment, stage_uploads, upload
from trace_assets.store.trajectories import write_trajectories
from trace_assets.study import Study
from trace_assets.training.checkpoints import CONFIG, WEIGHTS
from trace_assets.workflows.release import write_release


@pytest.fixture
def released(study: Study, tmp_path: Path) -> Path:
    write_release(study, tmp_path / "out")
    return tmp_path / "out"


def test_a_repository_holds_adapter_and_card(released: Path, tmp_path: Path) -> None:
    staged = stage_uploads(released, "me", tmp_path / "hub", base_model="Qwen/Qwen3-4B")
    assert [one.repo.rpartition("-")[0] for one in staged] == ["me/cancel", "me/multi", "me/window"]
    for one in staged:
        names = sorted(path.name for path in one.folder.iterdir())
        assert names == sorted(["README.md", CONFIG, WEIGHTS]) == [name for name, _ in one.files]
        assert all((one.folder / name).stat().st_size == size for name, size in one.files)
        text = (one.folder / "README.md").read_text(encoding="utf-8")
        head, card = text.split("---\n")[1:3]
        assert yaml.safe_load(head)["base_model"] == "Qwen/Qwen3-4B"
        (own,) = (path for path in (released / "cards").iterdir() if path.stem.replace("@", "-") in one.repo)
        assert card.strip() == own.read_text(encoding="utf-8").strip()
    assert stage_uploads(released, "me", tmp_path / "hub") != []  # written anew in the same place
    assert "base_model" not in (staged[0].folder / "README.md").read_text(encoding="utf-8").split("---")[1]


def test_what_was_altered_is_not_staged(released: Path, tmp_path: Path) -> None:
    (weights,) = (released / "adapters").glob(f"cancel@*/{WEIGHTS}")
    weights.write_bytes(b"others")
    with pytest.raises(InputError, match="release again"):
        stage_uploads(released, "me", tmp_path / "hub")
    assert not (tmp_path / "hub").exists()


@pytest.mark.parametrize("owner", ["", "me/you", "a b"])
def test_an_owner_is_one_name(released: Path, tmp_path: Path, owner: str) -> None:
    with pytest.raises(InputError, match="own a repository"):
        stage_uploads(released, owner, tmp_path / "hub")


def test_a_folder_of_somebody_elses_is_left_alone(released: Path, tmp_path: Path) -> None:
    (tmp_path / "hub").mkdir()
    (tmp_path / "hub" / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="something else"):
        stage_uploads(released, "me", tmp_path / "hub")
    assert (tmp_path / "hub" / "mine.txt").read_text() == "mine"


def test_each_repository_is_made_and_pushed_as_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = pytest.importorskip("huggingface_hub")
    calls: list[tuple[str, dict[str, Any]]] = []

    class Api:
        def create_repo(self, repo: str, **options: Any) -> None:
            calls.append((repo, options))

        def upload_folder(self, **options: Any) -> Any:
            calls.append(("push", options))
            return SimpleNamespace(commit_url="https://hub/commit")

    monkeypatch.setattr(hub, "HfApi", Api)
    one = Upload("me/a", tmp_path, [])
    assert upload([one]) == ["https://hub/commit"]
    assert calls[0] == ("me/a", {"repo_type": "model", "private": True, "exist_ok": True})
    upload([Upload("me/b", tmp_path, [], "dataset")], private=False)
    assert calls[2] == ("me/b", {"repo_type": "dataset", "private": False, "exist_ok": True})
    assert calls[3][1]["repo_type"] == "dataset"
    assert (calls[1][1]["repo_id"], calls[1][1]["folder_path"]) == ("me/a", tmp_path)


def test_a_hub_that_does_not_answer_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = pytest.importorskip("huggingface_hub")

    class Api:
        def create_repo(self, repo: str, **options: Any) -> None:
            raise OSError("no route to host")

    monkeypatch.setattr(hub, "HfApi", Api)
    with pytest.raises(Unavailable, match=r"me/a could not be pushed .*no route to host.*hf auth login"):
        upload([Upload("me/a", tmp_path, [])])


def spoken(number: int, success: bool | None) -> Trajectory:
    return Trajectory(
        trajectory_id=f"run-{number}",
        task_id="t",
        task_batch="one",
        target="tau2:a|b",
        policy="gpt",
        messages=[Message(role="user", content="hello")],
        success=success,
        reward=None if success is None else float(success),
    )


def test_a_data_set_holds_the_file_and_a_card_that_counts_it(tmp_path: Path) -> None:
    file = tmp_path / "my runs.parquet"
    outcomes = [True, False, False, None]
    write_huggingface(file, [spoken(number, success) for number, success in enumerate(outcomes)])
    one = stage_dataset(file, "me", tmp_path / "hub")
    assert (one.repo, one.kind, one.folder) == ("me/my-runs", "dataset", tmp_path / "hub" / "my-runs")
    assert dict(one.files) == {path.name: path.stat().st_size for path in one.folder.iterdir()}
    assert (one.folder / "trajectories.parquet").read_bytes() == file.read_bytes()
    head, card = (one.folder / "README.md").read_text(encoding="utf-8").split("---\n", 2)[1:]
    said = yaml.safe_load(head)
    assert said["configs"] == [{"config_name": "default", "data_files": "trajectories.parquet"}]
    assert said["size_categories"] == ["n<1K"]
    assert "| tau2:a\\|b | gpt | 4 | 1 | 2 | 1 |" in card


def test_an_environment_goes_as_it_was_exported(tmp_path: Path) -> None:
    folder = tmp_path / "cancel-trl"
    (folder / "package" / "__pycache__").mkdir(parents=True)
    (folder / "README.md").write_text("# Cancel\n")
    (folder / "package" / "env.py").write_text("x = 1\n")
    (folder / "package" / "__pycache__" / "env.pyc").write_bytes(b"")
    one = stage_environment(folder, "me", tmp_path / "hub")
    assert (one.repo, one.kind) == ("me/cancel-trl", "dataset")
    assert [name for name, _ in one.files] == ["README.md", "package/env.py"]
    head, card = (one.folder / "README.md").read_text().split("---\n", 2)[1:]
    assert "environment" in yaml.safe_load(head)["tags"] and card.strip() == "# Cancel"
    assert (folder / "README.md").read_text() == "# Cancel\n"
    (folder / "README.md").write_text("---\nsdk: docker\n---\n# Cancel\n")
    again = stage_environment(folder, "me", tmp_path / "hub")
    assert (again.folder / "README.md").read_text() == (folder / "README.md").read_text()
    (folder / "README.md").unlink()
    with pytest.raises(InputError, match="no export"):
        stage_environment(folder, "me", tmp_path / "hub")


def test_the_commands_write_list_and_push_nothing_in_a_dry_run(
    study: Study, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from trace_assets.serving.release import hub

    def refuse(*_: Any, **__: Any) -> list[str]:
        raise AssertionError("pushed")

    monkeypatch.setattr(hub, "upload", refuse)
    monkeypatch.setenv("TRACE_HOME", str(study.home.path))
    write_trajectories(study.store, [spoken(0, True), spoken(1, None)], "one")
    file = tmp_path / "runs.parquet"
    words = ["export", str(file), "--format", "huggingface", "--json"]
    app([*words, "--hub", "me", "--dry-run"], standalone_mode=False)
    (one,) = json.loads(capsys.readouterr().out)["hub"]
    assert (one["repo"], one["kind"], one["commit"]) == ("me/runs", "dataset", "")
    assert Path(one["folder"], "trajectories.parquet").read_bytes() == file.read_bytes()
    with pytest.raises(InputError, match="name the owner"):
        app([*words, "--dry-run"], standalone_mode=False)
    with pytest.raises(InputError, match="--format huggingface"):
        app(["export", str(file), "--format", "atif", "--hub", "me"], standalone_mode=False)
