"""A training in a container, as a program: the words of the tests, and which device it had."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tests.training import word_target
from trace_assets.orchestration.remote.process import answer
from trace_assets.training.plan import OnPoint


def work(request: dict[str, Any], on_point: OnPoint) -> dict[str, Any] | None:
    import torch

    there = torch.cuda.is_available()
    section = word_target.SECTION.model_copy(update={"iterations": 4, "validate_every": 4})
    word_target.train(Path(request["base"]), Path(request["folder"]), section=section, on_point=on_point)
    return {"device": torch.cuda.get_device_name(0) if there else "", "count": torch.cuda.device_count()}


if __name__ == "__main__":
    sys.exit(answer(work))
