"""A training in a container that is given the GPUs: `training.gpus = "all"` with the launcher `docker`."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.gpu.results import Asked, Skip


def run(asked: Asked) -> None:
    """Train the words in a container of this machine's own root, and ask it which device it had."""
    try:
        done = subprocess.run(["docker", "version"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        raise Skip("there is no docker command") from None
    if done.returncode:
        raise Skip(f"no Docker daemon answers ({done.stderr.strip().splitlines()[-1]})")
    from tests.training import piped_asset, word_target
    from tests.training.piped_asset import container, materialize

    root = Path(__file__).resolve().parents[3]
    os.environ["OMP_NUM_THREADS"] = "1"  # is passed on
    command = ["/usr/bin/env", f"PYTHONPATH={root}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"]
    command += [sys.executable, "-m", "tests.gpu.contained"]
    readable = [
        Path(part)
        for part in os.environ.get("PYTHONPATH", "").split(os.pathsep)
        if Path(part).is_dir() and part
    ]
    piped_asset.make_image()
    with tempfile.TemporaryDirectory(dir=asked.scratch) as scratch:
        folder = Path(scratch)
        base = word_target.write_base(folder / "base")
        request = {"name": "words", "base": str(base), "folder": str(folder / "out" / "words")}
        said = materialize(
            request,
            launcher=container(
                folder, command, readable=readable, gpus="all" if asked.device == "cuda" else ""
            ),
        )
    asked.row("devices in the container", said[0]["count"], note=said[0]["device"] or "none was asked for")
    if asked.device == "cuda" and not said[0]["count"]:
        raise RuntimeError("the container was given no GPU")
