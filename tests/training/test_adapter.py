from __future__ import annotations

from pathlib import Path

import pytest

from trace_assets.errors import InputError
from trace_assets.store.files import replace_folder
from trace_assets.training.checkpoints import CONFIG, WEIGHTS, adapter_id


def fill(folder: Path, config: bytes = b"{}", weights: bytes = b"w") -> Path:
    folder.mkdir(parents=True)
    (folder / CONFIG).write_bytes(config)
    (folder / WEIGHTS).write_bytes(weights)
    return folder


def test_the_id_is_that_of_the_files_that_matter(tmp_path: Path) -> None:
    one = fill(tmp_path / "one")
    two = fill(tmp_path / "two")
    (two / "README.md").write_text("not part of it")
    assert adapter_id(one) == adapter_id(two)
    assert adapter_id(fill(tmp_path / "c", config=b"{ }")) != adapter_id(one)
    assert adapter_id(fill(tmp_path / "w", weights=b"v")) != adapter_id(one)


def test_a_folder_without_weights_is_refused(tmp_path: Path) -> None:
    (fill(tmp_path / "a") / WEIGHTS).unlink()
    with pytest.raises(InputError, match=WEIGHTS):
        adapter_id(tmp_path / "a")


def test_a_folder_is_replaced_whole(tmp_path: Path) -> None:
    old, new = fill(tmp_path / "adapter", weights=b"old"), fill(tmp_path / "new", weights=b"new")
    (old / "stale.txt").write_text("stale")
    replace_folder(new, old)
    assert sorted(path.name for path in old.iterdir()) == [CONFIG, WEIGHTS]
    assert (old / WEIGHTS).read_bytes() == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["adapter"]
