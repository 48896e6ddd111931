"""What goes to the hub: exact folders with cards, and nothing at all in a dry run."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from trace_assets.errors import InputError, Unavailable
from trace_assets.serving.release.hub import Upload, stage_uploads, upload
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
    assert calls[0] == ("me/a", {"private": True, "exist_ok": True})
    assert (calls[1][1]["repo_id"], calls[1][1]["folder_path"]) == ("me/a", tmp_path)


def test_a_hub_that_does_not_answer_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = pytest.importorskip("huggingface_hub")

    class Api:
        def create_repo(self, repo: str, **options: Any) -> None:
            raise OSError("no route to host")

    monkeypatch.setattr(hub, "HfApi", Api)
    with pytest.raises(Unavailable, match=r"me/a could not be pushed .*no route to host.*hf auth login"):
        upload([Upload("me/a", tmp_path, [])])
