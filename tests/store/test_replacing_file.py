"""A file that is put in place is there whole, or as it was before."""

from __future__ import annotations

from pathlib import Path

import pytest

from trace_assets.store.files import replacing_file


def test_a_body_that_succeeds_replaces_the_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "one.json"
    for text in ("first", "second"):
        with replacing_file(target) as partial:
            assert partial.parent == tmp_path and partial.name.endswith(".partial")
            partial.write_text(text)
            assert not target.exists() or target.read_text() == "first"
        assert target.read_text() == text
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("error", [OSError("disk is full"), KeyboardInterrupt()])
def test_a_body_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path, error: BaseException) -> None:
    target = tmp_path / "one.json"
    target.write_text("old")
    with pytest.raises(type(error)), replacing_file(target) as partial:
        partial.write_text("half")
        raise error
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_whatever_name_a_file_may_have_it_can_be_replaced(tmp_path: Path) -> None:
    for name in ("x" * 255, "é" * 127, "." + "y" * 254, "a"):
        for text in ("old", "new"):
            with replacing_file(tmp_path / name) as partial:
                partial.write_text(text)
        assert (tmp_path / name).read_text() == "new"
    assert len(list(tmp_path.iterdir())) == 4
    with pytest.raises(IsADirectoryError), replacing_file(Path()):
        raise AssertionError("there is nothing to write to")
