"""Training with episodes that a real vLLM plays: `TRACE_VLLM` names its program, as in tests/serving."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

PROGRAM = os.environ.get("TRACE_VLLM", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.train,
    pytest.mark.skipif(not PROGRAM, reason="TRACE_VLLM names no vLLM program; see docs/serving.md"),
]
pytest.importorskip("torch")
pytest.importorskip("trl")

from trace_assets.errors import Unavailable  # noqa: E402
from trace_assets.records import Adapter, TrainingPoint  # noqa: E402
from trace_assets.training.validation import readings  # noqa: E402

HERE = Path(__file__).parent
SHORT = {
    "iterations": 3,
    "validate_every": 3,
    "save_every": 1,
    "temperature": 0.8,
    "sampler": "server",
    "sampler_command": PROGRAM,
    "sampler_arguments": ("--max-model-len", "64"),
}


@pytest.fixture(scope="module")
def wide(words: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The base model of the words with heads that vLLM's attention takes on a CPU."""
    folder: Path = words.write_base(tmp_path_factory.mktemp("wide") / "base", head_dim=32)
    return folder


def train(
    words: ModuleType,
    base: Path,
    folder: Path,
    on_point: Callable[[TrainingPoint], None] | None = None,
    **changes: Any,
) -> tuple[Adapter, list[TrainingPoint]]:
    section = words.SECTION.model_copy(update={**SHORT, **changes})
    trained: tuple[Adapter, list[TrainingPoint]] = words.train(
        base, folder, section=section, on_point=on_point
    )
    return trained


def served_from(folder: Path) -> list[int]:
    """Return the processes whose command line names a folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if str(folder).encode() in entry.read_bytes() and int(entry.parent.name) != os.getpid():
                found.append(int(entry.parent.name))
    return found


def agree(points: list[TrainingPoint], section: Any) -> None:
    assert points
    told = [point for point in points if point.sampler_difference is not None]
    assert told, "every group was dead"
    assert max(point.sampler_difference or 0.0 for point in told) < 1e-5
    assert all(one.sound for one in readings(points, section) if one.name in ("sampler_kl", "outside_clip"))


def test_a_training_on_vllm_is_killed_with_its_server_goes_on_and_agrees(
    words: ModuleType, wide: Path, tmp_path: Path
) -> None:
    section = words.SECTION.model_copy(update=SHORT)
    code = "import sys; sys.path[:0] = sys.argv[1:3]; import word_target as w; from pathlib import Path; "
    code += "w.SECTION = type(w.SECTION).model_validate_json(sys.argv[5]); "
    code += "w.train_and_die(Path(sys.argv[3]), Path(sys.argv[4]), 3)"
    folder = tmp_path / "words"
    arguments = [str(HERE), str(HERE.parent.parent), str(wide), str(folder), section.model_dump_json()]
    died = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True)
    assert died.returncode == -signal.SIGKILL, died.stderr.decode()
    until = time.monotonic() + 600
    while served_from(wide):
        assert time.monotonic() < until, "vLLM outlives its training"
        time.sleep(0.1)
    told: list[TrainingPoint] = []
    adapter, points = train(words, wide, folder, told.append)
    assert [point.iteration for point in told] == [3]
    assert adapter.iterations == 3
    agree(points, section)
    assert not served_from(wide)


def test_a_vllm_that_is_killed_in_the_middle_of_a_batch_is_named(
    words: ModuleType, wide: Path, tmp_path: Path
) -> None:
    def kill(point: TrainingPoint) -> None:
        if point.iteration == 1:
            for process in served_from(wide):
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)

    with pytest.raises(Unavailable, match=r"no model server could be given the adapter|server has ended"):
        train(words, wide, tmp_path / "words", kill)
    assert not served_from(wide)


@pytest.mark.skipif(
    find_spec("vllm") is None, reason="this interpreter has no vLLM; make test-serve makes one"
)
def test_vllm_in_the_trainings_own_process_agrees(words: ModuleType, wide: Path, tmp_path: Path) -> None:
    adapter, points = train(words, wide, tmp_path / "words", sampler="colocate")
    assert adapter.iterations == 3
    agree(points, words.SECTION)
