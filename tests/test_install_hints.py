"""What a hint tells one to install is there to be installed: the copy that is at work, with its extra."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from trace_assets import errors
from trace_assets.errors import Unavailable, install_command, require_extra


@pytest.mark.parametrize(
    ("origin", "said"),
    [
        ({"url": "file:///src/trace", "dir_info": {"editable": True}}, "pip install -e '/src/trace[train]'"),
        (
            {"url": "file:///dist/trace_assets-0.1.0-py3-none-any.whl", "archive_info": {}},
            "pip install 'trace-assets[train] @ file:///dist/trace_assets-0.1.0-py3-none-any.whl'",
        ),
        (None, "pip install 'trace-assets[train]'"),
    ],
)
def test_it_is_the_copy_that_is_at_work(
    origin: dict[str, object] | None, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = SimpleNamespace(read_text=lambda _: None if origin is None else json.dumps(origin))
    monkeypatch.setattr("importlib.metadata.distribution", lambda _: found)
    assert install_command("train") == said
    with pytest.raises(Unavailable) as told:
        require_extra("no_such_module", "train", "the test")
    assert said in str(told.value) and errors.Unavailable.exit_code == 3


@pytest.mark.skipif(not shutil.which("make"), reason="make is not there")
@pytest.mark.parametrize(
    ("index", "said"),
    [
        ("http://127.0.0.1:9/whl", "TORCH_INDEX does not answer: http://127.0.0.1:9/whl"),
        ("file:///dev/null", "TORCH_INDEX has no torch "),
    ],
)
def test_make_takes_no_gpu_build_where_a_cpu_index_was_named(
    index: str, said: str, project_root: Path, tmp_path: Path
) -> None:
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text('#!/bin/sh\ncase "$*" in *--version) exit 0;; esac; echo "asked pip: $*"; exit 1\n')
    python.chmod(0o755)
    done = subprocess.run(
        (
            "make",
            f"{tmp_path}/.torch",
            f"VENV={tmp_path}",
            f"TORCH_INDEX={index}",
        ),
        cwd=project_root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2 and said in done.stderr
    assert done.stdout.count("asked pip") == (1 if index.startswith("file") else 0)


@pytest.mark.skipif(not shutil.which("make"), reason="make is not there")
def test_make_begins_anew_where_an_environment_was_left_half_made(project_root: Path, tmp_path: Path) -> None:
    """Debian's Python without `python3-venv` makes an interpreter, says what to install, and fails."""
    half = tmp_path / "half"
    half.write_text(
        '#!/bin/sh\nif [ "$1" = -m ]; then mkdir -p "$3/bin"; ln -sf "$0" "$3/bin/python"; '
        'echo "apt install python3-venv"; exit 1; fi\n'
    )
    half.chmod(0o755)
    venv = tmp_path / "venv"

    def make() -> str:
        command = ("make", f"{venv}/.base", f"VENV={venv}", f"PYTHON={half}")
        done = subprocess.run(command, cwd=project_root, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        return done.stdout + done.stderr

    assert "apt install python3-venv" in make() and not (venv / "bin" / "python").exists()
    assert "apt install python3-venv" in make()  # not: no module named pip
    (venv / "bin" / "python").symlink_to("/bin/false")
    assert f"{venv} has no pip: remove that folder and say make again" in make()
