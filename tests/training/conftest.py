"""The word target and its base model, made once for all tests of training."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from tests.training import word_target


@pytest.fixture(scope="session")
def words() -> ModuleType:
    """The module `word_target`: a target that a model of 20 thousand parameters learns in a second."""
    return word_target


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of that model; tests share it and leave it as it is."""
    return word_target.write_base(tmp_path_factory.mktemp("model") / "base")
