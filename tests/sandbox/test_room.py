"""There is room for all episodes that training plays at once, however few cores there are."""

from __future__ import annotations

from pathlib import Path

import pytest

from trace_assets.resources.sandbox import sandbox_config
from trace_assets.sandbox import config as sandbox_settings
from trace_assets.study import Study


@pytest.mark.parametrize(("cores", "concurrency"), [(1, 128), (2, 128), (2, 1024), (64, 128)])
def test_training_finds_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cores: int, concurrency: int
) -> None:
    monkeypatch.setattr(sandbox_settings, "whole_cores", lambda: cores)
    config = sandbox_config(Study.open(tmp_path, None, [f"training.concurrency={concurrency}"]))
    assert (config.sandbox_limit - 1) * config.max_sessions >= concurrency
    assert config.sandbox_limit <= max(2 * cores, concurrency // config.max_sessions + 1)
