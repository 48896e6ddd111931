"""A short run of the coverage-guided fuzzer, where it is installed."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

TARGET = Path(__file__).with_name("fuzz_protocol.py")
SEEDS = (
    b'{"id":1,"ok":{"messages":[{"role":"tool","content":"a"}],"done":false,"truncated":false}}',
    b'{"id":1,"ok":{"reward":1.0,"success":true,"checks":[]}}',
    b'{"id":1,"err":"environment","msg":"in step: \\u00e4"}',
    b'{"id":1,"ok":[1e999,-0,9223372036854775807,"\\ud800",NaN]}',
)


@pytest.mark.slow
def test_a_short_run_finds_nothing(tmp_path: Path) -> None:
    """Set TRACE_FUZZ_PYTHON to a Python that has atheris and this package."""
    python = os.environ.get("TRACE_FUZZ_PYTHON") or sys.executable
    if python == sys.executable and importlib.util.find_spec("atheris") is None:
        pytest.skip("atheris is not installed: see tests/sandbox/fuzz/fuzz_protocol.py")
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for number, seed in enumerate(SEEDS):
        (corpus / str(number)).write_bytes(seed)
    done = subprocess.run(
        [python, str(TARGET), "-runs=50000", "-max_len=400", "-seed=1", str(corpus)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Done 50000 runs" in done.stderr
