"""What a benchmark's own interpreter gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from trace_assets.errors import InputError
from trace_assets.targets.registry import dependencies_of, install


def test_what_a_target_never_imports_is_left_out_however_it_is_spelled(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "bench"\ndependencies = ["polars==0.20.31", "Tree_Sitter.languages>=1 ; '
        'python_version < \'3.12\'", "vertexai[x]==1.49.0"]\n',
        encoding="utf-8",
    )
    assert len(dependencies_of(tmp_path)) == 3
    assert dependencies_of(tmp_path, ("tree-sitter-languages", "vertexai")) == ["polars==0.20.31"]


def test_a_folder_that_names_no_project_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="names no project"):
        dependencies_of(tmp_path)


def test_a_folder_that_is_not_there_is_told_of_as_such(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere, which --from names, is not there: `git clone https"):
        install(tmp_path / "home", "tau2", tmp_path / "nowhere")
    with pytest.raises(InputError, match="holds no Python project"):
        install(tmp_path / "home", "tau2", tmp_path)
