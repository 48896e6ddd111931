from __future__ import annotations

import pytest

from trace_assets.errors import InputError
from trace_assets.settings import Training
from trace_assets.training.presets import load_preset, preset_names


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_is_a_usable_section(name: str) -> None:
    section = load_preset(name)
    own, rest = divmod(section.tasks_per_iteration, section.processes)
    assert rest == 0
    assert own * section.group_size % max(1, section.micro_batch) == 0


def test_the_tiny_preset_is_the_default() -> None:
    assert load_preset("tiny-cpu") == Training()


def test_overrides_win_and_are_checked() -> None:
    assert load_preset("qwen3-4b-1gpu", learning_rate=2e-5).learning_rate == 2e-5
    with pytest.raises(InputError, match="group_size"):
        load_preset("qwen3-4b-1gpu", group_size=1)
    with pytest.raises(InputError, match="no training preset 'huge'"):
        load_preset("huge")
