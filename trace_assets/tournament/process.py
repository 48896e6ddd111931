"""The whole loop in a home, in a process of its own: what a world is played by, and a control's own loop."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from trace_assets.errors import Unavailable
from trace_assets.store.files import write_text


def play_home(folder: Path, items: Sequence[str], what: str) -> None:
    """Bring the loop of a home up to date; what is finished there stays as it is.

    Args:
        folder: Holds `home` and a settings file, which is made where it is not there.
        items: Settings, each `section.key=value`.
        what: How it is called when it does not end well.

    Raises:
        Unavailable: It did not end well.
    """
    own_settings(folder)
    options = [part for item in items for part in ("--set", item)]
    # The caller's own output is the tournament's.
    ended = _trace(folder, ["demo", "--keep", *options], stdout=sys.stderr.fileno())
    # A failed check exits with 1 too: an environment that its audit rejects is a world's result like another.
    if ended.returncode == 1 and not _due(folder, options):
        return
    if ended.returncode:
        raise Unavailable(
            f"{what} ended with exit code {ended.returncode}; what it made is kept in {folder}, "
            "and the same command goes on."
        )


def own_settings(folder: Path) -> Path:
    """Return the settings file of a home, made empty: one of the caller's folder has no say there."""
    config = folder / "trace.toml"
    if not config.is_file():
        write_text(config, "")
    return config


def toml(value: object) -> str:
    """Write a value as TOML, in one line.

    >>> toml({"a": [1, 2.5, True], "b c": "x"})
    '{"a" = [1, 2.5, true], "b c" = "x"}'
    """
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value)


def _due(folder: Path, options: Sequence[str]) -> bool:
    """Whether anything of a world is still to be made; what cannot be told is."""
    looked = _trace(folder, ["sync", "--dry-run", "--json", *options], stdout=subprocess.PIPE)
    return looked.returncode != 0 or bool(json.loads(looked.stdout)["due"])


def _trace(folder: Path, words: Sequence[str], stdout: int) -> subprocess.CompletedProcess[bytes]:
    surroundings = {name: value for name, value in os.environ.items() if not name.startswith("TRACE_")}
    surroundings |= {name: os.environ[name] for name in ("TRACE_DOCKER_DIR",) if name in os.environ}
    return subprocess.run(
        [sys.executable, "-m", "trace_assets", *words, "--config", str(folder / "trace.toml")],
        env={**surroundings, "TRACE_HOME": str(folder / "home")},
        cwd=folder,
        stdout=stdout,
        check=False,
    )
